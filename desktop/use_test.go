package desktop_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"image/png"
	"math"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/internal/testx11"
)

func TestScaledPictureCoordinates(t *testing.T) {
	t.Parallel()
	d := start(t, desktop.Config{Size: desktop.Size{Width: 1001, Height: 703}})
	ctx := t.Context()
	for _, shot := range []desktop.ScreenshotOptions{
		{},
		{Scale: 0.75},
		{Scale: 0.5},
		{Scale: 1.0 / 3},
		{Scale: 0.1},
		{Region: &desktop.Rect{X: 100, Y: 50, Width: 333, Height: 222}, Scale: 0.4},
	} {
		pic, err := d.Screenshot(ctx, shot)
		if err != nil {
			t.Fatal(err)
		}
		cfg, err := png.DecodeConfig(bytes.NewReader(pic.Data))
		if err != nil || cfg.Width != pic.Size.Width || cfg.Height != pic.Size.Height {
			t.Fatalf("picture is %dx%d (%v), says %v", cfg.Width, cfg.Height, err, pic.Size)
		}
		fx := float64(pic.Region.Width) / float64(pic.Size.Width)
		fy := float64(pic.Region.Height) / float64(pic.Size.Height)
		for _, p := range []desktop.Point{{X: 0, Y: 0}, {X: pic.Size.Width - 1, Y: pic.Size.Height - 1}, {X: pic.Size.Width / 3, Y: pic.Size.Height / 2}} {
			got, err := d.Click(ctx, desktop.Click{At: &p, Observation: pic.ID})
			if err != nil {
				t.Fatal(err)
			}
			// The centre of the picture's pixel, on the screen.
			x := float64(pic.Region.X) + (float64(p.X)+0.5)*fx - 0.5
			y := float64(pic.Region.Y) + (float64(p.Y)+0.5)*fy - 0.5
			if math.Abs(float64(got.X)-x) > 1 || math.Abs(float64(got.Y)-y) > 1 {
				t.Errorf("scale %v: %v in the picture clicked %v, want %.1f,%.1f", shot.Scale, p, got.Point, x, y)
			}
		}
	}
}

func TestUnchanged(t *testing.T) {
	t.Parallel()
	d := start(t, desktop.Config{})
	ctx := t.Context()
	first, err := d.Screenshot(ctx, desktop.ScreenshotOptions{Settle: 100 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	same, err := d.Screenshot(ctx, desktop.ScreenshotOptions{IfChangedSince: first.ID})
	if err != nil || !same.Unchanged || same.Data != nil {
		t.Fatalf("second picture: unchanged %v, %d bytes, %v", same.Unchanged, len(same.Data), err)
	}
	if other, err := d.Screenshot(ctx, desktop.ScreenshotOptions{IfChangedSince: first.ID, Format: desktop.JPEG}); err != nil || other.Unchanged {
		t.Errorf("another format counted as unchanged (%v)", err)
	}
	xterm(t, d)
	changed, err := d.Screenshot(ctx, desktop.ScreenshotOptions{IfChangedSince: first.ID})
	if err != nil || changed.Unchanged {
		t.Fatalf("picture with a new window counted as unchanged (%v)", err)
	}
	if changed.Damage <= first.Damage {
		t.Errorf("damage %d after %d", changed.Damage, first.Damage)
	}
}

func TestSettle(t *testing.T) {
	t.Parallel()
	testx11.Require(t, "xterm")
	d := start(t, desktop.Config{})
	if r, err := d.Settle(t.Context(), 50*time.Millisecond, 10*time.Second); err != nil || !r.Quiet {
		t.Fatalf("empty desktop did not settle: %+v, %v", r, err)
	}
	if _, err := d.Launch(t.Context(), desktop.Launch{App: "xterm", Args: []string{"-e", "while :; do date +%N; done"}, Wait: true}); err != nil {
		t.Fatal(err)
	}
	for try := range 10 { // on a busy machine the terminal may not change for a while
		r, err := d.Settle(t.Context(), 300*time.Millisecond, time.Second)
		if err != nil {
			t.Fatal(err)
		}
		if !r.Quiet {
			return
		}
		t.Logf("try %d: a scrolling terminal settled", try)
	}
	t.Error("a scrolling terminal settled, whenever it was looked at")
}

func TestParallelScreenshots(t *testing.T) {
	t.Parallel()
	d := start(t, desktop.Config{})
	xterm(t, d)
	var wg sync.WaitGroup
	for i := range 30 {
		wg.Go(func() {
			shot := desktop.ScreenshotOptions{Format: []desktop.Format{desktop.PNG, desktop.JPEG, desktop.WebP}[i%3], Cursor: desktop.CursorStyle([]string{"", "crosshair", "pointer"}[i/3%3])}
			if i%5 == 0 {
				shot.Scale = 0.5
			}
			if pic, err := d.Screenshot(t.Context(), shot); err != nil || len(pic.Data) == 0 {
				t.Errorf("screenshot %d: %v", i, err)
			}
		})
	}
	wg.Wait()
}

func TestEvents(t *testing.T) {
	t.Parallel()
	d := start(t, desktop.Config{ID: "eventful"})
	sub, slow := d.Subscribe(0), d.Subscribe(0)
	defer sub.Close()
	defer slow.Close()
	ctx := desktop.WithActor(t.Context(), desktop.Actor{Kind: desktop.ActorAgent, Name: "ann"})
	xterm(t, d)
	opened := await(t, sub, "window opened", ofType(desktop.EventWindowOpened))
	if opened.Window == nil || opened.Window.Class != "XTerm" || opened.Desktop != "eventful" {
		t.Errorf("opened %+v of %+v", opened.Window, opened)
	}
	if err := d.Type(ctx, desktop.Type{Text: "hunter2", Secret: true}); err != nil {
		t.Fatal(err)
	}
	typed := await(t, sub, "typing", func(e desktop.Event) bool { return e.Type == desktop.EventAction && e.Action.Name == "type" })
	if a := typed.Action; a.Text != "" || a.Length != 7 || a.Actor.Name != "ann" {
		t.Errorf("secret typing shows as %+v", a)
	}
	if err := d.SetClipboard(ctx, desktop.Content{Data: []byte("x")}); err != nil {
		t.Fatal(err)
	}
	if e := await(t, sub, "clipboard", ofType(desktop.EventClipboardChanged)); e.Selection != desktop.Clipboard {
		t.Errorf("clipboard event %+v", e)
	}
	if err := d.Resize(ctx, desktop.Size{Width: 1024, Height: 768}); err != nil {
		t.Fatal(err)
	}
	if e := await(t, sub, "resize", ofType(desktop.EventResized)); *e.Size != (desktop.Size{Width: 1024, Height: 768}) {
		t.Errorf("resized to %v", e.Size)
	}
	if pic, err := d.Screenshot(ctx, desktop.ScreenshotOptions{}); err != nil || pic.Size.Width != 1024 {
		t.Errorf("screenshot after the resize: %v, %v", pic.Size, err)
	}
	var last uint64
	for i := range 2000 { // more than are kept
		if _, err := d.Move(ctx, desktop.Move{At: desktop.Point{X: i % 100, Y: 5}}); err != nil {
			t.Fatal(err)
		}
	}
	gap := await(t, slow, "gap", ofType(desktop.EventGap))
	last = gap.Seq
	e := await(t, slow, "event after the gap", func(desktop.Event) bool { return true })
	if gap.Dropped == 0 || e.Seq != last+1 {
		t.Errorf("gap %+v, then %d", gap, e.Seq)
	}
}

func TestActionCutShort(t *testing.T) {
	t.Parallel()
	d := start(t, desktop.Config{})
	xterm(t, d)
	sub := d.Subscribe(0)
	defer sub.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second) // by then it has begun
	defer cancel()
	text := strings.Repeat("x", 5000)
	if err := d.Type(ctx, desktop.Type{Text: text, Delay: 100 * time.Millisecond}); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "of 5000 characters") {
		t.Errorf("typing with an ended context: %v", err)
	}
	e := await(t, sub, "the action", ofType(desktop.EventAction))
	if a := e.Action; a.Name != "type" || a.Error == "" || a.Length != 5000 || len(a.Text) != 4096 {
		t.Errorf("typing that was cut short shows as %q, error %q, %d characters of %d", a.Name, a.Error, len(a.Text), a.Length)
	}
	// An action without an effect has no event.
	if _, err := d.FocusWindow(t.Context(), 7); err == nil {
		t.Error("focused a window that is not there")
	}
	if _, err := d.Move(t.Context(), desktop.Move{}); err != nil {
		t.Fatal(err)
	}
	if e := await(t, sub, "the next action", ofType(desktop.EventAction)); e.Action.Name != "move" {
		t.Errorf("next action %+v", e.Action)
	}
}

// TestEventOrder sends input from several goroutines: the events are in the order of the
// input.
func TestEventOrder(t *testing.T) {
	t.Parallel()
	d := start(t, desktop.Config{})
	sub := d.Subscribe(0)
	defer sub.Close()
	var callers sync.WaitGroup
	for i := range 4 {
		callers.Go(func() {
			for n := range 50 {
				if _, err := d.Move(t.Context(), desktop.Move{At: desktop.Point{X: 100*i + n, Y: n}}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	callers.Wait()
	p, err := d.Pointer(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var last desktop.Event
	for range 200 {
		e := await(t, sub, "a move", ofType(desktop.EventAction))
		if e.Seq <= last.Seq || e.Time.Before(last.Time) {
			t.Errorf("event %d at %v after %d at %v", e.Seq, e.Time, last.Seq, last.Time)
		}
		last = e
	}
	if *last.Action.At != p.Point {
		t.Errorf("last move of the events is to %v, the pointer is at %v", *last.Action.At, p.Point)
	}
}

func TestPolicy(t *testing.T) {
	t.Parallel()
	denied := errors.New("ann has control")
	d := start(t, desktop.Config{Policy: func(_ context.Context, a desktop.Action) error {
		if a.Actor.Name == "bob" {
			return denied
		}
		return nil
	}})
	bob := desktop.WithActor(t.Context(), desktop.Actor{Kind: desktop.ActorAgent, Name: "bob"})
	if _, err := d.Move(bob, desktop.Move{At: desktop.Point{X: 1, Y: 1}}); !errors.Is(err, denied) {
		t.Errorf("bob moved: %v", err)
	}
	if _, err := d.Screenshot(bob, desktop.ScreenshotOptions{}); err != nil {
		t.Errorf("bob may look: %v", err)
	}
	if _, err := d.Move(t.Context(), desktop.Move{At: desktop.Point{X: 1, Y: 1}}); err != nil {
		t.Errorf("others may move: %v", err)
	}
}

func TestLaunch(t *testing.T) {
	t.Parallel()
	d := start(t, desktop.Config{})
	ctx := t.Context()
	begin := time.Now()
	app, err := d.Launch(ctx, desktop.Launch{App: "sh", Args: []string{"-c", "exit 7"}, Wait: true})
	if err != nil || !app.Exited || app.ExitCode != 7 || time.Since(begin) > 5*time.Second {
		t.Errorf("early exit: %+v, %v after %v", app, err, time.Since(begin))
	}
	if _, err := d.Launch(ctx, desktop.Launch{App: "no-such-program"}); !errors.Is(err, desktop.ErrAppNotFound) {
		t.Errorf("unknown program: %v", err)
	}
	if _, err := d.Open(ctx, "--help"); !errors.Is(err, desktop.ErrInvalid) {
		t.Errorf("open --help: %v", err)
	}
}

func TestEnvironReachesTheDesktop(t *testing.T) {
	t.Parallel()
	testx11.Require(t, "xdpyinfo")
	d := start(t, desktop.Config{})
	env, err := d.Environ()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "xdpyinfo")
	cmd.Env = env
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("xdpyinfo: %v: %s", err, out)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Environ(); !errors.Is(err, desktop.ErrClosed) {
		t.Errorf("after Close: %v, want ErrClosed", err)
	}
}

func TestAttachReleasesKeys(t *testing.T) {
	d := start(t, desktop.Config{})
	path := xterm(t, d)
	t.Setenv("XAUTHORITY", d.Status().Authority)
	ctx := t.Context()
	guest, err := desktop.Attach(ctx, d.Status().Display, desktop.Config{ID: "guest"})
	if err != nil {
		t.Fatal(err)
	}
	if err := guest.KeyDown(ctx, "Shift_L"); err != nil {
		t.Fatal(err)
	}
	if err := guest.Press(ctx, desktop.Press{Keys: "a"}); err != nil {
		t.Fatal(err)
	}
	if err := guest.Close(); err != nil {
		t.Fatal(err)
	}
	if err := d.Press(ctx, desktop.Press{Keys: "b"}); err != nil {
		t.Fatal(err)
	}
	if err := d.Press(ctx, desktop.Press{Keys: "Return"}); err != nil {
		t.Fatal(err)
	}
	wantTyped(t, path, "Ab\n")
}

func TestInvalid(t *testing.T) {
	t.Parallel()
	d := start(t, desktop.Config{})
	ctx := t.Context()
	shot := func(s desktop.ScreenshotOptions) func() error {
		return func() error { _, err := d.Screenshot(ctx, s); return err }
	}
	typing := func(s string) func() error { return func() error { return d.Type(ctx, desktop.Type{Text: s}) } }
	for name, test := range map[string]struct {
		field string
		call  func() error
	}{
		"scale":           {"Scale", shot(desktop.ScreenshotOptions{Scale: 1.5})},
		"scale NaN":       {"Scale", shot(desktop.ScreenshotOptions{Scale: math.NaN()})},
		"quality":         {"Quality", shot(desktop.ScreenshotOptions{Quality: 101})},
		"format":          {"Format", shot(desktop.ScreenshotOptions{Format: "gif"})},
		"cursor":          {"Cursor", shot(desktop.ScreenshotOptions{Cursor: "hand"})},
		"region outside":  {"Region", shot(desktop.ScreenshotOptions{Region: &desktop.Rect{X: 9000, Y: 0, Width: 5, Height: 5}})},
		"region empty":    {"Region", shot(desktop.ScreenshotOptions{Region: &desktop.Rect{}})},
		"text empty":      {"Text", typing("")},
		"text not UTF-8":  {"Text", typing("ab\xff")},
		"text NUL":        {"Text", typing("a\x00b")},
		"key":             {"Keys", func() error { return d.Press(ctx, desktop.Press{Keys: "NoSuchKey"}) }},
		"key modifiers":   {"Modifiers", func() error { return d.Press(ctx, desktop.Press{Keys: "a", Modifiers: []string{"hyperspace"}}) }},
		"key down":        {"key", func() error { return d.KeyDown(ctx, "--help") }},
		"button":          {"Button", func() error { _, err := d.Click(ctx, desktop.Click{Button: "fourth"}); return err }},
		"clicks":          {"Count", func() error { _, err := d.Click(ctx, desktop.Click{Count: -1}); return err }},
		"negative":        {"X", func() error { _, err := d.Move(ctx, desktop.Move{At: desktop.Point{X: -1}}); return err }},
		"scroll":          {"DY", func() error { _, err := d.Scroll(ctx, desktop.Scroll{DX: 1 << 20}); return err }},
		"drag":            {"Path", func() error { _, err := d.Drag(ctx, desktop.Drag{}); return err }},
		"observation":     {"Observation", func() error { _, err := d.Move(ctx, desktop.Move{Observation: "obs_1"}); return err }},
		"window size":     {"Width", func() error { _, err := d.ResizeWindow(ctx, 1, desktop.Size{Width: 100000, Height: 5}); return err }},
		"screen size":     {"Width", func() error { return d.Resize(ctx, desktop.Size{Width: 100, Height: 0}) }},
		"clipboard type":  {"Type", func() error { _, err := d.Clipboard(ctx, desktop.Clipboard, "image/gif"); return err }},
		"clipboard image": {"Data", func() error { return d.SetClipboard(ctx, desktop.Content{Type: desktop.TypePNG, Data: []byte("x")}) }},
		"selection":       {"selection", func() error { _, err := d.Clipboard(ctx, "tertiary", ""); return err }},
	} {
		err := test.call()
		var invalid *desktop.InvalidError
		if !errors.As(err, &invalid) || invalid.Field != test.field {
			t.Errorf("%s: %v, want an InvalidError of %q", name, err, test.field)
		}
	}
	if _, err := d.FocusWindow(ctx, 12345); !errors.Is(err, desktop.ErrWindowNotFound) {
		t.Errorf("unknown window: %v", err)
	}
	if _, err := d.FocusedWindow(ctx); !errors.Is(err, desktop.ErrNoFocusedWindow) {
		t.Errorf("no focused window: %v", err)
	}
	if _, err := d.Clipboard(ctx, desktop.Clipboard, ""); !errors.Is(err, desktop.ErrNoClipboardContent) {
		t.Errorf("empty clipboard: %v", err)
	}
}

func TestInvalidConfig(t *testing.T) {
	t.Parallel()
	for field, cfg := range map[string]desktop.Config{
		"Size":    {Size: desktop.Size{Width: 99999, Height: 99999}},
		"MaxSize": {MaxSize: desktop.Size{Width: -1, Height: 5}},
		"DPI":     {DPI: -1},
		"Display": {Display: -1},
	} {
		_, err := desktop.Start(t.Context(), cfg)
		var invalid *desktop.InvalidError
		if !errors.As(err, &invalid) || invalid.Field != field {
			t.Errorf("%+v: %v, want an InvalidError of %s", cfg, err, field)
		}
	}
}

func TestSecretsStayOut(t *testing.T) {
	t.Setenv("DESKHAND_TOKEN", "hush")
	t.Setenv("MY_SECRET", "hush")
	t.Setenv("MY_SETTING", "seen")
	for _, policy := range []desktop.EnvPolicy{desktop.EnvInherit, desktop.EnvClean} {
		d := start(t, desktop.Config{EnvPolicy: policy, Secrets: []string{"MY_SECRET"}})
		out := t.TempDir() + "/env"
		if _, err := d.Launch(t.Context(), desktop.Launch{App: "sh", Args: []string{"-c", `env > "$0"`, out}, Wait: true}); err != nil {
			t.Fatal(err)
		}
		env := readFile(t, out)
		if strings.Contains(env, "hush") {
			t.Errorf("policy %v: secrets leaked:\n%s", policy, env)
		}
		if got, want := strings.Contains(env, "MY_SETTING=seen"), policy == desktop.EnvInherit; got != want {
			t.Errorf("policy %v: MY_SETTING passed on is %v, want %v", policy, got, want)
		}
		if want := fmt.Sprintf("DISPLAY=%s\n", d.Status().Display); !strings.Contains(env, want) {
			t.Errorf("policy %v: no %q in the environment", policy, want)
		}
	}
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
