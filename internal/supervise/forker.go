package supervise

import (
	"runtime"
	"sync"
)

// forker runs functions on one operating system thread which lives as long as
// any child does.
//
// The kernel sends the parent-death signal when the thread that forked ends,
// not when its process does (prctl(2), PR_SET_PDEATHSIG). The Go runtime ends
// threads of its own accord (for one, when a goroutine exits that was locked to
// its thread), so a child forked from any thread may be killed at any time.
// Children forked here are killed when the whole program dies, and only then.
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

// release gives back what acquire took; the last one lets the thread go.
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
