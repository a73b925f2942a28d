package x11_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/deskhand/deskhand/internal/testx11"
	"github.com/deskhand/deskhand/internal/x11"
)

// windowSystem is a server with a window manager.
type windowSystem struct {
	*testx11.Server
	*x11.Windows
	conn *x11.Conn
}

func startWindows(tb testing.TB) windowSystem {
	tb.Helper()
	testx11.Require(tb, "openbox", "xterm")
	s := testx11.Start(tb, 1280, 800)
	c := s.Dial(tb)
	w, err := c.NewWindows()
	if err != nil {
		tb.Fatal(err)
	}
	startProgram(tb, s, "openbox")
	if err := w.WaitReady(soon(tb)); err != nil {
		tb.Fatal(err)
	}
	return windowSystem{s, w, c}
}

// startProgram runs a program until the test ends, or until it is stopped.
func startProgram(tb testing.TB, s *testx11.Server, name string, args ...string) *exec.Cmd {
	tb.Helper()
	testx11.Require(tb, name)
	cmd := exec.Command(name, args...)
	cmd.Env = append(s.Env(), "HOME="+tb.TempDir(), "NO_AT_BRIDGE=1", "LC_ALL=C.UTF-8")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait()
	})
	return cmd
}

// open runs a program and waits for its window.
func (w windowSystem) open(tb testing.TB, title, name string, args ...string) x11.WindowInfo {
	tb.Helper()
	startProgram(tb, w.Server, name, args...)
	info, err := w.WaitForWindow(soon(tb), func(i x11.WindowInfo) bool { return i.Title == title })
	if err != nil {
		tb.Fatalf("window of %s: %v", name, err)
	}
	return info
}

func (w windowSystem) xterm(tb testing.TB, title string) x11.WindowInfo {
	tb.Helper()
	return w.open(tb, title, "xterm", "-T", title, "-e", "sleep", "600")
}

func (w windowSystem) zenity(tb testing.TB, title string) x11.WindowInfo {
	tb.Helper()
	return w.open(tb, title, "zenity", "--list", "--column=a", "--title="+title, "--width=400", "--height=300")
}

func TestWindowsList(t *testing.T) {
	t.Parallel()
	w := startWindows(t)
	if infos, err := w.List(t.Context()); err != nil || len(infos) > 0 {
		t.Fatalf("List() = %v, %v at first, want none", infos, err)
	}
	if _, err := w.Active(); !errors.Is(err, x11.ErrNoWindow) {
		t.Errorf("Active() = %v, want ErrNoWindow", err)
	}
	term := startProgram(t, w.Server, "xterm", "-T", "térm 漢 😀", "-e", "sleep", "600")
	one, err := w.WaitForWindow(soon(t), func(i x11.WindowInfo) bool { return i.Title == "térm 漢 😀" })
	if err != nil {
		t.Fatal(err)
	}
	if one.PID != term.Process.Pid || one.Class != "XTerm" || one.Instance != "xterm" {
		t.Errorf("xterm is %+v, want pid %d and its class", one, term.Process.Pid)
	}
	if one.FrameWidth <= one.Width || one.FrameHeight <= one.Height || one.FrameX >= one.X || one.FrameY >= one.Y {
		t.Errorf("frame of %+v does not enclose the content", one)
	}
	two := w.zenity(t, "a list")
	if _, err := w.Focus(soon(t), two.ID); err != nil {
		t.Fatal(err)
	}
	infos, err := w.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(infos) != 2 || infos[0].ID != one.ID || infos[1].ID != two.ID {
		t.Fatalf("List() = %+v, want the windows in order", infos)
	}
	active, err := w.Active()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(infos[1], active); diff != "" {
		t.Error("Active() is not the focused window of List(): ", diff)
	}
	for _, id := range []x11.Window{0, 1, one.ID + 1, 1 << 31} {
		if got, err := w.Get(id); !errors.Is(err, x11.ErrNoWindow) {
			t.Errorf("Get(%d) = %+v, %v, want ErrNoWindow", id, got, err)
		}
		if _, err := w.Move(soon(t), id, 0, 0); !errors.Is(err, x11.ErrNoWindow) {
			t.Errorf("Move(%d) = %v, want ErrNoWindow", id, err)
		}
		if err := w.Close(soon(t), id); !errors.Is(err, x11.ErrNoWindow) {
			t.Errorf("Close(%d) = %v, want ErrNoWindow", id, err)
		}
	}
	// The geometry is what others see.
	testx11.Require(t, "xdotool")
	cmd := exec.Command("xdotool", "getwindowgeometry", "--shell", fmt.Sprint(uint32(two.ID)))
	cmd.Env = w.Env()
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprintf("WIDTH=%d\nHEIGHT=%d", active.Width, active.Height); !strings.Contains(string(out), want) {
		t.Errorf("xdotool says %q, List says %s", out, want)
	}
}

func TestWindowsMove(t *testing.T) {
	t.Parallel()
	w := startWindows(t)
	for _, win := range []x11.WindowInfo{w.xterm(t, "term"), w.zenity(t, "list")} {
		for _, to := range [][2]int{{100, 50}, {101, 51}, {640, 400}, {0, 0}, {-50, 60}, {1200, 700}, {100, 50}} {
			got, err := w.Move(soon(t), win.ID, to[0], to[1])
			if err != nil {
				t.Fatal(err)
			}
			if got.X != to[0] || got.Y != to[1] {
				t.Errorf("%s: Move(%v) reports %d,%d", win.Title, to, got.X, got.Y)
			}
			if got.Width != win.Width || got.Height != win.Height {
				t.Errorf("%s: Move(%v) made it %dx%d", win.Title, to, got.Width, got.Height)
			}
		}
	}
	// The window manager keeps a window within reach: that is an answer too.
	win := w.xterm(t, "far")
	before := time.Now()
	if got, err := w.Move(soon(t), win.ID, 30000, 30000); err != nil || got.X > 1280 {
		t.Errorf("Move out of the screen: %+v, %v", got, err)
	}
	t.Logf("a refused move took %v", time.Since(before))
}

func TestWindowsResize(t *testing.T) {
	t.Parallel()
	w := startWindows(t)
	list, term := w.zenity(t, "list"), w.xterm(t, "term")
	for _, size := range [][2]int{{500, 400}, {501, 401}, {700, 333}} {
		got, err := w.Resize(soon(t), list.ID, size[0], size[1])
		if err != nil || got.Width != size[0] || got.Height != size[1] {
			t.Errorf("Resize(%v) = %dx%d, %v", size, got.Width, got.Height, err)
		}
	}
	// A terminal takes whole characters only, without a long wait.
	least := time.Hour // a busy machine may take long, but not each time
	for _, width := range []int{500, 600, 500} {
		before := time.Now()
		got, err := w.Resize(soon(t), term.ID, width, 300)
		if err != nil || got.Width > width || got.Width < width-20 || got.Height > 300 || got.Height < 270 {
			t.Errorf("Resize(%d, 300) of xterm = %dx%d, %v", width, got.Width, got.Height, err)
		}
		least = min(least, time.Since(before))
	}
	if least > 900*time.Millisecond {
		t.Errorf("resizing xterm took %v", least)
	}
	for _, size := range [][2]int{{0, 0}, {-1, 1 << 20}} {
		if _, err := w.Resize(soon(t), list.ID, size[0], size[1]); err != nil {
			t.Errorf("Resize(%v): %v", size, err)
		}
	}
}

func TestWindowsStates(t *testing.T) {
	t.Parallel()
	w := startWindows(t)
	first, win := w.xterm(t, "first"), w.zenity(t, "list")
	check := func(op string, got x11.WindowInfo, err error, want x11.WindowInfo) {
		t.Helper()
		if err != nil || got.Active != want.Active || got.Minimised != want.Minimised || got.Maximised != want.Maximised {
			t.Errorf("%s: %+v, %v", op, got, err)
		}
	}
	got, err := w.Focus(soon(t), first.ID)
	check("focus", got, err, x11.WindowInfo{Active: true})
	got, err = w.Focus(soon(t), win.ID)
	check("focus the other", got, err, x11.WindowInfo{Active: true})
	normal := got
	got, err = w.Maximise(soon(t), win.ID, true)
	check("maximise", got, err, x11.WindowInfo{Active: true, Maximised: true})
	if got.FrameX != 0 || got.FrameY != 0 || got.FrameWidth != 1280 || got.FrameHeight != 800 {
		t.Errorf("maximised window is %+v, want the whole screen", got)
	}
	got, err = w.Minimise(soon(t), win.ID)
	check("minimise", got, err, x11.WindowInfo{Minimised: true, Maximised: true})
	_, err = w.Focus(soon(t), win.ID)
	if err != nil {
		t.Fatal(err)
	}
	got, err = w.Maximise(soon(t), win.ID, false)
	check("restore", got, err, x11.WindowInfo{Active: true})
	if diff := cmp.Diff(normal, got); diff != "" {
		t.Error("restored window differs: ", diff)
	}
	got, err = w.Minimise(soon(t), win.ID)
	check("minimise", got, err, x11.WindowInfo{Minimised: true})
	got, err = w.Focus(soon(t), win.ID)
	check("focus the minimised one", got, err, x11.WindowInfo{Active: true})
	got, err = w.Maximise(soon(t), win.ID, false)
	check("unmaximise a normal one", got, err, x11.WindowInfo{Active: true})
	if err := w.Close(soon(t), win.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Get(win.ID); !errors.Is(err, x11.ErrNoWindow) {
		t.Errorf("Get of a closed window: %v", err)
	}
}

func TestWindowsWatch(t *testing.T) {
	t.Parallel()
	w := startWindows(t)
	before := w.xterm(t, "before")
	events := make(chan x11.WindowEvent, 64)
	stop := w.Watch(func(e x11.WindowEvent) { events <- e })
	defer stop()
	next := func(kind x11.WindowEventKind, title string) x11.WindowInfo {
		t.Helper()
		deadline := soon(t)
		for {
			select {
			case e := <-events:
				if e.Kind == kind && e.Window.Title == title {
					return e.Window
				}
				t.Logf("passing over %d %q", e.Kind, e.Window.Title)
			case <-deadline.Done():
				t.Fatalf("no event %d of %q", kind, title)
			}
		}
	}
	term := startProgram(t, w.Server, "xterm", "-T", "fresh", "-e", "sh", "-c", `read x; printf '\033]0;renamed\007'; sleep 600`)
	opened := next(x11.WindowOpened, "fresh")
	if opened.PID != term.Process.Pid {
		t.Errorf("opened: %+v, want pid %d", opened, term.Process.Pid)
	}
	if got := next(x11.WindowFocused, "fresh"); got.ID != opened.ID || !got.Active {
		t.Errorf("focused: %+v", got)
	}
	xdotool(t, w.Server, "key", "Return")
	if got := next(x11.WindowRenamed, "renamed"); got.ID != opened.ID {
		t.Errorf("renamed: %+v", got)
	}
	if _, err := w.Focus(soon(t), before.ID); err != nil {
		t.Fatal(err)
	}
	next(x11.WindowFocused, "before")
	if err := w.Close(soon(t), opened.ID); err != nil {
		t.Fatal(err)
	}
	if got := next(x11.WindowClosed, "renamed"); got.ID != opened.ID {
		t.Errorf("closed: %+v", got)
	}
	stop()
	stop()
}

// TestWindowsRenamedAllTheTime has a program change its title without a pause for more
// than a second. Watchers get few of the titles, and the last.
func TestWindowsRenamedAllTheTime(t *testing.T) {
	t.Parallel()
	w := startWindows(t)
	events := make(chan x11.WindowEvent, 1<<16)
	defer w.Watch(func(e x11.WindowEvent) { events <- e })()
	const script = `read x; end=$(($(date +%s) + 2)); i=0
		while [ $(date +%s) -lt $end ]; do
			for n in 0 1 2 3 4 5 6 7 8 9; do i=$((i + 1)); printf '\033]0;title %d\007' $i; done
		done
		printf '\033]0;the last\007'; sleep 600`
	w.open(t, "fresh", "xterm", "-T", "fresh", "-e", "sh", "-c", script)
	begun := time.Now()
	xdotool(t, w.Server, "key", "Return")
	count, deadline := 0, soon(t)
	for title := ""; title != "the last"; {
		select {
		case e := <-events:
			if e.Kind == x11.WindowRenamed {
				count, title = count+1, e.Window.Title
			}
		case <-deadline.Done():
			t.Fatalf("the last of %d titles is %q", count, title)
		}
	}
	if took := time.Since(begun); count > 2+int(took/(250*time.Millisecond)) {
		t.Errorf("%d titles were told in %v", count, took)
	}
}

// TestWindowsBoundedTexts has a program choose a long title and class with control
// characters.
func TestWindowsBoundedTexts(t *testing.T) {
	t.Parallel()
	w := startWindows(t)
	win := w.xterm(t, "short")
	long := "a\tb\x01" + strings.Repeat("é", 1000)
	xdotool(t, w.Server, "set_window", "--name", long, "--class", long, "--classname", long, strconv.Itoa(int(win.ID)))
	got, err := w.WaitForWindow(soon(t), func(i x11.WindowInfo) bool { return i.Title != "short" && i.Class != "XTerm" && i.Instance != "xterm" })
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{got.Title, got.Class, got.Instance} {
		if want := "a b " + strings.Repeat("é", 252); text != want {
			t.Errorf("a text of %d bytes that begins with %.8q, want %d bytes of %.8q", len(text), text, len(want), want)
		}
	}
}

func TestWindowsWaitReady(t *testing.T) {
	t.Parallel()
	testx11.Require(t, "openbox")
	s := testx11.Start(t, 640, 480)
	w, err := s.Dial(t).NewWindows()
	if err != nil {
		t.Fatal(err)
	}
	short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := w.WaitReady(short); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("WaitReady without window manager: %v, want the deadline", err)
	}
	wm := startProgram(t, s, "openbox")
	if err := w.WaitReady(soon(t)); err != nil {
		t.Fatal(err)
	}
	// A killed window manager leaves its properties.
	_ = wm.Process.Kill()
	_ = wm.Wait()
	gone := time.NewTicker(time.Millisecond)
	defer gone.Stop()
	for deadline := soon(t); deadline.Err() == nil; <-gone.C {
		short, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		err := w.WaitReady(short)
		cancel()
		if err != nil {
			break
		}
	}
	startProgram(t, s, "openbox")
	if err := w.WaitReady(soon(t)); err != nil {
		t.Errorf("WaitReady after a restart: %v", err)
	}
}

func TestWindowsConnClosed(t *testing.T) {
	t.Parallel()
	w := startWindows(t)
	win := w.xterm(t, "term")
	result := make(chan error, 2)
	go func() {
		_, err := w.WaitForWindow(t.Context(), func(x11.WindowInfo) bool { return false })
		result <- err
	}()
	if err := w.conn.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-result; !errors.Is(err, x11.ErrConnClosed) {
		t.Errorf("WaitForWindow: %v, want ErrConnClosed", err)
	}
	if _, err := w.List(t.Context()); !errors.Is(err, x11.ErrConnClosed) {
		t.Errorf("List: %v, want ErrConnClosed", err)
	}
	if _, err := w.Focus(t.Context(), win.ID); !errors.Is(err, x11.ErrConnClosed) {
		t.Errorf("Focus: %v, want ErrConnClosed", err)
	}
}

// Windows open and close during calls about them.
func TestWindowsVanish(t *testing.T) {
	t.Parallel()
	w := startWindows(t)
	testx11.Require(t, "xmessage")
	opened := make(chan x11.Window, 256)
	var mu sync.Mutex
	there, seen := make(map[x11.Window]bool), 0
	stop := w.Watch(func(e x11.WindowEvent) {
		mu.Lock()
		defer mu.Unlock()
		switch e.Kind {
		case x11.WindowOpened:
			there[e.Window.ID] = true
			seen++
			opened <- e.Window.ID
		case x11.WindowClosed:
			if !there[e.Window.ID] {
				t.Errorf("window %d closed and was not open", e.Window.ID)
			}
			delete(there, e.Window.ID)
		case x11.WindowFocused, x11.WindowRenamed:
		}
	})
	defer stop()
	over := make(chan struct{})
	var lookers sync.WaitGroup
	lookers.Go(func() {
		for {
			select {
			case <-over:
				return
			default:
			}
			infos, err := w.List(t.Context())
			if err != nil {
				t.Error(err)
			}
			for _, i := range infos {
				if _, err := w.Get(i.ID); err != nil && !errors.Is(err, x11.ErrNoWindow) {
					t.Error(err)
				}
			}
		}
	})
	lookers.Go(func() {
		for {
			select {
			case <-over:
				return
			case id := <-opened:
				if _, err := w.Move(soon(t), id, 50, 60); err != nil && !errors.Is(err, x11.ErrNoWindow) {
					t.Error(err)
				}
				if err := w.Close(soon(t), id); err != nil && !errors.Is(err, x11.ErrNoWindow) {
					t.Error(err)
				}
			}
		}
	})
	const windows = 30
	var runs sync.WaitGroup
	for range 3 {
		runs.Go(func() {
			for range windows / 3 {
				cmd := exec.Command("xmessage", "-timeout", "60", "hello")
				cmd.Env = w.Env()
				_ = cmd.Run() // ends when its window is closed, or after the timeout
			}
		})
	}
	runs.Wait()
	close(over)
	lookers.Wait()
	until(t, "end of the windows", func() bool {
		infos, err := w.List(t.Context())
		mu.Lock()
		defer mu.Unlock()
		return err == nil && len(infos) == 0 && len(there) == 0
	})
	// A new window may have the id of one just closed, which the window manager still
	// lists. It then opens, closes and opens again.
	if seen < windows {
		t.Errorf("%d windows seen of %d", seen, windows)
	}
}

func BenchmarkWindowsReady(b *testing.B) {
	for b.Loop() {
		b.StopTimer()
		s := testx11.Start(b, 640, 480)
		w, err := s.Dial(b).NewWindows()
		if err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
		startProgram(b, s, "openbox")
		if err := w.WaitReady(soon(b)); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkWindowsMove(b *testing.B) {
	w := startWindows(b)
	win := w.xterm(b, "one")
	for x := 0; b.Loop(); x = (x + 1) % 100 {
		if got, err := w.Move(soon(b), win.ID, 100+x, 100); err != nil || got.X != 100+x {
			b.Fatal(got, err)
		}
	}
}

func BenchmarkWindowsList(b *testing.B) {
	w := startWindows(b)
	for _, title := range []string{"one", "two", "three"} {
		w.xterm(b, title)
	}
	b.ReportAllocs()
	for b.Loop() {
		infos, err := w.List(b.Context())
		if err != nil || len(infos) != 3 {
			b.Fatal(len(infos), err)
		}
	}
}

func BenchmarkSelectionGet(b *testing.B) {
	for _, size := range []int{100, 10_000_000} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			s := testx11.Start(b, 320, 200)
			owner, reader := openClipboard(b, s), openClipboard(b, s)
			data := bytes.Repeat([]byte("x"), size)
			if err := owner.Set(soon(b), x11.SelectionClipboard, x11.Content{Type: x11.TypeText, Data: data}); err != nil {
				b.Fatal(err)
			}
			b.SetBytes(int64(size))
			for b.Loop() {
				got, err := reader.Get(soon(b), x11.SelectionClipboard, x11.TypeText, x11.MaxContent)
				if err != nil || len(got) != size {
					b.Fatal(len(got), err)
				}
			}
		})
	}
}
