package agents

import (
	"context"
	"errors"
	"sync"

	"github.com/deskhand/deskhand/agents/eventlog"
)

// Replay is the position at which [Host.Follow] begins. The zero value is the beginning
// that sandbox-agent has: the newest 1024 events of the agent's newest process.
type Replay struct {
	// After, if positive, is the last event that the client has seen.
	After int64

	// None skips all present events.
	None bool

	// All begins with the oldest event.
	All bool
}

// ringSize is the number of events that sandbox-agent keeps.
const ringSize = 1024

// Stream follows an ACP server: it has all messages of the agent, and notifications of the
// host with names that begin with _adapter/. Its events are numbered by server, not by
// process. It is for one goroutine at a time, except Sent, and must be closed.
type Stream struct {
	cursor  *eventlog.Cursor
	server  *server
	newest  int64
	ended   context.Context //nolint:containedctx // of no call: done when the server is lost
	end     context.CancelCauseFunc
	release func() // Close, once

	sent   int64 // the newest event that was passed on; guarded by server.followers.mu
	behind bool  // no answer waits for the stream; guarded by server.followers.mu
}

// Follow returns a stream of the events of an ACP server. It does not wait for events and
// does not start the agent. The caller must close the stream. Follow returns
// [ErrServerNotFound] if there is no such server, and an [ElsewhereError] if another host
// runs it.
func (h *Host) Follow(ctx context.Context, id string, r Replay) (*Stream, error) {
	s, err := h.find(ctx, id)
	if err != nil {
		return nil, err
	}
	last, err := h.cfg.Log.Last(ctx, serverStream(id))
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
	case r.After > last: // the number is of another log, so the client gets all events
		after = base
	case r.After <= 0:
		after = max(base, last-ringSize)
	}
	stream := &Stream{cursor: h.cfg.Log.Follow(serverStream(id), after), server: s, newest: last, sent: after, behind: true}
	stream.ended, stream.end = context.WithCancelCause(context.Background())
	stream.release = sync.OnceFunc(func() {
		s.followers.remove(stream)
		stream.end(nil)
	})
	s.followers.add(stream, last)
	if err := s.checkHere(ctx); err != nil { // a later loss of the server ends the stream
		stream.Close()
		return nil, err
	}
	return stream, nil
}

// Newest returns the newest event at the time of Follow.
func (s *Stream) Newest() int64 { return s.newest }

// Next waits for at least one event and returns the next ones. It returns the error of ctx if
// that ends, [ErrClosed] if the log is closed, and [context.Canceled] after Close. The end of the
// host alone does not end the stream. If another host with the same log has
// taken over the server, the error is an [ElsewhereError] or [ErrServerNotFound]. A stream of
// that host can continue after Seq.
func (s *Stream) Next(ctx context.Context) ([]eventlog.Event, error) {
	if err := context.Cause(s.ended); err != nil {
		return nil, err
	}
	wait, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.ended, cancel)()
	events, err := s.cursor.Next(wait)
	switch {
	case errors.Is(err, eventlog.ErrClosed):
		err = ErrClosed
	case err != nil && ctx.Err() == nil && s.ended.Err() != nil:
		err = context.Cause(s.ended)
	}
	return events, err
}

// Sent reports that the events up to a sequence were passed on to the client or, with the
// sequence after which the stream began, that the client is ready for events. [Host.Post]
// waits for that, but not for a stream for which Sent is never called. Any goroutine may
// call Sent.
func (s *Stream) Sent(seq int64) { s.server.followers.markSent(s, seq) }

// Seq returns the sequence of the last event that Next has returned, or after which the
// stream began.
func (s *Stream) Seq() int64 { return s.cursor.Seq() }

// Close ends the stream. A Next that waits returns [context.Canceled].
func (s *Stream) Close() { s.release() }
