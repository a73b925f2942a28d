package recording

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/deskhand/deskhand/desktop"
)

const (
	// settle is how long after a change the picture is repeated, so that what
	// ffmpeg holds of it reaches the file; keepAlive is how long there is no
	// picture at most.
	settle    = 500 * time.Millisecond
	keepAlive = 2 * time.Second

	// lookInterval is how often the disk is looked at.
	lookInterval = time.Second

	// lastLimit is how long it may take to see the screen as it is at the end.
	lastLimit = 2 * time.Second

	// prepare is how long before a segment's end the next one's ffmpeg is
	// started.
	prepare = 2 * time.Second
)

// loop follows a desktop's screen and feeds ffmpeg with it, in one goroutine.
//
// Time is cut into slots of one over the frame rate, counted from the first
// picture. A slot has at most one picture, of the screen as it is seen at the first
// change in it; one in which nothing changes has none.
type loop struct {
	r      *Recording
	canvas *canvas
	epoch  time.Time
	part   *part
	spare  *encoder // for the next segment

	stop    context.CancelFunc // of who follow the desktop
	stopped chan struct{}      // closed when the feed is not followed any more
	frames  chan desktop.FeedFrame
	more    chan struct{} // to follow: the frame is done with
	pointer *pointer      // nil: it is not shown
	sound   *sound        // nil: it is not recorded
	hearing sync.WaitGroup

	pending bool      // follow waits for more
	taken   int64     // slot of the latest frame
	dirty   bool      // the canvas or the pointer is not as in the latest picture
	last    int64     // slot of the latest picture
	sent    time.Time // when that was
	again   bool      // it was one that nothing new is in
	dropped int64     // slot of the latest picture that was dropped
	looked  time.Time // at the disk
}

// newLoop sees the first picture encoded.
func newLoop(ctx context.Context, r *Recording) (*loop, error) {
	l := &loop{r: r, last: -1, dropped: -1, looked: time.Now()}
	follow, cancel := context.WithCancel(context.Background())
	l.frames, l.more, l.stopped = make(chan desktop.FeedFrame), make(chan struct{}), make(chan struct{})
	l.stop = cancel
	feed := r.d.Feed()
	go func() {
		defer close(l.stopped)
		l.follow(follow, feed)
	}()
	if r.cfg.Cursor == CursorPointer {
		l.pointer = followPointer(follow, r.d, time.Second/time.Duration(r.cfg.FrameRate))
	}
	var problem string
	if r.cfg.Sound {
		problem = l.hear(follow)
	}
	if err := l.first(ctx, problem); err != nil {
		return nil, errors.Join(err, l.abandon())
	}
	return l, nil
}

// first begins the first segment with the first frame. problem says why there is no
// sound.
func (l *loop) first(ctx context.Context, problem string) error {
	var f desktop.FeedFrame
	select {
	case frame, ok := <-l.frames:
		if !ok {
			return desktop.ErrClosed
		}
		f = frame
	case <-ctx.Done():
		return fmt.Errorf("wait for the screen: %w", ctx.Err())
	}
	var err error
	if l.canvas, err = newCanvas(f.Size, l.r.cfg.Region, l.r.cfg.Scale); err != nil {
		return err
	}
	enc, err := l.encoder()
	if err != nil {
		return err
	}
	l.epoch = time.Now()
	l.canvas.take(&f)
	l.pending = true
	if l.pointer != nil {
		l.pointer.ask(ctx)
	}
	l.r.silent = problem
	l.part, err = l.r.begin(enc, l.epoch, 0, nil)
	if err != nil {
		return errors.Join(err, discard(enc))
	}
	if err := l.r.tell(l.part, 0); err != nil {
		return err
	}
	l.send(0, l.epoch)
	p := l.part
	if l.sound != nil {
		l.sound.begin(p)
	}
	select {
	case <-p.video.begun:
		l.r.store.tell(p.entry)
		return nil
	case <-p.video.failed:
		return p.video.err
	case <-enc.child.Done():
		return fmt.Errorf("%w: %s", ErrEncoder, lastWords(enc.child))
	case <-ctx.Done():
		return fmt.Errorf("%w: it did not begin: %w", ErrEncoder, ctx.Err())
	}
}

// encoder starts an ffmpeg.
func (l *loop) encoder() (*encoder, error) {
	cfg := &l.r.cfg
	return newEncoder(l.r.store.group, l.r.tools, encoding{
		width: l.canvas.width, height: l.canvas.height, fps: cfg.FrameRate, quality: cfg.Quality,
		sound: l.sound != nil,
	}, l.r.store.patience)
}

// discard ends an ffmpeg whose output nobody wants.
func discard(enc *encoder) error {
	err := enc.child.StopWithin(context.Background(), -1)
	_ = enc.end() // it was killed, and says so
	return err
}

// abandon ends everything, and leaves no trace.
func (l *loop) abandon() error {
	l.unfollow()
	p := l.part
	if p == nil {
		return nil
	}
	if t := l.r.line(); t != nil {
		t.Close()
	}
	p.thumbs.stop()
	return errors.Join(discard(p.encoder), p.video.close(), l.r.store.drop(p.entry))
}

// unfollow stops following the desktop.
func (l *loop) unfollow() {
	l.stop()
	<-l.stopped
	if l.pointer != nil {
		l.pointer.working.Wait()
	}
	l.hearing.Wait()
}

// follow hands frames to the loop, each when the one before is done with.
func (l *loop) follow(ctx context.Context, feed *desktop.Feed) {
	defer close(l.frames)
	defer func() { _ = feed.Close() }() // it has nothing to say
	for {
		f, err := feed.Next(ctx)
		if err != nil {
			return
		}
		select {
		case l.frames <- f:
		case <-ctx.Done():
			return
		}
		select {
		case <-l.more:
		case <-ctx.Done():
			return
		}
	}
}

// run records until there is a reason to end.
func (l *loop) run() (Reason, error) {
	t := time.NewTimer(0)
	defer t.Stop()
	var moved <-chan struct{}
	if l.pointer != nil {
		moved = l.pointer.moved
	}
	var heard <-chan piece
	if l.sound != nil {
		heard = l.sound.pieces
	}
	for {
		now := time.Now()
		if reason, err := l.work(now); reason != "" {
			return reason, err
		}
		t.Reset(time.Until(l.next(now)))
		p := l.part
		select {
		case f, ok := <-l.frames:
			if !ok {
				return ReasonDesktopClosed, nil
			}
			l.show(&f)
		case <-moved:
			l.dirty = true
		case piece := <-heard:
			l.sound.play(p, piece)
		case <-l.r.stopping:
			return l.r.reasonToEnd(), nil
		case <-p.encoder.child.Done():
			return ReasonEncoderKilled, nil
		case <-p.encoder.failed:
			return l.encoderFailed()
		case <-p.video.failed:
			return p.video.reason, p.video.err
		case <-t.C:
		}
	}
}

func (r *Recording) reasonToEnd() Reason {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.reason
}

// encoderFailed says why ffmpeg takes no more.
func (l *loop) encoderFailed() (Reason, error) {
	e := l.part.encoder
	if !errors.Is(e.err, context.DeadlineExceeded) && !isTimeout(e.err) {
		return ReasonEncoderKilled, nil
	}
	_ = e.child.StopWithin(context.Background(), -1)
	return ReasonEncoderStuck, fmt.Errorf("%w: ffmpeg took no picture for %v", ErrEncoder, e.patience)
}

func isTimeout(err error) bool {
	var t interface{ Timeout() bool }
	return errors.As(err, &t) && t.Timeout()
}

// show takes over a frame.
func (l *loop) show(f *desktop.FeedFrame) {
	if l.canvas.take(f) {
		l.dirty = true
		if l.pointer != nil {
			poke(l.pointer.busy)
		}
	}
	l.pending, l.taken = true, l.slot(time.Now())
}

// slot is the number of the slot that a moment is in.
func (l *loop) slot(t time.Time) int64 {
	return int64(t.Sub(l.epoch)) * int64(l.r.cfg.FrameRate) / int64(time.Second)
}

// begins is when a slot does, or a little later.
func (l *loop) begins(slot int64) time.Time {
	fps := int64(l.r.cfg.FrameRate)
	return l.epoch.Add(time.Duration((slot*int64(time.Second) + fps - 1) / fps))
}

// work does what is due.
func (l *loop) work(now time.Time) (Reason, error) {
	slot := l.slot(now)
	if l.pending && slot > l.taken {
		l.pending = false
		l.more <- struct{}{}
	}
	if reason, err := l.limits(now, slot); reason != "" {
		return reason, err
	}
	if l.sound != nil && !now.Before(l.sound.due(l.part)) {
		l.sound.silence(l.part, samples(now.Add(-soundLate).Sub(l.part.epoch)))
	}
	if slot > l.last && (l.dirty || now.Sub(l.sent) >= l.pause()) {
		l.send(slot, now)
	}
	return "", nil
}

// pause is how long after the latest picture it is repeated.
func (l *loop) pause() time.Duration {
	if l.again {
		return keepAlive
	}
	return settle
}

// next is when something is due even if nothing happens.
func (l *loop) next(now time.Time) time.Time {
	at := l.sent.Add(l.pause())
	earlier := func(t time.Time) {
		if t.Before(at) {
			at = t
		}
	}
	earlier(l.looked.Add(lookInterval))
	if l.sound != nil {
		earlier(l.sound.due(l.part))
	}
	if l.dirty {
		earlier(l.begins(max(l.last, l.dropped) + 1))
	}
	if l.pending {
		earlier(l.begins(l.taken + 1))
	}
	if most := l.r.cfg.MaxDuration; most > 0 {
		earlier(l.epoch.Add(most))
	}
	if length := l.r.cfg.SegmentLength; length > 0 {
		end := l.part.epoch.Add(length)
		if begin := end.Add(-prepare); begin.After(now) {
			end = begin
		}
		earlier(end)
	}
	return at
}

// limits looks whether the recording, or its segment, is to end.
func (l *loop) limits(now time.Time, slot int64) (Reason, error) {
	cfg := &l.r.cfg
	if cfg.MaxDuration > 0 && now.Sub(l.epoch) >= cfg.MaxDuration {
		return ReasonMaxDuration, nil
	}
	if now.Sub(l.looked) >= lookInterval {
		l.looked = now
		if l.part.video.gone() {
			return ReasonFilesRemoved, nil
		}
		if err := l.r.store.checkRoom(); errors.Is(err, ErrNoSpace) {
			return ReasonDiskFull, err
		}
	}
	if cfg.SegmentLength > 0 {
		return l.segment(now, slot)
	}
	return "", nil
}

// send queues the picture as it is now.
func (l *loop) send(slot int64, now time.Time) {
	p := l.part
	packet := p.encoder.picture()
	if packet == nil {
		if l.dropped != slot {
			l.dropped = slot
			p.entry.drop()
		}
		l.sent = now // for what repeats
		return
	}
	planes := packet.data()
	copy(planes, l.canvas.planes)
	if l.pointer != nil {
		l.pointer.draw(l.canvas, planes)
	}
	at := p.at(slot)
	p.offer(at, planes)
	p.encoder.send(packet, at)
	p.entry.picture()
	l.again = !l.dirty
	l.dirty, l.last, l.sent = false, slot, now
}

// segment begins the next segment when it is time.
func (l *loop) segment(now time.Time, slot int64) (Reason, error) {
	end := l.part.epoch.Add(l.r.cfg.SegmentLength)
	var err error
	if l.spare == nil && !now.Before(end.Add(-prepare)) {
		if l.spare, err = l.encoder(); err != nil {
			return ReasonEncoderKilled, err
		}
	}
	if now.Before(end) || slot <= l.last {
		return "", nil
	}
	// The old one ends where the new one begins.
	old := l.part
	l.fill(slot)
	next, err := l.r.begin(l.spare, l.begins(slot), slot, old)
	if err != nil {
		return ReasonWriteFailed, err
	}
	if l.sound != nil {
		l.sound.end(old, next.epoch)
		l.sound.begin(next)
	}
	l.part = next
	l.spare, l.dirty = nil, true // a file begins with a picture
	l.r.telling.Lock()           // before anybody can ask for the timeline again
	l.r.parts.Go(func() { l.r.goOn(old, next) })
	return "", nil
}

// fill has a picture in the slot before end, so that the video is as long as what
// it shows.
func (l *loop) fill(end int64) {
	if end-1 > l.last {
		l.send(end-1, time.Now())
	}
}

// end ends the last segment's pictures with the screen as it is now.
func (l *loop) end(reason Reason) *part {
	now := time.Now()
	p := l.part
	select {
	case <-p.encoder.child.Done():
	case <-p.encoder.failed:
	default:
		if reason != ReasonDesktopClosed {
			l.look()
		}
		// The last slot that has begun is the last one of the video. An ffmpeg
		// that is behind is waited for.
		p.encoder.await()
		l.fill(max(l.slot(now), l.last+1))
		if l.dirty {
			p.encoder.await()
			l.send(l.last+1, now)
		}
		if l.sound != nil {
			l.sound.end(p, l.begins(l.last+1))
		}
	}
	l.unfollow()
	if l.spare != nil {
		_ = discard(l.spare)
	}
	return p
}

// look takes the screen as it is now.
func (l *loop) look() {
	ctx, cancel := context.WithTimeout(context.Background(), lastLimit)
	defer cancel()
	feed := l.r.d.Feed()
	defer func() { _ = feed.Close() }()
	f, err := feed.Next(ctx)
	if err == nil && l.canvas.take(&f) {
		l.dirty = true
	}
	if l.pointer != nil && l.pointer.ask(ctx) {
		l.dirty = true
	}
}
