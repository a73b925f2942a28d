package desktop

import (
	"hash/maphash"
	"math/bits"
	"slices"
	"sync"

	"github.com/deskhand/deskhand/internal/picture"
	"github.com/deskhand/deskhand/internal/x11"
)

// Bounds of what observedScreens keeps: for 1440x900 that is 200 screens without a common
// row, or 512 that have rows in common.
const (
	mostObserved      = 512
	mostObservedTiles = 1 << 20
)

// tile is the width of an area whose pixels have one hash. Its height is the height of a band.
const tile = 16

// mostChanged bounds a list of changed rectangles. A longer one becomes one rectangle.
const mostChanged = 32

// observedScreens holds hashes of the latest screens that a session was observed with, so that
// a later screen can be compared with them. The nil *observedScreens holds none.
type observedScreens struct {
	mu    sync.Mutex // guards the fields below
	rows  []tileRow  // of the latest screen, by band
	kept  []observedScreen
	tiles int // of kept, except those in common with the screen before
}

type observedScreen struct {
	seq   uint64
	size  Size
	rows  []tileRow
	stack []x11.StackedWindow
	fresh int // tiles that the screen before has not
}

// tileRow has the hashes of a band.
type tileRow struct {
	seq    uint64 // the band's change number
	hashes []uint64
}

var tileSeed = maphash.MakeSeed()

// newTileRow returns the hashes of band i of a screen.
func newTileRow(screen *picture.Image, i int) tileRow {
	hashes := make([]uint64, (screen.Width+tile-1)/tile)
	for y := i * screen.BandHeight; y < min((i+1)*screen.BandHeight, screen.Height); y++ {
		row := screen.Pix[y*screen.Stride:][:4*screen.Width]
		for x := range hashes {
			part := row[4*tile*x : min(4*tile*(x+1), len(row))]
			hashes[x] = bits.RotateLeft64(hashes[x], 7)*0x9e3779b97f4a7c15 ^ maphash.Bytes(tileSeed, part)
		}
	}
	return tileRow{screen.Bands[i], hashes}
}

// rowsOf returns the hashes of a screen. It computes the hashes of the bands that have changed
// since its last call, and returns their number of tiles. The caller has mu.
func (o *observedScreens) rowsOf(screen *picture.Image) (rows []tileRow, fresh int) {
	columns := (screen.Width + tile - 1) / tile
	rows = slices.Clone(o.rows)
	if len(rows) != len(screen.Bands) || len(rows) > 0 && len(rows[0].hashes) != columns {
		rows = make([]tileRow, len(screen.Bands))
	}
	for i, seq := range screen.Bands {
		if rows[i].seq != seq || rows[i].hashes == nil {
			rows[i] = newTileRow(screen, i)
			fresh += columns
		}
	}
	o.rows = rows
	return rows, fresh
}

// has reports whether the latest screen is one with that change number.
func (o *observedScreens) has(seq uint64) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.kept) > 0 && o.kept[len(o.kept)-1].seq == seq
}

// add keeps a screen, and drops the oldest ones that are too many.
func (o *observedScreens) add(screen *picture.Image, stack []x11.StackedWindow) {
	o.mu.Lock()
	defer o.mu.Unlock()
	rows, fresh := o.rowsOf(screen)
	o.kept = append(o.kept, observedScreen{screen.Seq, Size{screen.Width, screen.Height}, rows, stack, fresh})
	o.tiles += fresh
	drop := 0
	for ; len(o.kept)-drop > 1 && (len(o.kept)-drop > mostObserved || o.tiles > mostObservedTiles); drop++ {
		o.tiles -= o.kept[drop].fresh
	}
	if drop > 0 {
		o.kept = slices.Delete(o.kept, 0, drop)
	}
}

// find returns the screen of an observation, or nil if it is not kept. The caller has mu.
func (o *observedScreens) find(m observationID) *observedScreen {
	for i := len(o.kept) - 1; i >= 0; i-- {
		k := &o.kept[i]
		if m.region.X+m.region.Width > k.size.Width || m.region.Y+m.region.Height > k.size.Height {
			continue
		}
		newest := uint64(0)
		for band := m.region.Y / bandHeight; band <= (m.region.Y+m.region.Height-1)/bandHeight; band++ {
			newest = max(newest, k.rows[band].seq)
		}
		if newest == m.damage {
			return k
		}
	}
	return nil
}

// changed returns where a part of the screen differs from an observation of it. known is
// false if the observation is not kept: then the result has whole rows.
func (o *observedScreens) changed(screen *picture.Image, m observationID, part Rect) (rects []Rect, known bool) {
	if m.region.X+m.region.Width > screen.Width || m.region.Y+m.region.Height > screen.Height {
		return []Rect{part}, false // the screen had another size
	}
	differs := func(band, _ int) bool { return screen.Bands[band] > m.damage }
	if o != nil {
		o.mu.Lock()
		defer o.mu.Unlock()
		if was := o.find(m); was != nil && was.size == (Size{screen.Width, screen.Height}) {
			rows, _ := o.rowsOf(screen)
			known = true
			differs = func(band, x int) bool { return rows[band].hashes[x] != was.rows[band].hashes[x] }
		}
	}
	return tilesWhere(part, differs), known
}

// tilesWhere returns rectangles of the tiles of a part of the screen for which differs is
// true.
func tilesWhere(part Rect, differs func(band, x int) bool) []Rect {
	var rects []Rect
	for band := part.Y / bandHeight; band*bandHeight < part.Y+part.Height; band++ {
		for x := part.X / tile; x*tile < part.X+part.Width; x++ {
			if !differs(band, x) {
				continue
			}
			r := Rect{x * tile, band * bandHeight, tile, bandHeight}
			if n := len(rects) - 1; n >= 0 && rects[n].Y == r.Y && rects[n].X+rects[n].Width == r.X {
				rects[n].Width += tile
				continue
			}
			rects = append(rects, r)
		}
	}
	rects = stacked(rects)
	for i := range rects {
		rects[i] = rects[i].within(part)
	}
	if len(rects) > mostChanged {
		return []Rect{boundingBox(rects)}
	}
	return rects
}

// stacked joins rectangles of the same columns, one on the other. They are in the order of
// their rows.
func stacked(rects []Rect) []Rect {
	type edge struct{ x, y, width int }
	var joined []Rect
	bottoms := map[edge]int{} // indexes of joined
	for _, r := range rects {
		i, ok := bottoms[edge{r.X, r.Y, r.Width}]
		if ok {
			joined[i].Height += r.Height
		} else {
			i = len(joined)
			joined = append(joined, r)
		}
		bottoms[edge{r.X, r.Y + r.Height, r.Width}] = i
	}
	return joined
}

// within returns the part of r in another rectangle. The two must have pixels in common.
func (r Rect) within(o Rect) Rect {
	x, y := max(r.X, o.X), max(r.Y, o.Y)
	return Rect{x, y, min(r.X+r.Width, o.X+o.Width) - x, min(r.Y+r.Height, o.Y+o.Height) - y}
}

// boundingBox returns the smallest rectangle that contains all of rects. There is at least one.
func boundingBox(rects []Rect) Rect {
	box := rects[0]
	for _, r := range rects[1:] {
		x, y := min(box.X, r.X), min(box.Y, r.Y)
		box = Rect{x, y, max(box.X+box.Width, r.X+r.Width) - x, max(box.Y+box.Height, r.Y+r.Height) - y}
	}
	return box
}
