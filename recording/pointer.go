package recording

import (
	"context"
	"image"
	"sync"
	"time"

	"github.com/deskhand/deskhand/desktop"
)

const (
	// lookOften and lookSeldom are how often it is asked where the pointer is,
	// while things happen and while nothing does. The X server does not tell.
	lookSeldom = 250 * time.Millisecond
	busyFor    = time.Second

	pointerLimit = 2 * time.Second
)

// pointer knows what the pointer looks like and where it is.
type pointer struct {
	d       Desktop
	moved   chan struct{} // holds one when something changed
	busy    chan struct{} // holds one when something happens on the desktop
	working sync.WaitGroup

	mu    sync.Mutex // guards what follows
	image desktop.CursorImage
	at    desktop.Point
	known bool
}

// followPointer follows the pointer until ctx ends.
func followPointer(ctx context.Context, d Desktop, often time.Duration) *pointer {
	p := &pointer{d: d, moved: make(chan struct{}, 1), busy: make(chan struct{}, 1)}
	p.working.Go(func() { _ = d.FollowCursor(ctx, p.look) })
	p.working.Go(func() { p.poll(ctx, often) })
	return p
}

func (p *pointer) look(c desktop.CursorImage) {
	p.mu.Lock()
	p.image = c
	p.mu.Unlock()
	poke(p.moved)
}

// poke puts a value into a channel that holds one.
func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// poll asks where the pointer is: often while the screen changes, the pointer
// moves or somebody acts.
func (p *pointer) poll(ctx context.Context, often time.Duration) {
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
			busy = time.Now().Add(busyFor)
		case <-p.busy:
			busy = time.Now().Add(busyFor)
		case <-t.C:
			if p.ask(ctx) {
				busy = time.Now().Add(busyFor)
			}
		}
		pause := lookSeldom
		if time.Now().Before(busy) {
			pause = often
		}
		t.Reset(pause)
	}
}

// ask asks where the pointer is and tells whether it moved.
func (p *pointer) ask(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, pointerLimit)
	defer cancel()
	now, err := p.d.Pointer(ctx)
	if err != nil {
		return false // there will be another X server
	}
	p.mu.Lock()
	moved := !p.known || p.at != now.Point
	p.at, p.known = now.Point, true
	p.mu.Unlock()
	if moved {
		poke(p.moved)
	}
	return moved
}

// draw draws the pointer into planes, which are a copy of the canvas's.
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

// smaller scales a pointer.
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

// blend lays a picture with transparency over planes, its corner at x, y. The
// conversion to luma and chroma is linear, so it may come after the blending or,
// as here, before.
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
