package browser_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/desktop/browser"
)

// TestClientActs checks that events tell what a client does, with its name and without what it
// types.
func TestClientActs(t *testing.T) {
	t.Parallel()
	d := startDesktop(t, desktop.Config{})
	b := start(t, browser.Config{Desktop: d})
	jane := desktop.Actor{Kind: desktop.ActorAPI, ID: "7", Name: "Jane"}
	c := connectAs(desktop.WithActor(context.Background(), jane), t, b, "")
	_, session := c.newPage("about:blank")
	sub := d.Subscribe(0)
	defer sub.Close()
	mouse := func(kind string) {
		t.Helper()
		c.result(session, "Input.dispatchMouseEvent", object("type", kind, "x", 5, "y", 5, "button", "left", "clickCount", 1, "deltaX", 0, "deltaY", 1))
	}
	key := func(kind, key, text string) {
		t.Helper()
		c.result(session, "Input.dispatchKeyEvent", object("type", kind, "key", key, "text", text))
	}
	c.result(session, "Page.navigate", object("url", "data:text/html,<title>Here</title><input autofocus>"))
	c.call(session, "Page.navigate", object("url", "http://jane:hunter2@127.0.0.1:1/"))
	mouse("mouseMoved")
	mouse("mousePressed")
	mouse("mouseReleased")
	mouse("mouseWheel")
	mouse("mouseWheel")
	c.result(session, "Input.insertText", object("text", "hunter2"))
	key("keyDown", "é", "é")
	key("keyUp", "é", "")
	key("rawKeyDown", "F2", "")
	c.result(session, "Runtime.evaluate", object("expression", "1"))
	c.result(session, "Page.bringToFront", object())

	var got []string
	for len(got) < 7 {
		select {
		case e := <-sub.Events():
			if text, _ := json.Marshal(e); strings.Contains(string(text), "hunter2") || strings.Contains(string(text), "é") {
				t.Errorf("an event has what was typed: %s", text)
			}
			a := e.Action
			if a == nil || a.Command == "open tab" {
				continue
			}
			if a.Actor != jane || a.Time.IsZero() {
				t.Errorf("%+v is not Jane's", a)
			}
			got = append(got, strings.TrimSpace(fmt.Sprint(a.Name, " ", a.Command, a.Target, a.Text, a.Keys, a.Length)))
		case <-time.After(30 * time.Second):
			t.Fatalf("events: %q", got)
		}
	}
	want := []string{
		"browser navigatedata:text/html,<title>Here</title><input autofocus>0", "browser navigatehttp://127.0.0.1:1/0", "browser click0",
		"browser scroll0", "type 8", "browser press0", "browser activate tab0",
	}
	if !slices.Equal(got, want) {
		t.Errorf("events:\n%q, want\n%q", got, want)
	}
}
