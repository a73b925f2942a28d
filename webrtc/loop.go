package webrtc

import (
	"context"
	"errors"
	"time"

	"github.com/deskhand/deskhand/desktop"
)

const (
	// keepAlive is how long nothing is sent at most: a browser that gets
	// nothing for three seconds takes the stream for broken and asks for a key
	// picture.
	keepAlive = 2 * time.Second

	// keyPause is the least time between two key pictures. Each is as large as
	// a second of video, so that whoever asks for them because the line is full
	// would fill it.
	keyPause = 500 * time.Millisecond

	// joinPause is the same for somebody who has not seen anything yet.
	joinPause = 100 * time.Millisecond

	// linger is how long the encoder is kept when nobody watches, for somebody
	// who reloads the page.
	linger = 10 * time.Second
)

// loop captures and encodes, in one goroutine, for as long as somebody watches.
type loop struct {
	s      *Streamer
	feed   *desktop.Feed
	frames chan desktop.FeedFrame // from follow
	more   chan struct{}          // to follow: the frame is done with
	stop   context.CancelFunc     // of follow; nil while it does not run

	enc     encoder
	rate    int       // that enc was told
	sent    time.Time // when enc made its latest picture
	shown   time.Time // the latest frame
	keyed   time.Time // the latest key picture
	paced   time.Time // when the next frame may be captured
	even    time.Time // when it would be if frames came evenly
	pending bool      // follow waits for more
}

// run is the life of the loop.
func (s *Streamer) run() {
	l := &loop{s: s}
	defer l.close()
	for s.ctx.Err() == nil {
		if !s.watching() {
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
				<-s.ctx.Done() // there will be nothing more to show
				return
			}
			// What failed may fail again at once.
			select {
			case <-s.ctx.Done():
			case <-time.After(time.Second):
			}
		}
	}
}

// rest waits until somebody watches. After a while it lets go of everything.
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

// begin starts to follow the screen.
func (l *loop) begin() {
	ctx, cancel := context.WithCancel(l.s.ctx)
	l.feed = l.s.d.Feed()
	l.frames, l.more = make(chan desktop.FeedFrame), make(chan struct{})
	done := make(chan struct{})
	l.stop = func() { cancel(); <-done }
	go func() {
		defer close(done)
		l.follow(ctx)
	}()
	l.pending = false
}

// follow hands frames to the loop, each when the one before is done with.
func (l *loop) follow(ctx context.Context) {
	defer close(l.frames)
	for {
		f, err := l.feed.Next(ctx)
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

// close lets go of the screen and the encoder.
func (l *loop) close() {
	if l.stop != nil {
		l.stop()
		_ = l.feed.Close() // it has nothing to say
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

// step waits for the next thing to do, and does it.
func (l *loop) step() error {
	now := time.Now()
	if l.pending && !now.Before(l.paced) {
		l.release()
	}
	select { // what is new goes before a key picture of what is old
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

// release has the next frame captured.
func (l *loop) release() {
	l.pending = false
	select {
	case l.more <- struct{}{}:
	case <-l.s.ctx.Done():
	}
}

// next is when the loop has something to do even if nothing happens.
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

// due is when the picture is to be improved without a new frame; zero: never. It
// is not while frames come, which are improved on their way.
func (l *loop) due() time.Time {
	due := l.enc.Due()
	if due.IsZero() {
		return due
	}
	for _, soonest := range []time.Time{l.sent.Add(l.interval()), l.shown.Add(2 * l.interval())} {
		if due.Before(soonest) {
			due = soonest
		}
	}
	return due
}

func (l *loop) interval() time.Duration { return time.Second / time.Duration(l.s.cfg.FrameRate) }

// pace sets when the next frame may be captured, after one that was at begun.
//
// Frames are about an interval apart on the average, but one may come up to half
// of that early, and the interval is a little short. A program that draws exactly
// as often as frames may come is so always served at once: were each interval
// counted from the frame before, one that came late would have all that follow
// wait for as long, since they come no slower.
func (l *loop) pace(begun time.Time) {
	slot := l.interval() * 15 / 16
	if l.even.Before(begun) {
		l.even = begun
	}
	l.even = l.even.Add(slot)
	l.paced = l.even.Add(-slot / 2)
}

// keyDue says whether a key picture is wanted, and may be made.
func (l *loop) keyDue(now time.Time) bool {
	if !l.s.wantKey.Load() {
		return false
	}
	pause := keyPause
	l.s.each(func(v *viewer) {
		if v.fresh() {
			pause = joinPause
		}
	})
	return now.Sub(l.keyed) >= pause
}

// show encodes a new frame.
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
		l.rate = l.s.rate.target()
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

// encode makes one picture.
func (l *loop) encode(f *desktop.FeedFrame, key bool) error {
	if rate := l.s.rate.target(); rate != l.rate {
		l.rate = rate
		l.enc.SetBitrate(rate)
	}
	now := time.Now()
	if key {
		l.s.wantKey.Store(false)
		l.keyed = now
	}
	l.sent = now
	err := l.enc.Encode(f, key)
	l.s.setProcess(l.enc.ProcessID())
	return err
}
