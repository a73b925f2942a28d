package x11_test

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/jezek/xgb/xproto"

	"github.com/deskhand/deskhand/internal/testx11"
	"github.com/deskhand/deskhand/internal/x11"
)

// rounds returns how often each test types into a program: once, or DESKHAND_SOAK times.
func rounds(tb testing.TB) int {
	n, err := strconv.Atoi(os.Getenv("DESKHAND_SOAK"))
	if err != nil {
		return 1
	}
	tb.Logf("%d rounds", n)
	return n
}

// desk is a display with a window manager and an Input.
type desk struct {
	server  *testx11.Server
	conn    *x11.Conn
	windows *x11.Windows
	in      *x11.Input
}

func newDesk(t testing.TB) *desk {
	t.Helper()
	testx11.Require(t, "openbox")
	s := testx11.Start(t, 1280, 800)
	d := &desk{server: s, conn: s.Dial(t)}
	d.run(t, nil, "openbox")
	var err error
	if d.windows, err = d.conn.NewWindows(); err != nil {
		t.Fatal(err)
	}
	if err := d.windows.WaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
	if d.in, err = d.conn.NewInput(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.in.Close(); err != nil {
			t.Error("Close:", err)
		}
	})
	return d
}

// run starts a program until the test ends. The channel is closed when it has
// exited.
func (d *desk) run(t testing.TB, stdout io.Writer, name string, args ...string) <-chan struct{} {
	t.Helper()
	testx11.Require(t, name)
	cmd := exec.Command(name, args...)
	home := t.TempDir()
	cmd.Env = append(d.server.Env(), "HOME="+home, "XDG_CONFIG_HOME="+home, "XDG_CACHE_HOME="+home, "LANG=C.UTF-8",
		"LC_ALL=C.UTF-8", "NO_AT_BRIDGE=1", "DBUS_SESSION_BUS_ADDRESS=disabled:")
	cmd.Stdout = stdout
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.WaitDelay = time.Second
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	exited := make(chan struct{})
	go func() { _ = cmd.Wait(); close(exited) }()
	t.Cleanup(func() {
		select {
		case <-exited: // the number may be another's by now
		default:
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
			<-exited
		}
	})
	return exited
}

func (d *desk) property(t testing.TB, win xproto.Window, name string) []byte {
	t.Helper()
	a, err := xproto.InternAtom(d.conn.X(), false, uint16(len(name)), name).Reply()
	if err != nil {
		t.Fatal(err)
	}
	p, err := xproto.GetProperty(d.conn.X(), false, win, a.Atom, xproto.GetPropertyTypeAny, 0, 1024).Reply()
	if err != nil {
		return nil // the window was destroyed
	}
	return p.Value
}

// waitFocus waits until a window of that class has the focus.
func (d *desk) waitFocus(t testing.TB, class string) {
	t.Helper()
	poll(t, "focus on "+class, func() bool {
		f, err := xproto.GetInputFocus(d.conn.X()).Reply()
		if err != nil {
			t.Fatal(err)
		}
		for win := f.Focus; win > 1; {
			if bytes.Contains(bytes.ToLower(d.property(t, win, "WM_CLASS")), []byte(class)) {
				return true
			}
			tree, err := xproto.QueryTree(d.conn.X(), win).Reply()
			if err != nil {
				return false
			}
			win = tree.Parent
		}
		return false
	})
}

func poll(t testing.TB, what string, ok func() bool) {
	t.Helper()
	deadline := time.NewTimer(60 * time.Second)
	defer deadline.Stop()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatalf("no %s within 60 s", what)
		}
	}
}

// burn keeps two processors busy until the test ends.
func burn(t testing.TB) {
	t.Helper()
	for range 2 {
		cmd := exec.Command("sh", "-c", "while :; do :; done")
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	}
}

// mixedText is ASCII with one character in eight from elsewhere.
func mixedText(seed uint64, n int) string {
	r := rand.New(rand.NewPCG(seed, 1))
	other := []rune("éñ漢한😀üßÀΩжא€ÿ中文字ñçøåÅ→∑ह\u0301👩🏽")
	var b strings.Builder
	for range n {
		if r.IntN(8) == 0 {
			b.WriteRune(other[r.IntN(len(other))])
		} else {
			b.WriteByte(byte(' ' + r.IntN(95)))
		}
	}
	return b.String()
}

// cjkText is half CJK, 283 different characters.
func cjkText(seed uint64, n int) string {
	r := rand.New(rand.NewPCG(seed, 2))
	var b strings.Builder
	for range n {
		if r.IntN(2) == 0 {
			b.WriteRune(0x4e00 + rune(r.IntN(283))*7)
		} else {
			b.WriteByte(byte('a' + r.IntN(26)))
		}
	}
	return b.String()
}

func (d *desk) typeText(t testing.TB, text string) {
	t.Helper()
	start := time.Now()
	n, err := d.in.Keyboard.Type(t.Context(), textOf(text), 0)
	if want := utf8.RuneCountInString(text); err != nil || n != want {
		t.Fatalf("Type = %d, %v, want %d", n, err, want)
	}
	t.Logf("%d characters typed in %v", n, time.Since(start))
}

func sameText(t testing.TB, got, want string) {
	t.Helper()
	if got == want {
		return
	}
	g, w := []rune(got), []rune(want)
	wrong, first := 0, -1
	for i := range w {
		if i >= len(g) || g[i] != w[i] {
			if wrong++; first < 0 {
				first = i
			}
		}
	}
	around := func(r []rune) string { return string(r[min(len(r), max(0, first-5)):min(len(r), first+10)]) }
	t.Fatalf("%d of %d characters wrong, %d received; from character %d: got %q, want %q",
		wrong, len(w), len(g), first, around(g), around(w))
}

// xterm starts a terminal whose program copies its input to a file.
func (d *desk) xterm(t testing.TB) (received func() string) {
	t.Helper()
	dir := t.TempDir()
	out, ready := filepath.Join(dir, "out"), filepath.Join(dir, "ready")
	d.run(t, nil, "xterm", "-u8", "-e", "sh", "-c", fmt.Sprintf("exec > %s; stty raw -echo; : > %s; exec cat", out, ready))
	poll(t, "terminal", func() bool { _, err := os.Stat(ready); return err == nil })
	d.waitFocus(t, "xterm")
	return func() string {
		b, err := os.ReadFile(out)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
}

func (d *desk) typeToXterm(t testing.TB, received func() string, text string) {
	t.Helper()
	old := len(received())
	d.typeText(t, text)
	poll(t, "text", func() bool { return len(received())-old >= len(text) })
	sameText(t, received()[old:], text)
}

func TestTypeXterm(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	received := d.xterm(t)
	burn(t)
	for i := range rounds(t) {
		d.typeToXterm(t, received, mixedText(uint64(i), 1000))
		d.typeToXterm(t, received, cjkText(uint64(i), 1000))
	}
}

func TestTypeGTK(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	burn(t)
	for i := range rounds(t) {
		for _, text := range []string{mixedText(uint64(i), 1000), cjkText(uint64(i), 1000)} {
			var out bytes.Buffer // written until exit
			exited := d.run(t, &out, "zenity", "--entry", "--title=typing")
			d.waitFocus(t, "zenity")
			d.typeText(t, text)
			ch, err := x11.ParseChord("Return")
			if err != nil {
				t.Fatal(err)
			}
			if err := d.in.Keyboard.Press(t.Context(), ch); err != nil {
				t.Fatal(err)
			}
			select {
			case <-exited:
				sameText(t, strings.TrimSuffix(out.String(), "\n"), text)
			case <-time.After(60 * time.Second):
				t.Fatal("zenity does not take Return")
			}
		}
	}
}

// textarea is a page that reports what is in its text area.
type textarea struct {
	mu    sync.Mutex
	value string
	ready bool
}

const textareaPage = `<!doctype html><meta charset=utf-8><title>typing</title>
<textarea id=t autofocus style="width:90vw;height:80vh"></textarea>
<script>
const t = document.getElementById('t');
let busy = false;
setInterval(async () => {
  if (busy) return;
  busy = true;
  try { await fetch(document.hasFocus() && document.activeElement === t ? '/value' : '/idle', {method: 'POST', body: t.value}); } catch {}
  busy = false;
}, 50);
</script>`

func (a *textarea) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/" {
		_, _ = io.WriteString(w, textareaPage)
		return
	}
	b, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	a.mu.Lock()
	a.value, a.ready = string(b), r.URL.Path == "/value"
	a.mu.Unlock()
}

func (a *textarea) state() (string, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.value, a.ready
}

// chromium shows a page in a window without controls.
func (d *desk) chromium(t testing.TB, url string) {
	t.Helper()
	d.run(t, nil, "chromium", "--no-sandbox", "--user-data-dir="+t.TempDir(), "--no-first-run", "--no-default-browser-check",
		"--disable-gpu", "--password-store=basic", "--disable-component-update", "--disable-background-networking",
		"--app="+url)
}

// waitTextarea waits until the page takes keys: Chromium drops those that come
// before a page's first frame.
func (d *desk) waitTextarea(t testing.TB, area *textarea) {
	t.Helper()
	poll(t, "page", func() bool { _, ready := area.state(); return ready })
	poll(t, "page that takes keys", func() bool {
		d.typeText(t, "x")
		got, _ := area.state()
		return got != ""
	})
	d.typeText(t, ".")
	poll(t, "all of them", func() bool { got, _ := area.state(); return strings.HasSuffix(got, ".") })
}

func TestTypeChromium(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	var area textarea
	web := httptest.NewServer(&area)
	t.Cleanup(web.Close)
	d.chromium(t, web.URL)
	d.waitTextarea(t, &area)
	burn(t)
	all, err := x11.ParseChord("ctrl+a")
	if err != nil {
		t.Fatal(err)
	}
	for i := range rounds(t) {
		for _, text := range []string{mixedText(uint64(i), 1000), cjkText(uint64(i), 1000)} {
			if err := d.in.Keyboard.Press(t.Context(), all); err != nil {
				t.Fatal(err)
			}
			d.typeText(t, text)
			last, since := "", time.Now()
			poll(t, "end of changes", func() bool {
				got, _ := area.state()
				if got != last {
					last, since = got, time.Now()
				}
				return got == text || time.Since(since) > 25*time.Second
			})
			got, _ := area.state()
			sameText(t, got, text)
		}
	}
}
