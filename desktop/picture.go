package desktop

import "time"

// Format is a picture format.
type Format string

// The picture formats. WebP is lossless; Quality has no effect on it.
const (
	PNG  Format = "png"
	JPEG Format = "jpeg"
	WebP Format = "webp"
)

// CursorStyle is how a screenshot shows the pointer.
type CursorStyle string

// The cursor styles.
const (
	CursorNone      CursorStyle = ""          // not at all
	CursorCrosshair CursorStyle = "crosshair" // a red cross at its hot spot
	CursorPointer   CursorStyle = "pointer"   // the real pointer image
)

// ScreenshotOptions describe a picture. The zero value is the whole screen as PNG.
type ScreenshotOptions struct {
	Region  *Rect   // nil: the whole screen; cut at the right and bottom edges
	Format  Format  // empty: PNG
	Quality int     // 1-100, of JPEG; zero: 85
	Scale   float64 // 0.1-1; zero: 1
	Cursor  CursorStyle

	// IfChangedSince is an observation's ID. If the picture would be the same, Screenshot
	// makes none, and Screenshot.Unchanged is true. An unknown ID has no effect.
	IfChangedSince string

	// Settle is how long the screen must not have changed before the picture is taken, at
	// most one minute. Zero: Screenshot does not wait.
	Settle time.Duration

	// SettleTimeout is how long Screenshot waits for that, at most five minutes. After it,
	// Screenshot takes the picture although the screen changes. Zero: 5 s.
	SettleTimeout time.Duration
}

// Screenshot is a picture of the screen.
type Screenshot struct {
	Observation
	Data      []byte // the encoded picture; the caller must not change it
	Format    Format
	Unchanged bool // nothing changed since ScreenshotOptions.IfChangedSince; Data is nil
	Settled   bool // the screen was quiet for ScreenshotOptions.Settle; true when that is zero
}

// Observation maps coordinates in a picture to the screen.
type Observation struct {
	// ID is for pointer actions, whose coordinates are then in the picture, and for
	// ScreenshotOptions.IfChangedSince.
	ID string
	// Size is the size of the picture.
	Size Size
	// Region is the part of the screen in the picture.
	Region Rect
	// Scale is ScreenshotOptions.Scale. Size is rounded to whole pixels, so callers that
	// map coordinates without ID must use Region and Size.
	Scale float64
	// Damage counts the changes of the screen since the X server started.
	Damage uint64
}
