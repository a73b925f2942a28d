package main

import (
	"bytes"
	"context"
	"fmt"
	"image"
	"slices"
	"sync"
	"time"

	"github.com/deskhand/deskhand/desktop"
)

// tally is what was measured of a program.
type tally struct {
	actions, late, timedOut int
	last, settled, over     []time.Duration
	waits                   []wait // of a program that still runs
}

func (t *tally) add(o *tally) {
	t.actions, t.late, t.timedOut = t.actions+o.actions, t.late+o.late, t.timedOut+o.timedOut
	t.last, t.settled, t.over = append(t.last, o.last...), append(t.settled, o.settled...), append(t.over, o.over...)
}

func (t *tally) row(name string) string {
	middle := func(all []time.Duration) string {
		if len(all) == 0 {
			return ""
		}
		slices.Sort(all)
		return fmt.Sprintf("%d (%d)", all[len(all)/2].Milliseconds(), all[len(all)-1].Milliseconds())
	}
	return fmt.Sprintf("| %s | %d | %s | %s | %s | %d | %d |", name, t.actions, middle(t.last), middle(t.settled), middle(t.over), t.late, t.timedOut)
}

// change is where the screen has changed.
type change struct {
	at    time.Time
	areas []image.Rectangle
}

// watcher follows a screen independently of Settle.
type watcher struct {
	mu      sync.Mutex
	changes []change // since the start of the program
	before  []byte
}

func (w *watcher) watch(ctx context.Context, f *desktop.Feed) {
	defer f.Close()
	for {
		frame, err := f.Next(ctx)
		if err != nil {
			return
		}
		var areas []image.Rectangle
		if w.before != nil {
			areas = compare(w.before, frame)
		}
		w.before = append(w.before[:0], frame.Pix...)
		w.mu.Lock()
		w.changes = append(w.changes, change{frame.Noticed, areas})
		w.mu.Unlock()
	}
}

// still waits until nothing has changed for a time.
func (w *watcher) still(quiet time.Duration, deadline time.Time) bool {
	for last := time.Now(); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		w.mu.Lock()
		if n := len(w.changes); n > 0 && w.changes[n-1].at.After(last) {
			last = w.changes[n-1].at
		}
		w.mu.Unlock()
		if time.Since(last) >= quiet {
			return true
		}
	}
	return false
}

// compare returns the blocks of 16x16 pixels that differ, united with those beside them.
func compare(before []byte, f desktop.FeedFrame) (areas []image.Rectangle) {
	const block = 16
	for y := 0; y < f.Size.Height; y += block {
		for x := 0; x < f.Size.Width; x += block {
			differs := false
			for row := y; row < min(y+block, f.Size.Height) && !differs; row++ {
				from, to := row*f.Stride+4*x, row*f.Stride+4*min(x+block, f.Size.Width)
				differs = !bytes.Equal(before[from:to], f.Pix[from:to])
			}
			if differs {
				areas = unite(areas, image.Rect(x, y, x+block, y+block))
			}
		}
	}
	return areas
}

func unite(areas []image.Rectangle, r image.Rectangle) []image.Rectangle {
	for i := 0; i < len(areas); i++ {
		if areas[i].Inset(-1).Overlaps(r) {
			r, areas = r.Union(areas[i]), slices.Delete(areas, i, i+1)
			i = -1
		}
	}
	return append(areas, r)
}

// judge returns the last change of a wait that matters, and what mattered in the time after it.
// What matters is outside of the animations, and is not what only changes as a caret or a clock
// does: in 64x64 pixels or less, again and again, also after other waits.
func (w *watcher) judge(a wait, all []wait) (last time.Time, late image.Rectangle) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var counted []change
	for _, c := range w.changes {
		after := func(o wait) bool { return c.at.After(o.end) && o.covers(c.at) }
		if a.covers(c.at) || slices.ContainsFunc(all, after) {
			counted = append(counted, c)
		}
	}
	last = a.begin
	for _, c := range counted {
		if !a.covers(c.at) {
			continue
		}
		for _, r := range c.areas {
			switch {
			case slices.ContainsFunc(a.result.Animating, func(a desktop.Rect) bool {
				return r.In(image.Rect(a.X, a.Y, a.X+a.Width, a.Y+a.Height).Inset(-64))
			}), c.at.After(a.end) && repeats(counted, r):
			case c.at.After(a.end):
				late = late.Union(r)
			case !repeats(counted, r):
				last = c.at
			}
		}
	}
	return last, late
}

// covers reports whether a time is from the action to the end of watching.
func (a wait) covers(t time.Time) bool { return !t.Before(a.begin) && !t.After(a.end.Add(after)) }

// repeats reports whether an area is that of a caret, or small and changes more than once.
func repeats(changes []change, r image.Rectangle) bool {
	switch {
	case r.Dx() > 64 || r.Dy() > 64:
		return false
	case r.Dx() <= 32 && r.Dy() <= 48:
		return true
	}
	times := 0
	for _, c := range changes {
		for _, other := range c.areas {
			if other.Overlaps(r) && other.In(r.Inset(-16)) {
				times++
			}
		}
	}
	return times > 1
}
