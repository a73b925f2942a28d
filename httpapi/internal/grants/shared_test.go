package grants

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/deskhand/deskhand/agents/eventlog"
)

// withoutLog returns tokens whose log cannot be opened. calls is how often it was tried.
func withoutLog(t *testing.T, open func()) (tokens *Store, calls *int) {
	t.Helper()
	tokens, calls = newTestTokens(t), new(int)
	tokens.Log = func(context.Context) (*eventlog.Log, error) {
		*calls++ // shared.mu is held
		open()
		return nil, errors.New("no database")
	}
	return tokens, calls
}

// TestOnlyTokensAreLookedUp: what cannot be a token does not reach the database.
func TestOnlyTokensAreLookedUp(t *testing.T) {
	t.Parallel()
	tokens, calls := withoutLog(t, func() {})
	value := tokenPrefix + rand.Text()
	for _, other := range []string{"", tokenPrefix, tokenPrefix + "1", value[1:], value[:20], strings.ToLower(value), value + "=", value + "\n", "x" + value} {
		if tokens.Find(other); *calls != 0 {
			t.Fatalf("%q is looked up", other)
		}
	}
	if tokens.Find(value); *calls != 1 {
		t.Errorf("%q is looked up %d times", value, *calls)
	}
}

// TestFailingLookupsAreLoggedSeldom looks tokens up without a database.
func TestFailingLookupsAreLoggedSeldom(t *testing.T) {
	t.Parallel()
	tokens, calls := withoutLog(t, func() {})
	var log bytes.Buffer
	tokens.Logger = slog.New(slog.NewTextHandler(&log, nil))
	begun := time.Now()
	for range 50 {
		tokens.Find(tokenPrefix + rand.Text())
	}
	most := 1 + int(time.Since(begun)/refusalInterval)
	if n := strings.Count(log.String(), "no database"); *calls != 50 || n < 1 || n > most {
		t.Errorf("%d lookups, %d lines of the log, want 50 and at most %d:\n%s", *calls, n, most, log.String())
	}
}

// TestLookupsShareReads: lookups that wait for a read share the next one.
func TestLookupsShareReads(t *testing.T) {
	t.Parallel()
	const lookups = 20
	gate, reading := make(chan struct{}), make(chan struct{}, lookups)
	tokens, calls := withoutLog(t, func() { reading <- struct{}{}; <-gate })
	var all sync.WaitGroup
	find := func() { tokens.Find(tokenPrefix + rand.Text()) }
	all.Go(find)
	<-reading
	for range lookups - 1 {
		all.Go(find)
	}
	waiting := func() (n int) {
		text := make([]byte, 1<<20)
		for stack := range strings.SplitSeq(string(text[:runtime.Stack(text, true)]), "\n\n") {
			if strings.Contains(stack, "[sync.Mutex.Lock") && strings.Contains(stack, ".findShared(") {
				n++
			}
		}
		return n
	}
	for deadline := time.Now().Add(time.Minute); waiting() < lookups-1; runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Error("not all lookups wait for the first")
			break
		}
	}
	close(gate)
	all.Wait()
	if *calls != 2 {
		t.Errorf("%d lookups need %d reads, want 2", lookups, *calls)
	}
}

// TestEndBeforeRead: tokens end that are revoked, or whose desktop is deleted, while they cannot be
// read yet.
func TestEndBeforeRead(t *testing.T) {
	t.Parallel()
	log, err := eventlog.Open(t.Context(), eventlog.Config{}) // in memory
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { log.Close() })
	there := func(context.Context) (*eventlog.Log, error) { return log, nil }
	before := newTestTokens(t)
	before.Log = there
	create := func(desktopID string) (value, id string) {
		t.Helper()
		g := &Grant{Scope: ScopeView, Desktop: desktopID}
		value, err := before.Create(g, time.Hour, nil)
		if err != nil {
			t.Fatal(err)
		}
		return value, g.ID
	}
	ofDeleted, _ := create("deleted")
	revoked, revokedID := create("work")
	shared, sharedID := create("")
	valid, _ := create("work")

	after := New(before.Config)
	t.Cleanup(after.Close)
	after.Log = func(context.Context) (*eventlog.Log, error) { return nil, errors.New("no database") }
	after.Forget("deleted")
	for _, id := range []string{revokedID, sharedID} {
		if err := after.Revoke(id); err == nil {
			t.Error("the end is stored")
		}
	}
	next := New(before.Config) // as after a restart
	t.Cleanup(next.Close)
	if next.Find(ofDeleted) != nil {
		t.Error("the token of the deleted desktop is valid after a restart")
	}
	after.Log = there
	for name, value := range map[string]string{"of the deleted desktop": ofDeleted, "revoked": revoked, "shared": shared} {
		if after.Find(value) != nil {
			t.Errorf("the token is valid: %s", name)
		}
	}
	if after.Find(valid) == nil {
		t.Error("another token has ended")
	}
}

// TestEndIsStoredLater: the end of tokens that could not be read is stored as soon as they can be, and
// when the server ends.
func TestEndIsStoredLater(t *testing.T) {
	t.Parallel()
	log, err := eventlog.Open(t.Context(), eventlog.Config{}) // in memory
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { log.Close() })
	for name, later := range map[string]func(*Store){
		"retry": func(s *Store) {
			s.mu.Lock()
			if s.retry != nil && s.retry.Stop() {
				s.retry.Reset(0) // sooner
			}
			s.mu.Unlock()
			left := func() int {
				s.mu.Lock()
				defer s.mu.Unlock()
				return len(s.unread) + len(s.ended)
			}
			for deadline := time.Now().Add(time.Minute); left() > 0; runtime.Gosched() {
				if time.Now().After(deadline) {
					t.Fatal("the ends are not stored")
				}
			}
		},
		"Close": func(s *Store) { s.Close() },
	} {
		before := newTestTokens(t)
		before.Log = func(context.Context) (*eventlog.Log, error) { return log, nil }
		var values []string
		var down atomic.Bool
		down.Store(true)
		after := New(before.Config)
		t.Cleanup(after.Close)
		after.Log = func(context.Context) (*eventlog.Log, error) {
			if down.Load() {
				return nil, errors.New("no database")
			}
			return log, nil
		}
		for _, desktopID := range []string{"", "work"} {
			g := &Grant{Scope: ScopeView, Desktop: desktopID}
			value, err := before.Create(g, time.Hour, nil)
			if err != nil {
				t.Fatal(err)
			}
			values = append(values, value)
			if err := after.Revoke(g.ID); err == nil {
				t.Error("the end is stored")
			}
		}
		for range mostTokens {
			after.Forget(rand.Text())
		}
		after.mu.Lock()
		n := len(after.unread)
		after.mu.Unlock()
		if n != 2 {
			t.Errorf("%d ids are kept, want those of 2 tokens", n)
		}
		down.Store(false)
		later(after)
		next := New(before.Config)
		t.Cleanup(next.Close)
		for i, value := range values {
			if next.Find(value) != nil {
				t.Errorf("%s: token %d is valid after a restart", name, i)
			}
		}
	}
}
