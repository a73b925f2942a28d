package x11

import (
	"context"
	"errors"

	"github.com/jezek/xgb/xproto"
)

// Unheard returns the window with the focus if nobody wants the keys that it gets,
// for AwaitListener, and 0 if somebody does, as far as is known.
func (in *Input) Unheard(ctx context.Context) (Window, error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if err := in.use(); err != nil {
		return 0, err
	}
	if err := in.awaitManager(ctx); err != nil {
		return 0, err
	}
	if wanted, err := in.heard(); wanted || err != nil {
		return 0, err
	}
	return Window(in.listener), nil
}

// heard asks whether somebody wants keys, in one round trip when the focus is
// where it was the last time.
func (in *Input) heard() (bool, error) {
	var events xproto.GetWindowAttributesCookie
	focused := xproto.GetInputFocus(in.c.x)
	if in.listener != 0 {
		events = xproto.GetWindowAttributes(in.c.x, in.listener)
	}
	focus, err := focused.Reply()
	if err != nil {
		return false, wrap("ask for the focus", err)
	}
	if in.listener != 0 {
		r, err := events.Reply()
		if err == nil && focus.Focus == in.listener && (in.listens || r.AllEventMasks&xproto.EventMaskKeyPress != 0) {
			return true, nil
		}
	}
	in.listener, in.listens = focus.Focus, false
	if in.listener <= xproto.InputFocusPointerRoot || in.listener == in.c.root {
		in.listener = 0
		return true, nil
	}
	if _, in.listens, _ = in.client(in.listener); in.listens {
		return true, nil
	}
	wanted, err := in.wantsKeys(in.listener)
	if wanted {
		in.mute.note(in.listener, false)
	}
	return wanted, err
}

// AwaitListener waits until somebody wants the keys of a window, and others may
// use the Input meanwhile. Programs of Xt, such as xterm, show a window and ask
// for its keys only afterwards: until then the server throws keys away (X11
// protocol, section 11, "KeyPress"). A window that never asks is waited for once,
// and hardly after that. Toolkits whose windows answer pings ask before they show
// one, and many in a way that the server tells nobody of (X Input Extension 2,
// XISelectEvents).
func (in *Input) AwaitListener(ctx context.Context, window Window) error {
	win := xproto.Window(window)
	in.mu.Lock()
	limit := in.mute.limit(win, takeLimit)
	in.mu.Unlock()
	err := within(ctx, limit, func(ctx context.Context) error {
		for look := firstLook; ; {
			if wanted, err := in.wantsKeys(win); wanted || err != nil {
				return err
			}
			if err := in.beforeNext(ctx, &look); err != nil {
				return err
			}
		}
	})
	if ctx.Err() == nil {
		in.mu.Lock()
		in.mute.note(win, err != nil)
		in.mu.Unlock()
	}
	return in.goOn(ctx, win, err)
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
