package vp8screen

import (
	"fmt"
	"image"
	"io"
	"iter"
	"math"
	"math/rand/v2"
	"os/exec"
	"testing"
)

// clip is one kind of screen content. start draws its first picture on a canvas of any size.
// Each call of next draws the next picture and returns the rectangles that have changed.
type clip struct {
	name  string
	start func(tb testing.TB, c *canvas) (next func() []image.Rectangle)
}

// corpus is the content for comparisons of the encoder. It is the same in every run, except for
// the pictures of Chromium and ffmpeg, which depend on their versions.
var corpus = []clip{
	{"terminal", startTerminal},
	{"browser", startBrowser},
	{"two regions", startTwoRegions},
	{"drag", startDrag},
	{"typing", startTyping},
	{"photo pan", startPhoto},
	{"video", startVideo},
	{"animation", startAnimation},
	{"random", startRandom},
}

// play yields the clip's first pictures at a size. It reuses the canvas.
func (k clip) play(tb testing.TB, width, height, frames int) iter.Seq2[*canvas, []image.Rectangle] {
	return func(yield func(*canvas, []image.Rectangle) bool) {
		c := newCanvas(width, height)
		desktopBackground(c)
		next := k.start(tb, c)
		damage := []image.Rectangle{c.bounds()}
		for range frames {
			if !yield(c, damage) {
				return
			}
			damage = next()
		}
	}
}

// inset returns the part of r between fractions of its size.
func inset(r image.Rectangle, x0, y0, x1, y1 float64) image.Rectangle {
	w, h := float64(r.Dx()), float64(r.Dy())
	return image.Rect(int(x0*w), int(y0*h), int(x1*w), int(y1*h)).Add(r.Min)
}

func desktopBackground(c *canvas) {
	for y := range c.height {
		for x := range c.width {
			c.set(x, y, rgb(0x20+x*0x30/c.width)<<16|rgb(0x30+y*0x40/c.height)<<8|0x60)
		}
	}
	bar := inset(c.bounds(), 0, 0, 1, 0)
	bar.Max.Y = 22
	c.fill(bar, 0x2b2b2b)
	c.text(sans(), 8, 2, "Applications   Places   System", 0xe0e0e0, bar)
}

// window draws a frame with a title and returns its inside.
func window(c *canvas, r image.Rectangle, name string, background rgb) image.Rectangle {
	c.fill(r, 0x3c3f41)
	c.text(sans(), r.Min.X+8, r.Min.Y+1, name, 0xffffff, r)
	inside := image.Rect(r.Min.X+2, r.Min.Y+22, r.Max.X-2, r.Max.Y-2).Intersect(c.bounds())
	c.fill(inside, background)
	return inside
}

// terminalLine writes one line of output. A part of the lines are empty or equal.
func terminalLine(c *canvas, rnd *rand.Rand, clip image.Rectangle, y int) {
	colours := [...]rgb{0xd0d0d0, 0xd0d0d0, 0xd0d0d0, 0x8ae234, 0x729fcf, 0xef2929}
	columns := clip.Dx() / mono().glyphs['x'].advance
	switch n := rnd.IntN(10); {
	case n == 0:
	case n == 1:
		c.text(mono(), clip.Min.X, y, "$ make test", 0xffffff, clip)
	default:
		c.text(mono(), clip.Min.X, y, sentence(rnd, rnd.IntN(max(1, columns))), colours[rnd.IntN(len(colours))], clip)
	}
}

// scrollTerminal returns a function that prints lines on a terminal. The last line is a status
// that does not scroll.
func scrollTerminal(c *canvas, rnd *rand.Rand, r image.Rectangle, lines int) func() []image.Rectangle {
	line := mono().line
	inside := window(c, r, "user@host: ~/src", 0x1c1c1c)
	n := 0
	status := func() image.Rectangle {
		s := image.Rect(inside.Min.X, inside.Max.Y-line, inside.Max.X, inside.Max.Y)
		c.fill(s, 0x2f4f7f)
		c.text(mono(), s.Min.X, s.Min.Y, fmt.Sprintf("-- line %d --", n), 0xffffff, s)
		return s
	}
	body := inside
	body.Max.Y -= line + (inside.Dy() % line)
	for y := body.Min.Y; y < body.Max.Y; y += line {
		terminalLine(c, rnd, body, y)
	}
	status()
	return func() []image.Rectangle {
		n += lines
		c.move(body, 0, -lines*line)
		fresh := body
		fresh.Min.Y = max(body.Min.Y, body.Max.Y-lines*line)
		c.fill(fresh, 0x1c1c1c)
		for y := fresh.Min.Y; y < fresh.Max.Y; y += line {
			terminalLine(c, rnd, body, y)
		}
		return []image.Rectangle{body, status()}
	}
}

func startTerminal(_ testing.TB, c *canvas) func() []image.Rectangle {
	return scrollTerminal(c, rand.New(rand.NewPCG(11, 0)), inset(c.bounds(), .08, .1, .72, .9), 2)
}

// startTwoRegions scrolls a terminal and a page side by side.
func startTwoRegions(_ testing.TB, c *canvas) func() []image.Rectangle {
	left := scrollTerminal(c, rand.New(rand.NewPCG(14, 0)), inset(c.bounds(), .02, .1, .45, .9), 1)
	right := scrollPage(c, inset(c.bounds(), .5, .08, .98, .95))
	return func() []image.Rectangle { return append(left(), right()...) }
}

// startDrag drags a window with text over the desktop.
func startDrag(_ testing.TB, c *canvas) func() []image.Rectangle {
	rnd := rand.New(rand.NewPCG(15, 0))
	behind := newCanvas(c.width, c.height)
	behind.blit(c.bounds(), c, image.Point{})
	size := inset(c.bounds(), 0, 0, .4, .45).Max
	win := newCanvas(size.X, size.Y)
	inside := window(win, win.bounds(), "Editor", 0xfafafa)
	for y := inside.Min.Y; y < inside.Max.Y; y += sans().line {
		win.text(sans(), inside.Min.X+4, y, sentence(rnd, rnd.IntN(max(1, size.X/8))), 0x202020, inside)
	}
	at, n := image.Pt(c.width/10, c.height/10), 0
	c.blit(win.bounds().Add(at), win, image.Point{})
	return func() []image.Rectangle {
		old := win.bounds().Add(at)
		n++
		at = image.Pt(c.width/10+int(float64(c.width)*.22*(1-math.Cos(float64(n)/14))), c.height/10+int(float64(c.height)*.2*(1-math.Cos(float64(n)/9))))
		c.blit(old, behind, old.Min)
		now := win.bounds().Add(at)
		c.blit(now, win, image.Point{})
		return []image.Rectangle{old, now}
	}
}

// startTyping types text into an editor with a blinking cursor.
func startTyping(_ testing.TB, c *canvas) func() []image.Rectangle {
	rnd := rand.New(rand.NewPCG(16, 0))
	inside := window(c, inset(c.bounds(), .15, .1, .85, .9), "main.go", 0x1e1f22)
	line, advance := mono().line, mono().glyphs['x'].advance
	for y := inside.Min.Y; y < inside.Max.Y-line; y += line {
		terminalLine(c, rnd, inside, y)
	}
	at, text := image.Pt(inside.Min.X, inside.Min.Y+inside.Dy()/2/line*line), ""
	n := 0
	return func() []image.Rectangle {
		n++
		if n%3 != 0 {
			return nil
		}
		if text == "" || at.X+2*advance > inside.Max.X {
			text = sentence(rnd, 60)
			at = image.Pt(inside.Min.X, at.Y+line)
			if at.Y+line > inside.Max.Y {
				at.Y = inside.Min.Y
			}
			c.fill(image.Rect(inside.Min.X, at.Y, inside.Max.X, at.Y+line).Intersect(inside), 0x1e1f22)
			return []image.Rectangle{image.Rect(inside.Min.X, at.Y, inside.Max.X, at.Y+line)}
		}
		cell := image.Rect(at.X, at.Y, at.X+2*advance, at.Y+line)
		c.fill(cell.Intersect(inside), 0x1e1f22)
		c.text(mono(), at.X, at.Y, text[:1], 0xbcbec4, inside)
		c.fill(image.Rect(at.X+advance, at.Y, at.X+advance+2, at.Y+line).Intersect(inside), 0xffffff)
		at.X, text = at.X+advance, text[1:]
		return []image.Rectangle{cell}
	}
}

// startPhoto pans over a photograph.
func startPhoto(_ testing.TB, c *canvas) func() []image.Rectangle {
	inside := window(c, inset(c.bounds(), .1, .1, .8, .9), "Photos", 0)
	picture := photo(17, inside.Dx()+200, inside.Dy()+150)
	n := 0
	draw := func() []image.Rectangle {
		t := float64(n) / 20
		c.blit(inside, picture, image.Pt(100+int(99*math.Sin(t*1.3)), 75+int(74*math.Sin(t))))
		n++
		return []image.Rectangle{inside}
	}
	draw()
	return draw
}

// startVideo shows ffmpeg's test picture.
func startVideo(tb testing.TB, c *canvas) func() []image.Rectangle {
	inside := window(c, inset(c.bounds(), .15, .15, .82, .82), "Video", 0)
	film := newCanvas(max(16, inside.Dx()&^1), max(16, inside.Dy()&^1))
	cmd := exec.CommandContext(tb.Context(), "ffmpeg", "-v", "error", "-f", "lavfi", "-i", fmt.Sprintf("testsrc2=size=%dx%d:rate=30", film.width, film.height),
		"-pix_fmt", "bgr0", "-f", "rawvideo", "-")
	out, err := cmd.StdoutPipe()
	if err != nil {
		tb.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		_ = out.Close() // ffmpeg ends without a reader
		_ = cmd.Wait()
	})
	r := image.Rect(0, 0, film.width, film.height).Add(inside.Min)
	draw := func() []image.Rectangle {
		if _, err := io.ReadFull(out, film.pix); err != nil {
			tb.Fatalf("ffmpeg: %v", err)
		}
		c.blit(r, film, image.Point{})
		return []image.Rectangle{r}
	}
	draw()
	return draw
}

// startAnimation turns a spinner, fills a progress bar and moves smooth discs.
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

// startRandom changes rectangles at random places: to noise, to a colour, to text, to pixels of
// another place, or by single pixels.
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
