package desktop

import (
	"context"
	"image"
	"time"

	"github.com/deskhand/deskhand/internal/picture"
	"github.com/deskhand/deskhand/internal/x11"
)

// Settled describes the end of a wait for the screen.
type Settled struct {
	// Quiet reports whether the screen came to rest. It is false if the time ran out.
	Quiet bool
	// Elapsed is how long the wait took.
	Elapsed time.Duration
	// Animating are small areas that kept changing, such as a caret, a spinner or a clock.
	Animating []Rect

	working bool // programs were at work, and drew nothing
}

// Animating returns the parts of the picture that show Settled.Animating.
func (s *Screenshot) Animating() (parts []Rect) {
	shown := s.Region.rectangle()
	for _, area := range s.Settled.Animating {
		if in := area.rectangle().Intersect(shown); !in.Empty() {
			parts = append(parts, s.RectFromScreen(rectOf(in)))
		}
	}
	return parts
}

func (r Rect) rectangle() image.Rectangle { return image.Rect(r.X, r.Y, r.X+r.Width, r.Y+r.Height) }

func rectOf(r image.Rectangle) Rect { return Rect{r.Min.X, r.Min.Y, r.Dx(), r.Dy()} }

// Settle waits until nothing that matters has changed on the screen for quiet, at most for
// timeout. At the timeout it returns a Settled with Quiet false, and no error. It returns
// earlier if all programs are idle, and later while they are busy:
//
//   - If all programs sleep, and none will be woken by a timer soon, a quarter of quiet
//     suffices, but at least 50 ms.
//   - If a program has set a timer that ends within 1.6 times quiet, Settle waits for it.
//   - While programs use more than a quarter of a processor, Settle waits until 2 s after the
//     last change.
//
// Changes that repeat in a small area do not matter: see Settled.Animating. An area that
// grows, such as a progress bar, does.
//
// Zero does not stand for a default: a zero timeout looks once. Settle returns an
// *InvalidError if quiet is negative or more than a minute, or timeout negative or more than
// five.
func (d *Desktop) Settle(ctx context.Context, quiet, timeout time.Duration) (Settled, error) {
	if err := checkSettle(quiet, timeout); err != nil {
		return Settled{}, err
	}
	return call(ctx, &d.lifecycle, "settle", timeout+queryLimit, func(ctx context.Context, s *session) (Settled, error) {
		return d.settle(ctx, s, quiet, timeout)
	})
}

// settle waits for the screen of a session.
func (l *lifecycle) settle(ctx context.Context, s *session, quiet, timeout time.Duration) (Settled, error) {
	began := time.Now()
	settled, err := s.settle(ctx, quiet, timeout)
	l.observe(ctx, Observed{Operation: OperationSettle, Began: began, Err: err})
	return settled, err
}

func checkSettle(quiet, timeout time.Duration) error {
	switch {
	case quiet < 0 || timeout < 0:
		return &InvalidError{"Settle", "times must not be negative"}
	case quiet > time.Minute || timeout > 5*time.Minute:
		return &InvalidError{"Settle", "must be at most 1 minute, and its timeout at most 5"}
	}
	return nil
}

const (
	// settlePace is the shortest time between two frames of a screen that changes.
	settlePace = 5 * time.Millisecond
	// settleCheck is the longest time between two checks of the programs.
	settleCheck = 10 * time.Millisecond
	// settleFind is the interval between searches for new programs.
	settleFind = 100 * time.Millisecond
	// leastQuiet is the least time without changes, unless the caller wants less.
	leastQuiet = 50 * time.Millisecond
	// calmTime is how long programs must not have been busy.
	calmTime = 40 * time.Millisecond
	// busyLimit is how long Settle waits for busy programs after the last change.
	busyLimit = 2 * time.Second
	// movingTime is how long ago the last change of an animation may be while it lasts.
	movingTime = 250 * time.Millisecond
)

// settling is a wait for the screen.
type settling struct {
	quiet    time.Duration
	motion   *picture.Motion
	programs *x11.Activity
	began    time.Time // when the first frame was there
	found    time.Time // when new programs were last looked for
	busy     time.Time // when programs were last busy
}

func (s *session) settle(ctx context.Context, quiet, timeout time.Duration) (Settled, error) {
	start := time.Now()
	deadline := time.NewTimer(timeout)
	defer deadline.Stop()
	if err := s.look(ctx); err != nil { // it may take long
		return Settled{}, err
	}
	w := settling{quiet: quiet, began: time.Now(), programs: s.conn.Activity()}
	defer w.programs.Close()
	var stop func()
	w.motion, stop = s.capture.Watch()
	defer stop()
	result := func(quiet bool) (Settled, error) {
		now := time.Now()
		r := Settled{Quiet: quiet, Elapsed: now.Sub(start), working: now.Sub(w.lastChange()) >= movingTime && w.atWork(now)}
		for _, a := range w.motion.Animating(w.began) {
			r.Animating = append(r.Animating, rectOf(a))
		}
		return r, nil
	}
	for {
		if w.settled(time.Now()) {
			// Changes may not have been looked at.
			if err := s.look(ctx); err != nil {
				return Settled{}, err
			}
			if w.settled(time.Now()) {
				return result(true)
			}
		}
		select {
		case <-s.capture.Damaged():
			select {
			case <-time.After(settlePace):
			case <-ctx.Done():
			}
			if err := s.look(ctx); err != nil {
				return Settled{}, err
			}
		case <-time.After(w.next()):
		case <-deadline.C:
			return result(false)
		case <-ctx.Done():
			return Settled{}, ctx.Err()
		}
	}
}

// look takes a frame for the Motion.
func (s *session) look(ctx context.Context) error {
	frame, err := s.frame(ctx)
	if err == nil {
		frame.Release()
	}
	return err
}

// settled reports whether the wait is over.
func (w *settling) settled(now time.Time) bool {
	last := w.lastChange()
	still := now.Sub(last)
	if now.Sub(w.found) >= settleFind {
		w.find(now)
	}
	if w.programs.Busy(now) {
		w.busy = now
	}
	soon := last.Add(w.quiet * 8 / 5)
	pending, short, known := w.programs.Timer(now, soon)
	switch {
	case still < w.least():
		return false
	case w.motion.Moving(now.Add(-movingTime)):
		return still >= w.quiet
	case still >= max(w.quiet, busyLimit):
		return true
	case w.atWork(now):
		return false
	case pending:
		return now.After(soon)
	}
	return known && !short || still >= w.quiet
}

// least is the least time without changes.
func (w *settling) least() time.Duration { return max(w.quiet/4, min(w.quiet, leastQuiet)) }

// next returns how long to wait before the next check: until the least time is over, if that is soon.
func (w *settling) next() time.Duration {
	if left := w.least() - time.Since(w.lastChange()); left > 0 {
		return min(left, settleCheck)
	}
	return settleCheck
}

// lastChange returns when the screen changed last, or when the wait began.
func (w *settling) lastChange() time.Time {
	if last := w.motion.Last(); last.After(w.began) {
		return last
	}
	return w.began
}

// atWork reports whether programs are busy, or run.
func (w *settling) atWork(now time.Time) bool {
	return now.Sub(w.busy) < calmTime || w.awake(now)
}

// find looks for new programs.
func (w *settling) find(now time.Time) {
	w.found = now
	_ = w.programs.Find() // the next frame has the error of a lost connection
}

// awake reports whether a program runs, also one that has just started.
func (w *settling) awake(now time.Time) bool {
	if w.programs.Awake() {
		return true
	}
	w.find(now)
	return w.programs.Awake()
}
