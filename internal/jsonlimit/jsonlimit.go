// Package jsonlimit bounds untrusted JSON before it is decoded. encoding/json
// accepts 10,000 levels of nesting: indenting such a text of 20 kB takes hundreds of
// megabytes, and other decoders recurse 10,000 levels deep.
package jsonlimit

import (
	"errors"
	"fmt"
)

// Limits of a text.
const (
	MaxDepth  = 100     // levels of nested objects and arrays
	MaxValues = 250_000 // elements and members

	// MaxBodyValues bounds the elements and members in a request to a desktop. Such requests
	// have a few dozen.
	MaxBodyValues = 10_000
)

var (
	// ErrTooDeep says that a text is nested too deep.
	ErrTooDeep = errors.New("is nested too deep")
	// ErrTooManyValues says that a text has too many elements and members.
	ErrTooManyValues = errors.New("has too many values")
)

// Check returns an error that wraps [ErrTooDeep] or [ErrTooManyValues] and names the limit
// if a text exceeds MaxDepth or MaxValues. It does not allocate, and stops reading where
// the text exceeds a limit. The text need not be valid.
//
// Decoding can take 300 bytes for each value of three bytes, such as {}.
func Check(text []byte) error { return CheckLimits(text, MaxDepth, MaxValues) }

// CheckBody is like Check for a request to a desktop: with MaxBodyValues.
func CheckBody(text []byte) error { return CheckLimits(text, MaxDepth, MaxBodyValues) }

// CheckLimits is like Check with other limits.
func CheckLimits(text []byte, maxDepth, maxValues int) error {
	depth, deepest, values := 0, 0, 1
	brackets(text, func(c byte) bool {
		switch c {
		case '{', '[':
			depth++
			deepest = max(deepest, depth)
			values++ // its first element or member
		case '}', ']':
			depth--
		case ',':
			values++
		}
		return deepest <= maxDepth && values <= maxValues
	})
	switch {
	case deepest > maxDepth:
		return fmt.Errorf("%w: at most %d objects and arrays may be inside of one another", ErrTooDeep, maxDepth)
	case values > maxValues:
		return fmt.Errorf("%w: at most %d elements and members may be in it", ErrTooManyValues, maxValues)
	}
	return nil
}

// Indented returns an upper bound of the size of a valid text after json.Indent. indent is the
// number of bytes of indentation per level, and level is the level of the text.
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

// brackets calls f with each of the characters {}[],: outside of strings, until f returns
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

// closing returns the index of the quotation mark that ends the string at i, or the end of the
// text.
func closing(text []byte, i int) int {
	for i++; i < len(text) && text[i] != '"'; i++ {
		if text[i] == '\\' {
			i++
		}
	}
	return i
}
