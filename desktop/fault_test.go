package desktop_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/internal/testx11"
)

func signal(t *testing.T, pid int, sig syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(pid, sig); err != nil {
		t.Fatal(err)
	}
}

// allCalls calls each method of a desktop once. Those that act are harmless.
func allCalls(d *desktop.Desktop) map[string]func(context.Context) error {
	at := desktop.Point{X: 300, Y: 200}
	var presses atomic.Int64
	// Another place for each press, as a press at the place of the one before waits, and all in
	// the terminal, as a press beside it takes its focus.
	place := func() desktop.Point { return desktop.Point{X: 200 + 20*int(presses.Add(1)%20), Y: 200} }
	return map[string]func(context.Context) error{
		"screenshot":       func(ctx context.Context) error { _, err := d.Screenshot(ctx, desktop.ScreenshotOptions{}); return err },
		"settle":           func(ctx context.Context) error { _, err := d.Settle(ctx, 0, 0); return err },
		"pointer position": func(ctx context.Context) error { _, err := d.Pointer(ctx); return err },
		"move":             func(ctx context.Context) error { _, err := d.Move(ctx, desktop.Move{At: at}); return err },
		"click": func(ctx context.Context) error {
			_, err := d.Click(ctx, desktop.Click{At: new(place())})
			return err
		},
		"button down": func(ctx context.Context) error {
			_, err := d.ButtonDown(ctx, desktop.ButtonPress{At: new(place())})
			return err
		},
		"button up": func(ctx context.Context) error { _, err := d.ButtonUp(ctx, desktop.ButtonPress{}); return err },
		"drag": func(ctx context.Context) error {
			from := place()
			_, err := d.Drag(ctx, desktop.Drag{Path: []desktop.Point{from, from}})
			return err
		},
		"scroll":         func(ctx context.Context) error { _, err := d.Scroll(ctx, desktop.Scroll{DY: 1}); return err },
		"type text":      func(ctx context.Context) error { return d.Type(ctx, desktop.Type{Text: "a"}) },
		"press key":      func(ctx context.Context) error { return d.Press(ctx, desktop.Press{Keys: "ctrl+Left"}) },
		"key down":       func(ctx context.Context) error { return d.KeyDown(ctx, "Shift_L") },
		"key up":         func(ctx context.Context) error { return d.KeyUp(ctx, "Shift_L") },
		"release all":    d.ReleaseAll,
		"set clipboard":  func(ctx context.Context) error { return d.SetClipboard(ctx, desktop.Content{Data: []byte("x")}) },
		"read clipboard": func(ctx context.Context) error { _, err := d.Clipboard(ctx, "", ""); return err },
		"read primary":   func(ctx context.Context) error { _, err := d.Clipboard(ctx, desktop.Primary, ""); return err },
		"list windows":   func(ctx context.Context) error { _, err := d.Windows(ctx, desktop.WindowFilter{All: true}); return err },
		"focused window": func(ctx context.Context) error { _, err := d.FocusedWindow(ctx); return err },
		"focus window 7": func(ctx context.Context) error { _, err := d.FocusWindow(ctx, 7); return err },
		"move window 7":  func(ctx context.Context) error { _, err := d.MoveWindow(ctx, 7, at); return err },
		"resize window 7": func(ctx context.Context) error {
			_, err := d.ResizeWindow(ctx, 7, desktop.Size{Width: 9, Height: 9})
			return err
		},
		"minimise window 7": func(ctx context.Context) error { _, err := d.MinimiseWindow(ctx, 7); return err },
		"maximise window 7": func(ctx context.Context) error { _, err := d.MaximiseWindow(ctx, 7, true); return err },
		"restore window 7":  func(ctx context.Context) error { _, err := d.MaximiseWindow(ctx, 7, false); return err },
		"close window 7":    func(ctx context.Context) error { return d.CloseWindow(ctx, 7) },
		"resize":            func(ctx context.Context) error { return d.Resize(ctx, desktop.Size{Width: 801, Height: 601}) },
		"launch sleep": func(ctx context.Context) error {
			_, err := d.Launch(ctx, desktop.Launch{App: "sleep", Args: []string{"1"}, Wait: true})
			return err
		},
		"open": func(ctx context.Context) error { _, err := d.Open(ctx, "/no/such/file"); return err },
	}
}

// expected reports whether an error of allCalls is correct on a desktop that works.
func expected(err error) bool {
	for _, e := range []error{desktop.ErrWindowNotFound, desktop.ErrNoFocusedWindow, desktop.ErrNoClipboardContent, desktop.ErrInvalid} {
		if errors.Is(err, e) {
			return true
		}
	}
	return err == nil
}

func TestHungXServer(t *testing.T) {
	t.Parallel()
	testx11.Require(t, "xdg-open")
	d := start(t, desktop.Config{})
	path := xterm(t, d)
	signal(t, pidOf(t, d, "Xvfb"), syscall.SIGSTOP)
	const limit = 500 * time.Millisecond
	var calls sync.WaitGroup
	for name, f := range allCalls(d) {
		calls.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			begin := time.Now()
			err := f(ctx)
			if took := time.Since(begin); took > limit+2*time.Second {
				t.Errorf("%s took %v, deadline %v", name, took, limit)
			}
			if err == nil || !strings.HasPrefix(err.Error(), name+": ") || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s on a hung X server: %v, want a deadline that names it", name, err)
			}
		})
	}
	calls.Wait()
	// A click that times out does not leave its modifiers pressed.
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	if _, err := d.Click(ctx, desktop.Click{Modifiers: []string{"shift", "ctrl"}}); err == nil {
		t.Error("clicked on a hung X server")
	}
	signal(t, pidOf(t, d, "Xvfb"), syscall.SIGCONT)
	for name, f := range allCalls(d) {
		if err := f(t.Context()); !expected(err) {
			t.Errorf("%s after the X server continued: %v", name, err)
		}
	}
	if got := d.Status(); got.Restarts != 0 {
		t.Errorf("it was restarted: %+v", got.LastError)
	}
	until(t, "the terminal has the focus", func() bool {
		w, err := d.FocusedWindow(t.Context())
		return err == nil && w.Class == "XTerm"
	})
	if err := d.Type(t.Context(), desktop.Type{Text: "\nlower\n"}); err != nil {
		t.Fatal(err)
	}
	// What was typed before is in the same line as the first line feed.
	until(t, "the text", func() bool { return strings.HasSuffix(strings.ToLower(readFile(t, path)), "lower\n") })
	if got := readFile(t, path); !strings.HasSuffix(got, "\nlower\n") {
		t.Errorf("typed %q: modifiers are down", got)
	}
}

// TestControlWhileHung changes control although the holder's keys cannot be released.
func TestControlWhileHung(t *testing.T) {
	t.Parallel()
	d := start(t, desktop.Config{})
	if err := d.RequestControl(t.Context(), ann); err != nil {
		t.Fatal(err)
	}
	if err := d.KeyDown(desktop.WithActor(t.Context(), ann), "shift"); err != nil {
		t.Fatal(err)
	}
	pid := pidOf(t, d, "Xvfb")
	signal(t, pid, syscall.SIGSTOP)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if err := d.TakeControl(ctx, bob, true); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("TakeControl: %v, want the deadline's error", err)
	}
	if h := d.Control().Holder; h == nil || *h != bob {
		t.Errorf("%v has control", h)
	}
	signal(t, pid, syscall.SIGCONT)
	if !canMove(t, d, bob) {
		t.Error("the holder of control cannot send input")
	}
}

// TestSettleAfterDelay: the quiet time, of which an idle desktop needs a quarter, begins
// with the first frame of the screen.
func TestSettleAfterDelay(t *testing.T) {
	t.Parallel()
	const quiet = 300 * time.Millisecond
	d := start(t, desktop.Config{})
	pid := pidOf(t, d, "Xvfb")
	signal(t, pid, syscall.SIGSTOP)
	var settled desktop.Settled
	done := make(chan error, 1)
	go func() {
		var err error
		settled, err = d.Settle(t.Context(), quiet, 10*time.Second)
		done <- err
	}()
	<-time.After(2 * quiet)
	begin := time.Now()
	signal(t, pid, syscall.SIGCONT)
	if err := <-done; err != nil || !settled.Quiet {
		t.Fatalf("Settle: %+v, %v", settled, err)
	}
	if took := time.Since(begin); took < quiet/4 {
		t.Errorf("the screen had not changed for %v, want %v", took, quiet/4)
	}
}

func TestXServerHangsForGood(t *testing.T) {
	t.Parallel()
	d := start(t, desktop.Config{})
	sub := d.Subscribe(0)
	defer sub.Close()
	signal(t, pidOf(t, d, "Xvfb"), syscall.SIGSTOP)
	var deadline *desktop.DeadlineError
	if _, err := d.Pointer(t.Context()); !errors.As(err, &deadline) || deadline.Op != "pointer position" || deadline.After == 0 {
		t.Errorf("pointer of a hung X server: %v, want a DeadlineError", err)
	}
	if e := await(t, sub, "failure", ofType(desktop.EventFailed)); e.Failure.Code != "xserver_hung" {
		t.Errorf("failure %+v", e.Failure)
	}
	await(t, sub, "restart", ofType(desktop.EventRestarted))
	if _, err := d.Pointer(t.Context()); err != nil {
		t.Error(err)
	}
}

// wantCloseWithin fails the test when Close takes long.
func wantCloseWithin(t *testing.T, d *desktop.Desktop, limit time.Duration) {
	t.Helper()
	begin := time.Now()
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	if took := time.Since(begin); took > limit {
		t.Errorf("Close took %v", took)
	}
}

func TestCloseWhileHung(t *testing.T) {
	t.Parallel()
	for _, unmanaged := range []bool{false, true} {
		t.Run(fmt.Sprintf("without window manager %v", unmanaged), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			d := start(t, desktop.Config{StateDir: dir})
			signal(t, pidOf(t, d, "Xvfb"), syscall.SIGSTOP)
			if unmanaged { // recovery waits for a window manager that cannot start
				sub := d.Subscribe(0)
				defer sub.Close()
				signal(t, pidOf(t, d, "openbox"), syscall.SIGKILL)
				await(t, sub, "failure", ofType(desktop.EventFailed))
			}
			wantCloseWithin(t, d, 8*time.Second)
			if left := processesWithHome(t, dir); len(left) > 0 {
				t.Errorf("%v are left", left)
			}
		})
	}
}

func TestCloseDuringRecovery(t *testing.T) {
	t.Parallel()
	for i, victim := range []string{"Xvfb", "openbox", "dbus", "Xvfb"} {
		dir := t.TempDir()
		d := start(t, desktop.Config{StateDir: dir})
		sub := d.Subscribe(0)
		signal(t, pidOf(t, d, victim), syscall.SIGKILL)
		if i > 0 {
			await(t, sub, "failure", ofType(desktop.EventFailed))
		}
		wantCloseWithin(t, d, 5*time.Second)
		last := desktop.Event{}
		for e := range sub.Events() {
			last = e
		}
		sub.Close()
		if st := d.Status().State; last.Type != desktop.EventClosed || st != desktop.StateInactive {
			t.Errorf("%s: last event %v, state %v", victim, last.Type, st)
		}
		if _, err := d.Pointer(t.Context()); !errors.Is(err, desktop.ErrClosed) {
			t.Errorf("%s: pointer after Close: %v", victim, err)
		}
		if left := processesWithHome(t, dir); len(left) > 0 {
			t.Errorf("%s: %v are left", victim, left)
		}
	}
}

func TestCloseDuringCalls(t *testing.T) {
	t.Parallel()
	testx11.Require(t, "xdg-open")
	d := start(t, desktop.Config{})
	xterm(t, d)
	sub := d.Subscribe(0)
	defer sub.Close()
	var calls sync.WaitGroup
	begun := make(chan struct{}, 64)
	for name, f := range allCalls(d) {
		calls.Go(func() {
			for {
				begun <- struct{}{}
				err := f(t.Context())
				switch {
				case errors.Is(err, desktop.ErrClosed):
					return
				case !expected(err):
					t.Errorf("%s: %v, want ErrClosed", name, err)
					return
				}
			}
		})
	}
	calls.Go(func() {
		err := desktop.ErrInterrupted
		for errors.Is(err, desktop.ErrInterrupted) { // by ReleaseAll, which is one of the calls
			err = d.Type(t.Context(), desktop.Type{Text: strings.Repeat("x", 1000), Delay: time.Second})
		}
		if !errors.Is(err, desktop.ErrClosed) {
			t.Errorf("type with delays: %v, want ErrClosed", err)
		}
	})
	for range 200 {
		<-begun
	}
	done := make(chan struct{})
	go func() { calls.Wait(); close(done) }()
	go func() {
		for {
			select {
			case <-begun:
			case <-done:
				return
			}
		}
	}()
	wantCloseWithin(t, d, 5*time.Second)
	<-done
}

func TestManyConcurrentCallers(t *testing.T) {
	t.Parallel()
	testx11.Require(t, "xdg-open")
	d := start(t, desktop.Config{})
	xterm(t, d)
	var calls sync.WaitGroup
	for range 3 {
		for name, f := range allCalls(d) {
			calls.Go(func() {
				for range 3 {
					if err := f(t.Context()); !expected(err) {
						t.Errorf("%s: %v", name, err)
					}
				}
			})
		}
	}
	calls.Wait()
}

func TestAttachedServerHangs(t *testing.T) {
	owner := start(t, desktop.Config{})
	t.Setenv("XAUTHORITY", owner.Status().Authority)
	guest, err := desktop.Attach(t.Context(), owner.Status().Display, desktop.Config{ID: "guest"})
	if err != nil {
		t.Fatal(err)
	}
	defer guest.Close()
	pid := pidOf(t, owner, "Xvfb")
	signal(t, pid, syscall.SIGSTOP)
	defer signal(t, pid, syscall.SIGCONT)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := guest.Pointer(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("pointer: %v", err)
	}
	wantCloseWithin(t, guest, 5*time.Second)
}

// fakeXvfb puts a script in front of the real Xvfb, in a PATH for t.Setenv; $real
// is the real one in it.
func fakeXvfb(t *testing.T, script string) {
	t.Helper()
	real, err := exec.LookPath("Xvfb")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	text := "#!/bin/sh\nreal=" + real + "\nhere=" + dir + "\n" + script + "\n"
	if err := os.WriteFile(filepath.Join(dir, "Xvfb"), []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
}

func TestXServerDoesNotStart(t *testing.T) {
	testx11.Require(t, "Xvfb", "openbox", "dbus-daemon")
	dir := t.TempDir()
	fakeXvfb(t, "echo no memory for a screen >&2; exit 1")
	if _, err := desktop.Start(t.Context(), desktop.Config{StateDir: dir}); err == nil || !strings.Contains(err.Error(), "no memory for a screen") {
		t.Errorf("Start: %v, want what Xvfb said", err)
	}
	fakeXvfb(t, "exec sleep 600")
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second) // Xvfb has been started by then
	defer cancel()
	if _, err := desktop.Start(ctx, desktop.Config{StateDir: dir}); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "Xvfb") {
		t.Errorf("Start: %v, want a deadline that names Xvfb", err)
	}
	if left := processesWithHome(t, dir); len(left) > 0 {
		t.Errorf("%v are left", left)
	}
}

func TestDisplayTakenDuringRestart(t *testing.T) {
	testx11.Require(t, "Xvfb", "openbox", "dbus-daemon")
	fakeXvfb(t, `mkdir "$here/$1" || { echo "Server is already active for display" >&2; exit 1; }; exec "$real" "$@"`)
	authority := filepath.Join(t.TempDir(), "shared")
	t.Setenv("XAUTHORITY", authority)
	d := start(t, desktop.Config{ShareAuthority: true, Display: freeDisplay(t)})
	sub := d.Subscribe(0)
	defer sub.Close()
	signal(t, pidOf(t, d, "Xvfb"), syscall.SIGKILL)
	await(t, sub, "restart", ofType(desktop.EventRestarted))
	cmd := exec.Command("xdpyinfo", "-display", d.Status().Display)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("xdpyinfo with the user's authority file: %v: %.200s", err, out)
	}
	wantCloseWithin(t, d, 5*time.Second)
	if got := readFile(t, authority); got != "" {
		t.Errorf("%d bytes are left in the authority file", len(got))
	}
}

func TestManyConcurrentStarts(t *testing.T) {
	t.Parallel()
	taken := start(t, desktop.Config{})
	n, err := strconv.Atoi(taken.Status().Display[1:])
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	displays := map[string]bool{taken.Status().Display: true}
	var starts sync.WaitGroup
	for range 4 {
		starts.Go(func() {
			d, err := desktop.Start(t.Context(), desktop.Config{Display: n})
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			if display := d.Status().Display; displays[display] {
				t.Errorf("%s twice", display)
			} else {
				displays[display] = true
			}
			mu.Unlock()
			t.Cleanup(func() {
				if err := d.Close(); err != nil {
					t.Error(err)
				}
			})
		})
	}
	starts.Wait()
}

// TestTypeWhileWindowManagerStops clicks and types while the window manager does not give
// the clicked window the focus.
func TestTypeWhileWindowManagerStops(t *testing.T) {
	t.Parallel()
	d := start(t, desktop.Config{})
	move := func(x, y int) desktop.Window {
		w, err := d.FocusedWindow(t.Context())
		if err == nil {
			w, err = d.MoveWindow(t.Context(), w.ID, desktop.Point{X: x, Y: y})
		}
		if err != nil {
			t.Fatal(err)
		}
		return w
	}
	path := xterm(t, d)
	w := move(20, 40)
	xterm(t, d) // has the focus now
	move(700, 400)
	pid := pidOf(t, d, "openbox")
	signal(t, pid, syscall.SIGSTOP)
	if _, err := d.Click(t.Context(), desktop.Click{At: &desktop.Point{X: w.Bounds.X + 50, Y: w.Bounds.Y + 50}}); err != nil {
		t.Fatal(err)
	}
	typed := make(chan error, 1)
	go func() { typed <- d.Type(t.Context(), desktop.Type{Text: "there\n"}) }()
	select {
	case err := <-typed:
		t.Fatalf("typed into the window that had the focus: %v", err)
	case <-time.After(100 * time.Millisecond):
	}
	signal(t, pid, syscall.SIGCONT)
	if err := <-typed; err != nil {
		t.Fatal(err)
	}
	wantTyped(t, path, "there\n")
}
