package agents

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// sentWait is how long an answer waits for the followers of its server.
const sentWait = 100 * time.Millisecond

// followers are the streams that follow a server. They have the rule that a client
// sees the events of a turn no later than the turn's answer: awaitSent holds the
// answer back until each stream has passed on the answer's event, and so all events
// before it. Clients look at a turn's events when they have its answer.
//
// The rule has an end, so that no follower can hold up other clients:
//
//   - An answer waits for sentWait at most. A stream that has not passed on the
//     event by then is behind.
//   - A stream is also behind at its beginning, and if it has had events for longer
//     than sentWait without passing them on.
//   - No answer waits for a stream that is behind. It no longer is when it has passed
//     on the newest event.
type followers struct {
	n atomic.Int32 // how many there are, to be read without mu

	mu     sync.Mutex // guards what follows, and the streams' progress
	all    map[*Stream]struct{}
	newest int64         // the event that a stream must have passed on to be behind no longer
	moved  chan struct{} // closed when a stream has passed on events or has gone; nil: no answer waits
}

// progress is how far a stream is.
type progress struct {
	behind bool      // no answer waits for it
	given  int64     // the newest event that Next has returned
	sent   int64     // the newest event that was passed on
	since  time.Time // when it last passed an event on, or got one while it had none

	lost error                   // why there is nothing more to follow here
	stop context.CancelCauseFunc // ends a Next; nil: there was none
}

// add adds a stream that begins after an event. newest is the newest event.
func (f *followers) add(s *Stream, after, newest int64) {
	f.n.Add(1)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.all == nil {
		f.all = map[*Stream]struct{}{}
	}
	f.all[s] = struct{}{}
	f.newest = max(f.newest, newest)
	s.progress = progress{behind: true, given: after, sent: after}
}

func (f *followers) remove(s *Stream) {
	f.n.Add(-1)
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.all, s)
	f.wake()
}

// endStreams ends all streams with an error.
func (f *followers) endStreams(why error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for s := range f.all {
		s.lost = why
		if s.stop != nil {
			s.stop(why)
		}
	}
}

// next returns the context for a Next of a stream. endStreams ends it.
func (f *followers) next(ctx context.Context, s *Stream) (context.Context, context.CancelCauseFunc, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if s.lost != nil {
		return nil, nil, s.lost
	}
	ctx, s.stop = context.WithCancelCause(ctx)
	return ctx, s.stop, nil
}

// markGiven records the newest event that a stream has to pass on.
func (f *followers) markGiven(s *Stream, seq int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if s.given == s.sent {
		s.since = time.Now()
	}
	s.given = seq
}

// passedOn records the newest event that a stream has passed on.
func (f *followers) passedOn(s *Stream, seq int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s.sent, s.since = max(s.sent, seq), time.Now()
	if s.sent >= f.newest {
		s.behind = false
	}
	f.wake()
}

// wake wakes the answers that wait. The caller holds f.mu.
func (f *followers) wake() {
	if f.moved != nil {
		close(f.moved)
		f.moved = nil
	}
}

// awaitSent waits until the streams that are not behind have passed on an event.
func (f *followers) awaitSent(ctx context.Context, seq int64) {
	if seq == 0 || f.n.Load() == 0 {
		return
	}
	moved := f.missing(seq, false)
	if moved == nil {
		return
	}
	t := time.NewTimer(sentWait)
	defer t.Stop()
	for moved != nil {
		select {
		case <-moved:
			moved = f.missing(seq, false)
		case <-t.C:
			f.missing(seq, true)
			return
		case <-ctx.Done():
			return
		}
	}
}

// missing returns nil if no stream has to be waited for, else a channel that is
// closed when one of them has moved. over says that sentWait is over.
func (f *followers) missing(seq int64, over bool) <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.newest = max(f.newest, seq)
	waits := false
	for s := range f.all {
		switch {
		case s.behind || s.sent >= seq:
		case over || s.given > s.sent && time.Since(s.since) > sentWait:
			s.behind = true
		default:
			waits = true
		}
	}
	if !waits {
		return nil
	}
	if f.moved == nil {
		f.moved = make(chan struct{})
	}
	return f.moved
}
