// Package smallregexp compiles regular expressions of clients. It refuses those whose
// programs are large: nine bytes such as ".{0,999}" become 2,000 instructions, and a match may
// take the time of all of them for each character of a text.
package smallregexp

import (
	"fmt"
	"regexp"
	"regexp/syntax"
)

// MaxSize is the largest size of an expression: its characters and operators, where the content
// of a repetition counts as often as it may be repeated.
const MaxSize = 2000

// Compile is like regexp.Compile, but returns an error if the expression is larger than
// MaxSize.
func Compile(expr string) (*regexp.Regexp, error) {
	parsed, err := syntax.Parse(expr, syntax.Perl)
	if err != nil {
		return nil, err
	}
	if size(parsed) > MaxSize {
		return nil, fmt.Errorf("it repeats too much: its size must be at most %d, where the content of a{n} counts n times", MaxSize)
	}
	return regexp.Compile(expr)
}

// size returns the size of a parsed expression. The parser has bounded it.
func size(re *syntax.Regexp) int {
	n := 1
	if re.Op == syntax.OpLiteral {
		n = len(re.Rune)
	}
	for _, sub := range re.Sub {
		n += size(sub)
	}
	if re.Op == syntax.OpRepeat {
		n *= max(re.Min, re.Max, 1)
	}
	return n
}
