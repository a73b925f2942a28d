package x11

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/jezek/xgb"
	"github.com/jezek/xgb/res"
	"github.com/jezek/xgb/xproto"
)

// ErrNotDrained is returned when an application did not take the keys that
// were typed into it in time, so that the keycodes of characters that are not
// on the keyboard could not be used for others.
var ErrNotDrained = errors.New("the application does not take its keys")

// Bounds of waiting for an application.
const (
	drainLimit      = 15 * time.Second
	inputCloseLimit = 2 * time.Second
	// blindWait is for a window of which nothing is known: it was enough for
	// every program tried on a busy machine, and there is nothing better.
	blindWait = 500 * time.Millisecond
	// How often it is looked whether a window that was pinged is still there.
	lookFirst = 5 * time.Millisecond
	lookMost  = 250 * time.Millisecond
)

// firstToken numbers pings from where no window manager's own can be: these
// use small numbers or server times.
const firstToken = 0xd000_0000

// maxDepth bounds the walk from a window up to the root.
const maxDepth = 32

// await notes that a window got keys, which matters when slots are among them.
func (in *Input) await(focus xproto.Window) {
	if !in.dirty {
		return
	}
	switch focus {
	case xproto.InputFocusNone:
		return // the keys went nowhere
	case xproto.InputFocusPointerRoot:
		r, err := xproto.QueryPointer(in.c.x, in.c.root).Reply()
		if err != nil || r.Child == 0 {
			return
		}
		focus = r.Child
	}
	if !slices.Contains(in.waiting, focus) {
		in.waiting = append(in.waiting, focus)
	}
}

// drain waits until every window that got keys since the last drain has taken
// them. A window that is gone will not look anything up any more.
func (in *Input) drain(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, drainLimit)
	defer cancel()
	for len(in.waiting) > 0 {
		if err := in.drainWindow(limited, in.waiting[0]); err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return err
		}
		in.waiting = slices.Delete(in.waiting, 0, 1)
	}
	for i := range in.slots {
		in.slots[i].dirty = false
	}
	in.dirty = false
	return nil
}

// drainWindow waits for one window. An application that answers pings does so
// in the order of its events. Of others the server tells the process, whose
// sleep shows when it has taken all.
func (in *Input) drainWindow(ctx context.Context, win xproto.Window) error {
	top, pings, ok := in.client(win)
	if !ok {
		return nil
	}
	if pings {
		return in.ping(ctx, top)
	}
	pid := in.process(win, top)
	if pid == 0 || pid == os.Getpid() { // we ourselves never sleep here
		return pause(ctx, blindWait)
	}
	err := in.waitAsleep(ctx, pid, top)
	if errors.Is(err, os.ErrNotExist) {
		return nil // it has exited
	}
	if err != nil {
		return fmt.Errorf("window %d, process %d: %w", win, pid, err)
	}
	return nil
}

// client finds the window that carries the protocols of win's client: itself
// or an ancestor (ICCCM, section 4.1.2.7), and whether it answers pings. It
// says no when win is gone.
func (in *Input) client(win xproto.Window) (top xproto.Window, pings, ok bool) {
	for at, depth := win, 0; depth < maxDepth && at != in.c.root && at != 0; depth++ {
		property := xproto.GetProperty(in.c.x, false, at, in.names.protocols, xproto.AtomAtom, 0, 64)
		tree := xproto.QueryTree(in.c.x, at)
		p, err := property.Reply()
		t, terr := tree.Reply()
		if err != nil || terr != nil {
			return 0, false, at != win
		}
		if protocols := atoms(p); len(protocols) > 0 {
			return at, slices.Contains(protocols, in.names.ping), true
		}
		at = t.Parent
	}
	return win, false, true
}

// ping sends _NET_WM_PING and waits for the answer (EWMH). Only windows that
// ask for it in WM_PROTOCOLS may get one: others take it for WM_DELETE_WINDOW.
func (in *Input) ping(ctx context.Context, top xproto.Window) error {
	in.token++
	for len(in.pongs) > 0 {
		<-in.pongs // late answers
	}
	m := xproto.ClientMessageEvent{
		Format: 32, Window: top, Type: in.names.protocols,
		Data: xproto.ClientMessageDataUnionData32New([]uint32{uint32(in.names.ping), in.token, uint32(top), 0, 0}),
	}
	xproto.SendEvent(in.c.x, false, top, xproto.EventMaskNoEvent, string(m.Bytes()))
	pace := lookFirst
	look := time.NewTimer(pace)
	defer look.Stop()
	for {
		select {
		case token := <-in.pongs:
			if token == in.token {
				return nil
			}
		case <-look.C:
			if _, _, ok := in.client(top); !ok {
				return nil
			}
			pace = min(2*pace, lookMost)
			look.Reset(pace)
		case <-in.c.done:
			return ErrConnClosed
		case <-ctx.Done():
			return fmt.Errorf("window %d: %w", top, ErrNotDrained)
		}
	}
}

// process is the process of a window's client on this machine, 0 if unknown.
func (in *Input) process(win, top xproto.Window) int {
	if in.c.ext.res {
		// X-Resource 1.2, XResQueryClientIds: the server knows whom it
		// talks to.
		spec := res.ClientIdSpec{Client: uint32(win), Mask: res.ClientIdMaskLocalClientPID}
		r, err := res.QueryClientIds(in.c.x, 1, []res.ClientIdSpec{spec}).Reply()
		if err == nil {
			for _, id := range r.Ids {
				if id.Spec.Mask&res.ClientIdMaskLocalClientPID != 0 && len(id.Value) > 0 && id.Value[0] != 0 {
					return int(id.Value[0])
				}
			}
		}
	}
	pid := xproto.GetProperty(in.c.x, false, top, in.names.pid, xproto.AtomCardinal, 0, 1)
	machine := xproto.GetProperty(in.c.x, false, top, in.names.machine, xproto.GetPropertyTypeAny, 0, 64)
	p, err := pid.Reply()
	m, merr := machine.Reply()
	host, _ := os.Hostname()
	if err != nil || merr != nil || len(p.Value) != 4 || host == "" || !strings.EqualFold(string(m.Value), host) {
		return 0
	}
	return int(xgb.Get32(p.Value))
}
