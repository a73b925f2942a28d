package recording

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/recording/timeline"
)

// DefaultDir is where Start keeps recordings when it is not told.
const DefaultDir = "recordings"

// startLimit is how long it may take until the first picture is encoded.
const startLimit = 20 * time.Second

// Recording is a desktop being recorded. With Config.SegmentLength it makes
// several recordings of the store, one after the other; ID and Info are about the
// newest. Its methods may be called from any goroutine.
type Recording struct {
	store *Store
	own   bool // the store is closed with the recording
	d     Desktop
	cfg   Config
	log   *slog.Logger
	tools programs

	silent string // why there is no sound although it was asked for; of the loop

	stopping chan struct{}  // closed when it is to end
	finished chan struct{}  // closed when it has ended
	done     chan struct{}  // the same or, when the store is its own, closed when that is closed
	parts    sync.WaitGroup // segments that are being finished

	mu     sync.Mutex // guards what follows
	reason Reason     // once stopping is closed
	part   *part      // the newest segment

	telling   sync.Mutex         // guards what follows; held while another timeline takes over
	happening *timeline.Timeline // of the newest segment
}

// Start records a desktop into Config.Store, or into a store of its own. It
// returns when the first picture is encoded. With a store of its own, Stop and Done
// also wait until the file's index is in front. ctx bounds the start alone; the
// recording goes on until Stop, until the desktop or the store is closed, or until
// a limit of the Config is reached.
//
// Several recordings at once in one directory need a Config.Store that they share:
// each has the directory of its own store for itself.
//
// The errors are an *InvalidError, a *MissingError, ErrNoSpace, ErrEncoder,
// ErrClosed, ErrLocked, desktop.ErrClosed and ctx's.
func Start(ctx context.Context, d Desktop, cfg Config) (*Recording, error) {
	if cfg.Store != nil {
		return cfg.Store.Start(ctx, d, cfg)
	}
	if cfg.Dir == "" {
		cfg.Dir = DefaultDir
	}
	if err := cfg.withDefaults().check(); err != nil {
		return nil, fmt.Errorf("start recording: %w", err)
	}
	s, err := Open(ctx, StoreConfig{Dir: cfg.Dir, Logger: cfg.Logger})
	if err != nil {
		return nil, fmt.Errorf("start recording: %w", err)
	}
	r, err := s.start(ctx, d, cfg, true)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start recording: %w", err), s.Close())
	}
	return r, nil
}

// Start records a desktop into the store, whatever Config.Store says. Several
// recordings may run at once, also of one desktop. See the function Start.
func (s *Store) Start(ctx context.Context, d Desktop, cfg Config) (*Recording, error) {
	r, err := s.start(ctx, d, cfg, false)
	if err != nil {
		return nil, fmt.Errorf("start recording: %w", err)
	}
	return r, nil
}

func (s *Store) start(ctx context.Context, d Desktop, cfg Config, own bool) (*Recording, error) {
	cfg = cfg.withDefaults()
	if err := cfg.check(); err != nil {
		return nil, err
	}
	if cfg.Logger == nil {
		cfg.Logger = s.log
	}
	if err := s.ready(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	tools, err := findPrograms(ctx, s.group)
	if err != nil {
		return nil, err
	}
	if err := s.reserve(cfg.Guest); err != nil {
		return nil, err
	}
	started := false
	defer func() {
		if !started {
			s.release(cfg.Guest)
		}
	}()
	r := &Recording{
		store: s, own: own, d: d, cfg: cfg, log: cfg.Logger, tools: tools,
		stopping: make(chan struct{}), finished: make(chan struct{}),
	}
	if r.done = r.finished; own {
		r.done = make(chan struct{})
	}
	l, err := newLoop(ctx, r)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil, errors.Join(ErrClosed, l.abandon())
	}
	s.active[r] = struct{}{}
	started = true
	s.work.Go(func() { r.run(l) })
	s.mu.Unlock()
	if own {
		go func() { // which Done waits for
			<-r.finished
			s.caring.Wait()
			if err := s.Close(); err != nil {
				r.log.Debug("close recording store", "error", err)
			}
			close(r.done)
		}()
	}
	return r, nil
}

// run is the recording's life.
func (r *Recording) run(l *loop) {
	reason, err := l.run()
	r.finishFor(reason) // nobody needs to any more
	last := l.end(reason)
	if t := r.line(); t != nil {
		t.Close()
	}
	r.finish(last, reason, err)
	r.parts.Wait()
	r.store.mu.Lock()
	delete(r.store.active, r)
	r.store.mu.Unlock()
	r.store.release(r.cfg.Guest)
	close(r.finished)
}

// finishFor has the recording end.
func (r *Recording) finishFor(reason Reason) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.reason == "" {
		r.reason = reason
		close(r.stopping)
	}
}

// goOn finishes a segment after another one has begun.
func (r *Recording) goOn(old, next *part) {
	r.tellOn(next)
	err := r.store.change(old.entry, func(i *Info) { i.ContinuedBy = next.entry.id })
	if err != nil {
		r.log.Debug("link segments", "id", old.entry.id, "error", err)
	}
	r.store.tell(next.entry)
	r.finish(old, ReasonSegment, nil)
}

// finish has ffmpeg write the rest of a segment, and finds out what it became.
func (r *Recording) finish(p *part, reason Reason, problem error) {
	failed := p.encoder.end()
	p.thumbs.stop()
	closed := p.video.close()
	p.entry.ended()
	select {
	case <-p.video.failed: // perhaps only now, with the rest
		reason, problem = p.video.reason, p.video.err
	default:
	}
	whole := failed == nil && p.video.err == nil
	switch {
	case p.video.removed:
		problem = errors.Join(problem, errors.New("its files were removed"))
	case reason == ReasonEncoderKilled || reason == ReasonEncoderStuck:
		whole = false
		problem = errors.Join(failed, problem)
	default:
		problem = errors.Join(problem, failed, closed)
	}
	r.store.conclude(context.Background(), p.entry, reason, whole, problem)
	r.store.retain()
}

// ID returns the id of the newest segment.
func (r *Recording) ID() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.part.entry.id
}

// Info describes the newest segment.
func (r *Recording) Info() Info {
	r.mu.Lock()
	e := r.part.entry
	r.mu.Unlock()
	return e.snapshot()
}

// line is the newest segment's timeline.
func (r *Recording) line() *timeline.Timeline {
	r.telling.Lock()
	defer r.telling.Unlock()
	return r.happening
}

// Done is closed when the recording has ended and its file is finished.
func (r *Recording) Done() <-chan struct{} { return r.done }

// Stop ends the recording and waits until its file is finished, which what it
// returns describes. What the X server had done when Stop was called is in the last
// picture. It may be called more than once; the end of ctx ends the waiting alone.
func (r *Recording) Stop(ctx context.Context) (Info, error) {
	r.finishFor(ReasonStopped)
	select {
	case <-r.done:
		return r.Info(), nil
	case <-ctx.Done():
		return r.Info(), fmt.Errorf("stop recording %s: %w", r.ID(), ctx.Err())
	}
}

// part is one segment: a file, and the ffmpeg that it comes from.
type part struct {
	entry   *entry
	video   *video
	encoder *encoder
	thumbs  *thumbnailer
	epoch   time.Time // of its first picture
	first   int64     // number of its first picture
}

// begin makes a segment of an ffmpeg that waits, without a timeline.
func (r *Recording) begin(enc *encoder, epoch time.Time, first int64, before *part) (*part, error) {
	info := Info{
		Desktop: r.d.Status().ID, Title: r.cfg.Title, Status: StatusRecording, ProcessID: enc.child.ID(),
		Guest: r.cfg.Guest, Started: epoch.Round(0), Width: enc.width, Height: enc.height, FrameRate: enc.fps, Sound: enc.sound, SoundProblem: r.silent,
	}
	if before != nil {
		info.Continues = before.entry.id
	}
	e, err := r.store.newEntry(info)
	if err != nil {
		return nil, err
	}
	e.began(epoch)
	v, err := newVideo(e)
	if err != nil {
		return nil, errors.Join(err, r.store.drop(e))
	}
	p := &part{entry: e, video: v, encoder: enc, epoch: epoch, first: first}
	p.thumbs = newThumbnailer(e.dir, r.cfg.ThumbnailInterval, r.log)
	v.limit = r.cfg.MaxBytes
	if before != nil {
		v.took = before.video.took + before.entry.snapshot().Bytes
	}
	enc.begin(v)
	r.mu.Lock()
	r.part = p
	r.mu.Unlock()
	return p, nil
}

// tell begins the newest segment's timeline after the event with that number, the
// last one in the segment before.
func (r *Recording) tell(p *part, after uint64) error {
	t, err := timeline.Start(r.d, timeline.Config{
		Path: filepath.Join(p.entry.dir, timelineFile), Epoch: p.epoch, After: after, Dropped: p.entry.dropEntries, Logger: r.log,
	})
	if err == nil {
		r.happening = t
	}
	return err
}

// tellOn has one segment's timeline go on in the next one's. Events are not lost
// meanwhile, and who has one to add waits. It gives telling back, which the caller
// has taken.
func (r *Recording) tellOn(next *part) {
	defer r.telling.Unlock()
	after := r.happening.Close()
	if err := r.tell(next, after); err != nil {
		r.log.Debug("timeline", "id", next.entry.id, "error", err)
	}
}

// at is the place of a picture in the segment's video.
func (p *part) at(n int64) time.Duration {
	return time.Duration(n-p.first) * time.Second / time.Duration(p.encoder.fps)
}

// offer has a thumbnail made of a picture if one is due.
func (p *part) offer(at time.Duration, planes []byte) {
	w, h := p.encoder.width, p.encoder.height
	n := w * h
	p.thumbs.offer(at, yuvPicture{
		Y: planes[:n], U: planes[n : n+n/4], V: planes[n+n/4:], YStride: w, UVStride: w / 2, Width: w, Height: h,
	})
}

var _ Desktop = (*desktop.Desktop)(nil)
