package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/deskhand/deskhand/internal/benchkit"
	"github.com/deskhand/deskhand/internal/sdktest"
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
		b.writeFresh(&out)
	}
	if b.recorded != nil && len(b.recorded.scenes) > 0 {
		b.recorded.write(&out, b.alone)
	}
	if b.agents != nil {
		b.agents.write(&out)
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
			times = benchkit.Significant(r.ratio())
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
	text := fmt.Sprintf("%s (%s)", benchkit.Milliseconds(s.quantile(0.5)), benchkit.Milliseconds(s.quantile(0.9)))
	if r.bytes > 0 {
		text += fmt.Sprintf(", %s MB/s", benchkit.Significant(r.speed(k)))
	}
	if r.growth > 0 {
		text += fmt.Sprintf(", memory +%s MiB", benchkit.Significant(float64(r.grown[k])/(1<<20)))
	}
	if n := r.missed[k]; n > 0 {
		text += fmt.Sprintf("; %v", n)
	}
	return text
}

func (r result) goal() string {
	var goals []string
	switch {
	case r.factor == parity:
		goals = append(goals, "no slower")
	case r.factor > 0:
		goals = append(goals, fmt.Sprintf("%gx", r.factor))
	}
	if r.below > 0 {
		goals = append(goals, "below "+benchkit.Milliseconds(r.below))
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
	return benchkit.Verdict(r.met())
}

func (i *idle) write(w io.Writer) {
	share := i.processor.Seconds() / i.time.Seconds()
	fmt.Fprintf(w, "\nIdle, the desktop on and nobody connected:\n\n")
	fmt.Fprintf(w, "| of the server process | measured | goal | |\n|---|---|---|---|\n")
	fmt.Fprintf(w, "| processor, over %v | %.2f %% of a core | below %g %% | %s |\n",
		i.time.Round(time.Second), share*100, idleShare*100, benchkit.Verdict(share < idleShare))
	fmt.Fprintf(w, "| anonymous resident memory | %.1f MiB | below %d MiB | %s |\n",
		float64(i.anonymous)/(1<<20), idleMemory>>20, benchkit.Verdict(i.anonymous < idleMemory))
}

// writeFresh writes the servers' resident memory before the rows.
func (b *bench) writeFresh(w io.Writer) {
	text := ""
	for i, d := range b.beds {
		text += fmt.Sprintf([]string{"%.1f MB", " (%.1f MB)"}[min(i, 1)], float64(d.fresh)/1e6)
	}
	fmt.Fprintf(w, "| resident memory %v after the start, with the pages of the program file | %s | at most %d MB | %s |\n",
		b.options.idle, text, freshMemory/1_000_000, benchkit.Verdict(b.beds[0].fresh <= freshMemory))
}

// describe writes what was measured, and on which machine.
func (b *bench) describe(ctx context.Context, w io.Writer) error {
	ours, err := benchkit.Version(ctx, b.binary, "version")
	if err != nil {
		return err
	}
	machine, err := benchkit.Machine()
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "%s; %d calls a row, %d of those that are short.\n", machine, b.calls, oftenTimes*b.calls)
	fmt.Fprintf(w, "Files in memory are on %s, those on disk on %s.\n", kind(b.memory), kind(b.dir))
	fmt.Fprintf(w, "Load average of the machine before the run: %s; after it: %s.\n", b.load, benchkit.LoadAverage())
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
		theirs, err := benchkit.Version(ctx, binary, "--version")
		if err != nil {
			return err
		}
		fmt.Fprintf(w, " Reference: %s, from npm.", theirs)
	}
	fmt.Fprintln(w)
	return nil
}
