package x11

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/jezek/xgb"
	"github.com/jezek/xgb/xfixes"
	"github.com/jezek/xgb/xproto"

	"github.com/deskhand/deskhand/internal/x11/request"
)

// stallLimit is how long a transfer may stall.
const stallLimit = 10 * time.Second

// errSelectionTaken is returned if other programs take the selection after each attempt.
var errSelectionTaken = errors.New("another program took the selection")

// receive queues events for the clipboard. It runs on the connection's event goroutine.
func (cb *Clipboard) receive(ev xgb.Event) {
	switch e := ev.(type) {
	case xproto.SelectionRequestEvent:
		if e.Owner != cb.win {
			return
		}
	case xproto.SelectionClearEvent:
		if e.Owner != cb.win {
			return
		}
	case xproto.SelectionNotifyEvent:
	case xproto.PropertyNotifyEvent, xproto.DestroyNotifyEvent:
		if d, ok := e.(xproto.DestroyNotifyEvent); ok && d.Window == cb.win {
			cb.c.log.Warn("connection ends", "error", errDestroyed) // it would get no more events of selections
			_ = cb.c.wire.Conn.Close()
			return
		}
		if cb.waiting.Load() == 0 {
			return // for other parts of this package
		}
	case RawEvent:
		if e[0]&127 != cb.c.ext.xfixes+xfixes.SelectionNotify {
			return
		}
		ev = xfixes.SelectionNotifyEventNew(e)
	default:
		return
	}
	cb.events.push(ev) // run makes up for an event that is dropped
}

func (cb *Clipboard) run() {
	defer close(cb.done)
	defer cb.timer.Stop()
	for drops := int64(0); ; {
		select {
		case <-cb.quit:
			cb.destroyWindows()
			return
		case <-cb.c.done:
			return
		case f := <-cb.tasks:
			f()
		case <-cb.events.ready:
			for _, ev := range cb.events.take() {
				cb.dispatch(ev)
			}
			if now := cb.events.dropped(); now != drops {
				cb.c.log.Debug("too many selection events", "dropped", now-drops)
				drops = now
				cb.resume()
			}
		case now := <-cb.timer.C:
			cb.armed = false
			cb.expire(now)
		}
	}
}

// resume makes up for events that were dropped: of the time, that a selection was lost, and that
// an owner has changed or gone.
func (cb *Clipboard) resume() {
	for range cb.times {
		cb.askTime()
	}
	for sel := range cb.owned {
		cb.lose(sel)
	}
	for sel, name := range map[xproto.Atom]SelectionName{cb.atoms.clipboard: SelectionClipboard, xproto.AtomPrimary: SelectionPrimary} {
		cb.changes.push(name)
		cb.endReads(sel)
	}
}

// destroyWindows destroys the clipboard's windows, which empties its selections.
func (cb *Clipboard) destroyWindows() {
	for key, s := range cb.sends {
		cb.endSend(key, s)
	}
	for win := range cb.reads {
		xproto.DestroyWindow(cb.c.x, win)
	}
	for _, win := range append(cb.spare, cb.win) {
		xproto.DestroyWindow(cb.c.x, win)
	}
}

// onLoop runs f on the goroutine of run.
func (cb *Clipboard) onLoop(ctx context.Context, f func()) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-cb.done:
		return ErrConnClosed
	case cb.tasks <- f:
		return nil
	}
}

// askLoop calls f on the goroutine of run and returns what f, or a later event, sends.
func askLoop[T any](ctx context.Context, cb *Clipboard, f func(result chan<- T)) (v T, err error) {
	result := make(chan T, 1)
	if err := cb.onLoop(ctx, func() { f(result) }); err != nil {
		return v, err
	}
	select {
	case v = <-result:
		return v, nil
	case <-ctx.Done():
		return v, ctx.Err()
	case <-cb.done:
		return v, ErrConnClosed
	}
}

func (cb *Clipboard) dispatch(ev xgb.Event) {
	switch e := ev.(type) {
	case xproto.SelectionRequestEvent:
		cb.answer(e)
	case xproto.SelectionClearEvent:
		cb.lose(e.Selection)
	case xproto.SelectionNotifyEvent:
		cb.answered(e)
	case xproto.PropertyNotifyEvent:
		cb.property(e)
	case xproto.DestroyNotifyEvent:
		for key, s := range cb.sends {
			if key.win == e.Window {
				s.gone = true
				cb.endSend(key, s)
			}
		}
	case xfixes.SelectionNotifyEvent:
		cb.ownerChanged(e)
	}
}

func (cb *Clipboard) property(e xproto.PropertyNotifyEvent) {
	if e.Window == cb.win {
		if e.Atom == cb.atoms.clock && len(cb.times) > 0 {
			f := cb.times[0]
			cb.times = cb.times[1:]
			cb.waiting.Add(-1)
			f(e.Time)
		}
		return
	}
	if e.State == xproto.PropertyDelete {
		if key := (transfer{e.Window, e.Atom}); cb.sends[key] != nil {
			cb.sendNext(key, cb.sends[key])
		}
		return
	}
	if r := cb.reads[e.Window]; r != nil && r.incr && e.Atom == cb.atoms.landed {
		cb.collect(r)
	}
}

// withTime calls f with the server's time, from the event of a property that is set to no
// bytes. ICCCM 2.1 requires it, instead of CurrentTime, to take a selection. It replaces the
// property: another program may have set it with another type, to which nothing can be appended.
func (cb *Clipboard) withTime(f func(xproto.Timestamp)) {
	cb.waiting.Add(1)
	cb.times = append(cb.times, f)
	cb.askTime()
}

func (cb *Clipboard) askTime() {
	xproto.ChangeProperty(cb.c.x, xproto.PropModeReplace, cb.win, cb.atoms.clock, xproto.AtomInteger, 8, 0, nil)
}

// own takes a selection. It tries again if another program takes the selection.
func (cb *Clipboard) own(sel xproto.Atom, h *holding, result chan<- error, tries int) {
	cb.withTime(func(now xproto.Timestamp) {
		xproto.SetSelectionOwner(cb.c.x, cb.win, sel, now)
		r, err := xproto.GetSelectionOwner(cb.c.x, sel).Reply()
		switch {
		case err != nil:
			result <- request.Wrap("ask for the owner", err)
		case r.Owner != cb.win && tries > 1:
			cb.own(sel, h, result, tries-1)
		case r.Owner != cb.win:
			result <- errSelectionTaken
		default:
			h.time = now
			cb.owned[sel] = h
			cb.endOldSends()
			result <- nil
		}
	})
}

// lose drops the content of a lost selection. It asks the server, because the event may be
// older than a Set that took the selection back.
func (cb *Clipboard) lose(sel xproto.Atom) {
	if r, err := xproto.GetSelectionOwner(cb.c.x, sel).Reply(); err == nil && r.Owner != cb.win {
		delete(cb.owned, sel)
		cb.endOldSends()
	}
}

// ownerChanged handles an event of XFIXES, which may be forged.
func (cb *Clipboard) ownerChanged(e xfixes.SelectionNotifyEvent) {
	if e.Window != cb.win {
		return
	}
	switch e.Selection {
	case cb.atoms.clipboard:
		cb.changes.push(SelectionClipboard)
	case xproto.AtomPrimary:
		cb.changes.push(SelectionPrimary)
	default:
		return
	}
	if e.Subtype == xfixes.SelectionEventSetSelectionOwner {
		return // the old owner may still answer
	}
	cb.endReads(e.Selection)
}

// endReads ends the reads of a selection if it has no owner.
func (cb *Clipboard) endReads(sel xproto.Atom) {
	if r, err := xproto.GetSelectionOwner(cb.c.x, sel).Reply(); err != nil || r.Owner != xproto.WindowNone {
		return
	}
	for _, r := range cb.reads {
		if r.sel == sel && r.incr {
			cb.endRead(r, ErrTransferStalled)
		} else if r.sel == sel {
			cb.endRead(r, ErrNoContent)
		}
	}
}

// arm starts the timer if there are transfers.
func (cb *Clipboard) arm() {
	if !cb.armed && len(cb.sends)+len(cb.reads) > 0 {
		cb.armed = true
		cb.timer.Reset(cb.stall / 4)
	}
}

func (cb *Clipboard) expire(now time.Time) {
	for key, s := range cb.sends {
		if now.Sub(s.last) > cb.stall {
			cb.c.log.Debug("a program stopped reading a selection", "window", uint32(key.win))
			cb.endSend(key, s)
		}
	}
	for _, r := range cb.reads {
		if now.Sub(r.last) > cb.stall {
			cb.endRead(r, ErrTransferStalled)
		}
	}
	cb.arm()
}

// changeInterval is the shortest time between two calls of OnChange's function: a program
// may take a selection thousands of times a second.
const changeInterval = 250 * time.Millisecond

// callOnChange runs in its own goroutine, so that the function of OnChange may use the
// clipboard.
func (cb *Clipboard) callOnChange() {
	for {
		select {
		case <-cb.done:
			return
		case <-cb.changes.ready:
		}
		pending := cb.changes.take()
		slices.Sort(pending)
		f := cb.onChange.Load()
		for _, sel := range slices.Compact(pending) {
			if f != nil {
				(*f)(sel)
			}
		}
		select {
		case <-cb.done:
			return
		case <-time.After(changeInterval):
		}
	}
}
