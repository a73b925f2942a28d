package picture

import (
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"math/rand/v2"

	"golang.org/x/image/font"
	"golang.org/x/image/font/basicfont"
	"golang.org/x/image/math/fixed"
)

// screen is a frame that tests draw on, with a clock for its bands.
type screen struct {
	pix           []byte
	width, height int
	stride        int
	seq           uint64
	bands         []uint64
	bandHeight    int
}

func newScreen(width, height, bandHeight int) *screen {
	s := &screen{width: width, height: height, stride: 4*width + 12, seq: 1, bandHeight: bandHeight}
	s.pix = make([]byte, s.stride*height)
	s.bands = make([]uint64, (height+bandHeight-1)/bandHeight)
	s.touch(0, height)
	return s
}

// touch says that rows changed in the current frame.
func (s *screen) touch(y0, y1 int) {
	for b := y0 / s.bandHeight; b*s.bandHeight < y1; b++ {
		s.bands[b] = s.seq
	}
}

// frame returns a copy of the present screen.
func (s *screen) frame() *Image {
	return &Image{
		Pix: append([]byte(nil), s.pix...), Stride: s.stride, Width: s.width, Height: s.height,
		Seq: s.seq, Bands: append([]uint64(nil), s.bands...), BandHeight: s.bandHeight,
	}
}

// noise fills a rectangle with random pixels, in the next frame.
func (s *screen) noise(rnd *rand.Rand, r image.Rectangle) {
	s.seq++
	random := rand.NewChaCha8([32]byte{byte(rnd.Uint32()), byte(rnd.Uint32())})
	for y := r.Min.Y; y < r.Max.Y; y++ {
		_, _ = random.Read(s.pix[y*s.stride+4*r.Min.X:][:4*r.Dx()])
	}
	s.touch(r.Min.Y, r.Max.Y)
}

func (s *screen) set(x, y int, p uint32) {
	i := y*s.stride + 4*x
	s.pix[i], s.pix[i+1], s.pix[i+2], s.pix[i+3] = byte(p), byte(p>>8), byte(p>>16), byte(p>>24)
}

// terminals draws three terminals full of text, as an agent's desktop has
// them, in the next frame. Each seed gives another text.
func (s *screen) terminals(seed uint64) {
	s.seq++
	rnd := rand.New(rand.NewPCG(seed, 7))
	m := image.NewRGBA(image.Rect(0, 0, s.width, s.height))
	draw.Draw(m, m.Bounds(), image.NewUniform(color.RGBA{0x2e, 0x34, 0x40, 255}), image.Point{}, draw.Src)
	for n := range 3 {
		x, y := 20+n*s.width/4, 20+n*s.height/6
		terminal(m, rnd, image.Rect(x, y, x+s.width/2, y+s.height*3/5), n)
	}
	for y := range s.height {
		for x := range s.width {
			i := m.PixOffset(x, y)
			s.set(x, y, uint32(m.Pix[i+2])|uint32(m.Pix[i+1])<<8|uint32(m.Pix[i])<<16)
		}
	}
	s.touch(0, s.height)
}

func terminal(m *image.RGBA, rnd *rand.Rand, r image.Rectangle, n int) {
	back := []color.RGBA{{255, 255, 255, 255}, {0, 0, 0, 255}, {0xfd, 0xf6, 0xe3, 255}}[n]
	draw.Draw(m, r, image.NewUniform(color.RGBA{0x88, 0xc0, 0xd0, 255}), image.Point{}, draw.Src)
	inner := image.Rect(r.Min.X+2, r.Min.Y+20, r.Max.X-2, r.Max.Y-2)
	draw.Draw(m, inner, image.NewUniform(back), image.Point{}, draw.Src)
	inks := []color.RGBA{{0, 0x80, 0, 255}, {0x40, 0x40, 0xd0, 255}, {0xb0, 0x60, 0, 255}, {0x80, 0x80, 0x80, 255}}
	words := []string{"drwxr-xr-x", "root", "total", "Nov", "go", "test", "ok", "--", "main.go", "/usr/lib/x86_64-linux-gnu"}
	d := font.Drawer{Dst: m.SubImage(inner).(*image.RGBA), Face: basicfont.Face7x13}
	for y := inner.Min.Y + 13; y < inner.Max.Y; y += 13 {
		d.Dot = fixed.P(inner.Min.X+4, y)
		for d.Dot.X.Ceil() < inner.Max.X-20 {
			d.Src = image.NewUniform(inks[rnd.IntN(len(inks))])
			if rnd.IntN(3) == 0 {
				d.DrawString(fmt.Sprint(rnd.Uint32(), " "))
			} else {
				d.DrawString(words[rnd.IntN(len(words))] + " ")
			}
			if rnd.IntN(14) == 0 {
				break
			}
		}
	}
}

// photo fills the screen with smooth colours and grain, in the next frame.
func (s *screen) photo(seed uint64) {
	s.seq++
	rnd := rand.New(rand.NewPCG(seed, 9))
	for y := range s.height {
		for x := range s.width {
			grain := rnd.Uint32() & 0x070707
			s.set(x, y, uint32(x*200/s.width)|uint32(y*200/s.height)<<8|uint32((x+y)*100/(s.width+s.height))<<16+grain)
		}
	}
	s.touch(0, s.height)
}
