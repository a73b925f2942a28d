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

// CursorStyle says how a screenshot shows the pointer.
type CursorStyle string

// The cursor styles.
const (
	CursorNone      CursorStyle = ""          // not at all
	CursorCrosshair CursorStyle = "crosshair" // a red cross at its hot spot
	CursorPointer   CursorStyle = "pointer"   // the real pointer image
)

// Shot says what picture to take. The zero value is the whole screen as PNG.
type Shot struct {
	Region  *Rect // nil: the whole screen; cut to the screen
	Format  Format
	Quality int     // 1-100, of JPEG; zero: 85
	Scale   float64 // 0.1-1; zero: 1
	Cursor  CursorStyle

	// IfChangedSince is an observation's ID. When the picture would be the
	// same, it is not made, and Screenshot.Unchanged is true.
	IfChangedSince string

	// Settle waits until the screen has not changed for that long, at most
	// SettleTimeout (zero: 5 s).
	Settle        time.Duration
	SettleTimeout time.Duration
}

// Screenshot is a picture of the screen and what is needed to act on it.
type Screenshot struct {
	Observation
	Data      []byte // the encoded picture; shared, so not to be changed
	Format    Format
	Unchanged bool // nothing changed since Shot.IfChangedSince; Data is nil
	Settled   bool // the screen was quiet for Shot.Settle; true when that is zero
}

// Observation ties coordinates in a picture to the screen.
type Observation struct {
	// ID is passed back in pointer actions, whose coordinates are then in the
	// picture, and in Shot.IfChangedSince.
	ID string
	// Size is the picture's.
	Size Size
	// Region is the part of the screen that it shows.
	Region Rect
	// Scale is the one asked for. Map coordinates with the ID, or with
	// Region and Size per axis: both are rounded to whole pixels.
	Scale float64
	// Damage counts the changes of the screen since the X server started.
	Damage uint64
}
