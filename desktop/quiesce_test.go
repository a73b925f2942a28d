package desktop_test

import (
	"syscall"
	"testing"
	"time"

	"github.com/deskhand/deskhand/desktop"
)

// TestNoQuiesce sends a key after a click while the program that got the click
// hangs. The key waits for the program, unless Config.NoQuiesce is set.
func TestNoQuiesce(t *testing.T) {
	t.Parallel()
	took := func(cfg desktop.Config) time.Duration {
		d := start(t, cfg)
		app, err := d.Launch(t.Context(), desktop.Launch{App: "xterm", Wait: true})
		if err != nil {
			t.Fatal(err)
		}
		w, err := d.FocusWindow(t.Context(), app.Window)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := d.Move(t.Context(), desktop.Move{At: desktop.Point{X: w.Bounds.X + 20, Y: w.Bounds.Y + 20}}); err != nil {
			t.Fatal(err)
		}
		signal(t, w.PID, syscall.SIGSTOP)
		defer signal(t, w.PID, syscall.SIGCONT)
		begin := time.Now()
		if _, err := d.Click(t.Context(), desktop.Click{}); err != nil {
			t.Fatal(err)
		}
		if err := d.Press(t.Context(), desktop.Press{Keys: "a"}); err != nil {
			t.Fatal(err)
		}
		return time.Since(begin)
	}
	waits, goesOn := took(desktop.Config{}), took(desktop.Config{NoQuiesce: true})
	if waits < time.Second {
		t.Errorf("a key waited %v for a program that hangs, want 2 s", waits)
	}
	if goesOn > waits/2 {
		t.Errorf("a key waited %v with NoQuiesce, and %v without", goesOn, waits)
	}
}
