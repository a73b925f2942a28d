package recording

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/deskhand/deskhand/desktop"
)

const (
	// repeatAfter is the time after a change when the picture is repeated, so that ffmpeg
	// writes the rest of the picture. keepAlive is the longest time without a picture.
	repeatAfter = 500 * time.Millisecond
	keepAlive   = 2 * time.Second

	// checkInterval is the time between two checks of the disk.
	checkInterval = time.Second

	// lastLimit bounds the time to capture the last picture.
	lastLimit = 2 * time.Second

	// prepareTime is how long before the end of a segment the next ffmpeg is started.
	prepareTime = 2 * time.Second
)

// loop captures a desktop and feeds ffmpeg, in one goroutine.
//
// Time is divided into slots of one over the frame rate, which begin with the first picture.
// A slot has at most one picture: the screen at the first change in the slot.
type loop struct {
	r       *Recording
	canvas  *canvas
	epoch   time.Time
	segment *segment
	spare   *encoder // for the next segment

	stop      context.CancelFunc // ends the followers
	followers sync.WaitGroup     // goroutines that follow the screen, the pointer and the sound
	frames    chan desktop.FeedFrame
	next      chan struct{} // asks for the next frame
	pointer   *pointer      // nil if it is not shown
	sound     *sound        // nil if it is not recorded

	pending bool      // Feed.Follow waits for next
	taken   int64     // slot of the latest frame
	dirty   bool      // the canvas or the pointer differs from the latest picture
	last    int64     // slot of the latest picture
	sent    time.Time // time of the latest picture
	repeat  bool      // the latest picture was a repetition
	dropped int64     // slot of the latest picture that was dropped
	checked time.Time // time of the latest check of the disk
}

// newLoop returns when the first picture is encoded.
func newLoop(ctx context.Context, r *Recording) (*loop, error) {
	l := &loop{r: r, last: -1, dropped: -1, checked: time.Now()}
	following, cancel := context.WithCancel(context.Background())
	l.frames, l.next = make(chan desktop.FeedFrame), make(chan struct{})
	l.stop = cancel
	feed := r.d.Feed()
	l.followers.Go(func() {
		defer func() { _ = feed.Close() }()
		feed.Follow(following, l.frames, l.next)
	})
	if r.cfg.Cursor == CursorPointer {
		l.pointer = followPointer(following, r.d, time.Second/time.Duration(r.cfg.FrameRate), &l.followers)
	}
	if r.cfg.Sound {
		r.soundProblem = l.listen(following)
	}
	if err := l.first(ctx); err != nil {
		return nil, errors.Join(err, l.abandon())
	}
	return l, nil
}

// first begins the first segment with the first frame.
func (l *loop) first(ctx context.Context) error {
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
	enc, err := l.newEncoder()
	if err != nil {
		return err
	}
	l.epoch = time.Now()
	l.canvas.draw(&f)
	l.pending = true
	if l.pointer != nil {
		l.pointer.query(ctx)
	}
	l.segment, err = l.r.begin(enc, l.epoch, 0, nil)
	if err != nil {
		return errors.Join(err, discard(enc))
	}
	if err := l.r.startTimeline(l.segment, 0); err != nil {
		return err
	}
	l.send(0, l.epoch)
	p := l.segment
	if l.sound != nil {
		l.sound.begin(p)
	}
	select {
	case <-p.video.begun:
		l.r.store.notify(p.entry)
		return nil
	case <-p.video.failed:
		return p.video.err
	case <-enc.child.Done():
		return fmt.Errorf("%w: %w", ErrEncoder, exitError(enc.child))
	case <-ctx.Done():
		return fmt.Errorf("%w: it did not begin: %w", ErrEncoder, ctx.Err())
	}
}

func (l *loop) newEncoder() (*encoder, error) {
	cfg := &l.r.cfg
	return newEncoder(l.r.store.group, l.r.tools, encoding{
		width: l.canvas.width, height: l.canvas.height, fps: cfg.FrameRate, quality: cfg.Quality,
		sound: l.sound != nil,
	}, l.r.store.patience)
}

// discard kills an ffmpeg whose output is not needed.
func discard(enc *encoder) error {
	err := enc.child.StopWithin(context.Background(), -1)
	_ = enc.end() // which says that it was killed
	return err
}

func (l *loop) abandon() error {
	l.unfollow()
	p := l.segment
	if p == nil {
		return nil
	}
	if t := l.r.line(); t != nil {
		t.Close()
	}
	p.thumbs.stop()
	return errors.Join(discard(p.encoder), p.video.close(), l.r.store.drop(p.entry))
}

func (l *loop) unfollow() {
	l.stop()
	l.followers.Wait()
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
		t.Reset(time.Until(l.deadline(now)))
		p := l.segment
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
			return l.r.stopReason(), nil
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

// encoderFailed returns why ffmpeg accepts no more pictures.
func (l *loop) encoderFailed() (Reason, error) {
	e := l.segment.encoder
	if !errors.Is(e.err, os.ErrDeadlineExceeded) {
		return ReasonEncoderKilled, nil
	}
	_ = e.child.StopWithin(context.Background(), -1)
	return ReasonEncoderStuck, fmt.Errorf("%w: ffmpeg took no picture for %v", ErrEncoder, e.patience)
}

// show draws a frame on the canvas.
func (l *loop) show(f *desktop.FeedFrame) {
	if l.canvas.draw(f) {
		l.dirty = true
		if l.pointer != nil {
			signal(l.pointer.busy)
		}
	}
	l.pending, l.taken = true, l.slot(time.Now())
}

func (l *loop) slot(t time.Time) int64 {
	return int64(t.Sub(l.epoch)) * int64(l.r.cfg.FrameRate) / int64(time.Second)
}

// begins returns the beginning of a slot, rounded up.
func (l *loop) begins(slot int64) time.Time {
	fps := int64(l.r.cfg.FrameRate)
	return l.epoch.Add(time.Duration((slot*int64(time.Second) + fps - 1) / fps))
}

// work sends a picture or silence that is due, and ends the recording at its limits.
func (l *loop) work(now time.Time) (Reason, error) {
	slot := l.slot(now)
	if l.pending && slot > l.taken {
		l.pending = false
		l.next <- struct{}{}
	}
	if reason, err := l.limits(now, slot); reason != "" {
		return reason, err
	}
	if l.sound != nil && !now.Before(l.sound.due(l.segment)) {
		l.sound.silence(l.segment, samples(now.Add(-soundLate).Sub(l.segment.epoch)))
	}
	if slot > l.last && (l.dirty || now.Sub(l.sent) >= l.pause()) {
		l.send(slot, now)
	}
	return "", nil
}

// pause returns the time after which the latest picture is repeated.
func (l *loop) pause() time.Duration {
	if l.repeat {
		return keepAlive
	}
	return repeatAfter
}

// deadline returns when work is due even if nothing happens.
func (l *loop) deadline(now time.Time) time.Time {
	at := l.sent.Add(l.pause())
	earlier := func(t time.Time) {
		if t.Before(at) {
			at = t
		}
	}
	earlier(l.checked.Add(checkInterval))
	if l.sound != nil {
		earlier(l.sound.due(l.segment))
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
		end := l.segment.epoch.Add(length)
		if begin := end.Add(-prepareTime); begin.After(now) {
			end = begin
		}
		earlier(end)
	}
	return at
}

// limits ends the recording, or its segment, at a limit.
func (l *loop) limits(now time.Time, slot int64) (Reason, error) {
	cfg := &l.r.cfg
	if cfg.MaxDuration > 0 && now.Sub(l.epoch) >= cfg.MaxDuration {
		return ReasonMaxDuration, nil
	}
	if now.Sub(l.checked) >= checkInterval {
		l.checked = now
		if l.segment.video.gone() {
			return ReasonFilesRemoved, nil
		}
		if err := l.r.store.checkRoom(1); errors.Is(err, ErrNoSpace) {
			return ReasonDiskFull, err
		}
	}
	if cfg.SegmentLength > 0 {
		return l.nextSegment(now, slot)
	}
	return "", nil
}

// send queues a picture for ffmpeg, or drops it if ffmpeg is too slow.
func (l *loop) send(slot int64, now time.Time) {
	p := l.segment
	packet := p.encoder.picture()
	if packet == nil {
		if l.dropped != slot {
			l.dropped = slot
			p.entry.update(func() { p.entry.info.Dropped++ })
		}
		l.sent = now // for the repetition
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
	p.entry.update(func() { p.entry.info.Frames++ })
	l.repeat = !l.dirty
	l.dirty, l.last, l.sent = false, slot, now
}

// nextSegment begins the next segment when it is time.
func (l *loop) nextSegment(now time.Time, slot int64) (Reason, error) {
	end := l.segment.epoch.Add(l.r.cfg.SegmentLength)
	var err error
	if l.spare == nil && !now.Before(end.Add(-prepareTime)) {
		if l.spare, err = l.newEncoder(); err != nil {
			return ReasonEncoderKilled, err
		}
	}
	if now.Before(end) || slot <= l.last {
		return "", nil
	}
	old := l.segment
	l.fill(slot)
	l.r.switching.Lock() // until finishSegment has started the timeline of the new segment
	next, err := l.r.begin(l.spare, l.begins(slot), slot, old)
	if err != nil {
		l.r.switching.Unlock()
		if errors.Is(err, ErrFull) {
			return ReasonStoreFull, err
		}
		return ReasonWriteFailed, err
	}
	if l.sound != nil {
		l.sound.end(old, next.epoch)
		l.sound.begin(next)
	}
	l.segment = next
	l.spare, l.dirty = nil, true // a file begins with a picture
	l.r.finishing.Go(func() { l.r.finishSegment(old, next) })
	return "", nil
}

// fill makes the video last until the slot end, with a picture in the slot before.
func (l *loop) fill(end int64) {
	if end-1 > l.last {
		l.send(end-1, time.Now())
	}
}

// end sends the last picture and returns the last segment.
func (l *loop) end(reason Reason) *segment {
	now := time.Now()
	p := l.segment
	select {
	case <-p.encoder.child.Done():
	case <-p.encoder.failed:
	default:
		if reason != ReasonDesktopClosed {
			l.capture()
		}
		// The last slot that has begun is the last one of the video.
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

// capture draws the present screen on the canvas.
func (l *loop) capture() {
	ctx, cancel := context.WithTimeout(context.Background(), lastLimit)
	defer cancel()
	feed := l.r.d.Feed()
	defer func() { _ = feed.Close() }()
	f, err := feed.Next(ctx)
	if err == nil && l.canvas.draw(&f) {
		l.dirty = true
	}
	if l.pointer != nil && l.pointer.query(ctx) {
		l.dirty = true
	}
}
