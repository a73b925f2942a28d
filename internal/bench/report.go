package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
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
	desktop := func(r result) bool { return !r.host }
	b.table(&out, fmt.Sprintf("call, %dx%d, three windows", screenWidth, screenHeight), results, desktop)
	b.table(&out, "call", results, func(r result) bool { return r.host })
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

// table prints those results that belong to it, if there are any.
func (b *bench) table(w io.Writer, heading string, results []result, belongs func(result) bool) {
	results = slices.DeleteFunc(slices.Clone(results), func(r result) bool { return !belongs(r) })
	if len(results) == 0 {
		return
	}
	fmt.Fprintf(w, "\n| %s | deskhand, median (p90) | reference, median (p90) | times faster | goal | |\n", heading)
	fmt.Fprint(w, "|---|---|---|---|---|---|\n")
	for _, r := range results {
		b.line(w, r)
	}
}

func (b *bench) line(w io.Writer, r result) {
	fmt.Fprintf(w, "| %s | %s ", r.title, r.found(0))
	switch {
	case b.alone:
		fmt.Fprintf(w, "| | | %s | |\n", r.goal())
	case r.impossible != "":
		fmt.Fprintf(w, "| %s | | %s | %s |\n", r.impossible, r.goal(), r.verdict())
	default:
		times := ""
		if r.ratio() > 0 {
			times = significant(r.ratio())
		}
		fmt.Fprintf(w, "| %s | %s | %s | %s |\n", r.found(1), times, r.goal(), r.verdict())
	}
}

// found tells what was measured of one server.
func (r result) found(k int) string {
	s := r.times[k]
	if len(s) == 0 {
		return "never complete"
	}
	text := fmt.Sprintf("%s (%s)", milliseconds(s.quantile(0.5)), milliseconds(s.quantile(0.9)))
	if r.bytes > 0 {
		text += fmt.Sprintf(", %s MB/s", significant(r.speed(k)))
	}
	if r.growth > 0 {
		text += fmt.Sprintf(", memory +%s MiB", significant(float64(r.grown[k])/(1<<20)))
	}
	if n := r.missed[k]; n > 0 {
		text += fmt.Sprintf("; %v", n)
	}
	return text
}

func (r result) goal() string {
	var goals []string
	if r.factor > 0 {
		goals = append(goals, fmt.Sprintf("%gx", r.factor))
	}
	if r.below > 0 {
		goals = append(goals, "below "+milliseconds(r.below))
	}
	if r.rate > 0 {
		goals = append(goals, fmt.Sprintf("%g MB/s", r.rate))
	}
	text := strings.Join(goals, " or ")
	if r.growth > 0 {
		text += fmt.Sprintf(", memory below +%d MiB", r.growth>>20)
	}
	if r.whole {
		text += ", nothing missing"
	}
	return strings.TrimPrefix(text, ", ")
}

func (r result) verdict() string {
	if r.goal() == "" {
		return ""
	}
	return verdict(r.met())
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
	fmt.Fprintf(w, "Files in memory are on %s, those on disk on %s.\n", kind(b.memory), kind(b.dir))
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
