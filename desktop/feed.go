package desktop

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/deskhand/deskhand/internal/x11"
)

// FeedFrame is the screen at one moment, for somebody who follows it.
type FeedFrame struct {
	// Pix is B, G, R, X, in rows of Stride bytes, from the top. X means
	// nothing. It is shared: it must not be changed, nor read after the next
	// call of the Feed.
	Pix    []byte
	Stride int
	Size   Size

	// Changed is where pixels may differ from those of the frame before. It is
	// the whole screen when Reset. It is valid as long as Pix.
	Changed []Rect

	// Reset says that nothing is left of the frame before: this is the first
	// one, or the screen's size is another, or its X server is.
	Reset bool

	// Noticed is when the change was noticed that this frame shows.
	Noticed time.Time
}

// Feed follows the screen. It is for one goroutine; many feeds may follow one
// desktop. While nobody calls Next, it costs nothing but the memory of a
// picture.
type Feed struct {
	d       *Desktop
	session *session
	capture *x11.Capture
	frame   *x11.Frame // of the latest Next
	seq     uint64
	size    Size
	changed []Rect
}

// Feed begins to follow the screen. It must be closed.
func (d *Desktop) Feed() *Feed { return &Feed{d: d} }

// Next waits until the screen differs from what the last Next returned, and
// returns it. The first one returns at once. When the X server dies, Next waits
// for the next one; when the size changes, the next frame has the new one.
//
// The errors are ctx's and [ErrClosed].
func (f *Feed) Next(ctx context.Context) (FeedFrame, error) {
	f.release()
	noticed := time.Now()
	for {
		fresh := f.d.nextSession()
		frame, err := f.look(ctx)
		if lost(err) || errors.Is(err, ErrRestarting) {
			f.drop()
			select {
			case <-fresh:
				continue
			case <-f.d.closing:
				err = ErrClosed
			case <-ctx.Done():
				err = ctx.Err()
			}
		}
		if err != nil {
			return FeedFrame{}, fmt.Errorf("follow screen: %w", err)
		}
		if frame.Seq != f.seq || f.size == (Size{}) {
			return f.show(frame, noticed), nil
		}
		frame.Release()
		select {
		case <-f.capture.Damaged():
			noticed = time.Now()
		case <-f.d.closing:
			return FeedFrame{}, fmt.Errorf("follow screen: %w", ErrClosed)
		case <-ctx.Done():
			return FeedFrame{}, fmt.Errorf("follow screen: %w", ctx.Err())
		}
	}
}

// look takes a picture, of the present session.
func (f *Feed) look(ctx context.Context) (*x11.Frame, error) {
	s, err := f.d.current()
	if err != nil {
		return nil, err
	}
	if s != f.session {
		f.drop()
		if f.capture, err = s.conn.NewCapture(); err != nil {
			return nil, err
		}
		f.session = s
	}
	return f.capture.Frame(ctx)
}

// show makes frame the latest one.
func (f *Feed) show(frame *x11.Frame, noticed time.Time) FeedFrame {
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

// drop lets go of a session.
func (f *Feed) drop() {
	if f.capture != nil {
		_ = f.capture.Close() // it has nothing to say
	}
	f.session, f.capture, f.seq, f.size = nil, nil, 0, Size{}
}

// Close ends the feed. It may be called more than once, by the goroutine that
// calls Next.
func (f *Feed) Close() error {
	f.release()
	f.drop()
	return nil
}

// CursorImage is the picture of the pointer.
type CursorImage struct {
	Width, Height int
	Hot           Point  // which of its pixels is where the pointer is
	Pix           []byte // premultiplied B, G, R, A, in rows of 4*Width bytes
}

// FollowCursor calls f with the pointer's picture, and again whenever it changes,
// until ctx ends or the desktop is closed; it returns why. It goes on with the
// next X server when one dies. A picture that the X server keeps to itself, which
// only one that was attached to does, is left out.
func (d *Desktop) FollowCursor(ctx context.Context, f func(CursorImage)) error {
	for {
		fresh := d.nextSession()
		s, err := d.current()
		if err == nil {
			err = s.followCursor(ctx, d.closing, f)
		}
		switch {
		case lost(err), errors.Is(err, ErrRestarting):
		default:
			return fmt.Errorf("follow cursor: %w", err)
		}
		select {
		case <-fresh:
		case <-d.closing:
			return fmt.Errorf("follow cursor: %w", ErrClosed)
		case <-ctx.Done():
			return fmt.Errorf("follow cursor: %w", ctx.Err())
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

// nextSession is closed when there is a session that is none of the present
// ones.
func (l *lifecycle) nextSession() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.fresh
}
