package accessibility

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/deskhand/deskhand/desktop"
)

// Bounds of waits.
const (
	DefaultWait = 10 * time.Second
	MaxWait     = 10 * time.Minute

	waitPoll  = 500 * time.Millisecond // between looks without an event
	waitPace  = 30 * time.Millisecond  // between looks after events
	waitQuery = 2 * time.Second        // for the first look; doubled when a program is too slow
)

// Condition is what Wait waits for: an element on the screen that matches, or with Gone that
// there is none. Match must not be its zero value.
type Condition struct {
	Match
	Window  desktop.WindowID // zero: all windows
	Gone    bool             // wait until no element matches, or until Window is closed
	Timeout time.Duration    // zero: 10 s; at most 10 min

	HideFieldText bool // as in Query
}

// Wait waits until an element matches, and returns the first one. With Condition.Gone it waits
// until no element matches, and returns the zero Element. It looks again when programs report a
// change, and twice a second.
//
// It returns ErrNotFound, or ErrPresent with Gone, if Condition.Timeout passes first, and the
// error of ctx if that ends. With Gone, a program that does not answer counts as having the
// element. Wait also returns the errors of Snapshot: desktop.ErrWindowNotFound, for example, if
// there is no Condition.Window and Gone is false.
func (t *Tree) Wait(ctx context.Context, c Condition) (Element, error) {
	limit := cmp.Or(c.Timeout, DefaultWait)
	if limit < 0 || limit > MaxWait {
		return Element{}, &InvalidError{"Timeout", fmt.Sprintf("must be between 1 ms and %v", MaxWait)}
	}
	if c.Role == "" && c.Name == "" && c.Text == "" && len(c.States) == 0 {
		return Element{}, &InvalidError{"Role", "or a name, text or state must be given"}
	}
	b, err := t.connect(ctx)
	if err != nil {
		return Element{}, err
	}
	waiting, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	events, stop := b.listen(waiting)
	defer stop()
	q := Query{Match: c.Match, Window: c.Window, Limit: 1, Timeout: waitQuery, HideFieldText: c.HideFieldText}
	for {
		s, err := t.Snapshot(waiting, q)
		if s.hangs() {
			q.Timeout = min(2*q.Timeout, MaxTimeout)
		}
		switch {
		case ctx.Err() != nil:
			return Element{}, ctx.Err()
		case waiting.Err() != nil:
			return Element{}, c.failed()
		case errors.Is(err, desktop.ErrWindowNotFound) && c.Gone:
			return Element{}, nil
		case err != nil:
			return Element{}, err
		case len(s.Elements) > 0 && !c.Gone:
			return s.Elements[0], nil
		case len(s.Elements) == 0 && c.Gone && !s.hangs():
			return Element{}, nil
		}
		if sleep(waiting, waitPace) != nil {
			return Element{}, cmp.Or(ctx.Err(), c.failed())
		}
		poll := time.NewTimer(waitPoll)
		select {
		case <-events:
		case <-poll.C:
		case <-waiting.Done():
		}
		poll.Stop()
	}
}

func (c Condition) failed() error {
	if c.Gone {
		return ErrPresent
	}
	return ErrNotFound
}

// hangs reports whether a program did not answer, so that it is not known which elements it has.
func (s Snapshot) hangs() bool {
	for _, p := range s.Skipped {
		if p.Reason == ReasonHangs || p.Reason == ReasonBudget && len(s.Elements) == 0 {
			return true
		}
	}
	return false
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// listeners are the waits for events of one connection. Programs send events only while there
// are any.
type listeners struct {
	mu   sync.Mutex // guards wake
	wake map[chan struct{}]bool

	registering sync.Mutex // held during requests to the registry
}

// notify wakes the waits. It does not block.
func (l *listeners) notify() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.wake {
		select {
		case c <- struct{}{}:
		default:
		}
	}
}

// The events that may change which elements match, as the registry and the bus name them.
var (
	listened = []string{"object:state-changed", "object:children-changed", "object:property-change", "window"}
	matches  = []string{"type='signal',interface='org.a11y.atspi.Event.Object'", "type='signal',interface='org.a11y.atspi.Event.Window'"}
)

// listen returns a channel that receives after events, until stop is called.
func (b *bus) listen(ctx context.Context) (events <-chan struct{}, stop func()) {
	c := make(chan struct{}, 1)
	l := &b.listeners
	l.registering.Lock()
	defer l.registering.Unlock()
	l.mu.Lock()
	first := len(l.wake) == 0
	if first {
		l.wake = map[chan struct{}]bool{}
	}
	l.wake[c] = true
	l.mu.Unlock()
	if first {
		b.transport.signals.Store(true)
		b.register(ctx, "RegisterEvent", "AddMatch")
	}
	return c, func() {
		l.registering.Lock()
		defer l.registering.Unlock()
		l.mu.Lock()
		delete(l.wake, c)
		last := len(l.wake) == 0
		l.mu.Unlock()
		if last {
			b.register(context.Background(), "DeregisterEvent", "RemoveMatch")
			b.transport.signals.Store(false)
		}
	}
}

// register asks the registry and the bus to send events, or to stop sending them. Without events,
// waits still look regularly, so it waits for DefaultTimeout only: other waits wait for it.
func (b *bus) register(ctx context.Context, event, match string) {
	ctx, cancel := context.WithTimeout(ctx, DefaultTimeout)
	defer cancel()
	var requests []*request
	for _, name := range listened {
		requests = append(requests, &request{
			to: address{"org.a11y.atspi.Registry", "/org/a11y/atspi/registry"}, method: "org.a11y.atspi.Registry." + event, args: []any{name},
		})
	}
	for _, rule := range matches {
		requests = append(requests, &request{to: busDaemon, method: "org.freedesktop.DBus." + match, args: []any{rule}})
	}
	_ = b.all(ctx, requests)
}
