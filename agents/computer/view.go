package computer

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/desktop/activity"
)

const jpegQuality = 80

// outcome is the result of an action.
type outcome struct {
	text    string
	picture *desktop.Screenshot // nil: none
	content mcp.Content         // additional content, or nil
	acted   bool                // the result gets a new screenshot
	failed  bool                // a list of actions ended at an action that failed
}

// result returns an outcome as a tool result. After an action it takes a screenshot.
func (s *Server) result(ctx context.Context, done outcome, in *input) (*mcp.CallToolResult, error) {
	text := done.text
	if done.picture == nil && done.acted && (in.Screenshot == nil || *in.Screenshot) {
		screenshot, err := s.takeScreenshot(ctx, usualSettle, usualTimeout)
		if err != nil {
			// The action has had its effect. After an error the model would repeat it.
			text += " It was done, but no screenshot could be taken: " + explain(err)
		} else {
			done.picture = screenshot
			text += " " + describe(screenshot)
		}
	}
	r := &mcp.CallToolResult{IsError: done.failed, Content: []mcp.Content{&mcp.TextContent{Text: text}}}
	if done.content != nil {
		r.Content = append(r.Content, done.content)
	}
	if done.picture != nil {
		r.Content = append(r.Content, &mcp.ImageContent{Data: done.picture.Data, MIMEType: "image/" + string(done.picture.Format)})
	}
	return r, nil
}

// withMeanwhile adds what others did while the actor of the call did not have control.
func (s *Server) withMeanwhile(ctx context.Context, r *mcp.CallToolResult) *mcp.CallToolResult {
	d, ok := s.desk.(activity.Desktop)
	if !ok || r == nil {
		return r
	}
	deeds := s.cfg.Activity.Meanwhile(d, desktop.ActorFrom(ctx))
	if len(deeds) == 0 {
		return r
	}
	if of, err := s.view(ctx); err == nil {
		deeds = activity.Map(deeds, of.FromScreen)
	}
	var text strings.Builder
	text.WriteString("While you did not have control")
	for i, d := range deeds {
		text.WriteString(map[bool]string{true: ": ", false: "; "}[i == 0] + d.String())
	}
	r.Content = append(r.Content, &mcp.TextContent{Text: text.String() + "."})
	return r
}

// describe returns a screenshot's description for the model.
func describe(screenshot *desktop.Screenshot) string {
	text := fmt.Sprintf("The screenshot is %dx%d pixels.", screenshot.Size.Width, screenshot.Size.Height)
	if !screenshot.Settled.Quiet {
		text += " The screen was still changing when it was taken."
	}
	var moving []string
	for _, r := range screenshot.Animating() {
		moving = append(moving, fmt.Sprintf("[%d, %d, %d, %d]", r.X, r.Y, r.X+r.Width-1, r.Y+r.Height-1))
	}
	if len(moving) > 0 {
		text += " Only an animation went on, in " + strings.Join(moving, " and ") + "."
	}
	return text
}

// scale returns the factor that brings a picture below the limits.
func (s *seat) scale(size desktop.Size) float64 {
	w, h := float64(size.Width), float64(size.Height)
	k := min(1, float64(s.cfg.MaxEdge)/max(w, h), math.Sqrt(float64(s.cfg.MaxPixels)/(w*h)))
	return max(k, 0.1) // the desktop's minimum
}

func (s *seat) pictureSize() desktop.Size {
	size := s.desk.Status().Size
	k := s.scale(size)
	return desktop.Size{Width: int(math.Round(float64(size.Width) * k)), Height: int(math.Round(float64(size.Height) * k))}
}

// The waits of a screenshot for a screen that does not change.
const (
	usualSettle  = 200 * time.Millisecond
	usualTimeout = 2 * time.Second
)

// takeScreenshot takes a picture of the whole screen after the screen has not changed for
// settle, or after timeout. Later coordinates are in pixels of this picture.
func (s *seat) takeScreenshot(ctx context.Context, settle, timeout time.Duration) (*desktop.Screenshot, error) {
	pic, err := s.encode(ctx, desktop.ScreenshotOptions{
		Cursor: desktop.CursorPointer, Scale: s.scale(s.desk.Status().Size), Settle: settle, SettleTimeout: timeout,
	})
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	by := desktop.ActorFrom(ctx)
	s.seen = slices.DeleteFunc(s.seen, func(seen sight) bool { return seen.by.Same(by) })
	if len(s.seen) == maxSights {
		s.seen = slices.Delete(s.seen, 0, 1)
	}
	s.seen = append(s.seen, sight{by, pic.Observation})
	return pic, nil
}

// encode takes a picture as PNG, or as JPEG if the PNG is larger than MaxBytes.
func (s *seat) encode(ctx context.Context, o desktop.ScreenshotOptions) (*desktop.Screenshot, error) {
	settled := desktop.Settled{Quiet: true}
	if s.cfg.MaxBytes > 0 {
		o.Format = desktop.PNG
		pic, err := s.desk.Screenshot(ctx, o)
		if err != nil || len(pic.Data) <= s.cfg.MaxBytes {
			return pic, err
		}
		settled = pic.Settled
		o.Settle, o.SettleTimeout = 0, 0
	}
	o.Format, o.Quality = desktop.JPEG, jpegQuality
	pic, err := s.desk.Screenshot(ctx, o)
	if err != nil {
		return nil, err
	}
	first := *pic
	first.Settled = settled
	return &first, nil
}

// view returns the observation that the actor's coordinates are in. If the actor got no picture
// yet, view takes one.
func (s *seat) view(ctx context.Context) (desktop.Observation, error) {
	by := desktop.ActorFrom(ctx)
	s.mu.Lock()
	i := slices.IndexFunc(s.seen, func(seen sight) bool { return seen.by.Same(by) })
	if i >= 0 {
		defer s.mu.Unlock()
		return s.seen[i].observation, nil
	}
	s.mu.Unlock()
	pic, err := s.takeScreenshot(ctx, 0, 0)
	if err != nil {
		return desktop.Observation{}, err
	}
	return pic.Observation, nil
}

// locate checks that a position is in a picture, and converts it.
func locate(field string, p pair, in desktop.Observation) (desktop.Point, error) {
	x, y, err := p.pixels(field)
	if err != nil {
		return desktop.Point{}, err
	}
	if x < 0 || y < 0 || x >= in.Size.Width || y >= in.Size.Height {
		return desktop.Point{}, badf("%s: [%d, %d] is outside of the screenshot, which is %dx%d pixels; x must be from 0 to %d and y from 0 to %d",
			field, x, y, in.Size.Width, in.Size.Height, in.Size.Width-1, in.Size.Height-1)
	}
	return desktop.Point{X: x, Y: y}, nil
}

func (s *seat) screenshot(ctx context.Context, _ *input) (outcome, error) {
	screenshot, err := s.takeScreenshot(ctx, usualSettle, usualTimeout)
	if err != nil {
		return outcome{}, err
	}
	return outcome{text: describe(screenshot), picture: screenshot}, nil
}

// zoom shows a part of the screen at full resolution.
func (s *seat) zoom(ctx context.Context, in *input) (outcome, error) {
	if in.Region == nil {
		return outcome{}, badf("region: is missing; give [x0, y0, x1, y1] in pixels of the screenshot")
	}
	of, err := s.view(ctx)
	if err != nil {
		return outcome{}, err
	}
	var edges [4]int
	for i, v := range in.Region {
		if edges[i], err = pixel("region", v); err != nil {
			return outcome{}, err
		}
	}
	x0, y0, x1, y1 := edges[0], edges[1], edges[2], edges[3]
	if x0 < 0 || y0 < 0 || x1 <= x0 || y1 <= y0 || x1 > of.Size.Width || y1 > of.Size.Height {
		return outcome{}, badf("region: [%d, %d, %d, %d] must be [x0, y0, x1, y1] with x0 < x1 and y0 < y1, within the screenshot, which is %dx%d pixels",
			x0, y0, x1, y1, of.Size.Width, of.Size.Height)
	}
	// All pixels of the screen that the region overlaps.
	part := desktop.Rect{X: of.Region.X + x0*of.Region.Width/of.Size.Width, Y: of.Region.Y + y0*of.Region.Height/of.Size.Height}
	part.Width = of.Region.X + (x1*of.Region.Width+of.Size.Width-1)/of.Size.Width - part.X
	part.Height = of.Region.Y + (y1*of.Region.Height+of.Size.Height-1)/of.Size.Height - part.Y
	pic, err := s.encode(ctx, desktop.ScreenshotOptions{Region: &part, Cursor: desktop.CursorPointer, Scale: s.scale(desktop.Size{Width: part.Width, Height: part.Height})})
	if err != nil {
		return outcome{}, err
	}
	text := fmt.Sprintf("This is [%d, %d, %d, %d] of the screenshot in %dx%d pixels. Coordinates are still in the whole screenshot.",
		x0, y0, x1, y1, pic.Size.Width, pic.Size.Height)
	return outcome{text: text, picture: pic}, nil
}
