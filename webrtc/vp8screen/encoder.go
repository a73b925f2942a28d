package vp8screen

import (
	"fmt"
	"runtime"
	"time"
)

// An Encoder turns frames into VP8. Its methods must not be called at the same
// time.
//
// A leaky bucket keeps the frames to Config.Bitrate, which [Encoder.SetBitrate]
// changes. A change on the screen is never dropped. It is coded more coarsely the more
// is not sent yet. If that is not enough, [Encoder.Backlog] tells the caller to send
// fewer frames. [Encoder.Pending] says when to call Encode again without a change, so
// that coarse macroblocks are refined. That takes several frames within the rate.
//
// VP8's loop filter is off, because it blurs text and changes macroblocks that are
// otherwise skipped. Prediction is by whole pixels. When a page scrolls by an odd number
// of pixels, its chroma moves by half pixels, for which VP8's six-tap filter is used
// (bitstream version 0, which every decoder has). A page in colour then takes a fifth
// more bits, compared to a quarter more with the bilinear filter of versions 1 and 2 and
// half as many more with the whole pixels of version 3.
type Encoder struct {
	cfg        Config
	cols, rows int // size in macroblocks

	// ref is what a decoder shows after the last frame, next what it will show
	// after this one. Both are the same but for the macroblocks marked in stale,
	// which next lacks; so what does not change need not be touched.
	ref, next *Frame
	stale     []byte
	store     store
	info      []blockInfo
	subs      [][16]uint8  // the modes of macroblocks with predSub
	vectors   [][16]vector // those of macroblocks with interSplit
	busy      []bool       // rows in which info is not all unchanged
	above     [][nFlags]uint8
	rowTokens [][]token
	work      []byte // what to do with each macroblock of the frame
	team      *team

	key       bool // the frame is a key frame
	motion    []Motion
	probs     tokenProbs
	first     boolWriter
	still     [3]repetition
	symbols   [3][6]symbol
	idle      []byte // the frame in which nothing changes
	started   bool
	quantizer int
	segments  [segments]int // their quantisers
	split     bool          // the frame has more than one of them
	rate      rateControl
	refine    refinement
	now       time.Duration // time of the frame, since the first one
	fresh     int           // macroblocks of the frame with new content, by estimate
	scrolled  int           // and those that moved
	refining  int
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
	e := &Encoder{cfg: cfg, rate: newRateControl(cfg.Bitrate)}
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
	def(&c.MinQuantizer, 14)
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
	e.store = store{frames: [refs]*Frame{e.ref, e.ref, e.ref}, spare: []*Frame{e.ref, e.next}}
	e.stale, e.work = make([]byte, n), make([]byte, n)
	e.info, e.subs = make([]blockInfo, n), make([][16]uint8, n)
	e.vectors = make([][16]vector, n)
	e.busy, e.above = make([]bool, e.rows), make([][nFlags]uint8, e.cols)
	e.rowTokens = make([][]token, e.rows)
	e.team = newTeam(e, e.cfg.Threads)
	e.refine = newRefinement(&e.cfg, n)
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
	e.now += e.rate.advance(o.Now, e.period())
	if !e.plan(f, &o) {
		return e.encodeIdle(dst), nil
	}
	before := len(dst)
	clear(e.above)
	e.team.code(f, e.fresh)
	e.refine.recount(e.now)
	e.motion = nil
	dst, err := e.write(dst)
	if err != nil {
		// The decoder has not seen what the probabilities were adapted to.
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

// advance makes the frame that was written the last one.
func (e *Encoder) advance() {
	e.started = true
	next, former := e.store.advance(e.next, e.key)
	e.ref, e.next = e.next, next
	if !former {
		// Nothing is known of what is in it.
		mark(e.stale)
	}
}

// encodeIdle appends a frame in which nothing changes.
func (e *Encoder) encodeIdle(dst []byte) Encoded {
	frame := e.idleFrame()
	e.rate.debt += float64(8 * len(frame))
	return Encoded{Data: append(dst, frame...), Quantizer: e.quantizer}
}

// period is the time between frames.
func (e *Encoder) period() time.Duration { return time.Second / time.Duration(e.cfg.FrameRate) }

// check compares the sizes of what is handed in.
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

// plan fills in the work of the frame, chooses its quantisers, and says whether
// there is anything to do.
func (e *Encoder) plan(f *Frame, o *EncodeOptions) bool {
	changed := e.planChanges(o)
	e.refining = 0
	if !e.key {
		e.refining = e.refine.choose(e.work, e.now, e.rate.refinable(e.period()))
	}
	if changed+e.refining == 0 {
		return false
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
	if changed == 0 {
		e.quantizer = e.refine.index
	}
	return true
}

// planChanges marks the macroblocks that may have changed and counts them.
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

// A frame can only express a size of its first partition up to 2^19 bytes (RFC
// 6386, 9.1), so in very large frames the modes and vectors of sub-blocks, which
// are most of it, are rationed.
const (
	firstBudget = 300_000
	subPrice    = 6 // bytes of the modes of a macroblock, about
	splitPrice  = 24
	firstLimit  = 1<<19 - 1
)

// afford says whether the row may have a macroblock of a price in bytes.
func (w *worker) afford(price int) bool {
	w.budget -= price
	return w.budget >= 0
}

// codeRow codes every macroblock of a row that there is work for, and brings the
// others up to date in the next frame.
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
		// What is above and above to the right is needed.
		if need := min(x+2, e.cols); done < need {
			done = e.team.awaitAbove(y, need)
		}
		w.at(x, y)
		if work[x] == workNone {
			if stale[x] != 0 {
				e.keep(x, y)
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

// macroblock codes one macroblock, whose content may have changed, or which is
// to be refined.
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

// write assembles the frame.
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

// share is the part that n is of all, as a probability.
func share(n, all int) uint8 { return uint8(max(1, min(255, n*256/all))) }

// idleFrame is the frame in which nothing changes, which is always the same.
func (e *Encoder) idleFrame() []byte {
	if e.idle == nil {
		h := frameHeader{quantizer: e.quantizer, tokens: &tokenCount{}, probSkip: 1, probInter: 1, probLast: 255, probGolden: 128}
		probs := e.probs
		var w boolWriter
		w.reset(nil)
		h.write(&w, &probs)
		e.prepareUnchanged(&h)
		for y := range e.rows {
			e.writeUnchanged(&w, y)
		}
		first := w.finish()
		e.idle = append(appendTag(nil, false, len(first), 0, 0), first...)
		e.idle = append(e.idle, 0, 0)
	}
	return e.idle
}

// SetBitrate changes the rate to keep to, in bit/s.
func (e *Encoder) SetBitrate(bitrate int) {
	e.cfg.Bitrate = max(1000, bitrate)
	e.rate.rate = float64(e.cfg.Bitrate)
}

// Backlog is how long the link takes, at the bit rate, for what was sent before
// the last frame's time and is still on its way.
func (e *Encoder) Backlog() time.Duration {
	return time.Duration(e.rate.debt / e.rate.rate * float64(time.Second))
}

// Pending tells how many macroblocks are coded more coarsely than they could
// be, and when Encode should be called, without any change if need be, to make
// some of them better. The time is zero if there are none.
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

// Reconstructed returns what a decoder shows after the last frame. It is valid
// until the next Encode and must not be changed.
func (e *Encoder) Reconstructed() *Frame { return e.ref }
