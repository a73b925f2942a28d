package browser

import (
	"errors"
	"fmt"
	"testing"
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
