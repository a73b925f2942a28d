package recording

import (
	"context"
	"errors"
	"fmt"
	"image"
	"path/filepath"
	"sync"
	"time"

	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/recording/timeline"
)

// startLimit bounds the time until the first picture is encoded.
const startLimit = 20 * time.Second

// Recording is a recording that was started. With Config.SegmentLength it makes several
// recordings of the store, one after the other, and ID and Info are about the newest one.
// All methods may be called from any goroutine.
type Recording struct {
	store        *Store
	d            Desktop
	cfg          Config
	tools        programs
	soundProblem string // set before the first segment

	stopping  chan struct{}  // closed when the recording is to end
	done      chan struct{}  // closed when it has ended
	finishing sync.WaitGroup // segments

	mu      sync.Mutex // guards the fields below
	reason  Reason     // set before stopping is closed
	segment *segment   // the newest

	switching sync.Mutex         // guards timeline; held while another timeline takes over
	timeline  *timeline.Timeline // of the newest segment
}

// Start starts a recording of a desktop. It blocks until the first picture is encoded, for at
// most 20 seconds. ctx bounds only the call: the recording continues until Stop, until the
// desktop or the store is closed, or until a limit of the Config is reached. Several
// recordings can be active at the same time, also of one desktop.
//
// The error is or wraps
//   - *InvalidError or *MissingError;
//   - ErrTooMany, ErrFull, ErrNoSpace, ErrEncoder, ErrClosed, ErrLocked or desktop.ErrClosed;
//   - the error of ctx, or context.DeadlineExceeded after 20 seconds;
//   - an error of the file system.
func (s *Store) Start(ctx context.Context, d Desktop, cfg Config) (*Recording, error) {
	r, err := s.start(ctx, d, cfg.withDefaults())
	if err != nil {
		return nil, fmt.Errorf("start recording: %w", err)
	}
	return r, nil
}

func (s *Store) start(ctx context.Context, d Desktop, cfg Config) (_ *Recording, err error) {
	if err := cfg.check(); err != nil {
		return nil, err
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
	defer func() {
		if err != nil {
			s.release(cfg.Guest)
		}
	}()
	r := &Recording{store: s, d: d, cfg: cfg, tools: tools, stopping: make(chan struct{}), done: make(chan struct{})}
	l, err := newLoop(ctx, r)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	closed := s.closed
	if !closed {
		s.active[r] = struct{}{}
		s.work.Go(func() { r.run(l) })
	}
	s.mu.Unlock()
	if closed {
		return nil, errors.Join(ErrClosed, l.abandon())
	}
	return r, nil
}

// run records until the recording ends, and finishes it.
func (r *Recording) run(l *loop) {
	reason, err := l.run()
	r.stopFor(reason)
	last := l.end(reason)
	if t := r.line(); t != nil {
		t.Close()
	}
	r.finish(last, reason, err)
	r.finishing.Wait()
	r.store.mu.Lock()
	delete(r.store.active, r)
	r.store.mu.Unlock()
	r.store.release(r.cfg.Guest)
	close(r.done)
}

func (r *Recording) stopFor(reason Reason) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.reason == "" {
		r.reason = reason
		close(r.stopping)
	}
}

func (r *Recording) stopReason() Reason {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.reason
}

// finishSegment finishes a segment after the next one has begun.
func (r *Recording) finishSegment(old, next *segment) {
	r.switchTimeline(next)
	err := r.store.change(old.entry, func(i *Info) { i.ContinuedBy = next.entry.id })
	if err != nil {
		r.store.log.Debug("link segments", "id", old.entry.id, "error", err)
	}
	r.store.notify(next.entry)
	r.finish(old, ReasonSegment, nil)
}

// finish lets ffmpeg write the rest of a segment, and determines the segment's status.
func (r *Recording) finish(p *segment, reason Reason, problem error) {
	failed := p.encoder.end()
	p.thumbs.stop()
	closed := p.video.close()
	p.entry.end()
	select {
	case <-p.video.failed: // the rest may have failed, too
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

func (r *Recording) newest() *entry {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.segment.entry
}

// ID returns the id of the newest segment.
func (r *Recording) ID() string { return r.newest().id }

// Info describes the newest segment.
func (r *Recording) Info() Info { return r.newest().snapshot() }

func (r *Recording) line() *timeline.Timeline {
	r.switching.Lock()
	defer r.switching.Unlock()
	return r.timeline
}

// Done returns a channel that is closed when the recording has ended and its file is
// complete.
func (r *Recording) Done() <-chan struct{} { return r.done }

// Stop ends the recording, waits until its file is complete and returns the Info of the
// newest segment. The last picture shows everything that the X server had drawn when Stop
// was called. Stop may be called more than once.
//
// If ctx ends first, Stop returns the Info of that time and an error that wraps the error of
// ctx, and the recording finishes in the background. There is no other error: Info.Status and
// Info.Error say whether the recording failed.
func (r *Recording) Stop(ctx context.Context) (Info, error) {
	r.stopFor(ReasonStopped)
	select {
	case <-r.done:
		return r.Info(), nil
	case <-ctx.Done():
		return r.Info(), fmt.Errorf("stop recording %s: %w", r.ID(), ctx.Err())
	}
}

// segment is one file of a recording, and the ffmpeg that makes it.
type segment struct {
	entry   *entry
	video   *video
	encoder *encoder
	thumbs  *thumbnailer
	epoch   time.Time // of its first picture
	first   int64     // slot of its first picture
}

// begin makes a segment with an ffmpeg that waits for pictures. It has no timeline yet.
func (r *Recording) begin(enc *encoder, epoch time.Time, first int64, before *segment) (*segment, error) {
	info := Info{
		Desktop: r.d.Status().ID, Title: r.cfg.Title, Status: StatusRecording, ProcessID: enc.child.ID(),
		Guest: r.cfg.Guest, Region: r.cfg.Region, Started: epoch.Round(0), Width: enc.width, Height: enc.height, FrameRate: enc.fps,
		Sound: enc.sound, SoundProblem: r.soundProblem,
	}
	if before != nil {
		info.Continues = before.entry.id
	}
	e, err := r.store.newEntry(info)
	if err != nil {
		return nil, err
	}
	e.update(func() { e.epoch = epoch })
	v, err := newVideo(e)
	if err != nil {
		return nil, errors.Join(err, r.store.drop(e))
	}
	p := &segment{entry: e, video: v, encoder: enc, epoch: epoch, first: first}
	p.thumbs = newThumbnailer(e.dir, r.cfg.ThumbnailInterval, r.store.log)
	v.limit = r.cfg.MaxBytes
	if before != nil {
		v.earlier = before.video.earlier + before.entry.snapshot().Bytes
	}
	enc.begin(v)
	r.mu.Lock()
	r.segment = p
	r.mu.Unlock()
	return p, nil
}

// startTimeline starts the timeline of the newest segment, after an event of the desktop.
func (r *Recording) startTimeline(p *segment, after uint64) error {
	t, err := timeline.Start(r.d, timeline.Config{
		Path: filepath.Join(p.entry.dir, timelineFile), Epoch: p.epoch, After: after, Logger: r.store.log,
		Dropped: func(n uint64) { p.entry.update(func() { p.entry.info.TimelineDropped += n }) },
	})
	if err == nil {
		r.timeline = t
	}
	return err
}

// switchTimeline ends the timeline of a segment and starts the timeline of the next, without
// losing events. It unlocks switching, which the caller has locked.
func (r *Recording) switchTimeline(next *segment) {
	defer r.switching.Unlock()
	if err := r.startTimeline(next, r.timeline.Close()); err != nil {
		r.store.log.Debug("timeline", "id", next.entry.id, "error", err)
	}
}

// at returns the position of a slot in the segment's video.
func (p *segment) at(slot int64) time.Duration {
	return time.Duration(slot-p.first) * time.Second / time.Duration(p.encoder.fps)
}

func (p *segment) offer(at time.Duration, planes []byte) {
	w, h := p.encoder.width, p.encoder.height
	n := w * h
	p.thumbs.offer(at, &image.YCbCr{
		Y: planes[:n], Cb: planes[n : n+n/4], Cr: planes[n+n/4:], YStride: w, CStride: w / 2, Rect: image.Rect(0, 0, w, h),
	})
}

var _ Desktop = (*desktop.Desktop)(nil)
