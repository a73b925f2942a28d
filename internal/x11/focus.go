package x11

import (
	"context"
	"time"

	"github.com/jezek/xgb/xproto"
)

// focusLimit is how long keys wait for a window manager that hangs.
const focusLimit = 3 * time.Second

// anyButton is set in the state of a pointer while one of those is down (X11
// protocol, SETofKEYBUTMASK).
const anyButton = xproto.ButtonMask1 | xproto.ButtonMask2 | xproto.ButtonMask3 | xproto.ButtonMask4 | xproto.ButtonMask5

// Follow has keys wait until the window manager has dealt with the clicks and
// chords before them. It is the window manager that gives a clicked window the
// focus, and that takes chords such as alt+Tab; until it has done so, keys go to
// another window. It must be called before the first input.
func (in *Input) Follow(w *Windows) { in.windows = w }

// awaitManager waits until the window manager has dealt with what was pressed
// since the last call.
//
// The server holds back what the pointer does after a press until the window
// manager has seen that (X11 protocol, GrabButton, pointer-mode Synchronous), so
// that it may hear of each press only after it has dealt with the one before:
// hence one question for each. While anything is held back, the release of the
// first button is, so that the button looks pressed.
func (in *Input) awaitManager(ctx context.Context) (err error) {
	questions := in.unsettled
	if in.windows == nil || questions == 0 {
		return nil
	}
	defer func() {
		if err == nil {
			in.unsettled = 0
		}
	}()
	if can, err := in.windows.answers(); err != nil || !can {
		return err
	}
	deadline := time.Now().Add(focusLimit)
	for range questions {
		p, err := xproto.QueryPointer(in.c.x, in.c.root).Reply()
		if err != nil {
			return wrap("query pointer", err)
		}
		handled, err := in.windows.handled(ctx, time.Until(deadline))
		if err != nil {
			return err
		}
		if !handled {
			in.c.log.Warn("the window manager does not say that it has dealt with a click or chord; keys may go to another window")
			return nil
		}
		if p.Mask&anyButton == 0 {
			return nil
		}
	}
	return nil
}
