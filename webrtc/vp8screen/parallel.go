package vp8screen

import (
	"sync"
	"sync/atomic"
)

// A team is the workers of an encoder. They code rows concurrently. A row waits for the
// samples and modes of the row above it.
type team struct {
	workers  []*worker
	active   int // workers of the frame
	nextRow  atomic.Int32
	nextPart atomic.Int32
	progress []atomic.Int32 // finished macroblocks, by row
	cols     int
	mu       sync.Mutex
	cond     *sync.Cond // of progress, while waiting is not zero
	waiting  atomic.Int32
	wg       sync.WaitGroup
	parts    []boolWriter // token partitions
	partsLog int          // the binary logarithm of their number
}

const (
	// crowd is the number of macroblocks from which several workers are faster.
	crowd = 1024
	// impatience is how often a worker checks the row above before it sleeps, and lag how
	// many macroblocks that row must then be ahead.
	impatience = 200
	lag        = 32
	// maxPartsLog is the binary logarithm of the largest number of token
	// partitions (RFC 6386, 9.5).
	maxPartsLog = 3
	// partTokens is the number of tokens from which there are several partitions.
	partTokens = 20000
	// partsTokens is the number up to which there may be several, because the size of all
	// but the last must be below 2^24 bytes.
	partsTokens = 10_000_000
)

func newTeam(e *Encoder, n int) *team {
	t := &team{cols: e.cols, progress: make([]atomic.Int32, e.rows), parts: make([]boolWriter, 1<<maxPartsLog)}
	t.cond = sync.NewCond(&t.mu)
	for range n {
		w := &worker{e: e}
		// Starting a goroutine with arguments allocates, so these are made once.
		w.codeRows = func() {
			defer t.wg.Done()
			w.rows()
		}
		w.writeParts = func() {
			defer t.wg.Done()
			w.partitions()
		}
		t.workers = append(t.workers, w)
	}
	return t
}

// start runs f of all active workers but the first in goroutines.
func (t *team) start(f func(*worker) func()) {
	for _, w := range t.workers[1:t.active] {
		t.wg.Add(1)
		go f(w)()
	}
}

// code codes the rows of a frame with count macroblocks to code.
func (t *team) code(f *Frame, count int) {
	t.active = 1
	if count >= crowd {
		t.active = len(t.workers)
	}
	t.nextRow.Store(0)
	for y := range t.progress {
		t.progress[y].Store(0)
	}
	for _, w := range t.workers[:t.active] {
		w.src, w.stats, w.count = f, frameStats{}, tokenCount{}
	}
	t.start(func(w *worker) func() { return w.codeRows })
	t.workers[0].rows()
	t.wg.Wait()
	first := t.workers[0]
	for _, w := range t.workers[1:t.active] {
		first.stats.add(w.stats)
		first.count.add(&w.count)
	}
}

func (t *tokenCount) add(o *tokenCount) {
	for free := range t {
		for context := range t[free] {
			for k, n := range o[free][context] {
				t[free][context][k] += n
			}
		}
	}
}

func (w *worker) rows() {
	for {
		y := int(w.e.team.nextRow.Add(1)) - 1
		if y >= w.e.rows {
			return
		}
		w.e.codeRow(w, y)
		w.e.team.done(y, w.e.cols)
	}
}

// done records that count macroblocks of the row y are finished.
func (t *team) done(y, count int) {
	t.progress[y].Store(int32(count))
	if t.waiting.Load() != 0 {
		t.mu.Lock()
		t.cond.Broadcast()
		t.mu.Unlock()
	}
}

// awaitAbove waits until count macroblocks of the row above y are finished. It returns how
// many are.
func (t *team) awaitAbove(y, count int) int {
	if y == 0 {
		return 1 << 30
	}
	above := &t.progress[y-1]
	for range impatience {
		if done := int(above.Load()); done >= count {
			return done
		}
	}
	// Waking up takes time, so wait for more work than one macroblock.
	count = min(count+lag, t.cols)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.waiting.Add(1)
	defer t.waiting.Add(-1)
	for int(above.Load()) < count {
		t.cond.Wait()
	}
	return int(above.Load())
}

// divide chooses the number of token partitions: at least one for each worker.
func (t *team) divide(rowTokens [][]token) {
	total := 0
	for _, ts := range rowTokens {
		total += len(ts)
	}
	t.partsLog = 0
	if total < partTokens || total > partsTokens {
		t.active = 1
	}
	for t.active > 1<<t.partsLog && t.partsLog < maxPartsLog {
		t.partsLog++
	}
	t.nextPart.Store(0)
}

// partitions writes token partitions until none is left. A row belongs to the partition of
// its number modulo the number of partitions (RFC 6386, 9.5).
func (w *worker) partitions() {
	e, n := w.e, 1<<w.e.team.partsLog
	for {
		i := int(e.team.nextPart.Add(1)) - 1
		if i >= n {
			return
		}
		p := &e.team.parts[i]
		p.reset(p.buf[:0])
		for y := i; y < e.rows; y += n {
			p.tokens(e.rowTokens[y], &e.probs)
		}
		p.finish()
	}
}

// append appends the sizes of all partitions but the last, and the partitions (RFC 6386, 9.5).
func (t *team) append(dst []byte) []byte {
	parts := t.parts[:1<<t.partsLog]
	for i := range parts[1:] {
		n := len(parts[i].buf)
		dst = append(dst, byte(n), byte(n>>8), byte(n>>16))
	}
	for i := range parts {
		dst = append(dst, parts[i].buf...)
	}
	return dst
}
