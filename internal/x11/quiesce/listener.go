package quiesce

import (
	"context"

	"github.com/jezek/xgb/xproto"

	"github.com/deskhand/deskhand/internal/x11/request"
)

// Unheard returns the window with the focus if no program wants the keys that it
// gets, for AwaitListener, and 0 if a program does, as far as is known. It takes one
// round trip if the focus is where it was the last time.
func (t *Tracker) Unheard() (xproto.Window, error) {
	var events xproto.GetWindowAttributesCookie
	focused := xproto.GetInputFocus(t.display.X)
	if t.focus != 0 {
		events = xproto.GetWindowAttributes(t.display.X, t.focus)
	}
	focus, err := focused.Reply()
	if err != nil {
		return 0, request.Wrap("ask for the focus", err)
	}
	if t.focus != 0 {
		r, err := events.Reply()
		if err == nil && focus.Focus == t.focus && (t.listens || r.AllEventMasks&xproto.EventMaskKeyPress != 0) {
			return 0, nil
		}
	}
	t.focus, t.listens = focus.Focus, false
	if t.focus <= xproto.InputFocusPointerRoot || t.focus == t.display.Root {
		t.focus = 0
		return 0, nil
	}
	if _, t.listens, _ = t.tree.application(t.focus); t.listens {
		return 0, nil
	}
	wanted, err := t.tree.wantsKeys(t.focus)
	switch {
	case err != nil:
		return 0, err
	case wanted:
		t.mute.note(t.focus, false)
		return 0, nil
	}
	return t.focus, nil
}

// AwaitListener waits until a program wants the keys of a window, and may run beside
// other methods. Programs of Xt, such as xterm, show a window and ask for its keys
// only afterwards: until then the server throws keys away (X11 protocol, section 11,
// "KeyPress"). AwaitListener waits long for a window that never asks, but only once.
// Toolkits whose windows answer pings ask before they show a window, and many of them
// in a way that the server does not tell others (X Input Extension 2, XISelectEvents).
func (t *Tracker) AwaitListener(ctx context.Context, win xproto.Window) error {
	err := within(ctx, t.mute.limit(win, takeLimit), func(ctx context.Context) error {
		return t.display.poll(ctx, func() (bool, error) { return t.tree.wantsKeys(win) })
	})
	if ctx.Err() == nil {
		t.mute.note(win, err != nil)
	}
	return t.goOn(ctx, win, err)
}

// IsMute reports whether no program wanted the keys of a window in time when
// AwaitListener last waited for that.
func (t *Tracker) IsMute(win xproto.Window) bool { return t.mute.has(win) }
