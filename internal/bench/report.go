package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/deskhand/deskhand/internal/sdktest"
	"github.com/deskhand/deskhand/internal/supervise"
)

// report prints the table in Markdown.
func (b *bench) report(ctx context.Context, w io.Writer, results []result) error {
	var out bytes.Buffer
	if err := b.describe(ctx, &out); err != nil {
		return err
	}
	fmt.Fprintf(&out, "\n| call, %dx%d, three windows | deskhand, median (p90) | reference, median (p90) | times faster | goal | |\n", screenWidth, screenHeight)
	out.WriteString("|---|---|---|---|---|---|\n")
	for _, r := range results {
		b.line(&out, r)
	}
	if b.idle != nil {
		b.idle.write(&out)
	}
	for _, bed := range b.beds {
		if bed.lost > 0 {
			fmt.Fprintf(&out, "\nOf the characters typed, %d did not arrive on %s's desktop.\n", bed.lost, bed.name)
		}
	}
	for _, bed := range b.beds {
		if bed.repeated > 0 {
			fmt.Fprintf(&out, "\nOf %s's pictures, %d did not show the change yet and were taken again.\n", bed.name, bed.repeated)
		}
	}
	_, err := out.WriteTo(w)
	return err
}

func (b *bench) line(w io.Writer, r result) {
	goal := fmt.Sprintf("%gx", r.factor)
	if r.below > 0 {
		goal += " or below " + milliseconds(r.below)
	}
	fmt.Fprintf(w, "| %s | %s (%s) ", r.title, milliseconds(r.times[0].quantile(0.5)), milliseconds(r.times[0].quantile(0.9)))
	if b.alone {
		fmt.Fprintf(w, "| | | %s | |\n", goal)
		return
	}
	fmt.Fprintf(w, "| %s (%s) | %s | %s | %s |\n", milliseconds(r.times[1].quantile(0.5)), milliseconds(r.times[1].quantile(0.9)),
		significant(r.ratio()), goal, verdict(r.met()))
}

func (i *idle) write(w io.Writer) {
	share := i.processor.Seconds() / i.time.Seconds()
	fmt.Fprintf(w, "\nIdle, the desktop on and nobody connected:\n\n")
	fmt.Fprintf(w, "| of the server process | measured | goal | |\n|---|---|---|---|\n")
	fmt.Fprintf(w, "| processor, over %v | %.2f %% of a core | below %g %% | %s |\n",
		i.time.Round(time.Second), share*100, idleShare*100, verdict(share < idleShare))
	fmt.Fprintf(w, "| anonymous resident memory | %.1f MiB | below %d MiB | %s |\n",
		float64(i.anonymous)/(1<<20), idleMemory>>20, verdict(i.anonymous < idleMemory))
}

func verdict(met bool) string {
	if met {
		return "met"
	}
	return "**missed**"
}

func milliseconds(d time.Duration) string {
	return significant(float64(d)/float64(time.Millisecond)) + " ms"
}

// significant formats with three digits, without an exponent.
func significant(v float64) string {
	switch {
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	case v >= 1:
		return fmt.Sprintf("%.2f", v)
	}
	return fmt.Sprintf("%.3f", v)
}

// describe writes what was measured, and on which machine.
func (b *bench) describe(ctx context.Context, w io.Writer) error {
	ours, err := version(ctx, b.binary, "version")
	if err != nil {
		return err
	}
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return err
	}
	fmt.Fprintf(w, "%s; %d cores; Linux %s; %s; %d calls a row.\n", processor(), runtime.NumCPU(),
		unix.ByteSliceToString(name.Release[:]), runtime.Version(), b.calls)
	fmt.Fprintf(w, "Load average of the machine before the run: %s; after it: %s.\n", b.load, loadAverage())
	fmt.Fprintf(w, "deskhand: %s.", ours)
	if !b.alone {
		modules, err := sdktest.Install(ctx)
		if err != nil {
			return err
		}
		binary, err := sdktest.ReferenceBinary(modules)
		if err != nil {
			return err
		}
		theirs, err := version(ctx, binary, "--version")
		if err != nil {
			return err
		}
		fmt.Fprintf(w, " Reference: %s, from npm.", theirs)
	}
	fmt.Fprintln(w)
	return nil
}

// version returns what a program prints about its version, on one line.
func version(ctx context.Context, binary, arg string) (string, error) {
	var out bytes.Buffer
	err := sdktest.Run(ctx, supervise.Spec{Path: binary, Args: []string{arg}, Output: &out})
	return strings.Join(strings.Fields(out.String()), " "), err
}

// loadAverage returns that of the last minute. Where it is high before a run,
// other programs disturb the measurement.
func loadAverage() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	load, _, _ := strings.Cut(string(text), " ")
	return load
}

// processor returns the model of the processor.
func processor() string {
	text, err := os.ReadFile("/proc/cpuinfo")
	if err == nil {
		for line := range strings.Lines(string(text)) {
			if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
				return strings.TrimSpace(value)
			}
		}
	}
	return "processor unknown (" + runtime.GOARCH + ")"
}
