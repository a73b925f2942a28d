package acp

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/deskhand/deskhand/agents"
	"github.com/deskhand/deskhand/httpapi/internal/rest"
)

const (
	mostConnections = 64
	// restingTime is how long a connection that makes room for another has not been used.
	restingTime = 5 * time.Minute
	// greetingTime is the default of Area.Greeting.
	greetingTime = 30 * time.Second
)

// connections are the connections of this process: those that were made since it began,
// and those that clients have used again.
type connections struct {
	now func() time.Time

	mu  sync.Mutex // guards the fields below
	all map[string]*connection
}

// make returns a connection that is not known yet.
func (cs *connections) make(prefix, agent string) *connection {
	return newConnection(prefix+strings.ToLower(rand.Text()), agent, 0, cs.now)
}

func noConnection(id string) *rest.Problem {
	p := rest.Missing("connection", id)
	p.Detail += "; initialize without " + headerConnection + " makes another"
	return p
}

func tooMany() *rest.Problem {
	return rest.Unavailable.Problem(fmt.Sprintf(
		"stream error: there are %d connections to agents already; end one by DELETE, or try again when one was not used for %v",
		mostConnections, restingTime)).WithHeader("Retry-After", "60")
}

// add adds a connection. It returns false if there are too many. To make room, it removes
// and returns the connection that has not been used for the longest time.
func (cs *connections) add(c *connection) (removed *connection, ok bool) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if len(cs.all) >= mostConnections {
		if removed = cs.resting(); removed == nil {
			return nil, false
		}
		delete(cs.all, removed.id)
	}
	cs.keep(c)
	return removed, true
}

// keep adds a connection unless there is one with its id, and returns the one that is there.
// The caller has cs.mu.
func (cs *connections) keep(c *connection) *connection {
	if other := cs.all[c.id]; other != nil {
		return other
	}
	if cs.all == nil {
		cs.all = map[string]*connection{}
	}
	cs.all[c.id] = c
	return c
}

// resting returns the connection that has not been used for the longest time, or nil if all
// have been used within restingTime. The caller has cs.mu.
func (cs *connections) resting() (oldest *connection) {
	var since time.Time
	for _, c := range cs.all {
		if used, resting := c.resting(); resting && (oldest == nil || used.Before(since)) {
			oldest, since = c, used
		}
	}
	return oldest
}

// full reports whether there is no room for another connection.
func (cs *connections) full() bool {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	return len(cs.all) >= mostConnections && cs.resting() == nil
}

// remove removes a connection and ends its streams.
func (cs *connections) remove(c *connection) {
	cs.mu.Lock()
	if cs.all[c.id] == c {
		delete(cs.all, c.id)
	}
	cs.mu.Unlock()
	c.close()
}

// find returns the connection with an id. The log has the connections of an earlier process;
// their streams begin with new events unless the client names an event.
func (cs *connections) find(ctx context.Context, host *agents.Host, id, agent string) (*connection, error) {
	cs.mu.Lock()
	c := cs.all[id]
	cs.mu.Unlock()
	if c == nil && strings.HasPrefix(id, connectionPrefix) {
		infos, err := host.Servers(ctx)
		if err != nil {
			return nil, err
		}
		for _, info := range infos {
			if info.ID == id {
				cs.mu.Lock()
				c = cs.keep(newConnection(id, info.Agent, -1, cs.now))
				cs.mu.Unlock()
			}
		}
	}
	switch {
	case c == nil || !strings.HasPrefix(id, connectionPrefix): // only the WebSocket uses its connection
		return nil, noConnection(id)
	case c.agent != agent:
		return nil, badHeader(headerConnection, fmt.Sprintf("is of a connection to %s, so use its URL", c.agent))
	}
	c.use()
	return c, nil
}
