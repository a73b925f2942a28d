package desktop

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"image"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/deskhand/deskhand/internal/panics"
	"github.com/deskhand/deskhand/internal/picture"
	"github.com/deskhand/deskhand/internal/x11"
)

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

	// MaxEdge and MaxPixels bound the longest edge and the area of the picture, which has
	// a smaller scale if necessary, but not less than 0.1. Zero: no bound.
	MaxEdge, MaxPixels int

	// MaxBytes bounds Screenshot.Data. A larger picture is encoded as JPEG with falling
	// quality down to 30, and then with falling scale down to 0.1. The last of these pictures
	// may still be larger than MaxBytes. Zero: no bound.
	MaxBytes int

	// IfChangedSince is an observation's ID. If the picture would be the same, Screenshot
	// makes none, and Screenshot.Unchanged is true. An unknown ID has no effect.
	IfChangedSince string

	// Since is an observation's ID. Screenshot.Changed is then what has changed since, and
	// Screenshot.Data has only Screenshot.Part if that is less than half of the picture.
	// There is no Data if nothing changed. All is new since an unknown ID.
	Since string

	// ObservationOnly leaves out the picture: Screenshot.Data is nil.
	ObservationOnly bool

	// Settle is how long the screen must not have changed before the picture is taken, as for
	// Desktop.Settle, at most one minute. Zero: Screenshot does not wait.
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
	Unchanged bool    // nothing changed since ScreenshotOptions.IfChangedSince or Since; Data is nil
	Settled   Settled // the wait of ScreenshotOptions.Settle; Quiet is true when that is zero

	Changed []Rect // on the screen, since ScreenshotOptions.Since; in units of 16 pixels
	Part    *Rect  // of the picture, which Data shows; nil: all of it
}

// minScale is the smallest scale of a picture.
const minScale = 0.1

// Observation maps coordinates in a picture to the screen.
type Observation struct {
	// ID is for pointer actions, whose coordinates are then in the picture, and for
	// ScreenshotOptions.IfChangedSince.
	ID string
	// Size is the size of the picture.
	Size Size
	// Region is the part of the screen in the picture.
	Region Rect
	// Scale is ScreenshotOptions.Scale, or less because of its bounds. Size is rounded to whole pixels, so callers that
	// map coordinates without ID must use Region and Size.
	Scale float64
	// Damage counts the changes of the screen since the X server started.
	Damage uint64
}

// Screenshot takes a picture of the screen, as it was at the call or later. It blocks for
// at most 30 s and ScreenshotOptions.SettleTimeout. It returns an *InvalidError if an
// option is invalid, or if Region is empty or begins outside the screen.
func (d *Desktop) Screenshot(ctx context.Context, o ScreenshotOptions) (*Screenshot, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	limit := screenshotLimit + o.SettleTimeout
	return call(ctx, &d.lifecycle, "screenshot", limit, func(ctx context.Context, s *session) (pic *Screenshot, err error) {
		settled := Settled{Quiet: true}
		if o.Settle > 0 {
			if settled, err = d.settle(ctx, s, o.Settle, o.SettleTimeout); err != nil {
				return nil, err
			}
		}
		began := time.Now()
		pic, err = d.takeScreenshot(ctx, s, o)
		d.observe(ctx, Observed{Operation: OperationScreenshot, Began: began, Err: err})
		if err != nil {
			return nil, err
		}
		pic.Settled = settled
		return pic, nil
	})
}

func (s *session) frame(ctx context.Context) (*x11.Frame, error) {
	s.trim.Reset(keepPictures)
	return s.capture.Frame(ctx)
}

// frameRoom bounds the bytes of all frames of a desktop's screenshots, except that one larger
// frame alone is allowed. It is 51 frames of 1440x900.
const frameRoom = 256 << 20

func (l *lifecycle) takeScreenshot(ctx context.Context, s *session, o ScreenshotOptions) (*Screenshot, error) {
	frame, release, err := l.frameWithRoom(ctx, s)
	if err != nil {
		return nil, err
	}
	defer release()
	observed := make(chan error, 1) // with the encoder at work, the answers of the X server cost no time
	go func() {
		observed <- panics.Catch(s.log, "observe the screen", func() error { return s.observe(&frame.Image) })
	}()
	pic, err := o.picture(ctx, &frame.Image, s.epoch, &s.encoder, &s.observed, s.addCursor)
	if err := errors.Join(<-observed, err); err != nil {
		return nil, err
	}
	return pic, nil
}

// frameWithRoom waits until a frame fits into frameRoom, and takes it then. A caller that
// waits holds no frame. release frees the frame and its room.
func (l *lifecycle) frameWithRoom(ctx context.Context, s *session) (frame *x11.Frame, release func(), err error) {
	w, h, err := s.conn.Size()
	if err != nil {
		return nil, nil, err
	}
	for {
		room := min(int64(w)*int64(h)*4, frameRoom)
		if err := l.frames.Acquire(ctx, room); err != nil {
			return nil, nil, err
		}
		frame, err := s.frame(ctx)
		if err != nil {
			l.frames.Release(room)
			return nil, nil, err
		}
		release := func() {
			frame.Release()
			l.frames.Release(room)
		}
		if w, h = frame.Width, frame.Height; min(int64(len(frame.Pix)), frameRoom) <= room {
			return frame, release, nil
		}
		release() // the screen has grown
	}
}

// picture makes the picture of a screen, unless it would be the same as o.IfChangedSince.
// addCursor adds the pointer to the options, and returns a word that identifies its look.
func (o ScreenshotOptions) picture(ctx context.Context, screen *picture.Image, epoch string, encoder *picture.Encoder,
	observed *observedScreens, addCursor func(*picture.Options, CursorStyle) (string, error),
) (*Screenshot, error) {
	region, err := o.region(screen.Width, screen.Height)
	if err != nil {
		return nil, err
	}
	o.Scale = o.scaleWithin(region)
	opts, look := o.options(region)
	drawn, err := addCursor(&opts, o.Cursor)
	if err != nil {
		return nil, err
	}
	w, h := picture.Size(opts.Region, o.Scale)
	m := observationID{epoch: epoch, damage: damageOf(screen, region), region: region, size: Size{w, h}, look: look + drawn}
	pic := &Screenshot{
		Observation: Observation{ID: m.String(), Size: m.size, Region: region, Scale: o.Scale, Damage: screen.Seq},
		Format:      o.Format, Unchanged: o.IfChangedSince == m.String(), Settled: Settled{Quiet: true},
	}
	if o.Since != "" {
		pic.compare(screen, &opts, m, o.Since, observed)
	}
	if pic.Unchanged || o.ObservationOnly {
		return pic, nil
	}
	if pic.Data, err = encoder.Encode(ctx, screen, opts); err != nil || o.MaxBytes == 0 || len(pic.Data) <= o.MaxBytes {
		return pic, err
	}
	if smaller, ok := o.smaller(); ok {
		return smaller.picture(ctx, screen, epoch, encoder, observed, addCursor)
	}
	return pic, nil
}

// compare adds what has changed since an observation to a screenshot with the observation m.
// It makes less than half of the picture the region of the options if the rest has not
// changed.
func (s *Screenshot) compare(screen *picture.Image, opts *picture.Options, m observationID, since string, observed *observedScreens) {
	before, ok := parseObservationID(since)
	if !ok || before.epoch != m.epoch {
		s.Changed = []Rect{m.region}
		return
	}
	s.Changed, _ = observed.changed(screen, before, m.region)
	switch {
	case before.region != m.region || before.size != m.size: // the parts of another picture are of no use
	case len(s.Changed) == 0:
		s.Unchanged = true
	default:
		box := boundingBox(s.Changed)
		if 2*box.Width*box.Height >= m.region.Width*m.region.Height {
			return
		}
		opts.Region = image.Rect(box.X, box.Y, box.X+box.Width, box.Y+box.Height)
		w, h := picture.Size(opts.Region, opts.Scale)
		corner := s.FromScreen(Point{box.X, box.Y})
		s.Part = &Rect{corner.X, corner.Y, w, h}
	}
}

// smaller returns the options of a picture with fewer bytes, or false if there are none.
func (o ScreenshotOptions) smaller() (ScreenshotOptions, bool) {
	const first, step, least, factor = 80, 25, 30, 0.7
	switch {
	case o.Format != JPEG:
		o.Format, o.Quality = JPEG, first
	case o.Quality > least:
		o.Quality = max(o.Quality-step, least)
	case o.Scale > minScale:
		o.Scale = max(o.Scale*factor, minScale)
	default:
		return o, false
	}
	return o, true
}

// scaleWithin returns the scale that keeps the picture of a region within MaxEdge and
// MaxPixels.
func (o ScreenshotOptions) scaleWithin(region Rect) float64 {
	w, h := float64(region.Width), float64(region.Height)
	k := o.Scale
	if o.MaxEdge > 0 {
		k = min(k, float64(o.MaxEdge)/max(w, h))
	}
	if o.MaxPixels > 0 {
		k = min(k, math.Sqrt(float64(o.MaxPixels)/(w*h)))
	}
	return max(k, minScale)
}

// options returns the encoder's options, and a word that identifies format and quality.
func (o ScreenshotOptions) options(region Rect) (opts picture.Options, look string) {
	opts = picture.Options{
		Format: picture.Format(o.Format), Quality: o.Quality, Scale: o.Scale,
		Region: image.Rect(region.X, region.Y, region.X+region.Width, region.Y+region.Height),
	}
	look = string(o.Format)
	if o.Format == JPEG {
		look += strconv.Itoa(o.Quality)
	}
	return opts, look
}

// addCursor adds the pointer to the options, and returns a word that identifies its look.
func (s *session) addCursor(opts *picture.Options, style CursorStyle) (string, error) {
	switch style {
	case CursorCrosshair:
		x, y, _, _, err := s.input.Pointer.Position()
		if err != nil {
			return "", err
		}
		opts.Cross = &image.Point{X: x, Y: y}
		return fmt.Sprintf("-cross-%d-%d", x, y), nil
	case CursorPointer:
		c, err := s.conn.Cursor()
		if errors.Is(err, x11.ErrNoCursor) {
			return s.addCursor(opts, CursorCrosshair)
		}
		if err != nil {
			return "", err
		}
		opts.Cursor = &picture.Cursor{X: c.X - c.XHot, Y: c.Y - c.YHot, Width: c.Width, Height: c.Height, Pix: c.Pix}
		return fmt.Sprintf("-pointer%d-%d-%d", c.Serial, c.X, c.Y), nil
	case CursorNone:
	}
	return "", nil
}

func (o ScreenshotOptions) withDefaults() (ScreenshotOptions, error) {
	o.Format, o.Quality, o.Scale = cmp.Or(o.Format, PNG), cmp.Or(o.Quality, 85), cmp.Or(o.Scale, 1)
	if o.Settle > 0 {
		o.SettleTimeout = cmp.Or(o.SettleTimeout, 5*time.Second)
	}
	switch {
	case !slices.Contains([]Format{PNG, JPEG, WebP}, o.Format):
		return o, &InvalidError{"Format", "must be png, jpeg or webp"}
	case !slices.Contains([]CursorStyle{CursorNone, CursorCrosshair, CursorPointer}, o.Cursor):
		return o, &InvalidError{"Cursor", "must be empty, crosshair or pointer"}
	case o.Quality < 1 || o.Quality > 100:
		return o, &InvalidError{"Quality", "must be between 1 and 100"}
	case o.MaxEdge < 0 || o.MaxPixels < 0 || o.MaxBytes < 0:
		return o, &InvalidError{"MaxEdge", "and the other limits must not be negative"}
	case math.IsNaN(o.Scale) || o.Scale < minScale || o.Scale > 1:
		return o, &InvalidError{"Scale", "must be between 0.1 and 1.0"}
	}
	return o, checkSettle(o.Settle, o.SettleTimeout)
}

// region returns the part of a screen for the picture.
func (o ScreenshotOptions) region(width, height int) (Rect, error) {
	if o.Region == nil {
		return Rect{0, 0, width, height}, nil
	}
	r := *o.Region
	switch {
	case r.X < 0 || r.Y < 0:
		return r, &InvalidError{"Region", "coordinates must be non-negative"}
	case r.Width <= 0 || r.Height <= 0:
		return r, &InvalidError{"Region", "width and height must be greater than 0"}
	case r.X >= width || r.Y >= height:
		return r, &InvalidError{"Region", fmt.Sprintf("lies outside the screen of %dx%d", width, height)}
	}
	r.Width, r.Height = min(r.Width, width-r.X), min(r.Height, height-r.Y)
	return r, nil
}
