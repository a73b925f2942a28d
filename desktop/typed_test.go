package desktop_test

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"testing"

	"github.com/deskhand/deskhand/desktop"
)

// TestViewersTypingIsSecret types a password in every way that a viewer has. Neither the
// events nor the policy get its keys or the times at which they were pressed.
func TestViewersTypingIsSecret(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var asked []desktop.Action
	d := start(t, desktop.Config{Policy: func(_ context.Context, a desktop.Action) error {
		mu.Lock()
		defer mu.Unlock()
		asked = append(asked, a)
		return nil
	}})
	xterm(t, d)
	sub := d.Subscribe(0)
	defer sub.Close()
	ctx := desktop.WithActor(t.Context(), ann)
	do := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	do(d.KeyDown(ctx, "Shift_L"))
	for _, key := range []string{"0x51", "0x7a", "q", "Return"} { // "Qzq" and its end
		do(d.KeyDown(ctx, key))
		do(d.KeyUp(ctx, key))
	}
	do(d.KeyUp(ctx, "Shift_L"))
	do(d.Press(ctx, desktop.Press{Keys: "ctrl+alt+q"})) // which is @ on some keyboards
	do(d.Type(ctx, desktop.Type{Text: "zqé漢"}))
	_, err := d.ButtonDown(ctx, desktop.ButtonPress{})
	do(err)
	_, err = d.ButtonUp(ctx, desktop.ButtonPress{})
	do(err)

	var emitted []desktop.Action
	for len(emitted) < 3 {
		e := await(t, sub, "an action", ofType(desktop.EventAction))
		emitted = append(emitted, *e.Action)
	}
	if a := emitted[0]; a.Name != "type" || a.Length != 9 || a.Actor != ann || a.Time.IsZero() {
		t.Errorf("4 keys, a chord and 4 characters show as %+v", a)
	}
	for i, name := range []desktop.ActionName{"button_down", "button_up"} {
		if a := emitted[1+i]; a.Name != name || a.At == nil || a.At.X == 0 {
			t.Errorf("instead of a %s with its place: %+v", name, a)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	for _, a := range append(emitted, asked...) {
		text, err := json.Marshal(a)
		do(err)
		if a.Actor == ann && (a.Keys != "" || a.Text != "") || strings.ContainsAny(a.Keys+a.Text, "Qq") {
			t.Errorf("what the viewer typed is in %s", text)
		}
	}
}

// TestTypingThatFailsIsSecret presses a key that the keyboard lacks. The sender is an API
// caller with a context of WithPerson.
func TestTypingThatFailsIsSecret(t *testing.T) {
	t.Parallel()
	log := desktop.NewEventLog("main")
	defer log.Close()
	sub := log.Subscribe(0)
	defer sub.Close()
	ctx := desktop.WithPerson(desktop.WithActor(t.Context(), desktop.Actor{Kind: desktop.ActorAPI, Name: "page"}))
	a := desktop.ActionFrom(ctx, desktop.Action{Name: "press", Keys: "Q"})
	a.Error = "press Q: the connection ended"
	log.Emit(desktop.Event{Type: desktop.EventAction, Action: &a})
	e := await(t, sub, "the action", ofType(desktop.EventAction))
	if e.Action.Keys != "" || e.Action.Length != 1 || e.Action.Error == "" || strings.Contains(e.Action.Error, "Q") {
		t.Errorf("a key that failed shows as %+v", e.Action)
	}
}
