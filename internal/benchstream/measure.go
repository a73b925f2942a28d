package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/deskhand/deskhand/internal/benchkit"
)

// bench is a run.
type bench struct {
	options
	progress io.Writer
	dir      string
	bed      *bed
	results  []*result
}

func newBench(ctx context.Context, o options, progress io.Writer) (*bench, error) {
	dir, err := os.MkdirTemp("", "deskhand-benchstream-")
	if err != nil {
		return nil, err
	}
	b := &bench{options: o, progress: progress, dir: dir}
	if err := b.open(ctx); err != nil {
		return nil, errors.Join(err, b.Close())
	}
	return b, nil
}

func (b *bench) open(ctx context.Context) (err error) {
	if b.binary == "" {
		b.binary = filepath.Join(b.dir, "deskhand-binary")
		b.tell("building deskhand")
		err = benchkit.Build(ctx, b.binary)
	} else {
		b.binary, err = filepath.Abs(b.binary)
	}
	if err != nil {
		return err
	}
	b.tell("starting the server and its desktop")
	b.bed, err = newBed(ctx, b.dir, b.binary, b.codec)
	return err
}

// Close ends everything and removes its files.
func (b *bench) Close() error {
	var err error
	if b.bed != nil {
		err = b.bed.Close()
	}
	return errors.Join(err, os.RemoveAll(b.dir))
}

func (b *bench) tell(format string, args ...any) {
	fmt.Fprintf(b.progress, format+"\n", args...)
}

// measure measures a row.
func (b *bench) measure(ctx context.Context, r row) error {
	b.tell("%s", r.key)
	res := &result{key: r.key, load: benchkit.LoadAverage()}
	b.results = append(b.results, res)
	err := r.measure(ctx, b.bed, b.options, res)
	for _, f := range res.figures {
		b.tell("  %s", f)
	}
	for _, n := range res.notes {
		b.tell("  %s", n)
	}
	return err
}

// found is what was measured over a time.
type found struct {
	took      time.Duration
	share     float64 // of a core
	kilobits  float64 // a second
	fps       float64
	keys      float64
	latencies []float64 // milliseconds, sorted
	note      string
}

// watch opens the page, has it watch and waits until all is as it stays.
func (b *bed) watch(ctx context.Context, o options, limit int) (*viewer, error) {
	v, err := b.viewer(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := v.connect(ctx, limit); err != nil {
		return nil, err
	}
	return v, pause(ctx, o.settling)
}

// over measures for a while.
func (v *viewer) over(ctx context.Context, window time.Duration) (found, error) {
	return v.until(ctx, func() error { return pause(ctx, window) })
}

// until measures while f runs.
func (v *viewer) until(ctx context.Context, f func() error) (found, error) {
	before, err := v.counts(ctx)
	if err != nil {
		return found{}, err
	}
	begun := time.Now()
	busy, err := v.b.used(ctx)
	if err != nil {
		return found{}, err
	}
	if err := f(); err != nil {
		return found{}, err
	}
	took := time.Since(begun)
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
	s := took.Seconds()
	shown := max(c.Decoded-before.Decoded, 1)
	kilobits := (c.Bytes - before.Bytes) * 8 / 1000 / s
	return found{
		took: took, share: (after - busy).Seconds() / s,
		kilobits: kilobits, fps: (c.Decoded - before.Decoded) / s, keys: c.Keys - before.Keys,
		note: fmt.Sprintf("%.1f s; %.0f kbit/s, %d allowed; %.0f decoded in %.2f ms each, %.0f dropped, %.0f freezes; jitter buffer %.2f ms; %.0f key frames, %.0f PLI, %.0f NACK, %.0f lost",
			s, kilobits, now.Target/1000, shown, (c.Decoding-before.Decoding)*1000/shown, c.Dropped-before.Dropped, c.Freezes-before.Freezes,
			(c.Waited-before.Waited)*1000/max(c.Emitted-before.Emitted, 1), c.Keys-before.Keys, c.PLIs-before.PLIs, c.NACKs-before.NACKs, c.Lost-before.Lost),
	}, nil
}

// latencies measures while something is drawn.
func (b *bed) latencies(ctx context.Context, o options, r *result, what content, gap func() time.Duration) (found, error) {
	return b.latenciesAnd(ctx, o, r, what, gap, 0, nil)
}

// latenciesAnd does so with a bound to the bit rate, in kbit/s, and calls then
// afterwards, while it is drawn on.
func (b *bed) latenciesAnd(ctx context.Context, o options, r *result, what content, gap func() time.Duration, limit int, then func(*viewer) error) (f found, err error) {
	d, err := b.startDrawing(what, gap)
	if err != nil {
		return found{}, err
	}
	defer func() { err = errors.Join(err, d.finish()) }()
	v, err := b.watch(ctx, o, limit)
	if err != nil {
		return found{}, err
	}
	if err := v.setClock(ctx); err != nil {
		return found{}, err
	}
	if err := v.ask(ctx, patience, nil, "begin", markerAt.X, markerAt.Y); err != nil {
		return found{}, err
	}
	if f, err = v.until(ctx, func() error { return v.awaitMarkers(ctx, o) }); err != nil {
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
	if err := v.ask(ctx, patience, &saw, "end"); err != nil {
		return found{}, err
	}
	f.latencies = saw.Latencies
	slices.Sort(f.latencies)
	r.note("%s; %d pictures presented, %d markers read, %d misread", f.note, saw.Presented, len(saw.Latencies), saw.Misread)
	return f, v.disconnect(ctx)
}

// awaitMarkers waits until the window is over and enough markers were seen.
func (v *viewer) awaitMarkers(ctx context.Context, o options) error {
	if err := pause(ctx, o.window); err != nil {
		return err
	}
	deadline := time.Now().Add(o.window + time.Minute)
	for {
		var n int
		if err := v.ask(ctx, patience, &n, "seen"); err != nil || n >= o.samples {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("only %d of %d markers were seen", n, o.samples)
		}
		if err := pause(ctx, time.Second); err != nil {
			return err
		}
	}
}
