package x11

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jezek/xgb/xproto"

	"github.com/deskhand/deskhand/internal/x11/request"
)

const (
	// probeLimit is how long the window manager has to answer.
	probeLimit = 300 * time.Millisecond
	// effectLimit is how long an action waits for its effect.
	effectLimit = time.Second
	// closeLimit is the time that a program has to close its window.
	closeLimit = 2 * time.Second
	// flightStep is longer than a step of openbox's animation (1/60 s).
	flightStep = 40 * time.Millisecond
	// maxCorrection is the largest error of a move because of a window's gravity or
	// border, in pixels.
	maxCorrection = 64
	// largest bounds window sizes: coordinates have 16 bits, with sign.
	largest = 1<<15 - 1
)

// Fields of requests to the window manager (EWMH 1.5, "Root Window Properties"; ICCCM
// 4.1.4).
const (
	// sourcePager is the source indication of a direct wish of the user, which
	// window managers obey (EWMH, "Source indication in requests").
	sourcePager = 2
	// gravityOfWindow leaves a window the gravity that it asked for
	// (_NET_MOVERESIZE_WINDOW; ICCCM 4.1.2.3).
	gravityOfWindow = 0
	// What _NET_MOVERESIZE_WINDOW sets, and where it has the source.
	moveX, moveY, moveWidth, moveHeight = 1 << 8, 1 << 9, 1 << 10, 1 << 11
	moveSourceShift                     = 12
	// stateRemove and stateAdd are actions of _NET_WM_STATE.
	stateRemove, stateAdd = 0, 1
	// iconicState is a state of WM_CHANGE_STATE (ICCCM 4.1.3.1).
	iconicState = 3
)

// send sends the window manager a client message about a window.
func (w *Windows) send(win xproto.Window, kind xproto.Atom, data ...uint32) error {
	return request.SendToManager(w.c.x, w.c.root, win, kind, data...)
}

// Focus raises a window, minimised or not, and gives it the focus.
func (w *Windows) Focus(ctx context.Context, id Window) (WindowInfo, error) {
	before, err := w.Get(id)
	if err != nil {
		return before, fmt.Errorf("focus: %w", err)
	}
	info, err := w.act(ctx, "focus", id, false,
		func(win xproto.Window) error { return w.send(win, w.atoms.active, sourcePager, xproto.TimeCurrentTime) },
		func(i WindowInfo) bool { return i.Active && !i.Minimised })
	if err == nil && before.Minimised {
		return w.awaitStill(ctx, info)
	}
	return info, err
}

// awaitStill waits until a window does not move. A window manager may animate how a
// minimised window returns.
func (w *Windows) awaitStill(ctx context.Context, info WindowInfo) (WindowInfo, error) {
	tick := time.NewTicker(flightStep)
	defer tick.Stop()
	for deadline := time.Now().Add(effectLimit); time.Now().Before(deadline); {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return info, fmt.Errorf("window %d: %w", info.ID, ctx.Err())
		}
		now, err := w.Get(info.ID)
		if err != nil || now == info {
			return now, err
		}
		info = now
	}
	return info, nil
}

// Move moves a window so that the top left corner of its content is at x, y, unless the
// window manager moves it elsewhere, for example to keep it on the screen.
func (w *Windows) Move(ctx context.Context, id Window, x, y int) (WindowInfo, error) {
	info, err := w.Get(id)
	if err != nil {
		return info, fmt.Errorf("move: %w", err)
	}
	// The position means the frame, or what the window's gravity says. With static
	// gravity it means the content, but openbox keeps that gravity: a maximised window
	// would return to another place.
	askX, askY := x-(info.X-info.FrameX), y-(info.Y-info.FrameY)
	there := func(i WindowInfo) bool { return i.X == x && i.Y == y }
	move := func() {
		info, err = w.act(ctx, "move", id, true, func(win xproto.Window) error {
			const flags = gravityOfWindow | moveX | moveY | sourcePager<<moveSourceShift
			return w.send(win, w.atoms.moveResize, flags, uint32(int32(askX)), uint32(int32(askY)))
		}, there)
	}
	move()
	dx, dy := x-info.X, y-info.Y
	if err != nil || there(info) || max(dx, -dx, dy, -dy) > maxCorrection {
		return info, err
	}
	// The window has another gravity, or had a border.
	askX, askY = askX+dx, askY+dy
	move()
	return info, err
}

// Resize sets the size of a window's content, or the nearest size that the program allows,
// as terminals do.
func (w *Windows) Resize(ctx context.Context, id Window, width, height int) (WindowInfo, error) {
	width, height = min(max(width, 1), largest), min(max(height, 1), largest)
	return w.act(ctx, "resize", id, true,
		func(win xproto.Window) error {
			const flags = gravityOfWindow | moveWidth | moveHeight | sourcePager<<moveSourceShift
			return w.send(win, w.atoms.moveResize, flags, 0, 0, uint32(width), uint32(height))
		},
		func(i WindowInfo) bool { return i.Width == width && i.Height == height })
}

// Minimise takes a window off the screen.
func (w *Windows) Minimise(ctx context.Context, id Window) (WindowInfo, error) {
	return w.act(ctx, "minimise", id, false,
		func(win xproto.Window) error { return w.send(win, w.atoms.iconify, iconicState) },
		func(i WindowInfo) bool { return i.Minimised && !i.Active })
}

// Maximise gives a window all the space, or its former size if on is false.
func (w *Windows) Maximise(ctx context.Context, id Window, on bool) (WindowInfo, error) {
	action := uint32(stateRemove)
	if on {
		action = stateAdd
	}
	return w.act(ctx, "maximise", id, false,
		func(win xproto.Window) error {
			return w.send(win, w.atoms.netState, action, uint32(w.atoms.maxVert), uint32(w.atoms.maxHorz), sourcePager)
		},
		func(i WindowInfo) bool { return i.Maximised == on })
}

// Close asks a window to close, as its close button does, and waits for that for up to two
// seconds. It returns nil if the window stays, because the program asks its user first.
func (w *Windows) Close(ctx context.Context, id Window) error {
	if _, err := w.Get(id); err != nil {
		return fmt.Errorf("close: %w", err)
	}
	defer w.Acted()
	if err := w.send(id, w.atoms.close, xproto.TimeCurrentTime, sourcePager); err != nil {
		return fmt.Errorf("close window %d: %w", id, err)
	}
	limited, cancel := context.WithTimeout(ctx, closeLimit)
	defer cancel()
	err := w.await(limited, func() (bool, error) {
		_, err := w.Get(id)
		if errors.Is(err, ErrNoWindow) {
			return true, nil
		}
		return false, err
	})
	if err != nil && limited.Err() != nil && ctx.Err() == nil {
		return nil
	}
	return err
}

// act sends a request to the window manager and waits until done returns true, at most for
// effectLimit. final means that the window manager answers the next question only after
// the effect.
func (w *Windows) act(ctx context.Context, op string, id Window, final bool,
	send func(xproto.Window) error, done func(WindowInfo) bool,
) (WindowInfo, error) {
	info, err := w.Get(id)
	if err != nil {
		return info, fmt.Errorf("%s: %w", op, err)
	}
	if err := w.c.selectEvents(id, watchWindow); err != nil {
		return info, fmt.Errorf("%s window %d: %w", op, id, ErrNoWindow)
	}
	defer w.c.unselectEvents(id, watchWindow)
	defer w.Acted()
	if err := send(id); err != nil {
		return info, fmt.Errorf("%s window %d: %w", op, id, err)
	}
	handled, err := w.Handled(ctx, probeLimit)
	if err != nil {
		return info, fmt.Errorf("%s window %d: %w", op, id, err)
	}
	limited, cancel := context.WithTimeout(ctx, effectLimit)
	defer cancel()
	err = w.await(limited, func() (bool, error) {
		var err error
		info, err = w.Get(id)
		return err == nil && (done(info) || handled && final), err
	})
	if err != nil && limited.Err() != nil && ctx.Err() == nil {
		return info, nil // the request had no effect in time
	}
	if err != nil {
		return info, fmt.Errorf("%s: %w", op, err)
	}
	return info, nil
}
