package desktop

import (
	"slices"
	"testing"
	"time"

	"github.com/deskhand/deskhand/internal/picture"
)

// screenOf returns a black screen whose bands have the change number 1.
func screenOf(w, h int) *picture.Image {
	m := &picture.Image{Pix: make([]byte, w*h*4), Width: w, Height: h, Stride: w * 4, BandHeight: bandHeight, Seq: 1}
	m.Bands = slices.Repeat([]uint64{1}, (h+bandHeight-1)/bandHeight)
	return m
}

// paint changes pixels of a rectangle, and the numbers of its bands.
func paint(m *picture.Image, r Rect) {
	m.Seq++
	for y := r.Y; y < r.Y+r.Height; y++ {
		m.Bands[y/bandHeight] = m.Seq
		for x := r.X; x < r.X+r.Width; x++ {
			m.Pix[y*m.Stride+4*x]++
		}
	}
}

// idOf returns the observation of a whole screen.
func idOf(m *picture.Image) observationID {
	whole := Rect{0, 0, m.Width, m.Height}
	return observationID{epoch: "e", damage: damageOf(m, whole), region: whole, size: Size{m.Width, m.Height}}
}

// TestObservedScreens: a screen is compared by tiles with those that are kept, and by rows
// with others.
func TestObservedScreens(t *testing.T) {
	t.Parallel()
	var o observedScreens
	m := screenOf(100, 50)
	whole := Rect{0, 0, 100, 50}
	first := idOf(m)
	o.add(m, nil)
	for _, c := range []struct {
		paint Rect
		want  []Rect
	}{
		{Rect{20, 20, 1, 1}, []Rect{{16, 16, 16, 16}}},
		{Rect{30, 20, 4, 20}, []Rect{{16, 16, 32, 32}}},
		{Rect{98, 48, 2, 2}, []Rect{{16, 16, 32, 32}, {96, 48, 4, 2}}},
	} {
		paint(m, c.paint)
		if got, known := o.changed(m, first, whole); !known || !slices.Equal(got, c.want) {
			t.Errorf("changed = %v, %v, want %v", got, known, c.want)
		}
		o.add(m, nil)
	}
	if got, known := o.changed(m, first, Rect{0, 0, 20, 20}); !known || !slices.Equal(got, []Rect{{16, 16, 4, 4}}) {
		t.Errorf("a part: %v, %v", got, known)
	}
	var none *observedScreens
	if got, known := none.changed(m, first, whole); known || !slices.Equal(got, []Rect{{0, 16, 100, 34}}) {
		t.Errorf("without memory: %v, %v", got, known)
	}
	if got, known := o.changed(screenOf(100, 40), first, whole); known || !slices.Equal(got, []Rect{whole}) {
		t.Errorf("a smaller screen: %v, %v", got, known)
	}
	if got, _ := o.changed(m, idOf(m), whole); got != nil {
		t.Errorf("the same screen: %v", got)
	}
	for range mostObserved {
		paint(m, Rect{0, 0, 1, 1})
		o.add(m, nil)
	}
	if len(o.kept) != mostObserved {
		t.Errorf("%d screens are kept, want %d", len(o.kept), mostObserved)
	}
	if got, known := o.changed(m, first, Rect{0, 0, 100, 16}); known || !slices.Equal(got, []Rect{{0, 0, 100, 16}}) {
		t.Errorf("an old observation: %v, %v", got, known)
	}
	large := screenOf(4096, 4096)
	for range 32 {
		paint(large, Rect{0, 0, 1, 4096})
		o.add(large, nil)
	}
	if o.tiles > mostObservedTiles {
		t.Errorf("%d tiles are kept, want at most %d", o.tiles, mostObservedTiles)
	}
}

// TestChangedBound: many rectangles become one.
func TestChangedBound(t *testing.T) {
	t.Parallel()
	got := tilesWhere(Rect{8, 0, 320, 320}, func(band, x int) bool { return (band+x)%2 == 0 && band > 1 })
	if !slices.Equal(got, []Rect{{8, 32, 320, 288}}) {
		t.Errorf("changed = %v", got)
	}
}

// TestManyChanges: the time for a checkerboard of the largest screen grows with its area, not with the square.
func TestManyChanges(t *testing.T) {
	t.Parallel()
	whole := Rect{0, 0, 8192, 8192}
	begun := time.Now()
	if got := tilesWhere(whole, func(band, x int) bool { return (band+x)%2 == 0 }); !slices.Equal(got, []Rect{whole}) {
		t.Errorf("changed = %v", got)
	}
	if took := time.Since(begun); took > 3*time.Second {
		t.Errorf("it took %v", took)
	}
}

// BenchmarkObserve keeps a screen of 1440x900 that has changed in all of its bands, or in one.
func BenchmarkObserve(b *testing.B) {
	for name, height := range map[string]int{"all": 900, "one": 1} {
		b.Run(name, func(b *testing.B) {
			var o observedScreens
			m := screenOf(1440, 900)
			for b.Loop() {
				b.StopTimer()
				paint(m, Rect{0, 0, 1, height})
				b.StartTimer()
				o.add(m, nil)
			}
		})
	}
}
