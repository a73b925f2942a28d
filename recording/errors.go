package recording

import (
	"errors"
	"strings"

	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/recording/timeline"
)

// Errors that a caller may branch on, with errors.Is.
var (
	// ErrNotFound is returned for an id that the store does not have.
	ErrNotFound = errors.New("recording not found")
	// ErrActive is returned for what cannot be done to a recording that runs.
	ErrActive = errors.New("the recording is still active; stop it first")
	// ErrNotActive is timeline.ErrClosed. It is returned if a recording has ended and a
	// call is for active ones.
	ErrNotActive = timeline.ErrClosed
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
	// ErrInvalid is desktop.ErrInvalid. Every *InvalidError wraps it.
	ErrInvalid = desktop.ErrInvalid
	// ErrMissingPrograms is desktop.ErrMissingPrograms. Every *MissingError wraps it.
	ErrMissingPrograms = desktop.ErrMissingPrograms
	// ErrEncoder is wrapped by errors that tell how ffmpeg failed.
	ErrEncoder = errors.New("the video encoder failed")
)

// InvalidError names an argument that was refused. It wraps ErrInvalid.
type InvalidError = timeline.InvalidError

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
