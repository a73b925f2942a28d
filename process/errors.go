package process

import (
	"errors"
	"fmt"

	"github.com/deskhand/deskhand/internal/supervise"
)

var (
	// ErrClosed says that the manager was closed before or during the call.
	ErrClosed = errors.New("process manager is closed")

	// ErrNotFound says that there is no process with that identifier: it never
	// existed, was removed, or its record was dropped after its end.
	ErrNotFound = errors.New("no such process")

	// ErrRunning says that the call needs a process that has ended.
	ErrRunning = errors.New("process is still running; stop or kill it before delete")

	// ErrNotRunning says that the call needs a running process.
	ErrNotRunning = errors.New("process is not running")

	// ErrNotTerminal says that the process has no terminal.
	ErrNotTerminal = errors.New("process is not running in tty mode")

	// ErrNoRoom says that the system allows no more processes, except for those that
	// this program keeps for itself. The limit is the user's or a control group's.
	ErrNoRoom = supervise.ErrNoRoom

	// ErrInputClosed says that the process takes no input: its input was closed, or
	// another part of the program started it without one.
	ErrInputClosed = errors.New("input of the process is closed")
)

// LimitError says that the maximum number of processes run.
type LimitError struct {
	Limit int // Limits.MaxProcesses
}

// Error implements error.
func (e *LimitError) Error() string {
	return fmt.Sprintf("max concurrent process limit reached (%d)", e.Limit)
}

// InvalidError reports an argument that is not valid.
type InvalidError struct {
	Field  string // of Spec, RunOptions, Limits or Config, such as "Command"
	Reason string // such as "must not be empty"
}

// Error implements error.
func (e *InvalidError) Error() string { return e.Field + " " + e.Reason }

// InputTooLargeError says that one Write has more bytes than Limits.MaxInput.
type InputTooLargeError struct {
	Size, Limit int // in bytes
}

// Error implements error.
func (e *InputTooLargeError) Error() string {
	return fmt.Sprintf("input payload exceeds maxInputBytesPerRequest (%d)", e.Limit)
}

// InputError says that a process got only a part of its input, or none.
type InputError struct {
	Written, Size int   // in bytes
	Err           error // the context's error, ErrNotRunning, ErrInputClosed or EPIPE
}

// Error implements error.
func (e *InputError) Error() string {
	return fmt.Sprintf("the process took %d of %d bytes of input: %v", e.Written, e.Size, e.Err)
}

// Unwrap returns Err.
func (e *InputError) Unwrap() error { return e.Err }

// StartError says why the system did not start a program. It wraps ENOENT if there is no
// such program, and [ErrNoRoom] if the system allows no more processes.
type StartError struct {
	Command string
	Err     error // wraps the system's error, such as a syscall.Errno
}

// Error implements error.
func (e *StartError) Error() string {
	return fmt.Sprintf("start %.200q: %v", e.Command, e.Err)
}

// Unwrap returns Err.
func (e *StartError) Unwrap() error { return e.Err }
