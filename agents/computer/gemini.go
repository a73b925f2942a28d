package computer

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/deskhand/deskhand/desktop"
)

// geminiTools follow Google's documentation of computer use, and the types of @google/genai
// (ComputerUse).
var geminiTools = map[string]func(desktop.Size) object{
	"":             geminiTool("ENVIRONMENT_DESKTOP"),
	"desktop":      geminiTool("ENVIRONMENT_DESKTOP"),
	"browser":      geminiTool("ENVIRONMENT_BROWSER"),
	"interactions": func(desktop.Size) object { return object{"type": "computer_use", "environment": "desktop"} },
}

func geminiTool(environment string) func(desktop.Size) object {
	return func(desktop.Size) object { return object{"computerUse": object{"environment": environment}} }
}

// geminiGrid is the number of steps into which Gemini's models divide each edge of a picture.
const geminiGrid = 1000

// geminiArguments are the arguments of all functions.
type geminiArguments struct {
	X, Y         *float64
	StartX       *float64 `json:"start_x"`
	StartY       *float64 `json:"start_y"`
	EndX         *float64 `json:"end_x"`
	EndY         *float64 `json:"end_y"`
	DestinationX *float64 `json:"destination_x"`
	DestinationY *float64 `json:"destination_y"`

	Text      string
	Enter     *bool `json:"press_enter"`
	Clear     *bool `json:"clear_before_typing"`
	Key       string
	Keys      keys
	URL       string
	Seconds   *float64
	Direction string
	Magnitude *float64 // of the grid
	Pixels    *float64 `json:"magnitude_in_pixels"`

	Safety struct{ Decision, Explanation string } `json:"safety_decision"`
}

// geminiCall is a call whose positions are mapped to a picture.
type geminiCall struct {
	geminiArguments
	size desktop.Size
}

// geminiFunctions returns, for each function, its actions as arguments of the tool
// computer.
var geminiFunctions = map[string]func(*geminiCall) ([]object, error){
	"click":           pointed("left_click"),
	"double_click":    pointed("double_click"),
	"triple_click":    pointed("triple_click"),
	"middle_click":    pointed("middle_click"),
	"right_click":     pointed("right_click"),
	"mouse_down":      pointed("left_mouse_down"),
	"mouse_up":        pointed("left_mouse_up"),
	"move":            pointed("move"),
	"click_at":        pointed("left_click"),
	"hover_at":        pointed("move"),
	"type":            (*geminiCall).typeText,
	"type_text_at":    (*geminiCall).typeTextAt,
	"drag_and_drop":   (*geminiCall).drag,
	"scroll":          (*geminiCall).scroll,
	"scroll_at":       (*geminiCall).scrollAt,
	"scroll_document": (*geminiCall).scrollDocument,
	"press_key":       (*geminiCall).press,
	"hotkey":          (*geminiCall).press,
	"key_combination": (*geminiCall).press,
	"key_down":        func(c *geminiCall) ([]object, error) { return []object{{"action": "key_down", "text": c.Key}}, nil },
	"key_up":          func(c *geminiCall) ([]object, error) { return []object{{"action": "key_up", "text": c.Key}}, nil },
	"wait": func(c *geminiCall) ([]object, error) {
		return []object{{"action": "wait", "duration": valueOr(c.Seconds, 1)}}, nil
	},
	"wait_5_seconds":  func(*geminiCall) ([]object, error) { return []object{{"action": "wait", "duration": 5}}, nil },
	"take_screenshot": func(*geminiCall) ([]object, error) { return []object{{"action": "screenshot"}}, nil },

	"open_web_browser": func(*geminiCall) ([]object, error) { return []object{{"action": "open", "target": "about:blank"}}, nil },
	"search": func(*geminiCall) ([]object, error) {
		return []object{{"action": "open", "target": geminiSearch}}, nil
	},
	"navigate":   func(c *geminiCall) ([]object, error) { return []object{{"action": "open", "target": c.URL}}, nil },
	"go_back":    func(*geminiCall) ([]object, error) { return []object{{"action": "key", "text": "alt+Left"}}, nil },
	"go_forward": func(*geminiCall) ([]object, error) { return []object{{"action": "key", "text": "alt+Right"}}, nil },
}

func valueOr[T any](p *T, without T) T {
	if p == nil {
		return without
	}
	return *p
}

// point maps a position on the grid to the picture.
func (c *geminiCall) point(nameX string, x *float64, nameY string, y *float64) ([2]int, error) {
	var at [2]int
	for i, v := range []struct {
		name  string
		value *float64
		edge  int
	}{{nameX, x, c.size.Width}, {nameY, y, c.size.Height}} {
		if v.value == nil || !(*v.value >= 0 && *v.value <= geminiGrid) { // also NaN
			return at, badf("%s: must be a number from 0 to %d", v.name, geminiGrid-1)
		}
		at[i] = min(int(*v.value*float64(v.edge)/geminiGrid), v.edge-1)
	}
	return at, nil
}

// pointed returns the function that does an action at x and y.
func pointed(action string) func(*geminiCall) ([]object, error) {
	return func(c *geminiCall) ([]object, error) {
		at, err := c.point("x", c.X, "y", c.Y)
		return []object{{"action": action, "coordinate": at}}, err
	}
}

func (c *geminiCall) typeText() ([]object, error) {
	list := []object{{"action": "type", "text": c.Text}}
	if valueOr(c.Enter, false) {
		list = append(list, object{"action": "key", "text": "Return"})
	}
	return list, nil
}

// typeTextAt clicks, replaces what is there, and presses Return, unless the arguments say
// otherwise.
func (c *geminiCall) typeTextAt() ([]object, error) {
	list, err := pointed("left_click")(c)
	if valueOr(c.Clear, true) {
		list = append(list, object{"action": "key", "text": "ctrl+a BackSpace"})
	}
	list = append(list, object{"action": "type", "text": c.Text})
	if valueOr(c.Enter, true) {
		list = append(list, object{"action": "key", "text": "Return"})
	}
	return list, err
}

func (c *geminiCall) drag() ([]object, error) {
	startX, startY, endX, endY := c.StartX, c.StartY, c.EndX, c.EndY
	names := [4]string{"start_x", "start_y", "end_x", "end_y"}
	if startX == nil && startY == nil { // Gemini 2.5
		startX, startY, endX, endY = c.X, c.Y, c.DestinationX, c.DestinationY
		names = [4]string{"x", "y", "destination_x", "destination_y"}
	}
	from, err := c.point(names[0], startX, names[1], startY)
	if err != nil {
		return nil, err
	}
	to, err := c.point(names[2], endX, names[3], endY)
	return []object{{"action": "drag", "start_coordinate": from, "coordinate": to}}, err
}

func (c *geminiCall) press() ([]object, error) {
	if c.Key != "" {
		c.Keys = keys{c.Key}
	}
	return []object{{"action": "key", "keys": c.Keys}}, nil
}

// scroll scrolls by pixels of the picture.
func (c *geminiCall) scroll() ([]object, error) {
	at, err := c.point("x", c.X, "y", c.Y)
	if err != nil {
		return nil, err
	}
	return c.scrollBy(at, valueOr(c.Pixels, 300))
}

// scrollAt scrolls by steps of the grid.
func (c *geminiCall) scrollAt() ([]object, error) {
	at, err := c.point("x", c.X, "y", c.Y)
	if err != nil {
		return nil, err
	}
	return c.scrollBy(at, valueOr(c.Magnitude, 800)/geminiGrid*c.edge())
}

// scrollDocument scrolls what is in the middle by most of a page.
func (c *geminiCall) scrollDocument() ([]object, error) {
	return c.scrollBy([2]int{c.size.Width / 2, c.size.Height / 2}, 0.8*c.edge())
}

// edge returns the length of the edge along which the direction goes.
func (c *geminiCall) edge() float64 {
	if c.Direction == "left" || c.Direction == "right" {
		return float64(c.size.Width)
	}
	return float64(c.size.Height)
}

func (c *geminiCall) scrollBy(at [2]int, distance float64) ([]object, error) {
	by, ok := map[string][2]float64{"up": {0, -1}, "down": {0, 1}, "left": {-1, 0}, "right": {1, 0}}[c.Direction]
	if !ok {
		return nil, badf("direction: must be up, down, left or right, and is %.80q", c.Direction)
	}
	distance = math.Round(distance)
	return []object{{"action": "scroll", "coordinate": at, "scroll_x": by[0] * distance, "scroll_y": by[1] * distance}}, nil
}

// callGemini executes a functionCall, or a function_call of the Interactions API. The result
// has the screenshot.
func (s *Server) callGemini(ctx context.Context, raw json.RawMessage) (any, error) {
	var call struct {
		Type, ID, Name string
		Args           json.RawMessage
		Arguments      json.RawMessage // Interactions API
		Acknowledged   json.RawMessage `json:"safety_acknowledgement"`
	}
	if err := decodeCall(raw, &call); err != nil {
		return nil, err
	}
	if call.Name == "" {
		return nil, &InvalidError{"name", "is missing; it is the name of the function"}
	}
	acknowledged := slices.Contains([]string{`true`, `"true"`}, string(call.Acknowledged))
	done, url := s.performGemini(ctx, call.Name, slices.Concat(call.Args, call.Arguments), acknowledged)
	response := object{"output": done.text}
	if url != "" {
		response["url"] = url
	}
	if done.failed {
		response = object{"error": done.text}
	}
	if acknowledged {
		response["safety_acknowledgement"] = "true"
	}
	if call.Type == "function_call" {
		text, err := json.Marshal(response)
		if err != nil {
			return nil, err
		}
		result := []any{object{"type": "text", "text": string(text)}}
		if pic := done.picture; pic != nil {
			result = append(result, object{"type": "image", "data": pic.Data, "mime_type": mediaType(pic)})
		}
		return object{"type": "function_result", "call_id": call.ID, "name": call.Name, "result": result, "is_error": done.failed}, nil
	}
	out := object{"name": call.Name, "response": response}
	if call.ID != "" {
		out["id"] = call.ID
	}
	if pic := done.picture; pic != nil {
		out["parts"] = []any{object{"inlineData": object{"mimeType": mediaType(pic), "data": pic.Data}}}
	}
	return out, nil
}

func (s *Server) performGemini(ctx context.Context, name string, arguments json.RawMessage, acknowledged bool) (done performed, url string) {
	look := []json.RawMessage{json.RawMessage(`{"action":"screenshot"}`)}
	call, err := s.geminiCall(ctx, name, arguments, acknowledged)
	if command, ok := geminiPages[name]; err == nil && ok && s.cfg.Browser != nil {
		if url, err = s.browsePage(ctx, command, call.URL); err == nil {
			return s.perform(ctx, look, true), url
		}
	}
	var list []json.RawMessage
	if err == nil {
		list, err = call.actions(name)
	}
	if err == nil {
		return s.perform(ctx, list, true), ""
	}
	done = s.perform(ctx, look, true)
	return performed{text: explain(err), picture: done.picture, failed: true}, url
}

// geminiSearch is the page of the function search.
const geminiSearch = "https://www.google.com"

// geminiPages has the functions of pages, and the commands of Config.Browser for them.
var geminiPages = map[string]string{
	"open_web_browser": "tabs", "search": "navigate", "navigate": "navigate", "go_back": "back", "go_forward": "forward",
}

// browsePage executes a command of the browser, and returns the URL of the page if the command
// has one.
func (s *Server) browsePage(ctx context.Context, command, url string) (string, error) {
	args := object{}
	if command == "navigate" {
		args["url"] = cmp.Or(url, geminiSearch)
	}
	raw, err := json.Marshal(args)
	if err != nil {
		return "", err
	}
	result, err := s.cfg.Browser(ctx, command, raw)
	if err != nil {
		return "", err
	}
	var page struct{ URL string }
	_ = json.Unmarshal(result, &page) // the list of tabs has none
	return page.URL, nil
}

// geminiCall checks a call.
func (s *Server) geminiCall(ctx context.Context, name string, arguments json.RawMessage, acknowledged bool) (*geminiCall, error) {
	if _, ok := geminiFunctions[name]; !ok {
		return nil, badf("there is no function %.80q; there are %s", name, strings.Join(slices.Sorted(maps.Keys(geminiFunctions)), ", "))
	}
	call := &geminiCall{}
	if len(arguments) > 0 {
		if err := decodeArguments(arguments, &call.geminiArguments); err != nil {
			return nil, err
		}
	}
	if call.Safety.Decision == "require_confirmation" && !acknowledged {
		return nil, badf("the user must confirm this action before it is executed: %s", call.Safety.Explanation)
	}
	if name == "navigate" && call.URL == "" {
		return nil, badf("url: is missing; give the URL of the page")
	}
	of, err := s.view(ctx)
	call.size = of.Size
	return call, err
}

// actions returns the arguments of the tool computer for a function.
func (c *geminiCall) actions(name string) ([]json.RawMessage, error) {
	actions, err := geminiFunctions[name](c)
	if err != nil {
		return nil, err
	}
	list := make([]json.RawMessage, len(actions))
	for i, a := range actions {
		if list[i], err = json.Marshal(a); err != nil {
			return nil, fmt.Errorf("encode %s: %w", name, err)
		}
	}
	return list, nil
}
