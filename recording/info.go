package recording

import (
	"time"

	"github.com/deskhand/deskhand/desktop"
)

// Status is the state of a recording.
type Status string

// The statuses of a recording.
const (
	StatusRecording  Status = "recording"  // it is active
	StatusRecovering Status = "recovering" // it ended with a crash and is being repaired
	StatusCompleted  Status = "completed"  // it ended properly, and its first picture was decoded
	// StatusRecovered means that a crash of this program or of ffmpeg, or a failure of the
	// disk, ended the recording. Its first picture was decoded.
	StatusRecovered Status = "recovered"
	StatusFailed    Status = "failed"  // its video cannot be played
	StatusDeleted   Status = "deleted" // only in the last call of StoreConfig.Notify for a recording
)

// Reason is why a recording ended.
type Reason string

// The reasons for the end of a recording.
const (
	ReasonStopped       Reason = "stopped"         // Stop was called
	ReasonMaxDuration   Reason = "max_duration"    // Config.MaxDuration
	ReasonMaxBytes      Reason = "max_bytes"       // Config.MaxBytes
	ReasonSegment       Reason = "segment"         // it continues in Info.ContinuedBy
	ReasonDiskFull      Reason = "disk_full"       // less than StoreConfig.MinFree is free
	ReasonStoreFull     Reason = "store_full"      // the next segment would be one recording too many
	ReasonDesktopClosed Reason = "desktop_closed"  // the desktop was closed
	ReasonStoreClosed   Reason = "store_closed"    // the store was closed
	ReasonEncoderKilled Reason = "encoder_killed"  // ffmpeg was killed or failed
	ReasonEncoderStuck  Reason = "encoder_stuck"   // ffmpeg accepted no picture for 15 seconds
	ReasonFilesRemoved  Reason = "files_removed"   // another program deleted its files
	ReasonWriteFailed   Reason = "write_failed"    // the disk failed
	ReasonCrashed       Reason = "program_crashed" // this program was killed, or the machine lost power
)

// Info describes a recording.
type Info struct {
	ID      string `json:"id"` // "rec_" and a ULID in lower case: ordered by time
	Desktop string `json:"desktop"`
	Title   string `json:"title,omitempty"`
	Status  Status `json:"status"`
	Reason  Reason `json:"reason,omitempty"` // why it ended
	Error   string `json:"error,omitempty"`  // what went wrong

	// ProcessID is the id of ffmpeg in the process list while the recording is active.
	ProcessID string `json:"processId,omitempty"`

	FileName string        `json:"fileName"` // for downloads
	Bytes    int64         `json:"bytes"`    // of the video file
	Started  time.Time     `json:"started"`
	Ended    time.Time     `json:"ended,omitzero"`
	Duration time.Duration `json:"duration"` // of the video

	// OtherBytes are the bytes of the timeline and the pictures when the recording ended. Zero: they were not counted.
	OtherBytes int64 `json:"otherBytes,omitempty"`

	// Region is Config.Region: the part of the screen that the video shows. Nil: the whole screen.
	Region *desktop.Rect `json:"region,omitempty"`

	Width     int   `json:"width"`
	Height    int   `json:"height"`
	FrameRate int   `json:"frameRate"` // the most pictures in a second
	Frames    int64 `json:"frames"`    // pictures in the video
	Dropped   int64 `json:"dropped"`   // pictures that were left out because the encoder was too slow
	Sound     bool  `json:"sound"`     // the file has a sound track

	// TimelineDropped is the number of entries that the timeline left out.
	TimelineDropped uint64 `json:"timelineDropped,omitempty"`

	// Guest is Config.Guest.
	Guest bool `json:"guest,omitempty"`

	// SoundProblem is why there is no sound although Config.Sound is set.
	SoundProblem string `json:"soundProblem,omitempty"`

	Continues   string `json:"continues,omitempty"`   // id of the segment before
	ContinuedBy string `json:"continuedBy,omitempty"` // id of the segment after

	// Seekable reports that the file has its index at the start, so that players can seek
	// while they load it. The index is moved there after the end.
	Seekable bool `json:"seekable"`
}

// Active reports whether the recording is active.
func (i Info) Active() bool { return i.Status == StatusRecording }
