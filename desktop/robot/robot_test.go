//go:build robotgo

package robot_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/desktop/robot"
	"github.com/deskhand/deskhand/internal/testx11"
)

// ours is a desktop of package desktop, which checks what robotgo did to it.
var ours *desktop.Desktop

// TestMain gives all tests one desktop: robotgo has one for the whole program.
func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "deskhand-robot-")
	if err == nil {
		ours, err = desktop.Start(context.Background(), desktop.Config{
			Size: desktop.Size{Width: 800, Height: 600}, StateDir: filepath.Join(dir, "state"), Home: filepath.Join(dir, "home"),
		})
	}
	if err == nil {
		s := ours.Status()
		err = errors.Join(os.Setenv("DISPLAY", s.Display), os.Setenv("XAUTHORITY", s.Authority))
	}
	if missing := (*desktop.MissingError)(nil); errors.As(err, &missing) && os.Getenv("REQUIRE_TOOLS") == "" {
		fmt.Println("skipped:", err)
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m, goleak.IgnoreCurrent(),
		goleak.Cleanup(func(status int) {
			if err := errors.Join(ours.Close(), os.RemoveAll(dir)); err != nil {
				fmt.Fprintln(os.Stderr, err)
				status = 1
			}
			os.Exit(status)
		}))
}

// start needs the one robot that there may be, so that tests are not parallel.
func start(t *testing.T, cfg robot.Config) *robot.Desktop {
	t.Helper()
	d, err := robot.Start(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

// terminal runs a shell script in an xterm of ours, and waits until it has the
// focus and has written a line to the file.
func terminal(t *testing.T, script, file string) desktop.Window {
	t.Helper()
	testx11.Require(t, "xterm")
	app, err := ours.Launch(t.Context(), desktop.Launch{
		App: "xterm", Args: []string{"-geometry", "80x24+40+60", "-title", "robot", "-e", "sh", "-c", script}, Wait: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := ours.CloseWindow(context.Background(), app.Window); err != nil && !errors.Is(err, desktop.ErrWindowNotFound) {
			t.Error(err)
		}
	})
	until(t, "xterm is ready", func() bool {
		w, err := ours.FocusedWindow(t.Context())
		text, _ := os.ReadFile(file)
		return err == nil && w.ID == app.Window && len(text) > 0
	})
	w, err := ours.FocusedWindow(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline, tick := time.After(30*time.Second), time.NewTicker(10*time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("not within 30 s: %s", what)
		}
	}
}

// TestScreenshot compares pictures with the same pictures of package x11, byte for byte, so that
// pixels and encoders are the same.
func TestScreenshot(t *testing.T) {
	d := start(t, robot.Config{})
	file := filepath.Join(t.TempDir(), "ready")
	terminal(t, "ls -l /usr/bin; tput civis; echo >"+file+"; sleep 1000", file)
	for _, shot := range []desktop.ScreenshotOptions{
		{},
		{Format: desktop.JPEG, Quality: 60},
		{Format: desktop.WebP},
		{Scale: 0.5},
		{Region: &desktop.Rect{X: 30, Y: 50, Width: 333, Height: 77}},
		{Region: &desktop.Rect{X: 700, Y: 500, Width: 900, Height: 900}, Scale: 0.3},
		{Cursor: desktop.CursorCrosshair},
	} {
		shot.Settle, shot.SettleTimeout = 300*time.Millisecond, 20*time.Second
		want, err := ours.Screenshot(t.Context(), shot)
		if err != nil {
			t.Fatal(err)
		}
		got, err := d.Screenshot(t.Context(), shot)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got.Data, want.Data) || got.Size != want.Size || got.Region != want.Region || !got.Settled.Quiet {
			t.Errorf("%+v: %d bytes of %v, want %d of %v", shot, len(got.Data), got.Size, len(want.Data), want.Size)
		}
		again, err := d.Screenshot(t.Context(), desktop.ScreenshotOptions{
			Format: shot.Format, Quality: shot.Quality, Scale: shot.Scale, Region: shot.Region, Cursor: shot.Cursor, IfChangedSince: got.ID,
		})
		if err != nil || !again.Unchanged {
			t.Errorf("%+v again: changed: %v, %v", shot, !again.Unchanged, err)
		}
	}
	for _, bad := range []desktop.ScreenshotOptions{{Format: "gif"}, {Scale: 2}, {Region: &desktop.Rect{X: 800, Width: 1, Height: 1}}} {
		if _, err := d.Screenshot(t.Context(), bad); !errors.Is(err, desktop.ErrInvalid) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
}

func TestPointer(t *testing.T) {
	d := start(t, robot.Config{})
	for _, to := range []desktop.Point{{X: 0, Y: 0}, {X: 123, Y: 456}, {X: 799, Y: 599}, {X: 5000, Y: 20}} {
		got, err := d.Move(t.Context(), desktop.Move{At: to})
		if err != nil {
			t.Fatal(err)
		}
		is, err := ours.Pointer(t.Context())
		want := desktop.Point{X: min(to.X, 799), Y: to.Y}
		if err != nil || is.Point != want || got.Point != want {
			t.Errorf("moved to %v: at %v, says %v, %v", to, is.Point, got.Point, err)
		}
	}
	// A point in a picture that is half as large.
	pic, err := d.Screenshot(t.Context(), desktop.ScreenshotOptions{Scale: 0.5})
	if err != nil {
		t.Fatal(err)
	}
	got, err := d.Move(t.Context(), desktop.Move{At: desktop.Point{X: 100, Y: 50}, Observation: pic.ID})
	if want := (desktop.Point{X: 201, Y: 101}); err != nil || got.Point != want {
		t.Errorf("in the picture: %v, %v; want %v", got.Point, err, want)
	}
	_, bad1 := d.Move(t.Context(), desktop.Move{At: desktop.Point{X: -1}})
	_, bad2 := d.Move(t.Context(), desktop.Move{Observation: "obs_x"})
	_, bad3 := d.Click(t.Context(), desktop.Click{Count: 101})
	_, bad4 := d.Click(t.Context(), desktop.Click{Button: "nose"})
	_, bad5 := d.Click(t.Context(), desktop.Click{Modifiers: []string{"nose"}})
	_, bad6 := d.Scroll(t.Context(), desktop.Scroll{DX: 1 << 20})
	_, bad7 := d.Drag(t.Context(), desktop.Drag{Path: []desktop.Point{{}}})
	for i, err := range []error{bad1, bad2, bad3, bad4, bad5, bad6, bad7} {
		if !errors.Is(err, desktop.ErrInvalid) {
			t.Errorf("bad argument %d: %v", i+1, err)
		}
	}
}

// TestClick has a terminal report what the pointer does in it.
func TestClick(t *testing.T) {
	d := start(t, robot.Config{})
	file := filepath.Join(t.TempDir(), "mouse")
	// xterm reports each press and release as ESC [ < BUTTON ; COLUMN ; ROW M or m,
	// once it has read that it is to: it answers a question that comes after that.
	w := terminal(t, `stty raw -echo; printf '\033[?1002h\033[?1006h\033[5n'; dd bs=1 count=4 of=/dev/null 2>/dev/null; echo ready >`+file+`; exec cat >>`+file, file)
	cell := desktop.Size{Width: w.Bounds.Width / 80, Height: w.Bounds.Height / 24}
	at := func(column, row int) *desktop.Point {
		return &desktop.Point{X: w.Bounds.X + 2 + (column-1)*cell.Width + cell.Width/2, Y: w.Bounds.Y + 2 + (row-1)*cell.Height + cell.Height/2}
	}
	reports := func(want string) {
		t.Helper()
		until(t, "xterm reports "+want, func() bool {
			text, err := os.ReadFile(file)
			return err == nil && strings.HasSuffix(strings.ReplaceAll(string(text), "\x1b[<", " "), want)
		})
	}
	do := func(_ desktop.Pointer, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	do(d.Click(t.Context(), desktop.Click{At: at(10, 5)}))
	reports("\n 0;10;5M 0;10;5m")
	do(d.Click(t.Context(), desktop.Click{Button: desktop.ButtonRight, Modifiers: []string{"ctrl"}, At: at(11, 6)}))
	do(d.Click(t.Context(), desktop.Click{Button: desktop.ButtonMiddle, Count: 2, At: at(12, 7)}))
	reports("1;12;7M 1;12;7m 1;12;7M 1;12;7m")
	do(d.Scroll(t.Context(), desktop.Scroll{DY: 2, At: at(3, 4)}))
	reports("65;3;4M 65;3;4M")
	do(d.Scroll(t.Context(), desktop.Scroll{DY: -1, At: at(3, 4)}))
	reports("65;3;4M 64;3;4M")
	do(d.Drag(t.Context(), desktop.Drag{Path: []desktop.Point{*at(20, 3), *at(25, 3), *at(30, 4)}}))
	reports("0;20;3M 32;25;3M 32;30;4M 0;30;4m")
	do(d.ButtonDown(t.Context(), desktop.ButtonPress{At: at(5, 5)}))
	reports("0;5;5M")
	if err := d.ReleaseAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	reports("0;5;5M 0;5;5m")
}

// TestType types every ASCII character, and chords.
func TestType(t *testing.T) {
	d := start(t, robot.Config{})
	sub := d.Subscribe(0)
	defer sub.Close()
	file := filepath.Join(t.TempDir(), "typed")
	terminal(t, "stty -echo; echo ready >"+file+"; exec cat >>"+file, file)
	var all strings.Builder
	for c := byte(' '); c <= '~'; c++ {
		all.WriteByte(c)
	}
	text := all.String() + "\n\ttab\n"
	if err := d.Type(t.Context(), desktop.Type{Text: text}); err != nil {
		t.Fatal(err)
	}
	typed := func(want string) {
		t.Helper()
		until(t, fmt.Sprintf("%q is typed", want), func() bool {
			got, err := os.ReadFile(file)
			return err == nil && string(got) == "ready\n"+want
		})
	}
	typed(text)
	if e := <-sub.Events(); e.Type != desktop.EventAction || e.Action.Name != "type" || e.Action.Text != text {
		t.Errorf("event: %+v", e)
	}
	for _, keys := range []string{"a", "shift+b", "C", "space", "Return"} {
		if err := d.Press(t.Context(), desktop.Press{Keys: keys}); err != nil {
			t.Fatal(err)
		}
	}
	typed(text + "aBC \n")
	down := d.KeyDown(t.Context(), "shift")
	if err := errors.Join(down, d.Press(t.Context(), desktop.Press{Keys: "x"}), d.KeyUp(t.Context(), "shift"), d.Type(t.Context(), desktop.Type{Text: "y\n", Secret: true})); err != nil {
		t.Fatal(err)
	}
	typed(text + "aBC \nXy\n")
	if err := d.Press(t.Context(), desktop.Press{Keys: "d", Modifiers: []string{"ctrl"}}); err != nil {
		t.Fatal(err)
	}
	until(t, "ctrl+d ends the terminal", func() bool {
		list, err := ours.Windows(t.Context(), desktop.WindowFilter{All: true})
		return err == nil && len(list) == 0
	})
	for i, err := range []error{
		d.Type(t.Context(), desktop.Type{Text: "é"}), d.Type(t.Context(), desktop.Type{}), d.Press(t.Context(), desktop.Press{Keys: "nose"}),
		d.Press(t.Context(), desktop.Press{}), d.KeyDown(t.Context(), "!"), d.Press(t.Context(), desktop.Press{Keys: "a", Modifiers: []string{"a"}}),
	} {
		if !errors.Is(err, desktop.ErrInvalid) {
			t.Errorf("bad argument %d: %v", i+1, err)
		}
	}
}

// TestTypingIsInterrupted ends a text that would take minutes, and one that waits.
func TestTypingIsInterrupted(t *testing.T) {
	file := filepath.Join(t.TempDir(), "typed")
	wanted := map[string]error{"Close": desktop.ErrClosed, "context": context.Canceled} // of the text that waits
	for name, end := range map[string]func(*robot.Desktop, context.CancelFunc) error{
		"ReleaseAll": func(d *robot.Desktop, _ context.CancelFunc) error { return d.ReleaseAll(t.Context()) },
		"Close":      func(d *robot.Desktop, _ context.CancelFunc) error { return d.Close() },
		"context":    func(_ *robot.Desktop, cancel context.CancelFunc) error { cancel(); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			if err := os.WriteFile(file, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			d := start(t, robot.Config{})
			terminal(t, "stty raw -echo; echo ready >"+file+"; exec cat >>"+file, file)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			ended := make(chan error, 2)
			for range cap(ended) {
				go func() { ended <- d.Type(ctx, desktop.Type{Text: strings.Repeat("x", 60), Delay: 10 * time.Second}) }()
			}
			until(t, "a character is typed", func() bool {
				text, err := os.ReadFile(file)
				return err == nil && strings.HasSuffix(string(text), "x")
			})
			begun := time.Now()
			if err := end(d, cancel); err != nil {
				t.Fatal(err)
			}
			for range cap(ended) {
				if err := <-ended; !errors.Is(err, desktop.ErrInterrupted) && (wanted[name] == nil || !errors.Is(err, wanted[name])) {
					t.Errorf("typing returned %v", err)
				}
			}
			if took := time.Since(begun); took > 5*time.Second {
				t.Errorf("typing ended after %v", took)
			}
		})
	}
}

func TestClipboard(t *testing.T) {
	testx11.Require(t, "xclip")
	d := start(t, robot.Config{})
	const text = "copied: é漢 \n end"
	if err := ours.SetClipboard(t.Context(), desktop.Content{Data: []byte(text)}); err != nil {
		t.Fatal(err)
	}
	got, err := d.Clipboard(t.Context(), desktop.Clipboard, "")
	if err != nil || string(got.Data) != text {
		t.Errorf("read: %q, %v", got.Data, err)
	}
	const other = "from robotgo: ü"
	if err := d.SetClipboard(t.Context(), desktop.Content{Data: []byte(other)}); err != nil {
		t.Fatal(err)
	}
	until(t, "ours sees what robotgo has written", func() bool {
		is, err := ours.Clipboard(t.Context(), desktop.Clipboard, "")
		return err == nil && string(is.Data) == other
	})
	// The program that robotgo has for it ends when another owns the clipboard.
	if err := ours.SetClipboard(t.Context(), desktop.Content{Data: []byte(text)}); err != nil {
		t.Fatal(err)
	}
}

// TestUnsupported wants the call to be named.
func TestUnsupported(t *testing.T) {
	d := start(t, robot.Config{})
	ctx := t.Context()
	_, moved := d.MoveWindow(ctx, 1, desktop.Point{})
	_, resized := d.ResizeWindow(ctx, 1, desktop.Size{})
	_, minimised := d.MinimiseWindow(ctx, 1)
	_, maximised := d.MaximiseWindow(ctx, 1, true)
	_, launched := d.Launch(ctx, desktop.Launch{App: "xterm"})
	_, opened := d.Open(ctx, "x")
	_, primary := d.Clipboard(ctx, desktop.Primary, "")
	_, image := d.Clipboard(ctx, desktop.Clipboard, "image/png")
	_, listed := d.Windows(ctx, desktop.WindowFilter{})
	_, focused := d.FocusedWindow(ctx)
	_, focus := d.FocusWindow(ctx, 1)
	_, back := d.Click(ctx, desktop.Click{Button: desktop.ButtonBack})
	for call, err := range map[string]error{
		"resize": d.Resize(ctx, desktop.Size{}), "move window": moved, "resize window": resized, "close window": d.CloseWindow(ctx, 1),
		"minimise window": minimised, "maximise window": maximised, "launch": launched, "open": opened, "clipboard: the selection primary": primary,
		"clipboard: the type image/png": image, "button back": back, "list windows": listed, "focused window": focused, "focus window": focus,
	} {
		if !errors.Is(err, desktop.ErrUnsupported) || !strings.HasPrefix(err.Error(), call+":") {
			t.Errorf("%s: %v", call, err)
		}
	}
}

func TestLife(t *testing.T) {
	refuse := errors.New("no")
	var asked desktop.Action
	d := start(t, robot.Config{ID: "mine", Policy: func(_ context.Context, a desktop.Action) error {
		asked = a
		return refuse
	}})
	if s := d.Status(); s.ID != "mine" || s.State != desktop.StateActive || !s.Host || s.Size != (desktop.Size{Width: 800, Height: 600}) || s.Display == "" {
		t.Errorf("status: %+v", s)
	}
	if _, err := robot.Start(t.Context(), robot.Config{}); !errors.Is(err, robot.ErrInUse) {
		t.Errorf("a second one: %v", err)
	}
	ctx := desktop.WithActor(t.Context(), desktop.Actor{Kind: desktop.ActorAgent, Name: "Ann"})
	if _, err := d.Move(ctx, desktop.Move{}); !errors.Is(err, refuse) || asked.Name != "move" || asked.Actor.Name != "Ann" {
		t.Errorf("policy: %v, asked %+v", err, asked)
	}
	sub := d.Subscribe(0)
	if err := errors.Join(d.Close(), d.Close()); err != nil {
		t.Fatal(err)
	}
	if e, open := <-sub.Events(); !open || e.Type != desktop.EventClosed {
		t.Errorf("last event: %+v", e)
	}
	if _, err := d.Screenshot(t.Context(), desktop.ScreenshotOptions{}); !errors.Is(err, desktop.ErrClosed) || d.Status().State != desktop.StateInactive {
		t.Errorf("after Close: %v", err)
	}
	t.Setenv("DISPLAY", "")
	if _, err := robot.Start(t.Context(), robot.Config{}); !errors.Is(err, robot.ErrNoDisplay) {
		t.Errorf("without a display: %v", err)
	}
	t.Setenv("DISPLAY", ":4711")
	if _, err := robot.Start(t.Context(), robot.Config{}); !errors.Is(err, robot.ErrNoDisplay) {
		t.Errorf("with one that is not there: %v", err)
	}
}
