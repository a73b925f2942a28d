package vp8screen

import (
	"math"
	"time"
)

// A rateControl is a leaky bucket. Frames fill it and the bit rate empties it. The fuller it
// is, the coarser is the next frame, so frames do not wait long for earlier ones.
type rateControl struct {
	rate  float64 // bit/s
	debt  float64 // bits in the bucket
	last  time.Time
	fresh float64 // bits of a macroblock with new content at priceIndex
	fine  float64 // bits of a refined macroblock
}

const (
	// priceIndex is the quantiser index of fresh.
	priceIndex = 24
	// movedPart is the cost of a moved macroblock, as a part of a new one.
	movedPart = 1.0 / 8
	// burst is how much a frame may leave in the bucket, and keyBurst how much a large
	// frame may, in seconds.
	burst, keyBurst = 0.12, 0.25
	// coarseLimit is the largest index that the size of one frame may cause. Above it text
	// cannot be read, and late text is better.
	coarseLimit = 72
	// refineShare is the part of the rate that refinement gets if the bucket is full.
	refineShare = 0.1
)

func newRateControl(bitrate int) rateControl {
	return rateControl{rate: float64(bitrate), fresh: 160, fine: 250}
}

// advance empties the bucket for the time until now, and returns that time. A zero now is one
// period after the last call. Jumps of the clock are bounded.
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

// priceParts is the price of a macroblock at an index, relative to priceIndex. On the corpus
// it is the ratio of the steps to the power of 0.4 to 0.6 for what programs draw, and of 0.8
// for photographs.
var priceParts = func() (p [128]float64) {
	for i := range p {
		p[i] = math.Sqrt(float64(acSteps[priceIndex]) / float64(acSteps[i]))
	}
	return p
}()

// choose returns the finest quantiser between least and most with which a frame of so many
// new and moved macroblocks leaves at most the burst in the bucket.
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
	// If frames stay too large, the debt makes them coarser than the limit.
	if over := r.debt / (r.rate * burst); q == limit && over > 1 {
		q = min(most, q+int(over*16))
	}
	return q
}

// spent adds a frame to the bucket and learns the prices of macroblocks.
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

// refinable returns how many macroblocks a frame may refine.
func (r *rateControl) refinable(period time.Duration) int {
	room := r.rate * period.Seconds()
	if r.debt > room {
		room *= refineShare
	}
	return max(1, int(room/r.fine))
}
