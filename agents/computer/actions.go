package computer

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/deskhand/deskhand/desktop"
)

// action is the implementation of a tool.
type action func(s *Server, ctx context.Context, in *input) (outcome, error)

// actions has all actions by all their names: the names of the tools, then other names
// that Anthropic's and OpenAI's models use.
var actions = map[string]action{
	"screenshot":      (*Server).screenshot,
	"zoom":            (*Server).zoom,
	"cursor_position": (*Server).cursorPosition,
	"wait":            (*Server).wait,
	"click":           clicks("", 0),
	"drag":            (*Server).drag,
	"move":            (*Server).move,
	"scroll":          (*Server).scroll,
	"type":            (*Server).typeText,
	"key":             (*Server).key,
	"hold_key":        (*Server).holdKey,
	"windows":         (*Server).windows,
	"clipboard_get":   (*Server).clipboardGet,
	"clipboard_set":   (*Server).clipboardSet,
	"launch":          (*Server).launch,
	"open":            (*Server).open,

	"left_click":       clicks(desktop.ButtonLeft, 1),
	"right_click":      clicks(desktop.ButtonRight, 1),
	"middle_click":     clicks(desktop.ButtonMiddle, 1),
	"double_click":     clicks("", 2),
	"triple_click":     clicks("", 3),
	"mouse_move":       (*Server).move,
	"left_click_drag":  (*Server).drag,
	"left_mouse_down":  buttons(true),
	"left_mouse_up":    buttons(false),
	"keypress":         (*Server).key,
	"get_cursor_state": (*Server).cursorPosition,
}

func (s *Server) do(ctx context.Context, name string, in *input) (outcome, error) {
	if name != "computer" {
		return actions[name](s, ctx, in)
	}
	switch {
	case in.Actions != nil && (in.Action != "" || in.Type != ""):
		return outcome{}, badf("actions: cannot be given together with action; put everything into actions")
	case in.Actions != nil:
		return s.batch(ctx, in.Actions)
	}
	return s.act(ctx, in)
}

// act executes the action that an input names.
func (s *Server) act(ctx context.Context, in *input) (outcome, error) {
	name := in.Action
	if name == "" {
		name = in.Type
	}
	do, ok := actions[name]
	switch {
	case name == "":
		return outcome{}, badf("action: is missing; name one of %s", actionNames())
	case !ok:
		return outcome{}, badf("action: there is no %q; there are %s", name, actionNames())
	}
	return do(s, ctx, in)
}

func actionNames() string {
	return strings.Join(slices.Sorted(maps.Keys(actions)), ", ")
}

// batch executes several actions. Only the last one's picture is returned.
func (s *Server) batch(ctx context.Context, list []json.RawMessage) (outcome, error) {
	if len(list) == 0 || len(list) > maxActions {
		return outcome{}, badf("actions: must hold 1 to %d actions, and holds %d", maxActions, len(list))
	}
	inputs := make([]*input, len(list))
	for i, raw := range list {
		var err error
		if inputs[i], err = decode(raw); err != nil {
			return outcome{}, fmt.Errorf("action %d of %d: %w; none was done", i+1, len(list), err)
		}
	}
	all := outcome{}
	var texts []string
	size := 0
	for i, in := range inputs {
		done, err := s.act(ctx, in)
		if size += len(done.text); err == nil && size > maxText {
			err = badf("the texts of all actions have more than %d bytes", maxText)
		}
		if err != nil {
			return outcome{}, fmt.Errorf("action %d of %d: %w; %d before it were done: take a screenshot to see where that led", i+1, len(list), err, i)
		}
		texts = append(texts, done.text)
		all.acted = all.acted || done.acted
		all.picture, all.content = done.picture, done.content
	}
	all.text = strings.Join(texts, " ")
	return all, nil
}

// place returns the position of a pointer action and its observation, or nil and "" if the
// action is at the pointer's position.
func (s *Server) place(ctx context.Context, in *input) (*desktop.Point, string, error) {
	p, err := in.position()
	if p == nil || err != nil {
		return nil, "", err
	}
	of, err := s.view(ctx)
	if err != nil {
		return nil, "", err
	}
	at, err := locate("coordinate", *p, of)
	return &at, of.ID, err
}

func where(at *desktop.Point) string {
	if at == nil {
		return "where the pointer is"
	}
	return fmt.Sprintf("at [%d, %d]", at.X, at.Y)
}

// clicks returns the action that clicks a button count times. An empty button or a zero count
// is taken from the input.
func clicks(button desktop.Button, count int) action {
	return func(s *Server, ctx context.Context, in *input) (outcome, error) {
		at, observation, err := s.place(ctx, in)
		if err != nil {
			return outcome{}, err
		}
		c := desktop.Click{At: at, Button: button, Count: count, Modifiers: in.modifiers(), Observation: observation}
		if c.Button == "" {
			c.Button = in.button()
		}
		if c.Count == 0 {
			c.Count = 1
			if in.Count != nil {
				if c.Count, err = integer("count", *in.Count); err != nil || c.Count < 1 || c.Count > 100 {
					return outcome{}, badf("count: must be a whole number from 1 to 100, and is %v", *in.Count)
				}
			}
		}
		if _, err := s.desk.Click(ctx, c); err != nil {
			return outcome{}, err
		}
		how := map[int]string{1: "Clicked", 2: "Double-clicked", 3: "Triple-clicked"}[c.Count]
		if how == "" {
			how = fmt.Sprintf("Clicked %d times", c.Count)
		}
		if c.Button != "" && c.Button != desktop.ButtonLeft {
			how += " the " + string(c.Button) + " button"
		}
		return outcome{text: fmt.Sprintf("%s %s.", how, where(at)), acted: true}, nil
	}
}

// buttons returns the action that presses or releases a button.
func buttons(down bool) action {
	return func(s *Server, ctx context.Context, in *input) (outcome, error) {
		at, observation, err := s.place(ctx, in)
		if err != nil {
			return outcome{}, err
		}
		b := desktop.ButtonPress{At: at, Button: in.button(), Modifiers: in.modifiers(), Observation: observation}
		if down {
			_, err = s.desk.ButtonDown(ctx, b)
			return outcome{text: fmt.Sprintf("The button is down %s. left_mouse_up releases it.", where(at)), acted: true}, err
		}
		_, err = s.desk.ButtonUp(ctx, b)
		return outcome{text: fmt.Sprintf("The button was released %s.", where(at)), acted: true}, err
	}
}

func (s *Server) move(ctx context.Context, in *input) (outcome, error) {
	at, observation, err := s.place(ctx, in)
	switch {
	case err != nil:
		return outcome{}, err
	case at == nil:
		return outcome{}, badf("coordinate: is missing; give [x, y] in pixels of the screenshot")
	}
	_, err = s.desk.Move(ctx, desktop.Move{At: *at, Modifiers: in.modifiers(), Observation: observation})
	return outcome{text: fmt.Sprintf("The pointer is %s.", where(at)), acted: true}, err
}

func (s *Server) drag(ctx context.Context, in *input) (outcome, error) {
	path := in.Path
	if path == nil {
		end, err := in.position()
		switch {
		case err != nil:
			return outcome{}, err
		case end == nil:
			return outcome{}, badf("coordinate: is missing; give the end of the drag as [x, y]")
		case in.Start == nil:
			return outcome{}, badf("start_coordinate: is missing; give the beginning of the drag as [x, y]")
		}
		path = []pair{*in.Start, *end}
	}
	if len(path) < 2 {
		return outcome{}, badf("path: must have at least two points")
	}
	of, err := s.view(ctx)
	if err != nil {
		return outcome{}, err
	}
	d := desktop.Drag{Button: in.button(), Modifiers: in.modifiers(), Observation: of.ID}
	for i, p := range path {
		field := fmt.Sprintf("path[%d]", i)
		if in.Path == nil {
			field = []string{"start_coordinate", "coordinate"}[i]
		}
		at, err := locate(field, p, of)
		if err != nil {
			return outcome{}, err
		}
		d.Path = append(d.Path, at)
	}
	_, err = s.desk.Drag(ctx, d)
	return outcome{text: fmt.Sprintf("Dragged from [%d, %d] to [%d, %d].", d.Path[0].X, d.Path[0].Y, d.Path[len(d.Path)-1].X, d.Path[len(d.Path)-1].Y), acted: true}, err
}

// pixelsPerClick is how far a click of the wheel scrolls in Chromium on X11. OpenAI's
// models give distances in pixels.
const pixelsPerClick = 53

func (s *Server) scroll(ctx context.Context, in *input) (outcome, error) {
	at, observation, err := s.place(ctx, in)
	if err != nil {
		return outcome{}, err
	}
	w := desktop.Scroll{At: at, Modifiers: in.modifiers(), Observation: observation}
	switch {
	case in.Direction != "":
		amount := 3.0
		if in.Amount != nil {
			amount = *in.Amount
		}
		n, err := integer("scroll_amount", amount)
		if err != nil || n < 1 || n > 1000 {
			return outcome{}, badf("scroll_amount: must be a whole number of clicks of the wheel from 1 to 1000, and is %v", amount)
		}
		to, ok := map[string]desktop.Point{"up": {Y: -n}, "down": {Y: n}, "left": {X: -n}, "right": {X: n}}[in.Direction]
		if !ok {
			return outcome{}, badf("scroll_direction: must be up, down, left or right, and is %q", in.Direction)
		}
		w.DX, w.DY = to.X, to.Y
	case in.ScrollX != 0 || in.ScrollY != 0:
		if w.DX, err = wheel("scroll_x", in.ScrollX); err != nil {
			return outcome{}, err
		}
		if w.DY, err = wheel("scroll_y", in.ScrollY); err != nil {
			return outcome{}, err
		}
	default:
		return outcome{}, badf("scroll_direction: is missing; it must be up, down, left or right")
	}
	_, err = s.desk.Scroll(ctx, w)
	return outcome{text: fmt.Sprintf("Scrolled %s.", where(at)), acted: true}, err
}

// wheel converts pixels to clicks of the wheel, at least one.
func wheel(field string, pixels float64) (int, error) {
	if !(pixels >= -1000*pixelsPerClick && pixels <= 1000*pixelsPerClick) { // also NaN
		return 0, badf("%s: must be between -%d and %d pixels, and is %v", field, 1000*pixelsPerClick, 1000*pixelsPerClick, pixels)
	}
	if pixels != 0 && math.Abs(pixels) < pixelsPerClick {
		pixels = math.Copysign(pixelsPerClick, pixels)
	}
	return int(pixels / pixelsPerClick), nil
}

func (s *Server) typeText(ctx context.Context, in *input) (outcome, error) {
	if in.Text == nil || *in.Text == "" {
		return outcome{}, badf("text: is missing; give the text to type")
	}
	if err := s.desk.Type(ctx, desktop.Type{Text: *in.Text}); err != nil {
		return outcome{}, err
	}
	return outcome{text: fmt.Sprintf("Typed %d characters.", len([]rune(*in.Text))), acted: true}, nil
}

// chords returns the chords to press one after another, from "ctrl+s", "Down Down Return"
// or OpenAI's ["CTRL", "S"], which is one chord.
func (in *input) chords() ([]string, error) {
	var all []string
	switch {
	case len(in.Keys) == 1:
		all = in.Keys
	case len(in.Keys) > 1:
		all = []string{strings.Join(in.Keys, "+")}
	case in.Text != nil && *in.Text == " ":
		all = []string{"space"}
	case in.Text != nil && *in.Text != "":
		all = strings.Fields(*in.Text)
	case in.Key != "":
		all = []string{in.Key}
	}
	if len(all) == 0 || len(all) > maxKeys {
		return nil, badf("text: must name a key or a chord, such as Return or ctrl+s, or up to %d of them with spaces between", maxKeys)
	}
	for i, k := range all {
		if k == " " {
			all[i] = "space"
		}
	}
	return all, nil
}

func (s *Server) key(ctx context.Context, in *input) (outcome, error) {
	chords, err := in.chords()
	if err != nil {
		return outcome{}, err
	}
	for i, k := range chords {
		if err := s.desk.Press(ctx, desktop.Press{Keys: k, Modifiers: in.Modifiers}); err != nil {
			if i > 0 {
				err = fmt.Errorf("%w; the %d keys before %s were pressed", err, i, k)
			}
			return outcome{}, err
		}
	}
	return outcome{text: "Pressed " + strings.Join(chords, " ") + ".", acted: true}, nil
}

// holdKey holds a key for some seconds. It releases the key also after errors.
func (s *Server) holdKey(ctx context.Context, in *input) (outcome, error) {
	chords, err := in.chords()
	if err == nil && len(chords) > 1 {
		err = badf("text: must name one key or chord to hold")
	}
	if err != nil {
		return outcome{}, err
	}
	seconds, err := in.seconds(1)
	if err != nil {
		return outcome{}, err
	}
	if err := s.desk.KeyDown(ctx, chords[0]); err != nil {
		return outcome{}, err
	}
	waited := s.pause(ctx, seconds)
	if err := s.desk.KeyUp(context.WithoutCancel(ctx), chords[0]); err != nil {
		return outcome{}, err
	}
	return outcome{text: fmt.Sprintf("Held %s for %v s.", chords[0], seconds), acted: true}, waited
}

// pause waits for some seconds, or until the desktop is closed.
func (s *Server) pause(ctx context.Context, seconds float64) error {
	timer := time.NewTimer(time.Duration(seconds * float64(time.Second)))
	defer timer.Stop()
	look := time.NewTicker(250 * time.Millisecond)
	defer look.Stop()
	for {
		select {
		case <-timer.C:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case <-look.C:
			if state := s.desk.Status().State; state == desktop.StateStopping || state == desktop.StateInactive {
				return desktop.ErrClosed
			}
		}
	}
}

// wait waits for the input's duration or, without one, until the screen has stopped changing.
func (s *Server) wait(ctx context.Context, in *input) (outcome, error) {
	if in.Duration != nil {
		seconds, err := in.seconds(0)
		if err != nil {
			return outcome{}, err
		}
		return outcome{text: fmt.Sprintf("Waited %v s.", seconds), acted: true}, s.pause(ctx, seconds)
	}
	screenshot, err := s.takeScreenshot(ctx, 500*time.Millisecond, 10*time.Second)
	if err != nil {
		return outcome{}, err
	}
	done := outcome{text: "The screen is still. " + describe(screenshot), picture: screenshot}
	if !screenshot.Settled {
		done.text = "Waited 10 s, and the screen is still changing. " + describe(screenshot)
	}
	if in.Screenshot != nil && !*in.Screenshot {
		done.picture = nil
	}
	return done, nil
}

func (s *Server) cursorPosition(ctx context.Context, _ *input) (outcome, error) {
	of, err := s.view(ctx)
	if err != nil {
		return outcome{}, err
	}
	p, err := s.desk.Pointer(ctx)
	if err != nil {
		return outcome{}, err
	}
	at := inPicture(p.Point, of)
	return outcome{text: fmt.Sprintf("The pointer is at [%d, %d].", at.X, at.Y)}, nil
}
