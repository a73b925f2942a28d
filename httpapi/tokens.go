package httpapi

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/desktop/fleet"
	"github.com/deskhand/deskhand/internal/wallclock"
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

// scopeNamed returns the scope with a name.
func scopeNamed(name string) (s scope, ok bool) {
	for s, n := range scopeNames {
		if n == name {
			return s, true
		}
	}
	return 0, false
}

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
	By      string    `json:"by,omitempty"` // id of the token that made it; empty: the server's own
	Created time.Time `json:"created"`
	Expires time.Time `json:"expires"`
	Hash    string    `json:"hash"` // of the value, SHA-256 in hexadecimal

	// NewestRecording is the newest id of a recording when the token was made.
	NewestRecording string `json:"newestRecording"`

	actorID string    // empty: ID
	made    time.Time // Created by the monotonic clock; zero: an earlier server made the token

	scope scope
	ctx   context.Context //nolint:containedctx // ends with the token; what the token is used for ends with it
	end   context.CancelFunc
}

// begin makes the token valid until it expires or end is called.
func (g *grant) begin() {
	g.ctx, g.end = context.WithDeadline(context.Background(), g.Expires)
}

// hold has a connection closed when the token ends, until release. A request of
// the server's own token has no grant.
func (g *grant) hold(conn net.Conn) (release func()) {
	if g == nil {
		return func() {}
	}
	stop := context.AfterFunc(g.ctx, func() { _ = conn.Close() })
	return func() { stop() }
}

// over reports whether the token has ended. The context's deadline does not advance
// while the system is suspended.
func (g *grant) over() bool {
	return g != nil && (g.ctx.Err() != nil || !g.Expires.IsZero() && !time.Now().Round(0).Before(g.Expires))
}

// actor is who acts with the token, under the name that the request gives.
func (g *grant) actor(name string) desktop.Actor {
	a := desktop.Actor{Kind: desktop.ActorAPI, Name: name}
	if g == nil {
		return a
	}
	a.ID = cmp.Or(g.actorID, g.ID)
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
	stateDir *fleet.StateDir
	log      *slog.Logger

	newestRecording func(desktop string) (string, error) // Fleet.NewestRecording

	loading sync.Mutex // held while load reads the files; guards loaded
	loaded  bool

	mu     sync.Mutex // guards what follows; not held while files are read or written
	byHash map[string]*grant
	making int              // calls of create that write a file
	ended  map[string]bool  // ids of tokens that have ended and whose files are still there; true: the log says so
	retry  *time.Timer      // tries to remove these; nil: none is set
	alarm  *wallclock.Alarm // rings when the next token expires; nil: there was no token yet
	closed bool
	work   sync.WaitGroup // for the retry
}

// tokenPrefix begins the value of every token that POST /v1/tokens makes.
const tokenPrefix = "dh_"

func newTokenID() string { return "tok_" + rand.Text()[:12] }

func hashOf(value string) string {
	sum := sha256.Sum256([]byte(value))
	return hex.EncodeToString(sum[:])
}

// load reads the tokens of an earlier server, once. If there are no token files it
// does nothing, so a wrong token does not change the state directory.
func (t *tokens) load() error {
	t.loading.Lock()
	defer t.loading.Unlock()
	if t.loaded {
		return nil
	}
	if _, err := os.Lstat(tokenDir(t.stateDir.Path())); !t.stateDir.Claimed() && errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	dir, err := t.stateDir.Claim()
	if err != nil {
		return err
	}
	grants, err := readTokens(tokenDir(dir), t.log)
	if err != nil {
		return err
	}
	t.loaded = true
	t.mu.Lock()
	defer t.mu.Unlock()
	t.byHash, t.ended = map[string]*grant{}, map[string]bool{}
	if t.closed {
		return ErrClosed
	}
	there := map[string]bool{"": true}
	for _, g := range grants {
		g.begin()
		t.byHash[g.Hash], there[g.ID] = g, true
	}
	t.finish(func(g *grant) bool { return g.over() || !there[g.By] })
	t.setAlarm()
	return nil
}

// setAlarm has tokens end when they expire by the wall clock, as after a suspension. The
// caller has mu.
func (t *tokens) setAlarm() {
	if len(t.byHash) == 0 || t.closed {
		return
	}
	var err error
	if t.alarm == nil {
		t.alarm, err = wallclock.Start(func() {
			t.mu.Lock()
			defer t.mu.Unlock()
			t.finish((*grant).over)
			t.setAlarm()
		})
	}
	if err == nil {
		first := slices.MinFunc(slices.Collect(maps.Values(t.byHash)), func(a, b *grant) int { return a.Expires.Compare(b.Expires) })
		err = t.alarm.Set(first.Expires)
	}
	if err != nil {
		t.log.Error("tokens do not expire while the system is suspended", "error", err)
	}
}

// find returns the token of a value, or nil.
func (t *tokens) find(value string) *grant {
	if !strings.HasPrefix(value, tokenPrefix) {
		return nil
	}
	if err := t.load(); err != nil {
		t.log.Error("tokens that were made by request are refused, since they cannot be read", "error", err)
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	// The hash is looked up, not the value: how long that takes tells nothing.
	if g := t.byHash[hashOf(value)]; g != nil && !g.over() {
		return g
	}
	return nil
}

// list returns the tokens in the order of their making.
func (t *tokens) list() ([]*grant, error) {
	if err := t.load(); err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.finish((*grant).over)
	return slices.SortedFunc(maps.Values(t.byHash), func(a, b *grant) int { return a.Created.Compare(b.Created) }), nil
}

// create makes a token and returns its value, which is not stored. by is the token
// of the request; the new token ends when by does.
func (t *tokens) create(g *grant, ttl time.Duration, by *grant) (value string, err error) {
	dir, err := t.stateDir.Claim()
	if err != nil {
		return "", err
	}
	if err := t.load(); err != nil {
		return "", err
	}
	if g.NewestRecording, err = t.newestRecording(g.Desktop); err != nil {
		return "", err
	}
	if err := t.reserve(); err != nil {
		return "", err
	}
	value = tokenPrefix + rand.Text()
	g.ID, g.Hash = newTokenID(), hashOf(value)
	g.made = time.Now()
	g.Created = g.made.UTC()
	g.Expires = g.Created.Add(ttl)
	if by != nil {
		g.By = by.ID
		if by.Expires.Before(g.Expires) {
			g.Expires = by.Expires
		}
	}
	err = writeToken(tokenDir(dir), g)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.making--
	switch {
	case err != nil:
		return "", tokenStorage("the token was not made", err)
	case by.over(), t.closed:
		t.ended[g.ID] = false
		t.eraseSoon(0)
		return "", errTokenOver()
	}
	g.begin()
	t.byHash[g.Hash] = g
	t.setAlarm()
	return value, nil
}

// reserve makes room for one more token. The caller decrements making afterwards.
func (t *tokens) reserve() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.finish((*grant).over)
	if len(t.byHash)+t.making >= mostTokens {
		return conflictOf(fmt.Sprintf("there are %d tokens already; DELETE some first", mostTokens))
	}
	t.making++
	return nil
}

// revoke ends a token and all tokens that were made with it. They are invalid from
// then on, even if the error says that the revocation could not be stored.
func (t *tokens) revoke(id string) error {
	if err := t.load(); err != nil {
		return err
	}
	t.mu.Lock()
	_, known := t.ended[id] // revoked before, and that could not be stored
	known = t.finish(func(g *grant) bool { return g.ID == id }) || known
	t.mu.Unlock()
	if !known {
		return missing("token", id)
	}
	if err := t.erase()[id]; err != nil {
		return tokenStorage("the token is revoked, but that could not be stored, and the token would be valid again after a restart; "+
			"deskhand tries again every few seconds, and so does another DELETE", err)
	}
	return nil
}

// forget ends the tokens for one desktop, which was deleted.
func (t *tokens) forget(desktopID string) {
	if err := t.load(); err != nil {
		t.log.Error("tokens of a desktop that was deleted", "desktop", desktopID, "error", err)
		return
	}
	t.mu.Lock()
	found := t.finish(func(g *grant) bool { return g.Desktop == desktopID })
	t.mu.Unlock()
	if found {
		t.erase()
	}
}

// finish ends the tokens for which is returns true, and all tokens that were made
// with them. It returns false if there are none. Their files are removed soon
// afterwards. The caller has mu.
func (t *tokens) finish(is func(*grant) bool) bool {
	ids := map[string]bool{}
	for more := true; more; {
		more = false
		for hash, g := range t.byHash {
			if is(g) || ids[g.By] {
				delete(t.byHash, hash)
				g.end()
				ids[g.ID], t.ended[g.ID], more = true, false, true
			}
		}
	}
	if len(ids) > 0 {
		t.eraseSoon(0)
	}
	return len(ids) > 0
}

// close ends the tokens in this server. Their files stay for the next server.
func (t *tokens) close() {
	t.mu.Lock()
	t.closed = true
	for _, g := range t.byHash {
		g.end()
	}
	if t.retry != nil && t.retry.Stop() {
		t.work.Done()
	}
	left := len(t.ended)
	t.mu.Unlock()
	if t.alarm != nil {
		t.alarm.Close()
	}
	t.work.Wait()
	if left > 0 {
		t.erase()
	}
}

var errNotToken = errors.New("not the file of a token")

// parse reads a grant from the text of its file.
func (g *grant) parse(text []byte) error {
	if err := json.Unmarshal(text, g); err != nil {
		return err
	}
	var ok bool
	if g.scope, ok = scopeNamed(g.Scope); !ok || g.ID == "" || g.Hash == "" || g.NewestRecording == "" {
		return errNotToken
	}
	return nil
}
