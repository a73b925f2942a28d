package computer

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/desktop/batch"
)

// action is the implementation of a tool.
type action func(s *seat, ctx context.Context, in *input) (outcome, error)

// actions has all actions by all their names: the names of the tools, then other names
// that Anthropic's and OpenAI's models use.
var actions = map[string]action{
	"screenshot":      (*seat).screenshot,
	"zoom":            (*seat).zoom,
	"cursor_position": (*seat).cursorPosition,
	"wait":            (*seat).wait,
	"click":           clicks("", 0),
	"drag":            (*seat).drag,
	"move":            (*seat).move,
	"scroll":          (*seat).scroll,
	"type":            (*seat).typeText,
	"key":             (*seat).key,
	"hold_key":        (*seat).holdKey,
	"windows":         (*seat).windows,
	"clipboard_get":   (*seat).clipboardGet,
	"clipboard_set":   (*seat).clipboardSet,
	"launch":          (*seat).launch,
	"open":            (*seat).open,
	"choose_file":     (*seat).chooseFile,
	"elements":        (*seat).listElements,
	"element":         (*seat).useElement,

	"left_click":       clicks(desktop.ButtonLeft, 1),
	"right_click":      clicks(desktop.ButtonRight, 1),
	"middle_click":     clicks(desktop.ButtonMiddle, 1),
	"double_click":     clicks("", 2),
	"triple_click":     clicks("", 3),
	"mouse_move":       (*seat).move,
	"left_click_drag":  (*seat).drag,
	"left_mouse_down":  buttons(true),
	"left_mouse_up":    buttons(false),
	"keypress":         (*seat).key,
	"key_down":         holds(true),
	"key_up":           holds(false),
	"get_cursor_state": (*seat).cursorPosition,
}

func (s *seat) do(ctx context.Context, name string, in *input) (outcome, error) {
	if name != "computer" {
		return actions[name](s, ctx, in)
	}
	switch {
	case in.Actions != nil && (in.Action != "" || in.Type != ""):
		return outcome{}, badf("actions: cannot be given together with action; put everything into actions")
	case in.Actions != nil:
		return s.list(ctx, list{in.Actions, batch.Expect(in.Expect), in.StopOn})
	}
	return s.act(ctx, in)
}

// name returns the name of the action.
func (in *input) name() string { return cmp.Or(in.Action, in.Type) }

// act executes the action that an input names.
func (s *seat) act(ctx context.Context, in *input) (outcome, error) {
	do, err := in.function()
	if err != nil {
		return outcome{}, err
	}
	return do(s, ctx, in)
}

// function returns the action that an input names.
func (in *input) function() (action, error) {
	name := in.name()
	do, ok := actions[name]
	switch {
	case name == "":
		return nil, badf("action: is missing; name one of %s", actionNames())
	case !ok:
		return nil, badf("action: there is no %.80q; there are %s", name, actionNames())
	}
	return do, nil
}

func actionNames() string {
	return strings.Join(slices.Sorted(maps.Keys(actions)), ", ")
}

// place returns the position of a pointer action and its observation, or nil and "" if the
// action is at the pointer's position.
func (s *seat) place(ctx context.Context, in *input) (*desktop.Point, string, error) {
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

func placeText(at *desktop.Point) string {
	if at == nil {
		return "where the pointer is"
	}
	return fmt.Sprintf("at [%d, %d]", at.X, at.Y)
}

// clicks returns the action that clicks a button count times. An empty button or a zero count
// is taken from the input.
func clicks(button desktop.Button, count int) action {
	return func(s *seat, ctx context.Context, in *input) (outcome, error) {
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
		return outcome{text: fmt.Sprintf("%s %s.", how, placeText(at)), acted: true}, nil
	}
}

// buttons returns the action that presses or releases a button.
func buttons(down bool) action {
	return func(s *seat, ctx context.Context, in *input) (outcome, error) {
		at, observation, err := s.place(ctx, in)
		if err != nil {
			return outcome{}, err
		}
		b := desktop.ButtonPress{At: at, Button: in.button(), Modifiers: in.modifiers(), Observation: observation}
		if down {
			_, err = s.desk.ButtonDown(ctx, b)
			return outcome{text: fmt.Sprintf("The button is down %s. left_mouse_up releases it.", placeText(at)), acted: true}, err
		}
		_, err = s.desk.ButtonUp(ctx, b)
		return outcome{text: fmt.Sprintf("The button was released %s.", placeText(at)), acted: true}, err
	}
}

func (s *seat) move(ctx context.Context, in *input) (outcome, error) {
	at, observation, err := s.place(ctx, in)
	switch {
	case err != nil:
		return outcome{}, err
	case at == nil:
		return outcome{}, badf("coordinate: is missing; give [x, y] in pixels of the screenshot")
	}
	_, err = s.desk.Move(ctx, desktop.Move{At: *at, Modifiers: in.modifiers(), Observation: observation})
	return outcome{text: fmt.Sprintf("The pointer is %s.", placeText(at)), acted: true}, err
}

func (s *seat) drag(ctx context.Context, in *input) (outcome, error) {
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

func (s *seat) scroll(ctx context.Context, in *input) (outcome, error) {
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
		if err != nil || n < 0 || n > 1000 {
			return outcome{}, badf("scroll_amount: must be a whole number of clicks of the wheel from 0 to 1000, and is %v", amount)
		}
		to, ok := map[string]desktop.Point{"up": {Y: -n}, "down": {Y: n}, "left": {X: -n}, "right": {X: n}}[in.Direction]
		if !ok {
			return outcome{}, badf("scroll_direction: must be up, down, left or right, and is %.80q", in.Direction)
		}
		w.DX, w.DY = to.X, to.Y
	case in.ScrollX != nil || in.ScrollY != nil:
		if w.DX, w.DY, err = s.clicksOf(ctx, in, at, observation); err != nil {
			return outcome{}, err
		}
	default:
		return outcome{}, badf("scroll_direction: is missing; it must be up, down, left or right")
	}
	_, err = s.desk.Scroll(ctx, w)
	return outcome{text: fmt.Sprintf("Scrolled %s.", placeText(at)), acted: true}, err
}

func (s *seat) typeText(ctx context.Context, in *input) (outcome, error) {
	switch {
	case in.Secret != "" && in.Text != nil && *in.Text != "":
		return outcome{}, badf("secret: cannot be given together with text")
	case in.Secret != "":
		err := s.desk.Type(ctx, desktop.Type{SecretName: in.Secret})
		return outcome{text: "Typed the secret " + in.Secret + ".", acted: true}, err
	case in.Text == nil || *in.Text == "":
		return outcome{}, badf("text: is missing; give the text to type")
	}
	delay := 0.0
	if in.DelayMS != nil {
		delay = *in.DelayMS
	}
	if !(delay >= 0 && delay <= maxDelay) { // also NaN
		return outcome{}, badf("delayMs: must be between 0 and %d, and is %v", maxDelay, delay)
	}
	t := desktop.Type{Text: *in.Text, Mode: desktop.TypeMode(in.Mode), Delay: time.Duration(delay * float64(time.Millisecond))}
	if err := s.desk.Type(ctx, t); err != nil {
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
	if in.Repeat != nil {
		n, err := integer("repeat", *in.Repeat)
		if err != nil || n < 1 || n*len(all) > maxKeys {
			return nil, badf("repeat: must be a whole number from 1, with at most %d key presses in all, and is %v", maxKeys, *in.Repeat)
		}
		all = slices.Repeat(all, n)
	}
	return all, nil
}

func (s *seat) key(ctx context.Context, in *input) (outcome, error) {
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

// holds returns the action that presses a key or chord, or releases it.
func holds(down bool) action {
	return func(s *seat, ctx context.Context, in *input) (outcome, error) {
		chord, err := in.chord()
		if err != nil {
			return outcome{}, err
		}
		if down {
			return outcome{text: fmt.Sprintf("%s is down. key_up releases it.", chord), acted: true}, s.desk.KeyDown(ctx, chord)
		}
		return outcome{text: fmt.Sprintf("%s was released.", chord), acted: true}, s.desk.KeyUp(ctx, chord)
	}
}

// chord returns the one chord that an input names.
func (in *input) chord() (string, error) {
	chords, err := in.chords()
	if err == nil && len(chords) > 1 {
		err = badf("text: must name one key or chord to hold")
	}
	if err != nil {
		return "", err
	}
	return chords[0], nil
}

// holdKey holds a key for some seconds. It releases the key also after errors.
func (s *seat) holdKey(ctx context.Context, in *input) (outcome, error) {
	chord, err := in.chord()
	if err != nil {
		return outcome{}, err
	}
	seconds, err := in.seconds(1)
	if err != nil {
		return outcome{}, err
	}
	if err := s.desk.KeyDown(ctx, chord); err != nil {
		return outcome{}, err
	}
	waited := s.pause(ctx, seconds)
	if err := s.desk.KeyUp(context.WithoutCancel(ctx), chord); err != nil {
		return outcome{}, err
	}
	return outcome{text: fmt.Sprintf("Held %s for %v s.", chord, seconds), acted: true}, waited
}

// pause waits for some seconds, or until the desktop is closed.
func (s *seat) pause(ctx context.Context, seconds float64) error {
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
func (s *seat) wait(ctx context.Context, in *input) (outcome, error) {
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
	if !screenshot.Settled.Quiet {
		done.text = "Waited 10 s, and the screen is still changing. " + describe(screenshot)
	}
	if in.Screenshot != nil && !*in.Screenshot {
		done.picture = nil
	}
	return done, nil
}

func (s *seat) cursorPosition(ctx context.Context, _ *input) (outcome, error) {
	of, err := s.view(ctx)
	if err != nil {
		return outcome{}, err
	}
	p, err := s.desk.Pointer(ctx)
	if err != nil {
		return outcome{}, err
	}
	at := of.FromScreen(p.Point)
	return outcome{text: fmt.Sprintf("The pointer is at [%d, %d].", at.X, at.Y)}, nil
}
