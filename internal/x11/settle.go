package x11

import (
	"context"
	"errors"
	"os"
	"slices"
	"time"

	"github.com/jezek/xgb/xproto"
)

// Bounds of waiting for the applications that got the last clicks and keys.
const (
	// settleRecent is how long ago these may have been to be waited for.
	settleRecent = time.Second
	// takeLimit is how long an application may take to read its input, and to
	// answer a ping if it does answer them.
	takeLimit = 2 * time.Second
	// quietLimit is how long it may take to sleep then: a program that always has
	// something to do never does.
	quietLimit = 300 * time.Millisecond
	// deafLimit is for one that did not answer in time before.
	deafLimit = 20 * time.Millisecond
	// maxDeaf bounds how many of those are remembered.
	maxDeaf = 64
)

// acted is the windows that got clicks, or keys that are more than text, and
// that have not been waited for.
type acted struct {
	windows []xproto.Window
	latest  time.Time
	press   xproto.Window // that the pointer was in when a button went down
	deaf    idlers
	served  int // how many requests the clipboard had answered when that was last waited for
}

func (a *acted) note(win xproto.Window) {
	a.latest = time.Now()
	if win > xproto.InputFocusPointerRoot && !slices.Contains(a.windows, win) {
		a.windows = append(a.windows, win)
	}
}

// Settle waits until the programs that got the last clicks and keys have dealt
// with these, as far as can be seen from outside, and the window manager with
// what came of it. A click may open a menu, a chord a dialog, Return may close
// one: until that has happened, what comes next would go to where it is not
// meant for. It does not wait for input of more than a second ago, and for a
// program that always has something to do only a moment. Whoever sends what a
// person does as it happens need not call it: a person waits for what they see.
func (in *Input) Settle(ctx context.Context) error {
	in.mu.Lock()
	defer in.mu.Unlock()
	if err := in.use(); err != nil {
		return err
	}
	return in.settleAll(ctx)
}

// Shown has the next Settle wait for the program of a window that has just
// appeared: it may have more to do before it deals with input. What is known of
// a window that had its number before is forgotten.
func (in *Input) Shown(window Window) {
	win := xproto.Window(window)
	in.mu.Lock()
	defer in.mu.Unlock()
	in.acted.deaf.note(win, false)
	in.mute.note(win, false)
	in.acted.note(win)
}

// SettlePointer waits until the window manager has dealt with the last clicks:
// until then the server may hold back what the pointer does.
func (in *Input) SettlePointer(ctx context.Context) error {
	in.mu.Lock()
	defer in.mu.Unlock()
	if err := in.use(); err != nil {
		return err
	}
	_, err := in.question(ctx)
	return err
}

// ButtonDown says whether a button is down through this Input.
func (in *Input) ButtonDown() bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	return len(in.buttons) > 0
}

func (in *Input) settleAll(ctx context.Context) error {
	asked, err := in.question(ctx)
	if err != nil {
		return err
	}
	windows := in.acted.windows
	in.acted.windows = nil
	if time.Since(in.acted.latest) > settleRecent {
		windows = nil
	}
	if err := in.settleWindows(ctx, windows); err != nil {
		return err
	}
	switch {
	case asked: // what the programs did may be something for the window manager
		return in.awaitFocus(ctx)
	case len(windows) > 0:
		in.unsettle()
		return in.awaitManager(ctx)
	}
	return nil
}

// settleWindows waits for the applications of windows, and for those that have
// to tell them what is pasted.
func (in *Input) settleWindows(ctx context.Context, windows []xproto.Window) error {
	var apps []watched
	defer func() {
		for _, p := range apps {
			p.close()
		}
	}()
	for _, win := range windows {
		p, err := in.settleWindow(ctx, win)
		if p.pid > 0 {
			apps = append(apps, p)
		}
		if err != nil {
			return err
		}
	}
	if len(windows) == 0 {
		return nil
	}
	return in.settlePaste(ctx, apps)
}

// settleWindow waits for the application of one window, unless that takes too
// long. It returns the application if it sleeps in the end.
func (in *Input) settleWindow(ctx context.Context, win xproto.Window) (app watched, err error) {
	win = in.managed(win)
	top, pings, ok := in.client(win)
	if !ok {
		return app, nil
	}
	pid := in.process(win, top)
	if pid == os.Getpid() {
		pid = 0 // we ourselves never sleep here
	}
	var p watched
	if pid > 0 {
		p = in.watch(pid)
		defer func() {
			if app.pid == 0 {
				p.close()
			}
		}()
	}
	took, err := in.limited(ctx, &in.acted.deaf, top, takeLimit, func(ctx context.Context) error {
		switch {
		case pings:
			return in.ping(ctx, top)
		case pid > 0:
			return in.waitRead(ctx, p)
		}
		return nil
	})
	if err != nil || !took || pid == 0 {
		return app, err
	}
	err = within(ctx, quietLimit, func(ctx context.Context) error { return in.waitApplication(ctx, p, top, pings) })
	if err == nil {
		return p, nil
	}
	return app, in.goOn(ctx, top, err)
}

// limited calls f with a context that ends when what it does takes too long,
// soon when it did the last time with this window, too, and notes that. It says
// whether f was done in time. The error is nil unless nothing can go on.
func (in *Input) limited(ctx context.Context, slow *idlers, win xproto.Window, limit time.Duration, f func(context.Context) error) (bool, error) {
	err := within(ctx, slow.limit(win, limit), f)
	if ctx.Err() == nil {
		slow.note(win, err != nil)
	}
	return err == nil, in.goOn(ctx, win, err)
}

// goOn returns why input cannot go on although something was not waited for.
func (in *Input) goOn(ctx context.Context, win xproto.Window, err error) error {
	if err == nil || ctx.Err() != nil {
		return ctx.Err()
	}
	if errors.Is(err, ErrConnClosed) {
		return err
	}
	in.c.log.Debug("input goes on before an application has done what came before", "window", uint32(win), "error", err)
	return nil
}

// within calls f with a context that ends after limit at the latest.
func within(ctx context.Context, limit time.Duration, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return f(ctx)
}

// idlers is the windows that let us wait in vain the last time.
type idlers map[xproto.Window]struct{}

// limit is how long a window is waited for.
func (l idlers) limit(win xproto.Window, first time.Duration) time.Duration {
	if _, ok := l[win]; ok {
		return deafLimit
	}
	return first
}

func (l *idlers) note(win xproto.Window, inVain bool) {
	if !inVain {
		delete(*l, win)
		return
	}
	if *l == nil || len(*l) >= maxDeaf {
		*l = make(idlers)
	}
	(*l)[win] = struct{}{}
}

// waitApplication waits for what a ping does not tell: an application may not
// answer any, or ask others before it does something, as GTK asks for what is on
// the clipboard before it shows a menu. It must sleep; one of several processes,
// such as a browser, must have nothing to do in any of them.
func (in *Input) waitApplication(ctx context.Context, p watched, top xproto.Window, pings bool) error {
	if pings {
		if family := helpers(p.pid); len(family) > 1 {
			return in.waitFamily(ctx, family)
		}
	}
	for look := firstLook; ; {
		var err error
		if pings { // it was woken by that
			_, err = in.waitResting(ctx, p, nil)
		} else {
			err = in.waitWoken(ctx, p, top)
		}
		exited := errors.Is(err, os.ErrNotExist)
		switch _, _, shown := in.client(top); {
		case !shown:
			return nil
		case exited, err == nil && childEnds(p.pid): // what it showed goes away
		default:
			return err
		}
		if err := in.beforeNext(ctx, &look); err != nil { // a terminal ends with what runs in it
			return err
		}
	}
}
