package desktop

import (
	"context"
	"errors"
	"fmt"
	"image"
	"math"
	"strconv"
	"time"

	"github.com/deskhand/deskhand/internal/picture"
	"github.com/deskhand/deskhand/internal/x11"
)

// Screenshot takes a picture of the screen. Everything that the X server had
// done when it was called is in it.
func (d *Desktop) Screenshot(ctx context.Context, shot Shot) (*Screenshot, error) {
	shot, err := shot.withDefaults()
	if err != nil {
		return nil, err
	}
	limit := screenshotLimit + shot.SettleTimeout
	return call(ctx, &d.lifecycle, "screenshot", limit, func(ctx context.Context, s *session) (pic *Screenshot, err error) {
		settled := true
		if shot.Settle > 0 {
			if settled, err = s.settle(ctx, shot.Settle, shot.SettleTimeout); err != nil {
				return nil, err
			}
		}
		if pic, err = s.shoot(ctx, shot); err != nil {
			return nil, err
		}
		pic.Settled = settled
		return pic, nil
	})
}

// Settle waits until the screen has not changed for quiet, at most for timeout.
// It returns false when the screen was still changing then, as it always is
// with a blinking cursor on it.
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
	pace := time.NewTimer(settlePace)
	defer pace.Stop()
	var seen uint64
	for first := true; ; first = false {
		frame, err := s.frame(ctx)
		if err != nil {
			return false, err
		}
		seq := frame.Seq
		frame.Release()
		if seq != seen || first { // it may have taken long to see it for the first time
			calm.Reset(quiet)
		}
		seen = seq
		damaged := s.capture.Damaged()
		select {
		case <-damaged:
			if pace.Reset(settlePace); wait(ctx, pace.C) {
				continue
			}
			return false, ctx.Err()
		case <-calm.C:
		case <-deadline.C:
			return false, nil
		case <-ctx.Done():
			return false, ctx.Err()
		}
		// Another caller's frame may have swallowed the damage just now.
		if frame, err = s.frame(ctx); err != nil {
			return false, err
		}
		seq = frame.Seq
		frame.Release()
		if seq == seen {
			return true, nil
		}
		calm.Reset(quiet)
		seen = seq
	}
}

// settlePace is the least time between two looks at a screen that keeps
// changing: looking costs CPU.
const settlePace = 5 * time.Millisecond

// wait waits for a timer; false means that ctx ended first.
func wait(ctx context.Context, timer <-chan time.Time) bool {
	select {
	case <-timer:
		return true
	case <-ctx.Done():
		return false
	}
}

// frame captures the screen.
func (s *session) frame(ctx context.Context) (*x11.Frame, error) {
	s.shots.use()
	return s.capture.Frame(ctx)
}

// shoot makes the picture, unless it is the one the caller already has.
func (s *session) shoot(ctx context.Context, shot Shot) (*Screenshot, error) {
	frame, err := s.frame(ctx)
	if err != nil {
		return nil, err
	}
	defer frame.Release()
	region, err := shot.region(frame.Width, frame.Height)
	if err != nil {
		return nil, err
	}
	opts, look := shot.options(region)
	drawn, err := s.addCursor(&opts, shot.Cursor)
	if err != nil {
		return nil, err
	}
	w, h := picture.Size(opts.Region, shot.Scale)
	m := mark{epoch: s.epoch, damage: damageOf(frame, region), region: region, size: Size{w, h}, look: look + drawn}
	pic := &Screenshot{
		Observation: Observation{ID: m.String(), Size: m.size, Region: region, Scale: shot.Scale, Damage: frame.Seq},
		Format:      shot.Format,
	}
	if shot.IfChangedSince == pic.ID {
		pic.Unchanged = true
		return pic, nil
	}
	img := &picture.Image{
		Pix: frame.Pix, Stride: frame.Stride, Width: frame.Width, Height: frame.Height,
		Seq: frame.Seq, Bands: frame.Bands, BandHeight: frame.BandHeight,
	}
	pic.Data, err = s.encoder.Encode(ctx, img, opts)
	return pic, err
}

// options are the encoder's, and a word that changes with how they look.
func (shot Shot) options(region Rect) (opts picture.Options, look string) {
	opts = picture.Options{
		Quality: shot.Quality, Scale: shot.Scale,
		Region: image.Rect(region.X, region.Y, region.X+region.Width, region.Y+region.Height),
	}
	look = string(shot.Format)
	switch shot.Format {
	case JPEG:
		opts.Format = picture.JPEG
		look += strconv.Itoa(shot.Quality)
	case WebP:
		opts.Format = picture.WebP
	case PNG:
		opts.Format = picture.PNG
	}
	return opts, look
}

// addCursor asks for the pointer to be drawn, and returns a word that changes
// with what is drawn.
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
			return s.addCursor(opts, CursorCrosshair) // where it is can be shown at least
		}
		if err != nil {
			return "", err
		}
		opts.Cursor = pictureCursor(c)
		return fmt.Sprintf("-pointer%d-%d-%d", c.Serial, c.X, c.Y), nil
	case CursorNone:
	}
	return "", nil
}

func pictureCursor(c *x11.Cursor) *picture.Cursor {
	return &picture.Cursor{X: c.X - c.XHot, Y: c.Y - c.YHot, Width: c.Width, Height: c.Height, Pix: c.Pix}
}

func (shot Shot) withDefaults() (Shot, error) {
	if shot.Format == "" {
		shot.Format = PNG
	}
	if shot.Quality == 0 {
		shot.Quality = 85
	}
	if shot.Scale == 0 {
		shot.Scale = 1
	}
	if shot.SettleTimeout == 0 && shot.Settle > 0 {
		shot.SettleTimeout = 5 * time.Second
	}
	switch shot.Format {
	case PNG, JPEG, WebP:
	default:
		return shot, &InvalidError{"format", "must be png, jpeg or webp"}
	}
	switch shot.Cursor {
	case CursorNone, CursorCrosshair, CursorPointer:
	default:
		return shot, &InvalidError{"cursor", "must be empty, crosshair or pointer"}
	}
	switch {
	case shot.Quality < 1 || shot.Quality > 100:
		return shot, &InvalidError{"quality", "must be between 1 and 100"}
	case math.IsNaN(shot.Scale) || shot.Scale < 0.1 || shot.Scale > 1:
		return shot, &InvalidError{"scale", "must be between 0.1 and 1.0"}
	}
	return shot, checkSettle(shot.Settle, shot.SettleTimeout)
}

func checkSettle(quiet, timeout time.Duration) error {
	switch {
	case quiet < 0 || timeout < 0:
		return &InvalidError{"settle", "times must not be negative"}
	case quiet > time.Minute || timeout > 5*time.Minute:
		return &InvalidError{"settle", "must be at most 1 minute, and its timeout at most 5"}
	}
	return nil
}

// region is the part of a screen that the picture shows.
func (shot Shot) region(width, height int) (Rect, error) {
	if shot.Region == nil {
		return Rect{0, 0, width, height}, nil
	}
	r := *shot.Region
	switch {
	case r.X < 0 || r.Y < 0:
		return r, &InvalidError{"region", "coordinates must be non-negative"}
	case r.Width <= 0 || r.Height <= 0:
		return r, &InvalidError{"region", "width and height must be greater than 0"}
	case r.X >= width || r.Y >= height:
		return r, &InvalidError{"region", fmt.Sprintf("lies outside the screen of %dx%d", width, height)}
	}
	r.Width, r.Height = min(r.Width, width-r.X), min(r.Height, height-r.Y)
	return r, nil
}
