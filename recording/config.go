package recording

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"time"
	"unicode/utf8"

	"github.com/deskhand/deskhand/desktop"
)

const (
	// DefaultFrameRate is Config.FrameRate's.
	DefaultFrameRate = 30
	// MaxFrameRate is the highest Config.FrameRate.
	MaxFrameRate = 60

	// DefaultMaxActive is the default of StoreConfig.MaxActive.
	DefaultMaxActive = 8
	// DefaultMinFree is StoreConfig.MinFree's.
	DefaultMinFree = 256 << 20

	// minSide is the least width and height of a picture.
	minSide = 16

	// maxTitle bounds Config.Title.
	maxTitle = 1000

	// minSegment and minBytes are the least that make sense: a recording that
	// is over before its first picture is none.
	minSegment = time.Second
	minBytes   = 1 << 20
)

// Desktop is what a recording needs of a desktop. A *desktop.Desktop is one.
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

// Quality trades bytes for sharpness.
type Quality string

// The qualities.
const (
	QualityLow    Quality = "low"
	QualityMedium Quality = "medium" // the default
	QualityHigh   Quality = "high"
)

// Cursor says whether the pointer is in the picture.
type Cursor string

// The cursors.
const (
	CursorPointer Cursor = "pointer" // the default
	CursorNone    Cursor = "none"
)

// Config describes a recording. The zero value records the whole screen with the
// pointer, at up to 30 pictures a second, without sound, until it is stopped.
type Config struct {
	// Store keeps the recording. Nil: Start opens one in Dir, which is closed
	// when the recording has ended.
	Store *Store

	// Dir is where Start opens a store when there is none. Empty:
	// "recordings" in the working directory.
	Dir string

	// Title is for people.
	Title string

	// FrameRate is the most pictures in a second, 1 to 60. Zero: 30. Only
	// pictures that differ are recorded.
	FrameRate int

	// Quality trades bytes for sharpness. Empty: medium.
	Quality Quality

	// Scale makes the picture smaller, 0.1 to 1. Zero: 1.
	Scale float64

	// Region is the part of the screen to record, at least 16x16 pixels of
	// which some are on the screen. Nil: all of it.
	Region *desktop.Rect

	// Cursor says whether the pointer is in the picture. Empty: it is.
	Cursor Cursor

	// Sound adds what the desktop's programs play. Without PulseAudio, and on a
	// Desktop that has no Listen, the recording is silent, and
	// Info.SoundProblem says why.
	Sound bool

	// MaxDuration and MaxBytes end the recording. Zero: they do not.
	MaxDuration time.Duration
	MaxBytes    int64

	// SegmentLength begins another file after that time, at least a second, as
	// a recording of its own that continues this one. No picture is lost.
	// Zero: one file.
	SegmentLength time.Duration

	// ThumbnailInterval is the time between thumbnails. Zero: 10 s. Negative:
	// none.
	ThumbnailInterval time.Duration

	// Guest marks the recording of a caller who must not delete recordings.
	// Retention counts guest recordings separately, so that they replace each
	// other only. They may have at most half of StoreConfig.MaxActive.
	Guest bool

	// Logger receives debug messages. Nil: that of the store.
	Logger *slog.Logger
}

// Retention says which recordings go, the oldest first, when a recording ends or
// the store is opened. A recording that runs never does. Zero fields keep all.
// MaxCount and MaxBytes apply to guest recordings (Config.Guest) and to the other
// recordings separately.
type Retention struct {
	MaxCount int           // of recordings
	MaxAge   time.Duration // since the end
	MaxBytes int64         // of all files together
}

// StoreConfig configures a Store.
type StoreConfig struct {
	// Dir is where recordings are kept, one folder each. It is made, for this
	// user alone, if it is not there. One store at a time may have it.
	Dir string

	// Retention deletes old recordings. Zero: they are kept.
	Retention Retention

	// MaxActive is how many recordings may run at the same time. Start returns
	// ErrTooMany for one more. Zero: 8.
	MaxActive int

	// MinFree is how many bytes stay free on the disk. Zero: 256 MiB.
	MinFree int64

	// Notify hears of every change of a recording's state. It must not block,
	// nor call the store.
	Notify func(Info)

	// Logger receives debug messages. Nil: none.
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
	if c.MaxActive == 0 {
		c.MaxActive = DefaultMaxActive
	}
	if c.MinFree == 0 {
		c.MinFree = DefaultMinFree
	}
	if c.Notify == nil {
		c.Notify = func(Info) {}
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c, nil
}

func (c Config) withDefaults() Config {
	if c.FrameRate == 0 {
		c.FrameRate = DefaultFrameRate
	}
	if c.Quality == "" {
		c.Quality = QualityMedium
	}
	if c.Scale == 0 {
		c.Scale = 1
	}
	if c.Cursor == "" {
		c.Cursor = CursorPointer
	}
	if c.Region != nil {
		region := *c.Region
		c.Region = &region
	}
	return c
}

// check refuses what cannot be. It wants the defaults filled in.
func (c Config) check() error {
	switch _, quality := qualities[c.Quality]; {
	case c.FrameRate < 1 || c.FrameRate > MaxFrameRate:
		return invalid("frameRate", "must be from 1 to %d, is %d", MaxFrameRate, c.FrameRate)
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
	return checkThumbnailInterval(c.ThumbnailInterval)
}
