package main

import (
	"context"
	"errors"
	"image"
	"math/rand/v2"
	"time"

	"github.com/deskhand/deskhand/internal/benchkit"
	"github.com/deskhand/deskhand/internal/x11"
)

// pictureRate is how many pictures are drawn in a second.
const pictureRate = 30

// content is drawn on the desktop. draw makes the requests for its next picture,
// which go out together with the marker's.
type content interface {
	open(ctx context.Context, c *x11.Conn) error
	draw(number uint16)
	close() error
}

// Places on the screen. The marker is at the upper left.
var (
	markerAt   = image.Pt(16, 16)
	terminalAt = image.Rect(360, 140, 360+200*x11.CanvasCellWidth, 140+61*x11.CanvasCellHeight) // about 1200x800
)

// nothing is content that draws nothing beside the marker.
type nothing struct{}

func (nothing) open(context.Context, *x11.Conn) error { return nil }
func (nothing) draw(uint16)                           {}
func (nothing) close() error                          { return nil }

// scrolling is a terminal into which a program prints without end.
type scrolling struct {
	canvas *x11.Canvas
	text   *rand.Rand
}

// printedLines is the number of lines that are printed for one picture: 26 pixels
// of scrolling.
const printedLines = 2

func (s *scrolling) open(_ context.Context, c *x11.Conn) (err error) {
	s.text = rand.New(rand.NewPCG(1, 2)) //nolint:gosec // the same in every run
	r := terminalAt
	s.canvas, err = c.NewCanvas(r.Min.X, r.Min.Y, r.Dx(), r.Dy())
	for range r.Dy() / x11.CanvasCellHeight / printedLines {
		if err == nil {
			s.draw(0)
		}
	}
	return err
}

func (s *scrolling) draw(uint16) {
	lines := make([]string, printedLines)
	for i := range lines {
		lines[i] = benchkit.Line(s.text, terminalAt.Dx()/x11.CanvasCellWidth)
	}
	s.canvas.Print(lines...)
}

func (s *scrolling) close() error { return s.canvas.Close() }

// drawer draws content and a marker until it is stopped.
type drawer struct {
	stop   func()
	done   chan struct{}
	err    error
	canvas *x11.Canvas
	inside content
}

// startDrawing draws until finish.
func (b *bench) startDrawing(ctx context.Context, inside content) (*drawer, error) {
	canvas, err := b.x.NewCanvas(markerAt.X, markerAt.Y, markerWidth, markerHeight)
	if err != nil {
		return nil, err
	}
	if err := inside.open(ctx, b.x); err != nil {
		return nil, errors.Join(err, canvas.Close())
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	d := &drawer{stop: stop, done: make(chan struct{}), canvas: canvas, inside: inside}
	go func() {
		defer close(d.done)
		d.err = d.run(ctx, b.x)
	}()
	return d, nil
}

func (d *drawer) run(ctx context.Context, x *x11.Conn) error {
	m := newMarker()
	due := time.Now()
	for number := uint16(0); ; number++ {
		due = due.Add(time.Second / pictureRate)
		if late := time.Since(due); late > 0 {
			due = due.Add(late) // missed pictures are not drawn later
		}
		if benchkit.Pause(ctx, time.Until(due)) != nil {
			return nil //nolint:nilerr // finish was called
		}
		pix := m.draw(time.Now(), number)
		err := x.Draw(func() {
			d.inside.draw(number)
			d.canvas.Put(0, 0, markerWidth, markerHeight, pix)
		})
		if err != nil {
			return err
		}
	}
}

// finish ends the drawing and closes its windows.
func (d *drawer) finish() error {
	d.stop()
	<-d.done
	return errors.Join(d.err, d.inside.close(), d.canvas.Close())
}
