package desktop

import (
	"sync"
	"time"
)

// idle calls a function once something has not been used for a while. Nothing
// runs, and no timer is set, while it is not used at all.
type idle struct {
	after time.Duration
	f     func()

	mu      sync.Mutex // guards what follows
	last    time.Time
	timer   *time.Timer // nil: not set
	stopped bool
}

// use notes a use.
func (i *idle) use() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.last = time.Now()
	if i.timer == nil && !i.stopped {
		i.timer = time.AfterFunc(i.after, i.expire)
	}
}

func (i *idle) expire() {
	if i.expired() {
		i.f()
	}
}

func (i *idle) expired() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	rest := i.after - time.Since(i.last)
	switch {
	case i.stopped:
		return false
	case rest > 0:
		i.timer.Reset(rest)
		return false
	}
	i.timer = nil
	return true
}

// stop ends it. f may be running still.
func (i *idle) stop() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.stopped = true
	if i.timer != nil {
		i.timer.Stop()
	}
}
