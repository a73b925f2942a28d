package vp8screen

import (
	"math"
	"time"
)

// A rateControl is a leaky bucket. What is sent fills it and the bit rate
// empties it, and the fuller it is, the coarser the next frame becomes; so the
// time that a frame waits for those before it stays short.
type rateControl struct {
	rate  float64 // bit/s
	debt  float64 // bits that were sent but not paid for yet
	last  time.Time
	fresh float64 // bits that a macroblock with new content costs at priceIndex
	fine  float64 // bits that one costs when it is refined
}

const (
	// priceIndex is the quantiser index that fresh is about.
	priceIndex = 24
	// movedPart is what a macroblock that moved costs, as a part of a new one.
	movedPart = 1.0 / 8
	// burst is how much may wait in the bucket after a frame, and keyBurst after
	// one in which everything is new, in seconds.
	burst, keyBurst = 0.12, 0.25
	// coarseLimit is the index up to which a single large frame may make itself
	// coarser. Above it text cannot be read, and would rather come late.
	coarseLimit = 72
	// refineShare is the part of the rate that refinement gets even when there
	// is no room.
	refineShare = 0.1
)

func newRateControl(bitrate int) rateControl {
	return rateControl{rate: float64(bitrate), fresh: 160, fine: 250}
}

// advance lets the time pass until now, which is one period after the last time
// if it is not given, and returns how much that is. A clock that jumps back or
// far ahead does no harm.
func (r *rateControl) advance(now time.Time, period time.Duration) (passed time.Duration) {
	if now.IsZero() {
		now = r.last.Add(period)
	}
	if !r.last.IsZero() {
		passed = max(0, min(now.Sub(r.last), time.Minute))
	}
	r.debt = max(0, r.debt-r.rate*passed.Seconds())
	r.last = now
	return passed
}

// priceParts is how much dearer or cheaper a macroblock is at an index than at
// priceIndex. On the corpus that is the ratio of the steps to the power of 0.4 to
// 0.6 for what programs draw, and of 0.8 for photographs.
var priceParts = func() (p [128]float64) {
	for i := range p {
		p[i] = math.Sqrt(float64(acSteps[priceIndex]) / float64(acSteps[i]))
	}
	return p
}()

// choose picks the finest quantiser between least and most with which a frame
// of so many new and moved macroblocks leaves no more than the burst waiting.
func (r *rateControl) choose(fresh, moved, least, most int, key bool) int {
	room := r.rate*burst - r.debt
	if key {
		room = r.rate*keyBurst - r.debt
	}
	bits := (float64(fresh) + movedPart*float64(moved)) * r.fresh
	q := least
	limit := max(least, min(most, coarseLimit))
	for q < limit && bits*priceParts[q] > room {
		q++
	}
	// What does not fit even so is known to be late. If that goes on, the debt
	// has the last word.
	if over := r.debt / (r.rate * burst); q == limit && over > 1 {
		q = min(most, q+int(over*16))
	}
	return q
}

// spent notes the size of a frame and learns what macroblocks cost.
func (r *rateControl) spent(bits, q, fresh, moved, refined int) {
	r.debt += float64(bits)
	left := float64(bits)
	if fresh+moved == 0 && refined >= 16 {
		r.fine += (left/float64(refined) - r.fine) / 4
		return
	}
	left -= float64(refined) * r.fine
	units := float64(fresh) + movedPart*float64(moved)
	if units < 32 || left <= 0 {
		return
	}
	price := max(4, min(2000, left/units/priceParts[q]))
	r.fresh += (price - r.fresh) / 3
}

// refinable is how many macroblocks may be refined in a frame.
func (r *rateControl) refinable(period time.Duration) int {
	room := r.rate * period.Seconds()
	if r.debt > room {
		room *= refineShare
	}
	return max(1, int(room/r.fine))
}
