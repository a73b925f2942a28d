package agents

import (
	"context"
	"sync"
	"time"
)

// sentWait is how long an answer waits for the streams of its server.
const sentWait = 100 * time.Millisecond

// followers holds the streams that follow a server, and the rule that a client sees the
// events of a turn no later than the turn's answer: awaitSent delays the answer until each
// stream has passed on the answer's event, and so all events before it. Clients look at a
// turn's events when they have its answer.
//
// No stream delays other clients for long: an answer waits for sentWait at most, and only
// for streams that are not behind. A stream is behind from its beginning, and after an
// answer has waited for it for sentWait, until it has passed on the newest event.
type followers struct {
	mu     sync.Mutex // guards the fields below, and sent and behind of the streams
	all    map[*Stream]struct{}
	newest int64         // the event that a stream must have passed on to be no longer behind
	moved  chan struct{} // closed when a stream has passed on events or has ended; nil: no answer waits
}

// add adds a stream. newest is the newest event.
func (f *followers) add(s *Stream, newest int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.all == nil {
		f.all = map[*Stream]struct{}{}
	}
	f.all[s] = struct{}{}
	f.newest = max(f.newest, newest)
}

func (f *followers) remove(s *Stream) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.all, s)
	f.wake()
}

func (f *followers) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.all)
}

func (f *followers) endStreams(why error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for s := range f.all {
		s.end(why)
	}
}

// markSent records the newest event that a stream has passed on.
func (f *followers) markSent(s *Stream, seq int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s.sent = max(s.sent, seq)
	s.behind = s.behind && s.sent < f.newest
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
	if seq == 0 {
		return
	}
	late := time.After(sentWait)
	for moved := f.missing(seq, false); moved != nil; {
		select {
		case <-moved:
			moved = f.missing(seq, false)
		case <-late:
			moved = f.missing(seq, true)
		case <-ctx.Done():
			return
		}
	}
}

// missing returns nil if no stream has to be waited for, else a channel that is closed when
// a stream has moved. If late is true, streams that have not passed on the event are behind
// from now on.
func (f *followers) missing(seq int64, late bool) <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.newest = max(f.newest, seq)
	waits := false
	for s := range f.all {
		s.behind = s.behind || late && s.sent < seq
		waits = waits || !s.behind && s.sent < seq
	}
	if !waits {
		return nil
	}
	if f.moved == nil {
		f.moved = make(chan struct{})
	}
	return f.moved
}
