package agents

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// sentWait is how long the answer of a Post waits, in all, for those who follow
// the server. One who has had events for longer and did not pass them on has
// stalled, and is waited for again when he has caught up.
const sentWait = 100 * time.Millisecond

// followers are those who follow a server.
type followers struct {
	n atomic.Int32 // of all; a server that nobody follows costs a Post this one look

	mu     sync.Mutex // guards what follows, and the streams' progress
	all    map[*Stream]struct{}
	newest int64         // that a stream has to have sent to have caught up
	moved  chan struct{} // closed when one has sent something, or has gone; nil: nobody waits
}

// progress is how far a stream is.
type progress struct {
	behind bool      // nobody waits for it: it has to catch up first, or never says what it has sent
	given  int64     // the newest event that Next has returned
	sent   int64     // the newest one that was passed on
	since  time.Time // when it last passed something on, or got something while it had nothing

	lost error                   // why there is nothing more to follow here
	stop context.CancelCauseFunc // ends a Next; nil: there was none
}

// add makes a stream one of the followers. newest is the newest event that
// there is; the stream begins behind another.
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

// lose ends all streams, with an error.
func (f *followers) lose(why error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for s := range f.all {
		s.lost = why
		if s.stop != nil {
			s.stop(why)
		}
	}
}

// next returns the context for a Next of a stream, which ends with that of lose.
func (f *followers) next(ctx context.Context, s *Stream) (context.Context, context.CancelCauseFunc, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if s.lost != nil {
		return nil, nil, s.lost
	}
	ctx, s.stop = context.WithCancelCause(ctx)
	return ctx, s.stop, nil
}

// gave notes what a stream has to pass on.
func (f *followers) gave(s *Stream, seq int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if s.given == s.sent {
		s.since = time.Now()
	}
	s.given = seq
}

func (f *followers) passedOn(s *Stream, seq int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s.sent, s.since = max(s.sent, seq), time.Now()
	if s.sent >= f.newest {
		s.behind = false
	}
	f.wake()
}

// wake ends the wait of all who wait. The caller has f.mu.
func (f *followers) wake() {
	if f.moved != nil {
		close(f.moved)
		f.moved = nil
	}
}

// wait waits until all followers that keep up have passed on the event of that
// sequence, but no longer than sentWait.
func (f *followers) wait(ctx context.Context, seq int64) {
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

// missing returns what tells when to look again, or nil when nobody has to be
// waited for. Those who have stalled do not count, nor does anybody when the
// time is over: they are behind from then on.
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
