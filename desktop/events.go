package desktop

import (
	"math"
	"strings"
	"sync"
	"time"
)

// EventType is the type of an Event.
type EventType string

// The types of event and which of Event's fields they set.
const (
	EventAction           EventType = "action"            // Action
	EventWindowOpened     EventType = "window_opened"     // Window
	EventWindowClosed     EventType = "window_closed"     // Window
	EventWindowFocused    EventType = "window_focused"    // Window; nil when none has the focus
	EventWindowRenamed    EventType = "window_renamed"    // Window; four a second of one window, and the last
	EventClipboardChanged EventType = "clipboard_changed" // Selection; a program can cause it without a change
	EventControl          EventType = "control"           // Control
	EventResized          EventType = "resized"           // Size; four a second, and the last
	EventFailed           EventType = "failed"            // Failure
	EventRestarted        EventType = "restarted"         // Failure that led to it
	EventClosed           EventType = "closed"            // the last one
	EventBrowser          EventType = "browser"           // Browser
	EventGap              EventType = "gap"               // Dropped: the subscriber was too slow
)

// Event is something that happened on a desktop.
type Event struct {
	Seq       uint64        `json:"seq"` // from 1, without holes, per Desktop
	Time      time.Time     `json:"time"`
	Type      EventType     `json:"type"`
	Desktop   string        `json:"desktop"`
	Action    *Action       `json:"action,omitempty"`
	Window    *Window       `json:"window,omitempty"`
	Selection Selection     `json:"selection,omitempty"`
	Control   *Control      `json:"control,omitempty"`
	Size      *Size         `json:"size,omitempty"`
	Failure   *Failure      `json:"failure,omitempty"`
	Browser   *BrowserEvent `json:"browser,omitempty"`
	Dropped   uint64        `json:"missed,omitempty"` // events before this one
}

// eventRing is how many events are kept for subscribers that lag or resume.
const eventRing = 1024

// maxEventError bounds the error of an action in an event, in bytes: errors name what callers and
// pages have sent.
const maxEventError = 1024

// EventLog numbers the events of a desktop and keeps the latest. Other implementations of a
// desktop, such as package robot, make one with [NewEventLog].
type EventLog struct {
	desktop string

	mu      sync.Mutex // guards the fields below
	ring    [eventRing]Event
	last    uint64        // Seq of the newest event
	wake    chan struct{} // closed at the next event; nil: no subscription waits
	run     *Event        // a person's typing that is not emitted yet; nil: none
	pause   *time.Timer   // ends run
	resizes resizes
	closed  bool
}

// NewEventLog returns the log of the desktop with that id.
func NewEventLog(desktop string) *EventLog { return &EventLog{desktop: desktop} }

// Emit adds an event. It never waits for a subscription.
func (l *EventLog) Emit(e Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return
	}
	if e.isTyping() {
		l.typed(e)
		return
	}
	if l.run != nil && l.endsRun(e) {
		l.endRun()
	}
	if e.Type == EventResized {
		l.resized(e)
		return
	}
	l.put(e)
}

func (l *EventLog) put(e Event) {
	l.last++
	e.Seq, e.Desktop = l.last, l.desktop
	if e.Time.IsZero() {
		e.Time = time.Now()
	}
	if a := e.Action; a != nil && len(a.Error) > maxEventError {
		short := *a
		short.Error = strings.ToValidUTF8(a.Error[:maxEventError], "") + "…"
		e.Action = &short
	}
	l.ring[l.last%eventRing] = e
	if l.wake != nil {
		close(l.wake)
		l.wake = nil
	}
}

// Close emits [EventClosed] and ends every subscription once it has delivered that.
func (l *EventLog) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return
	}
	l.endRun()
	l.putResized()
	l.put(Event{Type: EventClosed})
	l.closed = true
}

// next returns the event after seq, or a gap if the log has dropped that event, or a
// channel that is closed when the event is emitted. ended reports that the log is closed and
// has no event after seq.
func (l *EventLog) next(seq uint64) (e Event, wait <-chan struct{}, ended bool) {
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
		return Event{Seq: oldest - 1, Time: time.Now(), Type: EventGap, Desktop: l.desktop, Dropped: oldest - 1 - seq}, nil, false
	}
	return l.ring[(seq+1)%eventRing], nil, false
}

// Subscription delivers a desktop's events to one reader.
type Subscription struct {
	log       *EventLog
	events    chan Event
	last      chan uint64 // gets Seq of the last event to deliver
	finishing sync.Once
	stop      chan struct{}
	once      sync.Once
	done      chan struct{}
}

// Subscribe delivers the events after the one with that Seq. It delivers future events only
// if after is 0, or greater than the newest Seq. If more than 1024 events wait for the
// reader, or came after that Seq, it drops the oldest and delivers an EventGap with their
// number. After Close of the Desktop it delivers the events after that Seq and ends. Subscribe
// does not block. The caller must close the subscription.
func (d *Desktop) Subscribe(after uint64) *Subscription { return d.events.Subscribe(after) }

// Subscribe is like [Desktop.Subscribe].
func (l *EventLog) Subscribe(after uint64) *Subscription {
	if l.mu.Lock(); after == 0 || after > l.last {
		after = l.last
	}
	l.mu.Unlock()
	s := &Subscription{
		log: l, events: make(chan Event), last: make(chan uint64, 1), stop: make(chan struct{}), done: make(chan struct{}),
	}
	go s.deliver(after)
	return s
}

func (s *Subscription) deliver(seq uint64) {
	defer close(s.done)
	defer close(s.events)
	for last := uint64(math.MaxUint64); seq < last; {
		e, wait, ended := s.log.next(seq)
		switch {
		case wait == nil:
			select {
			case s.events <- e:
				seq = e.Seq
			case last = <-s.last:
			case <-s.stop:
				return
			}
		case ended:
			return
		default:
			select {
			case <-wait:
			case last = <-s.last:
			case <-s.stop:
				return
			}
		}
	}
}

// Events returns the channel of events. It is closed after the desktop's last event, after
// the last event of Finish, or by Close.
func (s *Subscription) Events() <-chan Event { return s.events }

// Recent returns the events after the one with the Seq after that the log still has, and the Seq
// of the newest event. It does not wait, does not end the run of a person's typing, and does not
// change what Events delivers.
func (s *Subscription) Recent(after uint64) (events []Event, last uint64) {
	l := s.log
	l.mu.Lock()
	defer l.mu.Unlock()
	seq := after
	if seq+eventRing < l.last {
		oldest := l.last - eventRing + 1
		events = append(events, Event{Seq: oldest - 1, Time: time.Now(), Type: EventGap, Desktop: l.desktop, Dropped: oldest - 1 - seq})
		seq = oldest - 1
	}
	for ; seq < l.last; seq++ {
		events = append(events, l.ring[(seq+1)%eventRing])
	}
	return events, l.last
}

// Finish ends the subscription after the newest event at the time of the call, which
// includes a person's typing before the call. It does not wait, and may be called more than
// once. The caller must still call Close.
func (s *Subscription) Finish() {
	s.finishing.Do(func() {
		s.log.mu.Lock()
		defer s.log.mu.Unlock()
		s.log.endRun()
		s.last <- s.log.last
	})
}

// Close ends the subscription. It may be called more than once.
func (s *Subscription) Close() {
	s.once.Do(func() { close(s.stop) })
	<-s.done
}
