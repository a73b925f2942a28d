package desktop

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/deskhand/deskhand/internal/x11"
)

// FeedFrame is the screen at one moment.
type FeedFrame struct {
	// Pix holds four bytes for each pixel: blue, green, red, and one to ignore. A row
	// begins every Stride bytes. The reader must not change it, nor read it after the
	// next call of the Feed.
	Pix    []byte
	Stride int
	Size   Size

	// Changed is where pixels may differ from the previous frame: the whole screen if
	// Reset. It is valid as long as Pix.
	Changed []Rect

	// Reset is true for the first frame, and after a change of the screen's size or of
	// the X server.
	Reset bool

	// Noticed is when the Feed learned of the change.
	Noticed time.Time
}

// Feed follows the screen, for one goroutine. A desktop may have many feeds. Between calls of
// Next a feed needs only the memory of one picture.
type Feed struct {
	d       *Desktop
	session *session
	capture *x11.Capture
	frame   *x11.Frame // of the latest Next
	seq     uint64
	size    Size
	changed []Rect
}

// Feed begins to follow the screen. The caller must close it.
func (d *Desktop) Feed() *Feed { return &Feed{d: d} }

// Next blocks until the screen differs from the frame of the last Next, and returns it. The
// first Next does not wait for a change. If the X server dies, Next waits for the next one. After
// another failure it tries again each second.
// The error wraps the error of ctx if that ends, or [ErrClosed] after Close of the Desktop.
// Next must not be called after Close of the Feed.
func (f *Feed) Next(ctx context.Context) (FeedFrame, error) {
	f.release()
	noticed := time.Now()
	for {
		fresh := f.d.nextSession()
		frame, err := f.takeFrame(ctx)
		switch {
		case lost(err) || errors.Is(err, ErrRestarting):
			f.dropCapture()
			if err = f.d.awaitSession(ctx, fresh); err == nil {
				continue
			}
		case err != nil && !errors.Is(err, ErrClosed) && ctx.Err() == nil:
			f.d.log.Warn("capture the screen", "error", err)
			f.dropCapture()
			if err = f.d.pause(ctx, feedRetry); err == nil {
				continue
			}
		}
		if err != nil {
			return FeedFrame{}, fmt.Errorf("follow screen: %w", err)
		}
		if frame.Seq != f.seq || f.size == (Size{}) {
			return f.feedFrame(frame, noticed), nil
		}
		frame.Release()
		select {
		case <-f.capture.Damaged():
		case <-time.After(feedCheck):
		case <-f.d.closing:
			return FeedFrame{}, fmt.Errorf("follow screen: %w", ErrClosed)
		case <-ctx.Done():
			return FeedFrame{}, fmt.Errorf("follow screen: %w", ctx.Err())
		}
		noticed = time.Now()
	}
}

const (
	// feedRetry is the pause after a failure.
	feedRetry = time.Second
	// feedCheck is how long a Feed waits for an event before it takes a frame. Another client
	// can destroy the object that reports changes. Then no events come, and the frame fails.
	feedCheck = 5 * time.Second
)

// Follow sends the frames that Next returns to frames. Before each but the first it receives
// from next, so the receiver of a frame can read it until it sends to next. Follow closes
// frames and returns when ctx ends or the desktop is closed. It does not close the feed.
func (f *Feed) Follow(ctx context.Context, frames chan<- FeedFrame, next <-chan struct{}) {
	defer close(frames)
	for {
		frame, err := f.Next(ctx)
		if err != nil {
			return
		}
		select {
		case frames <- frame:
		case <-ctx.Done():
			return
		}
		select {
		case <-next:
		case <-ctx.Done():
			return
		}
	}
}

func (f *Feed) takeFrame(ctx context.Context) (*x11.Frame, error) {
	s, err := f.d.current()
	if err != nil {
		return nil, err
	}
	if s != f.session {
		f.dropCapture()
		if f.capture, err = s.conn.NewCapture(); err != nil {
			return nil, err
		}
		f.session = s
	}
	return f.capture.Frame(ctx)
}

func (f *Feed) feedFrame(frame *x11.Frame, noticed time.Time) FeedFrame {
	out := FeedFrame{
		Pix: frame.Pix, Stride: frame.Stride, Size: Size{frame.Width, frame.Height},
		Reset: f.size != (Size{frame.Width, frame.Height}), Noticed: noticed,
	}
	f.changed = f.changed[:0]
	for i, seq := range frame.Bands {
		if seq <= f.seq && !out.Reset {
			continue
		}
		top := i * frame.BandHeight
		height := min(frame.BandHeight, frame.Height-top)
		if n := len(f.changed) - 1; n >= 0 && f.changed[n].Y+f.changed[n].Height == top {
			f.changed[n].Height += height
			continue
		}
		f.changed = append(f.changed, Rect{X: 0, Y: top, Width: frame.Width, Height: height})
	}
	out.Changed = f.changed
	f.frame, f.seq, f.size = frame, frame.Seq, out.Size
	return out
}

func (f *Feed) release() {
	if f.frame != nil {
		f.frame.Release()
		f.frame = nil
	}
}

func (f *Feed) dropCapture() {
	if f.capture != nil {
		_ = f.capture.Close()
	}
	f.session, f.capture, f.seq, f.size = nil, nil, 0, Size{}
}

// Close ends the feed. It may be called more than once, on the goroutine of Next.
func (f *Feed) Close() error {
	f.release()
	f.dropCapture()
	return nil
}

// CursorImage is the picture of the pointer.
type CursorImage struct {
	Width, Height int
	Hot           Point  // the pixel at the position of the pointer
	Pix           []byte // premultiplied B, G, R, A, in rows of 4*Width bytes
}

// FollowCursor calls f with the pointer's picture, and again after each change. It blocks until
// ctx ends or the desktop is closed, and returns an error that wraps the error of ctx or
// [ErrClosed]. If the X server dies, it continues with the next one. It skips a picture that the
// X server of [Attach] does not give to other clients.
func (d *Desktop) FollowCursor(ctx context.Context, f func(CursorImage)) error {
	for {
		fresh := d.nextSession()
		s, err := d.current()
		if err == nil {
			err = s.followCursor(ctx, d.closing, f)
		}
		if lost(err) || errors.Is(err, ErrRestarting) {
			err = d.awaitSession(ctx, fresh)
		}
		if err != nil {
			return fmt.Errorf("follow cursor: %w", err)
		}
	}
}

func (s *session) followCursor(ctx context.Context, closing <-chan struct{}, f func(CursorImage)) error {
	changed := make(chan struct{}, 1)
	stop, err := s.conn.WatchCursor(func() {
		select {
		case changed <- struct{}{}:
		default:
		}
	})
	if err != nil {
		return err
	}
	defer stop()
	var last CursorImage
	for first := true; ; first = false {
		c, err := s.conn.Cursor()
		if err != nil && !errors.Is(err, x11.ErrNoCursor) {
			return err
		}
		if err == nil {
			img := CursorImage{Width: c.Width, Height: c.Height, Hot: Point{c.XHot, c.YHot}, Pix: c.Pix}
			if first || img.Hot != last.Hot || img.Width != last.Width || !slices.Equal(img.Pix, last.Pix) {
				f(img)
				last = img
			}
		}
		select {
		case <-changed:
		case <-s.conn.Done():
			return x11.ErrConnClosed
		case <-closing:
			return ErrClosed
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// nextSession returns a channel that is closed when the next session begins.
func (l *lifecycle) nextSession() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.fresh
}

func (l *lifecycle) pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-l.closing:
		return ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (l *lifecycle) awaitSession(ctx context.Context, fresh <-chan struct{}) error {
	select {
	case <-fresh:
		return nil
	case <-l.closing:
		return ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}
}
