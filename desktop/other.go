package desktop

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"image"
	"sync"

	"github.com/deskhand/deskhand/internal/picture"
	"github.com/deskhand/deskhand/internal/x11"
)

// This file is for packages that offer a desktop of another kind with the same
// methods, such as desktop/robot: they have their own ways to see and to act,
// and take from here what must be the same everywhere.

// EventLog numbers the events of a desktop of another kind. Its zero value is
// of no use: make one with [NewEventLog].
type EventLog struct{ log *eventLog }

// NewEventLog begins the events of the desktop of that id.
func NewEventLog(desktop string) *EventLog { return &EventLog{newEventLog(desktop)} }

// Emit adds an event. It never waits for a subscriber.
func (l *EventLog) Emit(e Event) { l.log.emit(e) }

// Subscribe is what [Desktop.Subscribe] is.
func (l *EventLog) Subscribe(after uint64) *Subscription { return l.log.subscribe(after) }

// Close emits [EventClosed] and ends every subscription once it has read it.
func (l *EventLog) Close() { l.log.close() }

// Pictures makes screenshots of a screen that is captured in another way, with
// the same formats, observations and numbers of changes. Its methods may be
// called from any goroutine.
type Pictures struct {
	epoch   string
	encoder picture.Encoder

	mu    sync.Mutex // guards what follows
	frame *picture.Image
}

// NewPictures begins the pictures of one screen.
func NewPictures() *Pictures { return &Pictures{epoch: rand.Text()} }

// bandHeight is how many rows get a number of their last change together.
const bandHeight = 16

// Show tells what the screen shows now. It returns the number of the last
// change, which is the same as before when nothing has changed.
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

// number gives a frame and its bands the numbers of their last changes.
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

// Take makes a picture of what the screen showed last. The crosshair, when shot
// asks for it or for the pointer's image, is drawn at pointer. Settling is the
// caller's affair.
func (p *Pictures) Take(ctx context.Context, shot Shot, pointer Point) (*Screenshot, error) {
	shot, err := shot.withDefaults()
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	frame := p.frame
	p.mu.Unlock()
	if frame == nil {
		return nil, fmt.Errorf("screenshot: nothing was captured: %w", ErrRestarting)
	}
	region, err := shot.region(frame.Width, frame.Height)
	if err != nil {
		return nil, err
	}
	opts, look := shot.options(region)
	if shot.Cursor != CursorNone {
		opts.Cross = &image.Point{X: pointer.X, Y: pointer.Y}
		look += fmt.Sprintf("-cross-%d-%d", pointer.X, pointer.Y)
	}
	w, h := picture.Size(opts.Region, shot.Scale)
	damage := damageOf(&x11.Frame{Seq: frame.Seq, Bands: frame.Bands, BandHeight: frame.BandHeight}, region)
	m := mark{epoch: p.epoch, damage: damage, region: region, size: Size{w, h}, look: look}
	pic := &Screenshot{
		Observation: Observation{ID: m.String(), Size: m.size, Region: region, Scale: shot.Scale, Damage: frame.Seq},
		Format:      shot.Format, Settled: true,
	}
	if shot.IfChangedSince == pic.ID {
		pic.Unchanged = true
		return pic, nil
	}
	pic.Data, err = p.encoder.Encode(ctx, frame, opts)
	return pic, err
}

// OnScreen maps a point from the picture that an observation names, if any, to
// a screen of that size. What is beyond the screen's edge is on the edge.
func (p *Pictures) OnScreen(at Point, observation string, screen Size) (Point, error) {
	if err := checkPoint(at); err != nil {
		return at, err
	}
	at, err := mapped(at, observation, p.epoch)
	return Point{min(at.X, screen.Width-1), min(at.Y, screen.Height-1)}, err
}
