package vp8screen

import "image"

const (
	maxRegions = 32
	// regionGap is how many macroblocks may lie between two of one region. Empty lines do
	// not change when they move.
	regionGap = 2
	// regionSplits is how often a region is cut in two to exclude macroblocks that did not move.
	regionSplits = 4
)

// regionMaker makes rectangles of labelled macroblocks.
type regionMaker struct {
	seen    []bool
	stack   []int32
	motions []Motion
}

func (m *regionMaker) resize(n int) {
	*m = regionMaker{seen: make([]bool, n), stack: make([]int32, 0, n), motions: make([]Motion, 0, maxRegions)}
}

func (m *regionMaker) make(shifts []shift, label []uint8, dirty *Dirty, cur *Frame) []Motion {
	clear(m.seen)
	m.motions = m.motions[:0]
	for i, l := range label {
		if l == 0 || m.seen[i] {
			continue
		}
		r := m.fill(i, label, dirty.Cols, dirty.Rows)
		m.add(r, regionSplits, l, shifts[l-1], label, dirty, cur)
	}
	return m.motions
}

// fill returns the rectangle of the macroblocks that are connected with start and have its
// label.
func (m *regionMaker) fill(start int, label []uint8, cols, rows int) image.Rectangle {
	l := label[start]
	r := cell(start, cols)
	m.seen[start] = true
	m.stack = append(m.stack[:0], int32(start))
	for len(m.stack) > 0 {
		at := int(m.stack[len(m.stack)-1])
		m.stack = m.stack[:len(m.stack)-1]
		c := cell(at, cols)
		r = r.Union(c)
		for y := max(0, c.Min.Y-regionGap); y < min(rows, c.Max.Y+regionGap); y++ {
			for x := max(0, c.Min.X-regionGap); x < min(cols, c.Max.X+regionGap); x++ {
				if i := y*cols + x; label[i] == l && !m.seen[i] {
					m.seen[i] = true
					m.stack = append(m.stack, int32(i))
				}
			}
		}
	}
	return r
}

func cell(i, cols int) image.Rectangle {
	return image.Rect(i%cols, i/cols, i%cols+1, i/cols+1)
}

// add makes a region of the macroblocks in r that have the label, or several if most of the
// changed ones in r do not have it.
func (m *regionMaker) add(r image.Rectangle, splits int, l uint8, d shift, label []uint8, dirty *Dirty, cur *Frame) {
	var tight image.Rectangle
	matched := 0
	for y := r.Min.Y; y < r.Max.Y; y++ {
		for x := r.Min.X; x < r.Max.X; x++ {
			if label[y*dirty.Cols+x] == l {
				matched++
				tight = tight.Union(image.Rect(x, y, x+1, y+1))
			}
		}
	}
	if matched < minMatch || len(m.motions) == maxRegions {
		return
	}
	changed := 0
	for y := tight.Min.Y; y < tight.Max.Y; y++ {
		for _, b := range dirty.Blocks[y*dirty.Cols:][tight.Min.X:tight.Max.X] {
			if b != 0 {
				changed++
			}
		}
	}
	if 2*matched >= changed {
		// On average, the moved region ends in the middle of the macroblocks around.
		pixels := image.Rectangle{Min: tight.Min.Mul(mbSize), Max: tight.Max.Mul(mbSize)}.Inset(-mbSize / 2)
		m.motions = append(m.motions, Motion{Rect: pixels.Intersect(cur.Bounds()), DX: d.dx, DY: d.dy})
		return
	}
	if splits == 0 {
		return
	}
	a, b := tight, tight
	if tight.Dx() > tight.Dy() {
		a.Max.X = (tight.Min.X + tight.Max.X) / 2
		b.Min.X = a.Max.X
	} else {
		a.Max.Y = (tight.Min.Y + tight.Max.Y) / 2
		b.Min.Y = a.Max.Y
	}
	m.add(a, splits-1, l, d, label, dirty, cur)
	m.add(b, splits-1, l, d, label, dirty, cur)
}
