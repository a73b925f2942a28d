package recording

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"math"
	"time"
	"unicode/utf8"

	"github.com/deskhand/deskhand/desktop"
)

const (
	// minSide is the least width and height of a picture.
	minSide = 16

	// maxTitle bounds Config.Title.
	maxTitle = 1000

	// minSegment and minBytes are enough for a first picture.
	minSegment = time.Second
	minBytes   = 1 << 20

	// maxGuests bounds the guest recordings of a store, also those that have ended.
	maxGuests = 5000
)

// Desktop is the part of a desktop that a recording needs. A *desktop.Desktop is one.
type Desktop interface {
	Status() desktop.Status
	Feed() *desktop.Feed
	FollowCursor(ctx context.Context, f func(desktop.CursorImage)) error
	Pointer(ctx context.Context) (desktop.Pointer, error)
	Subscribe(after uint64) *desktop.Subscription
	Windows(ctx context.Context, filter desktop.WindowFilter) ([]desktop.Window, error)
	Control() desktop.Control
	Done() <-chan struct{}
}

// Quality is a trade-off between size and sharpness.
type Quality string

// The qualities.
const (
	QualityLow    Quality = "low"
	QualityMedium Quality = "medium" // the default
	QualityHigh   Quality = "high"
)

// Cursor is whether the pointer is in the picture.
type Cursor string

// The cursors.
const (
	CursorPointer Cursor = "pointer" // the default
	CursorNone    Cursor = "none"
)

// Config configures a recording. The zero value records the whole screen with the pointer, at
// up to 30 pictures a second, without sound, until Stop.
type Config struct {
	// Title is a title for people, at most 1000 bytes.
	Title string

	// FrameRate bounds the pictures a second, from 1 to 60. Zero means 30. Only pictures
	// that differ are recorded.
	FrameRate int

	// Quality is medium if it is empty.
	Quality Quality

	// Scale makes the picture smaller, from 0.1 to 1. Zero means 1.
	Scale float64

	// Region is the part of the screen to record, at least 16x16 pixels. A part of it
	// must be on the screen. Nil means the whole screen.
	Region *desktop.Rect

	// Cursor is pointer if it is empty.
	Cursor Cursor

	// Sound adds the sound that programs of the desktop play. Without PulseAudio, or if
	// the Desktop has no method Listen, the recording is silent and Info.SoundProblem says
	// why.
	Sound bool

	// MaxDuration and MaxBytes end the recording. They bound all its segments together.
	// MaxBytes is at least 1 MiB. Zero means no limit.
	MaxDuration time.Duration
	MaxBytes    int64

	// SegmentLength begins another file after that time, at least a second, as a
	// recording that continues this one. No picture is lost. Zero means one file.
	SegmentLength time.Duration

	// ThumbnailInterval is the time between thumbnails, at least a second. Zero means 10
	// seconds, a negative value no thumbnails.
	ThumbnailInterval time.Duration

	// Guest marks a recording of a caller who must not delete recordings. Retention counts
	// guest recordings separately, so that they replace each other only. At most half of
	// StoreConfig.MaxActive, but at least one, can be active.
	Guest bool
}

// Retention deletes the oldest recordings when the store is opened, when a recording has ended
// or is repaired, and when a recording reaches MaxAge. Zero fields delete none. Recordings that are
// active or being repaired are not deleted. MaxCount and MaxBytes apply to guest recordings
// (Config.Guest) and to the other recordings separately.
type Retention struct {
	MaxCount int           // of recordings
	MaxAge   time.Duration // since the end
	MaxBytes int64         // of all videos, timelines and pictures together, without markers that are added after the end
}

// StoreConfig configures a Store.
type StoreConfig struct {
	// Dir is the directory of the recordings, with a folder for each. Open makes
	// it, with access only for this user, if it does not exist. One store at a time can
	// use it.
	Dir string

	// Retention deletes old recordings. Zero means that all are kept. With 5000 guest
	// recordings, Start returns ErrFull for another one until some are deleted.
	Retention Retention

	// MaxActive bounds the active recordings. Zero means 8.
	MaxActive int

	// MinFree is the number of bytes that stay free on the disk. Zero means 256 MiB.
	MinFree int64

	// Notify is called after every change of a recording's state. It must not block or
	// call the store.
	Notify func(Info)

	// Logger receives debug messages. Nil means none.
	Logger *slog.Logger
}

func invalid(field, format string, args ...any) error {
	return &InvalidError{Field: field, Reason: fmt.Sprintf(format, args...)}
}

func (c StoreConfig) withDefaults() (StoreConfig, error) {
	switch {
	case c.Dir == "":
		return c, invalid("dir", "name the directory that holds the recordings")
	case c.MaxActive < 0:
		return c, invalid("maxActive", "must not be negative, is %d", c.MaxActive)
	case c.MinFree < 0:
		return c, invalid("minFree", "must not be negative, is %d", c.MinFree)
	case c.Retention.MaxCount < 0:
		return c, invalid("retention.maxCount", "must not be negative, is %d", c.Retention.MaxCount)
	case c.Retention.MaxAge < 0:
		return c, invalid("retention.maxAge", "must not be negative, is %v", c.Retention.MaxAge)
	case c.Retention.MaxBytes < 0:
		return c, invalid("retention.maxBytes", "must not be negative, is %d", c.Retention.MaxBytes)
	}
	c.MaxActive = cmp.Or(c.MaxActive, 8)
	c.MinFree = cmp.Or(c.MinFree, 256<<20)
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	if c.Notify == nil {
		c.Notify = func(Info) {}
	}
	return c, nil
}

func (c Config) withDefaults() Config {
	c.FrameRate = cmp.Or(c.FrameRate, 30)
	c.Quality = cmp.Or(c.Quality, QualityMedium)
	c.Scale = cmp.Or(c.Scale, 1)
	c.Cursor = cmp.Or(c.Cursor, CursorPointer)
	if c.Region != nil {
		region := *c.Region
		c.Region = &region
	}
	return c
}

// check checks a Config with its defaults.
func (c Config) check() error {
	switch _, quality := qualities[c.Quality]; {
	case c.FrameRate < 1 || c.FrameRate > 60:
		return invalid("frameRate", "must be from 1 to 60, is %d", c.FrameRate)
	case math.IsNaN(c.Scale) || c.Scale < 0.1 || c.Scale > 1:
		return invalid("scale", "must be from 0.1 to 1, is %v", c.Scale)
	case !quality:
		return invalid("quality", "must be low, medium or high, is %q", c.Quality)
	case c.Cursor != CursorPointer && c.Cursor != CursorNone:
		return invalid("cursor", "must be pointer or none, is %q", c.Cursor)
	case c.MaxDuration < 0:
		return invalid("maxDuration", "must not be negative, is %v", c.MaxDuration)
	case c.MaxBytes < 0 || c.MaxBytes > 0 && c.MaxBytes < minBytes:
		return invalid("maxBytes", "must be 0 or at least %d, is %d", minBytes, c.MaxBytes)
	case c.SegmentLength < 0 || c.SegmentLength > 0 && c.SegmentLength < minSegment:
		return invalid("segmentLength", "must be 0 or at least %v, is %v", minSegment, c.SegmentLength)
	case c.ThumbnailInterval > 0 && c.ThumbnailInterval < time.Second: // names of files have seconds
		return invalid("thumbnailInterval", "must be at least a second; negative for no thumbnails")
	case len(c.Title) > maxTitle || !utf8.ValidString(c.Title):
		return invalid("title", "must be at most %d bytes of UTF-8", maxTitle)
	}
	if r := c.Region; r != nil {
		const far = 1 << 20
		switch {
		case r.Width < minSide || r.Height < minSide:
			return invalid("region", "must be at least %dx%d, is %dx%d", minSide, minSide, r.Width, r.Height)
		case r.Width > desktop.MaxWidth || r.Height > desktop.MaxHeight || max(r.X, -r.X) > far || max(r.Y, -r.Y) > far:
			return invalid("region", "%dx%d at %d,%d is on no screen", r.Width, r.Height, r.X, r.Y)
		}
	}
	return nil
}
