package vp8screen

import (
	"image"
	"math"
	"math/rand/v2"
	"testing"
)

// startAnimation turns a spinner, fills a bar and moves smooth discs, as pages
// and dialogs do.
func startAnimation(_ testing.TB, c *canvas) func() []image.Rectangle {
	inside := window(c, inset(c.bounds(), .2, .2, .8, .8), "Loading", 0xf0f0f0)
	size := min(inside.Dx(), inside.Dy())
	bar := inset(inside, .1, .8, .9, .86)
	n := 0
	draw := func() []image.Rectangle {
		t := float64(n) / 30
		n++
		centre := image.Pt(inside.Min.X+inside.Dx()/2, inside.Min.Y+inside.Dy()*2/5)
		spinner := image.Rectangle{Min: centre, Max: centre}.Inset(-size / 3).Intersect(inside)
		c.fill(spinner, 0xf0f0f0)
		for i := range 8 {
			angle := 2 * math.Pi * (float64(i)/8 + t/2)
			c.disc(float64(centre.X)+.25*float64(size)*math.Cos(angle), float64(centre.Y)+.25*float64(size)*math.Sin(angle),
				float64(size)/30*(1+float64(i)/8), 0x1a73e8, 40+i*30)
		}
		done := bar
		done.Max.X = bar.Min.X + int(float64(bar.Dx())*math.Mod(t/4, 1))
		c.fill(bar, 0xd0d0d0)
		c.fill(done, 0x34a853)
		return []image.Rectangle{spinner, bar}
	}
	draw()
	return draw
}

// disc draws a filled circle with a smooth edge.
func (c *canvas) disc(x, y, radius float64, p rgb, alpha int) {
	r := image.Rect(int(x-radius)-1, int(y-radius)-1, int(x+radius)+2, int(y+radius)+2).Intersect(c.bounds())
	for py := r.Min.Y; py < r.Max.Y; py++ {
		for px := r.Min.X; px < r.Max.X; px++ {
			if inside := radius + .5 - math.Hypot(float64(px)-x, float64(py)-y); inside > 0 {
				c.blend(px, py, p, int(float64(alpha)*min(1, inside)))
			}
		}
	}
}

// startRandom changes rectangles anywhere: to noise, to a colour, to text, to
// what is somewhere else, or by single pixels.
func startRandom(_ testing.TB, c *canvas) func() []image.Rectangle {
	rnd := rand.New(rand.NewPCG(18, 0))
	pick := func() image.Rectangle {
		x, y := rnd.IntN(c.width), rnd.IntN(c.height)
		return image.Rect(x, y, x+1+rnd.IntN(1+c.width/4), y+1+rnd.IntN(1+c.height/4)).Intersect(c.bounds())
	}
	return func() []image.Rectangle {
		var damage []image.Rectangle
		for range rnd.IntN(6) {
			r := pick()
			damage = append(damage, r)
			switch rnd.IntN(5) {
			case 0:
				for y := r.Min.Y; y < r.Max.Y; y++ {
					for x := r.Min.X; x < r.Max.X; x++ {
						c.set(x, y, rgb(rnd.Uint32()&0xffffff))
					}
				}
			case 1:
				c.fill(r, rgb(rnd.Uint32()&0xffffff))
			case 2:
				c.fill(r, 0xffffff)
				for y := r.Min.Y; y < r.Max.Y; y += mono().line {
					c.text(mono(), r.Min.X, y, sentence(rnd, r.Dx()/7), 0, r)
				}
			case 3:
				old := newCanvas(r.Dx(), r.Dy())
				old.blit(old.bounds(), c, pick().Min)
				c.blit(r, old, image.Point{})
			default:
				c.set(r.Min.X, r.Min.Y, rgb(rnd.Uint32()&0xffffff))
			}
		}
		return damage
	}
}
