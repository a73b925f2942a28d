package computer_test

import (
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/deskhand/deskhand/agents/computer"
	"github.com/deskhand/deskhand/desktop"
)

// TestActions: a list of actions has a result for each action, ends early if asked to, and is
// refused where the screen is no longer as in the last screenshot.
func TestActions(t *testing.T) {
	t.Parallel()
	d := startDesktop(t, desktop.Config{Size: desktop.Size{Width: 800, Height: 600}})
	a := connect(t, d, computer.Config{})
	a.must("screenshot", nil)
	w := xterm(t, d, "cat") // after the screenshot
	inside := args{"action": "left_click", "coordinate": []int{w.Bounds.X + 50, w.Bounds.Y + 50}}
	beside := args{"action": "left_click", "coordinate": []int{5, 5}}
	list := func(expect string, stopOn []string, actions ...args) args {
		call := args{"actions": actions}
		if expect != "" {
			call["expect"] = expect
		}
		if stopOn != nil {
			call["stopOn"] = stopOn
		}
		return call
	}

	for _, expect := range []string{"", "same", "window"} {
		a.must("computer", list(expect, nil, beside))
		if p := pointer(t, d); p != (desktop.Point{X: 5, Y: 5}) {
			t.Errorf("expect %q: the pointer is at %v", expect, p)
		}
	}
	a.must("computer", list("any", nil, inside, beside)) // and a new screenshot
	other := xterm(t, d, "cat")
	middle := args{"action": "left_click", "coordinate": []int{other.Bounds.X + 50, other.Bounds.Y + 50}}
	got := a.call("computer", list("window", nil, beside, middle))
	if !got.failed || got.image == nil {
		t.Errorf("a list for an old screenshot: failed %v, image %v", got.failed, got.image != nil)
	}
	wants(t, got, "another window is there")
	wants(t, got, "expect: any")
	wants(t, a.must("computer", list("same", nil, middle)), "1. Clicked at") // in the new screenshot

	closing := args{"action": "key", "text": "ctrl+d"}
	got = a.must("computer", list("", []string{"window"}, closing, args{"action": "key", "text": "a"}))
	wants(t, got, "Stopped after action 1 of 2: window ")
	wants(t, got, "1. Pressed ctrl+d.")

	missing := args{"action": "launch", "app": "no-such-program"}
	got = a.call("computer", list("", nil, beside, missing, beside))
	if !got.failed || got.image == nil {
		t.Errorf("a list with a failure: failed %v, image %v", got.failed, got.image != nil)
	}
	wants(t, got, "action 2 of 3: ")
	wants(t, got, "1 before it were done")
	wants(t, got, "1. Clicked at [5, 5].\n2. Failed: ")
	wants(t, a.must("computer", list("", []string{"window"}, missing, beside)), "2. Clicked at [5, 5].")

	another := connectTo(t, &mcp.StreamableClientTransport{Endpoint: a.url + "?actor=another", MaxRetries: -1})
	a.must("screenshot", nil)
	last := xterm(t, d, "cat")
	another.must("screenshot", nil)
	under := args{"action": "left_click", "coordinate": []int{last.Bounds.X + 50, last.Bounds.Y + 50}}
	if got := a.call("computer", list("", nil, under)); !got.failed {
		t.Errorf("another actor's screenshot counts: %s", got.text)
	}

	a.refuses("computer", list("never", nil, beside), "expect: must be same, window or any")
	a.refuses("computer", list("", []string{"never"}, beside), "stopOn: must have")
	a.refuses("computer", list("", nil, beside, args{"action": "dance"}), "action 2 of 2: action: there is no \"dance\"")
}
