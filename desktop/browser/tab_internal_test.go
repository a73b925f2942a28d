package browser

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/deskhand/deskhand/desktop"
)

// TestWithoutSecrets checks that events have neither passwords nor signatures of URLs.
func TestWithoutSecrets(t *testing.T) {
	for _, c := range []struct {
		url, want string
	}{
		{"", ""},
		{"about:blank", "about:blank"},
		{"https://example.com/a?q=1#b", "https://example.com/a"},
		{"https://ann:secret@example.com/a?q=1#b", "https://example.com/a"},
		{"https://ann@example.com/", "https://example.com/"},
		{"https://ann:secret@example.com/a?signature=x#b", "https://example.com/a"},
		{"https://ann:secret@example.com/%zz", "https:…"},
		{"data:text/html,a@b", "data:text/html,a@b"},
		{"view-source:https://ann:secret@example.com/a?q=1#b", "view-source:https://example.com/a"},
		{"View-Source:View-Source:HTTP://ann:secret@example.com/", "View-Source:View-Source:http://example.com/"},
		{"view-source:https://ann:secret@example.com/%zz", "view-source:https:…"},
		{"blob:https://ann:secret@example.com/1-2", "blob:https://example.com/1-2"},
		{"blob:https://example.com/1-2?signature=x", "blob:https://example.com/1-2"},
		{"filesystem:https://ann:secret@example.com/temporary/a", "filesystem:https://example.com/temporary/a"},
		{"view-source:about:blank", "view-source:about:blank"},
		{"https://ann:" + strings.Repeat("secret", 1000) + "@example.com/", "https://example.com/"},
		{"https://ann:" + strings.Repeat("secret", 1000) + "…", "https:…"},
		{"https:ann:secret@example.com", "https:…"},
		{"https:/ann:secret@example.com", "https:…"},
		{"https:///ann:secret@example.com", "https:…"},
		{"https:\\\\ann:secret@example.com", "https:…"},
		{"ht\ntps://ann:secret@example.com", "…"},
		{" https://ann:secret@example.com", "…"},
		{"ann:secret@example.com", "ann:…"},
		{"//ann:secret@example.com/%zz", "…"},
		{"https://example.com/ann@example.org", "https://example.com/ann@example.org"},
		{"file:///home/ann/a@b", "file:///home/ann/a@b"},
		{"file:///home/ann/a.txt", "file:///home/ann/a.txt"},
	} {
		if got := withoutSecrets(c.url); got != c.want {
			t.Errorf("withoutSecrets(%q) = %q, want %q", c.url, got, c.want)
		}
	}
}

// TestLimited checks that the beginning of a text does not keep the rest of it in memory.
func TestLimited(t *testing.T) {
	var kept []string
	for range 100 {
		kept = append(kept, limited(strings.Repeat("\U0001F600", 1<<18)))
		kept = append(kept, limited(strings.Repeat("x", 1<<20)[:10]))
	}
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	if m.HeapAlloc > 30<<20 {
		t.Errorf("%d texts need %d bytes", len(kept), m.HeapAlloc)
	}
	if got := limited(kept[0]); got != kept[0] || len([]rune(got)) != maxText {
		t.Errorf("%d characters", len([]rune(got)))
	}
}

const attached = `{"sessionId":"%s","targetInfo":{"targetId":"%s","type":"%s"}}`

// fakeBrowser returns a browser without a program, and a function by which it gets an event.
func fakeBrowser() (b *Browser, event func(session, method, params string, args ...any)) {
	b = newBrowser()
	b.conn = newConn(nil, nil, b.route)
	b.cfg.Desktop = new(desktop.Desktop)
	b.second, b.emitted = time.Now().Add(time.Hour), eventRate // it emits nothing, as it has no desktop
	return b, func(session, method, params string, args ...any) {
		b.route(message{session: quote(session), method: quote(method), params: fmt.Appendf(nil, params, args...)})
	}
}

// TestClosedTabs checks that nothing is kept of frames and tabs that are gone, and that calls of them end.
func TestClosedTabs(t *testing.T) {
	b, event := fakeBrowser()
	event("", "Target.attachedToTarget", attached, "S", "T", "page")
	for i := range 2 * maxFrames {
		event("S", "Target.attachedToTarget", attached, fmt.Sprint("S", i), fmt.Sprint("F", i), "iframe")
		if _, ok := b.all[0].frames[fmt.Sprint("F", i)]; !ok {
			t.Fatalf("frame %d is not followed", i)
		}
		event("S", "Target.detachedFromTarget", `{"sessionId":"S%d"}`, i)
	}
	if frames := b.all[0].frames; len(frames) > 0 || len(b.followed) != 1 {
		t.Errorf("%d frames and %d sessions are left", len(frames), len(b.followed))
	}
	calls := make(chan error, 1)
	go func() { calls <- b.callPage(t.Context(), "S", "Runtime.evaluate", nil, nil) }()
	<-b.conn.writes
	event("", "Target.attachedToTarget", attached, "S", "T", "page")
	event("", "Target.attachedToTarget", attached, "Q", "T", "page") // in place of S
	if len(b.followed) != 1 {
		t.Errorf("a tab has %d sessions", len(b.followed))
	}
	event("", "Target.attachedToTarget", attached, "S", "T", "page")
	event("", "Target.detachedFromTarget", `{"sessionId":"S"}`)
	if err := <-calls; !errors.Is(err, ErrNoTab) {
		t.Error(err)
	}
	event("", "Target.attachedToTarget", attached, "S", "T", "page")
	event("S", "Target.attachedToTarget", attached, "R", "F", "iframe")
	event("", "Target.targetDestroyed", `{"targetId":"T"}`)
	if len(b.all) > 0 || len(b.followed) > 0 {
		t.Errorf("%d tabs and %d sessions are left", len(b.all), len(b.followed))
	}
}

// TestLongTexts checks that texts and ids of any length in the browser's events are not kept.
func TestLongTexts(t *testing.T) {
	b, event := fakeBrowser()
	event("", "Target.attachedToTarget", attached, "S", "T", "page")
	tab := b.all[0]
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for i := range 12 {
		long := strings.Repeat("x", 1<<20) + fmt.Sprint(i)
		event("", "Target.attachedToTarget", attached, long, long, "page")
		event("", "Target.attachedToTarget", attached, long, "T", "page")
		event("S", "Target.attachedToTarget", attached, long, long, "iframe")
		event("S", "Network.requestWillBeSent", `{"requestId":"%d","type":"%s","request":{"method":"%s","url":"%s"}}`, i, long, long, long)
		event("S", "Network.requestWillBeSent", `{"requestId":"%s"}`, long)
		event("S", "Network.responseReceived", `{"requestId":"%d","type":"%s","response":{"mimeType":"%s"}}`, i, long, long)
		event("S", "Network.loadingFailed", `{"requestId":"%d","errorText":"%s"}`, i%2, long)
		event("S", "Runtime.consoleAPICalled", `{"type":"%s"}`, long[:largeEvent/2])
		event("S", "Page.lifecycleEvent", `{"frameId":"T","loaderId":"","name":"%s"}`, long)
		event("S", "Page.lifecycleEvent", `{"frameId":"T","loaderId":"%s","name":"load"}`, long)
		event("S", "Page.frameNavigated", `{"frame":{"id":"T","loaderId":"%s","url":"a"}}`, long)
		event("", "Browser.downloadWillBegin", `{"guid":"%s"}`, long)
		event("", "Browser.downloadWillBegin", `{"guid":"%d","url":"%s","suggestedFilename":"%s"}`, i, long, long)
		event("", "Browser.downloadWillBegin", `{"guid":"base%d","suggestedFilename":"%s/a"}`, i, long)
		event("", "Browser.downloadProgress", `{"guid":"%d","state":"completed","filePath":"%s"}`, i, long)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if n := int64(after.HeapAlloc) - int64(before.HeapAlloc); n > 2<<20 {
		t.Errorf("%d bytes are kept", n)
	}
	if len(b.all) != 1 || len(b.followed) != 1 || len(tab.frames) > 0 || len(tab.lifecycle) > 0 || len(tab.requests) == 0 || len(b.downloads) == 0 {
		t.Errorf("%d tabs, %d sessions, %d frames, %v, %d requests and %d downloads", len(b.all), len(b.followed), len(tab.frames), tab.lifecycle, len(tab.requests), len(b.downloads))
	}
}

// TestLongIDs checks that ids of any length are not kept for clients, nor any number of browser contexts.
func TestLongIDs(t *testing.T) {
	t.Parallel()
	b, event := fakeBrowser()
	c := &client{b: &b.clients, contexts: map[string]bool{}, wake: make(chan struct{}, 1)}
	b.connected[c] = true
	b.own("root", &session{client: c})
	long := strings.Repeat("x", maxID+1)
	event("root", "Target.attachedToTarget", attached, long, "T", "page")
	event("root", "Target.attachedToTarget", attached, "S", long, "page")
	if len(b.sessions) != 1 {
		t.Errorf("%d sessions", len(b.sessions))
	}
	c.madeContext([]byte(`{"browserContextId":"` + long + `"}`))
	if len(c.contexts) > 0 {
		t.Error("a context with a long id is kept")
	}
	for i := range 2 * maxContexts {
		c.madeContext(fmt.Appendf(nil, `{"browserContextId":"%d"}`, i))
	}
	if len(c.contexts) != maxContexts {
		t.Errorf("%d contexts", len(c.contexts))
	}
}

// TestManyValues checks that the text of an event with many values is not decoded.
func TestManyValues(t *testing.T) {
	t.Parallel()
	b, event := fakeBrowser()
	event("", "Target.attachedToTarget", attached, "S", "T", "page")
	event("S", "Runtime.consoleAPICalled", `{"type":"log","args":[%s{}]}`, strings.Repeat("{},", 100_000))
	event("S", "Runtime.exceptionThrown", `{"exceptionDetails":{"stackTrace":{"callFrames":[%s{}]}}}`, strings.Repeat("{},", 100_000))
	messages := b.all[0].console.values
	if len(messages) != 1 || !strings.HasPrefix(messages[0].Text, "(a message of ") {
		t.Errorf("%+v", messages)
	}
}

// slowResult cancels a call while its answer is decoded.
type slowResult struct {
	cancel  context.CancelFunc
	decoded bool
}

func (r *slowResult) UnmarshalJSON([]byte) error {
	r.cancel()
	for range 1000 {
		runtime.Gosched()
	}
	r.decoded = true
	return nil
}

// TestLateAnswer checks that a call that ends while its answer is decoded waits for that.
func TestLateAnswer(t *testing.T) {
	t.Parallel()
	c := newConn(nil, nil, nil)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		<-c.writes
		c.received([]byte(`{"id":1,"result":{}}`), true)
	}()
	result := slowResult{cancel: cancel}
	if err := c.call(ctx, "", "Browser.getVersion", nil, &result); !result.decoded {
		t.Errorf("the call has returned %v before the end", err)
	}
}

// TestSilentBrowser checks that nothing is kept of commands that a browser does not answer, once
// their calls, sessions and clients have ended.
func TestSilentBrowser(t *testing.T) {
	b, event := fakeBrowser()
	c := b.conn
	written := make(chan struct{})
	defer func() { <-written }()
	defer close(c.ended)
	go func() {
		defer close(written)
		for {
			select {
			case <-c.writes:
			case <-c.ended:
				return
			}
		}
	}()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := c.call(ctx, "S", "Page.enable", nil, nil); !errors.Is(err, context.DeadlineExceeded) || len(c.pending) > 0 {
		t.Errorf("%d commands, %v", len(c.pending), err)
	}
	send := func(session string) error {
		_, err := c.send(t.Context(), nil, quote(session), quote("Page.enable"), nil, func(message) {})
		return err
	}
	for i := range 10 {
		if err := send(fmt.Sprint("S", i%2)); err != nil {
			t.Fatal(err)
		}
	}
	if c.forgetCalls(func(p *pendingCall) bool { return p.session == "S0" }); len(c.pending) != 5 {
		t.Errorf("%d commands", len(c.pending))
	}
	b.post("S", "Page.enable", nil)
	if b.outbox[0].send(c); len(c.pending) != 5 {
		t.Errorf("%d commands", len(c.pending))
	}

	// A client whose page hangs attaches again and again.
	left := &client{b: &b.clients, wake: make(chan struct{}, 1)}
	b.connected[left] = true
	b.own("root", &session{client: left})
	for range 10 {
		event("root", "Target.attachedToTarget", attached, "sub", "T", "page")
		if err := left.handle([]byte(`{"id":1,"method":"Runtime.evaluate","params":{},"sessionId":"sub"}`)); err != nil {
			t.Fatal(err)
		}
		event("root", "Target.detachedFromTarget", `{"sessionId":"sub"}`)
	}
	if len(c.pending) != 5 || left.pending != 0 {
		t.Errorf("%d commands, %d of the client", len(c.pending), left.pending)
	}
	for i, text := range left.queue { // clients expect no answers of a session after its end
		if want := []string{"attachedToTarget", "detachedFromTarget", "error"}[i%3]; !strings.Contains(string(text), want) {
			t.Fatalf("message %d is %s, want %s", i, text, want)
		}
	}
	b.serving.Add(1)
	b.removeClient(left)
	if b.own("late", &session{client: left}); len(b.sessions) > 0 {
		t.Errorf("a client that has left has %d sessions", len(b.sessions))
	}
}

// TestForeignSession: an event that ends a client's session, as only a hostile browser sends it, does
// not stop the browser's connection.
func TestForeignSession(t *testing.T) {
	b, event := fakeBrowser()
	event("", "Target.attachedToTarget", attached, "S", "T", "page")
	slow := &client{b: &b.clients, socket: &stuck{make(chan struct{})}, wake: make(chan struct{}, 1)}
	b.connected[slow] = true
	b.own("S", &session{client: slow})
	b.conn.pending[1] = &pendingCall{nil, "S", func(message) { slow.put(make([]byte, maxQueues+1)) }}
	done := make(chan struct{})
	go func() {
		defer close(done)
		event("", "Target.detachedFromTarget", `{"sessionId":"S"}`)
	}()
	select {
	case <-done:
	case <-time.After(10 * time.Second):
		t.Fatal("the event is handled for ever")
	}
	if err := slow.reason(); !errors.Is(err, errFlood) {
		t.Error(err)
	}
}

// TestUploadable checks that an error does not say whether a file outside the home exists.
func TestUploadable(t *testing.T) {
	home, outside := t.TempDir(), t.TempDir()
	b := &elements{clients: clients{tabs: tabs{process: process{home: home}}}}
	inside := filepath.Join(home, "a")
	for _, path := range []string{inside, filepath.Join(outside, "a")} {
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if files, err := b.uploadable([]string{"a"}); err != nil || len(files) != 1 {
		t.Error(files, err)
	}
	_, exists := b.uploadable([]string{filepath.Join(outside, "a")})
	_, missing := b.uploadable([]string{filepath.Join(outside, "b")})
	if exists == nil || missing == nil || strings.ReplaceAll(exists.Error(), outside+"/a", outside+"/b") != missing.Error() {
		t.Errorf("%v\n%v", exists, missing)
	}
}

// TestLongSelector: errors and events have a selector, so it is bounded.
func TestLongSelector(t *testing.T) {
	t.Parallel()
	if err := (Element{Selector: strings.Repeat("a", maxSelector)}).check(); err != nil {
		t.Error(err)
	}
	b, _ := fakeBrowser()
	err := b.Fill(t.Context(), Fill{Element: Element{Selector: strings.Repeat("a", maxSelector+1)}})
	if bad, ok := errors.AsType[*InvalidError](err); !ok || bad.Field != "Selector" || len(err.Error()) > 100 {
		t.Errorf("%.200v", err)
	}
}
