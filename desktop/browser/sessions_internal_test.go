package browser

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"
)

// fakeClient returns a client of a browser of fakeBrowser, which reads nothing, with a first session.
func fakeClient(b *Browser, root string) *client {
	c := &client{b: &b.clients, socket: &stuck{make(chan struct{})}, contexts: map[string]bool{}, wake: make(chan struct{}, 1)}
	b.connected[c] = true
	b.serving.Add(1)
	b.own(root, &session{client: c})
	return c
}

// TestEndOfOtherSessions: the end of a session that a client does not have makes no place for another
// one, and ends no session of another client.
func TestEndOfOtherSessions(t *testing.T) {
	t.Parallel()
	b, event := fakeBrowser()
	c, other := fakeClient(b, "root"), fakeClient(b, "other")
	for range 2 * maxSessions {
		event("root", "Target.detachedFromTarget", `{"sessionId":"none"}`)
		event("root", "Target.detachedFromTarget", `{"sessionId":"other"}`)
	}
	if b.sessionOf("other", other) == nil || c.attached != 1 || other.attached != 1 {
		t.Errorf("the clients have %d and %d sessions", c.attached, other.attached)
	}
	c.mu.Lock()
	c.queue, c.queued = nil, 0
	c.mu.Unlock()
	for i := range 2 * maxSessions {
		event("root", "Target.attachedToTarget", attached, fmt.Sprint("S", i), "T", "page")
	}
	if err := c.reason(); !errors.Is(err, errFlood) || len(b.sessions) > maxSessions+10 {
		t.Errorf("%d sessions: %v", len(b.sessions), err)
	}
	if err := other.reason(); err != nil {
		t.Error(err)
	}
}

// TestDetachedSessions: a client that detaches sessions has place for others, also if the browser
// reports the end of the sessions below late or not at all. Commands of these end.
func TestDetachedSessions(t *testing.T) {
	t.Parallel()
	b, event := fakeBrowser()
	written := drain(t, b.conn)
	c := fakeClient(b, "root")
	c.socket = reader{c.socket.(*stuck)}
	for i := range maxSessions {
		event("root", "Target.attachedToTarget", attached, fmt.Sprint("P", i), "T", "page")
		event(fmt.Sprint("P", i), "Target.attachedToTarget", attached, fmt.Sprint("F", i), "F", "iframe")
		event(fmt.Sprint("F", i), "Target.attachedToTarget", attached, fmt.Sprint("W", i), "W", "worker")
		if i == 0 {
			if err := c.handle([]byte(`{"id":1,"method":"Runtime.evaluate","sessionId":"W0"}`)); err != nil {
				t.Fatal(err)
			}
			<-written
		}
		event("root", "Target.detachedFromTarget", `{"sessionId":"P%d"}`, i)
		event(fmt.Sprint("P", i), "Target.detachedFromTarget", `{"sessionId":"F%d"}`, i)
		c.mu.Lock()
		c.queue, c.queued = nil, 0
		c.mu.Unlock()
	}
	if err := c.reason(); err != nil || c.attached != 1 || len(b.sessions) != 1 || len(b.conn.pending) > 0 {
		t.Errorf("the client has %d sessions of %d, and %d commands: %v", c.attached, len(b.sessions), len(b.conn.pending), err)
	}
}

// drain reads what is written to a browser of fakeBrowser, which answers nothing, and tells of each message.
func drain(t *testing.T, c *conn) (written chan []byte) {
	t.Helper()
	written = make(chan []byte, 100)
	go func() {
		for {
			select {
			case text := <-c.writes:
				written <- text
			case <-c.ended:
				return
			}
		}
	}()
	t.Cleanup(func() { close(c.ended) })
	return written
}

// TestSameSession: a browser cannot give a client the session of another one, whose commands would stay.
func TestSameSession(t *testing.T) {
	t.Parallel()
	b, event := fakeBrowser()
	drain(t, b.conn)
	first, second := fakeClient(b, "first"), fakeClient(b, "second")
	event("first", "Target.attachedToTarget", attached, "S", "T", "page")
	if err := first.handle([]byte(`{"id":1,"method":"Runtime.evaluate","sessionId":"S"}`)); err != nil {
		t.Fatal(err)
	}
	event("second", "Target.attachedToTarget", attached, "S", "T", "page")
	if err := second.reason(); !errors.Is(err, errSessionID) || b.sessionOf("S", first) == nil || second.attached != 1 {
		t.Errorf("the second client has %d sessions: %v", second.attached, err)
	}
	// The session ends while a command of it is on the way.
	b.removeSession("S", first)
	b.removeClient(second)
	if len(b.conn.pending) != 1 {
		t.Errorf("%d commands", len(b.conn.pending))
	}
	b.removeClient(first)
	if len(b.conn.pending) > 0 || len(b.sessions) > 0 {
		t.Errorf("%d commands and %d sessions of clients that have left", len(b.conn.pending), len(b.sessions))
	}
}

// TestLateAttachment: nothing is kept of a client that leaves before the browser attaches it, and the
// session that it would have had ends.
func TestLateAttachment(t *testing.T) {
	t.Parallel()
	b, _ := fakeBrowser()
	b.broker = "broker"
	written := drain(t, b.conn)
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- b.ServeClient(ctx, "T", &stuck{make(chan struct{})}) }()
	<-written
	cancel()
	if err := <-served; !errors.Is(err, context.Canceled) || len(b.conn.pending) > 0 || len(b.connected) > 0 {
		t.Errorf("%d commands of %d clients: %v", len(b.conn.pending), len(b.connected), err)
	}
	b.conn.received([]byte(`{"id":1,"result":{"sessionId":"late"},"sessionId":"other"}`), true)
	b.conn.received([]byte(`{"id":1,"result":{},"sessionId":"broker"}`), true)
	b.conn.received([]byte(`{"id":1,"result":{"sessionId":"late"},"sessionId":"broker"}`), true)
	if len(b.outbox) != 1 || b.outbox[0].method != "Target.detachFromTarget" || string(b.outbox[0].params) != `{"sessionId":"late"}` {
		t.Errorf("posted: %+v", b.outbox)
	}
}

// TestSmallMessages: messages count what they take in memory, and what has neither a method nor an id
// is no message for a client.
func TestSmallMessages(t *testing.T) {
	b, _ := fakeBrowser()
	c := fakeClient(b, "root")
	for range 1000 {
		b.conn.received([]byte(`{"sessionId":"root"}`), true)
	}
	if len(c.queue) > 0 {
		t.Errorf("the client gets %d messages like %s", len(c.queue), c.queue[0])
	}
	before := heap()
	var most int64
	for i := 0; c.reason() == nil; i++ {
		b.conn.received([]byte(`{"method":"a","sessionId":"root"}`), true)
		if i%100_000 == 0 {
			if most = heap() - before; most > 2*maxQueue {
				break
			}
		}
	}
	if n := max(most, heap()-before); n > maxQueue*5/4 || !errors.Is(c.reason(), errFlood) {
		t.Errorf("%d bytes wait for a client: %v", n, c.reason())
	}
	b.removeClient(c)
	if n := b.queued.Load(); n != 0 {
		t.Errorf("%d bytes wait for no client", n)
	}
}

// TestQueuedBytes: what was sent, and what comes for a client that has left, takes no room.
func TestQueuedBytes(t *testing.T) {
	t.Parallel()
	b, event := fakeBrowser()
	reads, leaves := fakeClient(b, "reads"), fakeClient(b, "leaves")
	reads.socket = reader{reads.socket.(*stuck)}
	for range 100 {
		event("reads", "Page.a", `{}`)
		event("leaves", "Page.a", `{}`)
	}
	reads.end(errLeft)
	reads.sendAll()
	b.removeClient(reads)
	b.removeClient(leaves)
	leaves.put(make([]byte, 100)) // the event was read before
	if n := b.queued.Load(); n != 0 || reads.queued != 0 {
		t.Errorf("%d bytes wait for the client that reads, %d for all", reads.queued, n)
	}
}

// reader is a client that accepts every message.
type reader struct{ *stuck }

func (reader) Send([]byte) error { return nil }

// TestDisposedContexts: a browser context that a client has disposed of makes place for another one.
func TestDisposedContexts(t *testing.T) {
	t.Parallel()
	b, _ := fakeBrowser()
	written := drain(t, b.conn)
	c := fakeClient(b, "root")
	c.acts.second, c.acts.count = time.Now().Add(time.Hour), maxActs // it emits nothing, as it has no desktop
	for i := range maxContexts {
		c.madeContext(fmt.Appendf(nil, `{"browserContextId":"%d"}`, i))
	}
	if err := c.handle([]byte(`{"id":1,"method":"Target.disposeBrowserContext","params":{"browserContextId":"0"}}`)); err != nil {
		t.Fatal(err)
	}
	<-written
	b.conn.received([]byte(`{"id":1,"result":{},"sessionId":"root"}`), true)
	c.madeContext([]byte(`{"browserContextId":"new"}`))
	if c.contexts["0"] || !c.contexts["new"] || len(c.contexts) != maxContexts {
		t.Errorf("%d contexts", len(c.contexts))
	}
}

// TestEndlessRequests: requests whose end the browser never reports do not hide later ones.
func TestEndlessRequests(t *testing.T) {
	t.Parallel()
	b, event := fakeBrowser()
	event("", "Target.attachedToTarget", attached, "S", "T", "page")
	for i := range 3*maxRequests + 1 {
		event("S", "Network.requestWillBeSent", `{"requestId":"%d"}`, i)
	}
	tab := b.all[0]
	last := fmt.Sprint(3 * maxRequests)
	if n := len(tab.requests); tab.requests[last] == nil || n > maxRequests || uint64(n)+tab.network.dropped != 3*maxRequests+1 {
		t.Errorf("%d requests, and %d were dropped", n, tab.network.dropped)
	}
}

// TestDeepSessions: the end of a session does not cost more if the client has many others, each below the
// one before.
func TestDeepSessions(t *testing.T) {
	t.Parallel()
	b, event := fakeBrowser()
	c := fakeClient(b, "S0")
	ends := func(times int) time.Duration {
		t.Helper()
		begun := time.Now()
		for range times {
			event("S0", "Target.attachedToTarget", attached, "end", "T", "page")
			event("S0", "Target.detachedFromTarget", `{"sessionId":"end"}`)
			c.mu.Lock()
			c.queue, c.queued = nil, 0
			c.mu.Unlock()
		}
		return time.Since(begun)
	}
	const times = 5000
	few := ends(times)
	for i := range maxSessions - 2 {
		event(fmt.Sprint("S", i), "Target.attachedToTarget", attached, fmt.Sprint("S", i+1), "T", "worker")
	}
	if many := ends(times); many > 20*few+time.Second || c.attached != maxSessions-1 {
		t.Errorf("%d ends took %v with %d sessions, and %v with one", times, many, c.attached, few)
	}
	event("S0", "Target.detachedFromTarget", `{"sessionId":"S1"}`)
	if c.attached != 1 || len(b.sessions) != 1 || len(b.sessions["S0"].below) > 0 {
		t.Errorf("%d sessions of %d are left", c.attached, len(b.sessions))
	}
}
