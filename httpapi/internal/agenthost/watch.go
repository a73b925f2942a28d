package agenthost

import (
	"slices"
	"strings"
	"sync"

	"github.com/deskhand/deskhand/agents"
)

// watches has the watches of a host.
type watches struct {
	mu  sync.Mutex // guards all, and ids of its elements
	all []*Watch
}

// Watch collects the ids of sessions that have changed. A slow reader costs no more memory
// than the ids.
type Watch struct {
	watches *watches
	changed chan struct{} // has an element if ids or grown may have some
	ids     map[string]struct{}
	grown   map[string]int64 // nil: growth is not watched
}

// WatchEntries is like Watch. The watch also collects the sessions whose logs have grown.
func (h *Host) WatchEntries() *Watch {
	w := h.Watch()
	h.watches.mu.Lock()
	defer h.watches.mu.Unlock()
	w.grown = map[string]int64{}
	return w
}

// Watch begins to collect. It does not start the host. The caller must close the watch.
func (h *Host) Watch() *Watch {
	w := &Watch{watches: &h.watches, changed: make(chan struct{}, 1), ids: map[string]struct{}{}}
	h.watches.mu.Lock()
	defer h.watches.mu.Unlock()
	h.watches.all = append(h.watches.all, w)
	return w
}

// onSession is eventlog.Config.OnSession.
func (h *Host) onSession(session string) {
	h.watches.mu.Lock()
	defer h.watches.mu.Unlock()
	for _, w := range h.watches.all {
		w.ids[session] = struct{}{}
		w.wake()
	}
}

// wake has Changed receive.
func (w *Watch) wake() {
	select {
	case w.changed <- struct{}{}:
	default:
	}
}

// sessionStream begins the name of each stream of a session's messages.
var sessionStream = agents.SessionStream("")

// onGrowth records that a stream has grown. before is its last entry before that.
func (w *watches) onGrowth(stream string, before int64) {
	session, ok := strings.CutPrefix(stream, sessionStream)
	if !ok {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, one := range w.all {
		if one.grown == nil {
			continue
		}
		if _, known := one.grown[session]; !known {
			one.grown[session] = before
		}
		one.wake()
	}
}

// TakeGrown returns the sessions whose logs have grown since the last call, each with its last
// entry before that. It does not block.
func (w *Watch) TakeGrown() map[string]int64 {
	w.watches.mu.Lock()
	defer w.watches.mu.Unlock()
	grown := w.grown
	w.grown = map[string]int64{}
	return grown
}

// Changed returns a channel that receives when Take or TakeGrown may return sessions. Close does
// not close it.
func (w *Watch) Changed() <-chan struct{} { return w.changed }

// Take returns the ids since the last call. It does not block.
func (w *Watch) Take() []string {
	w.watches.mu.Lock()
	defer w.watches.mu.Unlock()
	ids := make([]string, 0, len(w.ids))
	for id := range w.ids {
		ids = append(ids, id)
	}
	clear(w.ids)
	slices.Sort(ids)
	return ids
}

// Close ends the watch.
func (w *Watch) Close() {
	w.watches.mu.Lock()
	defer w.watches.mu.Unlock()
	w.watches.all = slices.DeleteFunc(w.watches.all, func(other *Watch) bool { return other == w })
}
