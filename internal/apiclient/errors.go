package apiclient

import (
	"fmt"
	"strings"
	"unicode"
)

// UsageError reports a wrong command line. Its text names the flag or the word, and
// the remedy.
type UsageError struct {
	// Command is the command whose help to read, without the program's name.
	Command string
	Text    string
}

func (e *UsageError) Error() string { return e.Text }

func usagef(command, format string, args ...any) error {
	return &UsageError{Command: command, Text: fmt.Sprintf(format, args...)}
}

// ProblemError is an answer of the server that reports an error.
type ProblemError struct {
	Status int    // of HTTP
	Title  string // the same for every error of that kind
	Detail string // what went wrong, or empty
	Hint   string // the remedy, or empty
}

func (e *ProblemError) Error() string {
	text := e.Title
	if e.Detail != "" {
		text += ": " + e.Detail
	}
	text = fmt.Sprintf("%s (status %d)", printable(text), e.Status)
	if e.Hint != "" {
		text += "; " + e.Hint
	}
	return text
}

// InterruptedError reports an end by the context, as by Ctrl-C.
type InterruptedError struct {
	Text string // what is left behind, or empty
}

func (e *InterruptedError) Error() string {
	if e.Text == "" {
		return "interrupted"
	}
	return "interrupted; " + e.Text
}

// printable replaces the characters of a server's text that act on terminals.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\t' {
			return unicode.ReplacementChar
		}
		return r
	}, text)
}
