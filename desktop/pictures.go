package desktop

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"image"
	"sync"

	"golang.org/x/sync/semaphore"

	"github.com/deskhand/deskhand/internal/picture"
)

// Pictures makes screenshots and observations for other implementations of a desktop. Its
// methods may be called from any goroutine.
type Pictures struct {
	epoch   string
	encoder picture.Encoder
	turn    *semaphore.Weighted // of size 1; held by the Take that has a frame

	mu    sync.Mutex // guards the fields below
	frame *picture.Image
}

// NewPictures returns the Pictures of one screen.
func NewPictures() *Pictures {
	return &Pictures{epoch: rand.Text(), turn: semaphore.NewWeighted(1)}
}

// bandHeight is the number of rows that share the number of their last change.
const bandHeight = 16

// Show sets the picture of the screen. It returns the number of the last change, which
// grows if the screen differs from the last Show.
func (p *Pictures) Show(screen *image.RGBA) uint64 {
	b := screen.Bounds()
	next := &picture.Image{Stride: 4 * b.Dx(), Width: b.Dx(), Height: b.Dy(), BandHeight: bandHeight}
	next.Pix = make([]byte, next.Stride*next.Height)
	for y := range next.Height {
		from := screen.Pix[screen.PixOffset(b.Min.X, b.Min.Y+y):]
		to := next.Pix[y*next.Stride : (y+1)*next.Stride]
		for x := 0; x < len(to); x += 4 {
			to[x], to[x+1], to[x+2], to[x+3] = from[x+2], from[x+1], from[x], 0xff
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.number(next)
	p.frame = next
	return next.Seq
}

// number sets the numbers of the last changes of a frame and its bands.
func (p *Pictures) number(next *picture.Image) {
	next.Bands = make([]uint64, (next.Height+bandHeight-1)/bandHeight)
	before := p.frame
	if before == nil || before.Width != next.Width || before.Height != next.Height {
		if next.Seq = 1; before != nil {
			next.Seq = before.Seq + 1
		}
		for i := range next.Bands {
			next.Bands[i] = next.Seq
		}
		return
	}
	next.Seq = before.Seq
	for i := range next.Bands {
		rows := func(m *picture.Image) []byte {
			return m.Pix[i*bandHeight*m.Stride : min((i+1)*bandHeight, m.Height)*m.Stride]
		}
		next.Bands[i] = before.Bands[i]
		if !bytes.Equal(rows(before), rows(next)) {
			next.Bands[i], next.Seq = before.Seq+1, before.Seq+1
		}
	}
}

// Take makes a picture of what the screen showed last. If o asks for the crosshair or the
// pointer's image, it draws the crosshair at pointer. It ignores o.Settle. Concurrent calls
// run one after the other, to bound the memory of frames. It returns ErrRestarting before the
// first Show.
func (p *Pictures) Take(ctx context.Context, o ScreenshotOptions, pointer Point) (*Screenshot, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	if err := p.turn.Acquire(ctx, 1); err != nil {
		return nil, err
	}
	defer p.turn.Release(1)
	p.mu.Lock()
	frame := p.frame
	p.mu.Unlock()
	if frame == nil {
		return nil, fmt.Errorf("screenshot: nothing was captured: %w", ErrRestarting)
	}
	return o.picture(ctx, frame, p.epoch, &p.encoder, nil, func(opts *picture.Options, style CursorStyle) (string, error) {
		if style == CursorNone {
			return "", nil
		}
		opts.Cross = &image.Point{X: pointer.X, Y: pointer.Y}
		return fmt.Sprintf("-cross-%d-%d", pointer.X, pointer.Y), nil
	})
}

// OnScreen maps a point from the picture of an observation, if any, and moves it onto a
// screen of that size.
func (p *Pictures) OnScreen(at Point, observation string, screen Size) (Point, error) {
	if err := checkPoint(at); err != nil {
		return at, err
	}
	at, err := mapped(at, observation, p.epoch)
	return Point{min(at.X, screen.Width-1), min(at.Y, screen.Height-1)}, err
}
