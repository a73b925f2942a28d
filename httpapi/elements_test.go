package httpapi

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"image"
	"image/png"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/deskhand/deskhand/internal/testx11"
)

// TestElements reads, finds, awaits and uses the elements of a dialog.
func TestElements(t *testing.T) {
	t.Parallel()
	testx11.Require(t, "/usr/libexec/at-spi-bus-launcher", "zenity")
	s := startReal(t, Config{}, `{"elements":true}`)
	for _, base := range []string{"/v1/desktop", "/v1/desktops/main"} {
		app := s.post(t, base+"/launch", `{"app":"zenity","args":["--entry","--title=Ask","--text=Hello"],"wait":true}`).want(t, 200).json(t)
		window := fmt.Sprint(app["windowId"])
		found := s.post(t, base+"/elements/wait", `{"role":"button","name":"~^O","states":["enabled"]}`).want(t, 200).json(t)
		ok := found["element"].(map[string]any)
		ref := ok["ref"].(string)

		tree := s.get(t, base+"/elements?timeoutMs=9000").want(t, 200).json(t)
		outline := tree["outline"].(string)
		if tree["truncated"] != false || len(tree["skippedApps"].([]any)) > 0 || !strings.Contains(outline, "  "+ref+` button "OK" [`) || !strings.HasPrefix(outline, "@e") {
			t.Errorf("elements = %v", tree)
		}
		list := s.get(t, base+"/elements?timeoutMs=9000&format=json&window="+window+"&role=button").want(t, 200).json(t)["elements"].([]any)
		if len(list) != 2 || list[1].(map[string]any)["ref"] != ref || list[1].(map[string]any)["actions"] == nil {
			t.Errorf("buttons = %v", list)
		}
		list = s.get(t, base+"/elements?timeoutMs=9000&format=json&root="+strings.Replace(ref, "@", "%40", 1)).want(t, 200).json(t)["elements"].([]any)
		if len(list) != 1 {
			t.Errorf("root = %v", list)
		}
		list = s.post(t, base+"/elements/find", `{"text":"~.","role":"text","timeoutMs":9000}`).want(t, 200).json(t)["elements"].([]any)
		if len(list) != 0 {
			t.Errorf("texts = %v", list)
		}

		text := s.post(t, base+"/elements/find", `{"role":"text","timeoutMs":9000}`).want(t, 200).json(t)["elements"].([]any)[0].(map[string]any)["ref"].(string)
		if done := s.post(t, base+"/elements/"+text, `{"do":"setText","value":"Hi"}`).want(t, 200).json(t); done["via"] != "action" {
			t.Errorf("setText = %v", done)
		}
		s.post(t, base+"/elements/wait", `{"role":"text","text":"Hi"}`).want(t, 200)

		for _, edge := range []int{0, 1000, 500} {
			tree := s.get(t, base+fmt.Sprintf("/elements?timeoutMs=9000&marks=true&format=json&name=OK&maxEdge=%d", edge)).want(t, 200).json(t)
			data, err := base64.StdEncoding.DecodeString(tree["screenshot"].(map[string]any)["data"].(string))
			if err != nil {
				t.Fatal(err)
			}
			picture, err := png.Decode(bytes.NewReader(data))
			if err != nil || edge > 0 && picture.Bounds().Dx() != edge {
				t.Fatalf("picture of %v for maxEdge %d, %v", picture.Bounds(), edge, err)
			}
			box := tree["elements"].([]any)[0].(map[string]any)["box"].(map[string]any)
			number := func(member string) int { return int(box[member].(float64)) }
			for _, p := range []image.Point{
				{number("x"), number("y") + number("height")/2},
				{number("x") + number("width") - 1, number("y") + number("height")/2},
				{number("x") + number("width")/2, number("y") + number("height") - 1},
			} {
				if r, g, b, _ := picture.At(p.X, p.Y).RGBA(); r == g && g == b {
					t.Errorf("maxEdge %d: the box %v of the button is not marked at %v: %v", edge, box, p, picture.At(p.X, p.Y))
				}
			}
		}
		box := ok["box"].(map[string]any)
		half := s.get(t, base+"/screenshot?scale=0.5").want(t, 200).Header.Get("Deskhand-Observation")
		small := s.get(t, base+"/elements?timeoutMs=9000&format=json&name=OK&observation="+half).want(t, 200).json(t)["elements"].([]any)[0].(map[string]any)["box"].(map[string]any)
		if got := small["x"].(float64); got < box["x"].(float64)/2-1 || got > box["x"].(float64)/2+1 {
			t.Errorf("box in a picture of half the size: %v, on the screen: %v", small, box)
		}

		if done := s.post(t, base+"/elements/"+strings.TrimPrefix(ref, "@"), `{"do":"click"}`).want(t, 200).json(t); done["via"] != "pointer" || done["x"] == nil {
			t.Errorf("click = %v", done)
		}
		s.post(t, base+"/elements/wait", `{"name":"OK","gone":true}`).want(t, 200)
		s.post(t, base+"/elements/"+ref, `{"do":"click"}`).problem(t, 409, "stale_element")
	}
}

// TestElementProblems: bad arguments, scopes, and elements that do not come.
func TestElementProblems(t *testing.T) {
	t.Parallel()
	testx11.Require(t, "/usr/libexec/at-spi-bus-launcher")
	s := startReal(t, Config{}, `{}`)
	for _, query := range []string{
		"role=knob", "name=~(", "states=sleepy", "limit=0", "limit=-1", "limit=5001", "timeoutMs=0", "timeoutMs=99999999", "depth=101", "root=x", "observation=x",
	} {
		s.get(t, "/v1/desktop/elements?"+query).problem(t, 400, "desktop_invalid_action")
	}
	s.get(t, "/v1/desktop/elements?window=5").problem(t, 404, "window_not_found")
	s.post(t, "/v1/desktop/elements/@e5", `{"do":"click"}`).problem(t, 409, "stale_element")
	s.post(t, "/v1/desktop/elements/x", `{"do":"click"}`).problem(t, 400, "desktop_invalid_action")
	s.post(t, "/v1/desktop/elements/wait", `{"name":"Save","timeoutMs":1}`).problem(t, 504, "timeout")
	s.post(t, "/v1/desktop/elements/wait", `{}`).problem(t, 400, "desktop_invalid_action")
	s.get(t, "/v1/desktops/none/elements").problem(t, 404, "not_found")

	_, token := s.token(t, `{"scope":"view"}`)
	_, control := s.token(t, `{"scope":"control"}`)
	for _, c := range []struct {
		call
		view, control int
	}{
		{call{path: "/v1/desktop/elements"}, 200, 200},
		{call{path: "/v1/desktop/elements?all=true"}, 403, 200},
		{call{method: "POST", path: "/v1/desktop/elements/find", body: `{}`}, 200, 200},
		{call{method: "POST", path: "/v1/desktop/elements/find", body: `{"all":true}`}, 403, 200},
		{call{method: "POST", path: "/v1/desktop/elements/wait", body: `{"name":"x","timeoutMs":1}`}, 504, 504},
		{call{method: "POST", path: "/v1/desktop/elements/@e1", body: `{"do":"click"}`}, 403, 409},
	} {
		for token, want := range map[string]int{token: c.view, control: c.control} {
			c.header = map[string]string{"Authorization": "Bearer " + token}
			if a := s.do(t, c.call); a.StatusCode != want {
				t.Errorf("%s %s: %d, want %d: %s", c.method, c.path, a.StatusCode, want, a.body)
			}
		}
	}
}

// TestElementFields: a token of scope view gets no text of fields, of which the screen may show a
// part, and cannot match it.
func TestElementFields(t *testing.T) {
	t.Parallel()
	testx11.Require(t, "/usr/libexec/at-spi-bus-launcher", "zenity")
	s := startReal(t, Config{}, `{}`)
	s.post(t, "/v1/desktop/launch", `{"app":"zenity","args":["--entry","--entry-text=`+strings.Repeat("far ", 100)+`hunter2"],"wait":true}`).want(t, 200)
	s.post(t, "/v1/desktop/elements/wait", `{"text":"~hunter2"}`).want(t, 200)
	for scope, shown := range map[string]bool{"view": false, "control": true, "admin": true} {
		_, token := s.token(t, `{"scope":"`+scope+`"}`)
		for _, c := range []call{
			{path: "/v1/desktop/elements?format=json&timeoutMs=9000"},
			{path: "/v1/desktop/elements?text=~hunter2&format=json&timeoutMs=9000"},
			{method: "POST", path: "/v1/desktop/elements/find", body: `{"role":"text","timeoutMs":9000}`},
			{method: "POST", path: "/v1/desktop/elements/wait", body: `{"role":"text"}`},
		} {
			c.header = map[string]string{"Authorization": "Bearer " + token}
			if a := s.do(t, c).want(t, 200); strings.Contains(string(a.body), "hunter2") != shown {
				t.Errorf("%s with a token of scope %s: %s", c.path, scope, a.body)
			}
		}
		wait := call{method: "POST", path: "/v1/desktop/elements/wait", body: `{"text":"~hunter2","timeoutMs":1}`, header: map[string]string{"Authorization": "Bearer " + token}}
		if a := s.do(t, wait); !shown && a.StatusCode != 504 {
			t.Errorf("wait with a token of scope %s: %d %s", scope, a.StatusCode, a.body)
		}
	}
}

// TestElementActions uses elements in a list of actions.
func TestElementActions(t *testing.T) {
	t.Parallel()
	testx11.Require(t, "/usr/libexec/at-spi-bus-launcher", "zenity")
	s := startReal(t, Config{}, `{}`)
	s.post(t, "/v1/desktop/actions", `{"actions":[{"type":"launch","app":"zenity","args":["--info"],"wait":true},
		{"type":"wait","until":"element","role":"button","name":"OK","timeoutMs":9000}]}`).want(t, 200)
	ref := s.post(t, "/v1/desktop/elements/wait", `{"name":"OK"}`).want(t, 200).json(t)["element"].(map[string]any)["ref"].(string)
	answer := s.post(t, "/v1/desktop/actions", `{"actions":[{"type":"element","ref":"`+ref+`","do":"focus"}],"observe":{"elements":{"outline":true}}}`).want(t, 200).json(t)
	outline := fmt.Sprint(answer["elements"].(map[string]any)["outline"])
	if answer["done"] != 1.0 || !strings.Contains(outline, ref+` button "OK"`) {
		t.Errorf("answer = %v", answer)
	}
	answer = s.post(t, "/v1/desktop/actions", `{"actions":[{"type":"element","ref":"`+ref+`","do":"click"},
		{"type":"wait","until":"gone","role":"button","name":"OK","timeoutMs":9000},{"type":"element","ref":"`+ref+`","do":"click"}]}`).want(t, 200).json(t)
	if answer["done"] != 2.0 || !strings.Contains(fmt.Sprint(answer["results"]), "stale_element") {
		t.Errorf("answer = %v", answer)
	}
}

// TestElementsAsTools uses the elements of a dialog as an agent does.
func TestElementsAsTools(t *testing.T) {
	t.Parallel()
	testx11.Require(t, "/usr/libexec/at-spi-bus-launcher", "zenity")
	s := startReal(t, Config{}, `{}`)
	s.post(t, "/v1/desktop/launch", `{"app":"zenity","args":["--entry","--title=Ask","--text=Hello"],"wait":true}`).want(t, 200)
	s.post(t, "/v1/desktop/elements/wait", `{"role":"button","name":"OK","states":["enabled"]}`).want(t, 200)
	session, err := s.mcpClient(t, "", s.Token(), "")
	if err != nil {
		t.Fatal(err)
	}
	list, images, failed := callTool(t, session, "elements", map[string]any{"role": "button"})
	found := regexp.MustCompile(`(@e\d+) button "OK" \[(\d+),(\d+) `).FindStringSubmatch(list)
	if failed || images != 0 || found == nil {
		t.Fatalf("elements = %v %s", failed, list)
	}
	// Positions are in the picture, which is smaller than the screen.
	screen := s.post(t, "/v1/desktop/elements/find", `{"role":"button","name":"OK"}`).want(t, 200).json(t)["elements"].([]any)[0].(map[string]any)
	x, _ := strconv.Atoi(found[2])
	if box := screen["box"].(map[string]any); screen["ref"] != found[1] || math.Abs(float64(x)-box["x"].(float64)*1356/1440) > 2 {
		t.Errorf("the button is %v, and %s in the picture", screen, found[0])
	}
	if text, _, failed := callTool(t, session, "element", map[string]any{"ref": found[1], "do": "fly"}); !failed || !strings.Contains(text, "click") {
		t.Errorf("an unknown verb: %v %s", failed, text)
	}
	if text, images, failed := callTool(t, session, "element", map[string]any{"ref": found[1], "do": "click"}); failed || images != 1 || !strings.Contains(text, "click, with pointer") {
		t.Errorf("element = %v %s", failed, text)
	}
	s.post(t, "/v1/desktop/elements/wait", `{"role":"button","name":"OK","gone":true}`).want(t, 200)
	if text, _, failed := callTool(t, session, "element", map[string]any{"ref": found[1], "do": "click"}); !failed || !strings.Contains(text, "gone") {
		t.Errorf("an element that is gone: %v %s", failed, text)
	}
}
