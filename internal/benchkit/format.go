package benchkit

import (
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// Table writes a table in Markdown, with an empty line before it.
func Table(w io.Writer, head []string, rows [][]string) {
	lines := append([][]string{head, slices.Repeat([]string{"---"}, len(head))}, rows...)
	fmt.Fprintln(w)
	for _, cells := range lines {
		fmt.Fprintf(w, "| %s |\n", strings.Join(cells, " | "))
	}
}

// Verdict says whether a goal was met. It is empty if there is no goal.
func Verdict(goal string, met bool) string {
	switch {
	case goal == "":
		return ""
	case met:
		return "met"
	}
	return "**missed**"
}

// Quantile returns the smallest of the sorted values that at least the share q of
// them does not exceed, and 0 for no values.
func Quantile[T ~int64 | ~float64](sorted []T, q float64) T {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]
}

// Milliseconds formats a time.
func Milliseconds(d time.Duration) string {
	return Significant(float64(d)/float64(time.Millisecond)) + " ms"
}

// Significant formats with three digits, without an exponent.
func Significant(v float64) string {
	digits := 3
	for _, bound := range []float64{1, 10, 100} {
		if v >= bound {
			digits--
		}
	}
	return fmt.Sprintf("%.*f", digits, v)
}

// Line returns up to so many columns of text that look like the output of a
// program, at least half as many.
func Line(random *rand.Rand, columns int) string {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEF0123456789._/-:="
	line := make([]byte, columns/2+random.IntN(columns/2))
	for i := range line {
		if line[i] = letters[random.IntN(len(letters))]; random.IntN(7) == 0 {
			line[i] = ' '
		}
	}
	return string(line)
}
