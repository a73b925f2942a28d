package grants

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"regexp"
	"sync"
	"time"

	"github.com/deskhand/deskhand/desktop"
)

// Scope says what a token is good for. Each has all that those before it have.
type Scope int

// The scopes.
const (
	noScope        Scope = iota - 1 // of a file that names none
	ScopeAdmin                      // everything, as the server's own token; what routes need that say nothing
	ScopeView                       // to see a desktop
	ScopeControl                    // to act on it
	ScopeAgent                      // to act on it as an agent, and to start programs there
	ScopeSupervise                  // all desktops, agents and sessions, the files of its roots, but no tokens, secrets and processes of others
)

var scopeNames = map[Scope]string{ScopeAdmin: "admin", ScopeView: "view", ScopeControl: "control", ScopeAgent: "agent", ScopeSupervise: "supervise"}

func (s Scope) String() string { return scopeNames[s] }

// MarshalText returns the name of the scope.
func (s Scope) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText sets the scope to the one with that name.
func (s *Scope) UnmarshalText(name []byte) error {
	for known, n := range scopeNames {
		if n == string(name) {
			*s = known
			return nil
		}
	}
	return fmt.Errorf("scope %q: must be view, control, agent, supervise or admin", name)
}

// Allows says whether a token of scope s may do what needs the scope of a route.
func (s Scope) Allows(needed Scope) bool {
	return s == ScopeAdmin || needed != ScopeAdmin && s >= needed
}

// Grant is a token that was made by request. Its value is not kept, only a hash
// of it.
type Grant struct {
	ID      string    `json:"id"`
	Name    string    `json:"name,omitempty"`
	Scope   Scope     `json:"scope"`
	Desktop string    `json:"desktop,omitempty"`
	Roots   []string  `json:"roots,omitempty"` // directories whose files a token of the scope supervise reaches
	By      string    `json:"by,omitempty"`    // id of the token that made it; empty: the server's own
	Created time.Time `json:"created"`
	Expires time.Time `json:"expires"`
	Hash    string    `json:"hash"` // of the value, SHA-256 in hexadecimal

	// NewestRecording is the newest id of a recording when the token was made.
	NewestRecording string `json:"newestRecording"`

	shared  bool      // it is in the log of sessions, for all servers
	actorID string    // empty: ID
	made    time.Time // Created by the monotonic clock; zero: an earlier server made the token

	ctx context.Context //nolint:containedctx // ends with the token; what the token is used for ends with it
	end context.CancelFunc

	makePlaces sync.Once
	places     chan struct{}
	large      chan struct{}
}

// requestPlaces is how many requests with a token are handled at the same time.
const requestPlaces = 32

// Places has an element for each request with the token that is handled. A request waits
// until it can send one, and receives one at its end, so that one token does not take the
// places of all others.
func (g *Grant) Places() chan struct{} {
	g.initPlaces()
	return g.places
}

// Large has an element while a request with the token is handled whose answer may be large. A
// request waits as for Places.
func (g *Grant) Large() chan struct{} {
	g.initPlaces()
	return g.large
}

func (g *Grant) initPlaces() {
	g.makePlaces.Do(func() {
		g.places, g.large = make(chan struct{}, requestPlaces), make(chan struct{}, 1)
	})
}

// begin makes the token valid until it expires or end is called.
func (g *Grant) begin() {
	g.ctx, g.end = context.WithDeadline(context.Background(), g.Expires)
}

// Context ends with the token. What the token is used for ends with it.
func (g *Grant) Context() context.Context { return g.ctx }

// Hold has a connection closed when the token ends, until release. A request of
// the server's own token has no grant.
func (g *Grant) Hold(conn net.Conn) (release func()) {
	if g == nil {
		return func() {}
	}
	stop := context.AfterFunc(g.ctx, func() { _ = conn.Close() })
	return func() { stop() }
}

// Over reports whether the token has ended. The context's deadline does not advance
// while the system is suspended.
func (g *Grant) Over() bool {
	return g != nil && (g.ctx.Err() != nil || !g.Expires.IsZero() && !time.Now().Round(0).Before(g.Expires))
}

// Actor returns the actor of the token, under the name that the request gives.
func (g *Grant) Actor(name string) desktop.Actor {
	a := desktop.Actor{Kind: desktop.ActorAPI, Name: name}
	if g == nil {
		return a
	}
	a.ID = cmp.Or(g.actorID, g.ID)
	if name == "" {
		a.Name = g.Name
	}
	if g.Scope == ScopeAgent {
		a.Kind = desktop.ActorAgent
	}
	return a
}

// ViewersOf returns the owner of the viewers of a token. It is empty for the server's
// own token and for admin tokens.
func (g *Grant) ViewersOf() string {
	if g == nil || g.Scope == ScopeAdmin {
		return ""
	}
	return g.ID
}

// Supervises reports whether a token is for the agents, sessions and desktops of the server,
// and not for single desktops.
func (g *Grant) Supervises() bool { return g == nil || g.Scope.Allows(ScopeSupervise) }

// Sees reports whether a token may see the addresses of an owner's viewers and end
// them. Tokens that supervise may, and other tokens for their own viewers.
func (g *Grant) Sees(owner string) bool { return g.Supervises() || g.ID == owner }

// ShownSince returns the time from which on a token shows events. Events of an earlier
// server are gone, so a token that was made there shows all.
func (g *Grant) ShownSince() time.Time {
	if g.Supervises() {
		return time.Time{}
	}
	return g.made
}

// parse reads a grant from the text of its file.
func (g *Grant) parse(text []byte) error {
	g.Scope = noScope
	if err := json.Unmarshal(text, g); err != nil {
		return err
	}
	if g.Scope == noScope || g.ID == "" || g.Hash == "" || g.NewestRecording == "" {
		return errNotToken
	}
	return nil
}

// read reads a grant from its file.
func (g *Grant) read(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return g.parse(text)
}

// ActorName returns the pattern of names. It is compiled when it is first needed,
// because that takes milliseconds of every start.
var ActorName = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[\pL\pN][\pL\pN ._@-]{0,63}$`)
})

func newTokenID() string { return "tok_" + rand.Text()[:12] }

func hashOf(value string) string {
	sum := sha256.Sum256([]byte(value))
	return hex.EncodeToString(sum[:])
}
