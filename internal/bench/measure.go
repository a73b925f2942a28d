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

	// rowTimeout bounds a row. The reference needs more than a minute for fifty
	// concurrent screenshots when the machine has other work.
	rowTimeout = 15 * time.Minute
)

// bench is a run.
type bench struct {
	*benchkit.Run
	options
	memory    string // a directory on a memory file system
	reference string // path of the server that deskhand is compared with, empty with -alone
	beds      []*bed // deskhand first
	tables    [sections][][]string
}

func newBench(ctx context.Context, o options, progress io.Writer) (*bench, error) {
	base, err := benchkit.Start(ctx, o.Options, progress)
	if err != nil {
		return nil, err
	}
	b := &bench{Run: base, options: o}
	if err := b.open(ctx); err != nil {
		return nil, errors.Join(err, b.Close())
	}
	return b, nil
}

func (b *bench) open(ctx context.Context) (err error) {
	if b.memory, err = os.MkdirTemp(memoryDir, "deskhand-bench-"); err != nil {
		return err
	}
	servers := []sdktest.Config{{Binary: b.Binary}}
	switch {
	case b.alone:
	case b.against != "":
		b.reference = b.against
		servers = append(servers, sdktest.Config{Binary: b.against})
	default:
		modules, err := sdktest.Install(ctx)
		if err != nil {
			return err
		}
		if b.reference, err = sdktest.ReferenceBinary(modules); err != nil {
			return err
		}
		servers = append(servers, sdktest.Config{Binary: b.reference, Reference: true})
	}
	b.Tell("starting the servers and their desktops")
	ctx, cancel := context.WithTimeout(ctx, rowTimeout)
	defer cancel()
	for k, cfg := range servers {
		bed, err := b.newBed(ctx, []string{"deskhand", b.other()}[k], cfg)
		if err != nil {
			return err
		}
		b.beds = append(b.beds, bed)
		if err := bed.furnish(ctx); err != nil {
			return fmt.Errorf("%s: %w", bed.name, err)
		}
	}
	return nil
}

// other returns the name of the server that deskhand is compared with.
func (b *bench) other() string {
	if b.against != "" {
		return "other"
	}
	return "reference"
}

// Close ends the servers and removes their files.
func (b *bench) Close() error {
	var errs []error
	for _, bed := range b.beds {
		errs = append(errs, bed.Close())
	}
	return errors.Join(append(errs, b.Run.Close(), os.RemoveAll(b.memory))...)
}

// sample holds the durations of one server's calls, sorted when it is complete.
type sample []time.Duration

func (s sample) median() time.Duration { return benchkit.Quantile(s, 0.5) }

// String returns the median and the 90th percentile, or the only duration.
func (s sample) String() string {
	if len(s) == 1 {
		return benchkit.Milliseconds(s[0])
	}
	return fmt.Sprintf("%s (%s)", benchkit.Milliseconds(s.median()), benchkit.Milliseconds(benchkit.Quantile(s, 0.9)))
}

// result is a row with what was found, of deskhand and of the reference.
type result struct {
	row
	times  [2]sample
	missed [2]incomplete // readers
	grown  [2]int64      // bytes of resident memory, at the most
}

// ratio returns how many times faster deskhand is, by the medians.
func (r result) ratio() float64 {
	if r.times[0].median() == 0 {
		return 0
	}
	return float64(r.times[1].median()) / float64(r.times[0].median())
}

// speed returns how many MB, or messages, were moved in a second in the median.
func (r result) speed(k int) float64 {
	if r.times[k].median() == 0 {
		return 0
	}
	return (float64(r.bytes)/1e6 + float64(r.messages)) / r.times[k].median().Seconds()
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
	b.Tell("%s", r.title)
	ctx, cancel := context.WithTimeout(ctx, rowTimeout)
	defer cancel()
	res.row = r
	beds := slices.Clone(b.beds)
	if r.unsynced {
		beds[0], err = b.newBed(ctx, "deskhand-unsynced", sdktest.Config{Binary: b.Binary, Args: []string{"--database-sync", "normal"}})
		if err != nil {
			return res, err
		}
		defer func() { err = errors.Join(err, beds[0].Close()) }()
	}
	if r.impossible != "" {
		beds = beds[:1]
	}
	for _, bed := range beds {
		if err := r.before(ctx, bed); err != nil {
			return res, fmt.Errorf("%s: %w", bed.name, err)
		}
	}
	err = b.repeat(ctx, &res, beds)
	for k, bed := range beds {
		var failed error
		res.grown[k], failed = r.after(ctx, bed)
		err = errors.Join(err, failed)
		slices.Sort(res.times[k])
	}
	return res, err
}

// repeat makes the calls and notes what they find.
func (b *bench) repeat(ctx context.Context, res *result, beds []*bed) error {
	n, first := b.calls, -warmUp
	switch {
	case res.once:
		n, first = 1, 0
	case res.rounds:
		n, first = b.rounds, 0 // each consists of many calls
	case res.often:
		n *= oftenTimes
	}
	for i := first; i < n; i++ {
		for k, bed := range beds {
			took, err := res.call(ctx, bed)
			var missed incomplete
			if err != nil && !errors.As(err, &missed) {
				return err
			}
			res.missed[k] += missed
			if i >= 0 && took > 0 {
				res.times[k] = append(res.times[k], took)
			}
		}
	}
	return nil
}

// before prepares a bed for the calls of a row.
func (r row) before(ctx context.Context, b *bed) (err error) {
	if r.prepare != nil {
		if err := r.prepare(ctx, b); err != nil {
			return err
		}
	}
	if r.growth > 0 {
		b.resident, err = forgetPeak(b.server.PID)
	}
	return err
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
