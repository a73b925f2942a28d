package x11

import (
	"context"
	"time"

	"github.com/jezek/xgb/xproto"
)

// Bounds of waiting for a window manager.
const (
	// focusLimit is how long keys wait for one that does not answer.
	focusLimit = 3 * time.Second
	// hungLimit is how long they do when it did not answer the last time either.
	hungLimit = 100 * time.Millisecond
	// askAgain is after how long it is asked once more: it may have been
	// replaced by one that never got the question.
	askAgain = 500 * time.Millisecond
	// focusRounds is how often it is asked whether the focus still moves.
	focusRounds = 5
)

// anyButton is set in the state of a pointer while one of those is down (X11
// protocol, SETofKEYBUTMASK).
const anyButton = xproto.ButtonMask1 | xproto.ButtonMask2 | xproto.ButtonMask3 | xproto.ButtonMask4 | xproto.ButtonMask5

// Follow has keys wait until the window manager has dealt with the clicks and
// chords before them, and with what was done to windows. It is the window
// manager that gives a window the focus, and that takes chords such as alt+Tab;
// until it has done so, keys go to another window. It must be called before the
// first input.
func (in *Input) Follow(w *Windows) { in.windows = w }

// unsettle notes that the window manager may have something to deal with.
func (in *Input) unsettle() { in.unsettled = max(in.unsettled, 1) }

// awaitManager waits until the window manager has dealt with what was done since
// the last call, and the focus is where it belongs.
func (in *Input) awaitManager(ctx context.Context) error {
	if asked, err := in.question(ctx); err != nil || !asked {
		return err
	}
	return in.awaitFocus(ctx)
}

// question waits until the window manager has dealt with what was done. It says
// no when there is nothing to wait for, or nobody.
//
// The server holds back what the pointer does after a press until the window
// manager has seen that (X11 protocol, GrabButton, pointer-mode Synchronous), so
// that it may hear of each press only after it has dealt with the one before:
// hence one question for each. While anything is held back, the release of the
// first button is, so that the button looks pressed.
func (in *Input) question(ctx context.Context) (bool, error) {
	if in.windows == nil {
		return false, nil
	}
	if in.windows.unsettled.Swap(false) {
		in.unsettle()
	}
	if in.unsettled == 0 {
		return false, nil
	}
	if can, err := in.windows.answers(); err != nil {
		return false, err
	} else if !can {
		in.unsettled = 0
		return false, nil
	}
	deadline := in.patience()
	for ; in.unsettled > 0; in.unsettled-- {
		p, err := xproto.QueryPointer(in.c.x, in.c.root).Reply()
		if err != nil {
			return false, wrap("query pointer", err)
		}
		ok, err := in.askManager(ctx, deadline)
		if err != nil {
			return false, err
		}
		if !ok {
			in.unsettled = 0
			return false, nil
		}
		if p.Mask&anyButton == 0 {
			break
		}
	}
	in.unsettled = 0
	return true, nil
}

// patience is until when the window manager may take to answer.
func (in *Input) patience() time.Time {
	if in.managerHung {
		return time.Now().Add(hungLimit)
	}
	return time.Now().Add(focusLimit)
}

// awaitFocus waits until the focus stays where it is. A window that goes away
// leaves it to nobody; of that the window manager learns by an event that comes
// after the question which it has answered.
func (in *Input) awaitFocus(ctx context.Context) error {
	deadline, last := in.patience(), xproto.Window(0)
	for round := range focusRounds {
		f, err := xproto.GetInputFocus(in.c.x).Reply()
		if err != nil {
			return wrap("ask for the focus", err)
		}
		if round > 0 && f.Focus == last {
			return nil
		}
		last = f.Focus
		if ok, err := in.askManager(ctx, deadline); err != nil || !ok {
			return err
		}
	}
	return nil
}

// askManager waits until the window manager has dealt with what it knows of. It
// says no when there is none, or none that answers before deadline.
func (in *Input) askManager(ctx context.Context, deadline time.Time) (bool, error) {
	for {
		left := time.Until(deadline)
		if left <= 0 {
			break
		}
		ok, err := in.windows.handled(ctx, min(left, askAgain))
		if err != nil || ok {
			in.managerHung = in.managerHung && err != nil
			return ok, err
		}
		if can, err := in.windows.answers(); err != nil || !can {
			return false, err
		}
	}
	if !in.managerHung {
		in.managerHung = true
		in.c.log.Warn("the window manager does not say that it has dealt with a click or chord; keys may go to another window")
	}
	return false, nil
}
