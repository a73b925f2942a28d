package httpapi

import (
	"bytes"
	"fmt"
	"image"
	_ "image/jpeg"
	"image/png"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	_ "golang.org/x/image/webp"

	"github.com/deskhand/deskhand/internal/testx11"
)

// startReal is a server whose main desktop runs.
func startReal(t *testing.T, cfg Config, options string) *testServer {
	t.Helper()
	testx11.Require(t, "Xvfb", "openbox", "dbus-daemon")
	s := serve(t, cfg)
	s.post(t, "/v1/desktop/start", options).want(t, 200)
	return s
}

// eventually fails the test unless ok becomes true soon.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); <-ticker.C {
		if ok() {
			return
		}
	}
	t.Fatalf("%s: not within a minute", what)
}

func (a answer) picture(t *testing.T) (image.Image, string) {
	t.Helper()
	a.want(t, 200)
	img, format, err := image.Decode(bytes.NewReader(a.body))
	if err != nil {
		t.Fatal(err)
	}
	if got := a.Header.Get("Content-Type"); got != "image/"+format {
		t.Errorf("Content-Type = %s of a %s", got, format)
	}
	return img, format
}

func TestStartIsIdempotent(t *testing.T) {
	t.Parallel()
	s := startReal(t, Config{}, `{"width":800,"height":600,"dpi":110}`)
	st := s.post(t, "/v1/desktop/start", `{"width":1024,"height":768}`).want(t, 200).json(t)
	if diff := cmp.Diff(map[string]any{"width": 800., "height": 600., "dpi": 110.}, st["resolution"]); diff != "" {
		t.Errorf("resolution (-want +got):\n%s", diff)
	}
	if at, err := time.Parse(time.RFC3339Nano, st["startedAt"].(string)); err != nil || time.Since(at) > time.Minute || !strings.HasSuffix(st["startedAt"].(string), "+00:00") {
		t.Errorf("startedAt = %v, %v", st["startedAt"], err)
	}
	var names []string
	for _, p := range st["processes"].([]any) {
		names = append(names, p.(map[string]any)["name"].(string))
	}
	if diff := cmp.Diff([]string{"Xvfb", "openbox", "dbus"}, names); diff != "" {
		t.Errorf("processes (-want +got):\n%s", diff)
	}
	if sound := st["sound"].(map[string]any); sound["running"] != false || sound["available"] == (sound["problem"] != nil) {
		t.Errorf("sound = %v", sound)
	}
	info := s.get(t, "/v1/desktop/display/info").want(t, 200).json(t)
	if info["display"] != st["display"] || info["xauthority"] == nil || info["home"] == nil {
		t.Errorf("display info = %v", info)
	}
	if alias := s.get(t, "/v1/desktops/main/display/info").want(t, 200).json(t); !cmp.Equal(info, alias) {
		t.Errorf("display info of main = %v, want %v", alias, info)
	}
}

func TestScreenshots(t *testing.T) {
	t.Parallel()
	s := startReal(t, Config{}, `{"width":800,"height":600}`)
	for path, want := range map[string]string{
		"/screenshot":                                                     "png 800x600",
		"/screenshot?format=jpeg&quality=7":                               "jpeg 800x600",
		"/screenshot?format=webp":                                         "webp 800x600",
		"/screenshot?scale=0.5":                                           "png 400x300",
		"/screenshot/region?x=10&y=20&width=30&height=40":                 "png 30x40",
		"/screenshot/region?x=790&y=590&width=30&height=40&format=jpeg":   "jpeg 10x10",
		"/screenshot/region?x=0&y=0&width=4000000000&height=1":            "png 800x1",
		"/screenshot?settleMs=10&timeoutMs=2000&cursorStyle=pointer":      "png 800x600",
		"/screenshot?showCursor=false&cursorStyle=none&show_cursor=false": "png 800x600",
	} {
		a := s.get(t, "/v1/desktop"+path)
		img, format := a.picture(t)
		if got := fmt.Sprintf("%s %dx%d", format, img.Bounds().Dx(), img.Bounds().Dy()); got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
		if id := a.Header.Get("Deskhand-Observation"); id == "" || a.Header.Get("ETag") != strconv.Quote(id) {
			t.Errorf("%s: observation %q, ETag %s", path, id, a.Header.Get("ETag"))
		}
		if a.Header.Get("Deskhand-Damage") == "" || a.Header.Get("Deskhand-Settled") != "true" {
			t.Errorf("%s: headers %v", path, a.Header)
		}
	}
	s.get(t, "/v1/desktop/screenshot/region?x=800&y=0&width=5&height=5").problem(t, 400, "desktop_invalid_action")
	for _, name := range []string{"showCursor", "show_cursor"} {
		s.post(t, "/v1/desktop/mouse/move", `{"x":400,"y":300}`).want(t, 200)
		img, _ := s.get(t, "/v1/desktop/screenshot?"+name+"=true").picture(t)
		if r, g, b, _ := img.At(400, 300).RGBA(); r < 0x8000 || g > 0x6000 || b > 0x6000 {
			t.Errorf("%s: the pixel at the pointer is %x %x %x, not red", name, r>>8, g>>8, b>>8)
		}
	}
	for _, query := range []string{"show_cursor=1", "show_cursor=true&show_cursor=false"} {
		s.get(t, "/v1/desktop/screenshot?"+query).problem(t, 400, "invalid_request")
	}
	head := s.do(t, call{method: "HEAD", path: "/v1/desktop/screenshot"}).want(t, 200)
	if len(head.body) != 0 || head.ContentLength <= 0 || head.Header.Get("Content-Type") != "image/png" {
		t.Errorf("HEAD: %d bytes, Content-Length %d, %v", len(head.body), head.ContentLength, head.Header)
	}
}

func TestUnchangedScreen(t *testing.T) {
	t.Parallel()
	s := startReal(t, Config{}, `{"width":640,"height":480}`)
	const path = "/v1/desktop/screenshot?settleMs=100"
	first := s.get(t, path).want(t, 200)
	tag, id := first.Header.Get("ETag"), first.Header.Get("Deskhand-Observation")
	for name, c := range map[string]call{
		"tag":       {path: path, header: map[string]string{"If-None-Match": tag}},
		"weak tag":  {path: path, header: map[string]string{"If-None-Match": "W/" + tag}},
		"some tags": {path: path, header: map[string]string{"If-None-Match": `"x", ` + tag}},
		"query":     {path: path + "&ifChangedSince=" + id},
	} {
		a := s.do(t, c).want(t, 304)
		if len(a.body) != 0 || a.Header.Get("ETag") != tag {
			t.Errorf("%s: %d bytes, ETag %s, want %s", name, len(a.body), a.Header.Get("ETag"), tag)
		}
	}
	s.do(t, call{path: "/v1/desktop/screenshot?format=jpeg", header: map[string]string{"If-None-Match": tag}}).want(t, 200)
	s.post(t, "/v1/desktop/resize", `{"width":800,"height":600}`).want(t, 200)
	a := s.do(t, call{path: path, header: map[string]string{"If-None-Match": tag}})
	if img, _ := a.picture(t); img.Bounds().Dx() != 800 {
		t.Errorf("after a resize: %v", img.Bounds())
	}
}

func TestMouse(t *testing.T) {
	t.Parallel()
	s := startReal(t, Config{}, `{"width":800,"height":600}`)
	for path, body := range map[string]string{
		"move":   `{"x":100,"y":200}`,
		"click":  `{"x":100,"y":200,"button":"back","clickCount":2,"modifiers":["shift"]}`,
		"down":   `{"x":100,"y":200,"button":null}`,
		"up":     `{}`,
		"drag":   `{"startX":1.2,"startY":2,"endX":99.9,"endY":200,"button":"middle"}`,
		"scroll": `{"x":99.5,"y":200.4,"deltaY":-3}`,
	} {
		if path == "up" {
			s.post(t, "/v1/desktop/mouse/move", `{"x":100,"y":200}`)
		}
		if got := s.post(t, "/v1/desktop/mouse/"+path, body).want(t, 200).json(t); got["x"] != 100. || got["y"] != 200. || got["screen"] != 0. {
			t.Errorf("%s = %v", path, got)
		}
	}
	s.post(t, "/v1/desktop/input/release", "").want(t, 200)
	s.post(t, "/v1/desktop/mouse/move", `{"x":5000,"y":5000}`).want(t, 200)
	if got := s.get(t, "/v1/desktop/mouse/position").want(t, 200).json(t); got["x"] != 799. || got["y"] != 599. {
		t.Errorf("position = %v, want the corner", got)
	}
	// Coordinates of a picture of half the size.
	id := s.get(t, "/v1/desktop/screenshot?scale=0.5").want(t, 200).Header.Get("Deskhand-Observation")
	if got := s.post(t, "/v1/desktop/mouse/move", `{"x":100,"y":50,"observation":"`+id+`"}`).want(t, 200).json(t); got["x"] != 201. || got["y"] != 101. {
		t.Errorf("move in a picture = %v, want 201,101", got)
	}
	p := s.post(t, "/v1/desktop/mouse/move", `{"x":100,"y":50,"observation":"nonsense"}`).problem(t, 400, "desktop_invalid_action")
	if p["field"] != "observation" {
		t.Errorf("field = %v", p["field"])
	}
	s.post(t, "/v1/desktop/mouse/click", `{"x":1,"y":1,"modifiers":["nonsense"]}`).problem(t, 400, "desktop_invalid_action")
}

func TestKeyboard(t *testing.T) {
	t.Parallel()
	s := startReal(t, Config{}, "")
	for path, body := range map[string]string{
		"type":  `{"text":"Grüße 漢 😀","delayMs":0,"secret":true,"mode":"keys"}`,
		"press": `{"key":"a","modifiers":{"ctrl":true,"shift":false,"cmd":null}}`,
		"down":  `{"key":"Shift_L"}`,
		"up":    `{"key":"Shift_L"}`,
	} {
		if got := s.post(t, "/v1/desktop/keyboard/"+path, body).want(t, 200).json(t); got["ok"] != true {
			t.Errorf("%s = %v", path, got)
		}
	}
	p := s.post(t, "/v1/desktop/keyboard/press", `{"key":"NoSuchKey"}`).problem(t, 400, "desktop_invalid_action")
	if !strings.Contains(p["detail"].(string), "NoSuchKey") {
		t.Errorf("detail = %v", p["detail"])
	}
}

func TestClipboard(t *testing.T) {
	t.Parallel()
	s := startReal(t, Config{}, "")
	read := func(selection string) any {
		t.Helper()
		a := s.get(t, "/v1/desktop/clipboard?selection="+selection).want(t, 200).json(t)
		if a["selection"] != selection {
			t.Errorf("selection = %v, want %s", a["selection"], selection)
		}
		return a["text"]
	}
	if got := read("clipboard"); got != "" {
		t.Errorf("empty clipboard = %q", got)
	}
	s.post(t, "/v1/desktop/clipboard", `{"text":"naïve <b>漢</b>"}`).want(t, 200)
	s.post(t, "/v1/desktop/clipboard", `{"text":"marked","selection":"primary"}`).want(t, 200)
	if got := []any{read("clipboard"), read("primary")}; !cmp.Equal(got, []any{"naïve <b>漢</b>", "marked"}) {
		t.Errorf("clipboard and primary = %q", got)
	}
	s.post(t, "/v1/desktop/clipboard", `{"text":"both","selection":"both"}`).want(t, 200)
	if got := []any{read("clipboard"), read("primary")}; !cmp.Equal(got, []any{"both", "both"}) {
		t.Errorf("clipboard and primary = %q", got)
	}
	s.get(t, "/v1/desktop/clipboard?format=png").problem(t, 406, "not_acceptable")

	var img bytes.Buffer
	if err := png.Encode(&img, image.NewNRGBA(image.Rect(0, 0, 300, 200))); err != nil {
		t.Fatal(err)
	}
	s.do(t, call{path: "/v1/desktop/clipboard", body: img.String(), kind: "image/png"}).want(t, 200)
	a := s.get(t, "/v1/desktop/clipboard?format=png").want(t, 200)
	if a.Header.Get("Content-Type") != "image/png" || !bytes.Equal(a.body, img.Bytes()) {
		t.Errorf("image came back as %s of %d bytes, want %d", a.Header.Get("Content-Type"), len(a.body), img.Len())
	}
	if got := read("clipboard"); got != "" {
		t.Errorf("text of an image = %q", got)
	}
}

func TestWindowsAndPrograms(t *testing.T) {
	t.Parallel()
	testx11.Require(t, "xterm")
	s := startReal(t, Config{}, `{"width":1024,"height":768}`)
	s.get(t, "/v1/desktop/windows/focused").problem(t, 404, "no_focused_window")
	app := s.post(t, "/v1/desktop/launch", `{"app":"xterm","args":["-T","the terminal"],"wait":true}`).want(t, 200).json(t)
	id, _ := app["windowId"].(string)
	if id == "" || !strings.HasPrefix(app["processId"].(string), "proc_") {
		t.Fatalf("launch = %v", app)
	}
	window := func() map[string]any {
		t.Helper()
		for _, w := range s.get(t, "/v1/desktop/windows").want(t, 200).json(t)["windows"].([]any) {
			if w := w.(map[string]any); w["id"] == id {
				return w
			}
		}
		return nil
	}
	if w := window(); w == nil || w["title"] != "the terminal" || w["class"] != "XTerm" {
		t.Errorf("window = %v", w)
	}
	if ws, _ := s.get(t, "/v1/desktop/status").json(t)["windows"].([]any); len(ws) != 1 {
		t.Errorf("windows of status = %v", ws)
	}
	path := "/v1/desktop/windows/" + id
	if got := s.post(t, path+"/move", `{"x":150,"y":120}`).want(t, 200).json(t); got["x"] != 150. || got["y"] != 120. {
		t.Errorf("move = %v", got)
	}
	if got := s.post(t, path+"/resize", `{"width":600,"height":400}`).want(t, 200).json(t); got["width"].(float64) > 600 || got["width"].(float64) < 580 {
		t.Errorf("resize = %v", got)
	}
	if got := s.post(t, path+"/maximise", "").want(t, 200).json(t); got["isMaximised"] != true {
		t.Errorf("maximise = %v", got)
	}
	if got := s.post(t, path+"/restore", "").want(t, 200).json(t); got["isMaximised"] != nil {
		t.Errorf("restore = %v", got)
	}
	if got := s.post(t, path+"/minimise", "").want(t, 200).json(t); got["isMinimised"] != true {
		t.Errorf("minimise = %v", got)
	}
	if got := s.post(t, path+"/focus", "").want(t, 200).json(t); got["isActive"] != true || got["isMinimised"] != nil {
		t.Errorf("focus = %v", got)
	}
	if got := s.get(t, "/v1/desktop/windows/focused").want(t, 200).json(t)["id"]; got != id {
		t.Errorf("focused = %v, want %s", got, id)
	}
	s.get(t, "/v1/desktop/windows?all=true").want(t, 200)
	s.post(t, path+"/close", "").want(t, 200)
	eventually(t, "end of the window", func() bool { return window() == nil })
	for _, id := range []string{"1", "0", "-1", "--help", "x", "99999999999", "1%2F2"} {
		s.post(t, "/v1/desktop/windows/"+id+"/focus", "").problem(t, 404, "window_not_found")
	}

	exited := s.post(t, "/v1/desktop/launch", `{"app":"sh","args":["-c","exit 3"],"wait":true}`).want(t, 200).json(t)
	if exited["exited"] != true || exited["exitCode"] != 3. || exited["windowId"] != nil {
		t.Errorf("launch of what exits = %v", exited)
	}
	for _, name := range []string{"no-such-program", "", "/no/such/file"} {
		p := s.post(t, "/v1/desktop/launch", `{"app":"`+name+`"}`).problem(t, 404, "app_not_found")
		if want := "Application '" + name + "' not found in PATH"; p["detail"] != want {
			t.Errorf("detail = %v, want %s", p["detail"], want)
		}
	}
	s.post(t, "/v1/desktop/open", `{"target":"--help"}`).problem(t, 400, "desktop_invalid_action")
}

func TestTwoRealDesktops(t *testing.T) {
	t.Parallel()
	s := startReal(t, Config{}, `{"width":640,"height":480}`)
	a := s.post(t, "/v1/desktops", `{"width":320,"height":200}`).want(t, 201)
	other := a.Header.Get("Location")
	if img, _ := s.get(t, other+"/screenshot").picture(t); img.Bounds().Dx() != 320 {
		t.Errorf("picture of the second desktop: %v", img.Bounds())
	}
	s.post(t, other+"/clipboard", `{"text":"there"}`).want(t, 200)
	if got := s.get(t, "/v1/desktop/clipboard").json(t)["text"]; got != "" {
		t.Errorf("clipboard of main = %q", got)
	}
	s.do(t, call{method: http.MethodDelete, path: other}).want(t, 204)
	s.get(t, "/v1/desktop/screenshot").want(t, 200)
}
