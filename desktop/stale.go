package desktop

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/deskhand/deskhand/internal/picture"
	"github.com/deskhand/deskhand/internal/x11"
)

// ErrStale is wrapped by every *StaleError.
var ErrStale = errors.New("the screen has changed since the observation")

// StaleError is returned by [Turn.Same], and by package batch, for a point at which the screen
// is not as in an observation. Inputs such as Desktop.Click map the coordinates of an
// observation, but do not compare the screen. It wraps ErrStale.
type StaleError struct {
	Observation string
	At          Point  // in the observation's picture
	Reason      string // "another window is there"
	Changed     []Rect // on the screen, since the observation; whole rows if it is not known
}

func (e *StaleError) Error() string {
	return fmt.Sprintf("stale observation: at %d,%d %s; use the new picture", e.At.X, e.At.Y, e.Reason)
}

// Unwrap makes errors.Is(err, ErrStale) true.
func (e *StaleError) Unwrap() error { return ErrStale }

const (
	// around is how far from a point the screen must be as in an observation.
	around = 24
	// blinkTime is how long that may take: a caret that blinks is as in the observation
	// once in that time.
	blinkTime = 1200 * time.Millisecond
)

// observe keeps a screen for later comparisons.
func (s *session) observe(screen *picture.Image) error {
	if s.observed.has(screen.Seq) {
		return nil
	}
	stack, err := s.windows.Stack()
	if err != nil {
		return err
	}
	s.observed.add(screen, stack)
	return nil
}

// Same returns nil if the screen is as in an observation around points in its picture: within
// 24 pixels, which are rounded up to squares of 16, and in the window that is there. A caret
// that blinks has 1.2 s to look as in the observation. If windowOnly is set, only the windows
// are compared.
//
// It returns a *StaleError if the screen differs there, or if the observation is too old to be
// compared. It returns an *InvalidError for an observation of another screen.
func (t *Turn) Same(ctx context.Context, observation string, points []Point, windowOnly bool) error {
	return callOnly(ctx, &t.in.lifecycle, "compare with the observation", queryLimit, func(ctx context.Context, s *session) error {
		c := &comparison{s: s, id: observation, points: points, windowOnly: windowOnly}
		for _, p := range points {
			if _, err := mapped(p, observation, s.epoch); err != nil {
				return err
			}
		}
		c.m, _ = parseObservationID(observation)
		return c.run(ctx)
	})
}

// callOnly is call for a function that returns only an error.
func callOnly(ctx context.Context, l *lifecycle, op string, limit time.Duration, f func(context.Context, *session) error) error {
	_, err := call(ctx, l, op, limit, func(ctx context.Context, s *session) (struct{}, error) { return struct{}{}, f(ctx, s) })
	return err
}

// comparison compares the screen with an observation.
type comparison struct {
	s          *session
	id         string
	m          observationID
	points     []Point // that were not as in the observation yet
	windowOnly bool
}

func (c *comparison) run(ctx context.Context) error {
	deadline := time.NewTimer(blinkTime)
	defer deadline.Stop()
	for {
		damaged := c.s.capture.Damaged()
		stale, final, err := c.look(ctx)
		switch {
		case err != nil:
			return err
		case stale == nil:
			return nil
		case final:
			return stale
		}
		select {
		case <-damaged:
		case <-deadline.C:
			return stale
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// look compares once. It keeps the points that are not as in the observation, and returns the
// first of them. final means that this will not change.
func (c *comparison) look(ctx context.Context) (stale *StaleError, final bool, err error) {
	frame, err := c.s.frame(ctx)
	if err != nil {
		return nil, false, err
	}
	defer frame.Release()
	stack, err := c.s.windows.Stack()
	if err != nil {
		return nil, false, err
	}
	was, known := c.s.observed.stackOf(c.m)
	screen := Rect{0, 0, frame.Width, frame.Height}
	var differ []Point
	for _, p := range c.points {
		at := c.m.toScreen(p)
		there := x11.Point{X: at.X, Y: at.Y}
		near := Rect{at.X - around, at.Y - around, 2*around + 1, 2*around + 1}.within(screen)
		changed, _ := c.s.observed.changed(&frame.Image, c.m, near)
		reason := ""
		switch {
		case known && x11.At(was, there) != x11.At(stack, there):
			reason = "another window is there"
		case known && (c.windowOnly || len(changed) == 0), !c.windowOnly && len(changed) == 0:
			continue
		case !known:
			reason = "the screen may have changed, and the observation is too old to compare"
		}
		differ = append(differ, p)
		if stale == nil || reason != "" {
			stale, final = &StaleError{Observation: c.id, At: p, Reason: cmp.Or(reason, "the screen has changed")}, reason != ""
			stale.Changed, _ = c.s.observed.changed(&frame.Image, c.m, c.m.region.within(screen))
		}
		if final {
			break
		}
	}
	c.points = differ
	return stale, final, nil
}

// stackOf returns the windows of an observation, unless it is not kept.
func (o *observedScreens) stackOf(m observationID) (stack []x11.StackedWindow, known bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if k := o.find(m); k != nil {
		return k.stack, true
	}
	return nil, false
}
