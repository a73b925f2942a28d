package vp8screen

import (
	"cmp"
	"fmt"
	"runtime"
	"time"
)

// An Encoder turns frames into VP8. Its methods must not be called concurrently.
//
// A leaky bucket keeps the frames to Config.Bitrate, which [Encoder.SetBitrate] changes. The
// fuller it is, the coarser changes are coded. [Encoder.Backlog] returns its delay.
// [Encoder.Pending] returns when to call Encode again without a change, to refine coarse
// macroblocks. That takes several frames within the rate.
//
// VP8's loop filter is off, because it blurs text and changes macroblocks that are otherwise
// skipped. Luma is predicted by whole pixels. When a page scrolls by an odd number of pixels,
// its chroma moves by half pixels, with VP8's six-tap filter (bitstream version 0). A page in
// colour then takes 20 % more bits. With the bilinear filter of versions 1 and 2 it would take
// 25 % more, and with the whole pixels of version 3 50 % more.
type Encoder struct {
	cfg        Config
	cols, rows int // size in macroblocks

	// ref is what a decoder shows after the last frame, next what it will show after this
	// one. They differ only in the macroblocks marked in stale, so unchanged ones need no
	// copying.
	ref, next *Frame
	stale     []byte
	store     store
	info      []blockInfo
	subs      [][16]uint8  // the modes of macroblocks with predSub
	vectors   [][16]vector // the vectors of macroblocks with interSplit
	busy      []bool       // rows in which info is not all unchanged
	above     [][nFlags]uint8
	rowTokens [][]token
	work      []byte // workNone, workChanged or workRefine of each macroblock
	team      *team

	key       bool // the frame is a key frame
	motion    []Motion
	probs     tokenProbs
	first     boolWriter
	still     [3]repetition
	symbols   [3][6]symbol
	started   bool
	quantizer int
	segments  [segments]int // their quantisers
	split     bool          // the frame has more than one of them
	rate      rateControl
	refine    refinement
	now       time.Duration // time of the frame, since the first one
	fresh     int           // macroblocks of the frame with new content, estimated
	scrolled  int           // macroblocks that moved
	refining  int
}

// What to do with a macroblock.
const (
	workNone = iota
	workChanged
	workRefine
)

func (c Config) withDefaults() (Config, error) {
	c.Bitrate = cmp.Or(c.Bitrate, 4_000_000)
	c.FrameRate = cmp.Or(c.FrameRate, 30)
	c.MinQuantizer = cmp.Or(c.MinQuantizer, 14)
	c.MaxQuantizer = cmp.Or(c.MaxQuantizer, max(100, c.MinQuantizer))
	c.RefineQuantizer = cmp.Or(c.RefineQuantizer, 8)
	c.Threads = cmp.Or(c.Threads, min(4, runtime.GOMAXPROCS(0)))
	c.RefineAfter = cmp.Or(c.RefineAfter, 150*time.Millisecond)
	switch {
	case c.Width < 2 || c.Height < 2 || c.Width > MaxSize || c.Height > MaxSize:
		return c, fmt.Errorf("%w: %dx%d", ErrSize, c.Width, c.Height)
	case c.Bitrate < 1000 || c.FrameRate < 1 || c.RefineAfter < 0 || c.Threads < 1:
		return c, fmt.Errorf("%w: a rate, time or number of threads is too small", ErrConfig)
	case c.MinQuantizer < 1 || c.MaxQuantizer > 127 || c.MinQuantizer > c.MaxQuantizer || c.RefineQuantizer > 127:
		return c, fmt.Errorf("%w: quantizers %d to %d, %d", ErrConfig, c.MinQuantizer, c.MaxQuantizer, c.RefineQuantizer)
	}
	return c, nil
}

// New returns an encoder. Its first frame is a key frame. The error is [ErrSize] or
// [ErrConfig].
func New(cfg Config) (*Encoder, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	e := &Encoder{cfg: cfg, rate: newRateControl(cfg.Bitrate), cols: macroblocks(cfg.Width), rows: macroblocks(cfg.Height)}
	n := e.cols * e.rows
	e.ref, e.next = NewFrame(cfg.Width, cfg.Height), NewFrame(cfg.Width, cfg.Height)
	e.store = store{frames: [refs]*Frame{e.ref, e.ref, e.ref}, spare: []*Frame{e.ref, e.next}}
	e.stale, e.work = make([]byte, n), make([]byte, n)
	e.info, e.subs = make([]blockInfo, n), make([][16]uint8, n)
	e.vectors = make([][16]vector, n)
	e.busy, e.above = make([]bool, e.rows), make([][nFlags]uint8, e.cols)
	e.rowTokens = make([][]token, e.rows)
	e.team = newTeam(e, cfg.Threads)
	e.refine = newRefinement(&cfg, n)
	return e, nil
}

// Encode appends the next frame to dst. It returns [ErrSize] if f or o.Dirty does not have the
// encoder's size, or if the modes and vectors do not fit into a frame of VP8. After an error
// Encoded.Data is dst, and the decoder keeps its picture: in the second case the next frame is a
// key frame. Encode does not clear o.Dirty. The caller may change f after Encode returns.
func (e *Encoder) Encode(dst []byte, f *Frame, o EncodeOptions) (Encoded, error) {
	if err := e.check(f, &o); err != nil {
		return Encoded{Data: dst}, err
	}
	e.key = o.Key || !e.started
	e.motion = o.Motion
	e.now += e.rate.advance(o.Now, e.period())
	e.plan(f, &o)
	before := len(dst)
	clear(e.above)
	e.team.code(f, e.fresh)
	e.refine.recount(e.now)
	e.motion = nil
	dst, err := e.write(dst)
	if err != nil {
		// The decoder does not know the new probabilities.
		e.started = false
		return Encoded{Data: dst}, err
	}
	e.advance()
	s := &e.team.workers[0].stats
	e.rate.spent(8*(len(dst)-before), e.segments[0], e.fresh, e.scrolled, s.refined)
	return Encoded{
		Data: dst, Key: e.key, Quantizer: e.quantizer,
		Coded: s.coded, Moved: s.moved, Refined: s.refined,
	}, nil
}

func (e *Encoder) advance() {
	e.started = true
	next, former := e.store.advance(e.next, e.key)
	e.ref, e.next = e.next, next
	if !former {
		for i := range e.stale { // all of it differs
			e.stale[i] = 1
		}
	}
}

func (e *Encoder) period() time.Duration { return time.Second / time.Duration(e.cfg.FrameRate) }

func (e *Encoder) check(f *Frame, o *EncodeOptions) error {
	n := e.cols * e.rows * 64
	if f.Width != e.cfg.Width || f.Height != e.cfg.Height || f.YStride != e.cols*16 || f.UVStride != e.cols*8 ||
		len(f.Y) < 4*n || len(f.U) < n || len(f.V) < n {
		return fmt.Errorf("%w: a frame of %dx%d for an encoder of %dx%d", ErrSize, f.Width, f.Height, e.cfg.Width, e.cfg.Height)
	}
	if d := o.Dirty; d != nil && (d.Cols != e.cols || d.Rows != e.rows) {
		return fmt.Errorf("%w: a map of %dx%d macroblocks for %dx%d", ErrSize, d.Cols, d.Rows, e.cols, e.rows)
	}
	return nil
}

// plan decides the work and the quantisers of the frame.
func (e *Encoder) plan(f *Frame, o *EncodeOptions) {
	changed := e.planChanges(o)
	e.refining = 0
	if !e.key {
		e.refining = e.refine.choose(e.work, e.now, e.rate.refinable(e.period()))
	}
	e.scrolled = 0
	if !e.key {
		for i := range o.Motion {
			size := o.Motion[i].Rect.Intersect(f.Bounds()).Size()
			e.scrolled += size.X * size.Y >> 8
		}
	}
	e.scrolled = min(e.scrolled, changed)
	e.fresh = changed - e.scrolled
	e.store.plan(e.fresh, e.cols*e.rows, e.now)
	large := e.fresh > e.cols*e.rows/3
	q := e.rate.choose(e.fresh, e.scrolled, e.cfg.MinQuantizer, e.cfg.MaxQuantizer, large)
	e.segments = [segments]int{q, max(0, e.refine.index), textIndex(q, e.cfg.MinQuantizer)}
	e.split = changed > 0 && (e.refining > 0 || e.segments[segmentText] != q)
	e.quantizer = q
	if changed == 0 && e.refining > 0 {
		e.quantizer = e.refine.index
	}
}

// planChanges marks and counts the macroblocks that may have changed.
func (e *Encoder) planChanges(o *EncodeOptions) (n int) {
	if e.key || o.Dirty == nil {
		for i := range e.work {
			e.work[i] = workChanged
		}
		return len(e.work)
	}
	work := e.work[:len(o.Dirty.Blocks)]
	for i, d := range o.Dirty.Blocks {
		work[i] = 0
		if d != 0 {
			work[i] = workChanged
			n++
		}
	}
	return n
}

// The first partition has less than 2^19 bytes (RFC 6386, 9.1), so very large frames have a
// budget for the modes and vectors of sub-blocks, which take most of it.
const (
	firstBudget = 300_000
	subPrice    = 6 // estimated bytes of the modes of a macroblock
	splitPrice  = 24
	firstLimit  = 1<<19 - 1
)

// afford takes a price from the row's budget. It reports whether that was enough.
func (w *worker) afford(price int) bool {
	w.budget -= price
	return w.budget >= 0
}

// codeRow codes every macroblock of a row that has work, and copies the others into the next
// frame if they are stale.
func (e *Encoder) codeRow(w *worker, y int) {
	from, to := y*e.cols, (y+1)*e.cols
	work, stale, info := e.work[from:to], e.stale[from:to], e.info[from:to]
	any := byte(0)
	for _, v := range work {
		any |= v
	}
	w.out = e.rowTokens[y][:0]
	if any == 0 {
		e.team.awaitAbove(y, e.cols)
		e.keepRow(y, stale, info)
		e.rowTokens[y] = w.out
		return
	}
	e.busy[y] = true
	w.left = [nFlags]uint8{}
	w.budget = firstBudget / e.rows
	done := 0
	for x := range work {
		// Macroblocks need the ones above and above to the right.
		if need := min(x+2, e.cols); done < need {
			done = e.team.awaitAbove(y, need)
		}
		w.at(x, y)
		if work[x] == workNone {
			if stale[x] != 0 {
				e.copyFrom(e.ref, x, y)
				stale[x] = 0
			}
			info[x] = unchanged
			w.left, e.above[x] = [nFlags]uint8{}, [nFlags]uint8{}
			e.team.done(y, x+1)
			continue
		}
		w.macroblock(&info[x], work[x] == workRefine)
		stale[x] = 1
		e.team.done(y, x+1)
	}
	e.rowTokens[y] = w.out
}

// keepRow is codeRow for a row without work.
func (e *Encoder) keepRow(y int, stale []byte, info []blockInfo) {
	for x, s := range stale {
		if s != 0 {
			e.copyFrom(e.ref, x, y)
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

func (w *worker) macroblock(info *blockInfo, refine bool) {
	e, at := w.e, w.y*w.e.cols+w.x
	segment := uint8(segmentRefined)
	switch {
	case refine:
		w.q = &quantizers[e.segments[segmentRefined]]
		w.codeAgain(info)
		e.refine.refined(at)
	case e.key:
		segment = w.chooseSegment()
		*info = blockInfo{}
		w.codeIntra(info, 1<<30)
		e.refine.changed(at, w.q.index, false, e.now)
	default:
		segment = w.chooseSegment()
		exact := w.codeChanged(info)
		e.refine.changed(at, w.q.index, exact, e.now)
	}
	if e.split && !info.skip {
		info.segment = segment
		w.stats.segments[segment]++
	}
	if info.skip {
		w.putNone(info)
		return
	}
	w.stats.coded++
	w.putTokens(info)
}

func (e *Encoder) write(dst []byte) ([]byte, error) {
	n, t := e.cols*e.rows, e.team
	sum := t.workers[0]
	t.divide(e.rowTokens)
	h := frameHeader{
		key: e.key, quantizer: e.quantizer, partitions: t.partsLog, tokens: &sum.count,
		probSkip: share(sum.stats.coded, n), probInter: share(sum.stats.intra, n), keep: e.store.keep,
	}
	golden, alt := sum.stats.stored[refGolden], sum.stats.stored[refAlt]
	h.probLast = share(n-sum.stats.intra-golden-alt, max(1, n-sum.stats.intra))
	h.probGolden = share(golden, max(1, golden+alt))
	if e.key {
		e.probs = keyTokenProbs()
	}
	if e.split {
		h.segments = e.segments[:]
		h.segmentMap = segmentProbs(&sum.stats.segments, n)
	}
	e.first.reset(e.first.buf[:0])
	h.write(&e.first, &e.probs)
	t.start(func(w *worker) func() { return w.writeParts })
	e.writeModes(&e.first, &h)
	first := e.first.finish()
	sum.partitions()
	t.wg.Wait()
	if len(first) > firstLimit {
		return dst, fmt.Errorf("%w: modes and vectors of %d bytes", ErrSize, len(first))
	}
	dst = appendTag(dst, e.key, len(first), e.cfg.Width, e.cfg.Height)
	dst = append(dst, first...)
	return t.append(dst), nil
}

func share(n, all int) uint8 { return uint8(max(1, min(255, n*256/all))) }

// SetBitrate changes the average rate, in bit/s. A rate below 1000 counts as 1000.
func (e *Encoder) SetBitrate(bitrate int) {
	e.cfg.Bitrate = max(1000, bitrate)
	e.rate.rate = float64(e.cfg.Bitrate)
}

// Backlog returns how long it takes at the bit rate to send what is in the bucket.
func (e *Encoder) Backlog() time.Duration {
	return time.Duration(e.rate.debt / e.rate.rate * float64(time.Second))
}

// Pending returns how many macroblocks are coarse, and when to call Encode to refine some of
// them. The time is zero if there are none.
func (e *Encoder) Pending() (due time.Time, blocks int) {
	if e.refine.count == 0 {
		return time.Time{}, 0
	}
	due = e.rate.last.Add(e.refine.due() - e.now)
	if next := e.rate.last.Add(e.period()); due.Before(next) {
		due = next
	}
	return due, e.refine.count
}

// Reconstructed returns what a decoder shows after the last frame, or a black frame before the
// first one. It is valid until the next Encode and must not be changed.
func (e *Encoder) Reconstructed() *Frame { return e.ref }
