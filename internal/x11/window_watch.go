package x11

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/jezek/xgb"
	"github.com/jezek/xgb/xproto"
)

// WindowEventKind says what happened to a window.
type WindowEventKind uint8

// What can happen to a window.
const (
	WindowOpened WindowEventKind = iota + 1
	WindowClosed
	WindowFocused // Window is empty when no window has the focus now
	WindowRenamed
)

// WindowEvent is what happened, and how the window is now; was, when it closed.
type WindowEvent struct {
	Kind   WindowEventKind
	Window WindowInfo
}

// watchWindow is what must be known of each managed window.
const watchWindow = xproto.EventMaskPropertyChange | xproto.EventMaskStructureNotify

// A window manager that starts gets readyTries questions, each with readyProbe
// to answer it: it may miss some, and others than openbox may not know it.
const (
	readyTries = 60
	readyProbe = 15 * time.Millisecond
)

// news is what has changed since follow last looked. However much happens, it
// stays small.
type news struct {
	ready chan struct{} // holds a token while there is some

	mu      sync.Mutex
	list    bool
	active  bool
	renamed []xproto.Window
	gone    []xproto.Window // destroyed; another window may have the number now
}

func (n *news) add(f func(*news)) {
	n.mu.Lock()
	f(n)
	n.mu.Unlock()
	select {
	case n.ready <- struct{}{}:
	default:
	}
}

// take returns the news and leaves none.
func (n *news) take() *news {
	n.mu.Lock()
	defer n.mu.Unlock()
	taken := &news{list: n.list, active: n.active, renamed: n.renamed, gone: n.gone}
	n.list, n.active, n.renamed, n.gone = false, false, nil, nil
	return taken
}

// receive runs on the connection's event goroutine.
func (w *Windows) receive(ev xgb.Event) {
	w.manager.Event(ev)
	switch e := ev.(type) {
	case xproto.PropertyNotifyEvent:
		w.propertyChanged(e)
	case xproto.ConfigureNotifyEvent:
		w.wake()
	case xproto.DestroyNotifyEvent:
		if e.Event == e.Window { // not by way of the root window
			w.news.add(func(n *news) { n.list, n.gone = true, append(n.gone, e.Window) })
		}
		w.wake()
	}
}

func (w *Windows) propertyChanged(e xproto.PropertyNotifyEvent) {
	a := &w.atoms
	switch e.Atom {
	case a.list:
		w.news.add(func(n *news) { n.list = true })
	case a.active:
		w.news.add(func(n *news) { n.active = true })
	case a.netName, xproto.AtomWmName:
		w.news.add(func(n *news) {
			if !slices.Contains(n.renamed, e.Window) {
				n.renamed = append(n.renamed, e.Window)
			}
		})
	case a.extents, a.check, a.netState, a.wmState:
	default:
		return
	}
	w.wake()
}

// wake lets those who wait look again.
func (w *Windows) wake() {
	if w.waiters.Load() == 0 {
		return
	}
	w.mu.Lock()
	close(w.changed)
	w.changed = make(chan struct{})
	w.mu.Unlock()
}

// await calls cond now and after each change, until it reports true or an
// error.
func (w *Windows) await(ctx context.Context, cond func() (bool, error)) error {
	w.waiters.Add(1)
	defer w.waiters.Add(-1)
	for {
		w.mu.Lock()
		changed := w.changed
		w.mu.Unlock()
		if ok, err := cond(); ok || err != nil {
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		case <-w.c.done:
			return ErrConnClosed
		}
	}
}

// WaitReady returns when a window manager is there: when the window that the
// root window names as its own names itself (EWMH _NET_SUPPORTING_WM_CHECK).
// The names that a dead window manager left do not count. openbox says so before
// it listens, and a program that asks for something in between waits for
// seconds, so that it must also have answered a question.
func (w *Windows) WaitReady(ctx context.Context) error {
	var watched xproto.Window
	defer func() {
		if watched != 0 {
			w.c.unselectEvents(watched, xproto.EventMaskPropertyChange)
		}
	}()
	err := w.await(ctx, func() (bool, error) {
		id, err := w.word(w.c.root, w.atoms.check)
		if err != nil || id == 0 {
			return false, nil //nolint:nilerr // no such property yet; a closed connection ends await
		}
		child := xproto.Window(id)
		if child != watched {
			if err := w.c.selectEvents(child, xproto.EventMaskPropertyChange); err != nil {
				return false, nil //nolint:nilerr // it has gone again; the next one will be told
			}
			if watched != 0 {
				w.c.unselectEvents(watched, xproto.EventMaskPropertyChange)
			}
			watched = child
		}
		self, err := w.word(child, w.atoms.check)
		return err == nil && self == id, nil
	})
	for answers, tries := false, 0; err == nil && !answers && tries < readyTries; tries++ {
		answers, err = w.manager.Handled(ctx, readyProbe)
	}
	if err != nil {
		return fmt.Errorf("wait for the window manager: %w", err)
	}
	return nil
}

// WaitForWindow returns the first window in the list for which match is true,
// as soon as there is one. match runs on the caller's goroutine.
func (w *Windows) WaitForWindow(ctx context.Context, match func(WindowInfo) bool) (WindowInfo, error) {
	var found WindowInfo
	err := w.await(ctx, func() (bool, error) {
		infos, err := w.List()
		if err != nil {
			return false, err
		}
		i := slices.IndexFunc(infos, match)
		if i >= 0 {
			found = infos[i]
		}
		return i >= 0, nil
	})
	if err != nil {
		return WindowInfo{}, fmt.Errorf("wait for a window: %w", err)
	}
	w.manager.Acted() // a window is listed before it has the focus
	return found, nil
}

// Watch has f called when windows open, close, get the focus or another title: of one
// window at most four titles a second, and always the last. After 100 events in a second it
// looks again when the second is over, and does not report what was undone meanwhile.
// f runs on one goroutine, one call at a time, and may use everything here. There is one
// f at a time. stop does not wait for a call that is running.
func (w *Windows) Watch(f func(WindowEvent)) (stop func()) {
	w.watcher.Store(&f)
	return func() { w.watcher.CompareAndSwap(&f, nil) }
}

func (w *Windows) emit(kind WindowEventKind, info WindowInfo) {
	w.emitted++
	if f := w.watcher.Load(); f != nil {
		(*f)(WindowEvent{kind, info})
	}
}

// follow keeps up with the windows until the connection ends. The windows that
// are there when it begins count as known.
func (w *Windows) follow() {
	known := make(map[xproto.Window]WindowInfo)
	var active xproto.Window
	var second time.Time // when w.emitted was last 0
	renames := renames{told: make(map[xproto.Window]time.Time)}
	later := time.NewTimer(titleInterval)
	defer later.Stop()
	for first := true; ; first = false {
		select {
		case <-w.c.done:
			return
		case <-w.news.ready:
		case <-later.C:
		}
		now := w.news.take()
		for _, id := range now.gone {
			w.closed(known, id)
		}
		if now.list {
			w.compare(known, first)
		}
		due, wait := renames.due(now.renamed, time.Now())
		for _, id := range due {
			if w.compareTitle(known, id) {
				renames.told[id] = time.Now()
			}
		}
		if wait > 0 {
			later.Reset(wait)
		}
		if now.active {
			active = w.compareActive(known, active, first)
		}
		left := time.Until(second.Add(time.Second))
		if left <= 0 {
			second, w.emitted = time.Now(), 0
		}
		if w.emitted < mostEvents {
			continue
		}
		select {
		case <-w.c.done:
			return
		case <-time.After(left):
		}
	}
}

// mostEvents is how many events are told in a second before those that follow are put
// together: any program can cause thousands.
const mostEvents = 100

// titleInterval is the shortest time between two WindowRenamed events of one window.
const titleInterval = 250 * time.Millisecond

// renames delays the WindowRenamed events of windows that change their title all the
// time. The last title is always told.
type renames struct {
	told    map[xproto.Window]time.Time // when the last event of a window was
	waiting []xproto.Window
}

// due returns the windows whose title may be compared now, out of changed and of those
// that wait, at most mostEvents. wait is the time until the first of the others may be; zero: there is none.
func (r *renames) due(changed []xproto.Window, now time.Time) (due []xproto.Window, wait time.Duration) {
	maps.DeleteFunc(r.told, func(_ xproto.Window, at time.Time) bool { return now.Sub(at) >= titleInterval })
	for _, id := range changed {
		if !slices.Contains(r.waiting, id) {
			r.waiting = append(r.waiting, id)
		}
	}
	r.waiting = slices.DeleteFunc(r.waiting, func(id xproto.Window) bool {
		if len(due) == mostEvents {
			wait = titleInterval
			return false
		}
		at, recent := r.told[id]
		if !recent {
			due = append(due, id)
			return true
		}
		if left := titleInterval - now.Sub(at); wait == 0 || left < wait {
			wait = left
		}
		return false
	})
	return due, wait
}

// compare finds out which windows opened and closed.
func (w *Windows) compare(known map[xproto.Window]WindowInfo, silent bool) {
	ids, active, err := w.rootState()
	if err != nil {
		return // the connection is closed
	}
	var opened []xproto.Window
	for _, id := range ids {
		// Select first: what changes after the look at the window is told.
		if _, ok := known[id]; !ok && w.c.selectEvents(id, watchWindow) == nil {
			opened = append(opened, id)
		}
	}
	infos, err := w.describe(opened, active)
	if err != nil {
		return
	}
	for id := range known {
		if !slices.Contains(ids, id) {
			w.closed(known, id)
		}
	}
	for _, id := range opened {
		i := slices.IndexFunc(infos, func(i WindowInfo) bool { return i.ID == Window(id) })
		if i < 0 {
			w.c.unselectEvents(id, watchWindow) // vanished already
			continue
		}
		known[id] = infos[i]
		if !silent {
			w.emit(WindowOpened, infos[i])
		}
	}
}

// closed forgets a window.
func (w *Windows) closed(known map[xproto.Window]WindowInfo, id xproto.Window) {
	info, ok := known[id]
	if !ok {
		return
	}
	delete(known, id)
	w.c.unselectEvents(id, watchWindow)
	w.emit(WindowClosed, info)
}

// compareTitle emits WindowRenamed if the title of a window has changed, and reports
// whether it did.
func (w *Windows) compareTitle(known map[xproto.Window]WindowInfo, id xproto.Window) bool {
	before, ok := known[id]
	if !ok {
		return false
	}
	info, err := w.Get(Window(id))
	if err != nil {
		return false
	}
	known[id] = info
	if info.Title == before.Title {
		return false
	}
	w.emit(WindowRenamed, info)
	return true
}

func (w *Windows) compareActive(known map[xproto.Window]WindowInfo, before xproto.Window, silent bool) xproto.Window {
	info, err := w.Active()
	if err != nil && !errors.Is(err, ErrNoWindow) {
		return before
	}
	now := xproto.Window(info.ID)
	if now == before {
		return now
	}
	if _, ok := known[now]; !ok && now != 0 {
		w.compare(known, silent) // a window opens before it gets the focus
	}
	if !silent {
		w.emit(WindowFocused, info)
	}
	return now
}
