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

// Follow makes keys wait until the window manager has handled earlier clicks, chords and
// requests about windows, which may move the focus. It must be called before the first
// input.
func (t *Tracker) Follow(m *Manager) { t.manager = m }

// ManagerMayAct records that the window manager may have something to handle: a chord, the
// release of a button or modifier, or a request of a program.
func (t *Tracker) ManagerMayAct() { t.pressed = max(t.pressed, 1) }

// Pressed records that a button was pressed, which the window manager gets first.
func (t *Tracker) Pressed() { t.pressed++ }

// AwaitManager waits until the window manager has handled all input and the focus has stopped
// moving.
func (t *Tracker) AwaitManager(ctx context.Context) error {
	asked, err := t.AwaitPointer(ctx)
	if err == nil && !asked {
		asked, err = t.focusLost()
	}
	if err != nil || !asked {
		return err
	}
	_, err = t.awaitFocus(ctx)
	return err
}

// focusLost reports whether no program has the focus although there is a window manager. When
// the window with the focus is destroyed, the window manager gives the focus to another window,
// and may take it itself in between: openbox does.
func (t *Tracker) focusLost() (bool, error) {
	if t.manager == nil {
		return false, nil
	}
	focus := xproto.GetInputFocus(t.display.X)
	check := t.manager.property(t.display.Root, t.manager.names.check, 1)
	f, err := focus.Reply()
	if err != nil {
		return false, request.Wrap("ask for the focus", err)
	}
	c, err := check.Reply()
	if err != nil {
		return false, request.Wrap("ask for the window manager", err)
	}
	if f.Focus > xproto.InputFocusPointerRoot && f.Focus != request.Window(t.display.X, c) {
		return false, nil
	}
	return t.manager.present()
}

// AwaitPointer waits until the window manager has handled all input. It returns false if
// there was nothing to wait for, or no window manager.
//
// After a press, the server holds the pointer's events back until the window manager has
// handled the press (X11 protocol, GrabButton, pointer-mode Synchronous). So the window
// manager may get each press only after it has handled the previous one, and AwaitPointer
// probes it once for each press. The release of the first button is held back, too, so the
// button looks pressed meanwhile.
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

// patience returns the deadline for answers of the window manager.
func (t *Tracker) patience() time.Time {
	if t.managerHung {
		return time.Now().Add(hungLimit)
	}
	return time.Now().Add(focusLimit)
}

// awaitFocus waits until the focus has stopped moving. When the window with the focus is
// destroyed, no window has the focus until the window manager handles the event. The event
// may reach it after a probe that it has answered.
func (t *Tracker) awaitFocus(ctx context.Context) (now scene, err error) {
	deadline := t.patience()
	for round := range focusRounds {
		before := now
		if now, err = t.look(); err != nil || round > 0 && now.focus == before.focus {
			return now, err
		}
		if ok, err := t.askManager(ctx, deadline); err != nil || !ok {
			return now, err
		}
	}
	return now, nil
}

// askManager waits until the window manager has handled its events. It returns false if
// there is no window manager, or if it does not answer before deadline.
func (t *Tracker) askManager(ctx context.Context, deadline time.Time) (bool, error) {
	ok, err := t.manager.ask(ctx, deadline)
	switch {
	case ok:
		t.managerHung = false
	case errors.Is(err, errHung):
		if !t.managerHung {
			t.managerHung = true
			t.display.Log.Warn("the window manager does not answer after a click or chord; keys may go to another window")
		}
		return false, nil
	}
	return ok, err
}
