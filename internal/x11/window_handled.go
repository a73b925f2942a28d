package x11

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/jezek/xgb/xproto"
)

// probeLimit is how long a window manager gets to answer.
const probeLimit = 300 * time.Millisecond

// probe is a window of ours that the window manager is asked about, to see that
// it has handled what it was told before.
type probe struct {
	turn sync.Mutex // held by the one that asks

	mu     sync.Mutex
	win    xproto.Window
	answer chan struct{} // nil when nobody waits
}

func (p *probe) answered(win xproto.Window) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if win == p.win && p.answer != nil {
		close(p.answer)
		p.answer = nil
	}
}

// handled waits until the window manager has handled all earlier requests. A
// window manager handles them in order, so it is sent one more that it answers
// by setting a property (EWMH _NET_REQUEST_FRAME_EXTENTS). It reports false
// when there is no answer in time.
func (w *Windows) handled(ctx context.Context, limit time.Duration) (bool, error) {
	p := &w.probe
	p.turn.Lock()
	defer p.turn.Unlock()
	p.mu.Lock()
	win := p.win
	p.mu.Unlock()
	if win == 0 {
		var err error
		if win, err = w.c.newRequestor(); err != nil {
			return false, err
		}
	}
	answer := make(chan struct{})
	p.mu.Lock()
	p.win, p.answer = win, answer
	p.mu.Unlock()
	if err := w.requestExtents(win); err != nil {
		return false, err
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	var err error
	select {
	case <-answer:
		return true, nil
	case <-timer.C:
	case <-ctx.Done():
		err = ctx.Err()
	case <-w.c.done:
		return false, ErrConnClosed
	}
	// A late answer must not be taken for that to the next question.
	p.mu.Lock()
	p.win, p.answer = 0, nil
	p.mu.Unlock()
	xproto.DestroyWindow(w.c.x, win)
	return false, err
}

// Responds reports whether the window manager answers a question within limit. It
// returns true if there is no window manager to ask.
func (w *Windows) Responds(ctx context.Context, limit time.Duration) (bool, error) {
	for deadline := time.Now().Add(limit); ; {
		if can, err := w.answers(); err != nil || !can {
			return err == nil, err
		}
		left := time.Until(deadline)
		if left <= 0 {
			return false, nil
		}
		// In steps, as input that waits for the window manager asks it, too.
		if ok, err := w.handled(ctx, min(left, askAgain)); ok || err != nil {
			return ok, err
		}
	}
}

// AwaitFocus waits until the window manager has given a new window the focus, or
// has decided not to. It returns nil if there is no window manager or if it does
// not answer in time.
//
// A window is listed before it gets the focus, and the window manager names it
// as active only when it has heard from the server that it has the focus: hence
// more than one question.
func (w *Windows) AwaitFocus(ctx context.Context, id Window) error {
	deadline := time.Now().Add(focusLimit)
	for range focusRounds {
		active, err := w.word(w.c.root, w.atoms.active)
		if err != nil {
			return wrap("read the active window", err)
		}
		if Window(active) == id {
			return nil
		}
		if ok, err := w.Responds(ctx, time.Until(deadline)); err != nil || !ok {
			return err
		}
	}
	return nil
}

// answers says whether there is a window manager that handled can ask: one that
// lives and that lists the question among what it supports (EWMH _NET_SUPPORTED).
func (w *Windows) answers() (bool, error) {
	supported := xproto.GetProperty(w.c.x, false, w.c.root, w.atoms.supported, xproto.AtomAtom, 0, maxSupported)
	check := xproto.GetProperty(w.c.x, false, w.c.root, w.atoms.check, xproto.AtomWindow, 0, 1)
	s, err := supported.Reply()
	if err != nil {
		return false, wrap("ask what the window manager supports", err)
	}
	c, err := check.Reply()
	if err != nil {
		return false, wrap("ask for the window manager", err)
	}
	child := firstWord(c)
	if child == 0 || !slices.Contains(atoms(s), w.atoms.ask) {
		return false, nil
	}
	// What a dead window manager left does not count.
	self, err := xproto.GetProperty(w.c.x, false, xproto.Window(child), w.atoms.check, xproto.AtomWindow, 0, 1).Reply()
	return err == nil && firstWord(self) == child, nil
}

// maxSupported bounds what is read of _NET_SUPPORTED, in names.
const maxSupported = 1024
