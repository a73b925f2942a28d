package x11

import (
	"sync"
	"time"

	"github.com/deskhand/deskhand/internal/picture"
)

// watchers counts the callers of Capture.Watch.
type watchers struct {
	mu     sync.Mutex // guards the fields below
	n      int
	motion picture.Motion
}

// Watch makes the capture compare frames to find what moves, until stop. While several
// callers watch, they share the Motion. Only the frames that callers of Frame take are
// compared.
func (cp *Capture) Watch() (motion *picture.Motion, stop func()) {
	w := &cp.watching
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.n++; w.n == 1 {
		w.motion.Begin(time.Now())
	}
	return &w.motion, sync.OnceFunc(func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.n--
	})
}

// observe passes the difference between a frame and the segment to the watchers.
func (cp *Capture) observe(f *Frame) {
	w := &cp.watching
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.n == 0:
	case cp.blank:
		w.motion.Replace(time.Now())
	default:
		w.motion.Observe(time.Now(), &f.Image, cp.segment.mem, cp.dirty)
	}
}
