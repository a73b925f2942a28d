package computer

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/desktop/batch"
)

// Limits of a call.
const (
	maxSeconds = 60

	// maxControlWait bounds waitControlMs.
	maxControlWait = 600_000

	maxActions = 100
	maxKeys    = 100
	maxDelay   = 10_000 // milliseconds
)

// input has the parameters of all tools, in Anthropic's and OpenAI's dialects.
type input struct {
	Action  string            `json:"action"`
	Type    string            `json:"type"` // OpenAI's word for action
	Actions []json.RawMessage `json:"actions"`
	Expect  string            `json:"expect"`
	StopOn  []batch.Stop      `json:"stopOn"`

	Coordinate *pair    `json:"coordinate"`
	Start      *pair    `json:"start_coordinate"`
	X          *float64 `json:"x"`
	Y          *float64 `json:"y"`
	Path       []pair   `json:"path"`
	Button     string   `json:"button"`
	Count      *float64 `json:"count"`
	Modifiers  keys     `json:"modifiers"`

	Ref   string   `json:"ref"`
	Do    string   `json:"do"`
	Value string   `json:"value"`
	Role  string   `json:"role"`
	Name  string   `json:"name"`
	Limit *float64 `json:"limit"`

	Text      *string  `json:"text"`
	Secret    string   `json:"secret"`
	Keys      keys     `json:"keys"`
	Key       string   `json:"key"`
	Repeat    *float64 `json:"repeat"`
	Duration  *float64 `json:"duration"`
	Direction string   `json:"scroll_direction"`
	Amount    *float64 `json:"scroll_amount"`
	ScrollX   *float64 `json:"scroll_x"`
	ScrollY   *float64 `json:"scroll_y"`
	Region    *region  `json:"region"`

	Window json.RawMessage `json:"window"`
	Width  *float64        `json:"width"`
	Height *float64        `json:"height"`
	App    string          `json:"app"`
	Args   []string        `json:"args"`
	Wait   *bool           `json:"wait"`
	Target string          `json:"target"`
	Kind   string          `json:"kind"`

	DelayMS *float64          `json:"delayMs"`
	Mode    string            `json:"mode"`
	Env     map[string]string `json:"env"`
	Cwd     string            `json:"cwd"`
	Ready   *bool             `json:"ready"`

	Screenshot  *bool   `json:"screenshot"`
	WaitControl float64 `json:"waitControlMs"`
}

// inputError reports an invalid parameter and what would be valid.
type inputError struct{ text string }

func (e *inputError) Error() string { return e.text }

func badf(format string, args ...any) error { return &inputError{fmt.Sprintf(format, args...)} }

// decode decodes a call's arguments. It ignores unknown members, since models add some.
func decode(arguments json.RawMessage) (*input, error) {
	in := new(input)
	if len(bytes.TrimSpace(arguments)) == 0 {
		return in, nil
	}
	return in, decodeArguments(arguments, in)
}

func decodeArguments(arguments json.RawMessage, into any) error {
	err := json.Unmarshal(arguments, into)
	var bad *inputError
	var typed *json.UnmarshalTypeError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &bad):
		return bad
	case errors.As(err, &typed) && typed.Field != "":
		return badf("%s: must be %s, and is a %s", typed.Field, expected(typed), typed.Value)
	default:
		return badf("the arguments must be a JSON object with the tool's parameters: %v", err)
	}
}

// expected names the type that a member should have had.
func expected(e *json.UnmarshalTypeError) string {
	switch e.Type.Kind().String() {
	case "float64":
		return "a number"
	case "bool":
		return "true or false"
	case "slice":
		return "a list"
	case "struct", "map":
		return "an object"
	default:
		return "a string"
	}
}

// pair is a position: Anthropic's [x, y] or OpenAI's {"x": 1, "y": 2}.
type pair struct{ X, Y float64 }

// UnmarshalJSON implements json.Unmarshaler.
func (p *pair) UnmarshalJSON(data []byte) error {
	var list []float64
	data = unquoted(data)
	if err := json.Unmarshal(data, &list); err == nil && len(list) == 2 {
		p.X, p.Y = list[0], list[1]
		return nil
	}
	var object struct{ X, Y *float64 }
	if err := json.Unmarshal(data, &object); err == nil && object.X != nil && object.Y != nil {
		p.X, p.Y = *object.X, *object.Y
		return nil
	}
	return badf("a coordinate must be [x, y], two numbers; this is %.80s", data)
}

// unquoted returns the list in a string: some models write "[100, 50]".
func unquoted(data []byte) []byte {
	var text string
	if json.Unmarshal(data, &text) == nil && strings.HasPrefix(text, "[") {
		return []byte(text)
	}
	return data
}

// region is [x0, y0, x1, y1].
type region [4]float64

// UnmarshalJSON implements json.Unmarshaler.
func (r *region) UnmarshalJSON(data []byte) error {
	var list []float64
	if err := json.Unmarshal(unquoted(data), &list); err != nil || len(list) != 4 {
		return badf("region: must be [x0, y0, x1, y1], four numbers; this is %.80s", data)
	}
	copy(r[:], list)
	return nil
}

// keys is a list of key names, in JSON also a single string.
type keys []string

// UnmarshalJSON implements json.Unmarshaler.
func (k *keys) UnmarshalJSON(data []byte) error {
	var list []string
	var one string
	switch {
	case json.Unmarshal(data, &one) == nil:
		if one != "" {
			*k = keys{one}
		}
	case json.Unmarshal(data, &list) == nil:
		*k = list
	default:
		return badf("keys must be named by a list of strings, such as [\"ctrl\", \"s\"]; this is %.80s", data)
	}
	return nil
}

// integer converts a number without a fraction.
func integer(field string, v float64) (int, error) {
	if v != math.Trunc(v) || math.Abs(v) > 1<<20 {
		return 0, badf("%s: must be a whole number, and is %v", field, v)
	}
	return int(v), nil
}

// pixel returns the pixel that a coordinate is in.
func pixel(field string, v float64) (int, error) { return integer(field, math.Floor(v)) }

// pixels converts both numbers.
func (p pair) pixels(field string) (x, y int, err error) {
	x, errX := pixel(field, p.X)
	y, errY := pixel(field, p.Y)
	return x, y, cmp.Or(errX, errY)
}

// position returns the position of a pointer action, or nil if there is none.
func (in *input) position() (*pair, error) {
	switch {
	case in.Coordinate != nil:
		return in.Coordinate, nil
	case in.X == nil && in.Y == nil:
		return nil, nil
	case in.X == nil || in.Y == nil:
		return nil, badf("coordinate: x and y must both be given, or neither")
	}
	return &pair{*in.X, *in.Y}, nil
}

// modifiers returns the modifiers to hold during a pointer action, from "ctrl+shift" in text or
// modifiers, or from a list.
func (in *input) modifiers() []string {
	all := append([]string(in.Modifiers), in.Keys...)
	if in.Text != nil && *in.Text != "" {
		all = append(all, *in.Text)
	}
	var names []string
	for _, m := range all {
		for name := range strings.SplitSeq(m, "+") {
			if name = strings.TrimSpace(name); name != "" {
				names = append(names, strings.ToLower(name))
			}
		}
	}
	return names
}

// seconds returns the duration, or without if there is none.
func (in *input) seconds(without float64) (float64, error) {
	if in.Duration == nil {
		return without, nil
	}
	if d := *in.Duration; d >= 0 && d <= maxSeconds { // false for NaN
		return d, nil
	}
	return 0, badf("duration: must be between 0 and %d seconds, and is %v", maxSeconds, *in.Duration)
}

// button returns the pointer button. OpenAI calls the middle one wheel.
func (in *input) button() desktop.Button {
	if in.Button == "wheel" {
		return desktop.ButtonMiddle
	}
	return desktop.Button(in.Button)
}
