package browser

import (
	"encoding/json"

	"github.com/deskhand/deskhand/desktop"
)

// intercepting are the commands by which a client gets an event in place of what the browser does
// for a person. While another actor has control alone, the browser does it for that actor.
var intercepting = map[string]bool{"Page.setInterceptFileChooserDialog": true, "Input.setInterceptDrags": true}

// interception are the parameters of these commands.
type interception struct {
	Enabled bool `json:"enabled"`
	Cancel  bool `json:"cancel,omitempty"`
}

// intercept changes the parameters of an intercepting command to those that control allows. onResult
// keeps the client's own for controlChanged.
func (c *client) intercept(m *message, s *session) (onResult func([]byte)) {
	var want interception
	if json.Unmarshal(m.params, &want) != nil {
		m.params = []byte("{}") // the browser refuses it
		return nil
	}
	m.params = encode(c.allowed(want))
	method := plain(m.method)
	return func([]byte) {
		c.b.mu.Lock()
		defer c.b.mu.Unlock()
		if s.intercepts == nil {
			s.intercepts = map[string]interception{}
		}
		s.intercepts[method] = want
		if c.allowed(want) != want { // control may have changed meanwhile
			c.b.post(s.id, method, c.allowed(want))
		}
	}
}

// allowed returns what a client may intercept now of what it wants.
func (c *client) allowed(want interception) interception {
	if c.held() != nil {
		return interception{}
	}
	return want
}

// watchControl calls controlChanged when control changes, until the browser ends.
func (b *clients) watchControl(events *desktop.Subscription) {
	defer events.Close()
	for {
		select {
		case e, ok := <-events.Events():
			if !ok {
				return
			}
			if e.Type == desktop.EventControl || e.Type == desktop.EventGap {
				b.controlChanged()
			}
		case <-b.conn.done:
			return
		}
	}
}

// controlChanged sets what clients intercept as control allows it. Pages, frames and workers that
// wait for a client without control run.
func (b *clients) controlChanged() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, s := range b.sessions {
		b.runHeld(s)
		for method, want := range s.intercepts {
			b.post(s.id, method, s.client.allowed(want))
		}
	}
}
