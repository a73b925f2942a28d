package quiesce

import (
	"context"
	"errors"
	"time"

	"github.com/jezek/xgb/xproto"

	"github.com/deskhand/deskhand/internal/x11/request"
)

// anyButton is set in the state of a pointer while a button is down (X11
// protocol, SETofKEYBUTMASK).
const anyButton = xproto.ButtonMask1 | xproto.ButtonMask2 | xproto.ButtonMask3 | xproto.ButtonMask4 | xproto.ButtonMask5

// Follow has keys wait until the window manager has dealt with the clicks and
// chords before them, and with what was done to windows. The window manager gives a
// window the focus and takes chords such as alt+Tab. Until it has done so, keys go to
// another window. Follow must be called before the first input.
func (t *Tracker) Follow(m *Manager) { t.manager = m }

// ManagerMayAct notes that the window manager may have something to deal with: a
// chord, the release of a button or modifier, or what a program did.
func (t *Tracker) ManagerMayAct() { t.pressed = max(t.pressed, 1) }

// Pressed notes that a button was pressed, which the window manager sees first.
func (t *Tracker) Pressed() { t.pressed++ }

// AwaitManager waits until the window manager has dealt with all input, and the focus
// stays where it is.
func (t *Tracker) AwaitManager(ctx context.Context) error {
	asked, err := t.AwaitPointer(ctx)
	if err == nil && !asked {
		asked, err = t.focusLost()
	}
	if err != nil || !asked {
		return err
	}
	return t.awaitFocus(ctx)
}

// focusLost reports whether no window has the focus although there is a window manager,
// which gives it to another window when the one that had it has gone.
func (t *Tracker) focusLost() (bool, error) {
	if t.manager == nil {
		return false, nil
	}
	f, err := xproto.GetInputFocus(t.display.X).Reply()
	if err != nil {
		return false, request.Wrap("ask for the focus", err)
	}
	if f.Focus > xproto.InputFocusPointerRoot {
		return false, nil
	}
	return t.manager.present()
}

// AwaitPointer waits until the window manager has dealt with all input. Until then the
// server may hold back what the pointer does. It reports false if there was nothing to
// wait for, or no window manager.
//
// The server holds back what the pointer does after a press until the window
// manager has seen that (X11 protocol, GrabButton, pointer-mode Synchronous), so
// that it may hear of each press only after it has dealt with the one before:
// hence one question for each. While anything is held back, the release of the
// first button is, so that the button looks pressed.
func (t *Tracker) AwaitPointer(ctx context.Context) (bool, error) {
	if t.manager == nil {
		return false, nil
	}
	if t.manager.acted.Swap(false) {
		t.ManagerMayAct()
	}
	if t.pressed == 0 {
		return false, nil
	}
	if there, err := t.manager.present(); err != nil || !there {
		if err == nil {
			t.pressed = 0
		}
		return false, err
	}
	deadline := t.patience()
	for ; t.pressed > 0; t.pressed-- {
		p, err := xproto.QueryPointer(t.display.X, t.display.Root).Reply()
		if err != nil {
			return false, request.Wrap("query pointer", err)
		}
		ok, err := t.askManager(ctx, deadline)
		if err != nil {
			return false, err
		}
		if !ok {
			t.pressed = 0
			return false, nil
		}
		if p.Mask&anyButton == 0 {
			break
		}
	}
	t.pressed = 0
	return true, nil
}

// patience returns until when the window manager may take to answer.
func (t *Tracker) patience() time.Time {
	if t.managerHung {
		return time.Now().Add(hungLimit)
	}
	return time.Now().Add(focusLimit)
}

// awaitFocus waits until the focus stays where it is. If the window with the focus
// goes away, no window has it until the window manager learns of that, by an event
// that comes after the question which it has answered.
func (t *Tracker) awaitFocus(ctx context.Context) error {
	deadline, last := t.patience(), xproto.Window(0)
	for round := range focusRounds {
		f, err := xproto.GetInputFocus(t.display.X).Reply()
		if err != nil {
			return request.Wrap("ask for the focus", err)
		}
		if round > 0 && f.Focus == last {
			return nil
		}
		last = f.Focus
		if ok, err := t.askManager(ctx, deadline); err != nil || !ok {
			return err
		}
	}
	return nil
}

// askManager waits until the window manager has dealt with what it knows of. It
// reports false if there is no window manager, or if it does not answer before
// deadline.
func (t *Tracker) askManager(ctx context.Context, deadline time.Time) (bool, error) {
	ok, err := t.manager.ask(ctx, deadline)
	switch {
	case ok:
		t.managerHung = false
	case errors.Is(err, errHung):
		if !t.managerHung {
			t.managerHung = true
			t.display.Log.Warn("the window manager does not say that it has dealt with a click or chord; keys may go to another window")
		}
		return false, nil
	}
	return ok, err
}
