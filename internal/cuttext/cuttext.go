// Package cuttext cuts texts that are kept longer than the message they came with.
package cuttext

import "strings"

// Cut returns the beginning of a text that has more than most bytes, without a part of a
// character at its end. It is a copy: a part of a string keeps the whole string in memory. Cut
// returns a shorter text as it is.
func Cut(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.Clone(strings.ToValidUTF8(s[:most], ""))
}
