package supervise

import (
	"runtime"
	"sync"
)

// forker runs functions on one operating system thread that lives as long as any child.
//
// The kernel sends the parent-death signal when the thread that forked ends, not when
// its process does (PR_SET_PDEATHSIG, prctl(2)). The Go runtime may end threads, for
// example when a goroutine exits that was locked to its thread. So a child that an
// arbitrary thread forked may be killed at any time. A child of this thread is killed
// only when the whole program dies.
type forker struct {
	mu   sync.Mutex
	refs int
	jobs chan func()
}

// acquire keeps the thread alive until release. Every do needs one.
func (f *forker) acquire() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.refs++
	if f.refs == 1 {
		f.jobs = make(chan func())
		go serve(f.jobs)
	}
}

// release undoes acquire. The last one ends the thread.
func (f *forker) release() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.refs--
	if f.refs == 0 {
		close(f.jobs)
		f.jobs = nil
	}
}

// do runs fn on the thread and waits for it.
func (f *forker) do(fn func()) {
	f.mu.Lock()
	jobs := f.jobs
	f.mu.Unlock()
	done := make(chan struct{})
	jobs <- func() {
		defer close(done)
		fn()
	}
	<-done
}

func serve(jobs <-chan func()) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for fn := range jobs {
		fn()
	}
}
