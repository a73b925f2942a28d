package x11_test

import (
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jezek/xgb"
	"github.com/jezek/xgb/xproto"
)

// TestTypeIntoStopped stops a terminal while it has text to read. Typing must end with an
// error and must not reuse keycodes that the terminal still has to look up. The typed text
// must be correct after the terminal continues.
func TestTypeIntoStopped(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	received := d.xterm(t)
	f, err := xproto.GetInputFocus(d.conn.X()).Reply()
	if err != nil {
		t.Fatal(err)
	}
	pid := d.in.ProcessOf(f.Focus)
	if pid <= 1 {
		t.Fatalf("process of xterm's window: %d", pid)
	}
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	text := cjkText(7, 200)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	n, err := d.in.Keyboard.Type(ctx, textOf(text), 0)
	if n == 0 || n > 150 || !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("Type = %d, %v, want part of the text and %v", n, err, context.DeadlineExceeded)
	}
	if err := syscall.Kill(pid, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	rest := string([]rune(text)[n:])
	d.typeText(t, rest)
	poll(t, "text", func() bool { return len(received()) >= len(text) })
	sameText(t, received(), text)
}

// deafConn is a connection that can stop reading.
type deafConn struct {
	net.Conn
	deaf <-chan struct{}
}

func (c deafConn) Read(b []byte) (int, error) {
	select {
	case <-c.deaf:
		select {} // for ever
	default:
	}
	return c.Conn.Read(b)
}

// TestDeafClient is not a test but the program that TestTypeIntoDeaf starts. It
// sleeps without having read its events.
func TestDeafClient(t *testing.T) {
	display := os.Getenv("DESKHAND_DEAF")
	if display == "" {
		t.Skip("only as a child of TestTypeIntoDeaf")
	}
	sock, err := net.Dial("unix", "/tmp/.X11-unix/X"+strings.TrimPrefix(display, ":"))
	if err != nil {
		t.Fatal(err)
	}
	deaf := make(chan struct{})
	x, err := xgb.NewConnNet(deafConn{sock, deaf})
	if err != nil {
		t.Fatal(err)
	}
	win, err := xproto.NewWindowId(x)
	if err != nil {
		t.Fatal(err)
	}
	xproto.CreateWindow(x, 0, win, xproto.Setup(x).DefaultScreen(x).Root, 0, 0, 50, 50, 0, xproto.WindowClassInputOutput, 0,
		xproto.CwEventMask, []uint32{xproto.EventMaskKeyPress | xproto.EventMaskKeyRelease})
	xproto.MapWindow(x, win)
	close(deaf) // the running read gets the next answer, and later reads get none
	if err := xproto.SetInputFocusChecked(x, 0, win, xproto.TimeCurrentTime).Check(); err != nil {
		t.Fatal(err)
	}
	select {}
}

func TestTypeIntoDeaf(t *testing.T) {
	t.Parallel()
	if os.Getenv("DESKHAND_DEAF") != "" {
		t.Skip("in the child")
	}
	b := newBoard(t)
	cmd := exec.Command(os.Args[0], "-test.run=^TestDeafClient$")
	// xgb.NewConnNet does not know the display's number, so this file names none.
	authority := filepath.Join(t.TempDir(), "authority")
	entry := "\xff\xff\x00\x00\x00\x00\x00\x12MIT-MAGIC-COOKIE-1\x00\x10" + string(b.server.Cookie)
	if err := os.WriteFile(authority, []byte(entry), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd.Env = append(b.server.Env(), "DESKHAND_DEAF="+b.server.Display, "XAUTHORITY="+authority)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	poll(t, "the client's window", func() bool {
		f, err := xproto.GetInputFocus(b.viewer.X()).Reply()
		return err == nil && f.Focus != b.win
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	n, err := b.in.Keyboard.Type(ctx, textOf(cjkText(8, 200)), 0)
	if n > 150 || !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("Type = %d, %v, want part of the text and %v", n, err, context.DeadlineExceeded)
	}
	// Type does not wait for a client that has exited.
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if n, err := b.in.Keyboard.Type(t.Context(), textOf(cjkText(9, 200)), 0); n != 200 || err != nil {
		t.Errorf("Type after its exit = %d, %v", n, err)
	}
}
