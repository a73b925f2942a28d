package vp8screen

import (
	"bytes"
	"time"
)

// A refinement keeps track of the macroblocks that were coded coarsely, to make
// them better once they have been quiet.
type refinement struct {
	index  int // quantiser index, negative if nothing is ever refined
	after  time.Duration
	coarse []byte
	since  []time.Duration // when each changed last
	count  int             // of coarse ones
	next   int             // where to go on looking
	oldest time.Duration   // no coarse one has changed before this
}

// slack is how much coarser than the refined ones a macroblock may be without
// being refined: nobody would see the difference.
const slack = 6

func newRefinement(c *Config, n int) refinement {
	return refinement{
		index: c.RefineQuantizer, after: c.RefineAfter,
		coarse: make([]byte, n), since: make([]time.Duration, n),
	}
}

// changed notes that a macroblock was coded with the quantiser q.
func (r *refinement) changed(at, q int, exact bool, now time.Duration) {
	coarse := r.index >= 0 && q > r.index+slack && !exact
	r.coarse[at] = b2u(coarse)
	if coarse {
		r.since[at] = now
	}
}

// refined notes that a macroblock is as good as it gets.
func (r *refinement) refined(at int) { r.coarse[at] = 0 }

// recount brings the number of coarse macroblocks up to date after a frame.
// Several workers may have changed it.
func (r *refinement) recount(now time.Duration) {
	before := r.count
	r.count = bytes.Count(r.coarse, []byte{1})
	if before == 0 {
		r.oldest = now
	}
}

// choose marks at most limit of those macroblocks in work that are due and have
// nothing else to be done, and returns how many.
func (r *refinement) choose(work []byte, now time.Duration, limit int) (n int) {
	due := now - r.after
	if r.count == 0 || r.oldest > due {
		return 0
	}
	oldest := now
	left := r.count
	for range r.coarse {
		if left == 0 || n == limit {
			break
		}
		i := r.next
		if r.next++; r.next == len(r.coarse) {
			r.next = 0
		}
		if r.coarse[i] == 0 {
			continue
		}
		left--
		if r.since[i] > due || work[i] != workNone {
			oldest = min(oldest, r.since[i])
			continue
		}
		work[i] = workRefine
		n++
	}
	if n < limit {
		// All were looked at.
		r.oldest = oldest
	}
	return n
}

// due is when the next macroblock may be refined.
func (r *refinement) due() time.Duration { return r.oldest + r.after }
