package httpapi

import (
	"context"
	"net/http"
	"strconv"

	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/httpapi/internal/rest"
)

type mousePosition struct {
	X      int    `json:"x"`
	Y      int    `json:"y"`
	Screen int    `json:"screen" doc:"X screen number"`
	Window string `json:"window,omitempty" doc:"Id of the top-level window below the pointer"`
}

type mouseOutput struct{ Body mousePosition }

func positionOf(p desktop.Pointer, err error) (*mouseOutput, error) {
	if err != nil {
		return nil, err
	}
	out := &mouseOutput{Body: mousePosition{X: p.X, Y: p.Y, Screen: p.Screen}}
	if p.Window != 0 {
		out.Body.Window = windowID(p.Window)
	}
	return out, nil
}

func windowID(id desktop.WindowID) string { return strconv.FormatUint(uint64(id), 10) }

func textOf(p *string) string {
	if p == nil {
		return ""
	}
	return *p
}

func buttonOf(p *string) desktop.Button {
	if p == nil {
		return desktop.ButtonLeft
	}
	return desktop.Button(*p)
}

// The bodies repeat their common members: huma does not see those of embedded
// types whose names are not exported.

type moveBody struct {
	X           int32    `json:"x"`
	Y           int32    `json:"y"`
	Modifiers   []string `json:"modifiers,omitempty" nullable:"false" doc:"Keys held meanwhile: ctrl, shift, alt, super"`
	Observation *string  `json:"observation,omitempty" doc:"Id of a screenshot: coordinates are then in that picture"`
}

type clickBody struct {
	X           int32    `json:"x"`
	Y           int32    `json:"y"`
	ClickCount  *uint32  `json:"clickCount,omitempty" doc:"1 when left out, at most 100"`
	Button      *string  `json:"button,omitempty" enum:"left,middle,right,back,forward" doc:"left when left out"`
	Modifiers   []string `json:"modifiers,omitempty" nullable:"false" doc:"Keys held meanwhile: ctrl, shift, alt, super"`
	Observation *string  `json:"observation,omitempty" doc:"Id of a screenshot: coordinates are then in that picture"`
}

type buttonBody struct {
	X           *int32   `json:"x,omitempty" doc:"Where the pointer is, when x and y are left out"`
	Y           *int32   `json:"y,omitempty"`
	Button      *string  `json:"button,omitempty" enum:"left,middle,right,back,forward" doc:"left when left out"`
	Modifiers   []string `json:"modifiers,omitempty" nullable:"false" doc:"Keys held meanwhile: ctrl, shift, alt, super"`
	Observation *string  `json:"observation,omitempty" doc:"Id of a screenshot: coordinates are then in that picture"`
}

type dragBody struct {
	StartX      int32    `json:"startX"`
	StartY      int32    `json:"startY"`
	EndX        int32    `json:"endX"`
	EndY        int32    `json:"endY"`
	Button      *string  `json:"button,omitempty" enum:"left,middle,right,back,forward" doc:"left when left out"`
	Modifiers   []string `json:"modifiers,omitempty" nullable:"false" doc:"Keys held meanwhile: ctrl, shift, alt, super"`
	Observation *string  `json:"observation,omitempty" doc:"Id of a screenshot: coordinates are then in that picture"`
}

type scrollBody struct {
	X           int32    `json:"x"`
	Y           int32    `json:"y"`
	DeltaX      *int32   `json:"deltaX,omitempty" doc:"Clicks of the wheel; positive is right"`
	DeltaY      *int32   `json:"deltaY,omitempty" doc:"Clicks of the wheel; positive is down"`
	Modifiers   []string `json:"modifiers,omitempty" nullable:"false" doc:"Keys held meanwhile: ctrl, shift, alt, super"`
	Observation *string  `json:"observation,omitempty" doc:"Id of a screenshot: coordinates are then in that picture"`
}

func (s *Server) registerMouse() {
	r := rest.Route{Method: http.MethodPost, Tag: "Mouse", Other: rest.InputFailed, Errors: []int{http.StatusBadGateway}}
	read := r
	read.ID, read.Method, read.Path, read.Summary = "getMousePosition", http.MethodGet, "/mouse/position", "Tell where the pointer is"
	on(s, read, nil, func(ctx context.Context, d Desktop, _ *struct{}) (*mouseOutput, error) {
		return positionOf(d.Pointer(ctx))
	})
	r.ID, r.Path, r.Summary = "moveMouse", "/mouse/move", "Move the pointer"
	on(s, r, func(in *rest.Input[moveBody]) error { return inside("x", in.Body.X, "y", in.Body.Y) },
		func(ctx context.Context, d Desktop, in *rest.Input[moveBody]) (*mouseOutput, error) {
			b := &in.Body
			return positionOf(d.Move(ctx, desktop.Move{At: at(b.X, b.Y), Modifiers: b.Modifiers, Observation: textOf(b.Observation)}))
		})
	r.ID, r.Path, r.Summary = "clickMouse", "/mouse/click", "Move the pointer and click"
	on(s, r, func(in *rest.Input[clickBody]) error { return in.Body.check() },
		func(ctx context.Context, d Desktop, in *rest.Input[clickBody]) (*mouseOutput, error) {
			return positionOf(d.Click(ctx, in.Body.click()))
		})
	r.ID, r.Path, r.Summary = "pressMouseButton", "/mouse/down", "Press a button and hold it"
	on(s, r, func(in *rest.Input[buttonBody]) error { return in.Body.check() },
		func(ctx context.Context, d Desktop, in *rest.Input[buttonBody]) (*mouseOutput, error) {
			return positionOf(d.ButtonDown(ctx, in.Body.press()))
		})
	r.ID, r.Path, r.Summary = "releaseMouseButton", "/mouse/up", "Release a button"
	on(s, r, func(in *rest.Input[buttonBody]) error { return in.Body.check() },
		func(ctx context.Context, d Desktop, in *rest.Input[buttonBody]) (*mouseOutput, error) {
			return positionOf(d.ButtonUp(ctx, in.Body.press()))
		})
	s.registerGestures(r)
}

func (s *Server) registerGestures(r rest.Route) {
	r.ID, r.Path, r.Summary = "dragMouse", "/mouse/drag", "Move with a button held"
	on(s, r, func(in *rest.Input[dragBody]) error { return in.Body.check() },
		func(ctx context.Context, d Desktop, in *rest.Input[dragBody]) (*mouseOutput, error) {
			b := &in.Body
			return positionOf(d.Drag(ctx, desktop.Drag{
				Path: []desktop.Point{at(b.StartX, b.StartY), at(b.EndX, b.EndY)}, Button: buttonOf(b.Button),
				Modifiers: b.Modifiers, Observation: textOf(b.Observation),
			}))
		})
	r.ID, r.Path, r.Summary = "scrollMouse", "/mouse/scroll", "Turn the wheel"
	on(s, r, func(in *rest.Input[scrollBody]) error { return in.Body.check() },
		func(ctx context.Context, d Desktop, in *rest.Input[scrollBody]) (*mouseOutput, error) {
			b := &in.Body
			p := at(b.X, b.Y)
			return positionOf(d.Scroll(ctx, desktop.Scroll{
				At: &p, DX: intOf(b.DeltaX), DY: intOf(b.DeltaY), Modifiers: b.Modifiers, Observation: textOf(b.Observation),
			}))
		})
}

func at(x, y int32) desktop.Point { return desktop.Point{X: int(x), Y: int(y)} }

func intOf(p *int32) int {
	if p == nil {
		return 0
	}
	return int(*p)
}

// inside refuses coordinates that no screen has; those beyond its other edges
// mean the edge.
func inside(nameX string, x int32, nameY string, y int32) error {
	switch {
	case x < 0:
		return rest.InvalidArgument(nameX, "Desktop coordinates must be non-negative")
	case y < 0:
		return rest.InvalidArgument(nameY, "Desktop coordinates must be non-negative")
	}
	return nil
}

func (b *clickBody) check() error {
	if b.ClickCount != nil && *b.ClickCount == 0 {
		return rest.InvalidArgument("clickCount", "clickCount must be greater than 0")
	}
	if b.ClickCount != nil && *b.ClickCount > 100 {
		return rest.InvalidArgument("clickCount", "clickCount must be at most 100")
	}
	return inside("x", b.X, "y", b.Y)
}

func (b *clickBody) click() desktop.Click {
	p := at(b.X, b.Y)
	c := desktop.Click{At: &p, Button: buttonOf(b.Button), Count: 1, Modifiers: b.Modifiers, Observation: textOf(b.Observation)}
	if b.ClickCount != nil {
		c.Count = int(*b.ClickCount)
	}
	return c
}

func (b *buttonBody) check() error {
	switch {
	case b.X == nil && b.Y == nil:
		return nil
	case b.X == nil:
		return rest.InvalidArgument("x", "x and y must both be provided when setting coordinates")
	case b.Y == nil:
		return rest.InvalidArgument("y", "x and y must both be provided when setting coordinates")
	}
	return inside("x", *b.X, "y", *b.Y)
}

func (b *buttonBody) press() desktop.ButtonPress {
	p := desktop.ButtonPress{Button: buttonOf(b.Button), Modifiers: b.Modifiers, Observation: textOf(b.Observation)}
	if b.X != nil {
		to := at(*b.X, *b.Y)
		p.At = &to
	}
	return p
}

func (b *dragBody) check() error {
	if err := inside("startX", b.StartX, "startY", b.StartY); err != nil {
		return err
	}
	return inside("endX", b.EndX, "endY", b.EndY)
}

func (b *scrollBody) check() error {
	if intOf(b.DeltaX) == 0 && intOf(b.DeltaY) == 0 {
		return rest.InvalidArgument("deltaY", "deltaX or deltaY must be non-zero")
	}
	return inside("x", b.X, "y", b.Y)
}
