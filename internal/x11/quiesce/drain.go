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

// ErrNotDrained is returned if an application does not take its keys in time, so that their
// keycodes cannot be used for other characters.
var ErrNotDrained = errors.New("the application does not take its keys")

// Bounds of waiting for an application.
const (
	drainLimit = 15 * time.Second
	// blindWait is the wait for a window whose program shows none of the signs. It sufficed
	// for all tested programs on a busy machine.
	blindWait = 500 * time.Millisecond
	// Intervals between checks whether a window that was pinged still exists.
	checkFirst = 5 * time.Millisecond
	checkMost  = 250 * time.Millisecond
)

// firstToken is the first number of a ping. Window managers use small numbers or server
// times.
const firstToken = 0xd000_0000

// Typed records that a window may have got keys whose keycodes will be reused. focus is the
// window that had the focus.
func (t *Tracker) Typed(focus xproto.Window) {
	switch focus {
	case xproto.InputFocusNone:
		return // no window got the keys
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

// Drain waits until every window of Typed has taken its keys or is destroyed.
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

// DrainWindow waits until the application of a window has taken all its events: it answers
// a ping or, if it answers none, its process sleeps.
func (t *Tracker) DrainWindow(ctx context.Context, win xproto.Window) error {
	top, pings, ok := t.tree.application(win)
	if !ok {
		return nil
	}
	if pings {
		return t.ping(ctx, top)
	}
	pid := t.tree.process(win, top)
	if pid == 0 || pid == os.Getpid() {
		select {
		case <-time.After(blindWait):
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	p := t.display.watch(pid)
	defer p.close()
	err := p.waitWoken(ctx, func() { t.tree.wake(top) })
	if errors.Is(err, fs.ErrNotExist) {
		return nil // it has exited
	}
	if err != nil {
		return fmt.Errorf("window %d, process %d: %w", win, pid, err)
	}
	return nil
}

// ping sends _NET_WM_PING and waits for the answer (EWMH). Windows that do not ask for pings
// in WM_PROTOCOLS must not get one: some take it for WM_DELETE_WINDOW.
func (t *Tracker) ping(ctx context.Context, top xproto.Window) error {
	t.token++
	for len(t.pongs) > 0 {
		<-t.pongs // late answers
	}
	message := request.Message(top, t.tree.names.protocols, uint32(t.tree.names.ping), t.token, uint32(top))
	xproto.SendEvent(t.display.X, false, top, xproto.EventMaskNoEvent, message)
	pace := checkFirst
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
			pace = min(2*pace, checkMost)
			look.Reset(pace)
		case <-t.display.Done:
			return request.ErrConnClosed
		case <-ctx.Done():
			return fmt.Errorf("window %d: %w", top, ErrNotDrained)
		}
	}
}
