package desktop_test

import (
	"encoding/binary"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/internal/testx11"
)

// xclient is a client that sends requests of the X11 protocol as bytes.
type xclient struct{ net.Conn }

// dial connects a client to the desktop.
func dial(t *testing.T, d *desktop.Desktop) xclient {
	t.Helper()
	c, err := net.Dial("unix", "/tmp/.X11-unix/X"+strings.TrimPrefix(d.Status().Display, ":"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	authority := readFile(t, d.Status().Authority) // the cookie is at its end
	x := xclient{c}
	x.send(t, "l\x00\x0b\x00\x00\x00\x12\x00\x10\x00\x00\x00MIT-MAGIC-COOKIE-1\x00\x00"+authority[len(authority)-16:])
	head := x.receive(t, 8)
	if head[0] != 1 {
		t.Fatalf("the X server refuses the client: % x", head)
	}
	x.receive(t, 4*int(binary.LittleEndian.Uint16(head[6:])))
	return x
}

func (x xclient) send(t *testing.T, request string) {
	t.Helper()
	if _, err := io.WriteString(x, request); err != nil {
		t.Fatal(err)
	}
}

func (x xclient) receive(t *testing.T, n int) []byte {
	t.Helper()
	b := make([]byte, n)
	if _, err := io.ReadFull(x, b); err != nil {
		t.Fatal(err)
	}
	return b
}

// kill ends the client that made the resource.
func (x xclient) kill(t *testing.T, resource uint32) {
	t.Helper()
	x.send(t, "\x71\x00\x02\x00"+string(binary.LittleEndian.AppendUint32(nil, resource))) // KillClient
}

// grab grabs the X server, which then serves no other client.
func (x xclient) grab(t *testing.T) {
	t.Helper()
	x.send(t, "\x24\x00\x01\x00\x2b\x00\x01\x00") // GrabServer, GetInputFocus
	x.receive(t, 32)
}

// TestGrabWithoutWindowManager: a client ends the window manager and grabs the X server, so that
// no other window manager can start. The X server is replaced.
func TestGrabWithoutWindowManager(t *testing.T) {
	testx11.Require(t, "xprop")
	d := start(t, desktop.Config{})
	t.Setenv("XAUTHORITY", d.Status().Authority)
	sub := d.Subscribe(0)
	defer sub.Close()
	x := dial(t, d)
	out, err := exec.Command("xprop", "-display", d.Status().Display, "-root", "_NET_SUPPORTING_WM_CHECK").Output()
	if err != nil {
		t.Fatal(err)
	}
	_, id, _ := strings.Cut(strings.TrimSpace(string(out)), "# 0x")
	window, err := strconv.ParseUint(id, 16, 32)
	if err != nil {
		t.Fatalf("the window of the window manager is %q: %v", out, err)
	}
	x.kill(t, uint32(window))
	x.grab(t)
	for _, want := range []string{"window_manager_exited", "xserver_hung"} {
		await(t, sub, want, func(e desktop.Event) bool { return e.Type == desktop.EventFailed && e.Failure.Code == want })
	}
	await(t, sub, "restart", ofType(desktop.EventRestarted))
	if _, err := d.Pointer(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestKeyboardCannotBeRestored: a key is held down, and the keyboard cannot be restored. Other
// parts are replaced.
func TestKeyboardCannotBeRestored(t *testing.T) {
	t.Parallel()
	testx11.Require(t, "xmodmap")
	d := start(t, desktop.Config{})
	sub := d.Subscribe(0)
	defer sub.Close()
	if err := d.KeyDown(t.Context(), "Control_L"); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "xmodmap")
	if err := os.WriteFile(file, []byte("keycode 36 =\n"), 0o600); err != nil { // Return
		t.Fatal(err)
	}
	if _, err := d.Launch(t.Context(), desktop.Launch{App: "xmodmap", Args: []string{file}}); err != nil {
		t.Fatal(err)
	}
	failed := func(code, text string) func(desktop.Event) bool {
		return func(e desktop.Event) bool {
			return e.Type == desktop.EventFailed && e.Failure.Code == code && strings.Contains(e.Failure.Message, text)
		}
	}
	restarted := func(code string) func(desktop.Event) bool {
		return func(e desktop.Event) bool { return e.Type == desktop.EventRestarted && e.Failure.Code == code }
	}
	await(t, sub, "the keyboard breaks", failed("keyboard_broken", ""))
	await(t, sub, "the keyboard stays broken", failed("start_failed", "a key is held down"))
	signal(t, pidOf(t, d, "openbox"), syscall.SIGKILL)
	await(t, sub, "another window manager", restarted("window_manager_exited"))
	if st := d.Status().State; st != desktop.StateFailed {
		t.Errorf("the desktop is %s with a broken keyboard", st)
	}
	dial(t, d).grab(t)
	if _, err := d.Pointer(t.Context()); err == nil {
		t.Error("the X server has answered")
	}
	await(t, sub, "another X server", restarted("xserver_hung"))
	if st := d.Status().State; st != desktop.StateActive {
		t.Errorf("the desktop is %s", st)
	}
}
