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
	// ErrActive is returned by Delete for an active recording.
	ErrActive = errors.New("the recording is still active; stop it first")
	// ErrNotActive is timeline.ErrClosed. Calls that need an active recording return it if
	// the recording has ended.
	ErrNotActive = timeline.ErrClosed
	// ErrClosed is returned by Start, Clip, Mark and Delete after Store.Close.
	ErrClosed = errors.New("recording store is closed")
	// ErrTooMany is returned by Start if StoreConfig.MaxActive recordings are active. For
	// Config.Guest, it is also returned if half as many guest recordings are active.
	ErrTooMany = errors.New("too many recordings are active; stop one of them first")
	// ErrFull is returned by Start for Config.Guest if the store has 5000 guest recordings.
	ErrFull = errors.New("too many recordings of guests are kept; delete some of them first")
	// ErrTooManyClips is returned by Clip while too many clips are not closed.
	ErrTooManyClips = errors.New("too many clips are being read; close one of them first")
	// ErrNoSpace is returned by Start, by Clip, and by Mark for a recording that has ended, if at
	// most StoreConfig.MinFree is free on the disk.
	ErrNoSpace = errors.New("not enough free disk space for a recording")
	// ErrLocked is returned by Open if another store, of this program or of another one,
	// uses the directory. Start returns it if the directory was removed and another store
	// has made it again.
	ErrLocked = errors.New("the recording directory is in use by another store, of this program or of another one; share it, or name another directory")
	// ErrInvalid is desktop.ErrInvalid. Every *InvalidError wraps it.
	ErrInvalid = desktop.ErrInvalid
	// ErrMissingPrograms is desktop.ErrMissingPrograms. Every *MissingError wraps it.
	ErrMissingPrograms = desktop.ErrMissingPrograms
	// ErrEncoder is wrapped by errors of Start and Clip if ffmpeg or ffprobe fails.
	ErrEncoder = errors.New("the video encoder failed")
)

// InvalidError names an argument that was refused. It wraps ErrInvalid.
type InvalidError = timeline.InvalidError

// MissingError names programs that are not installed. It wraps ErrMissingPrograms.
type MissingError struct {
	Programs []string // "ffmpeg", "ffprobe", or "libx264 (an encoder of ffmpeg)"
}

func (e *MissingError) Error() string {
	return "recording needs " + strings.Join(e.Programs, " and ") + "; install the ffmpeg of your distribution"
}

// Unwrap returns ErrMissingPrograms.
func (e *MissingError) Unwrap() error { return ErrMissingPrograms }
