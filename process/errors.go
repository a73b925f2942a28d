package process

import (
	"errors"
	"fmt"

	"github.com/deskhand/deskhand/internal/supervise"
)

var (
	// ErrClosed says that the manager was closed before or during the call.
	ErrClosed = errors.New("process manager is closed")

	// ErrNotFound says that there is no process of that identifier: there never
	// was, it was removed, or it ended so long ago that its record was dropped.
	ErrNotFound = errors.New("no such process")

	// ErrRunning says that something needs a process to have ended.
	ErrRunning = errors.New("process is still running; stop or kill it before delete")

	// ErrNotRunning says that something needs a process to run.
	ErrNotRunning = errors.New("process is not running")

	// ErrNotTerminal says that a process runs without a terminal.
	ErrNotTerminal = errors.New("process is not running in tty mode")

	// ErrNoRoom says that the system allows no more processes, except for those that
	// this program keeps for itself. The limit is the user's or a control group's.
	ErrNoRoom = supervise.ErrNoRoom

	// ErrInputClosed says that a process takes no input from here: its input
	// was closed, or another part of the program started it without.
	ErrInputClosed = errors.New("input of the process is closed")
)

// LimitError says that as many processes run as may.
type LimitError struct {
	Limit int // Limits.MaxProcesses
}

// Error implements error.
func (e *LimitError) Error() string {
	return fmt.Sprintf("max concurrent process limit reached (%d)", e.Limit)
}

// InvalidError says what is wrong with an argument.
type InvalidError struct {
	Field   string // as the HTTP API spells it: "command", "env", "user", ...
	Problem string // what follows its name in a sentence: "must not be empty"
}

// Error implements error.
func (e *InvalidError) Error() string { return e.Field + " " + e.Problem }

// InputTooLargeError says that one write has more bytes than one may.
type InputTooLargeError struct {
	Size, Limit int // in bytes; Limit is Limits.MaxInput
}

// Error implements error.
func (e *InputTooLargeError) Error() string {
	return fmt.Sprintf("input payload exceeds maxInputBytesPerRequest (%d)", e.Limit)
}

// InputError says that input reached a process in part or not at all.
type InputError struct {
	Written, Size int   // in bytes
	Err           error // why: that of the context, ErrNotRunning, ErrInputClosed, EPIPE
}

// Error implements error.
func (e *InputError) Error() string {
	return fmt.Sprintf("the process took %d of %d bytes of input: %v", e.Written, e.Size, e.Err)
}

// Unwrap returns Err.
func (e *InputError) Unwrap() error { return e.Err }

// StartError says why a program could not be started.
type StartError struct {
	Command string
	Err     error // wraps what the system said, as a syscall.Errno
}

// Error implements error.
func (e *StartError) Error() string {
	return fmt.Sprintf("start %.200q: %v", e.Command, e.Err)
}

// Unwrap returns Err.
func (e *StartError) Unwrap() error { return e.Err }
