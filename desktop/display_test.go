package desktop_test

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/deskhand/deskhand/desktop"
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
