package recording

import "time"

// Status says what a recording is.
type Status string

// The statuses of a recording.
const (
	// StatusRecording is that of a recording that runs.
	StatusRecording Status = "recording"
	// StatusRecovering is that of one which was cut short and is being
	// repaired.
	StatusRecovering Status = "recovering"
	// StatusCompleted is that of one which ended as it should and has video
	// that was seen to decode.
	StatusCompleted Status = "completed"
	// StatusRecovered is that of one which was cut short, by a crash of this
	// program or of ffmpeg, or by a disk that refused the end of it. What there
	// is of it was seen to decode.
	StatusRecovered Status = "recovered"
	// StatusFailed is that of one which has no video that can be played.
	StatusFailed Status = "failed"
	// StatusDeleted is only told to StoreConfig.Notify, as the last thing about
	// a recording.
	StatusDeleted Status = "deleted"
)

// Reason says why a recording ended.
type Reason string

// The reasons for the end of a recording.
const (
	ReasonStopped       Reason = "stopped"         // by Stop
	ReasonMaxDuration   Reason = "max_duration"    // Config.MaxDuration
	ReasonMaxBytes      Reason = "max_bytes"       // Config.MaxBytes
	ReasonSegment       Reason = "segment"         // it goes on in ContinuedBy
	ReasonDiskFull      Reason = "disk_full"       // less than StoreConfig.MinFree is left
	ReasonDesktopClosed Reason = "desktop_closed"  // the desktop was closed
	ReasonStoreClosed   Reason = "store_closed"    // the store was closed, as when the server stops
	ReasonEncoderKilled Reason = "encoder_killed"  // ffmpeg was killed, or failed
	ReasonEncoderStuck  Reason = "encoder_stuck"   // ffmpeg took no picture for a long time
	ReasonFilesRemoved  Reason = "files_removed"   // somebody removed its files
	ReasonWriteFailed   Reason = "write_failed"    // the disk refused what was written
	ReasonCrashed       Reason = "program_crashed" // this program was killed, or the machine lost power
)

// Info describes a recording.
type Info struct {
	ID      string `json:"id"` // "rec_" and a ULID in lower case: ordered by time
	Desktop string `json:"desktop"`
	Title   string `json:"title,omitempty"`
	Status  Status `json:"status"`
	Reason  Reason `json:"reason,omitempty"` // why it ended
	Error   string `json:"error,omitempty"`  // details, when something went wrong

	// ProcessID is that of ffmpeg in the process list, while it records.
	ProcessID string `json:"processId,omitempty"`

	FileName string        `json:"fileName"` // for downloads
	Bytes    int64         `json:"bytes"`    // of the video file
	Started  time.Time     `json:"started"`
	Ended    time.Time     `json:"ended,omitzero"`
	Duration time.Duration `json:"duration"` // of the video

	Width     int   `json:"width"`
	Height    int   `json:"height"`
	FrameRate int   `json:"frameRate"` // the most pictures in a second
	Frames    int64 `json:"frames"`    // pictures in the video
	Dropped   int64 `json:"dropped"`   // pictures that the encoder was too slow for
	Sound     bool  `json:"sound"`     // it has a sound track

	// TimelineDropped is the number of entries that the timeline left out, for lack of
	// room or because there were too many at once.
	TimelineDropped uint64 `json:"timelineDropped,omitempty"`

	// Guest is that of Config.
	Guest bool `json:"guest,omitempty"`

	// SoundProblem says why there is no sound although it was asked for.
	SoundProblem string `json:"soundProblem,omitempty"`

	Continues   string `json:"continues,omitempty"`   // the id of the segment before
	ContinuedBy string `json:"continuedBy,omitempty"` // the id of the segment after

	// Seekable says that the file has its index in front, so that a player can
	// seek before it has all of it. That is done after the end.
	Seekable bool `json:"seekable"`
}

// Active says whether the recording runs.
func (i Info) Active() bool { return i.Status == StatusRecording }
