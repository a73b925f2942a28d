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

	"github.com/deskhand/deskhand/internal/picture"
	"github.com/deskhand/deskhand/internal/x11"
)

// Screenshot takes a picture of the screen, as it was at the call or later. It blocks for
// at most 30 s and ScreenshotOptions.SettleTimeout. It returns an *InvalidError if an
// option is invalid, or if Region begins outside the screen.
func (d *Desktop) Screenshot(ctx context.Context, o ScreenshotOptions) (*Screenshot, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	limit := screenshotLimit + o.SettleTimeout
	return call(ctx, &d.lifecycle, "screenshot", limit, func(ctx context.Context, s *session) (pic *Screenshot, err error) {
		settled := true
		if o.Settle > 0 {
			if settled, err = s.settle(ctx, o.Settle, o.SettleTimeout); err != nil {
				return nil, err
			}
		}
		if pic, err = d.takeScreenshot(ctx, s, o); err != nil {
			return nil, err
		}
		pic.Settled = settled
		return pic, nil
	})
}

// Settle waits until the screen has not changed for quiet, at most for timeout. It returns
// true if the screen stopped changing, and false if timeout passed first, for example
// because a cursor blinks. quiet may be up to one minute, and timeout up to five.
func (d *Desktop) Settle(ctx context.Context, quiet, timeout time.Duration) (bool, error) {
	if err := checkSettle(quiet, timeout); err != nil {
		return false, err
	}
	return call(ctx, &d.lifecycle, "settle", timeout+queryLimit, func(ctx context.Context, s *session) (bool, error) {
		return s.settle(ctx, quiet, timeout)
	})
}

func (s *session) settle(ctx context.Context, quiet, timeout time.Duration) (bool, error) {
	deadline := time.NewTimer(timeout)
	defer deadline.Stop()
	calm := time.NewTimer(quiet)
	defer calm.Stop()
	var seen uint64
	over := false // quiet has passed since the last known change
	for first := true; ; first = false {
		frame, err := s.frame(ctx)
		if err != nil {
			return false, err
		}
		seq := frame.Seq
		frame.Release()
		switch {
		case first || seq != seen: // the first frame may have taken long
			calm.Reset(quiet)
			seen, over = seq, false
		case over: // no other caller's frame has consumed the signal of a later change
			return true, nil
		}
		select {
		case <-s.capture.Damaged():
			select {
			case <-time.After(settlePace):
			case <-ctx.Done():
			}
		case <-calm.C:
			over = true
		case <-deadline.C:
			return false, nil
		case <-ctx.Done():
			return false, ctx.Err()
		}
	}
}

// settlePace is the shortest time between two frames of a screen that changes.
const settlePace = 5 * time.Millisecond

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
	return o.picture(ctx, &frame.Image, s.epoch, &s.encoder, s.addCursor)
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
	addCursor func(*picture.Options, CursorStyle) (string, error),
) (*Screenshot, error) {
	region, err := o.region(screen.Width, screen.Height)
	if err != nil {
		return nil, err
	}
	opts, look := o.options(region)
	drawn, err := addCursor(&opts, o.Cursor)
	if err != nil {
		return nil, err
	}
	w, h := picture.Size(opts.Region, o.Scale)
	m := observationID{epoch: epoch, damage: damageOf(screen, region), region: region, size: Size{w, h}, look: look + drawn}
	pic := &Screenshot{
		Observation: Observation{ID: m.String(), Size: m.size, Region: region, Scale: o.Scale, Damage: screen.Seq},
		Format:      o.Format, Unchanged: o.IfChangedSince == m.String(), Settled: true,
	}
	if !pic.Unchanged {
		pic.Data, err = encoder.Encode(ctx, screen, opts)
	}
	return pic, err
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
	case math.IsNaN(o.Scale) || o.Scale < 0.1 || o.Scale > 1:
		return o, &InvalidError{"Scale", "must be between 0.1 and 1.0"}
	}
	return o, checkSettle(o.Settle, o.SettleTimeout)
}

func checkSettle(quiet, timeout time.Duration) error {
	switch {
	case quiet < 0 || timeout < 0:
		return &InvalidError{"Settle", "times must not be negative"}
	case quiet > time.Minute || timeout > 5*time.Minute:
		return &InvalidError{"Settle", "must be at most 1 minute, and its timeout at most 5"}
	}
	return nil
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
