//go:build !race

// The finder has one goroutine, and comparing pixels is slow under the race
// detector.

package vp8screen

import (
	"fmt"
	"image"
	"math/rand/v2"
	"testing"
)

// pair is two consecutive frames, with the changed macroblocks.
type pair struct {
	prev, cur *Frame
	dirty     *Dirty
}

func newPair(before, after *canvas) pair {
	p := pair{prev: before.frame(), cur: before.frame(), dirty: NewDirty(before.width, before.height)}
	p.cur.SetBGRX(after.pix, after.stride, after.bounds(), p.dirty)
	return p
}

// movedTo reports whether the luma of a macroblock equals the luma at minus d in the previous
// frame.
func (p pair) movedTo(col, row int, d shift) bool {
	x, y := col*mbSize-d.dx, row*mbSize-d.dy
	if x < 0 || y < 0 || x+mbSize > p.cur.YStride || (y+mbSize)*p.cur.YStride > len(p.cur.Y) {
		return false
	}
	at := row*mbSize*p.cur.YStride + col*mbSize
	equal, _ := equalBlock(p.cur.Y[at:], p.prev.Y[y*p.cur.YStride+x:], p.cur.YStride)
	return equal
}

// explained counts the changed macroblocks inside of r that one of the shifts
// explains.
func (p pair) explained(r image.Rectangle, shifts ...shift) (explained, changed int) {
	for row := macroblocks(r.Min.Y); row < p.dirty.Rows; row++ {
		for col := macroblocks(r.Min.X); col < p.dirty.Cols; col++ {
			block := image.Rect(col, row, col+1, row+1)
			block = image.Rectangle{Min: block.Min.Mul(mbSize), Max: block.Max.Mul(mbSize)}.Intersect(p.cur.Bounds())
			if !block.In(r) || !p.dirty.Get(col, row) {
				continue
			}
			changed++
			for _, d := range shifts {
				if p.movedTo(col, row, d) {
					explained++
					break
				}
			}
		}
	}
	return explained, changed
}

// explainedBy counts the changed macroblocks whose pixels one of the motions gives.
func (p pair) explainedBy(motions []Motion) (explained, changed int) {
	for i, b := range p.dirty.Blocks {
		if b == 0 {
			continue
		}
		changed++
		block := cell(i, p.dirty.Cols)
		for _, m := range motions {
			pixels := image.Rectangle{Min: block.Min.Mul(mbSize), Max: block.Max.Mul(mbSize)}
			if pixels.Overlaps(m.Rect) && p.movedTo(block.Min.X, block.Min.Y, shift{m.DX, m.DY}) {
				explained++
				break
			}
		}
	}
	return explained, changed
}

// wantMotions checks that every motion explains at least half of the changed macroblocks of its
// region, and that all motions together explain 95 % of the macroblocks that the shifts explain.
func (p pair) wantMotions(t *testing.T, motions []Motion, shifts ...shift) {
	t.Helper()
	for _, m := range motions {
		if m.Rect.Empty() || !m.Rect.In(p.cur.Bounds()) {
			t.Errorf("%v is not inside of the frame", m)
			continue
		}
		if good, all := p.explained(m.Rect, shift{m.DX, m.DY}); 2*good < all || good == 0 {
			t.Errorf("%v: %d of %d changed macroblocks are what moved there", m, good, all)
		}
	}
	got, _ := p.explainedBy(motions)
	if want, _ := p.explained(p.cur.Bounds(), shifts...); got*100 < want*95 {
		t.Errorf("%d macroblocks are explained by %v, but %d are by %v", got, motions, want, shifts)
	}
}

func TestScroll(t *testing.T) {
	t.Parallel()
	for _, size := range []image.Point{{1280, 800}, {641, 479}, {320, 240}} {
		for _, d := range []shift{
			{0, 1}, {0, -1}, {0, 2}, {0, -13}, {0, 26}, {0, -57}, {0, 40}, // up and down
			{1, 0}, {-1, 0}, {7, 0}, {-32, 0}, // sideways
			{3, 5}, {-9, 2}, {16, -16}, {-21, -33}, // both
		} {
			before, r := textCanvas(uint64(100+d.dx*7+d.dy), size.X, size.Y)
			after := cloneCanvas(before)
			after.move(r, d.dx, d.dy)
			p := newPair(before, after)
			var s ScrollFinder
			t.Run(fmt.Sprintf("%v by %v", size, d), func(t *testing.T) {
				p.wantMotions(t, s.Find(p.prev, p.cur, p.dirty), d)
			})
		}
	}
}

// TestScrollRepeatedRows scrolls text with many empty and equal lines, and few different ones.
func TestScrollRepeatedRows(t *testing.T) {
	t.Parallel()
	before := newCanvas(800, 600)
	before.fill(before.bounds(), 0xffffff)
	r := image.Rect(16, 16, 784, 584)
	for i := range 43 {
		text := []string{"", "", "ok", "--- PASS", fmt.Sprint("test ", i)}[min(4, i%9)]
		before.text(mono(), 20, 16+i*mono().line, text, 0, r)
	}
	for _, d := range []shift{{0, -1}, {0, -mono().line}, {0, -3 * mono().line}, {0, 17}} {
		after := cloneCanvas(before)
		after.move(r, 0, d.dy)
		p := newPair(before, after)
		var s ScrollFinder
		t.Run(fmt.Sprint(d), func(t *testing.T) { p.wantMotions(t, s.Find(p.prev, p.cur, p.dirty), d) })
	}
}

// TestScrollRegions moves three regions in different directions in one frame, and redraws a part
// of one region.
func TestScrollRegions(t *testing.T) {
	t.Parallel()
	before := newCanvas(1600, 900)
	desktopBackground(before)
	rnd := rand.New(rand.NewPCG(20, 0))
	regions := []image.Rectangle{image.Rect(33, 47, 590, 823), image.Rect(640, 50, 1170, 400), image.Rect(805, 450, 1555, 871)}
	shifts := []shift{{0, -15}, {0, 3}, {11, 6}}
	for _, r := range regions {
		before.fill(r, 0xfdf6e3)
		for y := r.Min.Y; y < r.Max.Y; y += mono().line {
			terminalLine(before, rnd, r, y)
		}
	}
	after := cloneCanvas(before)
	for i, r := range regions {
		after.move(r, shifts[i].dx, shifts[i].dy)
	}
	after.fill(image.Rect(33, 780, 590, 823), 0x224466)
	p := newPair(before, after)
	var s ScrollFinder
	motions := s.Find(p.prev, p.cur, p.dirty)
	p.wantMotions(t, motions, shifts...)
	for i, r := range regions {
		found := false
		for _, m := range motions {
			found = found || m.DX == shifts[i].dx && m.DY == shifts[i].dy && m.Rect.Overlaps(r)
		}
		if !found {
			t.Errorf("%v in %v is not in %v", shifts[i], r, motions)
		}
	}
}

// TestScrollCorpus finds the motions of the clips whose movements are known.
func TestScrollCorpus(t *testing.T) {
	t.Parallel()
	minimum := map[string]int{"terminal": 85, "browser": 85, "two regions": 85, "drag": 55, "photo pan": 75}
	for _, k := range corpus {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			moved, changed := findAll(t, k, 1280, 720, 40)
			t.Logf("%d of %d changed macroblocks were found to have moved", moved, changed)
			if moved*100 < minimum[k.name]*changed {
				t.Errorf("%d %% are too few, want %d %%", moved*100/changed, minimum[k.name])
			}
		})
	}
}

// findAll plays a clip and counts the changed macroblocks that the found motions give.
func findAll(t *testing.T, k clip, width, height, frames int) (moved, changed int) {
	t.Helper()
	if k.name == "video" {
		requireFFmpeg(t)
	}
	p := pair{prev: NewFrame(width, height), cur: NewFrame(width, height), dirty: NewDirty(width, height)}
	var s ScrollFinder
	n := 0
	for c, damage := range k.play(t, width, height, frames) {
		p.dirty.Clear()
		for _, r := range damage {
			p.cur.SetBGRX(c.pix, c.stride, r, p.dirty)
		}
		if n++; n > 1 {
			m, all := p.explainedBy(s.Find(p.prev, p.cur, p.dirty))
			moved, changed = moved+m, changed+all
		}
		p.prev.CopyDirty(p.cur, p.dirty)
	}
	return moved, changed
}

// TestScrollNothing passes changes without motion to the finder.
func TestScrollNothing(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(21, 0))
	noise := func() *canvas {
		c := newCanvas(640, 480)
		for i := range c.pix {
			c.pix[i] = byte(rnd.Uint32())
		}
		return c
	}
	flat := func(p rgb) *canvas {
		c := newCanvas(640, 480)
		c.fill(c.bounds(), p)
		return c
	}
	one, other := noise(), noise()
	for name, p := range map[string]pair{
		"noise":    newPair(one, other),
		"the same": newPair(one, one),
		"colours":  newPair(flat(0x112233), flat(0xffeedd)),
		"to flat":  newPair(one, flat(0)),
		"to noise": newPair(flat(0), one),
	} {
		var s ScrollFinder
		if m := s.Find(p.prev, p.cur, p.dirty); len(m) != 0 {
			t.Errorf("%s: found %v", name, m)
		}
		p.dirty.all() // callers may mark macroblocks that do not differ
		if m := s.Find(p.prev, p.cur, p.dirty); len(m) != 0 {
			t.Errorf("%s, all marked: found %v", name, m)
		}
	}
}

// TestScrollSizes scrolls pictures of very small sizes, with one finder.
func TestScrollSizes(t *testing.T) {
	t.Parallel()
	var s ScrollFinder
	rnd := rand.New(rand.NewPCG(22, 0))
	for range 300 {
		c := newCanvas(1+rnd.IntN(200), 1+rnd.IntN(200))
		startRandom(t, c)()
		after := cloneCanvas(c)
		after.move(after.bounds(), rnd.IntN(41)-20, rnd.IntN(41)-20)
		p := newPair(c, after)
		for _, m := range s.Find(p.prev, p.cur, p.dirty) {
			if !m.Rect.In(p.cur.Bounds()) {
				t.Fatalf("%v is not inside of %v", m, p.cur.Bounds())
			}
		}
	}
}

// TestScrollAfterVideo checks that a region that changed completely for a long time is searched
// again after at most retryEvery frames.
func TestScrollAfterVideo(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(23, 0))
	var s ScrollFinder
	for range 30 {
		a, b := newCanvas(640, 480), newCanvas(640, 480)
		for i := range a.pix {
			a.pix[i], b.pix[i] = byte(rnd.Uint32()), byte(rnd.Uint32())
		}
		p := newPair(a, b)
		s.Find(p.prev, p.cur, p.dirty)
	}
	before, r := textCanvas(1, 640, 480)
	after := cloneCanvas(before)
	after.move(r, 0, -9)
	p := newPair(before, after)
	p.dirty.all() // an unchanged frame would make the finder search again
	for n := 1; ; n++ {
		if motions := s.Find(p.prev, p.cur, p.dirty); len(motions) > 0 {
			p.wantMotions(t, motions, shift{0, -9})
			break
		}
		if n > retryEvery {
			t.Fatalf("nothing found in %d frames", n)
		}
	}
}

func TestScrollAllocatesNothing(t *testing.T) {
	before, r := textCanvas(2, 1280, 800)
	after := cloneCanvas(before)
	after.move(r, 5, -9)
	p := newPair(before, after)
	var s ScrollFinder
	s.Find(p.prev, p.cur, p.dirty)
	if n := testing.AllocsPerRun(20, func() { s.Find(p.prev, p.cur, p.dirty) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkScroll(b *testing.B) {
	page, r := textCanvas(3, 1664, 1080) // 1200x800 of it are text
	moved := func(dx, dy int) pair {
		after := cloneCanvas(page)
		after.move(r, dx, dy)
		return newPair(page, after)
	}
	other, _ := textCanvas(4, 1664, 1080)
	small := cloneCanvas(page)
	small.fill(image.Rect(300, 300, 400, 320), 0x112233)
	photo1 := cloneCanvas(page)
	photo1.blit(r, photo(1, r.Dx()+10, r.Dy()+10), image.Point{})
	photo2 := cloneCanvas(page)
	photo2.blit(r, photo(1, r.Dx()+10, r.Dy()+10), image.Pt(3, 7))
	for _, bm := range []struct {
		name string
		p    pair
	}{
		{"down", moved(0, -28)},
		{"sideways", moved(-5, 0)},
		{"both", moved(-5, 9)},
		{"photo", newPair(photo1, photo2)},
		{"other text", newPair(page, other)},
		{"steady", moved(0, -28)},
		{"small", newPair(page, small)},
		{"nothing", newPair(page, page)},
	} {
		b.Run(bm.name, func(b *testing.B) {
			s := new(ScrollFinder)
			for b.Loop() {
				// Every search is as thorough as the first.
				clear(s.fails)
				if bm.name != "steady" {
					s.again = 0
				}
				s.Find(bm.p.prev, bm.p.cur, bm.p.dirty)
			}
			b.ReportMetric(float64(bm.p.dirty.count()), "changed")
		})
	}
}
