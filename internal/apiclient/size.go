package apiclient

import (
	"fmt"
	"os"

	"golang.org/x/term"
)

// Width returns the number of columns of a terminal, and 80 if it does not report it.
func Width(terminal *os.File) int {
	if columns, _, err := term.GetSize(int(terminal.Fd())); err == nil && columns > 0 {
		return columns
	}
	return 80
}

// ByteCount returns a size with its unit, such as "1.5 MiB".
func ByteCount(n int64) string {
	const step = 1024
	value, unit := float64(n), 0
	for ; value >= step && unit < 4; unit++ {
		value /= step
	}
	if unit == 0 {
		return fmt.Sprintf("%d B", n)
	}
	return fmt.Sprintf("%.1f %ciB", value, "KMGT"[unit-1])
}
