package grants

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/deskhand/deskhand/agents/eventlog"
)

// Servers with one log of sessions accept each other's tokens, except tokens for one desktop,
// which belongs to one server. The log has a stream of these tokens: an event for each that was
// made, and one for each that was revoked. All other tokens are in files.

// Stream is the stream of the tokens. Retention must not remove its events.
const Stream = "tokens"

// The kinds of events in the stream. The payload is a Grant, or the id of a token.
const (
	kindMade    = "token"
	kindRevoked = "token_revoked"
)

const (
	findTime  = 2 * time.Second // bounds a look into the log for a token that is not known
	storeTime = 5 * time.Second // bounds a commit
)

// sharedTokens is this server's position in the stream.
type sharedTokens struct {
	reads atomic.Int64 // calls of catchUpLocked that have begun

	mu   sync.Mutex    // guards what follows; held while the stream is read or written
	log  *eventlog.Log // nil: it was not needed yet
	seq  int64         // the last event that was applied
	stop context.CancelFunc
}

// isShared reports whether other servers accept a token as well.
func (t *Store) isShared(g *Grant) bool { return t.Log != nil && g.Desktop == "" }

// catchUp applies the events that other servers have added.
func (t *Store) catchUp(ctx context.Context) error {
	if t.Log == nil {
		return nil
	}
	t.shared.mu.Lock()
	defer t.shared.mu.Unlock()
	return t.catchUpLocked(ctx)
}

// catchUpSoon is catchUp with a bound of its own.
func (t *Store) catchUpSoon() error {
	ctx, cancel := context.WithTimeout(context.Background(), storeTime)
	defer cancel()
	err := t.catchUp(ctx)
	if err == nil || errors.Is(err, ErrClosed) {
		return err
	}
	return &StorageError{"the tokens that servers share cannot be read", err}
}

// catchUpLocked is catchUp for a caller that has shared.mu.
func (t *Store) catchUpLocked(ctx context.Context) error {
	s := &t.shared
	s.reads.Add(1)
	if err := t.openLocked(ctx); err != nil {
		return err
	}
	for {
		events, err := s.log.Read(ctx, Stream, s.seq, 0)
		if err != nil || len(events) == 0 {
			return err
		}
		t.apply(events)
		s.seq = events[len(events)-1].Seq
	}
}

// openLocked opens the log, and begins to follow the stream. The caller has shared.mu.
func (t *Store) openLocked(ctx context.Context) error {
	if t.shared.log != nil {
		return nil
	}
	log, err := t.Log(ctx)
	if err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return ErrClosed
	}
	following, stop := context.WithCancel(context.Background())
	t.shared.log, t.shared.stop = log, stop
	t.work.Go(func() { t.follow(following, log) })
	return nil
}

// follow applies events as soon as other servers add them: what a token is used for ends when
// another server has revoked it.
func (t *Store) follow(ctx context.Context, log *eventlog.Log) {
	for at := log.Follow(Stream, 0); ; {
		if _, err := at.Next(ctx); err != nil {
			return // ctx has ended, or the log is closed
		}
		if err := t.catchUp(ctx); err != nil && ctx.Err() == nil {
			t.Logger.Warn("tokens of other servers", "error", err)
		}
	}
}

// stopFollowing ends follow.
func (t *Store) stopFollowing() {
	t.shared.mu.Lock()
	defer t.shared.mu.Unlock()
	if t.shared.stop != nil {
		t.shared.stop()
	}
}

// apply applies events of the stream.
func (t *Store) apply(events []eventlog.Event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return
	}
	if t.byHash == nil { // no file was read yet
		t.byHash, t.ended = map[string]*Grant{}, map[string]*endedToken{}
	}
	for _, e := range events {
		switch e.Kind {
		case kindMade:
			g := &Grant{shared: true}
			if err := g.parse(e.Payload); err != nil {
				t.Logger.Error("a token in the log of sessions cannot be read, so it is refused", "event", e.Seq, "error", err)
				continue
			}
			g.made = g.Created // what happened before is not for the token, on any server
			t.admit(g)
		case kindRevoked:
			id := string(e.Payload)
			t.finishRecorded(func(g *Grant) bool { return g.ID == id })
		}
	}
	t.setAlarm()
}

// admit makes a token of the stream valid, unless it or the token that made it has ended. The
// caller has mu.
func (t *Store) admit(g *Grant) {
	there := g.By == ""
	for _, other := range t.byHash {
		if other.ID == g.ID {
			return
		}
		there = there || other.ID == g.By
	}
	switch {
	case t.unread[g.ID]:
		t.ended[g.ID] = &endedToken{shared: true}
		t.eraseSoon(0)
	case there && time.Now().Before(g.Expires):
		g.begin()
		t.byHash[g.Hash] = g
	}
}

// store adds a new token to the stream.
func (t *Store) store(g *Grant) error {
	text, err := json.Marshal(g)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), storeTime)
	defer cancel()
	t.shared.mu.Lock()
	defer t.shared.mu.Unlock()
	err = t.catchUpLocked(ctx) // it may be the first look at the log
	if err == nil {
		err = t.shared.log.TryCommit(ctx, func(tx *eventlog.Tx) error {
			_, err := tx.Append(eventlog.Event{Stream: Stream, Dir: eventlog.Daemon, Kind: kindMade, Payload: text})
			return err
		})
	}
	if doubt, open := errors.AsType[*eventlog.UncertainError](err); open {
		err = doubt.Wait(ctx)
	}
	if err != nil {
		return &StorageError{"the token was not made", err}
	}
	return t.catchUpLocked(ctx)
}

// eraseShared records the end of tokens of the stream.
func (t *Store) eraseShared(ids []string) error {
	ctx, cancel := context.WithTimeout(context.Background(), storeTime)
	defer cancel()
	t.shared.mu.Lock()
	defer t.shared.mu.Unlock()
	if t.shared.log == nil {
		return fmt.Errorf("tokens of the log: %w", ErrClosed)
	}
	err := t.shared.log.TryCommit(ctx, func(tx *eventlog.Tx) error {
		for _, id := range ids {
			if _, err := tx.Append(eventlog.Event{Stream: Stream, Dir: eventlog.Daemon, Kind: kindRevoked, Payload: []byte(id)}); err != nil {
				return err
			}
		}
		return nil
	})
	if doubt, open := errors.AsType[*eventlog.UncertainError](err); open {
		err = doubt.Wait(ctx)
	}
	return err
}

// findShared looks for a token that another server may have made just now. Callers that wait for
// one read share the next one, so that requests without a token do not cause a read each.
func (t *Store) findShared(value string) *Grant {
	s := &t.shared
	begun := s.reads.Load()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.reads.Load() == begun { // else a read has begun and ended meanwhile
		if s.log != nil && s.log.Outage() > 0 {
			return nil // a read would wait for Postgres
		}
		ctx, cancel := context.WithTimeout(context.Background(), findTime)
		defer cancel()
		if err := t.catchUpLocked(ctx); err != nil {
			t.logRefusal("tokens of other servers are refused, since they cannot be read", err)
			return nil
		}
	}
	return t.known(value)
}
