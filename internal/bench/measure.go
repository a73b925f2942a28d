package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/deskhand/deskhand/internal/benchkit"
	"github.com/deskhand/deskhand/internal/sdktest"
)

const (
	warmUp     = 2  // calls that are not counted
	oftenTimes = 20 // factor of the calls of a short row
)

// bench is a run.
type bench struct {
	options
	progress  io.Writer
	dir       string
	memory    string // a directory on a memory file system
	reference string // path of the reference server, empty with -alone
	load      string // average, before anything was started
	beds      []*bed // deskhand first
	tables    [sections][][]string
}

func newBench(ctx context.Context, o options, progress io.Writer) (*bench, error) {
	dir, err := os.MkdirTemp("", "deskhand-bench-")
	if err != nil {
		return nil, err
	}
	b := &bench{options: o, progress: progress, dir: dir, load: benchkit.LoadAverage()}
	if err := b.open(ctx); err != nil {
		return nil, errors.Join(err, b.Close())
	}
	return b, nil
}

func (b *bench) open(ctx context.Context) (err error) {
	if b.memory, err = os.MkdirTemp(memoryDir, "deskhand-bench-"); err != nil {
		return err
	}
	b.tell("finding or building the servers")
	if b.binary, err = benchkit.Binary(ctx, b.binary, b.dir); err != nil {
		return err
	}
	configs := map[string]sdktest.Config{"deskhand": {Binary: b.binary}}
	if !b.alone {
		modules, err := sdktest.Install(ctx)
		if err != nil {
			return err
		}
		if b.reference, err = sdktest.ReferenceBinary(modules); err != nil {
			return err
		}
		configs["reference"] = sdktest.Config{Binary: b.reference, Reference: true}
	}
	b.tell("starting the servers and their desktops")
	for _, name := range []string{"deskhand", "reference"} {
		cfg, ok := configs[name]
		if !ok {
			continue
		}
		bed, err := b.newBed(ctx, name, cfg)
		if err != nil {
			return err
		}
		b.beds = append(b.beds, bed)
		if err := bed.furnish(ctx); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
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

// sample holds the durations of one server's calls, sorted when it is complete.
type sample []time.Duration

func (s sample) median() time.Duration { return benchkit.Quantile(s, 0.5) }

// String returns the median and the 90th percentile.
func (s sample) String() string {
	return fmt.Sprintf("%s (%s)", benchkit.Milliseconds(s.median()), benchkit.Milliseconds(benchkit.Quantile(s, 0.9)))
}

// result is a row with what was found, of deskhand and of the reference.
type result struct {
	row
	times  [2]sample
	missed [2]incomplete // readers, in calls whose times are left out
	grown  [2]int64      // bytes of resident memory, at the most
}

// ratio returns how many times faster deskhand is, by the medians.
func (r result) ratio() float64 {
	if r.times[0].median() == 0 {
		return 0
	}
	return float64(r.times[1].median()) / float64(r.times[0].median())
}

// speed returns how many MB/s were moved in the median.
func (r result) speed(k int) float64 {
	if r.times[k].median() == 0 {
		return 0
	}
	return float64(r.bytes) / 1e6 / r.times[k].median().Seconds()
}

func (r result) met() bool {
	fast := r.factor > 0 && r.ratio() >= r.factor ||
		r.below > 0 && r.times[0].median() < r.below ||
		r.rate > 0 && r.speed(0) >= r.rate ||
		r.factor == 0 && r.below == 0 && r.rate == 0
	flat := r.growth == 0 || r.grown[0] < r.growth
	return fast && flat && r.missed[0] == 0
}

// measure makes the calls of a row, of each server in turn.
func (b *bench) measure(ctx context.Context, r row) (res result, err error) {
	b.tell("%s", r.title)
	res.row = r
	beds := b.beds
	if r.impossible != "" {
		beds = beds[:1]
		for _, bed := range b.beds[1:] {
			if _, err := withDeadline(ctx, bed, r.once); err == nil {
				return res, fmt.Errorf("%s can do it", bed.name)
			}
		}
	}
	for _, bed := range beds {
		if _, err := withDeadline(ctx, bed, r.before); err != nil {
			return res, err
		}
	}
	err = b.repeat(ctx, &res, beds)
	for k, bed := range beds {
		grown, failed := withDeadline(ctx, bed, r.after)
		res.grown[k] = grown
		err = errors.Join(err, failed)
		slices.Sort(res.times[k])
	}
	return res, err
}

// repeat makes the calls and notes what they find.
func (b *bench) repeat(ctx context.Context, res *result, beds []*bed) error {
	n, first := b.calls, -warmUp
	switch {
	case res.rounds:
		n, first = b.rounds, 0 // each consists of many calls
	case res.often:
		n *= oftenTimes
	}
	for i := first; i < n; i++ {
		for k, bed := range beds {
			took, err := withDeadline(ctx, bed, res.once)
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

// before prepares a bed for the calls of a row.
func (r row) before(ctx context.Context, b *bed) (none int64, err error) {
	if r.prepare != nil {
		if err := r.prepare(ctx, b); err != nil {
			return 0, fmt.Errorf("%s: %w", b.name, err)
		}
	}
	if r.growth > 0 {
		b.resident, err = forgetPeak(b.server.PID)
	}
	return 0, err
}

// after cleans a bed up and returns how much the server's memory has grown.
func (r row) after(ctx context.Context, b *bed) (grown int64, err error) {
	if r.growth > 0 {
		grown, err = peakMemory(b.server.PID)
		grown = max(0, grown-b.resident) // the kernel's figures are rounded
	}
	if r.finish != nil {
		err = errors.Join(err, r.finish(ctx, b))
	}
	return grown, err
}

func withDeadline[T any](ctx context.Context, b *bed, f func(context.Context, *bed) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return f(ctx, b)
}
