package supervise

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// failing is a writer that fails after a number of writes.
type failing struct{ left int }

func (f *failing) Write(b []byte) (int, error) {
	if f.left == 0 {
		return 0, errFull
	}
	f.left--
	return len(b), nil
}

// blocking is a writer that blocks until the channel is closed.
type blocking chan struct{}

func (b blocking) Write(p []byte) (int, error) {
	<-b
	return len(p), nil
}

func TestOutputOrder(t *testing.T) {
	t.Parallel()
	g := newTestGroup(t, GroupConfig{})
	c, out := shell(t, g, "echo 1; echo 2 >&2; echo 3")
	wait(t, c)
	if out.String() != "1\n2\n3\n" || c.Tail() != "1\n2\n3\n" {
		t.Errorf("output %q, tail %q, want 1 2 3", out, c.Tail())
	}
}

func TestOutputApart(t *testing.T) {
	t.Parallel()
	g := newTestGroup(t, GroupConfig{})
	outw, errw := &output{}, &output{}
	c := start(t, g, Spec{Path: "sh", Args: []string{"-c", "echo o; echo e >&2"}, Stdout: outw, Stderr: errw})
	wait(t, c)
	if outw.String() != "o\n" || errw.String() != "e\n" {
		t.Errorf("stdout %q, stderr %q", outw, errw)
	}

	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	rest := &output{}
	c = start(t, g, Spec{Path: "cat", Args: []string{"-", "/no/such"}, Stdin: openText(t, "in"), Stdout: w, Output: rest})
	w.Close()
	wait(t, c)
	var buf bytes.Buffer
	if _, err := buf.ReadFrom(r); err != nil || buf.String() != "in" {
		t.Errorf("the file got %q, %v", buf.String(), err)
	}
	if !strings.Contains(rest.String(), "/no/such") || c.Tail() != rest.String() {
		t.Errorf("the rest is %q, tail %q", rest, c.Tail())
	}
}

func openText(t *testing.T, text string) *os.File {
	t.Helper()
	path := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// At Done, all output of the child was forwarded, however much it is.
func TestOutputComplete(t *testing.T) {
	t.Parallel()
	g := newTestGroup(t, GroupConfig{})
	for range 20 {
		c, out := shell(t, g, "sleep 1000 & head -c 60000 /dev/zero; echo end")
		wait(t, c)
		if s := out.String(); len(s) != 60004 || !strings.HasSuffix(s, "end\n") {
			t.Fatalf("%d bytes at Done, want 60004", len(s))
		}
	}
}

func TestOutputWriterFails(t *testing.T) {
	t.Parallel()
	g := newTestGroup(t, GroupConfig{})
	c := start(t, g, Spec{Path: "sh", Args: []string{"-c", "head -c 1000000 /dev/zero; echo end"}, Output: &failing{left: 2}})
	if e := wait(t, c); e.Code != 0 || !strings.HasSuffix(c.Tail(), "end\n") {
		t.Errorf("Exit() = %v, tail ends %q", e, c.Tail()[max(0, len(c.Tail())-10):])
	}
	if n := len(c.Tail()); n != tailSize {
		t.Errorf("tail of %d bytes, want %d", n, tailSize)
	}
}

// slow is a writer whose writes take some time.
type slow struct{ output }

func (s *slow) Write(p []byte) (int, error) {
	<-time.After(drainWait / 3)
	return s.output.Write(p)
}

// At Done, all output was forwarded, even if that takes longer than Done waits for a blocked
// writer.
func TestOutputWriterIsSlow(t *testing.T) {
	t.Parallel()
	g := newTestGroup(t, GroupConfig{})
	out := &slow{}
	wait(t, start(t, g, Spec{Path: "head", Args: []string{"-c", "65536", "/dev/zero"}, Output: out}))
	if n := len(out.String()); n != 65536 {
		t.Errorf("%d bytes at Done, want 65536", n)
	}
}

func TestOutputWriterBlocks(t *testing.T) {
	t.Parallel()
	g := newTestGroup(t, GroupConfig{})
	b := make(blocking)
	defer close(b)
	c := start(t, g, Spec{Path: "echo", Args: []string{"x"}, Output: b})
	wait(t, c)
}

// Done and Close do not wait for a process that holds the pipe, even if no signal reaches it.
func TestPipeHolder(t *testing.T) {
	t.Parallel()
	g := newTestGroup(t, GroupConfig{})
	c, out := shell(t, g, "env -i setsid sh -c 'echo holder $$; exec sleep 1000' & exit 0")
	begin := time.Now()
	wait(t, c)
	pid := number(t, out.await(t, "holder"))
	defer func() {
		if err := unix.Kill(pid, unix.SIGKILL); err != nil {
			t.Error("the holder:", err)
		}
	}()
	if err := g.Close(); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(begin); took > 5*time.Second {
		t.Errorf("took %v", took)
	}
	wantAlive(t, pid)
}

// A process opens the output of many children and keeps it. The group reads the pipes of the
// last children.
func TestPipeCollector(t *testing.T) {
	t.Parallel()
	collector := role(t, "collector")
	orders, err := collector.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	answers, err := collector.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := collector.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = orders.Close()
		if err := collector.Wait(); err != nil {
			t.Error(err)
		}
	}()
	lines := bufio.NewScanner(answers)
	await := func(want string) {
		t.Helper()
		if !lines.Scan() || lines.Text() != want {
			t.Fatalf("the collector prints %q, want %q", lines.Text(), want)
		}
	}
	await("ready")
	g := newTestGroup(t, GroupConfig{})
	const closed = 5
	var pumps []*pump
	for range keepOpen + closed {
		in, end, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		c := start(t, g, Spec{Path: "cat", Stdin: in})
		_ = in.Close()
		pumps = append(pumps, c.pumps...)
		fmt.Fprintln(orders, c.PID())
		await("kept")
		_ = end.Close()
		wait(t, c)
	}
	if err := poll(10*time.Second, func() error {
		g.mu.Lock()
		defer g.mu.Unlock()
		if !slices.Equal(g.pumps, pumps[closed:]) {
			return fmt.Errorf("%d of %d pipes are open, want the last %d", len(g.pumps), len(pumps), keepOpen)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
}

func TestTailIsText(t *testing.T) {
	t.Parallel()
	s := &sink{}
	for range tailSize {
		s.write([]byte("é漢\xff"))
	}
	if got := s.text(); len(got) < tailSize-8 || !strings.HasPrefix(strings.TrimLeft(got, "é\uFFFD"), "漢") {
		t.Errorf("tail of %d bytes starts with %q", len(got), got[:16])
	}
}

func TestTTY(t *testing.T) {
	t.Parallel()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip("no pseudo terminals here:", err)
	}
	defer master.Close()
	if err := unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	path := fmt.Sprintf("/dev/pts/%d", n)
	tty, err := os.OpenFile(path, os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	g := newTestGroup(t, GroupConfig{})
	c := start(t, g, Spec{Path: "sh", Args: []string{"-c", "tty; tty </dev/tty; ps -o sid= -p $$; sleep 1000 & wait"}, TTY: tty})
	tty.Close()
	buf, text := make([]byte, 256), ""
	for strings.Count(text, "\n") < 3 {
		n, err := master.Read(buf)
		if err != nil {
			t.Fatalf("read after %q: %v", text, err)
		}
		text += string(buf[:n])
	}
	want := fmt.Sprintf("%s %s %d", path, "/dev/tty", c.PID())
	if got := strings.Join(strings.Fields(text), " "); got != want {
		t.Errorf("the terminal shows %q, want %q", got, want)
	}
	if err := c.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestLogFile(t *testing.T) {
	t.Parallel()
	g := newTestGroup(t, GroupConfig{})
	path := filepath.Join(t.TempDir(), "log")
	// Two children share the log, and write 6 MiB each.
	var kids []*Child
	for range 2 {
		kids = append(kids, start(t, g, Spec{Path: "head", Args: []string{"-c", "6291456", "/dev/zero"}, LogPath: path}))
	}
	for _, c := range kids {
		wait(t, c)
	}
	for _, p := range []string{path, path + ".1"} {
		fi, err := os.Stat(p)
		if err != nil {
			t.Fatal(err)
		}
		if fi.Size() > logSize || fi.Mode().Perm() != 0o600 {
			t.Errorf("%s: %d bytes, mode %v", p, fi.Size(), fi.Mode())
		}
	}
	wait(t, start(t, g, Spec{Path: "echo", Args: []string{"last"}, LogPath: path}))
	b, err := os.ReadFile(path)
	if err != nil || !bytes.HasSuffix(b, []byte("last\n")) {
		t.Errorf("the log lacks the last line: %v", err)
	}
}

func TestLogFileOnAFullDisk(t *testing.T) {
	t.Parallel()
	g := newTestGroup(t, GroupConfig{})
	for _, path := range []string{"/dev/full", "/no/such/dir/log"} {
		c := start(t, g, Spec{Path: "sh", Args: []string{"-c", "head -c 6000000 /dev/zero; echo end"}, LogPath: path})
		if e := wait(t, c); e.Code != 0 || !strings.HasSuffix(c.Tail(), "end\n") {
			t.Errorf("log %s: Exit() = %v", path, e)
		}
	}
	if fi, err := os.Stat("/dev/full"); err != nil || fi.Mode().IsRegular() {
		t.Fatalf("/dev/full was replaced: %v", err)
	}
}

func TestLogFileRests(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "later")
	l := &logFile{path: filepath.Join(dir, "log")}
	l.write([]byte("lost\n"))
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	l.write([]byte("lost too\n")) // too soon
	l.retry = time.Now()
	l.write([]byte("kept\n"))
	l.close()
	if b, err := os.ReadFile(l.path); err != nil || string(b) != "kept\n" {
		t.Errorf("the log has %q, %v", b, err)
	}
}
