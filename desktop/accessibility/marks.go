package accessibility

import (
	"image"
	"image/color"
	"image/draw"
	"slices"
	"strings"

	"golang.org/x/image/font"
	"golang.org/x/image/font/basicfont"
	"golang.org/x/image/math/fixed"
)

// markColors are the colours of marks. Neighbours in an outline get different ones.
var markColors = []color.RGBA{
	{0xc6, 0x28, 0x28, 0xff}, {0x15, 0x65, 0xc0, 0xff}, {0x2e, 0x7d, 0x32, 0xff}, {0x6a, 0x1b, 0x9a, 0xff}, {0xad, 0x54, 0x00, 0xff}, {0x00, 0x69, 0x5c, 0xff},
}

// Mark draws the boxes of elements on a picture, with the numbers of their references: 12 for
// @e12. Elements of which others are a part get no box. The boxes must be in the coordinates of
// the picture; see Query.Picture. No number covers another one as long as there is room beside
// the boxes.
func Mark(picture draw.Image, elements []Element) {
	var labels []label
	for i := range elements {
		e := &elements[i]
		if e.Box == nil || len(e.Children) > 0 {
			continue
		}
		ink := image.NewUniform(markColors[i%len(markColors)])
		box := rectangle(*e.Box)
		frame(picture, box, ink)
		text := strings.TrimPrefix(e.Ref, "@e")
		labels = append(labels, label{text, ink, place(labels, box, text, picture.Bounds())})
	}
	for _, l := range labels { // above all boxes
		l.draw(picture)
	}
}

// label is the number of a box.
type label struct {
	text string
	ink  image.Image
	area image.Rectangle
}

var labelFace = basicfont.Face7x13

// place returns where in a picture the label of a box is: the first of several places beside
// the corners of the box that has no label.
func place(labels []label, box image.Rectangle, text string, within image.Rectangle) image.Rectangle {
	size := image.Pt(labelFace.Advance*len(text)+2, labelFace.Ascent+labelFace.Descent-2)
	var first image.Rectangle
	for i, at := range []image.Point{
		{box.Min.X, box.Min.Y - size.Y},
		{box.Min.X, box.Max.Y},
		{box.Max.X, box.Min.Y},
		{box.Min.X - size.X, box.Min.Y},
		box.Min,
		{box.Max.X - size.X, box.Max.Y - size.Y},
	} {
		at.X = max(min(at.X, within.Max.X-size.X), within.Min.X)
		at.Y = max(min(at.Y, within.Max.Y-size.Y), within.Min.Y)
		area := image.Rectangle{Min: at, Max: at.Add(size)}
		if !slices.ContainsFunc(labels, func(l label) bool { return l.area.Overlaps(area) }) {
			return area
		}
		if i == 0 {
			first = area
		}
	}
	return first
}

func (l label) draw(picture draw.Image) {
	draw.Draw(picture, l.area, l.ink, image.Point{}, draw.Src)
	text := font.Drawer{Dst: picture, Src: image.White, Face: labelFace, Dot: fixed.P(l.area.Min.X+1, l.area.Min.Y+labelFace.Ascent-1)}
	text.DrawString(l.text)
}

// frame draws the edges of a box.
func frame(picture draw.Image, box image.Rectangle, ink image.Image) {
	const width = 2
	for _, edge := range []image.Rectangle{
		{box.Min, image.Pt(box.Max.X, box.Min.Y+width)},
		{image.Pt(box.Min.X, box.Max.Y-width), box.Max},
		{box.Min, image.Pt(box.Min.X+width, box.Max.Y)},
		{image.Pt(box.Max.X-width, box.Min.Y), box.Max},
	} {
		draw.Draw(picture, edge.Intersect(box), ink, image.Point{}, draw.Src)
	}
}
