package quiesce

import (
	"context"

	"github.com/jezek/xgb/xproto"

	"github.com/deskhand/deskhand/internal/x11/request"
)

// Unheard returns the window with the focus if no program has selected its keys, and 0
// otherwise. The result is for AwaitListener. It takes one round trip if the focus has not
// moved.
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
		t.withoutListener.record(t.focus, false)
		return 0, nil
	}
	return t.focus, nil
}

// AwaitListener waits until a program asks for the keys of a window. Other methods may run
// meanwhile. Programs of Xt, such as xterm, show a window before they ask for its keys,
// and the server drops keys until then (X11 protocol, section 11, "KeyPress").
// AwaitListener waits long for a window without a listener only once. Toolkits whose
// windows answer pings ask before they show a window, and many of them in a way that
// other clients cannot see (X Input Extension 2, XISelectEvents).
func (t *Tracker) AwaitListener(ctx context.Context, win xproto.Window) error {
	err := within(ctx, t.withoutListener.limit(win, takeLimit), func(ctx context.Context) error {
		return t.display.poll(ctx, func() (bool, error) { return t.tree.wantsKeys(win) })
	})
	if ctx.Err() == nil {
		t.withoutListener.record(win, err != nil)
	}
	return t.fatal(ctx, win, err)
}

// HasNoListener reports whether the last AwaitListener for a window ran out of time.
func (t *Tracker) HasNoListener(win xproto.Window) bool { return t.withoutListener.has(win) }

// QuiesceFocus is like Quiesce, for the program of the window that had the focus at the last
// Unheard. It does not wait for a program that answers no pings, for which it returns false.
func (t *Tracker) QuiesceFocus(ctx context.Context) (answers bool, err error) {
	if t.focus == 0 || !t.listens {
		return false, nil
	}
	t.Acted(t.focus)
	return true, t.Quiesce(ctx)
}

// LosesAstral reports whether the program of the window that had the focus at the last Unheard
// takes a key for a character beyond U+FFFF as another character, as Java does.
func (t *Tracker) LosesAstral() bool {
	if t.focus == 0 || t.listens {
		return false
	}
	top, _, ok := t.tree.application(t.focus)
	return ok && t.tree.takesFocus(top)
}
