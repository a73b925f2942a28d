package main

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/creack/pty"

	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/internal/testx11"
)

// seat starts a desktop that stands for the host's, and returns its environment.
func seat(t *testing.T) (*desktop.Desktop, []string) {
	t.Helper()
	testx11.Require(t, "Xvfb", "openbox", "dbus-daemon")
	d, err := desktop.Start(t.Context(), desktop.Config{Size: desktop.Size{Width: 640, Height: 480}, StateDir: filepath.Join(t.TempDir(), "seat")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	s := d.Status()
	return d, environ(t, "DISPLAY="+s.Display, "XAUTHORITY="+s.Authority)
}

// TestHostDesktop drives the desktop of the session, until the chord is pressed
// there.
func TestHostDesktop(t *testing.T) {
	t.Parallel()
	d, env := seat(t)
	s := serve(t, env, "--host-desktop", "--yes")
	var status struct {
		Host       bool
		State      string
		Display    string
		Resolution struct{ Width int }
	}
	s.ask(t, "/v1/desktop/status", "", &status)
	if !status.Host || status.State != "active" || status.Display != d.Status().Display || status.Resolution.Width != 640 {
		t.Errorf("status: %+v", status)
	}
	s.ask(t, "/v1/desktop/mouse/move", `{"x":321,"y":123}`, nil)
	if at, err := d.Pointer(t.Context()); err != nil || at.Point != (desktop.Point{X: 321, Y: 123}) {
		t.Errorf("the pointer is at %v, %v", at, err)
	}
	if code, body := s.call(t, "/v1/desktop/screenshot", ""); code != 200 || !strings.HasPrefix(string(body), "\x89PNG") {
		t.Errorf("screenshot: %d", code)
	}
	// Other desktops are virtual.
	if code, answer := s.call(t, "/v1/desktops", `{"id":"other"}`); code != 201 || strings.Contains(string(answer), `"host"`) {
		t.Errorf("another desktop: %d %s", code, answer)
	}
	if err := d.Press(t.Context(), desktop.Press{Keys: panicChord}); err != nil {
		t.Fatal(err)
	}
	poll(t, readyLimit, "the server ends", func() string {
		select {
		case <-s.ended:
			return ""
		default:
			return "it runs"
		}
	})
	if s.state.ExitCode() != exitFailure || !strings.Contains(s.stderr.String(), "Ctrl+Alt+Shift+Esc was pressed") {
		t.Errorf("%v: %s", s.state, s.stderr.String())
	}
	if _, err := d.Windows(t.Context(), desktop.WindowFilter{}); err != nil {
		t.Errorf("the desktop itself: %v", err)
	}
}

func TestHostDesktopRefused(t *testing.T) {
	t.Parallel()
	d, env := seat(t)
	for args, want := range map[string]struct {
		status int
		text   string
	}{
		"--yes --no-token": {exitUsage, "--host-desktop excludes --no-token"},
		"":                 {exitUsage, "give --yes"},
	} {
		got := runCommandLine(t, env, append([]string{"server", "--port", "0", "--host-desktop"}, strings.Fields(args)...)...)
		if got.status != want.status || !strings.Contains(got.stderr, want.text) {
			t.Errorf("%s: %+v", args, got)
		}
	}
	if got := runCommandLine(t, environ(t), "server", "--port", "0", "--host-desktop", "--yes"); got.status != exitFailure || !strings.Contains(got.stderr, "DISPLAY is not set") {
		t.Errorf("without a display: %+v", got)
	}
	// Without its chord it does not begin.
	watch, err := desktop.WatchChord(t.Context(), d.Status().Display, d.Status().Authority, panicChord, func() {})
	if err != nil {
		t.Fatal(err)
	}
	got := runCommandLine(t, env, "server", "--port", "0", "--host-desktop", "--yes")
	if got.status != exitFailure || !strings.Contains(got.stderr, "another program has it") {
		t.Errorf("the chord is taken: %+v", got)
	}
	if err := watch.Close(); err != nil {
		t.Error(err)
	}
}

// TestHostDesktopAsks answers no at a terminal.
func TestHostDesktopAsks(t *testing.T) {
	t.Parallel()
	_, env := seat(t)
	cmd := exec.CommandContext(t.Context(), binary, "server", "--port", "0", "--host-desktop")
	cmd.Env = env
	terminal, err := pty.Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	defer terminal.Close()
	if _, err := terminal.WriteString("no\n"); err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	buf := make([]byte, 4096)
	for {
		n, err := terminal.Read(buf)
		said.Write(buf[:n])
		if err != nil {
			break // the terminal ends with the program
		}
	}
	_ = cmd.Wait() // its status is looked at below
	if !strings.Contains(said.String(), "Go on? [y/N]") || !strings.Contains(said.String(), "nothing was started") || cmd.ProcessState.ExitCode() != exitFailure {
		t.Errorf("%v: %s", cmd.ProcessState, said.String())
	}
}
