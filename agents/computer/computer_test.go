package computer_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"image"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/deskhand/deskhand/agents/computer"
	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/internal/testx11"
)

// corner finds the top left pink pixel.
func corner(t *testing.T, m image.Image) image.Point {
	t.Helper()
	b := m.Bounds()
	for y := b.Min.Y; y < b.Max.Y; y++ {
		for x := b.Min.X; x < b.Max.X; x++ {
			if r, g, b, _ := m.At(x, y).RGBA(); r > 0xc000 && g < 0x4000 && b > 0xc000 {
				return image.Pt(x, y)
			}
		}
	}
	t.Fatal("there is nothing pink")
	return image.Point{}
}

// TestCoordinates clicks at positions in pictures of screens of many sizes.
func TestCoordinates(t *testing.T) {
	t.Parallel()
	d := startDesktop(t, desktop.Config{})
	a := connect(t, d, computer.Config{})
	w := xterm(t, d, "sh", "-c", `printf '\033[?25l'; exec cat`) // without a cursor in the corner
	for _, size := range []desktop.Size{{Width: 800, Height: 600}, {Width: 1280, Height: 800}, {Width: 1440, Height: 900}, {Width: 1921, Height: 1081}, {Width: 3840, Height: 2160}} {
		if err := d.Resize(t.Context(), size); err != nil {
			t.Fatal(err)
		}
		place := desktop.Point{X: size.Width / 3, Y: size.Height / 5}
		if _, err := d.MoveWindow(t.Context(), w.ID, place); err != nil {
			t.Fatal(err)
		}
		var got answer
		var seen image.Point
		// The window's edge in the picture, as soon as the window is there.
		poll(t, func() error {
			got = a.must("screenshot", nil)
			seen = corner(t, got.image)
			k := float64(got.image.Bounds().Dx()) / float64(size.Width)
			if dx := float64(seen.X) - float64(place.X)*k; dx > 3 || dx < -3 {
				return fmt.Errorf("%v: the window is seen at %v, and is at %v", size, seen, place)
			}
			return nil
		})
		b := got.image.Bounds()
		if b.Dx() > 1568 || b.Dx()*b.Dy() > 1_150_000*101/100 || size.Width <= 1280 && b.Dx() != size.Width {
			t.Errorf("%v: the picture is %v", size, b)
		}
		wants(t, got, fmt.Sprintf("%dx%d pixels", b.Dx(), b.Dy()))
		a.must("click", args{"coordinate": []int{seen.X, seen.Y}, "screenshot": false})
		p := pointer(t, d)
		// A pixel of the picture is 1/k of the screen's, whose middle is hit.
		reach := size.Width/b.Dx() + 2
		if p.X < place.X-reach || p.X > place.X+reach || p.Y < place.Y-reach || p.Y > place.Y+reach {
			t.Errorf("%v: clicked at %v of the picture, which is %v, and the corner is at %v", size, seen, p, place)
		}
		where := a.call("cursor_position", nil)
		wants(t, where, fmt.Sprintf("[%d, %d]", seen.X, seen.Y))
		// The corner of a zoomed picture is at the position that the result names.
		near := args{"region": []int{max(seen.X-20, 0), max(seen.Y-20, 0), seen.X + 60, seen.Y + 40}}
		zoomed := a.must("zoom", near)
		if wide := zoomed.image.Bounds().Dx(); wide < 79*size.Width/b.Dx() {
			t.Errorf("%v: zoom shows %d pixels", size, wide)
		}
		in := corner(t, zoomed.image)
		if want := min(20, seen.X) * size.Width / b.Dx(); in.X < want-reach-1 || in.X > want+reach+1 {
			t.Errorf("%v: the corner is at %v of the zoomed picture, and should be at x = %d", size, in, want)
		}
		last := []int{b.Dx() - 1, b.Dy() - 1}
		a.must("move", args{"coordinate": last, "screenshot": false})
		if p := pointer(t, d); p.X < size.Width-reach || p.Y < size.Height-reach {
			t.Errorf("%v: the picture's last pixel is %v", size, p)
		}
		a.refuses("click", args{"coordinate": []int{b.Dx(), 5}}, fmt.Sprintf("which is %dx%d pixels", b.Dx(), b.Dy()))
		if again := pointer(t, d); again != p && again.X < size.Width-reach {
			t.Errorf("a refused click moved the pointer to %v", again)
		}
	}
}

// TestUse uses a terminal with every kind of action.
func TestUse(t *testing.T) {
	t.Parallel()
	d := startDesktop(t, desktop.Config{Size: desktop.Size{Width: 1024, Height: 768}})
	a := connect(t, d, computer.Config{})
	file := filepath.Join(t.TempDir(), "typed")
	w := xterm(t, d, "sh", "-c", "cat > "+file)
	typed := func(want string) {
		t.Helper()
		poll(t, func() error {
			b, err := os.ReadFile(file)
			if err == nil && string(b) != want {
				return fmt.Errorf("the terminal got %q instead of %q", b, want)
			}
			return err
		})
	}
	wants(t, a.must("left_click", args{"coordinate": []int{w.Bounds.X + 50, w.Bounds.Y + 50}}), "Clicked at")
	a.must("type", args{"text": "hello, wörld 漢\n"})
	typed("hello, wörld 漢\n")
	a.must("computer", args{"actions": []args{
		{"action": "type", "text": "one"},
		{"type": "keypress", "keys": []string{"Return"}},
		{"type": "type", "text": "two"},
		{"action": "key", "text": "BackSpace BackSpace o Return"},
	}})
	typed("hello, wörld 漢\none\nto\n")
	a.must("hold_key", args{"text": "x", "duration": 0.01, "screenshot": false})
	a.must("key", args{"text": "ctrl+u"})
	a.must("computer", args{"action": "type", "text": "end\n", "screenshot": false})
	typed("hello, wörld 漢\none\nto\nend\n")

	// Text selected by a drag is in the primary selection, by a click of the
	// middle button it is typed.
	a.must("triple_click", args{"coordinate": []int{w.Bounds.X + 30, w.Bounds.Y + 8}})
	content, err := d.Clipboard(t.Context(), desktop.Primary, "")
	if err != nil || !strings.HasPrefix(string(content.Data), "hello") {
		t.Errorf("%q %v", content.Data, err)
	}
	a.must("wait", args{"duration": 0.5}) // or xterm counts the press of the drag as a fourth click
	a.must("left_click_drag", args{"start_coordinate": []int{w.Bounds.X + 4, w.Bounds.Y + 8}, "coordinate": []int{w.Bounds.X + 40, w.Bounds.Y + 8}})
	poll(t, func() error {
		c, err := d.Clipboard(t.Context(), desktop.Primary, "")
		if s := string(c.Data); err != nil || s == "" || !strings.HasPrefix("hello, wörld", s) {
			return fmt.Errorf("dragging selected %q, %w", s, err)
		}
		return nil
	})
	for _, call := range []struct {
		tool string
		args args
	}{
		{"computer", args{"type": "drag", "path": []args{{"x": 300, "y": 300}, {"x": 310, "y": 310}, {"x": 320, "y": 300}}}},
		{"computer", args{"type": "click", "x": 500, "y": 600, "button": "wheel"}},
		{"computer", args{"type": "scroll", "x": 300, "y": 300, "scroll_x": 0, "scroll_y": -200}},
		{"scroll", args{"coordinate": []int{300, 300}, "scroll_direction": "down", "scroll_amount": 2}},
		{"scroll", args{"coordinate": "[300, 300]", "scroll_direction": "down", "scroll_amount": 0}},
		{"computer", args{"type": "scroll", "x": 300.5, "y": 300.2, "scroll_x": 0, "scroll_y": 0}},
		{"move", args{"coordinate": []float64{100.5, 50.2}}},
		{"computer", args{"type": "move", "x": 7, "y": 9}},
		{"left_mouse_down", args{"coordinate": []int{900, 700}}},
		{"left_mouse_up", args{}},
		{"click", args{"coordinate": []int{900, 700}, "modifiers": "ctrl+shift"}},
		{"right_click", args{"coordinate": []int{900, 700}, "text": "ctrl"}},
		{"key", args{"text": "Escape"}},
		{"wait", args{"duration": 0.01}},
		{"screenshot", nil},
	} {
		a.must(call.tool, call.args)
	}
	if p := pointer(t, d); p != (desktop.Point{X: 900, Y: 700}) {
		t.Error(p)
	}
	wants(t, a.call("cursor_position", nil), "[900, 700]")
}

func TestWindowsClipboardPrograms(t *testing.T) {
	t.Parallel()
	testx11.Require(t, "xterm")
	d := startDesktop(t, desktop.Config{Size: desktop.Size{Width: 1024, Height: 768}})
	a := connect(t, d, computer.Config{})
	wants(t, a.call("windows", nil), "There are no windows")
	wants(t, a.must("launch", args{"app": "xterm", "args": []string{"-T", "first", "-e", "cat"}}), "Its window is")
	wants(t, a.must("launch", args{"app": "true", "screenshot": false}), "ended with status 0")
	a.refuses("launch", args{"app": "no-such-program"}, "installed")
	var id int
	list := a.call("windows", args{"action": "list"})
	if _, err := fmt.Sscanf(list.text, "window %d:", &id); err != nil {
		t.Fatalf("%v in %q", err, list.text)
	}
	wants(t, list, `"first" (XTerm)`)
	wants(t, a.must("windows", args{"action": "move", "window": id, "coordinate": []int{200, 150}}), "[200, 150]")
	wants(t, a.must("windows", args{"action": "resize", "window": fmt.Sprint(id), "width": 400, "height": 300}), "from [200, 150]")
	wants(t, a.must("windows", args{"action": "maximise", "window": id}), "maximised")
	a.must("windows", args{"action": "restore", "window": id})
	wants(t, a.must("windows", args{"action": "minimize", "window": id}), "minimised")
	wants(t, a.must("computer", args{"action": "windows", "kind": "focus", "window": id}), "focused")
	a.refuses("windows", args{"action": "close", "window": 1}, "List the windows")
	a.must("windows", args{"action": "close", "window": id})
	poll(t, func() error {
		if got := a.call("windows", nil); !strings.Contains(got.text, "There are no windows") {
			return fmt.Errorf("%s", got.text)
		}
		return nil
	})

	a.refuses("clipboard_get", nil, "Copy something first")
	if got := a.call("clipboard_set", args{"text": "from the agent ü"}); got.failed {
		t.Error(got.text)
	}
	c, err := d.Clipboard(t.Context(), desktop.Clipboard, "")
	if err != nil || string(c.Data) != "from the agent ü" {
		t.Errorf("%q %v", c.Data, err)
	}
	if got := a.call("clipboard_get", nil); got.text != "from the agent ü" {
		t.Errorf("%q", got.text)
	}
	// Each of many actions returns a text.
	large := func(n int) {
		t.Helper()
		if err := d.SetClipboard(t.Context(), desktop.Content{Type: desktop.TypeText, Data: bytes.Repeat([]byte("x"), n)}); err != nil {
			t.Fatal(err)
		}
	}
	reads := slices.Repeat([]args{{"action": "clipboard_get"}}, 20)
	large(10 << 20)
	a.refuses("clipboard_get", nil, "the text on the clipboard has 10485760 bytes")
	a.refuses("computer", args{"actions": reads}, "action 1 of 20")
	large(100 << 10)
	a.refuses("computer", args{"actions": reads}, "action 11 of 20: the texts of all actions")
	shot, err := d.Screenshot(t.Context(), desktop.ScreenshotOptions{Region: &desktop.Rect{Width: 30, Height: 20}})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.SetClipboard(t.Context(), desktop.Content{Type: desktop.TypePNG, Data: shot.Data}); err != nil {
		t.Fatal(err)
	}
	if got := a.call("clipboard_get", args{"kind": "image"}); got.image == nil || got.image.Bounds().Dx() != 30 {
		t.Error(got.text)
	}
}

// TestActor checks which actor the desktop sees, and that an actor without control is refused.
func TestActor(t *testing.T) {
	t.Parallel()
	d := startDesktop(t, desktop.Config{})
	events := d.Subscribe(0)
	defer events.Close()
	moved := func(a *agent) desktop.Actor {
		t.Helper()
		a.must("move", args{"coordinate": []int{5, 5}, "screenshot": false})
		for e := range events.Events() {
			if e.Type == desktop.EventAction && e.Action.Name == "move" {
				return e.Action.Actor
			}
		}
		t.Fatal("no event")
		return desktop.Actor{}
	}
	over := func(cfg computer.Config, ctx context.Context) *agent {
		t.Helper()
		s, err := computer.NewServer(d, cfg)
		if err != nil {
			t.Fatal(err)
		}
		theirIn, in := io.Pipe()
		out, theirOut := io.Pipe()
		done := make(chan error, 1)
		go func() { done <- s.Run(ctx, theirIn, theirOut) }()
		t.Cleanup(func() {
			_ = in.Close()
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
		return connectTo(t, &mcp.IOTransport{Reader: out, Writer: in})
	}
	if got := moved(over(computer.Config{}, context.Background())); got.Kind != desktop.ActorAgent || got.Name != "tester" {
		t.Errorf("%+v", got)
	}
	// Without sessions the name comes with each call, from clients that send it.
	if got := moved(connect(t, d, computer.Config{})); got.Kind != desktop.ActorAgent || got.Name != "tester" {
		t.Errorf("over HTTP: %+v", got)
	}
	claude := desktop.Actor{Kind: desktop.ActorAgent, Name: "claude", ID: "ses_1"}
	if got := moved(over(computer.Config{Actor: claude}, context.Background())); got != claude {
		t.Errorf("%+v", got)
	}
	codex := desktop.Actor{Kind: desktop.ActorAgent, Name: "codex"}
	a := over(computer.Config{Actor: claude}, desktop.WithActor(context.Background(), codex))
	if got := moved(a); got != codex {
		t.Errorf("%+v", got)
	}
	if err := d.TakeControl(t.Context(), desktop.Actor{Kind: desktop.ActorViewer, Name: "Jane"}, false); err != nil {
		t.Fatal(err)
	}
	a.refuses("click", args{"coordinate": []int{5, 5}}, "control_held: viewer Jane")
	a.refuses("click", args{"coordinate": []int{5, 5}, "waitControlMs": 1}, "control of this desktop since 2")
	time.AfterFunc(10*time.Millisecond, func() {
		if err := d.ReleaseControl(context.Background(), desktop.Actor{Kind: desktop.ActorViewer, Name: "Jane"}); err != nil {
			t.Error(err)
		}
	})
	a.must("click", args{"coordinate": []int{5, 5}, "waitControlMs": 60000})
	a.must("screenshot", nil)
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	d := startDesktop(t, desktop.Config{Size: desktop.Size{Width: 1024, Height: 768}})
	a := connect(t, d, computer.Config{})
	for _, c := range []struct {
		tool string
		args args
		part string
	}{
		{"click", args{"coordinate": []int{-1, 5}}, "coordinate: [-1, 5] is outside of the screenshot, which is 1024x768"},
		{"click", args{"coordinate": []float64{-0.5, 0.25}}, "coordinate: [-1, 0] is outside"},
		{"click", args{"coordinate": "5,5"}, "[x, y]"},
		{"click", args{"coordinate": []int{1}}, "[x, y]"},
		{"click", args{"x": 5}, "x and y must both"},
		{"click", args{"button": "nose"}, "button: must be left"},
		{"click", args{"count": 0}, "count: must be"},
		{"click", args{"count": "2"}, "count: must be a number"},
		{"click", args{"modifiers": "ctrl+banana"}, "banana"},
		{"drag", args{"coordinate": []int{5, 5}}, "start_coordinate: is missing"},
		{"drag", args{"start_coordinate": []int{5, 5}}, "coordinate: is missing"},
		{"drag", args{"path": []args{{"x": 5, "y": 5}}}, "path: must have"},
		{"drag", args{"path": []args{{"x": 5, "y": 5}, {"x": 5000, "y": 5}}}, "path[1]"},
		{"drag", args{"path": []args{{"x": 5}, {"x": 5, "y": 5}}}, "[x, y]"},
		{"move", args{}, "coordinate: is missing"},
		{"scroll", args{}, "scroll_direction: is missing"},
		{"scroll", args{"scroll_direction": "sideways"}, "up, down, left or right"},
		{"scroll", args{"scroll_direction": "up", "scroll_amount": 100000}, "scroll_amount"},
		{"scroll", args{"scroll_y": 1e12}, "scroll_y"},
		{"type", args{}, "text: is missing"},
		{"type", args{"text": 7}, "text: must be a string"},
		{"type", args{"text": "\x00"}, "text:"},
		{"key", args{}, "text: must name a key"},
		{"key", args{"text": "NoSuchKey"}, "NoSuchKey"},
		{"key", args{"text": "shift NoSuchKey"}, "the 1 keys before"},
		{"hold_key", args{"text": "a", "duration": 1000}, "duration: must be between"},
		{"hold_key", args{"text": "a b"}, "one key"},
		{"wait", args{"duration": -1}, "duration: must be between"},
		{"zoom", args{}, "region: is missing"},
		{"zoom", args{"region": []int{5, 5, 5, 9}}, "x0 < x1"},
		{"zoom", args{"region": []int{0, 0, 1025, 9}}, "1024x768"},
		{"zoom", args{"region": []int{0, 0, 1025}}, "region: must be"},
		{"windows", args{"action": "fly", "window": 1}, "action: must be list"},
		{"windows", args{"action": "close"}, "window: is missing"},
		{"windows", args{"action": "close", "window": "abc"}, "window: must be a number"},
		{"windows", args{"action": "resize", "window": 1}, "width and height"},
		{"clipboard_get", args{"kind": "smell"}, "kind: must be"},
		{"clipboard_set", args{}, "text: is missing"},
		{"launch", args{}, "app: is missing"},
		{"open", args{}, "target: is missing"},
		{"computer", args{}, "action: is missing"},
		{"computer", args{"action": "fly"}, `there is no "fly"`},
		{"computer", args{"action": "computer"}, `there is no "computer"`},
		{"computer", args{"actions": []args{}}, "1 to 100 actions"},
		{"computer", args{"action": "screenshot", "actions": []args{{"action": "wait"}}}, "together"},
		{"computer", args{"actions": []args{{"action": "move", "coordinate": []int{9, 9}}, {"action": "click", "coordinate": []int{9, 9999}}}}, "action 2 of 2: coordinate"},
		{"computer", args{"actions": []any{args{"action": "move"}, 7}}, "none was done"},
	} {
		before := pointer(t, d)
		a.refuses(c.tool, c.args, c.part)
		if p := pointer(t, d); p != before {
			t.Errorf("%s %v moved the pointer to %v", c.tool, c.args, p)
		}
	}
	if _, err := a.session.CallTool(t.Context(), &mcp.CallToolParams{Name: "fly"}); err == nil {
		t.Error("there is a tool to fly")
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	a.refuses("screenshot", nil, "tell the user")
}

// TestFewTools: a model chooses from fewer than 25 tools, with all that a server can offer.
func TestFewTools(t *testing.T) {
	t.Parallel()
	a := connect(t, startDesktop(t, desktop.Config{}), computer.Config{
		Elements: struct{ computer.Elements }{},
		Browser:  func(context.Context, string, json.RawMessage) (json.RawMessage, error) { return nil, nil },
	})
	list, err := a.session.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	has := func(name string) bool {
		return slices.ContainsFunc(list.Tools, func(tool *mcp.Tool) bool { return tool.Name == name })
	}
	if n := len(list.Tools); n >= 25 || !has("browser") || !has("elements") {
		t.Errorf("there are %d tools: %v", n, list.Tools)
	}
}

func TestList(t *testing.T) {
	t.Parallel()
	d := startDesktop(t, desktop.Config{Size: desktop.Size{Width: 1440, Height: 900}})
	a := connect(t, d, computer.Config{})
	list, err := a.session.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	reads := map[string]bool{}
	for _, tool := range list.Tools {
		reads[tool.Name] = tool.Annotations.ReadOnlyHint
		if tool.Title == "" || strings.Contains(tool.Description, "{") || tool.InputSchema == nil {
			t.Errorf("%+v", tool)
		}
		if tool.Name == "screenshot" && !strings.Contains(tool.Description, "1356x848") {
			t.Error(tool.Description)
		}
	}
	for name, want := range map[string]bool{"screenshot": true, "zoom": true, "cursor_position": true, "wait": true, "click": false, "type": false, "computer": false, "clipboard_get": true} {
		if got, ok := reads[name]; !ok || got != want {
			t.Errorf("%s: there %v, read only %v", name, ok, got)
		}
	}
	if err := d.Resize(t.Context(), desktop.Size{Width: 800, Height: 600}); err != nil {
		t.Fatal(err)
	}
	resized := func(tool *mcp.Tool) bool { return strings.Contains(tool.Description, "800x600") }
	if list, err = a.session.ListTools(t.Context(), nil); err != nil || !slices.ContainsFunc(list.Tools, resized) {
		t.Error(list, err)
	}
}

func TestHTTP(t *testing.T) {
	t.Parallel()
	d := startDesktop(t, desktop.Config{})
	s, err := computer.NewServer(d, computer.Config{})
	if err != nil {
		t.Fatal(err)
	}
	for _, method := range []string{http.MethodGet, http.MethodDelete, http.MethodPut} {
		if w := raw(t, s, method, "", nil); w.Code != http.StatusMethodNotAllowed {
			t.Errorf("%s: %d", method, w.Code)
		}
	}
	// No handshake is needed. The server checks no Host; its program does.
	w := raw(t, s, http.MethodPost, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"cursor_position","arguments":{}}}`, func(r *http.Request) { r.Host = "elsewhere.example" })
	var r struct {
		Result struct{ Content []struct{ Text string } }
	}
	if err := json.Unmarshal(w.Body.Bytes(), &r); err != nil || w.Code != http.StatusOK || len(r.Result.Content) != 1 || w.Header().Get("Content-Type") != "application/json" {
		t.Errorf("%d %v %s", w.Code, err, w.Body)
	}
	if w := raw(t, s, http.MethodPost, strings.Repeat(" ", 9<<20), nil); w.Code != http.StatusRequestEntityTooLarge {
		t.Error(w.Code)
	}
	if w := raw(t, s, http.MethodPost, "{", nil); w.Code < 400 {
		t.Error(w.Code)
	}
}

// TestLargePictures are sent as JPEG.
func TestLargePictures(t *testing.T) {
	t.Parallel()
	d := startDesktop(t, desktop.Config{})
	png := connect(t, d, computer.Config{}).must("screenshot", nil)
	jpeg := connect(t, d, computer.Config{MaxBytes: -1, MaxEdge: 800}).must("screenshot", nil)
	if png.format != "png" || jpeg.format != "jpeg" || jpeg.image.Bounds().Dx() != 800 {
		t.Error(png.format, jpeg.format, jpeg.image.Bounds())
	}
}

func TestConfig(t *testing.T) {
	t.Parallel()
	for _, cfg := range []computer.Config{{MaxEdge: 1}, {MaxPixels: -1}} {
		if _, err := computer.NewServer(nil, cfg); err == nil {
			t.Errorf("%+v was taken", cfg)
		}
	}
}
