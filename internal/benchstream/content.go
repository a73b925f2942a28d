package main

import (
	"context"
	"errors"
	"image"
	"math/rand/v2"
	"time"

	"github.com/deskhand/deskhand/internal/x11"
)

// content is what happens on the desktop. Between open and close, draw is called
// in turn: it draws the next picture of it by requests that go out together with
// those of the marker.
type content interface {
	open(c *x11.Conn) error
	draw(number uint16)
	close() error
}

// Where things are. The marker is at the upper left.
var (
	markerAt   = image.Pt(16, 16)
	terminalAt = image.Rect(360, 140, 360+200*x11.CanvasCellWidth, 140+61*x11.CanvasCellHeight) // about 1200x800
)

// nothing is no content but the marker.
type nothing struct{}

func (nothing) open(*x11.Conn) error { return nil }
func (nothing) draw(uint16)          {}
func (nothing) close() error         { return nil }

// scrolling is a terminal into which a program prints without end.
type scrolling struct {
	canvas *x11.Canvas
	text   *rand.Rand
}

// printedLines is how many lines are printed for one picture: 26 pixels of
// scrolling.
const printedLines = 2

func (s *scrolling) open(c *x11.Conn) (err error) {
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
		lines[i] = s.line(terminalAt.Dx() / x11.CanvasCellWidth)
	}
	s.canvas.Print(lines...)
}

func (s *scrolling) close() error { return s.canvas.Close() }

// line is one that looks like the output of a program.
func (s *scrolling) line(columns int) string {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEF0123456789._/-:="
	line := make([]byte, columns/2+s.text.IntN(columns/2))
	for i := range line {
		if line[i] = letters[s.text.IntN(len(letters))]; s.text.IntN(7) == 0 {
			line[i] = ' '
		}
	}
	return string(line)
}

// drawer draws content and a marker again and again.
type drawer struct {
	stop   func()
	done   chan struct{}
	err    error
	canvas *x11.Canvas
	inside content
}

// startDrawing draws until finish. gap says how long after a drawing the next one
// begins.
func (b *bed) startDrawing(inside content, gap func() time.Duration) (*drawer, error) {
	canvas, err := b.x.NewCanvas(markerAt.X, markerAt.Y, markerWidth, markerHeight)
	if err != nil {
		return nil, err
	}
	if err := inside.open(b.x); err != nil {
		return nil, errors.Join(err, canvas.Close())
	}
	ctx, stop := context.WithCancel(context.Background())
	d := &drawer{stop: stop, done: make(chan struct{}), canvas: canvas, inside: inside}
	go func() {
		defer close(d.done)
		d.err = d.run(ctx, b.x, gap)
	}()
	return d, nil
}

func (d *drawer) run(ctx context.Context, x *x11.Conn, gap func() time.Duration) error {
	m := newMarker()
	due := time.Now()
	for number := uint16(0); ; number++ {
		due = due.Add(gap())
		if late := time.Since(due); late > 0 {
			due = due.Add(late) // what was missed is not made up for
		}
		if pause(ctx, time.Until(due)) != nil {
			return nil //nolint:nilerr // it is to finish
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

// finish ends the drawing and takes everything away.
func (d *drawer) finish() error {
	d.stop()
	<-d.done
	return errors.Join(d.err, d.inside.close(), d.canvas.Close())
}

// steady is the gap between pictures of a program that draws so many a second.
func steady(perSecond int) func() time.Duration {
	return func() time.Duration { return time.Second / time.Duration(perSecond) }
}

// uneven is the gap between things that a person does: from 60 to 180 ms.
func uneven() func() time.Duration {
	random := rand.New(rand.NewPCG(3, 4)) //nolint:gosec // the same in every run
	return func() time.Duration { return time.Duration(60+random.IntN(120)) * time.Millisecond }
}
