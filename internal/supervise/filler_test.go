package supervise

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"weak"

	"golang.org/x/sys/unix"
)

// filled is a Filler that keeps all output and offers little space at a time.
type filled struct {
	mu   sync.Mutex
	data []byte
	next [100]byte
}

func (f *filled) Write(b []byte) (int, error) { panic("a Filler is read into") }

func (f *filled) Space() []byte { return f.next[:] }

func (f *filled) Filled(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.data = append(f.data, f.next[:n]...)
}

func (f *filled) String() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return string(f.data)
}

func TestFiller(t *testing.T) {
	t.Parallel()
	g := newTestGroup(t, GroupConfig{})
	for range 20 {
		out, errs := &filled{}, &filled{}
		c := start(t, g, Spec{
			Path: "sh", Args: []string{"-c", "sleep 1000 & head -c 60000 /dev/zero; echo end; echo err >&2"}, Stdout: out, Stderr: errs,
		})
		wait(t, c)
		if s := out.String(); len(s) != 60004 || !strings.HasSuffix(s, "end\n") || errs.String() != "err\n" || c.Tail() != "" {
			t.Fatalf("at Done: %d bytes, want 60004; errors %q, tail %q", len(s), errs, c.Tail())
		}
	}
}

// openPTY returns the two sides of a terminal, the master's in non-blocking
// mode.
func openPTY(t *testing.T) (master, tty *os.File) {
	t.Helper()
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		t.Skip("no pseudo terminals here:", err)
	}
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	tty, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	return os.NewFile(uintptr(fd), "master"), tty
}

// At Done, all output of the child to its terminal was forwarded, even if another process has
// the terminal open. The end of the terminal adds no text.
func TestMaster(t *testing.T) {
	t.Parallel()
	g := newTestGroup(t, GroupConfig{})
	for range 20 {
		master, tty := openPTY(t)
		out := &filled{}
		c, err := g.Start(Spec{
			Path: "sh", Args: []string{"-c", "stty raw; (trap '' HUP; exec sleep 1000) & head -c 60000 /dev/zero; echo end"},
			TTY: tty, Master: master, Output: out,
		})
		tty.Close()
		if err != nil {
			t.Fatal(err)
		}
		wait(t, c)
		if s := out.String(); len(s) != 60004 || !strings.HasSuffix(s, "end\n") {
			t.Fatalf("%d bytes at Done, want 60004, ending %q", len(s), s[max(0, len(s)-20):])
		}
	}
}

func TestMasterIsClosed(t *testing.T) {
	t.Parallel()
	g := newTestGroup(t, GroupConfig{})
	closed := func(f *os.File) func() error {
		return func() error {
			if _, err := f.Stat(); !errors.Is(err, os.ErrClosed) {
				return errFull
			}
			return nil
		}
	}
	master, tty := openPTY(t)
	wait(t, start(t, g, Spec{Path: "true", TTY: tty, Master: master, Output: &filled{}}))
	tty.Close()
	if err := poll(time.Minute, closed(master)); err != nil {
		t.Error("the master is open after the end of the child")
	}
	master, tty = openPTY(t)
	if _, err := g.Start(Spec{Path: "no-such-program", TTY: tty, Master: master}); err == nil {
		t.Error("no error")
	}
	tty.Close()
	if err := closed(master)(); err != nil {
		t.Error("the master is open after a failed start")
	}
}

// hungUp waits until no process has the terminal open.
func hungUp(t *testing.T, master *os.File) {
	t.Helper()
	if err := poll(time.Minute, func() error {
		if inUse(master) {
			return errors.New("something has the terminal open")
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// inUse reports whether a process has a terminal open.
func inUse(master *os.File) bool {
	fds := []unix.PollFd{{}}
	conn, err := master.SyscallConn()
	if err == nil {
		err = conn.Control(func(fd uintptr) {
			fds[0].Fd = int32(fd)
			_, _ = unix.Poll(fds, 0)
		})
	}
	return err == nil && fds[0].Revents&unix.POLLHUP == 0
}

// A child may close its terminal, continue, and open it again.
func TestTTYLeft(t *testing.T) {
	t.Parallel()
	g := newTestGroup(t, GroupConfig{})
	for range 5 {
		fifo := filepath.Join(t.TempDir(), "fifo")
		if err := unix.Mkfifo(fifo, 0o600); err != nil {
			t.Fatal(err)
		}
		master, tty := openPTY(t)
		out := &filled{}
		c := start(t, g, Spec{
			Path: "sh", Args: []string{"-c", `echo one; exec <"$0" >&0 2>&0; read x; read x; echo "$x" >/dev/tty; read x; exit 7`, fifo},
			TTY: tty, Master: master, Output: out,
		})
		tty.Close()
		w, err := os.OpenFile(fifo, os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		for _, line := range []string{"\n", "two\n", "\n"} {
			hungUp(t, master)
			if _, err := w.WriteString(line); err != nil {
				t.Fatal(err)
			}
			if line != "two\n" {
				continue
			}
			if err := poll(time.Minute, func() error {
				if !strings.HasSuffix(out.String(), "two\r\n") && !c.ended() {
					return errFull
				}
				return nil
			}); err != nil || c.ended() {
				t.Fatalf("the terminal shows %q; %v", out.String(), c.Exit())
			}
		}
		wait(t, c)
		if e, s := c.Exit(), out.String(); e.Code != 7 || s != "one\r\ntwo\r\n" {
			t.Fatalf("it has ended with %v, and the terminal shows %q", e, s)
		}
	}
}

// Stop ends the processes of a child that runs as another user like all others.
func TestCredential(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can change users")
	}
	g := newTestGroup(t, GroupConfig{})
	out := &output{}
	c := start(t, g, Spec{
		Path: "sh", Args: []string{"-c", "echo ids $(id -u) $(id -g) $(id -G); " + familyScript}, Dir: "/",
		Credential: &syscall.Credential{Uid: 65534, Gid: 65533, Groups: []uint32{65532}}, Output: out,
	})
	if got := out.await(t, "ids"); got != "ids 65534 65533 65533 65532" {
		t.Errorf("ids: %q", got)
	}
	f := parseFamily(t, out.await(t, "family"))
	wantAlive(t, f.all()...)
	if status, err := os.ReadFile("/proc/self/status"); err != nil || !bytes.Contains(status, []byte("\nUid:\t0\t")) {
		t.Errorf("this program has lost its rights: %v", err)
	}
	if err := c.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantGone(t, f.all()...)
}

// After all output of a child was forwarded, its writers can be collected, although the
// child's record is kept.
func TestEndedChildrenReleaseWriters(t *testing.T) {
	t.Parallel()
	g := newTestGroup(t, GroupConfig{})
	run := func() (*Child, weak.Pointer[filled], weak.Pointer[output]) {
		out, errs := &filled{}, &output{}
		c := start(t, g, Spec{Path: "sh", Args: []string{"-c", "echo out; echo err >&2"}, Stdout: out, Stderr: errs})
		wait(t, c)
		return c, weak.Make(out), weak.Make(errs)
	}
	c, out, errs := run()
	err := poll(time.Minute, func() error {
		runtime.GC()
		if out.Value() != nil || errs.Value() != nil {
			return errors.New("the record of an ended child refers to the writer of its output")
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	if Find(c.ID()) != c || c.Tail() != "err\n" {
		t.Errorf("the record is %v, with the tail %q", Find(c.ID()), c.Tail())
	}
}
