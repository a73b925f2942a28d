package desktop_test

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
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
	"github.com/deskhand/deskhand/internal/x11"
)

// The files of a display number.
const (
	socketFile = "/tmp/.X11-unix/X%d"
	keymapFile = "/tmp/server-%d.xkm"
)

// freeDisplay returns a display number without files.
func freeDisplay(t *testing.T) int {
	t.Helper()
	for {
		n := 10000 + rand.IntN(40000)
		_, socket := os.Lstat(fmt.Sprintf(socketFile, n))
		_, keymap := os.Lstat(fmt.Sprintf(keymapFile, n))
		if errors.Is(socket, fs.ErrNotExist) && errors.Is(keymap, fs.ErrNotExist) {
			return n
		}
	}
}

// numberOf returns a desktop's display number.
func numberOf(t *testing.T, d *desktop.Desktop) int {
	t.Helper()
	n, err := strconv.Atoi(strings.TrimPrefix(d.Status().Display, ":"))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestKeymapFileOfAnotherUser: another user has made the file that the X server needs for its
// keymap, before the start and before the restart. Another display number is used.
func TestKeymapFileOfAnotherUser(t *testing.T) {
	t.Parallel()
	u := unprivilegedUser(t)
	makeFile := func(number int) {
		path := fmt.Sprintf(keymapFile, number)
		t.Cleanup(func() { _ = os.Remove(path) })
		if err := errors.Join(os.WriteFile(path, nil, 0o644), os.Lchown(path, 12345, 12345)); err != nil {
			t.Fatal(err)
		}
	}
	n := freeDisplay(t)
	makeFile(n)
	d := start(t, desktop.Config{RunAs: u.Name, Display: n})
	first := numberOf(t, d)
	if first <= n {
		t.Fatalf("display :%d in spite of the file", first)
	}
	sub := d.Subscribe(0)
	defer sub.Close()
	makeFile(first)
	signal(t, pidOf(t, d, "Xvfb"), syscall.SIGKILL)
	await(t, sub, "restart", ofType(desktop.EventRestarted))
	if second := numberOf(t, d); second <= first {
		t.Errorf("display :%d after :%d", second, first)
	}
}

// TestNewCookie: an X server that replaces another one has a cookie of its own, which clients send
// only to its display. It is not parallel, because it changes the environment.
func TestNewCookie(t *testing.T) {
	testx11.Require(t, "xdpyinfo")
	dir := t.TempDir()
	early, shared := filepath.Join(dir, "early"), filepath.Join(dir, "shared")
	fakeXvfb(t, `cp "$XAUTHORITY" `+early+`; exec "$real" "$@"`)
	t.Setenv("XAUTHORITY", shared)
	n := freeDisplay(t)
	d := start(t, desktop.Config{Display: n, ShareAuthority: true})
	sub := d.Subscribe(0)
	defer sub.Close()
	authority := readFile(t, d.Status().Authority)
	old := []byte(authority[len(authority)-16:])
	signal(t, pidOf(t, d, "Xvfb"), syscall.SIGKILL)
	await(t, sub, "restart", ofType(desktop.EventRestarted))
	display := d.Status().Display
	for name, cfg := range map[string]x11.Config{
		"the desktop's file": {Display: display, Authority: d.Status().Authority},
		"the user's file":    {Display: display, Authority: shared},
	} {
		if c, err := x11.Dial(t.Context(), cfg); err != nil {
			t.Errorf("with %s: %v", name, err)
		} else {
			_ = c.Close()
		}
	}
	for name, cfg := range map[string]x11.Config{
		"the old cookie":                    {Display: display, Cookie: old},
		"the file from before Xvfb listens": {Display: display, Authority: early},
	} {
		if c, err := x11.Dial(t.Context(), cfg); err == nil {
			_ = c.Close()
			t.Errorf("the new X server accepts %s", name)
		}
	}

	other := freeDisplay(t)
	l, err := net.Listen("unix", fmt.Sprintf(socketFile, other))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	client := exec.Command("xdpyinfo", "-display", fmt.Sprintf(":%d", other))
	client.Env = append(os.Environ(), "XAUTHORITY="+d.Status().Authority)
	if err := client.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Wait() }()
	c, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	setup := make([]byte, 12) // has the lengths of the protocol's name and the cookie
	if _, err := io.ReadFull(c, setup); err != nil {
		t.Fatal(err)
	}
	if lengths := setup[6:10]; string(lengths) != "\x00\x00\x00\x00" {
		t.Errorf("a client sends the cookie to another display: % x", setup)
	}
}
