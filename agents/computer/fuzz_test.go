package computer

import (
	"context"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/deskhand/deskhand/desktop"
)

// checker is a desktop that checks that all positions are on its screen, and does nothing.
type checker struct {
	t    *testing.T
	size desktop.Size // of its screenshots
}

func (c *checker) check(p *desktop.Point, observation string) (desktop.Pointer, error) {
	if p == nil {
		return desktop.Pointer{}, nil
	}
	if p.X < 0 || p.Y < 0 || p.X >= c.size.Width || p.Y >= c.size.Height || observation == "" {
		c.t.Errorf("%+v of %+v, in %q", p, c.size, observation)
	}
	return desktop.Pointer{Point: *p}, nil
}

func (c *checker) Status() desktop.Status {
	return desktop.Status{State: desktop.StateActive, Size: desktop.Size{Width: 1920, Height: 1080}}
}

func (c *checker) Screenshot(_ context.Context, s desktop.ScreenshotOptions) (*desktop.Screenshot, error) {
	whole := desktop.Rect{Width: 1920, Height: 1080}
	if s.Region != nil {
		if r := *s.Region; r.X < 0 || r.Y < 0 || r.Width < 1 || r.Height < 1 || r.X+r.Width > 1920 || r.Y+r.Height > 1080 {
			c.t.Errorf("region %+v", r)
		}
		whole = *s.Region
	}
	return &desktop.Screenshot{Observation: desktop.Observation{ID: "obs_1", Size: c.size, Region: whole, Scale: s.Scale}, Format: s.Format}, nil
}

func (c *checker) Pointer(context.Context) (desktop.Pointer, error) { return desktop.Pointer{}, nil }

func (c *checker) Move(_ context.Context, m desktop.Move) (desktop.Pointer, error) {
	return c.check(&m.At, m.Observation)
}

func (c *checker) Click(_ context.Context, m desktop.Click) (desktop.Pointer, error) {
	if m.Count < 1 || m.Count > 100 {
		c.t.Errorf("%+v", m)
	}
	return c.check(m.At, m.Observation)
}

func (c *checker) ButtonDown(_ context.Context, m desktop.ButtonPress) (desktop.Pointer, error) {
	return c.check(m.At, m.Observation)
}

func (c *checker) ButtonUp(_ context.Context, m desktop.ButtonPress) (desktop.Pointer, error) {
	return c.check(m.At, m.Observation)
}

func (c *checker) Drag(_ context.Context, d desktop.Drag) (desktop.Pointer, error) {
	if len(d.Path) < 2 {
		c.t.Errorf("%+v", d)
	}
	for _, p := range d.Path {
		if _, err := c.check(&p, d.Observation); err != nil {
			return desktop.Pointer{}, err
		}
	}
	return desktop.Pointer{}, nil
}

func (c *checker) Scroll(_ context.Context, s desktop.Scroll) (desktop.Pointer, error) {
	if s.DX == 0 && s.DY == 0 || max(s.DX, -s.DX, s.DY, -s.DY) > 1000 {
		c.t.Errorf("%+v", s)
	}
	return c.check(s.At, s.Observation)
}

func (c *checker) Type(context.Context, desktop.Type) error          { return nil }
func (c *checker) Press(context.Context, desktop.Press) error        { return nil }
func (c *checker) KeyDown(context.Context, string) error             { return nil }
func (c *checker) KeyUp(context.Context, string) error               { return nil }
func (c *checker) Open(context.Context, string) (desktop.App, error) { return desktop.App{}, nil }

func (c *checker) Clipboard(context.Context, desktop.Selection, string) (desktop.Content, error) {
	return desktop.Content{}, desktop.ErrNoClipboardContent
}

func (c *checker) SetClipboard(context.Context, desktop.Content, ...desktop.Selection) error {
	return nil
}

func (c *checker) Windows(context.Context, desktop.WindowFilter) ([]desktop.Window, error) {
	return []desktop.Window{{ID: 7, Title: "seven", Bounds: desktop.Rect{X: -5, Y: 2000, Width: 10, Height: 10}}}, nil
}

func (c *checker) FocusWindow(context.Context, desktop.WindowID) (desktop.Window, error) {
	return desktop.Window{}, desktop.ErrWindowNotFound
}

func (c *checker) MoveWindow(_ context.Context, _ desktop.WindowID, p desktop.Point) (desktop.Window, error) {
	if p.X < 0 || p.Y < 0 || p.X >= 1920 || p.Y >= 1080 {
		c.t.Errorf("%+v", p)
	}
	return desktop.Window{}, nil
}

func (c *checker) ResizeWindow(context.Context, desktop.WindowID, desktop.Size) (desktop.Window, error) {
	return desktop.Window{}, nil
}

func (c *checker) CloseWindow(context.Context, desktop.WindowID) error { return nil }

func (c *checker) MinimiseWindow(context.Context, desktop.WindowID) (desktop.Window, error) {
	return desktop.Window{}, nil
}

func (c *checker) MaximiseWindow(context.Context, desktop.WindowID, bool) (desktop.Window, error) {
	return desktop.Window{}, nil
}

func (c *checker) Launch(context.Context, desktop.Launch) (desktop.App, error) {
	return desktop.App{PID: 1}, desktop.ErrTimeout
}

// FuzzArguments calls every tool with any arguments. No call may panic, use a position
// outside of the screen, or fail without a text.
func FuzzArguments(f *testing.F) {
	for _, s := range []string{
		`{}`, `null`, `[]`, `7`, `{`, `{"coordinate":[1,2]}`, `{"coordinate":[1427,802],"text":"ctrl+shift","count":3}`, `{"coordinate":[1e300,-0]}`,
		`{"action":"click","x":1,"y":2,"button":"wheel"}`, `{"actions":[{"type":"drag","path":[{"x":1,"y":2},[3,4]]},{"action":"wait","duration":0}]}`,
		`{"scroll_direction":"down","scroll_amount":5}`, `{"scroll_x":-3,"scroll_y":1e9}`, `{"region":[0,0,1427,803]}`, `{"region":[5,5,6,6]}`,
		`{"action":"move","window":7,"coordinate":[5,5]}`, `{"action":"resize","window":"0x7","width":5,"height":6}`, `{"text":"a b ctrl+c","duration":0.0}`,
		`{"keys":["CTRL","A"],"screenshot":false}`, `{"kind":"image"}`, `{"app":"x","args":["y"],"wait":true}`, `{"target":"http://x"}`, `{"keys":" ","key":"a"}`,
	} {
		for i := range len(tools) {
			f.Add(uint8(i), s)
		}
	}
	f.Fuzz(func(t *testing.T, index uint8, arguments string) {
		s, err := NewServer(&checker{t, desktop.Size{Width: 1428, Height: 803}}, Config{})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond) // so that nothing waits
		defer cancel()
		call := &mcp.CallToolRequest{Params: &mcp.CallToolParamsRaw{Arguments: []byte(arguments)}}
		r, err := s.called(tools[int(index)%len(tools)].name)(ctx, call)
		if err != nil {
			t.Fatal(err)
		}
		text, ok := r.Content[0].(*mcp.TextContent)
		if !ok || text.Text == "" && tools[int(index)%len(tools)].name != "clipboard_get" {
			t.Errorf("%+v", r)
		}
	})
}
