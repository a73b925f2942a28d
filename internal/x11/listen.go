package x11

import (
	"context"
	"errors"

	"github.com/jezek/xgb/xproto"
)

// askedListener is the questions who gets keys, sent with others so that they
// cost no round trip when it is the window that got the last ones.
type askedListener struct {
	focus  xproto.GetInputFocusCookie
	window xproto.Window // that got the last keys; 0: none
	events xproto.GetWindowAttributesCookie
}

func (in *Input) askListener() askedListener {
	a := askedListener{focus: xproto.GetInputFocus(in.c.x), window: in.listener}
	if a.window != 0 {
		a.events = xproto.GetWindowAttributes(in.c.x, a.window)
	}
	return a
}

// awaitListener waits until somebody wants the keys that the window with the
// focus gets. Programs of Xt, such as xterm, show a window and ask for its keys
// only afterwards: until then the server throws keys away (X11 protocol, section
// 11, "KeyPress"). A window that never asks is not waited for again. Toolkits
// whose windows answer pings ask before that, and many in a way that the server
// tells nobody of (X Input Extension 2, XISelectEvents).
func (in *Input) awaitListener(ctx context.Context, asked askedListener) error {
	focus, err := asked.focus.Reply()
	if err != nil {
		return wrap("ask for the focus", err)
	}
	if asked.window != 0 {
		r, err := asked.events.Reply()
		if err == nil && focus.Focus == asked.window && (in.listens || r.AllEventMasks&xproto.EventMaskKeyPress != 0) {
			return nil
		}
	}
	in.listener, in.listens = focus.Focus, false
	if in.listener <= xproto.InputFocusPointerRoot || in.listener == in.c.root {
		in.listener = 0
		return nil
	}
	if _, in.listens, _ = in.client(in.listener); in.listens {
		return nil
	}
	_, err = in.limited(ctx, &in.mute, in.listener, takeLimit, func(ctx context.Context) error {
		for look := firstLook; ; {
			if wanted, err := in.wantsKeys(in.listener); wanted || err != nil {
				return err
			}
			if err := in.beforeNext(ctx, &look); err != nil {
				return err
			}
		}
	})
	return err
}

// wantsKeys tells whether somebody gets the keys that go to a window: it has
// asked for them, or a window inside of it that the pointer is in has. It says
// yes when the window has gone, and for one that no window manager has to do
// with, such as that which has the focus when no other has.
func (in *Input) wantsKeys(win xproto.Window) (bool, error) {
	for depth := range maxDepth {
		events, pointer := xproto.GetWindowAttributes(in.c.x, win), xproto.QueryPointer(in.c.x, win)
		e, err := events.Reply()
		p, perr := pointer.Reply()
		var gone xproto.WindowError
		switch err := errors.Join(err, perr); {
		case errors.As(err, &gone):
			return true, nil
		case err != nil:
			return false, wrap("ask who wants keys", err)
		case e.AllEventMasks&xproto.EventMaskKeyPress != 0, depth == 0 && e.OverrideRedirect:
			return true, nil
		case p.Child == 0:
			return false, nil
		}
		win = p.Child
	}
	return false, nil
}
