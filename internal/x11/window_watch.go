package x11

import (
	"context"
	"fmt"
	"maps"
	"slices"
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

// maxNews bounds the changes that wait for follow.
const maxNews = 1 << 12

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
			w.news.push(e.Window) // another window may get the number
		}
		w.wake()
	}
}

func (w *Windows) propertyChanged(e xproto.PropertyNotifyEvent) {
	a := &w.atoms
	switch e.Atom {
	case a.list, a.active, a.netName, xproto.AtomWmName:
		w.news.push(0)
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

// WaitReady waits for a window manager. A property of the root window names the window
// manager's window, which must have the same property (EWMH _NET_SUPPORTING_WM_CHECK): the
// window of a dead window manager does not exist. The window manager must also answer a probe,
// because openbox sets the properties before it handles requests.
func (w *Windows) WaitReady(ctx context.Context) error {
	var watched xproto.Window
	defer func() {
		if watched != 0 {
			w.c.unselectEvents(watched, xproto.EventMaskPropertyChange)
		}
	}()
	err := w.await(ctx, func() (bool, error) {
		child, err := w.window(w.c.root, w.atoms.check)
		if err != nil || child == 0 {
			return false, nil //nolint:nilerr // not set; a closed connection ends await
		}
		if child != watched {
			if err := w.c.selectEvents(child, xproto.EventMaskPropertyChange); err != nil {
				return false, nil //nolint:nilerr // it has gone; the next one sets the property
			}
			if watched != 0 {
				w.c.unselectEvents(watched, xproto.EventMaskPropertyChange)
			}
			watched = child
		}
		self, err := w.window(child, w.atoms.check)
		return err == nil && self == child, nil
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
// at most four titles a second, and always the last. After many changes in a second, Watch
// compares the windows at most 50 times a second, and after 100 events only when that
// second has passed. It does not report changes that were undone between two comparisons. f
// runs on a goroutine of Windows and may call all methods of this package. A second Watch
// replaces the first. stop does not wait for a running call of f.
func (w *Windows) Watch(f func(WindowEvent)) (stop func()) {
	w.watcher.Store(&f)
	return func() { w.watcher.CompareAndSwap(&f, nil) }
}

// Bounds of what Watch reports: any program can cause thousands of events.
const (
	titleInterval   = 250 * time.Millisecond // the shortest time between two titles of a window
	quickCompares   = 25                     // in a second, without a pause between them
	compareInterval = 20 * time.Millisecond  // the shortest time between two comparisons after these
	mostEvents      = 100                    // in a second, before the next comparison waits for its end
)

// follow emits the changes of windows until the connection ends.
func (w *Windows) follow() {
	s := snapshot{Windows: w, known: make(map[xproto.Window]WindowInfo), renamed: make(map[xproto.Window]time.Time), silent: true}
	var second time.Time // when s.events and compares were last 0
	compares := 0
	later := time.NewTimer(titleInterval) // for titles that were held back
	defer later.Stop()
	for {
		select {
		case <-w.c.done:
			return
		case <-w.news.ready:
		case <-later.C:
		}
		begin := time.Now()
		for _, id := range w.news.take() {
			s.closed(id)
		}
		s.compare()
		compares++
		s.silent = false
		if len(s.renamed) > 0 {
			later.Reset(titleInterval)
		}
		var pause time.Duration
		switch left := time.Until(second.Add(time.Second)); {
		case left <= 0:
			second, s.events, compares = time.Now(), 0, 0
		case s.events >= mostEvents:
			pause = left
		case compares >= quickCompares:
			pause = max(compareInterval, 4*time.Since(begin))
		}
		select {
		case <-w.c.done:
			return
		case <-time.After(pause):
		}
	}
}

// snapshot is the windows as follow saw them last.
type snapshot struct {
	*Windows
	known   map[xproto.Window]WindowInfo
	renamed map[xproto.Window]time.Time // the last WindowRenamed of each window, if that was recent
	active  xproto.Window
	silent  bool // compare emits nothing
	events  int  // that were emitted in this second
}

func (s *snapshot) emit(kind WindowEventKind, info WindowInfo) {
	if f := s.watcher.Load(); f != nil && !s.silent {
		s.events++
		(*f)(WindowEvent{kind, info})
	}
}

// compare emits what has changed since the call before. It does nothing after an error: the
// connection has ended.
func (s *snapshot) compare() {
	ids, active, err := s.rootState()
	if err != nil {
		return
	}
	for id := range s.known {
		if !slices.Contains(ids, id) {
			s.closed(id)
		}
	}
	for _, id := range ids {
		// Select first, so that changes after the look at the window have events.
		if _, ok := s.known[id]; !ok && s.c.selectEvents(id, watchWindow) == nil {
			s.known[id] = WindowInfo{}
		}
	}
	infos, err := s.describe(context.Background(), ids, active)
	if err != nil {
		return
	}
	maps.DeleteFunc(s.renamed, func(_ xproto.Window, at time.Time) bool { return time.Since(at) >= titleInterval })
	var focused WindowInfo
	for _, info := range infos {
		if info.Active {
			focused = info
		}
		before, ok := s.known[info.ID]
		_, recently := s.renamed[info.ID]
		switch {
		case !ok:
			continue // selectEvents failed: it was destroyed
		case before.ID == 0:
			s.emit(WindowOpened, info)
		case info.Title == before.Title:
		case recently:
			info.Title = before.Title
		default:
			s.renamed[info.ID] = time.Now()
			s.emit(WindowRenamed, info)
		}
		s.known[info.ID] = info
	}
	maps.DeleteFunc(s.known, func(id xproto.Window, info WindowInfo) bool {
		if info.ID == 0 { // it was destroyed meanwhile
			s.c.unselectEvents(id, watchWindow)
		}
		return info.ID == 0
	})
	if active == s.active {
		return
	}
	if focused.ID != active {
		focused, err = s.one(active, active)
	}
	if err == nil { // otherwise it was destroyed, and the next window gets the focus
		s.active = active
		s.emit(WindowFocused, focused)
	}
}

// closed forgets a window and emits WindowClosed.
func (s *snapshot) closed(id xproto.Window) {
	info, ok := s.known[id]
	if !ok {
		return
	}
	delete(s.known, id)
	s.c.unselectEvents(id, watchWindow)
	s.emit(WindowClosed, info)
}
