//go:build !race

package picture_test

import (
	"image"
	"slices"
	"testing"
	"time"

	"github.com/deskhand/deskhand/internal/picture"
)

// screen is a screen whose changes a Motion observes.
type screen struct {
	picture.Image
	motion picture.Motion
	now    time.Time
	dirty  []bool
	next   []byte
}

func newScreen(w, h int) *screen {
	s := &screen{now: time.Unix(1000, 0), dirty: make([]bool, (h+15)/16), next: make([]byte, 4*w*h)}
	s.Image = picture.Image{Pix: make([]byte, 4*w*h), Stride: 4 * w, Width: w, Height: h, BandHeight: 16}
	s.motion.Begin(s.now)
	return s
}

// change changes the pixels of rectangles after a pause, and reports whether that mattered.
func (s *screen) change(pause time.Duration, rects ...image.Rectangle) bool {
	s.now = s.now.Add(pause)
	clear(s.dirty)
	copy(s.next, s.Pix)
	for _, r := range rects {
		for y := r.Min.Y; y < r.Max.Y; y++ {
			s.dirty[y/16] = true
			for x := r.Min.X; x < r.Max.X; x++ {
				s.next[y*s.Stride+4*x]++
			}
		}
	}
	s.motion.Observe(s.now, &s.Image, s.next, s.dirty)
	copy(s.Pix, s.next)
	return s.motion.Last().Equal(s.now)
}

func box(x, y, w, h int) image.Rectangle { return image.Rect(x, y, x+w, y+h) }

func TestMotionSpinner(t *testing.T) {
	t.Parallel()
	s := newScreen(640, 480)
	spinner := box(100, 90, 24, 24)
	s.change(0, box(0, 300, 600, 100))
	frames := 0
	for s.change(16*time.Millisecond, spinner) {
		frames++
	}
	if took := time.Duration(frames) * 16 * time.Millisecond; took < 300*time.Millisecond || took > 500*time.Millisecond {
		t.Errorf("a spinner is an animation after %v", took)
	}
	if got := s.motion.Animating(time.Time{}); !slices.Equal(got, []image.Rectangle{spinner}) {
		t.Errorf("the spinner is at %v, want %v", got, spinner)
	}
	if !s.change(16*time.Millisecond, spinner, box(300, 300, 60, 20)) {
		t.Error("a change beside the spinner does not matter")
	}
	if !s.change(16*time.Millisecond, box(80, 90, 60, 24)) {
		t.Error("a change that exceeds the spinner does not matter")
	}
	s = newScreen(640, 480)
	for range 40 {
		s.change(16*time.Millisecond, spinner)
	}
	s.motion.Begin(s.now)
	if s.change(10*time.Second, spinner) {
		t.Error("a spinner is forgotten at the next wait")
	}
	s.motion.Begin(s.now.Add(time.Minute))
	if !s.change(time.Minute, spinner) {
		t.Error("a spinner is known after a minute without it")
	}
}

func TestMotionCaret(t *testing.T) {
	t.Parallel()
	s := newScreen(640, 480)
	s.change(0, box(10, 10, 200, 20))
	caret := box(60, 50, 1, 18)
	for range 4 {
		if s.change(530*time.Millisecond, caret) {
			t.Error("a caret matters")
		}
	}
	if s.motion.Moving(time.Time{}) {
		t.Error("a caret moves")
	}
	if got := s.motion.Animating(time.Time{}); !slices.Equal(got, []image.Rectangle{caret}) {
		t.Errorf("the caret is at %v, want %v", got, caret)
	}
	for i := range 4 { // typed text
		if !s.change(30*time.Millisecond, box(60+8*i, 50, 9, 18)) {
			t.Error("typed text does not matter")
		}
	}
}

// TestMotionPulse: a block that moves back and forth is an animation before it was everywhere.
func TestMotionPulse(t *testing.T) {
	t.Parallel()
	s := newScreen(640, 480)
	s.change(0, box(0, 300, 600, 100))
	for i := range 60 {
		s.change(16*time.Millisecond, box(100+3*i, 50, 4, 4), box(132+3*i, 50, 4, 4))
	}
	if got := s.motion.Animating(time.Time{}); len(got) != 1 || got[0].Dx() > 230 || got[0].Dy() > 4 {
		t.Errorf("animations at %v, want one", got)
	}
	if s.change(16*time.Millisecond, box(280, 50, 4, 4), box(312, 50, 4, 4)) {
		t.Error("the next move matters")
	}
}

// TestMotionMatters: changes of large areas, and of areas that grow, matter for as long as they
// last.
func TestMotionMatters(t *testing.T) {
	t.Parallel()
	for name, area := range map[string]func(i int) image.Rectangle{
		"large area":   func(int) image.Rectangle { return box(50, 50, 200, 200) },
		"whole screen": func(int) image.Rectangle { return box(0, 0, 640, 480) },
		"progress bar": func(i int) image.Rectangle { return box(50+2*i, 50, 2, 10) },
		"lines":        func(i int) image.Rectangle { return box(50+20*(i%10), 50+16*(i/10), 20, 16) },
	} {
		s := newScreen(640, 480)
		s.change(0, box(0, 300, 600, 100))
		for i := range 120 {
			if !s.change(50*time.Millisecond, area(i)) {
				t.Errorf("%s: change %d does not matter", name, i)
				break
			}
		}
	}
}

func TestMotionResize(t *testing.T) {
	t.Parallel()
	s := newScreen(640, 480)
	for range 40 {
		s.change(16*time.Millisecond, box(100, 90, 24, 24))
	}
	s.now = s.now.Add(time.Millisecond)
	s.motion.Replace(s.now)
	if !s.motion.Last().Equal(s.now) || s.motion.Animating(time.Time{}) != nil {
		t.Error("a new screen does not matter, or has an animation")
	}
}

func TestMotionAllocates(t *testing.T) {
	s := newScreen(1440, 900)
	s.change(time.Millisecond, box(0, 0, 20, 20), box(1000, 500, 20, 20))
	if n := testing.AllocsPerRun(100, func() { s.change(16*time.Millisecond, box(0, 0, 20, 20), box(1000, 500, 20, 20)) }); n != 0 {
		t.Errorf("Observe allocates %v times", n)
	}
}

func BenchmarkMotion(b *testing.B) {
	for name, area := range map[string]image.Rectangle{"spinner": box(700, 400, 24, 24), "screen": box(0, 0, 1440, 900)} {
		b.Run(name, func(b *testing.B) {
			s := newScreen(1440, 900)
			other := slices.Clone(s.Pix)
			for y := area.Min.Y; y < area.Max.Y; y++ {
				s.dirty[y/16] = true
				for x := area.Min.X; x < area.Max.X; x++ {
					other[y*s.Stride+4*x]++
				}
			}
			b.ReportAllocs()
			for b.Loop() {
				s.motion.Observe(s.now, &s.Image, other, s.dirty)
			}
		})
	}
}
