package accessibility

import (
	"image"
	"math"
	"strconv"

	"github.com/deskhand/deskhand/desktop"
)

// rectangle returns a box as an image.Rectangle.
func rectangle(r desktop.Rect) image.Rectangle {
	return image.Rect(r.X, r.Y, r.X+r.Width, r.Y+r.Height)
}

// intersect returns the common part of two boxes.
func intersect(a, b desktop.Rect) image.Rectangle { return rectangle(a).Intersect(rectangle(b)) }

// formatValue returns a number as text, or "" if it is none.
func formatValue(f float64) string {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return ""
	}
	return strconv.FormatFloat(f, 'g', 10, 64)
}

// moved returns a box that is shifted. No box stays none.
func moved(r desktop.Rect, by image.Point) desktop.Rect {
	if r.Width > 0 {
		r.X, r.Y = r.X+by.X, r.Y+by.Y
	}
	return r
}

// windowOf returns the window of a program that an element at the top of its tree stands for, by
// title, size and place, or the zero Window.
func windowOf(top *node, windows []desktop.Window) desktop.Window {
	best, most := desktop.Window{}, 0
	for _, w := range windows {
		score := 0
		if w.Title != "" && w.Title == top.name {
			score += 4
		}
		if sameSize(top.box, w.Bounds) || sameSize(top.box, w.Frame) {
			score += 2
		}
		if !intersect(top.box, w.Frame).Empty() && !top.role.in(roleWindow, rolePopupMenu, roleMenu, roleToolTip) {
			score++
		}
		if score > most {
			best, most = w, score
		}
	}
	return best
}

// sameSize reports whether two boxes have almost the same size.
func sameSize(a, b desktop.Rect) bool {
	near := func(a, b int) bool { return a-b <= 2 && b-a <= 2 }
	return a.Width > 0 && near(a.Width, b.Width) && near(a.Height, b.Height)
}

// shiftOf returns how far the boxes of a window must move. Some programs report boxes that are
// relative to their window, or to where it was before.
func shiftOf(top *node, w desktop.Window) image.Point {
	if w.ID == 0 {
		return image.Point{}
	}
	for _, r := range []desktop.Rect{w.Bounds, w.Frame} {
		if sameSize(top.box, r) {
			return image.Pt(r.X-top.box.X, r.Y-top.box.Y)
		}
	}
	return image.Point{}
}
