package accessibility

import (
	"errors"
	"fmt"
)

// Errors that a caller may branch on, with errors.Is.
var (
	// ErrClosed is returned by calls after Close.
	ErrClosed = errors.New("accessibility is closed")
	// ErrUnavailable is returned if the desktop has no accessibility bus, because the package
	// at-spi2-core is not installed or the desktop has no session bus.
	ErrUnavailable = errors.New("no accessibility bus")
	// ErrInvalid is wrapped by every *InvalidError.
	ErrInvalid = errors.New("invalid argument")
	// ErrStale is wrapped by every *StaleError.
	ErrStale = errors.New("element is gone")
	// ErrNotFound is returned by Wait if no element matched in time.
	ErrNotFound = errors.New("no such element")
	// ErrPresent is returned by Wait with Condition.Gone if an element still matched in the end,
	// or if a program did not answer, so that its elements are not known.
	ErrPresent = errors.New("the element is still there")
	// ErrRefused is wrapped by every *RefusedError.
	ErrRefused = errors.New("element cannot do this")
	// ErrTimeout is returned by Do, and by Snapshot for Query.Root, if the program of the
	// element did not answer in time.
	ErrTimeout = errors.New("program does not answer")
)

// InvalidError is the error for an invalid argument. It wraps ErrInvalid.
type InvalidError struct {
	Field  string // the field of a struct, such as "Limit", or the parameter
	Reason string // what is accepted: "must be between 1 and 5000"
}

func (e *InvalidError) Error() string { return e.Field + ": " + e.Reason }

// Unwrap makes errors.Is(err, ErrInvalid) true.
func (e *InvalidError) Unwrap() error { return ErrInvalid }

// StaleError is returned for a reference whose element is gone. It wraps ErrStale.
type StaleError struct {
	Ref     string
	Nearest *Element // the element that is most like it; nil: none
}

func (e *StaleError) Error() string {
	if e.Nearest == nil {
		return e.Ref + ": the element is gone"
	}
	return fmt.Sprintf("%s: the element is gone; the nearest like it is %s", e.Ref, e.Nearest.line())
}

// Unwrap makes errors.Is(err, ErrStale) true.
func (e *StaleError) Unwrap() error { return ErrStale }

// RefusedError is the error for an action that an element cannot do, or for a click that another
// window got. It wraps ErrRefused.
type RefusedError struct {
	Ref    string
	Reason string // "it has no text that can be set"
}

func (e *RefusedError) Error() string { return e.Ref + ": " + e.Reason }

// Unwrap makes errors.Is(err, ErrRefused) true.
func (e *RefusedError) Unwrap() error { return ErrRefused }
