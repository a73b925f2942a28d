package grants

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/deskhand/deskhand/agents/eventlog"
	"github.com/deskhand/deskhand/desktop/fleet"
	"github.com/deskhand/deskhand/internal/wallclock"
)

// Errors of tokens.
var (
	ErrNotFound = errors.New("there is no such token")
	ErrEnded    = errors.New("the token has expired or was revoked")
	ErrClosed   = errors.New("the tokens are closed")
)

// LimitError is the error of making a token when there are too many.
type LimitError struct{ limit int }

// Error implements error.
func (e *LimitError) Error() string { return fmt.Sprintf("there are %d tokens already", e.limit) }

// StorageError is the error of tokens that could not be stored, or read.
type StorageError struct {
	what string // what was done, and what that means
	err  error
}

// Error implements error.
func (e *StorageError) Error() string { return e.what + ": " + strings.TrimSpace(e.err.Error()) }

// Unwrap returns the error of the file system.
func (e *StorageError) Unwrap() error { return e.err }

// Bounds of tokens.
const (
	defaultTokenTime = 24 * time.Hour
	longestTokenTime = 366 * 24 * time.Hour
	mostTokens       = 1000
)

// Config configures a Store.
type Config struct {
	// StateDir is where the tokens are kept. It is claimed when there are any.
	StateDir *fleet.StateDir

	// NewestRecording returns the id of the newest recording of a desktop.
	NewestRecording func(desktop string) (string, error)

	// Log opens the log of sessions if several servers share it. Nil: they do not.
	Log func(context.Context) (*eventlog.Log, error)

	// Logger receives what goes wrong with the files of tokens.
	Logger *slog.Logger
}

// New returns a store that has not read its files.
func New(cfg Config) *Store { return &Store{Config: cfg} }

// Store has the tokens that were made by request, which are kept in the state directory so
// that links outlive a restart, and the tokens of agents that run here.
// Its methods may be called from any goroutine.
type Store struct {
	Config
	agents   agentTokens
	shared   sharedTokens
	refusals Refusals

	loading sync.Mutex // held while load reads the files; guards loaded
	loaded  bool

	mu     sync.Mutex // guards the fields below; not held while files are read or written
	byHash map[string]*Grant
	making int                    // calls of create that write a file
	unread map[string]bool        // ids of tokens, and of desktops with theirs, that ended before tokens were read
	ended  map[string]*endedToken // by id; their files are still there, or the log does not have their end
	retry  *time.Timer            // calls loadUnread and erase; nil: none is set
	alarm  *wallclock.Alarm       // rings when the next token expires; nil: there was no token yet
	closed bool
	work   sync.WaitGroup // for the retry
}

// endedToken is a token that has ended, which is not stored yet.
type endedToken struct {
	shared bool // see Grant
	logged bool // the failure to store it
}

// tokenPrefix begins the value of every token that POST /v1/tokens makes.
const tokenPrefix = "dh_"

// isValue reports whether a text has the form of such a value: rand.Text follows the prefix.
func isValue(text string) bool {
	random, ok := strings.CutPrefix(text, tokenPrefix)
	return ok && len(random) >= 26 && strings.Trim(random, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567") == ""
}

// load reads the tokens of an earlier server, once. If there are no token files it
// does nothing, so a wrong token does not change the state directory.
func (t *Store) load() error {
	t.loading.Lock()
	defer t.loading.Unlock()
	if t.loaded {
		return nil
	}
	if _, err := os.Lstat(tokenDir(t.StateDir.Path())); !t.StateDir.Claimed() && errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	dir, err := t.StateDir.Claim()
	if err != nil {
		return err
	}
	if err := t.catchUpSoon(); err != nil { // tokens in files may have been made with shared ones
		return err
	}
	grants, err := readTokens(tokenDir(dir), t.Logger)
	if err != nil {
		return err
	}
	t.loaded = true
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.byHash == nil { // apply may have been first
		t.byHash, t.ended = map[string]*Grant{}, map[string]*endedToken{}
	}
	if t.closed {
		return ErrClosed
	}
	there := map[string]bool{"": true}
	for _, g := range t.byHash {
		there[g.ID] = true
	}
	for _, g := range grants {
		g.begin()
		t.byHash[g.Hash], there[g.ID] = g, true
	}
	t.finish(func(g *Grant) bool { return g.Over() || !there[g.By] || t.unread[g.ID] || t.unread[g.Desktop] })
	t.setAlarm()
	return nil
}

// loadAll is like load, and also reads the newest tokens of other servers.
func (t *Store) loadAll() error {
	if err := t.load(); err != nil {
		return err
	}
	if err := t.catchUpSoon(); err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.finish(func(g *Grant) bool { return t.unread[g.ID] })
	clear(t.unread)
	return nil
}

// endUnread ends the token, or the tokens of the desktop, that has an id, after the tokens could not
// be read: they end when they are read from their files or the stream, which is tried again soon.
func (t *Store) endUnread(id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.finish(func(g *Grant) bool { return g.ID == id || g.Desktop == id }) // another caller may have read it
	if t.unread == nil {
		t.unread = map[string]bool{}
	}
	if len(t.unread) < mostTokens {
		t.unread[id] = true
	}
	t.eraseSoon(eraseRetry)
}

// loadUnread reads the tokens if endUnread was called since they were last read.
func (t *Store) loadUnread() {
	t.mu.Lock()
	some := len(t.unread) > 0
	t.mu.Unlock()
	if some {
		_ = t.loadAll() // the caller of endUnread has reported the error
	}
}

// setAlarm has tokens end when they expire by the wall clock, as after a suspension. The
// caller has mu.
func (t *Store) setAlarm() {
	if len(t.byHash) == 0 || t.closed {
		return
	}
	var err error
	if t.alarm == nil {
		t.alarm, err = wallclock.Start(func() {
			t.mu.Lock()
			defer t.mu.Unlock()
			t.finish((*Grant).Over)
			t.setAlarm()
		})
	}
	if err == nil {
		first := slices.MinFunc(slices.Collect(maps.Values(t.byHash)), func(a, b *Grant) int { return a.Expires.Compare(b.Expires) })
		err = t.alarm.Set(first.Expires)
	}
	if err != nil {
		t.Logger.Error("tokens do not expire while the system is suspended", "error", err)
	}
}

// Find returns the token of a value, or nil.
func (t *Store) Find(value string) *Grant {
	if g := t.agents.find(value); g != nil {
		return g
	}
	if !isValue(value) {
		return nil
	}
	if err := t.load(); err != nil {
		t.logRefusal("tokens that were made by request are refused, since they cannot be read", err)
		return nil
	}
	if g := t.known(value); g != nil || t.Log == nil {
		return g
	}
	return t.findShared(value)
}

// logRefusal logs that tokens are refused for an error. Requests without a token can cause one
// each, so it does not log all of them.
func (t *Store) logRefusal(what string, err error) {
	if skipped, due := t.refusals.Take(time.Now()); due {
		t.Logger.Error(what, "error", err, "skipped", skipped)
	}
}

// known returns the token of a value if it is in memory, or nil.
func (t *Store) known(value string) *Grant {
	t.mu.Lock()
	defer t.mu.Unlock()
	// The hash is looked up, not the value: the time that takes reveals nothing.
	if g := t.byHash[hashOf(value)]; g != nil && !g.Over() {
		return g
	}
	return nil
}

// List returns the tokens in the order of their creation. Tokens of agents come last.
func (t *Store) List() ([]*Grant, error) {
	if err := t.loadAll(); err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.finish((*Grant).Over)
	made := slices.SortedFunc(maps.Values(t.byHash), func(a, b *Grant) int { return a.Created.Compare(b.Created) })
	return append(made, t.agents.list()...), nil
}

// Create makes a token and returns its value, which is not stored. The token ends after
// ttl, a year at most; zero: a day. by is the token of the request; the new token ends when
// by does.
func (t *Store) Create(g *Grant, ttl time.Duration, by *Grant) (value string, err error) {
	dir, err := t.StateDir.Claim()
	if err != nil {
		return "", err
	}
	if err := t.load(); err != nil {
		return "", err
	}
	if g.NewestRecording, err = t.NewestRecording(g.Desktop); err != nil {
		return "", err
	}
	if err := t.reserve(); err != nil {
		return "", err
	}
	value = tokenPrefix + rand.Text()
	g.ID, g.Hash = newTokenID(), hashOf(value)
	g.made = time.Now()
	g.Created = g.made.UTC()
	g.Expires = g.Created.Add(min(cmp.Or(ttl, defaultTokenTime), longestTokenTime))
	if by != nil {
		g.By = by.ID
		if by.Expires.Before(g.Expires) {
			g.Expires = by.Expires
		}
	}
	if t.isShared(g) {
		err = t.store(g)
	} else if err = writeToken(tokenDir(dir), g); err != nil {
		err = &StorageError{"the token was not made", err}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.making--
	return value, t.begin(g, by, err)
}

// begin makes a new token valid, unless it could not be stored, or by has ended meanwhile. The
// caller has mu.
func (t *Store) begin(g, by *Grant, stored error) error {
	switch {
	case stored != nil:
		return stored
	case by.Over(), t.closed:
		delete(t.byHash, g.Hash)
		t.ended[g.ID] = &endedToken{shared: t.isShared(g)}
		t.eraseSoon(0)
		return ErrEnded
	case t.byHash[g.Hash] != nil: // store has read a shared token from the stream
		t.byHash[g.Hash].made = g.made
	default:
		g.begin()
		t.byHash[g.Hash] = g
		t.setAlarm()
	}
	return nil
}

// AgentToken returns the token by which an agent's process uses a desktop, and only that.
// It ends with the process.
func (t *Store) AgentToken(process context.Context, desktopID, agent string) (value string, err error) {
	newest, err := t.NewestRecording(desktopID)
	if err != nil {
		return "", err
	}
	return t.agents.token(process, desktopID, agent, newest), nil
}

// reserve makes room for one more token. The caller decrements making afterwards.
func (t *Store) reserve() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.finish((*Grant).Over)
	if len(t.byHash)+t.making >= mostTokens {
		return &LimitError{mostTokens}
	}
	t.making++
	return nil
}

// Revoke ends a token and all tokens that were made with it. They are invalid from
// then on, even if the error says that the revocation could not be stored.
func (t *Store) Revoke(id string) error {
	if t.agents.revoke(id) {
		return nil
	}
	if !t.finishID(id) {
		if err := t.loadAll(); err != nil {
			t.endUnread(id)
			return err
		}
		if !t.finishID(id) {
			return ErrNotFound
		}
	}
	if err := t.erase()[id]; err != nil {
		return &StorageError{"the token is revoked, but that could not be stored, and the token would be valid again after a restart; " +
			"deskhand tries again every few seconds, and so does another DELETE", err}
	}
	return nil
}

// finishID ends a token that is in memory, and all tokens that were made with it. It returns false
// if there is none of that id. The end of a token that has ended may still not be stored.
func (t *Store) finishID(id string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, ended := t.ended[id]
	return t.finish(func(g *Grant) bool { return g.ID == id }) || ended
}

// Forget ends the tokens of a desktop that was deleted.
func (t *Store) Forget(desktopID string) {
	t.agents.forget(desktopID)
	if t.load() != nil {
		if err := t.forgetFiles(desktopID); err != nil {
			t.Logger.Error("tokens of a desktop that was deleted end when they can be read", "desktop", desktopID, "error", err)
			t.endUnread(desktopID)
		}
	}
	t.mu.Lock()
	found := t.finish(func(g *Grant) bool { return g.Desktop == desktopID })
	t.mu.Unlock()
	if found {
		t.erase()
	}
}

// finish ends the tokens for which is returns true, and all tokens that were made
// with them. It returns false if there are none. Their files are removed soon
// afterwards. The caller has mu.
func (t *Store) finish(is func(*Grant) bool) bool {
	ids := t.remove(is)
	for id, shared := range ids {
		t.ended[id] = &endedToken{shared: shared}
	}
	if len(ids) > 0 {
		t.eraseSoon(0)
	}
	return len(ids) > 0
}

// finishRecorded is like finish for tokens whose end the stream has. The caller has mu.
func (t *Store) finishRecorded(is func(*Grant) bool) {
	for id, shared := range t.remove(is) {
		if !shared {
			t.ended[id] = &endedToken{}
			t.eraseSoon(0)
		}
	}
}

// remove ends the tokens for which is returns true, and all tokens that were made with them. It
// returns their ids, with true for shared tokens, except of shared tokens that have expired: all
// servers see that by themselves. The caller has mu.
func (t *Store) remove(is func(*Grant) bool) map[string]bool {
	ids, removed := map[string]bool{}, map[string]bool{}
	for more := true; more; {
		more = false
		for hash, g := range t.byHash {
			if is(g) || removed[g.By] {
				if expired := g.Over(); !g.shared || !expired {
					ids[g.ID] = g.shared
				}
				delete(t.byHash, hash)
				g.end()
				removed[g.ID], more = true, true
			}
		}
	}
	return ids
}

// Close ends the tokens in this server. Their files stay for the next server.
func (t *Store) Close() {
	t.loadUnread()
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
	t.stopFollowing()
	if t.alarm != nil {
		t.alarm.Close()
	}
	t.work.Wait()
	if left > 0 {
		t.erase()
	}
}

var errNotToken = errors.New("not the file of a token")
