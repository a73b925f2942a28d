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

// WindowEventKind is a kind of WindowEvent.
type WindowEventKind uint8

// The kinds of WindowEvent.
const (
	WindowOpened WindowEventKind = iota + 1
	WindowClosed
	WindowFocused // Window is empty if no window has the focus
	WindowRenamed
)

// WindowEvent is a change of a window, and the window after it or, if it was closed, before.
type WindowEvent struct {
	Kind   WindowEventKind
	Window WindowInfo
}

// watchWindow selects events of each managed window.
const watchWindow = xproto.EventMaskPropertyChange | xproto.EventMaskStructureNotify

// A new window manager gets readyTries questions, with readyProbe to answer each: it may
// miss some, and not all window managers know the question.
const (
	readyTries = 60
	readyProbe = 15 * time.Millisecond
)

// news is the changes since follow looked. Its size does not depend on their number.
type news struct {
	ready chan struct{} // holds a token if there are changes

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

// take returns the news and clears it.
func (n *news) take() *news {
	n.mu.Lock()
	defer n.mu.Unlock()
	taken := &news{list: n.list, active: n.active, renamed: n.renamed, gone: n.gone}
	n.list, n.active, n.renamed, n.gone = false, false, nil, nil
	return taken
}

// receive runs on the connection's event goroutine.
func (w *Windows) receive(ev xgb.Event) {
	w.Manager.Event(ev)
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

// wake has await call its conditions.
func (w *Windows) wake() {
	if w.waiters.Load() == 0 {
		return
	}
	w.mu.Lock()
	close(w.changed)
	w.changed = make(chan struct{})
	w.mu.Unlock()
}

// await calls cond, and again after each change, until it returns true or an error.
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

// WaitReady waits for a window manager: its window, which a property of the root window
// names, has the same property (EWMH _NET_SUPPORTING_WM_CHECK), unlike that of one that
// has died. It must also answer a question, because openbox sets the properties before it
// handles requests.
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
			return false, nil //nolint:nilerr // not set; a closed connection ends await
		}
		child := xproto.Window(id)
		if child != watched {
			if err := w.c.selectEvents(child, xproto.EventMaskPropertyChange); err != nil {
				return false, nil //nolint:nilerr // it has gone; the next one sets the property
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
		answers, err = w.Handled(ctx, readyProbe)
	}
	if err != nil {
		return fmt.Errorf("wait for the window manager: %w", err)
	}
	return nil
}

// WaitForWindow waits for a window for which match returns true, and returns the first one
// in the list. match runs on the caller's goroutine.
func (w *Windows) WaitForWindow(ctx context.Context, match func(WindowInfo) bool) (WindowInfo, error) {
	var found WindowInfo
	err := w.await(ctx, func() (bool, error) {
		infos, err := w.List(ctx)
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
	w.Acted() // it may get the focus
	return found, nil
}

// Watch calls f when windows open, close, get the focus or another title: for one window
// at most four titles a second, and always the last. After 100 events in a second it looks
// again when the second is over, and does not report what was undone meanwhile. f runs on
// a goroutine of Windows and may use everything here. A second Watch replaces the first.
// stop does not wait for a call that is running.
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

// follow emits the changes of windows until the connection ends.
func (w *Windows) follow() {
	known := make(map[xproto.Window]WindowInfo)
	var active xproto.Window
	var second time.Time // when w.emitted was last 0
	renames := renames{emitted: make(map[xproto.Window]time.Time)}
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
				renames.emitted[id] = time.Now()
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

// mostEvents is how many events Watch reports in a second before it joins them: any program
// can cause thousands.
const mostEvents = 100

// titleInterval is the shortest time between two WindowRenamed events of one window.
const titleInterval = 250 * time.Millisecond

// renames delays the WindowRenamed events of windows that change their title all the time.
// It always reports the last title.
type renames struct {
	emitted map[xproto.Window]time.Time // the last event of each window
	waiting []xproto.Window
}

// due returns the windows, of changed and waiting, whose title may be compared now, at
// most mostEvents. wait is the time until another window is due, or zero.
func (r *renames) due(changed []xproto.Window, now time.Time) (due []xproto.Window, wait time.Duration) {
	maps.DeleteFunc(r.emitted, func(_ xproto.Window, at time.Time) bool { return now.Sub(at) >= titleInterval })
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
		at, recent := r.emitted[id]
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

// compare emits which windows opened and closed, unless silent is set.
func (w *Windows) compare(known map[xproto.Window]WindowInfo, silent bool) {
	ids, active, err := w.rootState()
	if err != nil {
		return // the connection is closed
	}
	var opened []xproto.Window
	for _, id := range ids {
		// Select first, so that changes after the look at the window have events.
		if _, ok := known[id]; !ok && w.c.selectEvents(id, watchWindow) == nil {
			opened = append(opened, id)
		}
	}
	infos, err := w.describe(context.Background(), opened, active)
	if err != nil {
		return
	}
	for id := range known {
		if !slices.Contains(ids, id) {
			w.closed(known, id)
		}
	}
	for _, id := range opened {
		i := slices.IndexFunc(infos, func(i WindowInfo) bool { return i.ID == id })
		if i < 0 {
			w.c.unselectEvents(id, watchWindow) // it was destroyed
			continue
		}
		known[id] = infos[i]
		if !silent {
			w.emit(WindowOpened, infos[i])
		}
	}
}

// closed removes a window from known and emits WindowClosed.
func (w *Windows) closed(known map[xproto.Window]WindowInfo, id xproto.Window) {
	info, ok := known[id]
	if !ok {
		return
	}
	delete(known, id)
	w.c.unselectEvents(id, watchWindow)
	w.emit(WindowClosed, info)
}

// compareTitle emits WindowRenamed if the title of a window has changed. It returns true
// in that case.
func (w *Windows) compareTitle(known map[xproto.Window]WindowInfo, id xproto.Window) bool {
	before, ok := known[id]
	if !ok {
		return false
	}
	info, err := w.Get(id)
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
	now := info.ID
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
