package x11

import (
	"context"
	"time"

	"github.com/jezek/xgb"
	"github.com/jezek/xgb/xproto"
)

// askAgain is the interval at which WaitAnswer asks.
const askAgain = 25 * time.Millisecond

// WaitAnswer returns when the window manager answers requests. openbox says
// that it is there (WaitReady) before its main loop runs; requests of that
// moment it may leave unread until the next one wakes it, and a program that
// waits for the answer, as Xt's shells do, then stands still for 5 s.
//
// The question is a new size for a window of ours: the server hands it to the
// window manager, whose consent comes back as ConfigureNotify (X11 protocol,
// ConfigureWindow and ConfigureRequest).
func (w *Windows) WaitAnswer(ctx context.Context) error {
	c := w.c
	win, err := xproto.NewWindowId(c.x)
	if err != nil {
		return wrap("ask window manager", err)
	}
	answered := make(chan struct{}, 1)
	remove := c.handle(func(ev xgb.Event) {
		if e, ok := ev.(xproto.ConfigureNotifyEvent); ok && e.Window == win {
			select {
			case answered <- struct{}{}:
			default:
			}
		}
	})
	defer remove()
	if err := xproto.CreateWindowChecked(c.x, 0, win, c.root, -10, -10, 1, 1, 0, xproto.WindowClassInputOnly, 0,
		xproto.CwEventMask, []uint32{xproto.EventMaskStructureNotify}).Check(); err != nil {
		return wrap("ask window manager", err)
	}
	defer xproto.DestroyWindow(c.x, win)
	tick := time.NewTicker(askAgain)
	defer tick.Stop()
	for size := uint32(2); ; size++ {
		xproto.ConfigureWindow(c.x, win, xproto.ConfigWindowWidth, []uint32{size})
		select {
		case <-answered:
			return nil
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		case <-c.done:
			return ErrConnClosed
		}
	}
}
