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

// StorageError is the error of a token whose file could not be changed.
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
	agents agentTokens

	loading sync.Mutex // held while load reads the files; guards loaded
	loaded  bool

	mu     sync.Mutex // guards what follows; not held while files are read or written
	byHash map[string]*Grant
	making int              // calls of create that write a file
	ended  map[string]bool  // ids of tokens that have ended and whose files are still there; true: the log says so
	retry  *time.Timer      // tries to remove these; nil: none is set
	alarm  *wallclock.Alarm // rings when the next token expires; nil: there was no token yet
	closed bool
	work   sync.WaitGroup // for the retry
}

// tokenPrefix begins the value of every token that POST /v1/tokens makes.
const tokenPrefix = "dh_"

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
	grants, err := readTokens(tokenDir(dir), t.Logger)
	if err != nil {
		return err
	}
	t.loaded = true
	t.mu.Lock()
	defer t.mu.Unlock()
	t.byHash, t.ended = map[string]*Grant{}, map[string]bool{}
	if t.closed {
		return ErrClosed
	}
	there := map[string]bool{"": true}
	for _, g := range grants {
		g.begin()
		t.byHash[g.Hash], there[g.ID] = g, true
	}
	t.finish(func(g *Grant) bool { return g.Over() || !there[g.By] })
	t.setAlarm()
	return nil
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
	if !strings.HasPrefix(value, tokenPrefix) {
		return nil
	}
	if err := t.load(); err != nil {
		t.Logger.Error("tokens that were made by request are refused, since they cannot be read", "error", err)
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	// The hash is looked up, not the value: how long that takes tells nothing.
	if g := t.byHash[hashOf(value)]; g != nil && !g.Over() {
		return g
	}
	return nil
}

// List returns the tokens in the order of their creation. Tokens of agents come last.
func (t *Store) List() ([]*Grant, error) {
	if err := t.load(); err != nil {
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
	err = writeToken(tokenDir(dir), g)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.making--
	switch {
	case err != nil:
		return "", &StorageError{"the token was not made", err}
	case by.Over(), t.closed:
		t.ended[g.ID] = false
		t.eraseSoon(0)
		return "", ErrEnded
	}
	g.begin()
	t.byHash[g.Hash] = g
	t.setAlarm()
	return value, nil
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
	if err := t.load(); err != nil {
		return err
	}
	t.mu.Lock()
	_, known := t.ended[id] // revoked before, and that could not be stored
	known = t.finish(func(g *Grant) bool { return g.ID == id }) || known
	t.mu.Unlock()
	if !known {
		return ErrNotFound
	}
	if err := t.erase()[id]; err != nil {
		return &StorageError{"the token is revoked, but that could not be stored, and the token would be valid again after a restart; " +
			"deskhand tries again every few seconds, and so does another DELETE", err}
	}
	return nil
}

// Forget ends the tokens of a desktop that was deleted.
func (t *Store) Forget(desktopID string) {
	t.agents.forget(desktopID)
	if err := t.load(); err != nil {
		t.Logger.Error("tokens of a desktop that was deleted", "desktop", desktopID, "error", err)
		return
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

// Close ends the tokens in this server. Their files stay for the next server.
func (t *Store) Close() {
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
