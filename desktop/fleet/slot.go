package fleet

import (
	"cmp"
	"context"
	"sync"
)

// slot lets one caller at a time start, use or end a part of a desktop, such as its browser.
type slot struct {
	held chan struct{} // has an element while a caller has the slot

	mu      sync.Mutex      // guards the fields below
	callers context.Context // the contexts of take end with it
	evict   context.CancelFunc
}

// init makes the slot usable.
func (s *slot) init() {
	s.held = make(chan struct{}, 1)
	s.callers, s.evict = context.WithCancel(context.Background())
}

// take waits until no other caller has a slot of the running desktop. The context that it returns
// ends with ctx, and when takeOver is called. take returns a *StateError if the desktop does not
// run or is stopped meanwhile, or the error of that context.
func (in *Instance) take(ctx context.Context, s *slot) (taken context.Context, d Desktop, release func(), err error) {
	if _, err := in.Desktop(); err != nil {
		return nil, nil, nil, err
	}
	taken, cancel := context.WithCancel(ctx)
	s.mu.Lock()
	stop := context.AfterFunc(s.callers, cancel)
	s.mu.Unlock()
	end := func() {
		stop()
		cancel()
	}
	select {
	case s.held <- struct{}{}:
		release = func() {
			end()
			<-s.held
		}
		if d, err = in.Desktop(); err == nil {
			return taken, d, release, nil
		}
		release()
	case <-taken.Done():
		_, err = in.Desktop()
		err = cmp.Or(err, taken.Err())
		end()
	}
	return nil, nil, nil, err
}

// takeOver ends the contexts of all callers of take, and takes the slot.
func (s *slot) takeOver() (release func()) {
	s.mu.Lock()
	s.evict()
	s.mu.Unlock()
	s.held <- struct{}{}
	s.mu.Lock()
	if s.callers.Err() != nil { // else another takeOver has renewed it, and there may be new callers
		s.callers, s.evict = context.WithCancel(context.Background())
	}
	s.mu.Unlock()
	return func() { <-s.held }
}
