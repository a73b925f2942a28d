package httpapi

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"image"
	_ "image/jpeg"
	_ "image/png"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/desktop/fleet"
	"github.com/deskhand/deskhand/internal/testx11"
)

// actionsAnswer is an answer to POST /v1/desktop/actions.
type actionsAnswer struct {
	Results []struct {
		Type   string
		OK     bool
		X, Y   *int
		Window string
		MS     *int
		App    *struct{ PID int }
		Error  *struct{ Type, Detail string }
	}
	Done    int
	Stopped *struct {
		Reason, Detail string
		Index          int
	}
	Observation struct {
		ID                           string
		Width, Height                int
		Scale                        float64
		Settled                      bool
		SettleMS                     int
		Changed, Animating           [][4]int
		Focused                      *struct{ ID, Title string }
		WindowsOpened, WindowsClosed []struct{ ID, Title string }
		Control                      *struct{ Holder *struct{ Kind, Name string } }
	}
	Screenshot *struct {
		MediaType string
		Data      string
		Region    *[4]int
	}
	Windows   []struct{ ID, Title, Class string }
	Clipboard *string
}

// actions executes a list of actions.
func (s *testServer) actions(t *testing.T, body string) actionsAnswer {
	t.Helper()
	return decodeActions(t, s.post(t, "/v1/desktop/actions", body).want(t, http.StatusOK).body)
}

func decodeActions(t *testing.T, body []byte) (a actionsAnswer) {
	t.Helper()
	if err := json.Unmarshal(body, &a); err != nil {
		t.Fatal(err)
	}
	return a
}

// size returns the size of the picture.
func (a actionsAnswer) size(t *testing.T) image.Point {
	t.Helper()
	if a.Screenshot == nil {
		t.Fatal("there is no screenshot")
	}
	m, format, err := image.Decode(base64.NewDecoder(base64.StdEncoding, strings.NewReader(a.Screenshot.Data)))
	if err != nil || "image/"+format != a.Screenshot.MediaType {
		t.Fatalf("%s, %s: %v", a.Screenshot.MediaType, format, err)
	}
	return m.Bounds().Size()
}

// TestActions executes every type of action and asks for every kind of observation.
func TestActions(t *testing.T) {
	t.Parallel()
	requireDesktop(t)
	testx11.Require(t, "xterm")
	s := serve(t, Config{})
	s.post(t, "/v1/desktop/actions", `{}`).problem(t, 409, "desktop_runtime_inactive")
	s.post(t, "/v1/desktop/start", `{"width":800,"height":600}`).want(t, 200)
	a := s.actions(t, `{"actions": [
		{"type": "launch", "app": "xterm", "args": ["-geometry", "80x24+100+100"], "wait": true},
		{"type": "wait", "until": "window", "window": "xterm"},
		{"type": "move", "x": 299.6, "y": 300.4},
		{"type": "click", "x": 300, "y": 300, "button": "left", "count": 1, "modifiers": ["shift"]},
		{"type": "click", "x": 300, "y": 300, "clickCount": 2},
		{"type": "down"}, {"type": "up"},
		{"type": "drag", "path": [[300, 300], [320.5, 300], [340, 310.2]]},
		{"type": "scroll", "x": 300, "y": 300, "deltaY": 1},
		{"type": "clipboard", "text": "copied"},
		{"type": "keyDown", "key": "shift"}, {"type": "keyUp", "key": "shift"},
		{"type": "type", "text": "sleep 1; exit", "delayMs": 0},
		{"type": "press", "key": "Return", "modifiers": {"ctrl": false}},
		{"type": "wait", "until": "gone", "window": "xterm", "timeoutMs": 20000},
		{"type": "wait", "until": "settled"},
		{"type": "wait", "ms": 1}],
		"observe": {"screenshot": {"format": "png", "maxEdge": 400, "maxPixels": 1150000, "maxBytes": 262144}, "windows": true, "clipboard": true}}`)
	for i, r := range a.Results {
		if !r.OK || r.Error != nil || r.MS == nil {
			t.Errorf("action %d: %+v", i, r)
		}
	}
	if a.Done != 17 || a.Stopped != nil || *a.Results[2].X != 300 || a.Results[0].App.PID == 0 || a.Results[0].Window == "" || a.Results[1].Window != a.Results[0].Window {
		t.Errorf("results = %+v", a)
	}
	if o := a.Observation; o.ID == "" || o.Width != 400 || o.Height != 300 || o.Scale != 0.5 || !o.Settled || o.SettleMS < 50 || o.Control == nil || o.Control.Holder != nil {
		t.Errorf("observation = %+v", o)
	}
	if a.size(t) != image.Pt(400, 300) || a.Screenshot.Region != nil || *a.Clipboard != "copied" {
		t.Errorf("screenshot = %v, clipboard %q", a.size(t), *a.Clipboard)
	}
	s.post(t, "/v1/desktops/main/actions", `{"actions": [{"type": "open", "target": "/no/such/file"}], "settle": {"ms": 0}}`).want(t, 200)
}

// TestActionsOpen opens a URL and a file by the program that the desktop's environment names.
func TestActionsOpen(t *testing.T) {
	t.Parallel()
	testx11.Require(t, "xdg-open", "xterm")
	s := startReal(t, Config{Start: func(ctx context.Context, _ string, cfg desktop.Config) (fleet.Desktop, error) {
		cfg.Env = append(cfg.Env, "BROWSER=xterm -T %s -e cat")
		d, err := desktop.Start(ctx, cfg)
		if err != nil {
			return nil, err
		}
		return d, nil
	}}, `{"width":800,"height":600}`)
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte{1, 2, 3}, 0o600); err != nil { // of a type that no program is for
		t.Fatal(err)
	}
	for _, target := range []string{"unheard-of:page", file} {
		a := s.actions(t, fmt.Sprintf(`{"actions": [
			{"type": "open", "target": %[1]q},
			{"type": "wait", "until": "window", "window": %[1]q, "timeoutMs": 20000},
			{"type": "press", "key": "ctrl+d"},
			{"type": "wait", "until": "gone", "window": %[1]q, "timeoutMs": 20000}],
			"stopOn": ["failure"], "settle": {"ms": 0}}`, target))
		if a.Done != 4 || a.Stopped != nil || a.Results[0].App.PID == 0 || a.Results[1].Window == "" {
			t.Errorf("%s: %+v", target, a)
		}
	}
}

// TestActionsObserve: the answer lists windows and the first elements of one of them, names what
// keeps changing, and says that a screen has not settled in time. The list waits for control.
func TestActionsObserve(t *testing.T) {
	t.Parallel()
	testx11.Require(t, "/usr/libexec/at-spi-bus-launcher", "xterm", "zenity")
	s := startReal(t, Config{}, `{"width":800,"height":600}`)
	a := s.actions(t, `{"actions":[
		{"type":"launch","app":"xterm","args":["-bc","-bcn","200","-bcf","200"],"wait":true},
		{"type":"launch","app":"zenity","args":["--entry","--title=Ask"],"wait":true},
		{"type":"wait","until":"element","role":"button","name":"OK","timeoutMs":60000}],"observe":{"windows":true}}`)
	if a.Done != 3 || len(a.Windows) != 2 || len(a.Observation.WindowsOpened) != 2 || a.Observation.Focused == nil || a.Observation.Focused.Title != "Ask" {
		t.Fatalf("%+v", a)
	}
	terminal, dialog := a.Results[0].Window, a.Results[1].Window
	elements := func(list string) (count int, whole bool) {
		t.Helper()
		var got struct {
			Elements struct {
				Outline   string
				Truncated bool
			}
		}
		body := s.post(t, "/v1/desktop/actions", `{"settle":{"ms":0},"observe":{"elements":`+list+`}}`).want(t, 200).body
		if err := json.Unmarshal(body, &got); err != nil {
			t.Fatal(err)
		}
		return strings.Count(got.Elements.Outline, "@e"), !got.Elements.Truncated
	}
	eventually(t, "all elements of the dialog", func() bool {
		n, whole := elements(`{"window":"` + dialog + `"}`)
		return n > 3 && whole
	})
	eventually(t, "the first elements", func() bool {
		n, whole := elements(`{"window":"` + dialog + `","limit":2}`)
		return n > 0 && n <= 2 && !whole
	})
	if n, _ := elements(`{"window":"` + terminal + `"}`); n != 0 {
		t.Errorf("%d elements of a window that has none", n)
	}
	a = s.actions(t, `{"actions":[{"type":"focus","window":"`+terminal+`"}],"settle":{"ms":30000,"timeoutMs":1}}`)
	if a.Done != 1 || a.Observation.Settled || a.Observation.Focused == nil || a.Observation.Focused.ID != terminal {
		t.Errorf("focus, and too little time to settle: %+v", a)
	}
	eventually(t, "the caret is named", func() bool {
		return len(s.actions(t, `{"settle":{"ms":3000,"timeoutMs":60000}}`).Observation.Animating) > 0
	})

	jane := map[string]string{"Deskhand-Actor": "Jane"}
	s.do(t, call{path: mainPath + "/control/take", body: "{}", header: jane}).want(t, 200)
	done := make(chan answer, 1)
	go func() {
		done <- s.try(context.WithoutCancel(t.Context()), call{path: mainPath + "/actions", body: `{"actions":[{"type":"move","x":1,"y":1}],"waitControlMs":60000}`})
	}()
	s.do(t, call{method: "POST", path: mainPath + "/control/release", header: jane}).want(t, 200)
	if a := <-done; a.err != nil || a.StatusCode != 200 {
		t.Errorf("a list that waits for control: %v %s", a.err, a.body)
	}
}

// TestActionsInvalid: an action that is not valid is named by its index and its member, and
// no action is executed.
func TestActionsInvalid(t *testing.T) {
	t.Parallel()
	requireDesktop(t)
	s := serve(t, Config{})
	s.post(t, "/v1/desktop/start", `{}`).want(t, 200)
	for name, c := range map[string]struct{ action, field, code string }{
		"button":   {`{"type":"click","x":1,"y":1,"button":"foot"}`, "actions[3].button", "invalid_request"},
		"x":        {`{"type":"click","x":-1,"y":1}`, "actions[3].x", "desktop_invalid_action"},
		"number":   {`{"type":"click","x":1e99,"y":1}`, "actions[3]", "invalid_request"},
		"count":    {`{"type":"click","x":1,"y":1,"count":101}`, "actions[3].clickCount", "desktop_invalid_action"},
		"missing":  {`{"type":"click","x":1}`, "actions[3]", "invalid_request"},
		"unknown":  {`{"type":"fly"}`, "actions[3].type", "invalid_request"},
		"typeless": {`{"x":1}`, "actions[3]", "invalid_request"},
		"list":     {`[1]`, "actions[3]", "invalid_request"},
		"path":     {`{"type":"drag","path":[[1,2],[3]]}`, "actions[3].path", "desktop_invalid_action"},
		"key":      {`{"type":"press","key":"Retrun"}`, "actions[3].key", "desktop_invalid_action"},
		"wait":     {`{"type":"wait"}`, "actions[3].ms", "desktop_invalid_action"},
		"window":   {`{"type":"focus","window":"w"}`, "", "window_not_found"},
		"element":  {`{"type":"element","ref":"@e1","do":"fly"}`, "actions[3].do", "invalid_request"},
	} {
		t.Run(name, func(t *testing.T) {
			a := s.post(t, "/v1/desktop/actions", `{"actions":[{"type":"move","x":5,"y":5},{"type":"move","x":5,"y":5},{"type":"move","x":5,"y":5},`+c.action+`]}`)
			p := a.json(t)
			text := fmt.Sprint(p["detail"])
			if !strings.HasSuffix(fmt.Sprint(p["type"]), ":"+c.code) || a.StatusCode < 400 || c.field != "" && !strings.Contains(text, c.field) {
				t.Errorf("%d %s, want %s about %s", a.StatusCode, a.body, c.code, c.field)
			}
		})
	}
	if p := s.get(t, "/v1/desktop/mouse/position").want(t, 200).json(t); p["x"] == 5.0 {
		t.Error("an action was executed")
	}
	if p := s.post(t, "/v1/desktop/actions", `{"actions":[`+strings.Repeat(`{"type":"wait","ms":1},`, 1000)+`{"type":"wait","ms":1}]}`).json(t); p["field"] != "actions" {
		t.Errorf("1001 actions: %v", p)
	}
	s.post(t, "/v1/desktop/actions", `{"observation":"x"}`).problem(t, 400, "desktop_invalid_action")
	_, control := s.token(t, `{"scope":"control","desktop":"main"}`)
	for action, status := range map[string]int{`{"type":"move","x":1,"y":1}`: 200, `{"type":"launch","app":"xterm"}`: 403, `{"type":"open","target":"x"}`: 403} {
		a := s.do(t, call{method: "POST", path: "/v1/desktop/actions", body: `{"actions":[` + action + `],"settle":{"ms":0}}`, header: map[string]string{"Authorization": "Bearer " + control}})
		if a.StatusCode != status {
			t.Errorf("%s with a token for control: %d %s", action, a.StatusCode, a.body)
		}
	}
}

// TestActionsStop: a list stops at a failure, a window and a change of the focus.
func TestActionsStop(t *testing.T) {
	t.Parallel()
	requireDesktop(t)
	testx11.Require(t, "xterm", "zenity")
	s := serve(t, Config{})
	s.post(t, "/v1/desktop/start", `{}`).want(t, 200)
	s.post(t, "/v1/desktop/launch", `{"app":"xterm","wait":true}`).want(t, 200)
	a := s.actions(t, `{"actions":[{"type":"move","x":1,"y":1},{"type":"focus","window":"99"},{"type":"move","x":2,"y":2}]}`)
	if a.Done != 1 || len(a.Results) != 2 || a.Stopped == nil || a.Stopped.Reason != "failure" || a.Stopped.Index != 1 ||
		!strings.HasSuffix(a.Results[1].Error.Type, ":window_not_found") || a.Results[1].Error.Detail == "" {
		t.Errorf("failure: %+v", a)
	}
	for _, reason := range []string{"window", "focus"} {
		a = s.actions(t, `{"stopOn":["`+reason+`"],"actions":[
			{"type":"type","text":"zenity --info --text=hi\n"},{"type":"wait","until":"window","window":"Information"},{"type":"press","key":"a"}]}`)
		if a.Done != 2 || a.Stopped == nil || a.Stopped.Reason != reason || a.Stopped.Index != 1 || len(a.Observation.WindowsOpened) != 1 ||
			a.Observation.Focused == nil || a.Observation.Focused.Title != "Information" {
			t.Errorf("%s: %+v", reason, a)
		}
		a = s.actions(t, `{"actions":[{"type":"press","key":"Return"},{"type":"wait","until":"gone","window":"Information"}]}`)
		if a.Done != 2 || len(a.Observation.WindowsClosed) != 1 {
			t.Errorf("the dialog closes: %+v", a)
		}
	}
}

// TestActionsControl: a list that a person cuts says how far it came.
func TestActionsControl(t *testing.T) {
	t.Parallel()
	requireDesktop(t)
	s := serve(t, Config{})
	s.post(t, "/v1/desktop/start", `{}`).want(t, 200)
	d := s.desktop(t)
	sub := d.Subscribe(0)
	defer sub.Close()
	taken := make(chan struct{})
	go func() {
		defer close(taken)
		<-sub.Events()
		s.do(t, call{method: "POST", path: "/v1/desktop/control/take", body: `{}`, header: map[string]string{"Deskhand-Actor": "ann"}})
	}()
	const list = `{"actions":[{"type":"move","x":1,"y":1},{"type":"wait","ms":60000},{"type":"move","x":2,"y":2}]}`
	a := s.actions(t, list)
	<-taken
	if a.Done != 1 || a.Stopped == nil || a.Stopped.Reason != "control" || a.Stopped.Index != 1 || !strings.HasSuffix(a.Results[1].Error.Type, ":control_held") ||
		a.Observation.Control.Holder == nil || a.Observation.Control.Holder.Name != "ann" {
		t.Errorf("control taken: %+v", a)
	}
	if p := s.post(t, "/v1/desktop/actions", list).problem(t, 409, "control_held"); p["holder"] == nil {
		t.Errorf("while another actor has control: %v", p)
	}
	if a := s.actions(t, `{}`); a.Observation.Control.Holder == nil {
		t.Errorf("an observation while another actor has control: %+v", a)
	}
}

// TestActionsStale: positions in an old picture are refused if the screen has changed there.
func TestActionsStale(t *testing.T) {
	t.Parallel()
	requireDesktop(t)
	testx11.Require(t, "xterm")
	s := serve(t, Config{})
	s.post(t, "/v1/desktop/start", `{"width":800,"height":600}`).want(t, 200)
	before := s.actions(t, `{"observe":{"screenshot":{"scale":0.5}}}`).Observation
	s.post(t, "/v1/desktop/launch", `{"app":"xterm","args":["-geometry","80x24+100+100"],"wait":true}`).want(t, 200)
	body := func(expect, id string, x int) string {
		return fmt.Sprintf(`{"observation":%q,"expect":%q,"observe":{"screenshot":{"scale":0.5,"since":%q}},"actions":[{"type":"move","x":%d,"y":150}]}`, id, expect, id, x)
	}
	for _, expect := range []string{"same", "window"} {
		p := s.post(t, "/v1/desktop/actions", body(expect, before.ID, 200)).problem(t, 409, "stale_observation")
		o, _ := p["observation"].(map[string]any)
		changed, _ := p["changed"].([]any)
		if o["id"] == nil || o["id"] == before.ID || p["screenshot"] == nil || len(changed) == 0 {
			t.Errorf("expect %s: %v", expect, p)
		}
	}
	a := s.actions(t, body("same", before.ID, 5))
	if a.Done != 1 || *a.Results[0].X != 5 || *a.Results[0].Y != 150 {
		t.Errorf("beside the window: %+v", a)
	}
	if r := a.Screenshot.Region; r == nil || a.size(t) != image.Pt(r[2], r[3]) || r[2] >= 400 || len(a.Observation.Changed) == 0 || a.Observation.Width != 400 {
		t.Errorf("the part that changed: %v, %+v", r, a.Observation)
	}
	if again := s.actions(t, body("same", a.Observation.ID, 200)); again.Done != 1 || again.Screenshot != nil || len(again.Observation.Changed) != 0 {
		t.Errorf("nothing changed: %+v", again)
	}
	s.post(t, "/v1/desktop/actions", body("any", before.ID, 200)).want(t, 200)
}

// TestActionsAbandoned: the end of the request ends the list, and events say how far it came.
func TestActionsAbandoned(t *testing.T) {
	t.Parallel()
	requireDesktop(t)
	s := serve(t, Config{})
	s.post(t, "/v1/desktop/start", `{}`).want(t, 200)
	sub := s.desktop(t).Subscribe(0)
	defer sub.Close()
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-sub.Events()
		cancel()
	}()
	a := s.try(ctx, call{path: "/v1/desktop/actions", body: `{"actions":[{"type":"move","x":1,"y":1},{"type":"type","text":"` +
		strings.Repeat("a", 500) + `","delayMs":100},{"type":"move","x":2,"y":2}]}`})
	if a.err == nil {
		t.Fatalf("the request was answered: %s", a.body)
	}
	for e := range sub.Events() {
		if e.Action != nil && e.Action.Name == "type" && (e.Action.Typed == nil || *e.Action.Typed >= 500 || e.Action.Error == "") {
			t.Errorf("event = %+v", e.Action)
		}
		if e.Action != nil && e.Action.Name == "exclusive" {
			if e.Action.Count != 1 || !strings.Contains(e.Action.Error, "1 inputs were done") {
				t.Errorf("event = %+v", e.Action)
			}
			break
		}
	}
}

// TestActionsHolder: an action that waits too long for a list to end is answered with the actor of
// the list.
func TestActionsHolder(t *testing.T) {
	t.Parallel()
	requireDesktop(t)
	s := serve(t, Config{})
	s.post(t, "/v1/desktop/start", `{}`).want(t, 200)
	sub := s.desktop(t).Subscribe(0)
	defer sub.Close()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan answer, 1)
	go func() {
		ended <- s.try(ctx, call{path: "/v1/desktop/actions", header: map[string]string{"Deskhand-Actor": "Ann"}, body: `{"actions":[{"type":"move","x":1,"y":1},
			{"type":"type","text":"` + strings.Repeat("a", 500) + `","delayMs":100}]}`})
	}()
	for e := range sub.Events() {
		if e.Action != nil {
			break
		}
	}
	var calls sync.WaitGroup // concurrent, because each takes 10 s
	for _, path := range []string{"/v1/desktop/mouse/move", "/v1/desktop/actions"} {
		calls.Go(func() {
			p := s.try(t.Context(), call{path: path, body: `{"x":1,"y":1,"actions":[{"type":"move","x":1,"y":1}]}`})
			if p.err != nil || p.StatusCode != http.StatusGatewayTimeout || !strings.Contains(string(p.body), "input of api Ann") || !strings.Contains(string(p.body), `"holder":{"kind":"api","name":"Ann"}`) {
				t.Errorf("%s: %v, %s, %v", path, p.Response, p.body, p.err)
			}
		})
	}
	calls.Wait()
	cancel()
	<-ended
}

// TestActionsWait checks that the lists of a token that wait do not keep other tokens from theirs.
func TestActionsWait(t *testing.T) {
	t.Parallel()
	requireDesktop(t)
	s := serve(t, Config{})
	s.post(t, "/v1/desktop/start", `{}`).want(t, 200)
	list := func(token, body string) call {
		return call{path: "/v1/desktop/actions", body: body, header: map[string]string{"Authorization": "Bearer " + token}}
	}
	_, waiting := s.token(t, `{"scope":"control","desktop":"main"}`)
	_, other := s.token(t, `{"scope":"control","desktop":"main"}`)
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel()
	sub := s.desktop(t).Subscribe(0)
	defer sub.Close()
	const lists = 4
	for range lists {
		all.Go(func() {
			s.try(ctx, list(waiting, `{"actions":[{"type":"move","x":1,"y":1},{"type":"wait","ms":60000}]}`))
		})
	}
	moved := 0
	for e := range sub.Events() {
		if e.Action != nil && e.Action.Name == "move" {
			moved++
		}
		if moved == lists {
			break
		}
	}
	s.do(t, list(other, `{"actions":[{"type":"move","x":2,"y":2}],"settle":{"ms":0}}`)).want(t, 200)
}
