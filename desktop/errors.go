package desktop

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Errors that a caller may branch on, with errors.Is.
var (
	// ErrClosed is returned by calls after Close or during it, except Close.
	ErrClosed = errors.New("desktop is closed")
	// ErrRestarting is returned while the X server, which died, is being restarted and,
	// by calls about windows, the window manager. The caller may try again shortly.
	ErrRestarting = errors.New("desktop is restarting")
	// ErrInvalid is wrapped by every *InvalidError.
	ErrInvalid = errors.New("invalid argument")
	// ErrMissingPrograms is wrapped by every *MissingError.
	ErrMissingPrograms = errors.New("programs are missing")
	// ErrTimeout is wrapped by every *DeadlineError.
	ErrTimeout = errors.New("deadline exceeded")
	// ErrInterrupted is wrapped by every *InterruptedError.
	ErrInterrupted = errors.New("input was interrupted")
	// ErrWindowNotFound is returned when no window has the given id.
	ErrWindowNotFound = errors.New("window not found")
	// ErrNoFocusedWindow is returned when no window has the focus.
	ErrNoFocusedWindow = errors.New("no window has the focus")
	// ErrAppNotFound is returned by Launch for a program that is not on PATH, or not at
	// its absolute path.
	ErrAppNotFound = errors.New("application not found")
	// ErrNoClipboardContent is returned when the clipboard holds nothing of
	// the wanted type.
	ErrNoClipboardContent = errors.New("clipboard holds nothing of that type")
	// ErrNotPasted is returned by Type with TypePaste if no program reads the clipboard after
	// the chord that pastes.
	ErrNotPasted = errors.New("the program with the focus pasted nothing: nothing there takes a text, or it pastes by another chord")
	// ErrSecretNotFound is returned for the name of a secret that does not exist.
	ErrSecretNotFound = errors.New("no such secret")
	// ErrUnsupported is returned for calls that this desktop does not support, such as
	// Resize and Listen after Attach, and Open without xdg-open.
	ErrUnsupported = errors.New("not supported by this desktop")
)

// InvalidError names an invalid argument and says what is accepted. It wraps ErrInvalid.
type InvalidError struct {
	Field  string // the field of a struct, such as "Count", or the parameter
	Reason string // what is accepted: "must be between 1 and 100"
}

func (e *InvalidError) Error() string { return e.Field + ": " + e.Reason }

// Unwrap makes errors.Is(err, ErrInvalid) true.
func (e *InvalidError) Unwrap() error { return ErrInvalid }

// MissingError names the programs that Start or Listen did not find. It wraps
// ErrMissingPrograms.
type MissingError struct {
	Programs []string
}

func (e *MissingError) Error() string {
	return "programs are missing: " + strings.Join(e.Programs, ", ")
}

// Unwrap makes errors.Is(err, ErrMissingPrograms) true.
func (e *MissingError) Unwrap() error { return ErrMissingPrograms }

// DeadlineError is returned for an operation that took too long. It wraps ErrTimeout.
type DeadlineError struct {
	Op    string        // "type text"
	After time.Duration // the deadline
	Done  string        // the progress: "412 of 1000 characters were typed"; empty: unknown or none

	// Holder is the actor whose input had the turn for which the operation waited. Nil: it
	// did not wait for a turn.
	Holder *Actor
}

func (e *DeadlineError) Error() string {
	s := fmt.Sprintf("%s: not done after %v", e.Op, e.After)
	if e.Holder != nil {
		s += fmt.Sprintf(": it waited for input of %s to end", e.Holder)
	}
	if e.Done != "" {
		s += " (" + e.Done + ")"
	}
	return s
}

// Unwrap makes errors.Is(err, ErrTimeout) true.
func (e *DeadlineError) Unwrap() error { return ErrTimeout }

// InterruptedError is returned for an input that ended early. It wraps ErrInterrupted and
// Cause.
type InterruptedError struct {
	Op   string // "type text"
	Done string // the progress: "412 of 1000 characters were typed"; empty: unknown or none

	// Cause is a *ControlHeldError if another actor took control, or the cause
	// of the context that ended. After ReleaseAll it is an error with a fixed text.
	Cause error
}

func (e *InterruptedError) Error() string {
	s := fmt.Sprintf("%s: interrupted: %v", e.Op, e.Cause)
	if e.Done != "" {
		s += " (" + e.Done + ")"
	}
	return s
}

// Unwrap makes errors.Is(err, ErrInterrupted) true.
func (e *InterruptedError) Unwrap() []error { return []error{ErrInterrupted, e.Cause} }
