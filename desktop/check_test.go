package desktop_test

import (
	"bytes"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/internal/testlog"
	"github.com/deskhand/deskhand/internal/testx11"
)

// TestWindowManagerHangs replaces a window manager that does not answer, although a program
// has forged its property. The windows stay.
func TestWindowManagerHangs(t *testing.T) {
	t.Parallel()
	testx11.Require(t, "xprop")
	d := start(t, desktop.Config{})
	path := xterm(t, d)
	sub := d.Subscribe(0)
	defer sub.Close()
	forged, err := d.Launch(t.Context(), desktop.Launch{
		App: "xprop", Args: strings.Fields("-root -f _NET_SUPPORTING_WM_CHECK 32x -set _NET_SUPPORTING_WM_CHECK 0x370ffd1"), Wait: true,
	})
	if err != nil || forged.ExitCode != 0 {
		t.Fatalf("xprop: %+v, %v", forged, err)
	}
	pid := pidOf(t, d, "openbox")
	signal(t, pid, syscall.SIGSTOP)
	failed := await(t, sub, "failure", ofType(desktop.EventFailed))
	if failed.Failure.Code != "window_manager_hung" {
		t.Errorf("failure = %+v", failed.Failure)
	}
	restarted := await(t, sub, "restart", ofType(desktop.EventRestarted))
	if restarted.Failure == nil || restarted.Failure.Code != "window_manager_hung" {
		t.Errorf("restarted after %+v", restarted.Failure)
	}
	if st := d.Status(); st.State != desktop.StateActive || st.Restarts != 1 {
		t.Errorf("status after the restart: %+v", st)
	}
	if now := pidOf(t, d, "openbox"); now == pid {
		t.Error("openbox was not replaced")
	}
	windows, err := d.Windows(t.Context(), desktop.WindowFilter{})
	if err != nil || len(windows) != 1 {
		t.Fatalf("windows after the restart: %+v, %v", windows, err)
	}
	if _, err := d.FocusWindow(t.Context(), windows[0].ID); err != nil {
		t.Fatal(err)
	}
	if err := d.Type(t.Context(), desktop.Type{Text: "there\n"}); err != nil {
		t.Fatal(err)
	}
	wantTyped(t, path, "there\n")
}

// TestCloseDuringCheck closes a desktop while its check waits for an X server that
// hangs. It is not parallel, because it searches all goroutines for the check.
func TestCloseDuringCheck(t *testing.T) {
	d := start(t, desktop.Config{})
	signal(t, pidOf(t, d, "Xvfb"), syscall.SIGSTOP)
	stacks := make([]byte, 4<<20)
	until(t, "the check waits", func() bool {
		return bytes.Contains(stacks[:runtime.Stack(stacks, true)], []byte("desktop.(*recovery).check("))
	})
	wantCloseWithin(t, d, 8*time.Second)
}

// TestKeyboardIsRestored breaks the keyboard with a program that exits.
func TestKeyboardIsRestored(t *testing.T) {
	t.Parallel()
	testx11.Require(t, "xmodmap")
	d := start(t, desktop.Config{})
	path := xterm(t, d)
	sub := d.Subscribe(0)
	defer sub.Close()
	var script strings.Builder
	for _, modifier := range []string{"shift", "lock", "control", "mod1"} {
		script.WriteString("clear " + modifier + "\n")
	}
	script.WriteString("keycode 36 =\nkeycode 50 =\nkeycode 62 =\n")
	file := filepath.Join(t.TempDir(), "xmodmap")
	if err := os.WriteFile(file, []byte(script.String()), 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Launch(t.Context(), desktop.Launch{App: "xmodmap", Args: []string{file}}); err != nil {
		t.Fatal(err)
	}
	if e := await(t, sub, "failure", ofType(desktop.EventFailed)); e.Failure.Code != "keyboard_broken" {
		t.Errorf("failure = %+v", e.Failure)
	}
	await(t, sub, "restart", ofType(desktop.EventRestarted))
	if st := d.Status(); st.State != desktop.StateActive {
		t.Errorf("status after the restart: %+v", st)
	}
	if err := d.Type(t.Context(), desktop.Type{Text: "Hello, Wörld\n"}); err != nil {
		t.Fatal(err)
	}
	wantTyped(t, path, "Hello, Wörld\n")
}

// TestButtonMappingIsRestored changes the mapping of the pointer's buttons with a program that exits.
func TestButtonMappingIsRestored(t *testing.T) {
	t.Parallel()
	testx11.Require(t, "xmodmap")
	var log testlog.Buffer
	d := start(t, desktop.Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	mapping := func() string {
		t.Helper()
		cmd := exec.Command("xmodmap", "-display", d.Status().Display, "-pp")
		cmd.Env = append(os.Environ(), "XAUTHORITY="+d.Status().Authority)
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	want := mapping()
	swap, err := d.Launch(t.Context(), desktop.Launch{App: "xmodmap", Args: []string{"-e", "pointer = 3 2 1 4 5 6 7 8 9 10"}, Wait: true})
	if err != nil || swap.ExitCode != 0 {
		t.Fatalf("xmodmap: %+v, %v", swap, err)
	}
	until(t, "the log names the mapping", func() bool { return strings.Contains(log.String(), "mapping of the pointer restored") })
	if got := mapping(); got != want {
		t.Errorf("mapping of the buttons:\n%s\nwant:\n%s", got, want)
	}
	if st := d.Status(); st.State != desktop.StateActive || st.Restarts != 0 {
		t.Errorf("status: %+v", st)
	}
}
