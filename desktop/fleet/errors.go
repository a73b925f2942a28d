package fleet

import (
	"errors"
	"fmt"

	"github.com/deskhand/deskhand/desktop"
)

// Errors that a caller may branch on, with errors.Is.
var (
	// ErrClosed is returned after Close, CloseDesktops or StateDir.BeginClose.
	ErrClosed = errors.New("fleet is closed")
	// ErrInUse is returned if another program uses the state directory. The error
	// names the process: end it, or choose another Config.StateDir.
	ErrInUse = errors.New("another server uses the state directory")
	// ErrNotFound is wrapped by an *Error if no desktop has the id.
	ErrNotFound = errors.New("desktop not found")
	// ErrExists is wrapped by an *Error if another desktop has the id.
	ErrExists = errors.New("another desktop has this id; choose another id, or start that desktop")
	// ErrRemoving is wrapped by an *Error while Sweep removes files of that id. The
	// call may be repeated shortly.
	ErrRemoving = errors.New("files that a killed program left are being removed; try again")
	// ErrTooMany is wrapped by every *LimitError.
	ErrTooMany = errors.New("there are as many desktops as allowed; delete one, or raise MaxDesktops")
	// ErrNoMemory is wrapped by an *Error if less memory than Config.MinMemory is
	// available. The call may be repeated later.
	ErrNoMemory = errors.New("too little memory is available to start a desktop; end programs, or try again later")
	// ErrNotRunning is wrapped by every *StateError.
	ErrNotRunning = errors.New("desktop is not running")
	// ErrStopped is wrapped by an *Error if the desktop was stopped while it was
	// starting.
	ErrStopped = errors.New("desktop was stopped while it was starting")
	// ErrNoLiveView is wrapped by an *Error if the desktop is not a webrtc.Desktop.
	ErrNoLiveView = errors.New("this kind of desktop has no live view")
	// ErrNoRecording is wrapped by an *Error if the desktop is not a recording.Desktop.
	ErrNoRecording = errors.New("this kind of desktop cannot be recorded")
	// ErrRecording is wrapped by an *Error if an exclusive recording of the desktop is
	// active.
	ErrRecording = errors.New("an exclusive recording is active")
	// ErrInvalid is wrapped by every *InvalidError.
	ErrInvalid = errors.New("invalid argument")
)

// Error is an error about one desktop.
type Error struct {
	ID  string // of the desktop
	Err error  // one of the Err variables
}

func (e *Error) Error() string { return fmt.Sprintf("desktop %q: %v", e.ID, e.Err) }

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// StateError says that a desktop is not running. It wraps ErrNotRunning.
type StateError struct {
	ID    string
	State desktop.State // starting, stopping, failed or inactive

	// Cause is the error of the latest start if State is failed. It is not wrapped,
	// because it belongs to another call.
	Cause error
}

func (e *StateError) Error() string {
	text := fmt.Sprintf("desktop %q is not running: it is %s", e.ID, e.State)
	if e.Cause != nil {
		text += fmt.Sprintf(" (%v)", e.Cause)
	}
	return text
}

// Unwrap returns ErrNotRunning.
func (e *StateError) Unwrap() error { return ErrNotRunning }

// LimitError says that there are Config.MaxDesktops desktops. It wraps ErrTooMany.
type LimitError struct {
	Limit int
}

func (e *LimitError) Error() string { return fmt.Sprintf("%v (%d)", ErrTooMany, e.Limit) }

// Unwrap returns ErrTooMany.
func (e *LimitError) Unwrap() error { return ErrTooMany }

// InvalidError names the argument that was refused, and says what is accepted. It wraps
// ErrInvalid.
type InvalidError struct {
	Field  string // as in Config, or ID
	Reason string
}

func (e *InvalidError) Error() string { return e.Field + ": " + e.Reason }

// Unwrap returns ErrInvalid.
func (e *InvalidError) Unwrap() error { return ErrInvalid }
