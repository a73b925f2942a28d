package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strconv"

	"github.com/deskhand/deskhand/internal/benchkit"
)

// goal describes what a figure should be, and reports whether v is so. A nil goal
// is none.
type goal func(v float64) (text string, met bool)

func atMost(limit float64) goal {
	return func(v float64) (string, bool) { return fmt.Sprintf("at most %g", limit), v <= limit }
}

func atLeast(limit float64) goal {
	return func(v float64) (string, bool) { return fmt.Sprintf("at least %g", limit), v >= limit }
}

// add adds a figure to the table.
func (b *bench) add(what string, value float64, unit string, g goal) {
	text := benchkit.Significant(value)
	if value == float64(int(value)) {
		text = strconv.Itoa(int(value))
	}
	aim, verdict := "", ""
	if g != nil {
		var met bool
		aim, met = g(value)
		verdict = benchkit.Verdict(aim, met)
	}
	b.note("%s: %s %s", what, text, unit)
	b.table = append(b.table, []string{what, text + " " + unit, aim, verdict})
}

// addLatency adds the median of sorted times in milliseconds, and the 95th
// percentile.
func (b *bench) addLatency(what string, times []float64, median, high goal) {
	b.add(fmt.Sprintf("%s, median of %d", what, len(times)), benchkit.Quantile(times, 0.5), "ms", median)
	b.add(what+", 95th percentile", benchkit.Quantile(times, 0.95), "ms", high)
}

// note prints a detail that is not in the table.
func (b *bench) note(format string, args ...any) { b.Tell("  "+format, args...) }

// report prints the table in Markdown.
func (b *bench) report(ctx context.Context, w io.Writer) error {
	var out bytes.Buffer
	if err := b.Describe(ctx, &out); err != nil {
		return err
	}
	browser, err := benchkit.Version(ctx, "chromium", "--version")
	if err != nil {
		return err
	}
	fmt.Fprintf(&out, "Viewer: %s, headless, on the same machine.\n", browser)
	benchkit.Table(&out, []string{fmt.Sprintf("live view, %dx%d", screenWidth, screenHeight), "measured", "goal", ""}, b.table)
	_, err = out.WriteTo(w)
	return err
}
