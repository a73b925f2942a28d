package vp8screen

import (
	"bytes"
	"time"
)

// A refinement knows the macroblocks that were coded coarsely, to refine them when they have
// not changed for a while.
type refinement struct {
	index  int // quantiser index; negative: nothing is refined
	after  time.Duration
	coarse []byte
	since  []time.Duration // the last change of each macroblock
	count  int             // of coarse macroblocks
	next   int             // where choose continues
	oldest time.Duration   // no coarse macroblock has changed before this
}

// slack is how much coarser than index a macroblock may be without being refined. The
// difference is invisible.
const slack = 6

func newRefinement(c *Config, n int) refinement {
	return refinement{
		index: c.RefineQuantizer, after: c.RefineAfter,
		coarse: make([]byte, n), since: make([]time.Duration, n),
	}
}

// changed records that a macroblock was coded with the quantiser q.
func (r *refinement) changed(at, q int, exact bool, now time.Duration) {
	coarse := r.index >= 0 && q > r.index+slack && !exact
	r.coarse[at] = b2u(coarse)
	if coarse {
		r.since[at] = now
	}
}

func (r *refinement) refined(at int) { r.coarse[at] = 0 }

// recount updates count after a frame, in which several workers may have changed coarse.
func (r *refinement) recount(now time.Duration) {
	before := r.count
	r.count = bytes.Count(r.coarse, []byte{1})
	if before == 0 {
		r.oldest = now
	}
}

// choose marks at most limit macroblocks in work that are due and have no other work. It
// returns how many.
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
		// All macroblocks were checked.
		r.oldest = oldest
	}
	return n
}

func (r *refinement) due() time.Duration { return r.oldest + r.after }
