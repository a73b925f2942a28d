package main

import (
	"context"
	"errors"
	"fmt"
	"image"
	"slices"
	"sync"
	"time"

	"github.com/deskhand/deskhand/internal/benchkit"
)

// moveGap separates two moves of the pointer, so that the server does each of
// them: of moves that come together it may do only the last.
const moveGap = 40 * time.Millisecond

// measurePointer measures the time from sending a move over the data channel to
// X's report of the pointer's new position.
func (b *bench) measurePointer(ctx context.Context) error {
	var mu sync.Mutex
	arrived := make(map[image.Point]time.Time)
	v, err := b.watch(ctx, 0)
	if err != nil {
		return err
	}
	stop, err := b.x.WatchPointer(func(x, y int) {
		at := time.Now()
		mu.Lock()
		defer mu.Unlock()
		arrived[image.Pt(x, y)] = at
	})
	if err != nil {
		return err
	}
	places := make([][2]int, b.samples)
	for i := range places {
		places[i] = [2]int{100 + i%1000, 100 + i%700} // no two are the same
	}
	sent, err := v.move(ctx, places)
	err = errors.Join(err, stop())
	if err != nil {
		return err
	}
	mu.Lock()
	defer mu.Unlock()
	var times []float64
	for i, p := range places {
		if at, ok := arrived[image.Pt(p[0], p[1])]; ok {
			times = append(times, milliseconds(at)-sent[i])
		}
	}
	slices.Sort(times)
	if lost := len(places) - len(times); lost > 0 {
		b.note("%d of %d moves did not arrive", lost, len(places))
	}
	b.addLatency("pointer move on the data channel to X", times, atMost(1), nil)
	return v.disconnect(ctx)
}

// move has the page move the pointer, and returns when the page sent each move, in
// milliseconds since 1970.
func (v viewer) move(ctx context.Context, places [][2]int) (sent []float64, err error) {
	limit, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for open := false; !open; {
		if err := v.ask(limit, &open, "ready"); err != nil {
			return nil, fmt.Errorf("the data channel: %w", err)
		}
	}
	if err := v.setClock(ctx); err != nil {
		return nil, err
	}
	err = v.ask(ctx, &sent, "move", places, moveGap.Milliseconds())
	if err == nil {
		err = benchkit.Pause(ctx, time.Second) // for the last ones to arrive
	}
	return sent, err
}
