package agents

import (
	"context"
	"errors"
	"sync"

	"github.com/deskhand/deskhand/agents/eventlog"
)

// Replay says where following an ACP server begins. The zero value is what
// sandbox-agent does: the newest 1024 events of the agent's newest process.
type Replay struct {
	// After, if it is positive, is the last event that was seen.
	After int64

	// None begins with what comes now.
	None bool

	// All begins with the oldest event that there is.
	All bool
}

// ringSize is how many events sandbox-agent keeps.
const ringSize = 1024

// Stream follows an ACP server: it has all that the agent writes, and notifications
// of the host that are named _adapter/... . Its events are numbered for the server,
// not for a process. It is for one goroutine at a time, except Sent, and must be
// closed.
type Stream struct {
	cursor   *eventlog.Cursor
	s        *server
	newest   int64
	once     sync.Once
	progress // guarded by s.followers.mu
}

// Follow follows an ACP server, or returns [ErrServerNotFound] or an [ElsewhereError].
func (h *Host) Follow(ctx context.Context, id string, r Replay) (*Stream, error) {
	s, err := h.find(ctx, id)
	if err != nil {
		return nil, err
	}
	last, err := h.cfg.Log.Last(ctx, published(id))
	if err != nil {
		return nil, err
	}
	base := s.record().Base
	after := r.After
	switch {
	case r.All:
		after = 0
	case r.None:
		after = last
	case r.After > last:
		// It counts the events of something else; nothing may be missed.
		after = base
	case r.After <= 0:
		after = max(base, last-ringSize)
	}
	stream := &Stream{cursor: h.cfg.Log.Follow(published(id), after), s: s, newest: last}
	s.followers.add(stream, after, last)
	if err := s.checkHere(ctx); err != nil { // what comes from here on ends the stream
		stream.Close()
		return nil, err
	}
	return stream, nil
}

// Newest returns the newest event at the time of Follow.
func (s *Stream) Newest() int64 { return s.newest }

// Next returns the events that follow and waits for at least one. If another host with
// the same log has taken the server over, after this one has lost Postgres, the error
// is an [ElsewhereError] or [ErrServerNotFound]. A follower there goes on after Seq.
func (s *Stream) Next(ctx context.Context) ([]eventlog.Event, error) {
	wait, stop, err := s.s.followers.next(ctx, s)
	if err != nil {
		return nil, err
	}
	defer stop(nil)
	events, err := s.cursor.Next(wait)
	switch {
	case errors.Is(err, eventlog.ErrClosed):
		err = ErrClosed
	case err != nil && ctx.Err() == nil && wait.Err() != nil:
		err = context.Cause(wait)
	}
	if err == nil {
		s.s.followers.markGiven(s, events[len(events)-1].Seq)
	}
	return events, err
}

// Sent tells that the events up to a sequence were passed on to the client, or, with
// the sequence behind which the stream began, that the client is ready for events.
// [Host.Post] waits for that. It does not wait for a stream for which Sent is never
// called. Any goroutine may call Sent.
func (s *Stream) Sent(seq int64) { s.s.followers.passedOn(s, seq) }

// Seq returns the sequence of the last event that Next has returned, or behind which
// the stream began.
func (s *Stream) Seq() int64 { return s.cursor.Seq() }

// Close ends the stream.
func (s *Stream) Close() { s.once.Do(func() { s.s.followers.remove(s) }) }
