package webrtc

import (
	"context"
	"errors"
	"time"

	"github.com/deskhand/deskhand/desktop"
)

const (
	// keepAlive is the longest time without a picture. A browser that gets nothing for
	// three seconds asks for a key picture.
	keepAlive = 2 * time.Second

	// keyPause is the least time between two key pictures. A key picture is as large as a
	// second of video, so more of them would increase the packet loss for which viewers
	// request them.
	keyPause = 500 * time.Millisecond

	// joinPause is keyPause while a viewer has not seen any picture.
	joinPause = 100 * time.Millisecond

	// ratePause is the least time between two bit rates, because an encoder may restart for
	// each of them.
	ratePause = 500 * time.Millisecond

	// linger is how long the encoder is kept without viewers, in case one reloads the page.
	linger = 10 * time.Second
)

// loop captures and encodes, in one goroutine, while there are viewers.
type loop struct {
	s      *Streamer
	feed   *desktop.Feed
	frames chan desktop.FeedFrame // from Feed.Follow
	more   chan struct{}          // to Feed.Follow: the frame is encoded
	stop   context.CancelFunc     // of Feed.Follow; nil while it does not run

	enc     encoder
	rate    int       // of enc
	rated   time.Time // when rate was set
	sent    time.Time // the latest picture
	shown   time.Time // when the latest frame was captured
	keyed   time.Time // the latest key picture
	paced   time.Time // when the next frame may be captured
	even    time.Time // when the next frame would be captured if frames came evenly
	pending bool      // Feed.Follow waits for more
}

// run runs the loop until the streamer is closed or the desktop ends.
func (s *Streamer) run() {
	l := &loop{s: s}
	defer l.close()
	for s.ctx.Err() == nil {
		if !s.any((*viewer).watching) {
			l.rest()
			continue
		}
		if l.stop == nil {
			l.begin()
		}
		if err := l.step(); err != nil {
			if s.ctx.Err() == nil {
				s.log.Debug("stream", "error", err)
			}
			l.close()
			if errors.Is(err, desktop.ErrClosed) {
				return
			}
			s.failures.Add(1)
			// Wait, because the next attempt may also fail.
			select {
			case <-s.ctx.Done():
			case <-time.After(time.Second):
			}
		}
	}
}

// rest waits for a viewer. After linger it closes the feed and the encoder.
func (l *loop) rest() {
	var enough <-chan time.Time
	if l.stop != nil {
		t := time.NewTimer(linger)
		defer t.Stop()
		enough = t.C
	}
	select {
	case <-l.s.ctx.Done():
	case <-l.s.poke:
	case <-enough:
		l.close()
	}
}

func (l *loop) begin() {
	ctx, cancel := context.WithCancel(l.s.ctx)
	l.feed = l.s.d.Feed()
	l.frames, l.more = make(chan desktop.FeedFrame), make(chan struct{})
	done := make(chan struct{})
	l.stop = func() { cancel(); <-done }
	go func() {
		defer close(done)
		l.feed.Follow(ctx, l.frames, l.more)
	}()
	l.pending = false
}

func (l *loop) close() {
	if l.stop != nil {
		l.stop()
		_ = l.feed.Close() // it returns nil
		l.stop = nil
	}
	if l.enc != nil {
		if err := l.enc.Close(); err != nil {
			l.s.log.Debug("close encoder", "error", err)
		}
		l.enc = nil
		l.s.setProcess("")
	}
}

func (s *Streamer) setProcess(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.process = id
}

// step waits for a frame or a time limit, and encodes a picture.
func (l *loop) step() error {
	now := time.Now()
	if l.pending && !now.Before(l.paced) {
		l.release()
	}
	select { // a new frame comes before a key picture of the old one
	case f, open := <-l.frames:
		if !open {
			return desktop.ErrClosed
		}
		return l.show(f)
	default:
	}
	if l.enc != nil && l.keyDue(now) {
		return l.encode(nil, true)
	}
	wait := time.NewTimer(time.Until(l.next(now)))
	defer wait.Stop()
	select {
	case <-l.s.ctx.Done():
		return nil
	case f, open := <-l.frames:
		if !open {
			return desktop.ErrClosed
		}
		return l.show(f)
	case <-l.s.poke:
		return nil
	case <-wait.C:
	}
	if now = time.Now(); l.enc == nil || l.pending && !now.Before(l.paced) {
		return nil
	}
	due := l.due()
	if !due.IsZero() && !now.Before(due) || now.Sub(l.sent) >= keepAlive {
		return l.encode(nil, false)
	}
	return nil
}

func (l *loop) release() {
	l.pending = false
	select {
	case l.more <- struct{}{}:
	case <-l.s.ctx.Done():
	}
}

// next returns when step has something to do without a new frame.
func (l *loop) next(now time.Time) time.Time {
	at := now.Add(time.Hour)
	earlier := func(t time.Time) {
		if t.Before(at) {
			at = t
		}
	}
	if l.pending {
		earlier(l.paced)
	}
	if l.enc != nil {
		earlier(l.sent.Add(keepAlive))
		if due := l.due(); !due.IsZero() {
			earlier(due)
		}
		if l.s.wantKey.Load() {
			earlier(l.keyed.Add(keyPause))
		}
	}
	return at
}

// due returns when to improve the picture without a new frame. Zero: never. While frames
// come, they improve it. A limit of the frame rate does not delay the improvements of a
// screen without changes.
func (l *loop) due() time.Time {
	due := l.enc.Due()
	if due.IsZero() {
		return due
	}
	least := time.Second / time.Duration(l.s.cfg.FrameRate)
	for _, soonest := range []time.Time{l.sent.Add(least), l.shown.Add(2 * l.interval())} {
		if due.Before(soonest) {
			due = soonest
		}
	}
	return due
}

func (l *loop) interval() time.Duration { return time.Second / time.Duration(l.s.frames.Load()) }

// pace sets when the next frame may be captured, after a frame that was captured at begun.
//
// Frames are an interval apart on average, but one may come up to half an interval early,
// and the interval is slightly shortened. A program that draws at the frame rate then never
// waits. If intervals were counted from the last frame, a late frame would delay all later
// ones.
func (l *loop) pace(begun time.Time) {
	slot := l.interval() * 15 / 16
	if l.even.Before(begun) {
		l.even = begun
	}
	l.even = l.even.Add(slot)
	l.paced = l.even.Add(-slot / 2)
}

// keyDue reports whether a viewer needs a key picture and there may be one.
func (l *loop) keyDue(now time.Time) bool {
	if !l.s.wantKey.Load() {
		return false
	}
	pause := keyPause
	if l.s.any((*viewer).fresh) {
		pause = joinPause
	}
	return now.Sub(l.keyed) >= pause
}

func (l *loop) show(f desktop.FeedFrame) error {
	begun := time.Now()
	l.pending, l.shown = true, begun
	l.pace(begun)
	if f.Reset && l.enc != nil {
		err := l.enc.Close()
		l.enc = nil
		if err != nil {
			return err
		}
	}
	key := l.enc == nil || l.keyDue(begun)
	if l.enc == nil {
		l.rate, l.rated = int(l.s.rate.Load()), begun
		enc, err := l.s.newEncoder(encoderConfig{
			Size: f.Size, FrameRate: l.s.cfg.FrameRate, Bitrate: l.rate, Send: l.s.deliver,
		})
		if err != nil {
			return err
		}
		l.enc = enc
		l.s.resized(f.Size)
	}
	return l.encode(&f, key)
}

func (l *loop) encode(f *desktop.FeedFrame, key bool) error {
	now := time.Now()
	if rate := int(l.s.rate.Load()); rate != l.rate && now.Sub(l.rated) >= ratePause {
		l.rate, l.rated = rate, now
		l.enc.SetBitrate(rate)
	}
	if key {
		l.s.wantKey.Store(false)
		l.keyed = now
	}
	l.sent = now
	err := l.enc.Encode(f, key)
	if f != nil && err == nil && l.s.cfg.OnFrame != nil {
		l.s.cfg.OnFrame(time.Since(f.Noticed))
	}
	l.s.setProcess(l.enc.ProcessID())
	return err
}
