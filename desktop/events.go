package desktop

import (
	"sync"
	"time"
)

// eventRing is how many events are kept for subscribers that lag or resume.
const eventRing = 1024

// eventLog numbers events and keeps the latest. Emitting never waits for a
// subscriber.
type eventLog struct {
	desktop string

	mu     sync.Mutex // guards what follows
	ring   [eventRing]Event
	last   uint64        // Seq of the newest event
	wake   chan struct{} // closed at the next event; nil: nobody waits
	closed bool
}

func newEventLog(desktop string) *eventLog {
	return &eventLog{desktop: desktop}
}

func (l *eventLog) emit(e Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return
	}
	l.put(e)
}

func (l *eventLog) put(e Event) {
	l.last++
	e.Seq, e.Desktop = l.last, l.desktop
	if e.Time.IsZero() {
		e.Time = time.Now()
	}
	l.ring[l.last%eventRing] = e
	if l.wake != nil {
		close(l.wake)
		l.wake = nil
	}
}

// close emits the last event and ends every subscription once it has read it.
func (l *eventLog) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return
	}
	l.put(Event{Type: EventClosed})
	l.closed = true
}

// next returns the event after seq, a gap when that one is no longer kept, or a
// channel to wait on. ended says that there will be none.
func (l *eventLog) next(seq uint64) (e Event, wait <-chan struct{}, ended bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case seq >= l.last:
		if l.wake == nil {
			l.wake = make(chan struct{})
		}
		return Event{}, l.wake, l.closed
	case seq+eventRing < l.last:
		oldest := l.last - eventRing + 1
		return Event{Seq: oldest - 1, Time: time.Now(), Type: EventGap, Desktop: l.desktop, Missed: oldest - 1 - seq}, nil, false
	}
	return l.ring[(seq+1)%eventRing], nil, false
}

// Subscription delivers a desktop's events to one reader.
type Subscription struct {
	events chan Event
	stop   chan struct{}
	once   sync.Once
	done   chan struct{}
}

// Subscribe begins to deliver events: those after the one whose Seq is given,
// or, for 0, those from now on. The reader may be as slow as it likes; when
// more than 1024 events wait for it, an EventGap tells how many it missed.
func (d *Desktop) Subscribe(after uint64) *Subscription { return d.events.subscribe(after) }

func (l *eventLog) subscribe(after uint64) *Subscription {
	if l.mu.Lock(); after == 0 || after > l.last {
		after = l.last
	}
	l.mu.Unlock()
	s := &Subscription{events: make(chan Event), stop: make(chan struct{}), done: make(chan struct{})}
	go s.deliver(l, after)
	return s
}

func (s *Subscription) deliver(l *eventLog, seq uint64) {
	defer close(s.done)
	defer close(s.events)
	for {
		e, wait, ended := l.next(seq)
		switch {
		case wait == nil:
			select {
			case s.events <- e:
				seq = e.Seq
			case <-s.stop:
				return
			}
		case ended:
			return
		default:
			select {
			case <-wait:
			case <-s.stop:
				return
			}
		}
	}
}

// Events is the channel to read from. It is closed after the desktop's last
// event, or by Close.
func (s *Subscription) Events() <-chan Event { return s.events }

// Close ends the subscription. It may be called more than once.
func (s *Subscription) Close() {
	s.once.Do(func() { close(s.stop) })
	<-s.done
}
