package desktop_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/internal/testx11"
)

// settles waits for a screen with an animation, and checks that there is one of at most
// that size, within a window.
func settles(t *testing.T, d *desktop.Desktop, quiet time.Duration, most desktop.Size) desktop.Settled {
	t.Helper()
	r, err := d.Settle(t.Context(), quiet, time.Minute)
	if err != nil || !r.Quiet {
		t.Fatalf("Settle: %+v, %v", r, err)
	}
	for _, a := range r.Animating {
		if a.Width > most.Width || a.Height > most.Height {
			t.Errorf("an animation at %+v, want at most %+v", a, most)
		}
	}
	return r
}

func launch(t *testing.T, d *desktop.Desktop, app string, args ...string) {
	t.Helper()
	testx11.Require(t, app)
	r, err := d.Launch(t.Context(), desktop.Launch{App: app, Args: args, Wait: true})
	if err != nil || r.Window == 0 {
		t.Fatalf("launch %s: %+v, %v", app, r, err)
	}
}

// animates settles until an animation is named.
func animates(t *testing.T, d *desktop.Desktop, quiet time.Duration, most desktop.Size) desktop.Settled {
	t.Helper()
	for range 10 { // a busy machine may draw too rarely
		if r := settles(t, d, quiet, most); len(r.Animating) > 0 {
			return r
		}
	}
	t.Fatal("no animation was named")
	return desktop.Settled{}
}

func TestSettleCaret(t *testing.T) {
	t.Parallel()
	d := start(t, desktop.Config{})
	launch(t, d, "xterm", "-bc", "-bcn", "300", "-bcf", "300")
	animates(t, d, 4*time.Second, desktop.Size{Width: 30, Height: 40})
}

func TestSettleProgress(t *testing.T) {
	t.Parallel()
	d := start(t, desktop.Config{})
	testx11.Require(t, "zenity")
	launch(t, d, "sh", "-c", "sleep 100 | zenity --progress --pulsate")
	animates(t, d, 200*time.Millisecond, desktop.Size{Width: 300, Height: 40})
}

func TestSettlePage(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]string{
		"spinner": `<style>@keyframes turn { to { transform: rotate(360deg) } }
#s { width: 16px; height: 16px; border: 3px solid #ccc; border-top-color: #00f; border-radius: 50%; animation: turn 1s linear infinite }</style><div id=s></div>`,
		"clock": `<p id=c></p><script>setInterval(() => c.textContent = new Date().toISOString(), 100)</script>`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := start(t, desktop.Config{})
			file := filepath.Join(t.TempDir(), "page.html")
			if err := os.WriteFile(file, []byte("<!doctype html>"+body), 0o600); err != nil {
				t.Fatal(err)
			}
			launch(t, d, "chromium", "--app=file://"+file)
			// A shorter wait may end between two ticks of the clock.
			animates(t, d, time.Second, desktop.Size{Width: 400, Height: 120})
			r, err := d.Screenshot(t.Context(), desktop.ScreenshotOptions{Settle: 200 * time.Millisecond, SettleTimeout: time.Minute, Scale: 0.5})
			if err != nil || !r.Settled.Quiet {
				t.Fatalf("picture: %+v, %v", r, err)
			}
			for i, part := range r.Animating() {
				if a := r.Settled.Animating[i]; part.X != a.X/2 || part.Width > a.Width/2+2 {
					t.Errorf("animation at %+v in the picture, %+v on the screen", part, a)
				}
			}
		})
	}
}

// TestSettleIdle: a short time without changes suffices if no program does anything.
func TestSettleIdle(t *testing.T) {
	t.Parallel()
	d := start(t, desktop.Config{})
	xterm(t, d)
	if r := settles(t, d, 10*time.Second, desktop.Size{}); r.Elapsed >= 10*time.Second {
		t.Errorf("an idle screen took %v", r.Elapsed)
	}
}

// TestSettleBusy: Settle waits for a program that computes before it shows something.
func TestSettleBusy(t *testing.T) {
	t.Parallel()
	d := start(t, desktop.Config{})
	launch(t, d, "xterm", "-e", `i=0; read line; while [ $i -lt 60000 ]; do i=$((i+1)); done; seq 30; read line`)
	settles(t, d, 200*time.Millisecond, desktop.Size{Width: 30, Height: 40})
	before, err := d.Screenshot(t.Context(), desktop.ScreenshotOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Press(t.Context(), desktop.Press{Keys: "Return"}); err != nil {
		t.Fatal(err)
	}
	settles(t, d, 200*time.Millisecond, desktop.Size{Width: 30, Height: 40})
	after, err := d.Screenshot(t.Context(), desktop.ScreenshotOptions{Since: before.ID})
	if err != nil {
		t.Fatal(err)
	}
	height := 0
	for _, r := range after.Changed {
		height += r.Height
	}
	if height < 200 {
		t.Errorf("only %v changed before the program was taken for idle", after.Changed)
	}
}
