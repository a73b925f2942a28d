package picture

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
)

const (
	// maxEntries is how many views are kept.
	maxEntries = 6
	// maxBytes bounds the kept strips and files together.
	maxBytes = 12 << 20
	// maxFiles is how many files are kept of a view. Callers that wait for the same view may
	// have images of different times.
	maxFiles = 3
	// maxWorkers bounds the memory of compressors, 1-2 MB each.
	maxWorkers = 8
)

// Encoder makes pictures of one screen and keeps strips and files for later calls. The zero
// value is ready to use.
type Encoder struct {
	once  sync.Once
	slots chan struct{} // holds a value for each running worker

	mu      sync.Mutex
	entries []*entry // most recently used first
	idle    []*worker
	epoch   uint64 // number of Trims
}

// entry has the strips and files that are kept for a view.
type entry struct {
	*layout
	turn   chan struct{} // held by the call that makes a picture of this view
	strips []kept        // guarded by turn

	// The Encoder's mutex guards these:
	files []file // most recently made first
	bytes int    // of strips and files, as of the last turn
}

// kept has the last versions of a strip without and with an overlay.
type kept struct{ plain, drawn version }

type version struct {
	bands []uint64
	over  overlayKey
	piece *piece
}

type file struct {
	bands []uint64
	over  overlayKey
	data  []byte
}

// Encode returns a picture of the image. The file is shared and must not be changed. If the
// context is done, Encode returns its error.
func (e *Encoder) Encode(ctx context.Context, img *Image, o Options) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	j, err := newJob(img, o)
	if err != nil {
		return nil, err
	}
	en, data := e.lookup(j)
	if data != nil {
		return data, nil
	}
	select {
	case en.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-en.turn }()
	// The call that had the turn before may have made this file.
	if data := e.made(en, j); data != nil {
		return data, nil
	}
	data, err = e.joined(ctx, en, j)
	e.keep(en, j, data)
	return data, err
}

// Trim frees everything that is kept. It does not affect running calls.
func (e *Encoder) Trim() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.entries, e.idle = nil, nil
	e.epoch++
}

// lookup returns the entry of the job's view, and the file if it is kept.
func (e *Encoder) lookup(j *job) (*entry, []byte) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for i, en := range e.entries {
		if en.view == j.view {
			copy(e.entries[1:i+1], e.entries[:i])
			e.entries[0] = en
			return en, en.find(j)
		}
	}
	en := &entry{layout: newLayout(j.view), turn: make(chan struct{}, 1)}
	en.strips = make([]kept, en.count)
	e.entries = slices.Insert(e.entries, 0, en)
	if len(e.entries) > maxEntries {
		e.entries = slices.Delete(e.entries, maxEntries, len(e.entries))
	}
	return en, nil
}

func (e *Encoder) made(en *entry, j *job) []byte {
	e.mu.Lock()
	defer e.mu.Unlock()
	return en.find(j)
}

func (en *entry) find(j *job) []byte {
	bands := j.img.version(en.region.Min.Y, en.region.Max.Y)
	for _, f := range en.files {
		if slices.Equal(f.bands, bands) && f.over == j.key {
			return f.data
		}
	}
	return nil
}

// keep adds a file, unless it is nil, and bounds the memory. The caller has the entry's turn.
func (e *Encoder) keep(en *entry, j *job, data []byte) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if data != nil {
		if len(en.files) == maxFiles {
			en.files = en.files[:maxFiles-1]
		}
		bands := slices.Clone(j.img.version(en.region.Min.Y, en.region.Max.Y))
		en.files = slices.Insert(en.files, 0, file{bands: bands, over: j.key, data: data})
	}
	for len(en.files) > 1 && en.measure() > maxBytes {
		en.files = en.files[:len(en.files)-1]
	}
	if en.measure() > maxBytes {
		clear(en.strips)
	}
	if en.measure() > maxBytes {
		en.files = nil
	}
	en.bytes = en.measure()
	total := 0
	for i, o := range e.entries {
		if total += o.bytes; total > maxBytes && i > 0 {
			clear(e.entries[i:])
			e.entries = e.entries[:i]
			break
		}
	}
}

func (en *entry) measure() int {
	n := 0
	for _, f := range en.files {
		n += len(f.data)
	}
	for i := range en.strips {
		for _, v := range []*version{&en.strips[i].plain, &en.strips[i].drawn} {
			if v.piece != nil {
				n += v.piece.size()
			}
		}
	}
	return n
}

// joined makes the strips that have changed and joins all to a file.
func (e *Encoder) joined(ctx context.Context, en *entry, j *job) ([]byte, error) {
	pieces := make([]*piece, en.count)
	var todo []int
	for i := range pieces {
		v, bands := en.slot(j, i)
		if slices.Equal(v.bands, bands) && v.over == j.in(en.source(i)) {
			pieces[i] = v.piece
		} else {
			todo = append(todo, i)
		}
	}
	if err := e.makeStrips(ctx, en, j, pieces, todo); err != nil {
		return nil, err
	}
	switch j.format {
	case JPEG:
		return jpegFile(en.layout, pieces)
	case WebP:
		return webpFile(en.layout, pieces), nil
	case PNG:
	}
	return pngFile(en.view, pieces), nil
}

// slot returns where strip i of the job is kept, and the version to store there.
func (en *entry) slot(j *job, i int) (*version, []uint64) {
	r := en.source(i)
	bands := j.img.version(r.Min.Y, r.Max.Y)
	if j.in(r) == (overlayKey{}) {
		return &en.strips[i].plain, bands
	}
	return &en.strips[i].drawn, bands
}

// makeStrips makes the strips todo of pieces. It keeps the finished ones even if it fails.
func (e *Encoder) makeStrips(ctx context.Context, en *entry, j *job, pieces []*piece, todo []int) error {
	var next atomic.Int64
	run := func(ctx context.Context) error {
		w, err := e.acquire(ctx)
		if err != nil {
			return err
		}
		defer e.release(w)
		for {
			n := int(next.Add(1)) - 1
			if n >= len(todo) {
				return nil
			}
			if err := ctx.Err(); err != nil {
				return err
			}
			i := todo[n]
			if pieces[i], err = w.piece(en.layout, j, i); err != nil {
				return err
			}
			v, bands := en.slot(j, i)
			*v = version{bands: slices.Clone(bands), over: j.in(en.source(i)), piece: pieces[i]}
		}
	}
	n := min(len(todo), e.limit())
	if n <= 1 {
		return run(ctx)
	}
	g, ctx := errgroup.WithContext(ctx)
	for range n {
		g.Go(func() error { return run(ctx) })
	}
	return g.Wait()
}

func (e *Encoder) limit() int {
	e.once.Do(func() { e.slots = make(chan struct{}, min(runtime.GOMAXPROCS(0), maxWorkers)) })
	return cap(e.slots)
}

// acquire waits for a worker.
func (e *Encoder) acquire(ctx context.Context) (*worker, error) {
	e.limit()
	select {
	case e.slots <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if n := len(e.idle); n > 0 {
		w := e.idle[n-1]
		e.idle = e.idle[:n-1]
		return w, nil
	}
	return &worker{epoch: e.epoch}, nil
}

func (e *Encoder) release(w *worker) {
	if w.size() > keepable/cap(e.slots) {
		w.shrink()
	}
	e.mu.Lock()
	if w.epoch == e.epoch {
		e.idle = append(e.idle, w)
	}
	e.mu.Unlock()
	<-e.slots
}
