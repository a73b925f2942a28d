package browser_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/desktop/browser"
	"github.com/deskhand/deskhand/internal/testx11"
)

func TestMain(m *testing.M) {
	testx11.SkipExamples("Xvfb", "openbox", "dbus-daemon", "chromium")
	goleak.VerifyTestMain(m)
}

// startDesktop runs a desktop until the test ends.
func startDesktop(tb testing.TB, cfg desktop.Config) *desktop.Desktop {
	tb.Helper()
	testx11.Require(tb, "Xvfb", "openbox", "dbus-daemon", "chromium")
	d, err := desktop.Start(tb.Context(), cfg)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := d.Close(); err != nil {
			tb.Error(err)
		}
	})
	return d
}

// start runs a browser until the test ends.
func start(tb testing.TB, cfg browser.Config) *browser.Browser {
	tb.Helper()
	if cfg.Desktop == nil {
		cfg.Desktop = startDesktop(tb, desktop.Config{})
	}
	b, err := browser.Start(tb.Context(), cfg)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := b.Close(); err != nil {
			tb.Error(err)
		}
	})
	return b
}

// client is a client of the protocol. Its Socket is in memory.
type client struct {
	tb       testing.TB
	toServer chan []byte
	toClient chan []byte
	closed   chan struct{}
	once     sync.Once
	ended    chan error
	last     int
	events   []map[string]any
}

func (c *client) Receive() ([]byte, error) {
	select {
	case text := <-c.toServer:
		return text, nil
	case <-c.closed:
		return nil, io.EOF
	}
}

func (c *client) Send(text []byte) error {
	select {
	case c.toClient <- text:
		return nil
	case <-c.closed:
		return io.EOF
	}
}

func (c *client) Close() { c.once.Do(func() { close(c.closed) }) }

func connect(tb testing.TB, b *browser.Browser, target string) *client {
	tb.Helper()
	return connectAs(context.Background(), tb, b, target)
}

// connectAs connects a client of the actor of ctx.
func connectAs(ctx context.Context, tb testing.TB, b *browser.Browser, target string) *client {
	tb.Helper()
	c := &client{tb: tb, toServer: make(chan []byte), toClient: make(chan []byte), closed: make(chan struct{}), ended: make(chan error, 1)}
	go func() { c.ended <- b.ServeClient(ctx, target, c); c.Close() }()
	tb.Cleanup(func() {
		c.Close()
		<-c.ended
	})
	return c
}

// next returns the next message to the client.
func (c *client) next() map[string]any {
	c.tb.Helper()
	select {
	case text := <-c.toClient:
		var m map[string]any
		if err := json.Unmarshal(text, &m); err != nil {
			c.tb.Fatalf("%v in %s", err, text)
		}
		return m
	case <-c.closed:
		c.tb.Fatal("the connection is closed")
	case <-time.After(30 * time.Second):
		c.tb.Fatal("no message")
	}
	return nil
}

func (c *client) send(text string) {
	c.tb.Helper()
	select {
	case c.toServer <- []byte(text):
	case <-c.closed:
		c.tb.Fatal("the connection is closed")
	}
}

// call sends a command and returns the answer.
func (c *client) call(session, method string, params any) map[string]any {
	c.tb.Helper()
	c.last++
	m := map[string]any{"id": c.last, "method": method, "params": params}
	if session != "" {
		m["sessionId"] = session
	}
	text, err := json.Marshal(m)
	if err != nil {
		c.tb.Fatal(err)
	}
	c.send(string(text))
	for {
		m := c.next()
		if m["method"] != nil {
			c.events = append(c.events, m)
			continue
		}
		if m["id"] != float64(c.last) {
			c.tb.Fatalf("answer to %v, not %d", m["id"], c.last)
		}
		if got, _ := m["sessionId"].(string); got != session {
			c.tb.Fatalf("answer in session %q, not %q", got, session)
		}
		return m
	}
}

// result is call for a command that succeeds.
func (c *client) result(session, method string, params any) map[string]any {
	c.tb.Helper()
	m := c.call(session, method, params)
	r, ok := m["result"].(map[string]any)
	if !ok {
		c.tb.Fatalf("%s: %v", method, m)
	}
	return r
}

func object(kv ...any) map[string]any {
	m := map[string]any{}
	for i := 0; i < len(kv); i += 2 {
		m[kv[i].(string)] = kv[i+1]
	}
	return m
}

// newPage opens a page and returns its target and session.
func (c *client) newPage(url string) (target, session string) {
	c.tb.Helper()
	target, _ = c.result("", "Target.createTarget", object("url", url))["targetId"].(string)
	session, _ = c.result("", "Target.attachToTarget", object("targetId", target, "flatten", true))["sessionId"].(string)
	return target, session
}

func TestClients(t *testing.T) {
	t.Parallel()
	b := start(t, browser.Config{})
	one, two := connect(t, b, ""), connect(t, b, "")
	target, session := one.newPage("data:text/html,<title>one</title>")
	if v := two.result("", "Browser.getVersion", nil); v["product"] != b.Version().Product {
		t.Error(v, b.Version())
	}
	// Sessions belong to their client.
	if m := two.call(session, "Runtime.enable", nil); m["error"] == nil {
		t.Error("a client used another's session:", m)
	}
	_, other := two.newPage("data:text/html,<title>two</title>")
	if other == session {
		t.Error("two clients have one session")
	}
	// Each one has its own events.
	one.result(session, "Runtime.enable", nil)
	one.result(session, "Runtime.evaluate", object("expression", "console.log('mine'); 1"))
	two.result("", "Browser.getVersion", nil)
	for _, e := range two.events {
		if e["sessionId"] == session {
			t.Error("a client got another's event:", e)
		}
	}
	// A page's socket is a session of the page.
	page := connect(t, b, target)
	if r := page.result("", "Runtime.evaluate", object("expression", "document.title")); fmt.Sprint(r["result"]) != "map[type:string value:one]" {
		t.Error(r)
	}
	if err := b.ServeClient(t.Context(), "nothing", connect(t, b, "")); !errors.Is(err, browser.ErrNoTarget) {
		t.Error(err)
	}
	// What ends the browser for others is refused.
	for _, method := range []string{"Browser.crash", "Target.exposeDevToolsProtocol", "Browser\\u002ecrash"} {
		two.send(`{"id":7777,"method":"` + method + `"}`)
		for m := two.next(); ; m = two.next() {
			if m["id"] == 7777.0 {
				if m["error"] == nil {
					t.Error(method, m)
				}
				break
			}
		}
	}
	two.result("", "Browser.close", nil)
	if err := <-two.ended; err != nil {
		t.Error(err)
	}
	two.ended <- nil
	one.result("", "Browser.getVersion", nil)
	page.send("{\"id\":1,\"method\":\"Runtime.enable\"}\x00{\"id\":1,\"method\":\"Browser.close\"}")
	if err := <-page.ended; err == nil {
		t.Error("two messages in one are accepted")
	}
	page.ended <- nil
	one.result("", "Browser.getVersion", nil)
}

// TestNoPorts: neither the browser nor a process of its listens for connections.
func TestNoPorts(t *testing.T) {
	t.Parallel()
	d := startDesktop(t, desktop.Config{})
	b := start(t, browser.Config{Desktop: d})
	connect(t, b, "").newPage("data:text/html,hello")
	listening := map[string]string{} // addresses by inode
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		f, err := os.Open(table)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		for lines := bufio.NewScanner(f); lines.Scan(); {
			if fields := strings.Fields(lines.Text()); len(fields) > 9 && fields[3] == "0A" {
				listening["socket:["+fields[9]+"]"] = fields[1]
			}
		}
	}
	family := browsersOf(t, filepath.Join(d.Status().Home, ".config/deskhand/browser"))
	if len(family) < 3 {
		t.Fatalf("only %d processes found", len(family))
	}
	for _, pid := range family {
		files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
		for _, file := range files {
			if target, err := os.Readlink(file); err == nil && listening[target] != "" {
				t.Errorf("process %d listens on %s", pid, listening[target])
			}
		}
	}
}

// browsersOf returns the processes whose command line names a profile below a directory,
// and their children.
func browsersOf(t *testing.T, profiles string) (pids []int) {
	t.Helper()
	parents := map[int]int{}
	ours := map[int]bool{}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		line, _ := os.ReadFile("/proc/" + e.Name() + "/cmdline")
		ours[pid] = strings.Contains(string(line), "--user-data-dir="+profiles)
		stat, _ := os.ReadFile("/proc/" + e.Name() + "/stat")
		if _, rest, ok := strings.Cut(string(stat), ") "); ok {
			if fields := strings.Fields(rest); len(fields) > 1 {
				parents[pid], _ = strconv.Atoi(fields[1])
			}
		}
	}
	for pid := range parents {
		for p := pid; p > 1; p = parents[p] {
			if ours[p] {
				pids = append(pids, pid)
				break
			}
		}
	}
	return pids
}

// TestKilled: a browser that is killed is reported, calls end, and the profile can be used
// again.
func TestKilled(t *testing.T) {
	t.Parallel()
	d := startDesktop(t, desktop.Config{})
	events := d.Subscribe(0)
	defer events.Close()
	b := start(t, browser.Config{Desktop: d})
	c := connect(t, b, "")
	_, session := c.newPage("about:blank")
	c.send(`{"id":99,"sessionId":"` + session + `","method":"Runtime.evaluate","params":{"expression":"new Promise(() => {})","awaitPromise":true}}`)
	if _, err := browser.Start(t.Context(), browser.Config{Desktop: d}); !errors.Is(err, browser.ErrProfileInUse) {
		t.Error("a second browser with the same profile:", err)
	}
	profile := filepath.Join(d.Status().Home, ".config/deskhand/browser/default")
	lock, err := os.Readlink(filepath.Join(profile, "SingletonLock"))
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(lock[strings.LastIndexByte(lock, '-')+1:])
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := <-c.ended; !errors.Is(err, browser.ErrEnded) {
		t.Error(err)
	}
	c.ended <- nil
	<-b.Done()
	if err := b.ServeClient(t.Context(), "", c); !errors.Is(err, browser.ErrEnded) {
		t.Error(err)
	}
	for e := range events.Events() {
		if e.Browser != nil && e.Browser.Kind == desktop.BrowserEnded {
			if e.Browser.Message == "" {
				t.Error("the end is not explained")
			}
			break
		}
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	again := start(t, browser.Config{Desktop: d})
	connect(t, again, "").newPage("about:blank")
	if err := again.Close(); err != nil {
		t.Error(err)
	}
	if err := os.Remove(filepath.Join(profile, "SingletonLock")); err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	if err := os.Symlink("elsewhere-12", filepath.Join(profile, "SingletonLock")); err != nil {
		t.Fatal(err)
	}
	_, err = browser.Start(t.Context(), browser.Config{Desktop: d})
	if p, ok := errors.AsType[*browser.ProfileError](err); !ok || p.Host != "elsewhere" {
		t.Error(err)
	}
}

// TestFlood: a client that does not read is disconnected, and the others go on.
func TestFlood(t *testing.T) {
	t.Parallel()
	b := start(t, browser.Config{})
	slow, other := connect(t, b, ""), connect(t, b, "")
	_, session := slow.newPage("about:blank")
	go func() {
		for i := 0; ; i++ {
			select {
			case slow.toServer <- fmt.Appendf(nil, `{"id":%d,"sessionId":%q,"method":"Runtime.evaluate","params":{"expression":"'x'.repeat(1e6)"}}`, i, session):
			case <-slow.closed:
				return
			}
		}
	}()
	if err := <-slow.ended; err == nil {
		t.Error("a client that does not read goes on")
	}
	slow.ended <- nil
	other.result("", "Browser.getVersion", nil)
}
