package vp8screen

import (
	"image"
	"image/color"
	"image/draw"
	"math"
	"math/rand/v2"
	"strings"
	"sync"

	"golang.org/x/image/font"
	"golang.org/x/image/font/gofont/gomono"
	"golang.org/x/image/font/gofont/goregular"
	"golang.org/x/image/font/opentype"
	"golang.org/x/image/math/fixed"
)

// canvas is a picture in BGRX that tests draw on.
type canvas struct {
	pix                   []byte
	width, height, stride int
}

func newCanvas(width, height int) *canvas {
	width, height = max(0, width), max(0, height)
	return &canvas{pix: make([]byte, 4*width*height), width: width, height: height, stride: 4 * width}
}

func (c *canvas) bounds() image.Rectangle { return image.Rect(0, 0, c.width, c.height) }

// rgb is a colour, 0xrrggbb, which is BGRX in little endian.
type rgb uint32

func (c *canvas) set(x, y int, p rgb) {
	i := y*c.stride + 4*x
	c.pix[i], c.pix[i+1], c.pix[i+2] = byte(p), byte(p>>8), byte(p>>16)
}

// blend mixes a colour into a pixel.
func (c *canvas) blend(x, y int, p rgb, alpha int) {
	i := y*c.stride + 4*x
	for n := range 3 {
		old := int(c.pix[i+n])
		c.pix[i+n] = byte(old + (int(p>>(8*n)&255)-old)*alpha/255)
	}
}

func (c *canvas) fill(r image.Rectangle, p rgb) {
	r = r.Intersect(c.bounds())
	for y := r.Min.Y; y < r.Max.Y; y++ {
		for x := r.Min.X; x < r.Max.X; x++ {
			c.set(x, y, p)
		}
	}
}

// blit copies the rectangle at p of another canvas to r.
func (c *canvas) blit(r image.Rectangle, from *canvas, p image.Point) {
	p = p.Sub(r.Min)
	r = r.Intersect(c.bounds()).Intersect(from.bounds().Sub(p))
	for y := r.Min.Y; y < r.Max.Y; y++ {
		copy(c.pix[y*c.stride+4*r.Min.X:y*c.stride+4*r.Max.X], from.pix[(y+p.Y)*from.stride+4*(r.Min.X+p.X):])
	}
}

// move scrolls the pixels in r.
func (c *canvas) move(r image.Rectangle, dx, dy int) {
	old := newCanvas(r.Dx(), r.Dy())
	old.blit(old.bounds(), c, r.Min)
	to := r.Add(image.Pt(dx, dy)).Intersect(r)
	c.blit(to, old, to.Min.Sub(image.Pt(dx, dy)).Sub(r.Min))
}

// frame converts the whole canvas.
func (c *canvas) frame() *Frame {
	f := NewFrame(c.width, c.height)
	f.SetBGRX(c.pix, c.stride, f.Bounds(), nil)
	return f
}

// typeface is a font with smoothed glyphs, at one size.
type typeface struct {
	line, ascent int
	glyphs       [128]struct {
		mask    *image.Alpha
		advance int
	}
}

var (
	mono  = sync.OnceValue(func() *typeface { return newTypeface(gomono.TTF, 13) })
	sans  = sync.OnceValue(func() *typeface { return newTypeface(goregular.TTF, 15) })
	title = sync.OnceValue(func() *typeface { return newTypeface(goregular.TTF, 27) })
)

func newTypeface(ttf []byte, size float64) *typeface {
	parsed, err := opentype.Parse(ttf)
	if err != nil {
		panic(err)
	}
	face, err := opentype.NewFace(parsed, &opentype.FaceOptions{Size: size, DPI: 72, Hinting: font.HintingFull})
	if err != nil {
		panic(err)
	}
	m := face.Metrics()
	t := &typeface{line: m.Height.Ceil(), ascent: m.Ascent.Ceil()}
	for r := rune(' '); r < 127; r++ {
		advance, _ := face.GlyphAdvance(r)
		g := &t.glyphs[r]
		g.advance = advance.Round()
		g.mask = image.NewAlpha(image.Rect(-2, 0, g.advance+2, t.line))
		d := font.Drawer{Dst: g.mask, Src: image.NewUniform(color.Alpha{255}), Face: face, Dot: fixed.P(0, t.ascent)}
		d.DrawString(string(r))
	}
	return t
}

// text writes a line whose top left is at x, y, and returns where it ends.
// Nothing is drawn outside of clip.
func (c *canvas) text(t *typeface, x, y int, s string, p rgb, clip image.Rectangle) int {
	clip = clip.Intersect(c.bounds())
	for _, r := range s {
		g := &t.glyphs[r]
		b := g.mask.Rect.Add(image.Pt(x, y)).Intersect(clip)
		for py := b.Min.Y; py < b.Max.Y; py++ {
			for px := b.Min.X; px < b.Max.X; px++ {
				if a := g.mask.AlphaAt(px-x, py-y).A; a != 0 {
					c.blend(px, py, p, int(a))
				}
			}
		}
		x += g.advance
	}
	return x
}

var words = strings.Fields(`the of and to in is that for it as was with be by on not he this are or his
	from at which but have an had they you were their one all we can her has there been if more when will
	would who so no out up into than time only about other could some these two may then do first any like
	error: warning: build/main.go:117: func return package import struct GET /v1/desktop HTTP/1.1 200 OK
	[INFO] [DEBUG] 2026-11-21T12:00:00Z 0x7ffd31c0 drwxr-xr-x 4096 libvpx.so.7 --verbose -Wall {} (); => != ...`)

// sentence returns random words, about as long as asked for.
func sentence(rnd *rand.Rand, length int) string {
	var b strings.Builder
	for b.Len() < length {
		b.WriteString(words[rnd.IntN(len(words))])
		b.WriteByte(' ')
	}
	return b.String()
}

// photo returns a picture that resembles a photograph: smooth shapes with texture and colour
// gradients.
func photo(seed uint64, width, height int) *canvas {
	rnd := rand.New(rand.NewPCG(seed, 1))
	var lattice [3][64][64]float64
	for ch := range lattice {
		for y := range lattice[ch] {
			for x := range lattice[ch][y] {
				lattice[ch][y][x] = rnd.Float64()
			}
		}
	}
	// at returns value noise: a lattice with smooth steps in between.
	at := func(ch int, x, y float64) float64 {
		xi, yi := int(x), int(y)
		fx, fy := x-float64(xi), y-float64(yi)
		fx, fy = fx*fx*(3-2*fx), fy*fy*(3-2*fy)
		l := &lattice[ch]
		top := l[yi&63][xi&63]*(1-fx) + l[yi&63][(xi+1)&63]*fx
		bottom := l[(yi+1)&63][xi&63]*(1-fx) + l[(yi+1)&63][(xi+1)&63]*fx
		return top*(1-fy) + bottom*fy
	}
	c := newCanvas(width, height)
	for y := range height {
		for x := range width {
			detail := 0.
			for n, scale := 0, 1./40; n < 4; n, scale = n+1, scale*2.3 {
				detail += at(0, float64(x)*scale, float64(y)*scale) * math.Pow(.55, float64(n))
			}
			detail += (rnd.Float64() - .5) * .04
			var p rgb
			for ch := range 3 {
				v := .45*detail + .4*at(ch, float64(x)/170, float64(y)/170) - .15
				p = p<<8 | rgb(255*max(0, min(1, v)))
			}
			c.set(x, y, p)
		}
	}
	return c
}

// fromImage copies a decoded picture.
func fromImage(m image.Image) *canvas {
	b := m.Bounds()
	rgba := image.NewRGBA(image.Rect(0, 0, b.Dx(), b.Dy()))
	draw.Draw(rgba, rgba.Rect, m, b.Min, draw.Src)
	c := newCanvas(b.Dx(), b.Dy())
	for i := 0; i < len(c.pix); i += 4 {
		c.pix[i], c.pix[i+1], c.pix[i+2] = rgba.Pix[i+2], rgba.Pix[i+1], rgba.Pix[i]
	}
	return c
}

// textCanvas draws a window full of text on the desktop, and returns the window's rectangle.
func textCanvas(seed uint64, width, height int) (*canvas, image.Rectangle) {
	c := newCanvas(width, height)
	desktopBackground(c)
	rnd := rand.New(rand.NewPCG(seed, 2))
	r := window(c, inset(c.bounds(), .11, .13, .83, .87), "text", 0xffffff)
	for y := r.Min.Y; y < r.Max.Y; y += mono().line {
		terminalLine(c, rnd, r, y)
	}
	return c, r
}

func cloneCanvas(c *canvas) *canvas {
	d := newCanvas(c.width, c.height)
	copy(d.pix, c.pix)
	return d
}
