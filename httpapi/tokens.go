package httpapi

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/internal/configfile"
)

// scope says what a token is good for. Each has all that those before it have.
type scope int

const (
	scopeAdmin   scope = iota // everything, as the server's own token; what routes need that say nothing
	scopeView                 // to see a desktop
	scopeControl              // to act on it
	scopeAgent                // to act on it as an agent, and to start programs there
)

var scopeNames = map[scope]string{scopeAdmin: "admin", scopeView: "view", scopeControl: "control", scopeAgent: "agent"}

func (s scope) String() string { return scopeNames[s] }

// allows says whether a token of scope s may do what needs the scope of a route.
func (s scope) allows(needed scope) bool {
	return s == scopeAdmin || needed != scopeAdmin && s >= needed
}

// Bounds of tokens.
const (
	defaultTokenTime = 24 * time.Hour
	longestTokenTime = 366 * 24 * time.Hour
	mostTokens       = 1000
)

// grant is a token that was made by request. Its value is not kept, only a hash
// of it.
type grant struct {
	ID      string    `json:"id"`
	Name    string    `json:"name,omitempty"`
	Scope   string    `json:"scope"`
	Desktop string    `json:"desktop,omitempty"`
	Created time.Time `json:"created"`
	Expires time.Time `json:"expires"`
	Hash    string    `json:"hash"` // of the value, SHA-256 in hexadecimal

	scope scope
	timer *time.Timer

	mu    sync.Mutex // guards what follows
	over  bool
	conns map[net.Conn]int // that live for long: event streams and WebSockets
}

// hold has a connection closed when the token ends, until release. A request of
// the server's own token has no grant.
func (g *grant) hold(conn net.Conn) (release func()) {
	if g == nil {
		return func() {}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.over {
		_ = conn.Close()
	}
	if g.conns == nil {
		g.conns = map[net.Conn]int{}
	}
	g.conns[conn]++
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		if g.conns[conn]--; g.conns[conn] == 0 {
			delete(g.conns, conn)
		}
	}
}

// end closes what the token was used for.
func (g *grant) end() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.over = true
	if g.timer != nil {
		g.timer.Stop()
	}
	for conn := range g.conns {
		_ = conn.Close()
	}
}

// actor is who acts with the token, under the name that the request gives.
func (g *grant) actor(name string) desktop.Actor {
	a := desktop.Actor{Kind: desktop.ActorAPI, Name: name}
	if g == nil {
		return a
	}
	a.ID = g.ID
	if name == "" {
		a.Name = g.Name
	}
	if g.scope == scopeAgent {
		a.Kind = desktop.ActorAgent
	}
	return a
}

// tokens are the tokens that were made by request. They are kept in the state
// directory, so that links outlive a restart.
type tokens struct {
	places *places
	store  configfile.Store

	mu     sync.Mutex // guards what follows
	loaded bool
	byHash map[string]*grant
	closed bool
}

func hashOf(value string) string {
	sum := sha256.Sum256([]byte(value))
	return hex.EncodeToString(sum[:])
}

// tokensName is the file of the tokens, in the state directory.
const tokensName = "tokens.json"

// file is where the tokens are kept.
func (t *tokens) file() (string, error) {
	dir, err := t.places.claim()
	return filepath.Join(dir, tokensName), err
}

// load reads the tokens of an earlier server, once. While there is no file of
// them there are no tokens, and whoever comes with a wrong one leaves the state
// directory alone. The caller has mu.
func (t *tokens) load() error {
	if t.loaded || t.places.claimed.Load() == nil && !present(filepath.Join(t.places.where().dir, tokensName)) {
		return nil
	}
	file, err := t.file()
	if err != nil {
		return err
	}
	entries, err := t.store.Entries(file)
	if err != nil {
		return err
	}
	t.loaded, t.byHash = true, map[string]*grant{}
	for _, entry := range entries {
		g := new(grant)
		if err := json.Unmarshal(entry, g); err != nil {
			continue // somebody else's; it opens nothing
		}
		for s, name := range scopeNames {
			if name == g.Scope {
				g.scope = s
				t.add(g)
			}
		}
	}
	return nil
}

// add makes a token known until it expires. The caller has mu.
func (t *tokens) add(g *grant) {
	left := time.Until(g.Expires)
	if left <= 0 || t.closed {
		return
	}
	t.byHash[g.Hash] = g
	g.timer = time.AfterFunc(left, func() { _ = t.revoke(g.ID) }) // what stays in the file opens nothing any more
}

// find returns the token of a value, or nil.
func (t *tokens) find(value string) *grant {
	if value == "" {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.load(); err != nil {
		return nil
	}
	// The hash is looked up, not the value: how long that takes tells nothing.
	g := t.byHash[hashOf(value)]
	if g != nil && time.Now().After(g.Expires) {
		return nil
	}
	return g
}

// list returns the tokens in the order of their making.
func (t *tokens) list() ([]*grant, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.load(); err != nil {
		return nil, err
	}
	return slices.SortedFunc(maps.Values(t.byHash), func(a, b *grant) int { return a.Created.Compare(b.Created) }), nil
}

// create makes a token and returns its value, which nobody will see again.
func (t *tokens) create(ctx context.Context, g *grant, ttl time.Duration) (value string, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	file, err := t.file()
	if err != nil {
		return "", err
	}
	if err := t.load(); err != nil {
		return "", err
	}
	if len(t.byHash) >= mostTokens {
		return "", conflictOf(fmt.Sprintf("there are %d tokens already; DELETE some first", mostTokens))
	}
	value = "dh_" + rand.Text()
	g.ID, g.Hash = "tok_"+rand.Text()[:12], hashOf(value)
	g.Created = time.Now().UTC()
	g.Expires = g.Created.Add(ttl)
	entry, err := json.Marshal(g)
	if err != nil {
		return "", err
	}
	if err := t.store.Put(ctx, file, g.ID, entry); err != nil {
		return "", err
	}
	t.add(g)
	return value, nil
}

// revoke ends a token. The error is that of a token that there is not.
func (t *tokens) revoke(id string) error {
	t.mu.Lock()
	if err := t.load(); err != nil {
		t.mu.Unlock()
		return err
	}
	var found *grant
	for hash, g := range t.byHash {
		if g.ID == id {
			found = g
			delete(t.byHash, hash)
		}
	}
	t.mu.Unlock()
	if found == nil {
		return missing("token", id)
	}
	found.end()
	file, err := t.file()
	if err != nil {
		return err
	}
	return t.store.Delete(context.Background(), file, id)
}

// close stops the clocks.
func (t *tokens) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	for _, g := range t.byHash {
		g.timer.Stop()
	}
}
