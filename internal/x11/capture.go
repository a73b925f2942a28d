package x11

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/jezek/xgb/shm"
	"github.com/jezek/xgb/xproto"

	"github.com/deskhand/deskhand/internal/picture"
	"github.com/deskhand/deskhand/internal/x11/request"
)

// ErrCaptureClosed is returned by a Capture that was closed.
var ErrCaptureClosed = errors.New("capture is closed")

// bandHeight is Frame.BandHeight. It is the height of a macroblock, so that a video
// encoder's rows are bands.
const bandHeight = 16

// mergeBands is the number of clean bands between two damaged ones that are fetched with
// them: another request costs about as much.
const mergeBands = 3

// tries bounds how often Frame starts again because the screen changes its size.
const tries = 16

// Frame is a picture of the screen at one moment. It does not change until its last
// holder has released it, and must not be written to. Seq grows whenever pixels change,
// within one Capture. A new size changes every band.
type Frame struct {
	picture.Image
	refs atomic.Int32
	pool *sync.Pool // takes the frame back
}

// Release ends the use of a frame. Each holder calls it once.
func (f *Frame) Release() {
	switch n := f.refs.Add(-1); {
	case n == 0:
		f.pool.Put(f)
	case n < 0:
		panic("x11: Frame released more often than held")
	}
}

// Capture takes pictures of the screen. It fetches only the rows that have changed since the
// previous picture.
type Capture struct {
	c      *Conn
	seg    shm.Seg // the segment's number at the server
	damage damageWatch

	closing sync.Once
	closed  chan struct{}  // by Close
	watch   sync.WaitGroup // for the goroutine that ends the capture

	watching watchers

	turn chan struct{} // holds one value; the goroutine that receives it owns the fields below

	w, h    int
	segment *segment   // the same rows as current, and perhaps newer
	current *Frame     // nil: none yet, or ended
	frames  *sync.Pool // of *Frame, of this size
	seq     uint64     // of the newest change
	blank   bool       // current was never filled
	trimmed *trimmed   // by Trim; nil after the next frame
	lost    bool       // damage was taken, but its pixels were not put in place
	dirty   []bool     // by band: to be fetched
	pending []imageRequest
}

// NewCapture returns a Capture, which costs nothing until Frame is called.
func (c *Conn) NewCapture() (*Capture, error) {
	if err := c.checkFormat(); err != nil {
		return nil, request.Wrap("start capture", err)
	}
	seg, err := shm.NewSegId(c.x)
	if err != nil {
		return nil, request.Wrap("start capture", err)
	}
	cp := &Capture{c: c, seg: seg, closed: make(chan struct{}), turn: make(chan struct{}, 1)}
	cp.damage = damageWatch{c: c, wake: make(chan struct{})}
	if err := cp.damage.start(); err != nil {
		return nil, request.Wrap("start capture", err)
	}
	cp.turn <- struct{}{}
	cp.watch.Go(func() {
		select {
		case <-c.done:
		case <-cp.closed:
		}
		<-cp.turn
		cp.damage.stop()
		cp.drop()
		cp.turn <- struct{}{}
	})
	return cp, nil
}

// Close ends the capture, waits for a running Frame, and frees the memory, as the end of
// the connection does. Frames that are held stay valid. Close may be called more than once.
func (cp *Capture) Close() error {
	cp.closing.Do(func() { close(cp.closed) })
	cp.watch.Wait()
	return nil
}

// drop frees the memory.
func (cp *Capture) drop() {
	cp.c.free(cp.seg, cp.segment)
	cp.segment = nil
	if cp.current != nil {
		cp.current.Release()
		cp.current = nil
	}
	cp.frames, cp.w, cp.h = nil, 0, 0
}

// trimmed describes the frame that Trim dropped.
type trimmed struct {
	w, h  int
	bands []uint64 // their change numbers
	sums  []uint64 // of their pixels
}

var sumSeed = maphash.MakeSeed()

// Trim frees the memory of the picture until the next Frame, which fetches the whole
// screen. Bands with the same pixels as before keep their change numbers.
func (cp *Capture) Trim() {
	<-cp.turn
	defer func() { cp.turn <- struct{}{} }()
	if cp.current == nil || cp.blank {
		return
	}
	kept := &trimmed{w: cp.w, h: cp.h, bands: slices.Clone(cp.current.Bands)}
	for i := range kept.bands {
		a, b := cp.band(i)
		kept.sums = append(kept.sums, maphash.Bytes(sumSeed, cp.current.Pix[a:b]))
	}
	cp.drop()
	cp.trimmed = kept
}

// Damaged returns a channel that is closed at the first drawing after the latest Frame, at
// a new screen size, and when the capture or its connection ends.
func (cp *Capture) Damaged() <-chan struct{} { return cp.damage.damaged() }

// Frame returns the screen at one moment, at or after the call. The caller holds it until
// Release. Callers take turns: ctx ends the wait for a turn, but not a request to the
// server. The error wraps ErrConnClosed, ErrCaptureClosed or the error of ctx.
func (cp *Capture) Frame(ctx context.Context) (*Frame, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("capture screen: %w", err)
	}
	select {
	case <-cp.turn:
	case <-ctx.Done():
		return nil, fmt.Errorf("capture screen: %w", ctx.Err())
	}
	defer func() { cp.turn <- struct{}{} }()
	select {
	case <-cp.closed:
		return nil, fmt.Errorf("capture screen: %w", ErrCaptureClosed)
	case <-cp.c.done:
		return nil, fmt.Errorf("capture screen: %w", ErrConnClosed)
	default:
	}
	if err := cp.refresh(); err != nil {
		return nil, request.Wrap("capture screen", err)
	}
	cp.current.refs.Add(1)
	return cp.current, nil
}

// refresh brings current up to date.
//
// Other clients may draw between two requests for images. So parts of the screen are put in
// place only if nothing was drawn from when the damage was taken until after the parts
// were fetched. Otherwise the whole screen is fetched in one request.
func (cp *Capture) refresh() error {
	w, h, drawn, err := cp.queryDamage()
	if err != nil {
		return err
	}
	if !drawn && !cp.lost && w == cp.w && h == cp.h && cp.current != nil {
		return nil
	}
	whole := cp.lost
	cp.lost = true // until the pixels are in place
	for range tries {
		if w != cp.w || h != cp.h || cp.current == nil {
			cp.resize(w, h)
			whole = true
		}
		nowW, nowH, torn, err := cp.fetch(whole || cp.mostlyDirty())
		switch {
		case outOfScreen(err) || err == nil && (nowW != cp.w || nowH != cp.h):
			w, h, whole = nowW, nowH, true
			continue
		case err != nil:
			return err
		case torn:
			whole = true
			continue
		}
		cp.apply()
		cp.lost = false
		return nil
	}
	return errors.New("the screen does not keep its size")
}

// queryDamage asks for the screen's size and for the damage, which it records in dirty.
func (cp *Capture) queryDamage() (w, h int, drawn bool, err error) {
	cp.c.wire.cork()
	t := cp.damage.request()
	geometry := xproto.GetGeometry(cp.c.x, xproto.Drawable(cp.c.root))
	_ = cp.c.wire.uncork() // the replies have the error
	clear(cp.dirty)
	drawn, err = cp.damage.wait(t, cp.mark)
	if err != nil {
		return 0, 0, false, err
	}
	g, err := geometry.Reply()
	if err != nil {
		return 0, 0, false, err
	}
	return int(g.Width), int(g.Height), drawn, nil
}

// mark records that rows top to bottom must be fetched.
func (cp *Capture) mark(top, bottom int) {
	top, bottom = max(top, 0), min(bottom, cp.h)
	for y := top - top%bandHeight; y < bottom; y += bandHeight {
		cp.dirty[y/bandHeight] = true
	}
}

// mostlyDirty reports whether more than half of the screen is damaged.
func (cp *Capture) mostlyDirty() bool {
	n := 0
	for _, d := range cp.dirty {
		if d {
			n++
		}
	}
	return 2*n > len(cp.dirty)
}

// fetch gets the dirty bands, or the whole screen, into the segment, and the size of the
// screen. torn means that the bands may not fit the rest, because a client drew meanwhile.
func (cp *Capture) fetch(whole bool) (w, h int, torn bool, err error) {
	var t damageRequest
	if whole {
		for i := range cp.dirty {
			cp.dirty[i] = true
		}
	}
	cp.c.wire.cork()
	cp.pending = cp.pending[:0]
	for top, bottom := range cp.spans {
		cp.pending = append(cp.pending, cp.c.request(cp.seg, cp.segment, top, cp.w, bottom-top))
	}
	if !whole {
		t = cp.damage.request()
	}
	geometry := xproto.GetGeometry(cp.c.x, xproto.Drawable(cp.c.root))
	_ = cp.c.wire.uncork() // the replies have the error
	// Until the last answer, also after an error, the server may write to the segment.
	for i := range cp.pending {
		if e := cp.pending[i].wait(cp.segment); err == nil {
			err = e
		}
	}
	if !whole {
		drawn, e := cp.damage.wait(t, nil)
		torn = drawn
		if e != nil {
			err = e
		}
	}
	g, e := geometry.Reply()
	if e != nil {
		return 0, 0, false, e
	}
	return int(g.Width), int(g.Height), torn, err
}

// spans yields the first row, and the row after the last, of each run of dirty bands.
func (cp *Capture) spans(yield func(top, bottom int) bool) {
	first, last := -1, -1
	for i := range cp.dirty {
		if !cp.dirty[i] {
			continue
		}
		if first >= 0 && i-last > mergeBands+1 {
			if !yield(first*bandHeight, (last+1)*bandHeight) {
				return
			}
			first = i
		}
		if first < 0 {
			first = i
		}
		last = i
	}
	if first >= 0 {
		yield(first*bandHeight, min((last+1)*bandHeight, cp.h))
	}
}

// apply puts the dirty bands that differ in place.
func (cp *Capture) apply() {
	f, n := cp.current, 0
	for i, dirty := range cp.dirty {
		if !dirty {
			continue
		}
		if a, b := cp.band(i); !cp.blank && bytes.Equal(f.Pix[a:b], cp.segment.mem[a:b]) {
			cp.dirty[i] = false
			continue
		}
		n++
	}
	if n == 0 {
		return
	}
	cp.observe(f)
	// If the capture is the only holder, no reader sees the frame change.
	inPlace := f.refs.Load() == 1
	if !inPlace {
		next := cp.newFrame()
		copy(next.Pix, cp.segment.mem)
		copy(next.Bands, f.Bands)
		cp.current = next
		f.Release()
		f = next
	}
	for i, dirty := range cp.dirty {
		if !dirty {
			continue
		}
		f.Bands[i] = cp.change(i)
		if inPlace {
			a, b := cp.band(i)
			copy(f.Pix[a:b], cp.segment.mem[a:b])
		}
	}
	cp.seq = slices.Max(f.Bands)
	f.Seq = cp.seq
	cp.blank, cp.trimmed = false, nil
}

// change returns the change number of a band of the segment: a new one, unless the band
// has the pixels that it had before Trim.
func (cp *Capture) change(i int) uint64 {
	if t := cp.trimmed; t != nil && t.w == cp.w && t.h == cp.h {
		if a, b := cp.band(i); maphash.Bytes(sumSeed, cp.segment.mem[a:b]) == t.sums[i] {
			return t.bands[i]
		}
	}
	return cp.seq + 1
}

// band returns where band i begins and ends in a picture.
func (cp *Capture) band(i int) (a, b int) {
	return i * bandHeight * cp.w * 4, min((i+1)*bandHeight, cp.h) * cp.w * 4
}

// resize replaces the frames by frames of another size, in which every band is dirty.
func (cp *Capture) resize(w, h int) {
	cp.drop()
	cp.w, cp.h, cp.blank = w, h, true
	cp.segment = cp.c.newSegment(cp.seg, w*h*4)
	cp.dirty = make([]bool, (h+bandHeight-1)/bandHeight)
	cp.frames = newFrames(w, h)
	cp.current = cp.newFrame()
}

// newFrame returns a frame with one holder and any content.
func (cp *Capture) newFrame() *Frame {
	f := cp.frames.Get().(*Frame)
	f.refs.Store(1)
	return f
}

// newFrames returns a pool of frames of one size.
func newFrames(w, h int) *sync.Pool {
	pool := &sync.Pool{}
	pool.New = func() any {
		return &Frame{pool: pool, Image: picture.Image{
			Pix: make([]byte, w*h*4), Width: w, Height: h, Stride: w * 4,
			Bands: make([]uint64, (h+bandHeight-1)/bandHeight), BandHeight: bandHeight,
		}}
	}
	return pool
}
