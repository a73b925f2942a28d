package accessibility_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/godbus/dbus/v5"

	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/desktop/accessibility"
)

// liar is a program on the accessibility bus that claims anything. Each of its elements has the
// same answers.
type liar struct {
	name     string
	children int32
	box      [4]int32
	kids     []ref // empty: a new one for each question
	made     atomic.Int64
	conn     *dbus.Conn
}

type ref struct {
	Name string
	Path dbus.ObjectPath
}

func (l *liar) GetState() ([]uint32, *dbus.Error) { return []uint32{1<<25 | 1<<8 | 1<<24, 0}, nil }
func (l *liar) GetRole() (uint32, *dbus.Error)    { return 43, nil }
func (l *liar) Get(_, property string) (dbus.Variant, *dbus.Error) {
	if property == "ChildCount" {
		return dbus.MakeVariant(l.children), nil
	}
	return dbus.MakeVariant(l.name), nil
}

func (l *liar) GetChildren() ([]ref, *dbus.Error) {
	if l.kids != nil {
		return l.kids, nil
	}
	kid, _ := l.GetChildAtIndex(0)
	return []ref{kid, kid, kid}, nil
}

func (l *liar) GetChildAtIndex(int32) (ref, *dbus.Error) {
	made := int(l.made.Add(1))
	return ref{l.conn.Names()[0], dbus.ObjectPath("/org/a11y/atspi/accessible/" + strings.Repeat("9", 1+made%200))}, nil
}

func (l *liar) GetExtents(uint32) (struct{ X, Y, W, H int32 }, *dbus.Error) {
	return struct{ X, Y, W, H int32 }{l.box[0], l.box[1], l.box[2], l.box[3]}, nil
}

// connect connects to the accessibility bus of a desktop.
func connect(t *testing.T, d *desktop.Desktop) *dbus.Conn {
	t.Helper()
	environ, err := d.Environ()
	if err != nil {
		t.Fatal(err)
	}
	var address string
	for _, kv := range environ {
		if v, ok := strings.CutPrefix(kv, "DBUS_SESSION_BUS_ADDRESS="); ok {
			address = v
		}
	}
	session, err := dbus.Connect(address)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	if err := session.Object("org.a11y.Bus", "/org/a11y/bus").Call("org.a11y.Bus.GetAddress", 0).Store(&address); err != nil {
		t.Fatal(err)
	}
	conn, err := dbus.Connect(address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// tell puts a liar on the accessibility bus of a desktop.
func (l *liar) tell(t *testing.T, d *desktop.Desktop) {
	t.Helper()
	l.present(t, d, l)
}

// present puts a liar on the accessibility bus of a desktop, with the methods of a value.
func (l *liar) present(t *testing.T, d *desktop.Desktop, methods any) {
	t.Helper()
	l.conn = connect(t, d)
	for _, iface := range []string{
		"org.a11y.atspi.Accessible", "org.a11y.atspi.Action", "org.a11y.atspi.Component", "org.a11y.atspi.Text", "org.freedesktop.DBus.Properties",
	} {
		if err := l.conn.ExportSubtree(methods, "/org/a11y/atspi/accessible", iface); err != nil {
			t.Fatal(err)
		}
	}
	var desk ref
	root := ref{l.conn.Names()[0], "/org/a11y/atspi/accessible/root"}
	if len(l.kids) > 1 {
		l.kids = append(l.kids, root) // a cycle
	}
	err := l.conn.Object("org.a11y.atspi.Registry", "/org/a11y/atspi/accessible/root").Call("org.a11y.atspi.Socket.Embed", 0, root).Store(&desk)
	if err != nil {
		t.Fatal(err)
	}
}

// TestLiars: programs that claim nonsense cost neither time nor memory, and no other program.
func TestLiars(t *testing.T) {
	t.Parallel()
	d, tree := start(t, desktop.Config{})
	launch(t, d, "zenity", "--info", "--text=honest")
	until(t, tree, accessibility.Query{Timeout: patient}, has("button", "OK"))
	for _, l := range []*liar{
		{name: "many", children: 1 << 30, box: [4]int32{0, 0, 500, 500}},
		{name: "fewer than none", children: -7, box: [4]int32{0, 0, 500, 500}},
		{name: "cycle", children: 2, kids: []ref{{":1.999999", "/gone"}}, box: [4]int32{0, 0, 500, 500}},
		{name: strings.Repeat("long ", 1<<20), children: 1, box: [4]int32{0, 0, 1<<31 - 1, 1<<31 - 1}},
		{name: "deep\x07\u202e", children: 3, box: [4]int32{-1 << 31, -1 << 31, 10, 10}},
	} {
		l.tell(t, d)
	}
	begun := time.Now()
	s, err := tree.Snapshot(t.Context(), accessibility.Query{Timeout: 2 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	took := time.Since(begun)
	t.Logf("took %v", took)
	if took > 6*time.Second {
		t.Errorf("took %v", took)
	}
	if one(s, "button", "OK") == nil || len(s.Elements) > accessibility.DefaultLimit {
		t.Errorf("%d elements:\n%s", len(s.Elements), s.Outline())
	}
	for _, e := range s.Elements {
		if len(e.Name) > 1000 || strings.ContainsAny(e.Name, "\x07\u202e") || e.Box != nil && e.Box.Width > 1<<20 {
			t.Errorf("%.300q, box %+v", e.Name, e.Box)
		}
	}
}

// pids returns the processes whose command lines contain a text.
func pids(t *testing.T, text string) (found []int) {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range all {
		line, _ := os.ReadFile(path) // the process may have ended
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path))); err == nil && strings.Contains(string(line), text) {
			found = append(found, pid)
		}
	}
	return found
}

// TestBusHangs: a program that stops the session bus and ends the accessibility bus does not hold
// up Close, however many calls wait for a connection.
func TestBusHangs(t *testing.T) {
	t.Parallel()
	d, tree := start(t, desktop.Config{})
	environ, err := d.Environ()
	if err != nil {
		t.Fatal(err)
	}
	runtime := ""
	for _, kv := range environ {
		if v, ok := strings.CutPrefix(kv, "XDG_RUNTIME_DIR="); ok {
			runtime = v
		}
	}
	session, buses := pids(t, "path="+runtime+"/bus"), pids(t, "path="+runtime+"/at-spi/")
	if len(session) != 1 || len(buses) != 1 {
		t.Fatalf("session buses %v, accessibility buses %v", session, buses)
	}
	for pid, sig := range map[int]syscall.Signal{session[0]: syscall.SIGSTOP, buses[0]: syscall.SIGKILL} {
		if err := syscall.Kill(pid, sig); err != nil {
			t.Fatal(err)
		}
	}
	defer syscall.Kill(session[0], syscall.SIGCONT) //nolint:errcheck // it may have ended
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var calls sync.WaitGroup
	late := make(chan struct{}, 1)
	for range 12 {
		calls.Go(func() {
			for ctx.Err() == nil {
				_, err := tree.Snapshot(ctx, accessibility.Query{})
				if errors.Is(err, accessibility.ErrClosed) {
					return
				}
				if errors.Is(err, context.DeadlineExceeded) {
					select {
					case late <- struct{}{}:
					default:
					}
				}
			}
		})
	}
	<-late // one call has waited for the bus, and the others wait
	begun := time.Now()
	if err := tree.Close(); err != nil {
		t.Error(err)
	}
	calls.Wait()
	if took := time.Since(begun); took > 30*time.Second {
		t.Errorf("Close took %v", took)
	}
}

// TestHang: a program that hangs costs its own timeout, and no other program's elements.
func TestHang(t *testing.T) {
	t.Parallel()
	d, tree := start(t, desktop.Config{})
	launch(t, d, "zenity", "--info", "--text=first")
	hung := launch(t, d, "zenity", "--question", "--text=second")
	until(t, tree, accessibility.Query{Timeout: patient}, func(s accessibility.Snapshot) bool { return has("button", "OK")(s) && has("button", "Yes")(s) })
	if err := syscall.Kill(hung.PID, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Kill(hung.PID, syscall.SIGCONT) })
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	s, err := tree.Snapshot(ctx, accessibility.Query{Timeout: 2 * time.Second})
	if err != nil || one(s, "button", "OK") == nil || !s.Truncated {
		t.Fatalf("%+v, %v", s, err)
	}
	if len(s.Skipped) != 1 || s.Skipped[0].PID != hung.PID || s.Skipped[0].Reason != accessibility.ReasonHangs {
		t.Errorf("skipped %+v", s.Skipped)
	}
}

// TestDies: a program that ends while it is asked costs no time, and no other program's elements.
func TestDies(t *testing.T) {
	t.Parallel()
	d, tree := start(t, desktop.Config{})
	launch(t, d, "zenity", "--info", "--text=first")
	dying := launch(t, d, "zenity", "--question", "--text=second")
	until(t, tree, accessibility.Query{Timeout: patient}, func(s accessibility.Snapshot) bool { return has("button", "OK")(s) && has("button", "Yes")(s) })
	if err := syscall.Kill(dying.PID, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	type result struct {
		accessibility.Snapshot
		error
	}
	asked := make(chan result, 1)
	go func() {
		s, err := tree.Snapshot(t.Context(), accessibility.Query{Timeout: time.Minute})
		asked <- result{s, err}
	}()
	select {
	case r := <-asked:
		t.Errorf("a program that does not answer is not asked: %s", r.Outline())
	case <-time.After(time.Second): // its questions have been sent
	}
	if err := syscall.Kill(dying.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	select {
	case r := <-asked:
		if r.error != nil || one(r.Snapshot, "button", "OK") == nil || one(r.Snapshot, "button", "Yes") != nil {
			t.Errorf("%s, %v", r.Outline(), r.error)
		}
	case <-time.After(40 * time.Second):
		t.Error("the program that has ended is still waited for")
	}
}
