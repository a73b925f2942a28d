package quiesce

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"

	"github.com/jezek/xgb/xproto"

	"github.com/deskhand/deskhand/internal/x11/request"
)

// ErrNotDrained is returned when an application did not take the keys that
// were typed into it in time, so that the keycodes of characters that are not
// on the keyboard could not be used for others.
var ErrNotDrained = errors.New("the application does not take its keys")

// Bounds of waiting for an application.
const (
	drainLimit = 15 * time.Second
	// blindWait is for a window of which nothing is known: it was enough for
	// every program tried on a busy machine, and there is nothing better.
	blindWait = 500 * time.Millisecond
	// How often a window that was pinged is looked for: it may be gone.
	lookFirst = 5 * time.Millisecond
	lookMost  = 250 * time.Millisecond
)

// firstToken numbers pings from where no window manager's own can be: these
// use small numbers or server times.
const firstToken = 0xd000_0000

// Typed notes that a window may have got keys whose keycodes will be reused. focus is
// the window that had the focus.
func (t *Tracker) Typed(focus xproto.Window) {
	switch focus {
	case xproto.InputFocusNone:
		return // the keys went nowhere
	case xproto.InputFocusPointerRoot:
		child, err := t.display.pointer()
		if err != nil || child == 0 {
			return
		}
		focus = child
	}
	if !slices.Contains(t.typed, focus) {
		t.typed = append(t.typed, focus)
	}
}

// Drain waits until every window that Typed named has taken its keys. A window that
// is gone will not look anything up any more.
func (t *Tracker) Drain(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, drainLimit)
	defer cancel()
	for len(t.typed) > 0 {
		if err := t.DrainWindow(limited, t.typed[0]); err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return err
		}
		t.typed = slices.Delete(t.typed, 0, 1)
	}
	return nil
}

// DrainWindow waits until the application of one window has taken all its events. An
// application that answers pings does so in the order of its events. Of others the
// server tells the process, whose sleep shows when it has taken all.
func (t *Tracker) DrainWindow(ctx context.Context, win xproto.Window) error {
	top, pings, ok := t.tree.application(win)
	if !ok {
		return nil
	}
	if pings {
		return t.ping(ctx, top)
	}
	pid := t.tree.process(win, top)
	if pid == 0 || pid == os.Getpid() { // we ourselves never sleep here
		select {
		case <-time.After(blindWait):
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	p := t.display.watch(pid)
	defer p.close()
	err := p.waitWoken(ctx, sure, func() { t.tree.wake(top) })
	if errors.Is(err, fs.ErrNotExist) {
		return nil // it has exited
	}
	if err != nil {
		return fmt.Errorf("window %d, process %d: %w", win, pid, err)
	}
	return nil
}

// ping sends _NET_WM_PING and waits for the answer (EWMH). Only windows that
// ask for it in WM_PROTOCOLS may get one: others take it for WM_DELETE_WINDOW.
func (t *Tracker) ping(ctx context.Context, top xproto.Window) error {
	t.token++
	for len(t.pongs) > 0 {
		<-t.pongs // late answers
	}
	message := request.Message(top, t.tree.names.protocols, uint32(t.tree.names.ping), t.token, uint32(top))
	xproto.SendEvent(t.display.X, false, top, xproto.EventMaskNoEvent, message)
	pace := lookFirst
	look := time.NewTimer(pace)
	defer look.Stop()
	for {
		select {
		case token := <-t.pongs:
			if token == t.token {
				return nil
			}
		case <-look.C:
			if _, _, ok := t.tree.application(top); !ok {
				return nil
			}
			pace = min(2*pace, lookMost)
			look.Reset(pace)
		case <-t.display.Done:
			return request.ErrConnClosed
		case <-ctx.Done():
			return fmt.Errorf("window %d: %w", top, ErrNotDrained)
		}
	}
}
