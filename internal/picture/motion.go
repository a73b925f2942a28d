package picture

import (
	"bytes"
	"image"
	"slices"
	"sync"
	"time"
)

// Bounds of what Motion takes for an animation.
const (
	// animationFor is how long changes must have stayed in an area, and largeFor how long
	// if the area is larger than a smallShare of the screen. Menus fade in for up to 250 ms.
	animationFor = 400 * time.Millisecond
	largeFor     = time.Second
	smallShare   = 50
	largeShare   = 16 // a larger area is never an animation
	// animationMoments is how many changes an animation must have had.
	animationMoments = 3
	// A caret is of at most caretWidth x caretHeight, and changes alone and at most every
	// caretPause.
	caretWidth  = 16
	caretHeight = 40
	caretPause  = 200 * time.Millisecond
	// slack is by how many pixels an area may exceed its size without having grown.
	slack = 6
	// shrinks is how many times larger than an animation its area must be to shrink to it. The
	// moving part of a progress bar is no less than a fourth of what it moves in.
	shrinks = 4
	// nearby is the distance in pixels within which changes belong to one area.
	nearby = 16
	// maxAreas bounds the areas, and the parts of one change.
	maxAreas = 32
	// keepAreas is how long an area without changes is known.
	keepAreas = 30 * time.Second
)

// Motion distinguishes changes of a screen that matter from animations: spinners, carets, clocks and
// small videos, which change repeatedly within a small area. An area that grows, such as a
// progress bar or lines of output, is not an animation. The zero value is ready. Its methods
// may be called from any goroutine.
type Motion struct {
	mu      sync.Mutex // guards the fields below
	size    image.Point
	areas   []area
	last    time.Time         // of the last change that matters
	changed []image.Rectangle // the parts of the present change
	columns []bool            // the blocks of 16 pixels of a band that differ
}

// area is where the screen has changed.
type area struct {
	base     image.Rectangle // its size when it had last grown
	rect     image.Rectangle // of the changes since then
	grown    time.Time       // when it had last grown
	latest   time.Time       // of its changes
	moments  int             // number of changes
	animates bool            // it is an animation
	blinks   bool            // its last change was that of a caret
}

// Begin prepares for a new wait. Of the areas that have changed before, Motion keeps the
// animations of the last half minute.
func (m *Motion) Begin(at time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.areas = slices.DeleteFunc(m.areas, func(a area) bool { return !a.animates || at.Sub(a.latest) > keepAreas })
	m.last = time.Time{}
}

// Last returns when the screen last changed in a way that matters, or the zero time.
func (m *Motion) Last() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.last
}

// Moving reports whether an animation other than a caret has changed since a time.
func (m *Motion) Moving(since time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.ContainsFunc(m.areas, func(a area) bool { return a.animates && a.latest.After(since) })
}

// Animating returns the areas of animations that have changed since a time.
func (m *Motion) Animating(since time.Time) (areas []image.Rectangle) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, a := range m.areas {
		if (a.animates || a.blinks && a.moments > 2) && a.latest.After(since) {
			areas = append(areas, a.rect)
		}
	}
	return areas
}

// Observe records a change from before to after, which has the format of before, in the bands
// with dirty set.
func (m *Motion) Observe(at time.Time, before *Image, after []byte, dirty []bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if size := image.Pt(before.Width, before.Height); size != m.size {
		m.size, m.areas = size, m.areas[:0]
		m.columns = make([]bool, (size.X+nearby-1)/nearby)
	}
	if !m.compare(before, after, dirty) || m.matters(at) {
		m.last = at
	}
}

// Replace records that all of the screen has changed.
func (m *Motion) Replace(at time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.areas, m.last = m.areas[:0], at
}

// compare finds what has changed. It returns false if that is too large or scattered for
// animations.
func (m *Motion) compare(before *Image, after []byte, dirty []bool) bool {
	m.changed = m.changed[:0]
	left := 2 * m.size.X * m.size.Y / largeShare // pixels
	for i, differs := range dirty {
		if !differs {
			continue
		}
		top := i * before.BandHeight
		from, to := top*before.Stride, min(top+before.BandHeight, before.Height)*before.Stride
		for run := range m.runs(before.Pix[from:to], after[from:to], before.Stride) {
			left -= run.Dx() * run.Dy()
			m.changed = join(m.changed, run.Add(image.Pt(0, top)))
			if left < 0 || len(m.changed) > maxAreas {
				return false
			}
		}
	}
	return true
}

// runs yields the parts of a band that differ.
func (m *Motion) runs(a, b []byte, stride int) func(yield func(image.Rectangle) bool) {
	const block = 4 * nearby // bytes
	return func(yield func(image.Rectangle) bool) {
		clear(m.columns)
		for row := 0; row < len(a); row += stride {
			if bytes.Equal(a[row:row+stride], b[row:row+stride]) {
				continue
			}
			for i := range m.columns {
				from, to := row+i*block, row+min((i+1)*block, stride)
				if !m.columns[i] && !bytes.Equal(a[from:to], b[from:to]) {
					m.columns[i] = true
				}
			}
		}
		for i := 0; i < len(m.columns); i++ {
			first := i
			for i < len(m.columns) && m.columns[i] {
				i++
			}
			if i > first && !yield(bounds(a, b, stride, first*block, min(i*block, stride))) {
				return
			}
		}
	}
}

// bounds returns the bounds of what differs in the bytes from to to of each row.
func bounds(a, b []byte, stride, from, to int) image.Rectangle {
	var r image.Rectangle
	r.Min, r.Max = image.Pt(to/4, len(a)/stride), image.Pt(from/4, 0)
	for row := 0; row < len(a); row += stride {
		x, y := a[row+from:row+to], b[row+from:row+to]
		if bytes.Equal(x, y) {
			continue
		}
		first, last := 0, len(x)-4
		for bytes.Equal(x[first:first+4], y[first:first+4]) {
			first += 4
		}
		for bytes.Equal(x[last:last+4], y[last:last+4]) {
			last -= 4
		}
		r.Min.X, r.Max.X = min(r.Min.X, (from+first)/4), max(r.Max.X, (from+last)/4+1)
		r.Min.Y, r.Max.Y = min(r.Min.Y, row/stride), max(r.Max.Y, row/stride+1)
	}
	return r
}

// join adds r to disjoint rectangles, and unites those that are near each other.
func join(all []image.Rectangle, r image.Rectangle) []image.Rectangle {
	for i := 0; i < len(all); i++ {
		if all[i].Inset(-nearby).Overlaps(r) {
			r = r.Union(all[i])
			all = slices.Delete(all, i, i+1)
			i = -1
		}
	}
	return append(all, r)
}

// matters adds the parts of a change to the areas, and reports whether one of them is more
// than an animation.
func (m *Motion) matters(at time.Time) bool {
	other, carets := 0, 0
	enter := func(i int, r image.Rectangle) {
		switch a := &m.areas[i]; {
		case m.repeats(a, r, at):
		case a.blinks && at.Sub(m.last) >= caretPause:
			carets++
		default:
			other++
		}
	}
	outside := m.changed[:0]
	for _, r := range m.changed {
		if i := slices.IndexFunc(m.areas, func(a area) bool { return r.In(a.base.Inset(-slack)) }); i >= 0 {
			enter(i, r)
		} else {
			outside = append(outside, r)
		}
	}
	for _, r := range outside {
		enter(m.enlarge(r, at), r)
	}
	return other > 0 || carets > 1
}

// repeats adds a change of r to an area that contains it, and reports whether the area is an
// animation.
func (m *Motion) repeats(a *area, r image.Rectangle, at time.Time) bool {
	a.blinks = r.Dx() <= caretWidth && r.Dy() <= caretHeight && at.Sub(a.latest) >= caretPause
	a.latest = at
	if a.moments++; a.moments == 1 {
		return false // it has just grown
	}
	a.rect = a.rect.Union(r)
	lasts, screen := animationFor, m.size.X*m.size.Y
	switch size := pixels(a.base); {
	case size*largeShare > screen:
		return false
	case size*smallShare > screen:
		lasts = largeFor
	}
	if !a.animates && !a.blinks && a.moments > animationMoments && at.Sub(a.grown) >= lasts {
		a.animates = true
		if pixels(a.base) > shrinks*pixels(a.rect) {
			a.base = a.rect
		}
	}
	return a.animates
}

// enlarge makes a new area of r and the areas near it, and returns its index. What moves back
// and forth, such as the block of a pulsating progress bar, changes within an area and beside
// it in the same moment: such an area has not grown.
func (m *Motion) enlarge(r image.Rectangle, at time.Time) int {
	next, part := area{grown: at}, r
	for i := 0; i < len(m.areas); i++ {
		if a := m.areas[i]; a.base.Inset(-nearby).Overlaps(r) {
			r = r.Union(a.base)
			within := a.latest.Equal(at) || 2*pixels(part.Intersect(a.base)) >= pixels(part)
			if within && a.moments > 1 && pixels(r)*smallShare <= m.size.X*m.size.Y {
				next = a
			} else if a.latest.After(next.latest) {
				next.latest = a.latest
			}
			m.areas = slices.Delete(m.areas, i, i+1)
			i = -1
		}
	}
	if len(m.areas) == maxAreas {
		m.areas = slices.Delete(m.areas, 0, 1)
	}
	next.base = r
	m.areas = append(m.areas, next)
	return len(m.areas) - 1
}

func pixels(r image.Rectangle) int { return r.Dx() * r.Dy() }
