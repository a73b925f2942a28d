package recording

import (
	"context"
	"image"
	"sync"
	"time"

	"github.com/deskhand/deskhand/desktop"
)

const (
	// idleInterval is the time between two queries of the pointer's position while
	// nothing happens. The X server does not report movements.
	idleInterval = 250 * time.Millisecond

	// busyTime is how long queries are more frequent after something happened.
	busyTime = time.Second

	// pointerLimit bounds one query.
	pointerLimit = 2 * time.Second
)

// pointer has the image and the position of the pointer.
type pointer struct {
	d     Desktop
	moved chan struct{} // holds a value if image or position have changed
	busy  chan struct{} // holds a value if the screen has changed

	mu    sync.Mutex // guards the fields below
	image desktop.CursorImage
	at    desktop.Point
	known bool
}

// followPointer follows the pointer until ctx ends.
func followPointer(ctx context.Context, d Desktop, interval time.Duration, followers *sync.WaitGroup) *pointer {
	p := &pointer{d: d, moved: make(chan struct{}, 1), busy: make(chan struct{}, 1)}
	followers.Go(func() { _ = d.FollowCursor(ctx, p.setImage) })
	followers.Go(func() { p.poll(ctx, interval) })
	return p
}

func (p *pointer) setImage(c desktop.CursorImage) {
	p.mu.Lock()
	p.image = c
	p.mu.Unlock()
	signal(p.moved)
}

// signal puts a value into a channel that holds one.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// poll queries the position of the pointer, at short intervals while the screen changes,
// the pointer moves or there are actions.
func (p *pointer) poll(ctx context.Context, interval time.Duration) {
	sub := p.d.Subscribe(0)
	defer sub.Close()
	events := sub.Events()
	var busy time.Time
	t := time.NewTimer(0)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case e, ok := <-events:
			switch {
			case !ok:
				events = nil
				continue
			case e.Type != desktop.EventAction:
				continue
			}
			busy = time.Now().Add(busyTime)
		case <-p.busy:
			busy = time.Now().Add(busyTime)
		case <-t.C:
			if p.query(ctx) {
				busy = time.Now().Add(busyTime)
			}
		}
		pause := idleInterval
		if time.Now().Before(busy) {
			pause = interval
		}
		t.Reset(pause)
	}
}

// query queries the position of the pointer and reports whether it changed.
func (p *pointer) query(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, pointerLimit)
	defer cancel()
	now, err := p.d.Pointer(ctx)
	if err != nil {
		return false // the X server is being restarted
	}
	p.mu.Lock()
	moved := !p.known || p.at != now.Point
	p.at, p.known = now.Point, true
	p.mu.Unlock()
	if moved {
		signal(p.moved)
	}
	return moved
}

// draw draws the pointer on planes, which are a copy of the planes of the canvas.
func (p *pointer) draw(c *canvas, planes []byte) {
	p.mu.Lock()
	img, at, known := p.image, p.at, p.known
	p.mu.Unlock()
	if !known || img.Width <= 0 || img.Height <= 0 || len(img.Pix) < 4*img.Width*img.Height || !image.Pt(at.X, at.Y).In(c.src) {
		return
	}
	k := 1.0
	if c.shrink != nil {
		k = float64(c.dst.Dx()) / float64(c.src.Dx())
		img = smaller(img, k)
	}
	x := c.dst.Min.X + int(float64(at.X-c.src.Min.X)*k) - img.Hot.X
	y := c.dst.Min.Y + int(float64(at.Y-c.src.Min.Y)*k) - img.Hot.Y
	blend(c, planes, img, x, y)
}

func smaller(img desktop.CursorImage, k float64) desktop.CursorImage {
	size := image.Pt(scaled(img.Width, k), scaled(img.Height, k))
	s := newShrinker(image.Pt(img.Width, img.Height), size)
	out := desktop.CursorImage{
		Width: size.X, Height: size.Y, Pix: make([]byte, 0, 4*size.X*size.Y),
		Hot: desktop.Point{X: int(float64(img.Hot.X) * k), Y: int(float64(img.Hot.Y) * k)},
	}
	for y := range size.Y {
		row, _ := s.rows(img.Pix, 4*img.Width, y, y)
		out.Pix = append(out.Pix, row...)
	}
	return out
}

// blend draws an image with transparency on planes, with its corner at x, y. The conversion
// to luma and chroma is linear, so it may precede the blending.
func blend(c *canvas, planes []byte, img desktop.CursorImage, x, y int) {
	r := image.Rect(x, y, x+img.Width, y+img.Height).Intersect(c.dst)
	pixel := func(px, py int) (b, g, r, a int) {
		i := 4 * ((py-y)*img.Width + px - x)
		return int(img.Pix[i]), int(img.Pix[i+1]), int(img.Pix[i+2]), int(img.Pix[i+3])
	}
	for py := r.Min.Y; py < r.Max.Y; py++ {
		for px := r.Min.X; px < r.Max.X; px++ {
			b, g, red, a := pixel(px, py)
			if a == 0 {
				continue
			}
			at := &planes[py*c.width+px]
			// The factors of BT.601, times 2^16: see internal/i420.
			*at = clip((16829*red+33039*g+6416*b+(1<<15))>>16 + (16*a+int(*at)*(255-a)+127)/255)
		}
	}
	n := c.width * c.height
	for py := r.Min.Y &^ 1; py < r.Max.Y; py += 2 {
		for px := r.Min.X &^ 1; px < r.Max.X; px += 2 {
			var b, g, red, a int
			for _, q := range [4]image.Point{{px, py}, {px + 1, py}, {px, py + 1}, {px + 1, py + 1}} {
				if q.In(r) {
					qb, qg, qr, qa := pixel(q.X, q.Y)
					b, g, red, a = b+qb, g+qg, red+qr, a+qa
				}
			}
			if a == 0 {
				continue
			}
			at := n + py/2*(c.width/2) + px/2
			u, v := &planes[at], &planes[at+n/4]
			rest := 4*255 - a
			*u = clip((-9714*red-19070*g+28784*b+(1<<17))>>18 + (128*a+int(*u)*rest+510)/1020)
			*v = clip((28784*red-24103*g-4681*b+(1<<17))>>18 + (128*a+int(*v)*rest+510)/1020)
		}
	}
}

func clip(v int) byte { return byte(min(max(v, 0), 255)) }
