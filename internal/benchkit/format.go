package benchkit

import (
	"fmt"
	"time"
)

// Verdict says whether a goal was met.
func Verdict(met bool) string {
	if met {
		return "met"
	}
	return "**missed**"
}

// Milliseconds formats a time.
func Milliseconds(d time.Duration) string {
	return Significant(float64(d)/float64(time.Millisecond)) + " ms"
}

// Significant formats with three digits, without an exponent.
func Significant(v float64) string {
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
