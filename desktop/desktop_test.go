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
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/internal/testx11"
)

// ownerEnv is the variable that makes the test binary run a desktop until it is killed.
const ownerEnv = "DESKTOP_TEST_OWNER"

func TestMain(m *testing.M) {
	if dir := os.Getenv(ownerEnv); dir != "" {
		runOwner(dir)
		return
	}
	testx11.SkipExamples("Xvfb", "openbox", "dbus-daemon", "xterm")
	goleak.VerifyTestMain(m)
}

func runOwner(dir string) {
	ctx := context.Background()
	d, err := desktop.Start(ctx, desktop.Config{StateDir: dir})
	if err != nil {
		fmt.Println("error:", err)
		os.Exit(1)
	}
	// A program that leaves its process group and its parent.
	for _, l := range []desktop.Launch{{App: "xterm", Wait: true}, {App: "setsid", Args: []string{"-f", "sleep", "600"}}} {
		if _, err := d.Launch(ctx, l); err != nil {
			fmt.Println("error:", err)
			os.Exit(1)
		}
	}
	fmt.Println("ready", playForever(ctx, d))
	select {}
}

// start runs a desktop until the test ends.
func start(t *testing.T, cfg desktop.Config) *desktop.Desktop {
	t.Helper()
	testx11.Require(t, "Xvfb", "openbox", "dbus-daemon")
	if cfg.Size == (desktop.Size{}) {
		cfg.Size = desktop.Size{Width: 800, Height: 600}
	}
	d, err := desktop.Start(t.Context(), cfg)
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

// until polls for a state without an event.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.NewTimer(time.Minute)
	defer deadline.Stop()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatalf("not within a minute: %s", what)
		}
	}
}

// await reads events until one satisfies ok.
func await(t *testing.T, sub *desktop.Subscription, what string, ok func(desktop.Event) bool) desktop.Event {
	t.Helper()
	deadline := time.NewTimer(time.Minute)
	defer deadline.Stop()
	for {
		select {
		case e, more := <-sub.Events():
			if !more {
				t.Fatalf("events ended before: %s", what)
			}
			if ok(e) {
				return e
			}
		case <-deadline.C:
			t.Fatalf("not within a minute: %s", what)
		}
	}
}

func ofType(typ desktop.EventType) func(desktop.Event) bool {
	return func(e desktop.Event) bool { return e.Type == typ }
}

func pidOf(t *testing.T, d *desktop.Desktop, name string) int {
	t.Helper()
	for _, p := range d.Status().Processes {
		if p.Name == name && p.Running {
			return p.PID
		}
	}
	t.Fatalf("no running %s in %+v", name, d.Status().Processes)
	return 0
}

func alive(pid int) bool {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err == nil && !strings.Contains(string(b), ") Z ")
}

// xterm launches a terminal that copies what is typed into a file, and returns
// the file's path once the terminal has the focus.
func xterm(t *testing.T, d *desktop.Desktop) string {
	t.Helper()
	testx11.Require(t, "xterm")
	path := filepath.Join(t.TempDir(), "typed")
	app, err := d.Launch(t.Context(), desktop.Launch{
		App: "xterm", Args: []string{"-e", "sh", "-c", `cat > "$0"`, path}, Wait: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	if app.Window == 0 {
		t.Fatalf("xterm showed no window: %+v", app)
	}
	until(t, "xterm has the focus and runs its program", func() bool {
		w, err := d.FocusedWindow(t.Context())
		_, statErr := os.Stat(path)
		return err == nil && w.ID == app.Window && statErr == nil
	})
	return path
}

func wantTyped(t *testing.T, path, want string) {
	t.Helper()
	var got []byte
	defer func() {
		if t.Failed() {
			t.Logf("%s holds %q, want %q", path, got, want)
		}
	}()
	until(t, "typed text in "+path, func() bool {
		got, _ = os.ReadFile(path)
		return len(got) >= len(want)
	})
	if string(got) != want {
		t.Fatalf("typed %q, want %q", got, want)
	}
}

func TestStartAndClose(t *testing.T) {
	t.Parallel()
	d := start(t, desktop.Config{})
	st := d.Status()
	if st.State != desktop.StateActive || st.Display == "" || st.Size != (desktop.Size{Width: 800, Height: 600}) {
		t.Errorf("status %+v", st)
	}
	if p, err := d.Pointer(t.Context()); err != nil || p.Point != (desktop.Point{X: 400, Y: 300}) {
		t.Errorf("pointer begins at %v, %v; want the centre", p.Point, err)
	}
	pids := []int{pidOf(t, d, "Xvfb"), pidOf(t, d, "openbox"), pidOf(t, d, "dbus")}
	wantTyped(t, typeInto(t, d, "hello, wörld\n"), "hello, wörld\n")
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	for _, pid := range pids {
		if alive(pid) {
			t.Errorf("process %d is alive after Close", pid)
		}
	}
	if _, err := os.Stat(st.Home); !os.IsNotExist(err) {
		t.Errorf("temporary home %s is still there: %v", st.Home, err)
	}
	if _, err := d.Screenshot(t.Context(), desktop.ScreenshotOptions{}); !errors.Is(err, desktop.ErrClosed) {
		t.Errorf("screenshot after Close: %v, want ErrClosed", err)
	}
	if got := d.Status().State; got != desktop.StateInactive {
		t.Errorf("state after Close is %s", got)
	}
}

func typeInto(t *testing.T, d *desktop.Desktop, text string) string {
	t.Helper()
	path := xterm(t, d)
	if err := d.Type(t.Context(), desktop.Type{Text: text}); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestDesktopsDoNotMeet(t *testing.T) {
	t.Parallel()
	a, b := start(t, desktop.Config{ID: "a"}), start(t, desktop.Config{ID: "b"})
	if a.Status().Display == b.Status().Display || a.Status().Home == b.Status().Home {
		t.Fatalf("shared: %+v %+v", a.Status(), b.Status())
	}
	fileA, fileB := xterm(t, a), xterm(t, b)
	ctx := t.Context()
	if err := errors.Join(
		a.Type(ctx, desktop.Type{Text: "for a\n"}), b.Type(ctx, desktop.Type{Text: "for b\n"}),
		a.SetClipboard(ctx, desktop.Content{Data: []byte("clip a")}), b.SetClipboard(ctx, desktop.Content{Data: []byte("clip b")}),
	); err != nil {
		t.Fatal(err)
	}
	wantTyped(t, fileA, "for a\n")
	wantTyped(t, fileB, "for b\n")
	for d, want := range map[*desktop.Desktop]string{a: "clip a", b: "clip b"} {
		if c, err := d.Clipboard(ctx, desktop.Clipboard, ""); err != nil || string(c.Data) != want {
			t.Errorf("clipboard = %q, %v; want %q", c.Data, err, want)
		}
	}
	// Another user of this host, without the cookie, is refused.
	cmd := exec.Command("xdpyinfo", "-display", a.Status().Display)
	cmd.Env = append(os.Environ(), "XAUTHORITY=/nonexistent")
	if out, err := cmd.CombinedOutput(); err == nil {
		t.Errorf("xdpyinfo without the cookie succeeded: %.100s", out)
	}
}

func TestDisplayNumber(t *testing.T) {
	t.Parallel()
	first := start(t, desktop.Config{})
	n, _ := strconv.Atoi(first.Status().Display[1:])
	second := start(t, desktop.Config{Display: n})
	m, _ := strconv.Atoi(second.Status().Display[1:])
	if m <= n {
		t.Errorf("display :%d was taken, got :%d", n, m)
	}
}

func TestXServerKilled(t *testing.T) {
	t.Parallel()
	d := start(t, desktop.Config{})
	sub := d.Subscribe(0)
	defer sub.Close()
	before := d.Status()
	xterm(t, d)
	if err := syscall.Kill(pidOf(t, d, "Xvfb"), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	failed := await(t, sub, "failure", ofType(desktop.EventFailed))
	if failed.Failure.Code != "xserver_exited" {
		t.Errorf("failure %+v", failed.Failure)
	}
	// A call during the restart returns ErrRestarting, or works already.
	if _, err := d.Screenshot(t.Context(), desktop.ScreenshotOptions{}); err != nil && !errors.Is(err, desktop.ErrRestarting) {
		t.Errorf("screenshot meanwhile: %v, want ErrRestarting", err)
	}
	await(t, sub, "restart", ofType(desktop.EventRestarted))
	after := d.Status()
	if after.State != desktop.StateActive || !testx11.Stays(before.Display, after.Display) || after.Restarts != 1 || !after.StartedAt.After(before.StartedAt) {
		t.Errorf("status after the restart %+v, before %+v", after, before)
	}
	if after.Size != before.Size {
		t.Errorf("size %v, want %v", after.Size, before.Size)
	}
	wantTyped(t, typeInto(t, d, "again\n"), "again\n")
}

func TestWindowManagerKilled(t *testing.T) {
	t.Parallel()
	d := start(t, desktop.Config{})
	sub := d.Subscribe(0)
	defer sub.Close()
	path := xterm(t, d)
	before := pidOf(t, d, "openbox")
	if err := syscall.Kill(before, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	await(t, sub, "failure", ofType(desktop.EventFailed))
	await(t, sub, "restart", ofType(desktop.EventRestarted))
	if now := pidOf(t, d, "openbox"); now == before {
		t.Error("openbox was not replaced")
	}
	windows, err := d.Windows(t.Context(), desktop.WindowFilter{})
	if err != nil || len(windows) != 1 {
		t.Fatalf("windows %+v, %v; want the terminal, which survives", windows, err)
	}
	if _, err := d.FocusWindow(t.Context(), windows[0].ID); err != nil {
		t.Fatal(err)
	}
	if err := d.Type(t.Context(), desktop.Type{Text: "still here\n"}); err != nil {
		t.Fatal(err)
	}
	wantTyped(t, path, "still here\n")
}

func TestBusKilled(t *testing.T) {
	t.Parallel()
	d := start(t, desktop.Config{})
	sub := d.Subscribe(0)
	defer sub.Close()
	if err := syscall.Kill(pidOf(t, d, "dbus"), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	await(t, sub, "restart", ofType(desktop.EventRestarted))
	app, err := d.Launch(t.Context(), desktop.Launch{
		App: "dbus-send", Args: []string{"--session", "--print-reply", "--dest=org.freedesktop.DBus", "/", "org.freedesktop.DBus.ListNames"}, Wait: true,
	})
	if err != nil || !app.Exited || app.ExitCode != 0 {
		t.Errorf("dbus-send after the restart: %+v, %v", app, err)
	}
}

func TestOwnerKilled(t *testing.T) {
	t.Parallel()
	testx11.Require(t, "Xvfb", "openbox", "dbus-daemon", "xterm")
	dir := t.TempDir()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), ownerEnv+"="+dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line := make([]byte, 256)
	n, _ := out.Read(line)
	if !strings.HasPrefix(string(line[:n]), "ready") {
		t.Fatalf("owner said %q", line[:n])
	}
	left := processesWithHome(t, dir)
	if len(left) < 4 {
		t.Fatalf("found only %v of the desktop's processes", left)
	}
	var pulse int
	if _, err := fmt.Sscanf(string(line[:n]), "ready %d", &pulse); err != nil {
		t.Fatal(err)
	}
	if pulse > 0 {
		left = append(left, pulse)
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	start(t, desktop.Config{StateDir: dir})
	for _, pid := range left {
		until(t, "process of the killed owner is gone: "+strconv.Itoa(pid), func() bool { return !alive(pid) })
	}
}

// processesWithHome finds the processes whose HOME is in a directory.
func processesWithHome(t *testing.T, dir string) []int {
	t.Helper()
	envs, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		t.Fatal(err)
	}
	var pids []int
	for _, path := range envs {
		b, err := os.ReadFile(path)
		if err != nil || !strings.Contains(string(b), "HOME="+dir) {
			continue
		}
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		pids = append(pids, pid)
	}
	return pids
}

func TestStateDirInUse(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first := start(t, desktop.Config{StateDir: dir})
	if _, err := desktop.Start(t.Context(), desktop.Config{StateDir: dir}); err == nil || !strings.Contains(err.Error(), dir) {
		t.Errorf("second desktop in %s: %v, want an error that names it", dir, err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	start(t, desktop.Config{StateDir: dir})
}
