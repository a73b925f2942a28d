package batch_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/desktop/batch"
)

// TestInvalid: an action that is not valid is named by its index, and no action runs.
func TestInvalid(t *testing.T) {
	t.Parallel()
	p := &desktop.Point{X: 5, Y: 5}
	for name, c := range map[string]struct {
		bad  batch.Action
		want string
	}{
		"button":     {batch.Click{Button: "foot"}, "actions[1]: Button: must be left, middle, right, back or forward"},
		"count":      {batch.Click{Count: 101}, "actions[1]: Count: must be between 1 and 100"},
		"modifier":   {batch.Click{At: p, Modifiers: []string{"a"}}, `actions[1]: Modifiers: must name keys: key "a" is not a modifier`},
		"point":      {batch.Move{At: desktop.Point{X: -1}}, "actions[1]: X: coordinates must be non-negative"},
		"path":       {batch.Drag{Path: []desktop.Point{{}}}, "actions[1]: Path: must have at least two points"},
		"scroll":     {batch.Scroll{DY: 1001}, "actions[1]: DY: deltaX and deltaY must be between -1000 and 1000"},
		"text":       {batch.Type{}, "actions[1]: Text: must not be empty"},
		"key":        {batch.Press{Keys: "Retrun"}, `actions[1]: Keys: must name keys: unknown key "Retrun": did you mean "Return"?`},
		"held key":   {batch.KeyDown{}, "actions[1]: Keys: must not be empty"},
		"released":   {batch.KeyUp{Key: "no such"}, `actions[1]: Keys: must name keys: unknown key "no such"`},
		"launch":     {batch.Launch{App: "a\x00"}, "actions[1]: App: must not contain a NUL character"},
		"open":       {batch.Open{Target: "-x"}, "actions[1]: target: must not begin with a dash; write ./ before a file's name"},
		"focus":      {batch.Focus{}, "actions[1]: window: must be the id of a window"},
		"no path":    {batch.ChooseFile{Path: "report.txt"}, "actions[1]: path: must be absolute, such as /home/user/report.txt"},
		"path lines": {batch.ChooseFile{Path: "/a\nb"}, "actions[1]: path: must not contain control characters"},
		"clipboard":  {batch.SetClipboard{Content: desktop.Content{Data: []byte{0xff}}}, "actions[1]: Data: must be valid UTF-8"},
		"wait":       {batch.Wait{}, "actions[1]: ms: must be given, or until"},
		"long wait":  {batch.Wait{For: time.Hour}, "actions[1]: ms: must be between 0 and 60000"},
		"until":      {batch.Wait{Until: "noon"}, "actions[1]: until: must be settled, window, element or gone"},
		"pattern":    {batch.Wait{Until: batch.UntilWindow, Window: "~("}, "actions[1]: window: must be a regular expression after ~: error parsing regexp: missing closing ): `(?i)(`"},
		"large":      {batch.Wait{Until: batch.UntilWindow, Window: "~.{0,999}.{0,999}.{0,999}"}, "actions[1]: window: must be a regular expression after ~: it repeats too much: its size must be at most 2000, where the content of a{n} counts n times"},
		"gone":       {batch.Wait{Until: batch.UntilGone}, "actions[1]: until: gone needs a window, or the role or name of an element"},
		"element":    {batch.Element{Ref: "@e1", Do: "click"}, "actions[1]: elements: not supported by this desktop"},
		"no element": {batch.Wait{Until: batch.UntilElement, Role: "button"}, "actions[1]: elements: not supported by this desktop"},
		"browser":    {batch.Browse{Do: "navigate"}, "actions[1]: browser: not supported by this desktop"},
		"nothing":    {nil, "actions[1]: type: is missing"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := batch.Do(t.Context(), batch.Target{}, batch.Batch{Actions: []batch.Action{batch.Move{}, c.bad}})
			var bad *batch.ActionError
			if !errors.As(err, &bad) || bad.Index != 1 || err.Error() != c.want {
				t.Errorf("error = %v, want %s", err, c.want)
			}
		})
	}
	if _, err := batch.Do(t.Context(), batch.Target{}, batch.Batch{Actions: make([]batch.Action, 1001)}); err == nil || !strings.Contains(err.Error(), "must be at most 1000") {
		t.Errorf("1001 actions: %v", err)
	}
	if _, err := batch.Do(t.Context(), batch.Target{}, batch.Batch{StopOn: []batch.Stop{"never"}}); !errors.Is(err, desktop.ErrInvalid) {
		t.Errorf("stopOn never: %v", err)
	}
	if _, err := batch.Do(t.Context(), batch.Target{}, batch.Batch{Observe: batch.Observe{Elements: &batch.Outlines{}}}); !errors.Is(err, desktop.ErrUnsupported) {
		t.Errorf("elements: %v", err)
	}
}

// TestActions runs each action of a desktop.
func TestActions(t *testing.T) {
	t.Parallel()
	d := start(t, "xterm")
	p := desktop.Point{X: 300, Y: 300}
	r := do(t, d, batch.Batch{
		Actions: []batch.Action{
			batch.Launch{App: "xterm", Wait: true},
			batch.Wait{Until: batch.UntilWindow, Window: "XTERM"},
			batch.Move{At: p},
			batch.Click{At: &p},
			batch.ButtonDown{},
			batch.ButtonUp{},
			batch.Drag{Path: []desktop.Point{p, {X: 350, Y: 300}}},
			batch.Scroll{At: &p, DY: 1},
			batch.SetClipboard{Content: desktop.Content{Data: []byte("copied")}},
			batch.KeyDown{Key: "shift"},
			batch.KeyUp{Key: "shift"},
			batch.Type{Text: "sleep 0.3; exit"},
			batch.Press{Keys: "Return"},
			batch.Wait{Until: batch.UntilGone, Window: "xterm"},
			batch.Wait{Until: batch.UntilSettled},
		},
		Observe: batch.Observe{Windows: true, Clipboard: true},
	})
	for i, done := range r.Results {
		if done.Err != nil {
			t.Errorf("action %d, %s: %v", i, done.Type, done.Err)
		}
	}
	if r.Stopped != nil || r.Done() != 15 || r.Results[0].Window == 0 || r.Results[1].Window != r.Results[0].Window || *r.Results[2].At != p || !*r.Results[14].Settled {
		t.Errorf("result = %+v", r)
	}
	if o := r.Observation; r.Screenshot != nil || o.Size != (desktop.Size{Width: 800, Height: 600}) || !o.Settled || o.Focused != nil || len(o.WindowsOpened) != 0 || *r.Clipboard != "copied" {
		t.Errorf("observation = %+v", o)
	}
}

// TestStops: a batch stops at a failure, at a window and at a change of the focus.
func TestStops(t *testing.T) {
	t.Parallel()
	d := start(t, "xterm", "zenity")
	window := terminal(t, d)
	type text = batch.Type
	stopped := func(r *batch.Result, reason batch.Stop, index, done int) {
		t.Helper()
		if r.Stopped == nil || r.Stopped.Reason != reason || r.Stopped.Index != index || r.Stopped.Detail == "" || r.Done() != done {
			t.Errorf("stopped = %+v after %+v, want %s at %d", r.Stopped, r.Results, reason, index)
		}
	}
	gone := batch.Focus{Window: 12345}
	r := do(t, d, batch.Batch{Actions: []batch.Action{batch.Move{}, gone, batch.Move{}}, Settle: quick})
	stopped(r, batch.StopFailure, 1, 1)
	if !errors.Is(r.Results[1].Err, desktop.ErrWindowNotFound) || len(r.Results) != 2 || r.Observation.Focused.ID != window {
		t.Errorf("result = %+v", r)
	}
	r = do(t, d, batch.Batch{Actions: []batch.Action{batch.Move{}, gone, batch.Move{}}, StopOn: []batch.Stop{batch.StopWindow}, Settle: quick})
	if r.Stopped != nil || r.Done() != 2 || len(r.Results) != 3 {
		t.Errorf("failures do not stop: %+v", r)
	}
	dialog := []batch.Action{
		text{Text: "zenity --info --text=hi\n"},
		batch.Wait{Until: batch.UntilWindow, Window: "Information"},
		batch.Press{Keys: "Return"},
		batch.Wait{Until: batch.UntilGone, Window: "Information"},
		batch.Move{},
	}
	for reason, at := range map[batch.Stop]int{batch.StopWindow: 1, batch.StopFocus: 1} {
		r = do(t, d, batch.Batch{Actions: dialog, StopOn: []batch.Stop{reason}, Settle: quick})
		stopped(r, reason, at, at+1)
		if len(r.Observation.WindowsOpened) != 1 || r.Observation.WindowsOpened[0].Title != "Information" || r.Observation.Focused.Title != "Information" {
			t.Errorf("observation = %+v", r.Observation)
		}
		r = do(t, d, batch.Batch{Actions: dialog[2:], StopOn: []batch.Stop{reason}, Settle: quick})
		if s := r.Stopped; s == nil || s.Reason != reason || len(r.Observation.WindowsClosed) != 1 {
			t.Errorf("a dialog that closes: %+v, %+v", s, r)
		}
	}
	other := batch.Launch{App: "xterm", Wait: true}
	r = do(t, d, batch.Batch{Actions: []batch.Action{other, batch.Focus{Window: window}, batch.Move{}}, StopOn: []batch.Stop{batch.StopWindow, batch.StopFocus}, Settle: quick})
	if r.Stopped != nil || r.Done() != 3 {
		t.Errorf("actions that open and focus a window: %+v", r)
	}
}

// TestControl: a batch that is cut says how far it came.
func TestControl(t *testing.T) {
	t.Parallel()
	d := start(t)
	ann := desktop.Actor{Kind: desktop.ActorViewer, Name: "ann", ID: "1"}
	ctx := desktop.WithActor(t.Context(), desktop.Actor{Kind: desktop.ActorAgent, Name: "claude"})
	list := []batch.Action{batch.Move{}, batch.Wait{For: time.Minute}, batch.Move{}}
	// cut runs the batch and calls f after its first action.
	cut := func(ctx context.Context, f func() error) (*batch.Result, error) {
		t.Helper()
		sub := d.Subscribe(0)
		defer sub.Close()
		done := make(chan error, 1)
		go func() {
			<-sub.Events()
			done <- f()
		}()
		r, err := batch.Do(ctx, batch.Target{Desktop: d}, batch.Batch{Actions: list, Settle: quick})
		if err := <-done; err != nil {
			t.Error(err)
		}
		return r, err
	}
	r, err := cut(ctx, func() error { return d.TakeControl(t.Context(), ann, false) })
	if err != nil || r.Stopped == nil || r.Stopped.Reason != batch.StopControl || r.Stopped.Index != 1 || r.Done() != 1 || len(r.Results) != 2 ||
		!errors.Is(r.Results[1].Err, desktop.ErrControlHeld) || r.Observation.Control.Holder == nil || r.Observation.ID == "" {
		t.Errorf("control taken: %+v, %v", r, err)
	}
	_, err = batch.Do(ctx, batch.Target{Desktop: d}, batch.Batch{Actions: list, Settle: quick})
	if !errors.Is(err, desktop.ErrControlHeld) {
		t.Errorf("while a person has control: %v", err)
	}
	if r, err = batch.Do(ctx, batch.Target{Desktop: d}, batch.Batch{Settle: quick}); err != nil || r.Observation.Control.Holder == nil {
		t.Errorf("observing while a person has control: %+v, %v", r, err)
	}
	if err := d.ReleaseControl(t.Context(), ann); err != nil {
		t.Fatal(err)
	}
	r, err = cut(ctx, func() error { return d.ReleaseAll(t.Context()) })
	if err != nil || r.Stopped == nil || r.Stopped.Reason != batch.StopControl || r.Done() != 1 {
		t.Errorf("input released: %+v, %v", r, err)
	}
	ended, cancel := context.WithCancel(ctx)
	r, err = cut(ended, func() error { cancel(); return nil })
	var progress *batch.ProgressError
	if !errors.As(err, &progress) || progress.Done != 1 || progress.Of != 3 || !errors.Is(err, context.Canceled) || r.Done() != 1 {
		t.Errorf("abandoned: %+v, %v", r, err)
	}
}

// TestCall: a function runs within the turn of a batch, unless it yields.
func TestCall(t *testing.T) {
	t.Parallel()
	d := start(t)
	other := func(context.Context) error {
		_, err := d.Move(desktop.WithActor(t.Context(), desktop.Actor{Kind: desktop.ActorAPI, Name: "other"}), desktop.Move{})
		return err
	}
	within := func(ctx context.Context) error {
		moved := make(chan error, 1)
		go func() { moved <- other(ctx) }()
		_, err := d.Move(ctx, desktop.Move{At: desktop.Point{X: 9}})
		if len(moved) != 0 {
			t.Error("another caller's input came between")
		}
		return err
	}
	refused := errors.New("refused")
	r := do(t, d, batch.Batch{Settle: quick, Actions: []batch.Action{
		batch.Call{Name: "within", Do: within},
		batch.Call{Name: "other", Yields: true, Do: other},
		batch.Call{Name: "refuse", Do: func(context.Context) error { return refused }},
	}})
	if r.Done() != 2 || r.Stopped == nil || r.Stopped.Index != 2 || !errors.Is(r.Results[2].Err, refused) || r.Results[0].Type != "within" {
		t.Errorf("result = %+v", r)
	}
}

// largeBrowser is a browser whose results are large.
type largeBrowser struct{}

func (largeBrowser) Do(context.Context, batch.Browse) (json.RawMessage, error) {
	return bytes.Repeat([]byte("1"), 1<<20), nil
}

// TestLargeValues: the results of the browser's actions are bounded together.
func TestLargeValues(t *testing.T) {
	t.Parallel()
	actions := make([]batch.Action, 10)
	for i := range actions {
		actions[i] = batch.Browse{Do: "evaluate"}
	}
	r, err := batch.Do(t.Context(), batch.Target{Desktop: start(t), Browser: largeBrowser{}}, batch.Batch{Settle: quick, Actions: actions})
	if err != nil || r.Done() != 8 || r.Stopped == nil || r.Stopped.Index != 8 || r.Results[8].Value != nil {
		t.Errorf("%d actions are done, %v", r.Done(), err)
	}
}
