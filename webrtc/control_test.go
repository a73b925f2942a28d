package webrtc

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/deskhand/deskhand/desktop"
)

// TestInputMessage checks the input of each message of the signalling protocol.
func TestInputMessage(t *testing.T) {
	t.Parallel()
	at := &desktop.Point{X: 3, Y: 4}
	press := func(k inputKind, b desktop.Button, p *desktop.Point) inputEvent {
		return inputEvent{kind: k, button: b, at: p}
	}
	for _, c := range []struct {
		event, payload string
		want           []inputEvent
	}{
		{"control/move", `{"x":3,"y":4}`, []inputEvent{{kind: inputMove, at: at}}},
		{"control/scroll", `{"delta_x":-5,"delta_y":120}`, []inputEvent{{kind: inputScroll, dx: -5, dy: 120}}},
		{"control/buttondown", `{"code":1}`, []inputEvent{press(inputButtonDown, desktop.ButtonLeft, nil)}},
		{"control/buttonup", `{"code":3,"x":3,"y":4}`, []inputEvent{press(inputButtonUp, desktop.ButtonRight, at)}},
		{"control/buttonpress", `{"code":2,"x":3,"y":4}`, []inputEvent{press(inputButtonDown, desktop.ButtonMiddle, at), press(inputButtonUp, desktop.ButtonMiddle, at)}},
		{"control/keydown", `{"keysym":97}`, []inputEvent{{kind: inputKeyDown, keysym: 'a'}}},
		{"control/keyup", `{"keysym":97}`, []inputEvent{{kind: inputKeyUp, keysym: 'a'}}},
		// A Unicode keysym of Latin-1 is released as it was pressed.
		{"control/keypress", `{"keysym":16777444}`, []inputEvent{{kind: inputKeyDown, keysym: 0xe4}, {kind: inputKeyUp, keysym: 0xe4}}},
		{"control/type", `{"text":"hello"}`, []inputEvent{{kind: inputType, text: "hello"}}},
		{"control/copy", `{}`, []inputEvent{{kind: inputPress, text: "ctrl+c"}}},
		{"control/paste", `{"text":"x"}`, []inputEvent{{kind: inputPress, text: "ctrl+v"}}},
		{"control/touchbegin", `{"x":3,"y":4}`, []inputEvent{press(inputButtonDown, desktop.ButtonLeft, at)}},
		{"control/touchupdate", `{"x":3,"y":4}`, []inputEvent{{kind: inputMove, at: at}}},
		{"control/touchend", `{"x":3,"y":4}`, []inputEvent{press(inputButtonUp, desktop.ButtonLeft, at)}},
	} {
		var b controlBody
		if err := json.Unmarshal([]byte(c.payload), &b); err != nil {
			t.Fatal(err)
		}
		got, err := inputMessage(c.event, b)
		if err != nil {
			t.Errorf("%s %s: %v", c.event, c.payload, err)
		}
		if diff := cmp.Diff(c.want, got, cmp.AllowUnexported(inputEvent{})); diff != "" {
			t.Errorf("%s %s (-want +got):\n%s", c.event, c.payload, diff)
		}
	}
}

// TestInvalidInputMessage checks the errors of messages without a valid input.
func TestInvalidInputMessage(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ event, payload, want string }{
		{"control/move", `{"x":3}`, "needs x and y"},
		{"control/touchbegin", `{}`, "needs x and y"},
		{"control/touchbegin", `{"x":1,"y":1,"touch_id":1}`, "only one finger"},
		{"control/buttondown", `{"code":4}`, "unknown button"},
		{"control/buttonpress", `{"code":99}`, "unknown button"},
		{"control/keydown", `{"keysym":31}`, "keysym must be"},
		{"control/keypress", `{"keysym":4294967295}`, "keysym must be"},
		{"control/type", `{}`, "needs text"},
		{"control/type", `{"text":"` + strings.Repeat("a", textMost+1) + `"}`, "at most 1048576 bytes"},
		{"control/unknown", `{"text":"secret"}`, "unknown message"},
	} {
		var b controlBody
		if err := json.Unmarshal([]byte(c.payload), &b); err != nil {
			t.Fatal(err)
		}
		_, err := inputMessage(c.event, b)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %s: %v, want an error that says %q", c.event, c.payload, err, c.want)
		} else if strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: the error %q quotes the message", c.event, err)
		}
	}
}
