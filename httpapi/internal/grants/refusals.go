package grants

import (
	"sync"
	"time"
)

// refusalInterval is the shortest time between two log lines about refusals.
const refusalInterval = time.Second

// Refusals counts requests that were refused for their token and not logged. The zero value
// is ready to use.
type Refusals struct {
	mu      sync.Mutex // guards the fields below
	logged  time.Time  // the last time that one was logged
	skipped int        // since then
}

// Take adds a refusal. It reports whether it is due to be logged, and how many were
// not logged before it.
func (r *Refusals) Take(now time.Time) (skipped int, due bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now.Sub(r.logged) < refusalInterval {
		r.skipped++
		return 0, false
	}
	skipped, r.logged, r.skipped = r.skipped, now, 0
	return skipped, true
}
