package main

import (
	"bytes"
	"context"
	"fmt"
	"io"

	"github.com/deskhand/deskhand/internal/benchkit"
)

// result is what was measured of a row.
type result struct {
	key     string
	load    string // average of the last minute, before
	figures []figure
	notes   []string // for who looks closer
}

// figure is one line of the table.
type figure struct {
	what  string
	value float64
	unit  string
	text  string // further values
	goal  goal
}

// goal is what a figure should be.
type goal struct {
	value  float64
	least  bool
	wanted bool
}

var noGoal goal

func atMost(v float64) goal  { return goal{v, false, true} }
func atLeast(v float64) goal { return goal{v, true, true} }

func (g goal) met(v float64) bool { return v == g.value || v > g.value == g.least }

func (r *result) add(what string, value float64, unit string, g goal) {
	r.figures = append(r.figures, figure{what: what, value: value, unit: unit, goal: g})
}

func (r *result) note(format string, args ...any) {
	r.notes = append(r.notes, fmt.Sprintf(format, args...))
}

// latency adds the median of times in milliseconds, which are sorted, and the
// 95th percentile. A goal of zero is none.
func (r *result) latency(what string, times []float64, median, high float64) {
	limit := func(v float64) goal {
		if v == 0 {
			return noGoal
		}
		return atMost(v)
	}
	r.figures = append(r.figures,
		figure{what: what + ", median", value: quantile(times, 0.5), unit: "ms", text: fmt.Sprintf("n = %d", len(times)), goal: limit(median)},
		figure{what: what + ", 95th percentile", value: quantile(times, 0.95), unit: "ms", goal: limit(high)})
}

// quantile returns the smallest value that at least that share does not exceed.
func quantile(sorted []float64, q float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]
}

func (f figure) measured() string {
	text := benchkit.Significant(f.value)
	if f.value == float64(int(f.value)) {
		text = fmt.Sprint(int(f.value))
	}
	if f.unit != "" {
		text += " " + f.unit
	}
	if f.text != "" {
		text += " (" + f.text + ")"
	}
	return text
}

func (f figure) String() string { return f.what + ": " + f.measured() }

func (f figure) aim() string {
	if !f.goal.wanted {
		return ""
	}
	word := "at most"
	if f.goal.least {
		word = "at least"
	}
	return fmt.Sprintf("%s %g", word, f.goal.value)
}

func (f figure) verdict() string {
	if !f.goal.wanted {
		return ""
	}
	return benchkit.Verdict(f.goal.met(f.value))
}

// report prints the table in Markdown.
func (b *bench) report(ctx context.Context, w io.Writer) error {
	machine, err := benchkit.Machine()
	if err != nil {
		return err
	}
	ours, err := benchkit.Version(ctx, b.binary, "version")
	if err != nil {
		return err
	}
	browser, err := benchkit.Version(ctx, "chromium", "--version")
	if err != nil {
		return err
	}
	var out bytes.Buffer
	fmt.Fprintf(&out, "%s.\n%s; viewer: %s, without a window, on the same machine.\n", machine, ours, browser)
	fmt.Fprintf(&out, "The load is the machine's average before each row: other programs' above all where it is high.\n\n")
	fmt.Fprintf(&out, "| live view, %dx%d | measured | goal | | load |\n|---|---|---|---|---|\n", screenWidth, screenHeight)
	for _, r := range b.results {
		for _, f := range r.figures {
			fmt.Fprintf(&out, "| %s | %s | %s | %s | %s |\n", f.what, f.measured(), f.aim(), f.verdict(), r.load)
		}
	}
	_, err = out.WriteTo(w)
	return err
}
