package x11

import (
	"context"
	"time"
)

// SetStall shortens the time that a transfer may make no progress.
func (cb *Clipboard) SetStall(d time.Duration) {
	_ = cb.onLoop(context.Background(), func() { cb.stall = d })
}

// Transfers returns the number of running transfers and of owned selections.
func (cb *Clipboard) Transfers() (sends, reads, owned int) {
	result := make(chan [3]int, 1)
	if cb.onLoop(context.Background(), func() { result <- [3]int{len(cb.sends), len(cb.reads), len(cb.owned)} }) != nil {
		return 0, 0, 0
	}
	r := <-result
	return r[0], r[1], r[2]
}

// DecodeCompound is for tests of titles.
var DecodeCompound = decodeCompound

// Occupy keeps the clipboard from answering until goOn is called.
func (cb *Clipboard) Occupy() (goOn func()) {
	release := make(chan struct{})
	_ = cb.onLoop(context.Background(), func() { <-release })
	return func() { close(release) }
}

// LimitEvents sets how many events wait at most.
func (cb *Clipboard) LimitEvents(n int) {
	cb.events.mu.Lock()
	defer cb.events.mu.Unlock()
	cb.events.limit = n
}

// Drops returns the number of events for which there was no room.
func (cb *Clipboard) Drops() int64 { return cb.events.dropped() }
