package recording

import (
	"errors"
	"strings"

	"github.com/deskhand/deskhand/desktop"
)

// Errors that a caller may branch on, with errors.Is.
var (
	// ErrNotFound is returned for an id that the store does not have.
	ErrNotFound = errors.New("recording not found")
	// ErrActive is returned for what cannot be done to a recording that runs.
	ErrActive = errors.New("the recording is still active; stop it first")
	// ErrNotActive is returned for what only a recording that runs can do.
	ErrNotActive = errors.New("the recording is not active")
	// ErrClosed is returned by a store that was closed.
	ErrClosed = errors.New("recording store is closed")
	// ErrTooMany is returned by Start when as many recordings run as
	// StoreConfig.MaxActive allows.
	ErrTooMany = errors.New("too many recordings are active; stop one of them first")
	// ErrTooManyClips is returned by Clip while too many clips are not closed.
	ErrTooManyClips = errors.New("too many clips are being read; close one of them first")
	// ErrNoSpace is returned when the disk has less room than
	// StoreConfig.MinFree.
	ErrNoSpace = errors.New("not enough free disk space for a recording")
	// ErrLocked is returned by Open when another store, of this program or of
	// another one, has the directory.
	ErrLocked = errors.New("the recording directory is in use by another store, of this program or of another one; share it, or name another directory")
	// ErrInvalid is wrapped by every *InvalidError. It is that of package
	// desktop.
	ErrInvalid = desktop.ErrInvalid
	// ErrMissingPrograms is wrapped by every *MissingError. It is that of
	// package desktop.
	ErrMissingPrograms = desktop.ErrMissingPrograms
	// ErrEncoder is wrapped by errors that tell how ffmpeg failed.
	ErrEncoder = errors.New("the video encoder failed")
)

// InvalidError names the argument that was refused and what would be accepted.
// It wraps ErrInvalid.
type InvalidError struct {
	Field   string // as in the Go struct, lower camel case: "frameRate"
	Problem string // a sentence that names the remedy, without a full stop
}

func (e *InvalidError) Error() string { return e.Field + ": " + e.Problem }

// Unwrap makes errors.Is(err, ErrInvalid) true.
func (e *InvalidError) Unwrap() error { return ErrInvalid }

// MissingError names what recording needs and this machine lacks. It wraps
// ErrMissingPrograms.
type MissingError struct {
	Programs []string // "ffmpeg", "ffprobe", or "libx264 (an encoder of ffmpeg)"
}

func (e *MissingError) Error() string {
	return "recording needs " + strings.Join(e.Programs, " and ") + "; install the ffmpeg of your distribution"
}

// Unwrap makes errors.Is(err, ErrMissingPrograms) true.
func (e *MissingError) Unwrap() error { return ErrMissingPrograms }
