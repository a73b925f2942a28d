package desktop_test

import (
	"bytes"
	"context"
	"errors"
	"image"
	"image/color"
	"image/png"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/internal/testx11"
)

// openboxHome makes a HOME with an unusual configuration of openbox.
func openboxHome(t *testing.T) string {
	t.Helper()
	home := t.TempDir()
	dir := filepath.Join(home, ".config", "openbox")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		// Windows have no title bar, only a thin border.
		"rc.xml": `<openbox_config xmlns="http://openbox.org/3.4/rc">
<applications><application class="*"><decor>no</decor></application></applications></openbox_config>`,
		"autostart": `echo run >> "$HOME/autostarted"; xterm -T automatic &`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return home
}

func TestOpenboxConfiguration(t *testing.T) {
	t.Parallel()
	testx11.Require(t, "xterm")
	home := openboxHome(t)
	d := start(t, desktop.Config{Home: home})
	find := func() (w desktop.Window) {
		until(t, "the autostarted terminal", func() bool {
			windows, err := d.Windows(t.Context(), desktop.WindowFilter{})
			if err != nil || len(windows) != 1 || windows[0].Title != "automatic" {
				return false
			}
			w = windows[0]
			return true
		})
		return w
	}
	if w := find(); w.Bounds.Y-w.Frame.Y > 3 {
		t.Errorf("frame %v, content %v: rc.xml, which takes the title bar away, was not read", w.Frame, w.Bounds)
	}
	sub := d.Subscribe(0)
	defer sub.Close()
	if err := syscall.Kill(pidOf(t, d, "openbox"), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	await(t, sub, "restart", ofType(desktop.EventRestarted))
	find()
	if got := readFile(t, filepath.Join(home, "autostarted")); got != "run\n" {
		t.Errorf("autostart ran %d times, want once", strings.Count(got, "run"))
	}
}

func TestLogOnFullDisk(t *testing.T) {
	t.Parallel()
	d := start(t, desktop.Config{LogPath: "/dev/full"})
	wantTyped(t, typeInto(t, d, "fine\n"), "fine\n")
	if _, err := d.Screenshot(t.Context(), desktop.ScreenshotOptions{}); err != nil {
		t.Error(err)
	}
}

func TestOpen(t *testing.T) {
	t.Parallel()
	testx11.Require(t, "xdg-open", "chromium")
	d := start(t, desktop.Config{Size: desktop.Size{Width: 1000, Height: 700}})
	page := filepath.Join(d.Status().Home, "page.html")
	if err := os.WriteFile(page, []byte("<title>opened by default</title>"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Open(t.Context(), page); err != nil {
		t.Fatal(err)
	}
	until(t, "the page in the browser", func() bool {
		windows, err := d.Windows(t.Context(), desktop.WindowFilter{})
		return err == nil && len(windows) > 0 && strings.HasPrefix(windows[0].Title, "opened by default")
	})
	if _, err := d.Open(t.Context(), "/no/such/file"); !errors.Is(err, desktop.ErrInvalid) {
		t.Errorf("missing file: %v, want an InvalidError", err)
	}
}

func TestOpenWithoutHandler(t *testing.T) {
	t.Parallel()
	testx11.Require(t, "xdg-open")
	d := start(t, desktop.Config{Env: []string{"BROWSER=/bin/false"}})
	_, err := d.Open(t.Context(), "nosuchscheme:something")
	var invalid *desktop.InvalidError
	if !errors.As(err, &invalid) || invalid.Field != "target" {
		t.Errorf("%v, want an InvalidError of the target", err)
	}
	t.Log(err)
}

// TestProgramsEndWell lets a program use its display when it gets SIGTERM.
func TestProgramsEndWell(t *testing.T) {
	t.Parallel()
	testx11.Require(t, "xdpyinfo")
	d := start(t, desktop.Config{})
	out := filepath.Join(t.TempDir(), "out")
	script := `trap 'xdpyinfo > "$0"; exit' TERM; touch "$0"; while :; do sleep 0.1; done`
	if _, err := d.Launch(t.Context(), desktop.Launch{App: "sh", Args: []string{"-c", script, out}}); err != nil {
		t.Fatal(err)
	}
	until(t, "the program is ready", func() bool { _, err := os.Stat(out); return err == nil })
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(readFile(t, out), "dimensions:") {
		t.Error("the program got SIGTERM only after its display had gone")
	}
}

func TestPictureOnClipboard(t *testing.T) {
	t.Parallel()
	testx11.Require(t, "xclip")
	d := start(t, desktop.Config{})
	img := image.NewRGBA(image.Rect(0, 0, 300, 200))
	for i := range 200 {
		img.Set(i, i, color.RGBA{R: uint8(i), G: 200, A: 255})
	}
	var file bytes.Buffer
	if err := png.Encode(&file, img); err != nil {
		t.Fatal(err)
	}
	if err := d.SetClipboard(t.Context(), desktop.Content{Type: desktop.TypePNG, Data: file.Bytes()}); err != nil {
		t.Fatal(err)
	}
	xclip := exec.Command("xclip", "-selection", "clipboard", "-t", "image/png", "-o")
	xclip.Env = append(os.Environ(), "DISPLAY="+d.Status().Display, "XAUTHORITY="+d.Status().Authority)
	out, err := xclip.Output()
	if err != nil || !bytes.Equal(out, file.Bytes()) {
		t.Errorf("xclip read %d bytes, %v; want the %d that were put there", len(out), err, file.Len())
	}
	if _, err := d.Clipboard(t.Context(), desktop.Clipboard, desktop.TypeText); !errors.Is(err, desktop.ErrNoClipboardContent) {
		t.Errorf("text of a picture: %v", err)
	}
}

func TestLaunchThatForks(t *testing.T) {
	t.Parallel()
	testx11.Require(t, "xterm")
	d := start(t, desktop.Config{})
	app, err := d.Launch(t.Context(), desktop.Launch{App: "sh", Args: []string{"-c", "xterm -T forked & wait"}, Wait: true})
	if err != nil || app.Window == 0 {
		t.Fatalf("%+v, %v: want the window of what the program started", app, err)
	}
}

func TestResize(t *testing.T) {
	t.Parallel()
	d := start(t, desktop.Config{MaxSize: desktop.Size{Width: 1600, Height: 1200}})
	ctx := t.Context()
	stop := make(chan struct{})
	var shots sync.WaitGroup
	shots.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			pic, err := d.Screenshot(ctx, desktop.ScreenshotOptions{})
			if err != nil {
				t.Errorf("screenshot meanwhile: %v", err)
				return
			}
			cfg, err := png.DecodeConfig(bytes.NewReader(pic.Data))
			if err != nil || cfg.Width != pic.Size.Width || cfg.Height != pic.Size.Height {
				t.Errorf("picture meanwhile is %dx%d, says %v (%v)", cfg.Width, cfg.Height, pic.Size, err)
			}
		}
	})
	for _, s := range []desktop.Size{{Width: 1600, Height: 1200}, {Width: 641, Height: 479}, {Width: 1280, Height: 720}} {
		if err := d.Resize(ctx, s); err != nil {
			t.Fatal(err)
		}
		if got := d.Status().Size; got != s {
			t.Errorf("size %v, want %v", got, s)
		}
	}
	close(stop)
	shots.Wait()
	if err := d.Resize(ctx, desktop.Size{Width: 1601, Height: 1200}); !errors.Is(err, desktop.ErrInvalid) {
		t.Errorf("beyond the largest size: %v", err)
	}
}

func TestAttachedServerDies(t *testing.T) {
	owner := start(t, desktop.Config{})
	t.Setenv("XAUTHORITY", owner.Status().Authority)
	guest, err := desktop.Attach(t.Context(), owner.Status().Display, desktop.Config{ID: "guest"})
	if err != nil {
		t.Fatal(err)
	}
	defer guest.Close()
	sub := guest.Subscribe(0)
	defer sub.Close()
	if err := owner.Close(); err != nil {
		t.Fatal(err)
	}
	await(t, sub, "failure", ofType(desktop.EventFailed))
	if _, err := guest.Pointer(t.Context()); !errors.Is(err, desktop.ErrRestarting) {
		t.Errorf("pointer without a server: %v, want ErrRestarting", err)
	}
	begin := time.Now()
	if err := guest.Close(); err != nil || time.Since(begin) > 5*time.Second {
		t.Errorf("close: %v after %v", err, time.Since(begin))
	}
}

func TestStartCancelled(t *testing.T) {
	t.Parallel()
	testx11.Require(t, "Xvfb", "openbox", "dbus-daemon")
	for _, after := range []time.Duration{0, time.Millisecond, 10 * time.Millisecond, 40 * time.Millisecond, 70 * time.Millisecond} {
		dir := t.TempDir()
		ctx, cancel := context.WithTimeout(t.Context(), after)
		d, err := desktop.Start(ctx, desktop.Config{StateDir: dir})
		cancel()
		if err == nil { // Start was faster than the cancellation
			err = d.Close()
			if err != nil {
				t.Error(err)
			}
		}
		if left := processesWithHome(t, dir); len(left) > 0 {
			t.Errorf("cancelled after %v: %v are left", after, left)
		}
	}
}

func TestAttachGivesKeymapBack(t *testing.T) {
	testx11.Require(t, "xkbcomp")
	s := testx11.Start(t, 640, 480)
	keymap := func() string {
		cmd := exec.Command("xkbcomp", s.Display, "-")
		cmd.Env = s.Env()
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	before := keymap()
	t.Setenv("XAUTHORITY", s.Authority)
	guest, err := desktop.Attach(t.Context(), s.Display, desktop.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if err := guest.Type(t.Context(), desktop.Type{Text: "漢字"}); err != nil {
		t.Fatal(err)
	}
	if during := keymap(); during == before {
		t.Error("typing characters that are on no key did not change the keymap: this test tests nothing")
	}
	if err := guest.Close(); err != nil {
		t.Fatal(err)
	}
	if after := keymap(); after != before {
		t.Errorf("keymap after Close differs (%d bytes, before %d)", len(after), len(before))
	}
}

func TestLaunchLeavesAnotherRunning(t *testing.T) {
	t.Parallel()
	testx11.Require(t, "xterm", "setsid")
	d := start(t, desktop.Config{})
	ctx := t.Context()
	app, err := d.Launch(ctx, desktop.Launch{App: "setsid", Args: []string{"-f", "xterm", "-T", "orphan"}, Wait: true})
	if err != nil || app.Window == 0 || app.Exited {
		t.Errorf("%+v, %v: want the window of the program that it left running", app, err)
	}
	// The window of another program does not count.
	begin := time.Now()
	app, err = d.Launch(ctx, desktop.Launch{App: "sh", Args: []string{"-c", "setsid -f sleep 0.3; exit 4"}, Wait: true})
	if err != nil || app.Window != 0 || !app.Exited || app.ExitCode != 4 || time.Since(begin) > 5*time.Second {
		t.Errorf("%+v, %v after %v: want an early exit", app, err, time.Since(begin))
	}
	ctx, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
	defer cancel()
	app, err = d.Launch(ctx, desktop.Launch{App: "sleep", Args: []string{"600"}, Wait: true})
	if !errors.Is(err, context.DeadlineExceeded) || app.PID == 0 {
		t.Errorf("wait with an ended context: %+v, %v", app, err)
	}
}

func TestWindowBelowPointer(t *testing.T) {
	t.Parallel()
	testx11.Require(t, "xterm")
	d := start(t, desktop.Config{})
	ctx := t.Context()
	open := func(title string) desktop.WindowID {
		app, err := d.Launch(ctx, desktop.Launch{App: "xterm", Args: []string{"-T", title}, Wait: true})
		if err != nil || app.Window == 0 {
			t.Fatalf("%+v, %v", app, err)
		}
		if _, err := d.MaximiseWindow(ctx, app.Window, true); err != nil {
			t.Fatal(err)
		}
		return app.Window
	}
	want := func(what string, id desktop.WindowID) {
		t.Helper()
		until(t, what, func() bool {
			p, err := d.Pointer(ctx)
			return err == nil && p.Window == id
		})
	}
	p, err := d.Move(ctx, desktop.Move{At: desktop.Point{X: 300, Y: 300}})
	if err != nil {
		t.Fatal(err)
	}
	bare := p.Window
	first := open("first")
	want("the first window", first)
	second := open("second")
	want("the one in front", second)
	if _, err := d.FocusWindow(ctx, first); err != nil {
		t.Fatal(err)
	}
	want("the first one raised", first)
	for _, step := range []struct{ close, then desktop.WindowID }{{first, second}, {second, bare}} {
		until(t, "it has closed", func() bool { // an xterm ignores the request while its shell is being started
			err := d.CloseWindow(ctx, step.close)
			return errors.Is(err, desktop.ErrWindowNotFound)
		})
		want("what was behind", step.then)
	}
}
