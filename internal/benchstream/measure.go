package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/deskhand/deskhand/internal/benchkit"
)

// found is what was measured over a time.
type found struct {
	share     float64   // of a core
	kilobits  float64   // a second
	latencies []float64 // milliseconds, sorted
	note      string
}

// watch opens the page, connects, and waits until the stream is steady. It asks
// for at most limit kbit/s, unless that is 0.
func (b *bench) watch(ctx context.Context, limit int) (viewer, error) {
	v, err := b.viewer(ctx)
	if err != nil {
		return v, err
	}
	if _, err := v.connect(ctx, limit); err != nil {
		return v, err
	}
	return v, benchkit.Pause(ctx, b.settling)
}

// over measures for a while.
func (v viewer) over(ctx context.Context, window time.Duration) (found, error) {
	return v.during(ctx, func() error { return benchkit.Pause(ctx, window) })
}

// during measures while f runs.
func (v viewer) during(ctx context.Context, f func() error) (found, error) {
	before, err := v.counts(ctx)
	if err != nil {
		return found{}, err
	}
	begin := time.Now()
	busy, err := v.b.used(ctx)
	if err != nil {
		return found{}, err
	}
	if err := f(); err != nil {
		return found{}, err
	}
	s := time.Since(begin).Seconds()
	after, err := v.b.used(ctx)
	if err != nil {
		return found{}, err
	}
	c, err := v.counts(ctx)
	if err != nil {
		return found{}, err
	}
	now, err := v.b.stream(ctx)
	if err != nil {
		return found{}, err
	}
	shown := max(c.Decoded-before.Decoded, 1)
	kilobits := (c.Bytes - before.Bytes) * 8 / 1000 / s
	return found{
		share: (after - busy).Seconds() / s, kilobits: kilobits,
		note: fmt.Sprintf("%.1f s; %.0f kbit/s, %d allowed; %.0f decoded in %.2f ms each, %.0f dropped, %.0f freezes; jitter buffer %.2f ms; %.0f key frames, %.0f PLI, %.0f NACK, %.0f lost",
			s, kilobits, now.Target/1000, shown, (c.Decoding-before.Decoding)*1000/shown, c.Dropped-before.Dropped, c.Freezes-before.Freezes,
			(c.Waited-before.Waited)*1000/max(c.Emitted-before.Emitted, 1), c.Keys-before.Keys, c.PLIs-before.PLIs, c.NACKs-before.NACKs, c.Lost-before.Lost),
	}, nil
}

// latencies measures while content is drawn, with a stream of at most limit
// kbit/s unless that is 0. It calls then at the end, unless that is nil, while the
// drawing goes on.
func (b *bench) latencies(ctx context.Context, inside content, limit int, then func(viewer) error) (f found, err error) {
	d, err := b.startDrawing(ctx, inside)
	if err != nil {
		return found{}, err
	}
	defer func() { err = errors.Join(err, d.finish()) }()
	v, err := b.watch(ctx, limit)
	if err != nil {
		return found{}, err
	}
	if err := v.setClock(ctx); err != nil {
		return found{}, err
	}
	if err := v.ask(ctx, nil, "begin", markerAt.X, markerAt.Y); err != nil {
		return found{}, err
	}
	if f, err = v.during(ctx, func() error { return v.awaitMarkers(ctx) }); err != nil {
		return found{}, err
	}
	if then != nil {
		if err := then(v); err != nil {
			return found{}, err
		}
	}
	var saw struct {
		Latencies          []float64
		Misread, Presented int
	}
	if err := v.ask(ctx, &saw, "end"); err != nil {
		return found{}, err
	}
	f.latencies = slices.Sorted(slices.Values(saw.Latencies))
	b.note("%s; %d pictures presented, %d markers read, %d misread", f.note, saw.Presented, len(saw.Latencies), saw.Misread)
	return f, v.disconnect(ctx)
}

// awaitMarkers waits until the window is over and enough markers were seen.
func (v viewer) awaitMarkers(ctx context.Context) error {
	if err := benchkit.Pause(ctx, v.b.window); err != nil {
		return err
	}
	deadline := time.Now().Add(v.b.window + time.Minute)
	for {
		var n int
		if err := v.ask(ctx, &n, "seen"); err != nil || n >= v.b.samples {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("only %d of %d markers were seen", n, v.b.samples)
		}
		if err := benchkit.Pause(ctx, time.Second); err != nil {
			return err
		}
	}
}
