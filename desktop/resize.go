package desktop

import (
	"context"
	"fmt"
	"time"
)

// Resize changes the size of the screen, up to Config.MaxSize. The window manager keeps
// windows on it. It returns an [*InvalidError] for any other size, and [ErrUnsupported] after
// [Attach].
func (d *Desktop) Resize(ctx context.Context, size Size) error {
	if d.attached != "" {
		return fmt.Errorf("resize: %w", ErrUnsupported) // the display belongs to a person at a monitor
	}
	if err := checkSize("Width", size, d.cfg.MaxSize); err != nil {
		return err
	}
	return d.act(ctx, "resize", windowLimit, &Action{Name: ActionResize, Size: &size}, func(_ context.Context, s *session) error {
		if err := s.conn.SetSize(size.Width, size.Height); err != nil {
			return err
		}
		s.encoder.Trim() // its caches fit the old size
		return nil
	})
}

// resizeInterval is the shortest time between two events of the type EventResized. Programs
// can change the size of the screen as often as they like.
const resizeInterval = 250 * time.Millisecond

// resizes limits events of the type EventResized.
type resizes struct {
	latest time.Time   // when one was emitted
	next   *Event      // the one to emit next; nil: none
	timer  *time.Timer // emits next
}

// resized emits an event of the type EventResized. If there was another one within
// resizeInterval, only the last event of that time is emitted, at its end. The caller has mu.
func (l *EventLog) resized(e Event) {
	r := &l.resizes
	if e.Time.IsZero() {
		e.Time = time.Now()
	}
	left := resizeInterval - time.Since(r.latest)
	waiting := r.next != nil
	r.next = &e
	switch {
	case waiting:
	case left <= 0:
		l.putResized()
	default:
		r.timer = time.AfterFunc(left, func() {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.putResized()
		})
	}
}

// putResized emits the event that waits, if there is one. The caller has mu.
func (l *EventLog) putResized() {
	r := &l.resizes
	if r.timer != nil {
		r.timer.Stop()
	}
	if r.next != nil && !l.closed {
		r.latest = time.Now()
		l.put(*r.next)
	}
	r.next = nil
}
