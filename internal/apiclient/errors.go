package apiclient

import (
	"fmt"
	"strings"
	"unicode"
)

// UsageError is a command line that was not understood. Its text names the flag
// or the word, and the remedy.
type UsageError struct {
	// Command is what the user called, without the program's name: its help
	// tells more.
	Command string
	Text    string
}

func (e *UsageError) Error() string { return e.Text }

func usagef(command, format string, args ...any) error {
	return &UsageError{Command: command, Text: fmt.Sprintf(format, args...)}
}

// ProblemError is an answer of the server that tells of an error.
type ProblemError struct {
	Status int    // of HTTP
	Title  string // the same for every error of that sort
	Detail string // what went wrong this time; may be empty
	Hint   string // what to do about it; may be empty
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

// InterruptedError is an end by the context, as by Ctrl-C.
type InterruptedError struct {
	Text string // what the user has to know; empty when that is nothing
}

func (e *InterruptedError) Error() string {
	if e.Text == "" {
		return "interrupted"
	}
	return "interrupted; " + e.Text
}

// printable keeps a text that a server made from acting on the terminal.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\t' {
			return unicode.ReplacementChar
		}
		return r
	}, text)
}
