package vp8screen

import (
	"fmt"
	"runtime"
	"time"
)

// An Encoder turns frames into VP8. Its methods must not be called at the same
// time.
type Encoder struct {
	cfg        Config
	cols, rows int // size in macroblocks

	// ref is what a decoder shows after the last frame, next what it will show
	// after this one. Both are the same but for the macroblocks marked in stale,
	// which next lacks; so what does not change need not be touched.
	ref, next *Frame
	stale     []byte
	info      []blockInfo
	subs      [][16]uint8 // the modes of macroblocks with predSub
	busy      []bool      // rows in which info is not all unchanged
	above     [][nFlags]uint8
	rowTokens [][]token
	work      []byte // what to do with each macroblock of the frame
	worker    worker

	key       bool // the frame is a key frame
	motion    []Motion
	probs     tokenProbs
	first     boolWriter
	second    boolWriter
	idle      []byte // the frame in which nothing changes
	started   bool
	quantizer int
	subBudget int
}

// What to do with a macroblock.
const (
	workNone = iota
	workChanged
	workRefine
)

// New returns an encoder, whose first frame will be a key frame. It fails with
// [ErrSize] or [ErrConfig].
func New(cfg Config) (*Encoder, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	e := &Encoder{cfg: cfg}
	return e, e.Resize(cfg.Width, cfg.Height)
}

func (c Config) withDefaults() (Config, error) {
	def := func(v *int, d int) {
		if *v == 0 {
			*v = d
		}
	}
	def(&c.Bitrate, 4_000_000)
	def(&c.FrameRate, 30)
	def(&c.MinQuantizer, 12)
	def(&c.MaxQuantizer, max(100, c.MinQuantizer))
	def(&c.RefineQuantizer, 8)
	def(&c.Threads, min(4, runtime.GOMAXPROCS(0)))
	if c.RefineAfter == 0 {
		c.RefineAfter = 150 * time.Millisecond
	}
	switch {
	case c.Bitrate < 1000 || c.FrameRate < 1 || c.RefineAfter < 0 || c.Threads < 1:
		return c, fmt.Errorf("%w: a rate, time or number of threads is too small", ErrConfig)
	case c.MinQuantizer < 1 || c.MaxQuantizer > 127 || c.MinQuantizer > c.MaxQuantizer || c.RefineQuantizer > 127:
		return c, fmt.Errorf("%w: quantizers %d to %d, %d", ErrConfig, c.MinQuantizer, c.MaxQuantizer, c.RefineQuantizer)
	}
	return c, nil
}

// Resize changes the size of the frames. The next one will be a key frame.
func (e *Encoder) Resize(width, height int) error {
	if width < 2 || height < 2 || width > MaxSize || height > MaxSize {
		return fmt.Errorf("%w: %dx%d", ErrSize, width, height)
	}
	e.cfg.Width, e.cfg.Height = width, height
	e.cols, e.rows = macroblocks(width), macroblocks(height)
	n := e.cols * e.rows
	e.ref, e.next = NewFrame(width, height), NewFrame(width, height)
	e.stale, e.work = make([]byte, n), make([]byte, n)
	e.info, e.subs = make([]blockInfo, n), make([][16]uint8, n)
	e.busy, e.above = make([]bool, e.rows), make([][nFlags]uint8, e.cols)
	e.rowTokens = make([][]token, e.rows)
	e.worker.e = e
	e.idle, e.started = nil, false
	return nil
}

// Encode appends the next frame to dst.
//
// f must have the encoder's size, and it may be changed as soon as Encode
// returns. It fails with [ErrSize] only.
func (e *Encoder) Encode(dst []byte, f *Frame, o EncodeOptions) (Encoded, error) {
	if err := e.check(f, &o); err != nil {
		return Encoded{Data: dst}, err
	}
	e.key = o.Key || !e.started
	e.motion = o.Motion
	if !e.plan(&o) {
		return Encoded{Data: append(dst, e.idleFrame()...), Quantizer: e.quantizer}, nil
	}
	e.quantizer = e.cfg.MinQuantizer
	e.code(f)
	dst = e.write(dst)
	e.ref, e.next = e.next, e.ref
	e.started = true
	s := &e.worker.stats
	return Encoded{
		Data: dst, Key: e.key, Quantizer: e.quantizer,
		Coded: s.coded, Moved: s.moved, Refined: s.refined,
	}, nil
}

// check compares the sizes of what is handed in.
func (e *Encoder) check(f *Frame, o *EncodeOptions) error {
	if f.Width != e.cfg.Width || f.Height != e.cfg.Height || f.YStride != e.cols*16 || f.UVStride != e.cols*8 {
		return fmt.Errorf("%w: a frame of %dx%d for an encoder of %dx%d", ErrSize, f.Width, f.Height, e.cfg.Width, e.cfg.Height)
	}
	if d := o.Dirty; d != nil && (d.Cols != e.cols || d.Rows != e.rows) {
		return fmt.Errorf("%w: a map of %dx%d macroblocks for %dx%d", ErrSize, d.Cols, d.Rows, e.cols, e.rows)
	}
	return nil
}

// plan fills in the work of the frame and says whether there is any.
func (e *Encoder) plan(o *EncodeOptions) (any bool) {
	if e.key || o.Dirty == nil {
		for i := range e.work {
			e.work[i] = workChanged
		}
		return true
	}
	for i, d := range o.Dirty.Blocks {
		e.work[i] = b2u(d != 0)
		any = any || d != 0
	}
	return any
}

// subAllowed says whether sixteen modes for one macroblock still fit into the
// first partition, whose size a key frame can only express up to 2^19 bytes.
func (e *Encoder) subAllowed() bool {
	e.subBudget--
	return e.subBudget > 0
}

// code codes every macroblock that there is work for, and brings the others up
// to date in the next frame.
func (e *Encoder) code(f *Frame) {
	w := &e.worker
	w.src, w.stats, w.count = f, frameStats{}, tokenCount{}
	w.q = &quantizers[e.quantizer]
	e.subBudget = 400_000 / 16
	clear(e.above)
	for y := range e.rows {
		e.codeRow(w, y)
	}
}

func (e *Encoder) codeRow(w *worker, y int) {
	from, to := y*e.cols, (y+1)*e.cols
	work, stale, info := e.work[from:to], e.stale[from:to], e.info[from:to]
	any := byte(0)
	for _, v := range work {
		any |= v
	}
	w.out = e.rowTokens[y][:0]
	if any == 0 {
		e.keepRow(y, stale, info)
		e.rowTokens[y] = w.out
		return
	}
	e.busy[y] = true
	w.left = [nFlags]uint8{}
	for x := range work {
		w.at(x, y)
		if work[x] == workNone {
			if stale[x] != 0 {
				e.keep(x, y)
				stale[x] = 0
			}
			info[x] = unchanged
			w.left, e.above[x] = [nFlags]uint8{}, [nFlags]uint8{}
			continue
		}
		w.macroblock(&info[x])
		stale[x] = 1
	}
	e.rowTokens[y] = w.out
}

// keepRow is codeRow for a row in which nothing changed.
func (e *Encoder) keepRow(y int, stale []byte, info []blockInfo) {
	for x, s := range stale {
		if s != 0 {
			e.keep(x, y)
			stale[x] = 0
		}
	}
	clear(e.above)
	if e.busy[y] {
		e.busy[y] = false
		for x := range info {
			info[x] = unchanged
		}
	}
}

// macroblock codes one macroblock.
func (w *worker) macroblock(info *blockInfo) {
	if w.e.key {
		*info = blockInfo{}
		w.codeIntra(info, 1<<30)
	} else {
		w.codeChanged(info)
	}
	if info.skip {
		w.putNone(info)
		return
	}
	w.stats.coded++
	w.putTokens(info)
}

// write assembles the frame.
func (e *Encoder) write(dst []byte) []byte {
	n := e.cols * e.rows
	h := frameHeader{key: e.key, quantizer: e.quantizer, tokens: &e.worker.count}
	h.probSkip = share(e.worker.stats.coded, n)
	h.probInter = share(e.worker.stats.intra, n)
	if e.key {
		e.probs = keyTokenProbs()
	}
	e.first.reset(e.first.buf[:0])
	h.write(&e.first, &e.probs)
	e.writeModes(&e.first, &h)
	first := e.first.finish()
	e.second.reset(e.second.buf[:0])
	for _, ts := range e.rowTokens {
		e.second.tokens(ts, &e.probs)
	}
	second := e.second.finish()
	dst = appendTag(dst, e.key, len(first), e.cfg.Width, e.cfg.Height)
	dst = append(dst, first...)
	return append(dst, second...)
}

// share is the part that n is of all, as a probability.
func share(n, all int) uint8 { return uint8(max(1, min(255, n*256/all))) }

// idleFrame is the frame in which nothing changes, which is always the same.
func (e *Encoder) idleFrame() []byte {
	if e.idle == nil {
		h := frameHeader{quantizer: e.quantizer, tokens: &tokenCount{}, probSkip: 1, probInter: 1}
		probs := e.probs
		var w boolWriter
		w.reset(nil)
		h.write(&w, &probs)
		for y := range e.rows {
			e.writeUnchanged(&w, &h, y)
		}
		first := w.finish()
		e.idle = append(appendTag(nil, false, len(first), 0, 0), first...)
		e.idle = append(e.idle, 0, 0)
	}
	return e.idle
}

// SetBitrate changes the rate to keep to, in bit/s.
func (e *Encoder) SetBitrate(bitrate int) { e.cfg.Bitrate = max(1000, bitrate) }

// Pending tells how many macroblocks are coded more coarsely than they could
// be, and when Encode should be called, without any change if need be, to make
// some of them better. The time is zero if there are none.
func (e *Encoder) Pending() (due time.Time, blocks int) { return time.Time{}, 0 }

// Reconstructed returns what a decoder shows after the last frame. It is valid
// until the next Encode and must not be changed.
func (e *Encoder) Reconstructed() *Frame { return e.ref }
