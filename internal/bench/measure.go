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
	"github.com/deskhand/deskhand/internal/sdktest"
)

const (
	deskhandName  = "deskhand"
	referenceName = "reference"
	warmUp        = 2  // calls that are not counted
	oftenTimes    = 20 // as many calls of what is short
)

// bench is a run.
type bench struct {
	options
	progress io.Writer
	dir      string
	memory   string // the same on a memory file system
	load     string // average, before anything was started
	beds     []*bed // deskhand first
	idle     *idle
	recorded *recordings
	agents   *agentFigures
}

func newBench(ctx context.Context, o options, progress io.Writer) (*bench, error) {
	dir, err := os.MkdirTemp("", "deskhand-bench-")
	if err != nil {
		return nil, err
	}
	memory, err := os.MkdirTemp(memoryDir, "deskhand-bench-")
	if err != nil {
		return nil, errors.Join(err, os.Remove(dir))
	}
	b := &bench{options: o, progress: progress, dir: dir, memory: memory, load: benchkit.LoadAverage()}
	if err := b.open(ctx); err != nil {
		return nil, errors.Join(err, b.Close())
	}
	return b, nil
}

func (b *bench) open(ctx context.Context) error {
	if err := b.build(ctx); err != nil {
		return err
	}
	b.tell("starting the servers and their desktops")
	if err := b.add(ctx, deskhandName, sdktest.Config{Binary: b.binary}); err != nil {
		return err
	}
	if b.alone {
		return nil
	}
	modules, err := sdktest.Install(ctx)
	if err != nil {
		return err
	}
	binary, err := sdktest.ReferenceBinary(modules)
	if err != nil {
		return err
	}
	return b.add(ctx, referenceName, sdktest.Config{Binary: binary, Reference: true})
}

// build builds deskhand as make build does, unless there is one to measure.
func (b *bench) build(ctx context.Context) error {
	if b.binary != "" {
		var err error
		b.binary, err = filepath.Abs(b.binary)
		return err
	}
	b.tell("building deskhand")
	b.binary = filepath.Join(b.dir, "deskhand-binary")
	return benchkit.Build(ctx, b.binary)
}

func (b *bench) add(ctx context.Context, name string, cfg sdktest.Config) error {
	bed, err := newBed(ctx, name, b.dir, b.memory, cfg)
	if err != nil {
		return err
	}
	b.beds = append(b.beds, bed)
	return nil
}

func (b *bench) tell(format string, args ...any) {
	fmt.Fprintf(b.progress, format+"\n", args...)
}

// Close ends the servers and removes their files.
func (b *bench) Close() error {
	var errs []error
	for _, bed := range b.beds {
		errs = append(errs, bed.Close())
	}
	return errors.Join(append(errs, os.RemoveAll(b.dir), os.RemoveAll(b.memory))...)
}

// sample is what one server needed for the calls of a row, sorted.
type sample []time.Duration

// quantile returns the smallest time that at least that share of the calls did
// not exceed.
func (s sample) quantile(q float64) time.Duration {
	if len(s) == 0 {
		return 0
	}
	return s[min(int(q*float64(len(s))), len(s)-1)]
}

// result is a row with what was found, of deskhand and of the reference.
type result struct {
	row
	times  [2]sample
	missed [2]incomplete // readers, in calls that are not among the times
	grown  [2]int64      // resident memory during all calls at the most, in bytes
}

// ratio tells how many times faster deskhand is, by the medians.
func (r result) ratio() float64 {
	if r.times[0].quantile(0.5) == 0 {
		return 0
	}
	return float64(r.times[1].quantile(0.5)) / float64(r.times[0].quantile(0.5))
}

// speed returns how many MB/s were moved in the median.
func (r result) speed(k int) float64 {
	median := r.times[k].quantile(0.5)
	if median == 0 {
		return 0
	}
	return float64(r.bytes) / 1e6 / median.Seconds()
}

func (r result) met() bool {
	fast := r.factor > 0 && r.ratio() >= r.factor ||
		r.below > 0 && r.times[0].quantile(0.5) < r.below ||
		r.rate > 0 && r.speed(0) >= r.rate ||
		r.factor == 0 && r.below == 0 && r.rate == 0
	flat := r.growth == 0 || r.grown[0] < r.growth
	return fast && flat && r.missed[0] == 0
}

// measure makes the calls of a row, of each server in turn.
func (b *bench) measure(ctx context.Context, r row) (result, error) {
	b.tell("%s", r.title)
	res := result{row: r}
	beds := b.beds
	if r.impossible != "" {
		beds = beds[:1]
		for _, bed := range b.beds[1:] {
			if _, err := withDeadline(ctx, r, bed); err == nil {
				return res, fmt.Errorf("%s can do it", bed.name)
			}
		}
	}
	for _, bed := range beds {
		if err := r.before(ctx, bed); err != nil {
			return res, err
		}
	}
	err := b.repeat(ctx, &res, beds)
	for k, bed := range beds {
		err = errors.Join(err, r.after(ctx, bed, &res.grown[k]))
	}
	for _, s := range res.times {
		slices.Sort(s)
	}
	return res, err
}

// repeat makes the calls and notes what they find.
func (b *bench) repeat(ctx context.Context, res *result, beds []*bed) error {
	n, first := b.calls, -warmUp
	switch {
	case res.rounds:
		n, first = b.rounds, 0 // its calls are many already
	case res.often:
		n *= oftenTimes
	}
	for i := first; i < n; i++ {
		for k, bed := range beds {
			took, err := withDeadline(ctx, res.row, bed)
			var missed incomplete
			switch {
			case errors.As(err, &missed):
				res.missed[k] += missed
			case err != nil:
				return err
			case i >= 0:
				res.times[k] = append(res.times[k], took)
			}
		}
	}
	return nil
}

func (r row) before(ctx context.Context, b *bed) (err error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if r.prepare != nil {
		if err := r.prepare(ctx, b); err != nil {
			return fmt.Errorf("%s: %w", b.name, err)
		}
	}
	if r.growth > 0 {
		b.resident, err = forgetPeak(b.server.PID)
	}
	return err
}

func (r row) after(ctx context.Context, b *bed, grown *int64) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	var errs []error
	if r.growth > 0 {
		peak, err := peakMemory(b.server.PID)
		*grown = max(0, peak-b.resident) // the kernel's figures are rounded
		errs = append(errs, err)
	}
	if r.finish != nil {
		errs = append(errs, r.finish(ctx, b))
	}
	return errors.Join(errs...)
}

func withDeadline(ctx context.Context, r row, bed *bed) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return r.once(ctx, bed)
}
