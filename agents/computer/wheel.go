package computer

import (
	"cmp"
	"context"
	"math"
	"strings"

	"github.com/deskhand/deskhand/desktop"
)

// OpenAI's and Gemini's models give the distance of a scroll in pixels. How far a click of the
// wheel scrolls depends on the program, as measured on X11.
const (
	pixelsPerClick = 53 // of most programs
	mostPixels     = 1000 * pixelsPerClick
)

// wheelPixels are the pixels for a click of other programs, by the first letters of their
// classes in lower case.
var wheelPixels = map[string]float64{"chromium": 120, "google-chrome": 120, "brave": 120, "microsoft-edge": 120, "vivaldi": 120}

// clicksOf returns the clicks of the wheel for the distance of an input in the program at a
// point, or under the pointer.
func (s *seat) clicksOf(ctx context.Context, in *input, at *desktop.Point, observation string) (dx, dy int, err error) {
	for field, pixels := range map[string]*float64{"scroll_x": in.ScrollX, "scroll_y": in.ScrollY} {
		if pixels != nil && !(math.Abs(*pixels) <= mostPixels) { // also NaN
			return 0, 0, badf("%s: must be between -%d and %d pixels, and is %v", field, mostPixels, mostPixels, *pixels)
		}
	}
	each, err := s.wheelStep(ctx, at, observation)
	return wheel(in.ScrollX, each), wheel(in.ScrollY, each), err
}

// wheel converts pixels to clicks of the wheel, at least one.
func wheel(pixels *float64, each float64) int {
	switch {
	case pixels == nil || *pixels == 0:
		return 0
	case math.Abs(*pixels) < each:
		return int(math.Copysign(1, *pixels))
	}
	return int(*pixels / each)
}

// wheelStep returns how far a click of the wheel scrolls the program at a point. If there is
// one of wheelPixels, it moves the pointer there, as the scroll does.
func (s *seat) wheelStep(ctx context.Context, at *desktop.Point, observation string) (pixels float64, err error) {
	windows, err := s.desk.Windows(ctx, desktop.WindowFilter{})
	if err != nil {
		return 0, err
	}
	steps := map[desktop.WindowID]float64{}
	for _, w := range windows {
		for class, step := range wheelPixels {
			if strings.HasPrefix(strings.ToLower(w.Class), class) {
				steps[w.ID] = step
			}
		}
	}
	if len(steps) == 0 {
		return pixelsPerClick, nil
	}
	var p desktop.Pointer
	if at == nil {
		p, err = s.desk.Pointer(ctx)
	} else {
		p, err = s.desk.Move(ctx, desktop.Move{At: *at, Observation: observation})
	}
	return cmp.Or(steps[p.Window], pixelsPerClick), err
}
