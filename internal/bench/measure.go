package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/deskhand/deskhand/internal/sdktest"
	"github.com/deskhand/deskhand/internal/supervise"
)

const (
	deskhandName  = "deskhand"
	referenceName = "reference"
	warmUp        = 2 // calls that are not counted
)

// bench is a run.
type bench struct {
	options
	progress io.Writer
	dir      string
	load     string // average, before anything was started
	beds     []*bed // deskhand first
	idle     *idle
}

func newBench(ctx context.Context, o options, progress io.Writer) (*bench, error) {
	dir, err := os.MkdirTemp("", "deskhand-bench-")
	if err != nil {
		return nil, err
	}
	b := &bench{options: o, progress: progress, dir: dir, load: loadAverage()}
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
		return nil
	}
	b.tell("building deskhand")
	b.binary = filepath.Join(b.dir, "deskhand-binary")
	var described bytes.Buffer
	args := []string{"describe", "--tags", "--always", "--dirty"}
	if err := sdktest.Run(ctx, supervise.Spec{Path: "git", Args: args, Stdout: &described, Stderr: io.Discard}); err != nil {
		described.Reset() // not a git checkout
	}
	return sdktest.Run(ctx, supervise.Spec{
		Path: "go",
		Args: []string{
			"build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w -X main.version=" + strings.TrimSpace(described.String()),
			"-o", b.binary, "github.com/deskhand/deskhand/cmd/deskhand",
		},
		Env: append(os.Environ(), "CGO_ENABLED=0"),
	})
}

func (b *bench) add(ctx context.Context, name string, cfg sdktest.Config) error {
	bed, err := newBed(ctx, name, b.dir, cfg)
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
	return errors.Join(append(errs, os.RemoveAll(b.dir))...)
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

// result is a row with its times.
type result struct {
	row
	times [2]sample // deskhand, reference
}

// ratio tells how many times faster deskhand is, by the medians.
func (r result) ratio() float64 {
	if r.times[0].quantile(0.5) == 0 {
		return 0
	}
	return float64(r.times[1].quantile(0.5)) / float64(r.times[0].quantile(0.5))
}

func (r result) met() bool {
	return r.ratio() >= r.factor || r.times[0].quantile(0.5) < r.below
}

// measure makes the calls of a row, of each server in turn.
func (b *bench) measure(ctx context.Context, r row) (result, error) {
	b.tell("%s", r.title)
	n := b.calls
	if r.rounds {
		n = b.rounds
	}
	res := result{row: r}
	for i := -warmUp; i < n; i++ {
		if r.rounds && i < 0 {
			continue // its calls are many already
		}
		for k, bed := range b.beds {
			took, err := withDeadline(ctx, r, bed)
			if err != nil {
				return res, err
			}
			if i >= 0 {
				res.times[k] = append(res.times[k], took)
			}
		}
	}
	for _, s := range res.times {
		slices.Sort(s)
	}
	return res, nil
}

func withDeadline(ctx context.Context, r row, bed *bed) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return r.once(ctx, bed)
}
