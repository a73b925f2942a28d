package desktops

import (
	"cmp"
	"context"
	"encoding/json"
	"math"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/deskhand/deskhand/agents/computer"
	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/httpapi/internal/rest"
)

type mousePosition struct {
	X      int    `json:"x"`
	Y      int    `json:"y"`
	Screen int    `json:"screen" doc:"X screen number"`
	Window string `json:"window,omitempty" doc:"Id of the top-level window under the pointer"`
}

func positionOf(p desktop.Pointer, err error) (*rest.Output[mousePosition], error) {
	return rest.Reply(mousePosition{X: p.X, Y: p.Y, Screen: p.Screen, Window: windowID(p.Window)}, err)
}

func buttonOf(p *string) desktop.Button {
	if p == nil {
		return desktop.ButtonLeft
	}
	return desktop.Button(*p)
}

// pixel is a coordinate. In JSON it may have a fraction, and is rounded to the nearest pixel.
type pixel int32

// Schema implements huma.SchemaProvider. It has the bounds of a pixel.
func (pixel) Schema(huma.Registry) *huma.Schema {
	low, high := float64(math.MinInt32), float64(math.MaxInt32)
	return &huma.Schema{Type: huma.TypeNumber, Minimum: &low, Maximum: &high}
}

// UnmarshalJSON implements json.Unmarshaler.
func (p *pixel) UnmarshalJSON(text []byte) error {
	var f float64
	if err := json.Unmarshal(text, &f); err != nil {
		return err
	}
	*p = pixel(math.Round(f))
	return nil
}

// The bodies repeat their common members: huma does not see the members of embedded
// types whose names are not exported.

type moveBody struct {
	X           pixel    `json:"x"`
	Y           pixel    `json:"y"`
	Modifiers   []string `json:"modifiers,omitempty" nullable:"false" doc:"Keys to hold during the action: ctrl, shift, alt, super"`
	Observation *string  `json:"observation,omitempty" doc:"Id of the screenshot that the coordinates refer to"`
}

type clickBody struct {
	X           pixel    `json:"x"`
	Y           pixel    `json:"y"`
	ClickCount  *uint32  `json:"clickCount,omitempty" doc:"Defaults to 1; at most 100"`
	Button      *string  `json:"button,omitempty" enum:"left,middle,right,back,forward" doc:"Defaults to left"`
	Modifiers   []string `json:"modifiers,omitempty" nullable:"false" doc:"Keys to hold during the action: ctrl, shift, alt, super"`
	Observation *string  `json:"observation,omitempty" doc:"Id of the screenshot that the coordinates refer to"`
}

type buttonBody struct {
	X           *pixel   `json:"x,omitempty" doc:"Defaults to the pointer's position; set both x and y or neither"`
	Y           *pixel   `json:"y,omitempty"`
	Button      *string  `json:"button,omitempty" enum:"left,middle,right,back,forward" doc:"Defaults to left"`
	Modifiers   []string `json:"modifiers,omitempty" nullable:"false" doc:"Keys to hold during the action: ctrl, shift, alt, super"`
	Observation *string  `json:"observation,omitempty" doc:"Id of the screenshot that the coordinates refer to"`
}

type dragBody struct {
	StartX      pixel    `json:"startX"`
	StartY      pixel    `json:"startY"`
	EndX        pixel    `json:"endX"`
	EndY        pixel    `json:"endY"`
	Button      *string  `json:"button,omitempty" enum:"left,middle,right,back,forward" doc:"Defaults to left"`
	Modifiers   []string `json:"modifiers,omitempty" nullable:"false" doc:"Keys to hold during the action: ctrl, shift, alt, super"`
	Observation *string  `json:"observation,omitempty" doc:"Id of the screenshot that the coordinates refer to"`
}

type scrollBody struct {
	X           pixel    `json:"x"`
	Y           pixel    `json:"y"`
	DeltaX      *int32   `json:"deltaX,omitempty" doc:"Wheel steps; positive is right"`
	DeltaY      *int32   `json:"deltaY,omitempty" doc:"Wheel steps; positive is down"`
	Modifiers   []string `json:"modifiers,omitempty" nullable:"false" doc:"Keys to hold during the action: ctrl, shift, alt, super"`
	Observation *string  `json:"observation,omitempty" doc:"Id of the screenshot that the coordinates refer to"`
}

func (a *Area) registerMouse() {
	r := rest.Route{Tag: "Mouse", Other: inputFailed, Errors: []int{http.StatusBadGateway}}
	act(a, r.Get("getMousePosition", "/mouse/position", "Get the position of the pointer"),
		func(ctx context.Context, in *target) (*rest.Output[mousePosition], error) {
			d, err := running[computer.Mouse](a, in.Desktop)
			if err != nil {
				return nil, err
			}
			return positionOf(d.Pointer(ctx))
		})
	point(a, r.Post("moveMouse", "/mouse/move", "Move the pointer"), (*moveBody).action, computer.Mouse.Move)
	point(a, r.Post("clickMouse", "/mouse/click", "Move the pointer and click"), (*clickBody).action, computer.Mouse.Click)
	point(a, r.Post("pressMouseButton", "/mouse/down", "Press a button and hold it"), (*buttonBody).action, computer.Mouse.ButtonDown)
	point(a, r.Post("releaseMouseButton", "/mouse/up", "Release a button"), (*buttonBody).action, computer.Mouse.ButtonUp)
	point(a, r.Post("dragMouse", "/mouse/drag", "Drag the pointer"), (*dragBody).action, computer.Mouse.Drag)
	point(a, r.Post("scrollMouse", "/mouse/scroll", "Scroll"), (*scrollBody).action, computer.Mouse.Scroll)
}

// point adds a route whose body decode makes an action of the pointer, which do performs.
func point[B, A any](a *Area, r rest.Route, decode func(*B) (A, error), do func(computer.Mouse, context.Context, A) (desktop.Pointer, error)) {
	act(a, r, func(ctx context.Context, in *input[B]) (*rest.Output[mousePosition], error) {
		action, bad := decode(&in.Body)
		d, err := running[computer.Mouse](a, in.Desktop, bad)
		if err != nil {
			return nil, err
		}
		return positionOf(do(d, ctx, action))
	})
}

func pointOf(x, y pixel) desktop.Point { return desktop.Point{X: int(x), Y: int(y)} }

// inside refuses coordinates that no screen has; those beyond its other edges
// mean the edge.
func inside(nameX string, x pixel, nameY string, y pixel) error {
	const sentence = "Desktop coordinates must be non-negative"
	return check([]argument{{x < 0, nameX, sentence}, {y < 0, nameY, sentence}})
}

func (b *moveBody) action() (desktop.Move, error) {
	return desktop.Move{At: pointOf(b.X, b.Y), Modifiers: b.Modifiers, Observation: rest.Value(b.Observation)}, inside("x", b.X, "y", b.Y)
}

func (b *clickBody) action() (desktop.Click, error) {
	at, count := pointOf(b.X, b.Y), 1
	if b.ClickCount != nil {
		count = int(*b.ClickCount)
	}
	c := desktop.Click{
		At: &at, Button: buttonOf(b.Button), Count: count, Modifiers: b.Modifiers, Observation: rest.Value(b.Observation),
	}
	return c, cmp.Or(check([]argument{
		{count == 0, "clickCount", "clickCount must be greater than 0"},
		{count > 100, "clickCount", "clickCount must be at most 100"},
	}), inside("x", b.X, "y", b.Y))
}

func (b *buttonBody) action() (desktop.ButtonPress, error) {
	p := desktop.ButtonPress{Button: buttonOf(b.Button), Modifiers: b.Modifiers, Observation: rest.Value(b.Observation)}
	if b.X == nil && b.Y == nil {
		return p, nil
	}
	const sentence = "x and y must both be provided when setting coordinates"
	x, y := rest.Value(b.X), rest.Value(b.Y)
	at := pointOf(x, y)
	p.At = &at
	return p, cmp.Or(check([]argument{{b.X == nil, "x", sentence}, {b.Y == nil, "y", sentence}}), inside("x", x, "y", y))
}

func (b *dragBody) action() (desktop.Drag, error) {
	return desktop.Drag{
		Path: []desktop.Point{pointOf(b.StartX, b.StartY), pointOf(b.EndX, b.EndY)}, Button: buttonOf(b.Button),
		Modifiers: b.Modifiers, Observation: rest.Value(b.Observation),
	}, cmp.Or(inside("startX", b.StartX, "startY", b.StartY), inside("endX", b.EndX, "endY", b.EndY))
}

func (b *scrollBody) action() (desktop.Scroll, error) {
	at, dx, dy := pointOf(b.X, b.Y), int(rest.Value(b.DeltaX)), int(rest.Value(b.DeltaY))
	return desktop.Scroll{At: &at, DX: dx, DY: dy, Modifiers: b.Modifiers, Observation: rest.Value(b.Observation)},
		cmp.Or(check([]argument{{b.DeltaX == nil && b.DeltaY == nil, "deltaY", "deltaX or deltaY must be given"}}), inside("x", b.X, "y", b.Y))
}
