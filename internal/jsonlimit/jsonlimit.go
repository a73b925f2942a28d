// Package jsonlimit bounds untrusted JSON before it is decoded. encoding/json
// accepts 10,000 levels of nesting: indenting such a text of 20 kB takes hundreds of
// megabytes, and other code recurses as deep.
package jsonlimit

import (
	"errors"
	"fmt"
)

// MaxDepth is how many objects and arrays may be nested.
const MaxDepth = 100

// ErrTooDeep says that a text is nested too deep.
var ErrTooDeep = errors.New("is nested too deep")

// Check returns an error that wraps [ErrTooDeep] and names the limit if objects and
// arrays are nested deeper than MaxDepth. It does not allocate, and stops reading at
// the first place that is too deep. The text need not be valid.
func Check(text []byte) error { return CheckDepth(text, MaxDepth) }

// CheckDepth is like Check with another limit.
func CheckDepth(text []byte, limit int) error {
	depth, deepest := 0, 0
	brackets(text, func(c byte) bool {
		switch c {
		case '{', '[':
			depth++
			deepest = max(deepest, depth)
		case '}', ']':
			depth--
		}
		return deepest <= limit
	})
	if deepest > limit {
		return fmt.Errorf("%w: at most %d objects and arrays may be inside of one another", ErrTooDeep, limit)
	}
	return nil
}

// Indented returns an upper bound of the size of a valid text after json.Indent, with
// so many bytes of indentation for each level, beginning at a given level.
func Indented(text []byte, indent, level int) int {
	size := len(text)
	brackets(text, func(c byte) bool {
		switch c {
		case '{', '[':
			level++
		case '}', ']':
			level--
		case ':':
			size++
			return true
		}
		size += 1 + level*indent
		return true
	})
	return size
}

// brackets calls f with each of {}[],: that is not in a string, until it returns
// false.
func brackets(text []byte, f func(c byte) bool) {
	for i := 0; i < len(text); i++ {
		switch c := text[i]; c {
		case '"':
			i = closing(text, i)
		case '{', '}', '[', ']', ',', ':':
			if !f(c) {
				return
			}
		}
	}
}

// closing is the place of the quotation mark that ends the string at i, or the
// end of the text.
func closing(text []byte, i int) int {
	for i++; i < len(text) && text[i] != '"'; i++ {
		if text[i] == '\\' {
			i++
		}
	}
	return i
}
