package accessibility_test

import (
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"strings"
	"testing"

	"golang.org/x/image/font"
	"golang.org/x/image/font/basicfont"
	"golang.org/x/image/math/fixed"

	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/desktop/accessibility"
)

// TestMark draws a frame around a box, and draws outside of the picture without harm.
func TestMark(t *testing.T) {
	t.Parallel()
	picture := image.NewRGBA(image.Rect(0, 0, 100, 80))
	box := func(x, y, w, h int) *desktop.Rect { return &desktop.Rect{X: x, Y: y, Width: w, Height: h} }
	accessibility.Mark(picture, []accessibility.Element{
		{Ref: "@e7", Box: box(20, 30, 40, 20)},
		{Ref: "@e8", Box: box(10, 20, 70, 50), Children: []string{"@e7"}},
		{Ref: "@e9"},
		{Ref: "@e123456", Box: box(90, 70, 1<<20, 1<<20)},
		{Ref: "@e10", Box: box(-50, -50, 10, 10)},
	})
	blank := color.RGBA{}
	for p, marked := range map[image.Point]bool{
		{20, 40}: true, {59, 49}: true, {40, 40}: false, {10, 60}: false, {22, 20}: true, {95, 71}: true,
	} {
		if got := picture.RGBAAt(p.X, p.Y); (got != blank) != marked {
			t.Errorf("pixel %v is %v, marked should be %v", p, got, marked)
		}
	}
}

// TestMarkReadable reads the numbers of marks, in pictures of tool bars that are
// scaled down.
func TestMarkReadable(t *testing.T) {
	t.Parallel()
	for _, scale := range []float64{1, 0.8, 0.6} {
		region := desktop.Rect{X: 100, Y: 50, Width: 1200, Height: 800}
		o := desktop.Observation{Region: region, Size: desktop.Size{Width: int(1200 * scale), Height: int(800 * scale)}, Scale: scale}
		var elements []accessibility.Element
		for row := range 6 {
			for column := range 8 {
				onScreen := desktop.Rect{X: 150 + 30*column, Y: 100 + 60*row, Width: 26, Height: 26}
				box := o.RectFromScreen(onScreen)
				elements = append(elements, accessibility.Element{Ref: fmt.Sprintf("@e%d", 100+len(elements)), Box: &box})
			}
		}
		picture := image.NewRGBA(image.Rect(0, 0, o.Size.Width, o.Size.Height))
		draw.Draw(picture, picture.Bounds(), image.White, image.Point{}, draw.Src)
		accessibility.Mark(picture, elements)
		for _, e := range elements {
			if !marked(picture, e) {
				t.Errorf("scale %g: %s at %+v is not marked", scale, e.Ref, *e.Box)
			}
		}
	}
}

// marked reports whether the number of an element is to be read in a picture, in its box or
// beside it.
func marked(picture *image.RGBA, e accessibility.Element) bool {
	text := strings.TrimPrefix(e.Ref, "@e")
	face := basicfont.Face7x13
	glyphs := image.NewAlpha(image.Rect(0, 0, face.Advance*len(text), face.Height))
	(&font.Drawer{Dst: glyphs, Src: image.Opaque, Face: face, Dot: fixed.P(0, face.Ascent)}).DrawString(text)
	near := image.Rect(e.Box.X-30, e.Box.Y-15, e.Box.X+e.Box.Width+3, e.Box.Y+e.Box.Height+3)
	white := color.RGBA{0xff, 0xff, 0xff, 0xff}
	reads := func(at image.Point) bool {
		for y := 2; y < face.Height-1; y++ {
			for x := range glyphs.Rect.Dx() {
				got := picture.RGBAAt(at.X+x, at.Y+y)
				if (glyphs.AlphaAt(x, y).A > 0) != (got == white) || got == (color.RGBA{}) {
					return false
				}
			}
		}
		return true
	}
	for y := near.Min.Y; y < near.Max.Y; y++ {
		for x := near.Min.X; x < near.Max.X; x++ {
			if reads(image.Pt(x, y)) {
				return true
			}
		}
	}
	return false
}
