package browser_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/desktop/browser"
)

// TestControl checks that a client cannot act while another actor has control alone, and that it
// can look.
func TestControl(t *testing.T) {
	t.Parallel()
	d := startDesktop(t, desktop.Config{})
	c := connect(t, start(t, browser.Config{Desktop: d}), "")
	_, session := c.newPage("about:blank")
	move := object("type", "mouseMoved", "x", 1, "y", 1)
	take := func(a desktop.Actor) {
		t.Helper()
		if err := d.TakeControl(t.Context(), a, true); err != nil {
			t.Fatal(err)
		}
	}
	take(desktop.Actor{Kind: desktop.ActorAPI, ID: "2", Name: "Jane"})
	if got := c.call(session, "Input.dispatchMouseEvent", move); !strings.Contains(fmt.Sprint(got["error"]), "Jane has control") {
		t.Errorf("while an API caller has control: %v", got)
	}
	take(desktop.Actor{Kind: desktop.ActorAPI}) // the client's actor
	c.result(session, "Input.dispatchMouseEvent", move)
	person := desktop.Actor{Kind: desktop.ActorViewer, ID: "1", Name: "Jane"}
	take(person)
	for method, params := range map[string]map[string]any{
		"Input.dispatchMouseEvent": move, "Input.insertText": object("text", "a"), "Page.navigate": object("url", "about:blank#2"),
		"Page.handleJavaScriptDialog": object("accept", true), "DOM.setFileInputFiles": object("files", []string{"/etc/hosts"}),
		"Browser.setWindowBounds": object("windowId", 1), "Page.crash": object(),
		"Browser.setContentsSize": object("windowId", 1, "width", 300), "Browser.executeBrowserCommand": object("commandId", "openTabSearch"),
		"Target.openDevTools": object("targetId", "1"), "Target.disposeBrowserContext": object("browserContextId", "1"),
	} {
		if got := c.call(session, method, params); !strings.Contains(fmt.Sprint(got["error"]), "Jane has control") {
			t.Errorf("%s: %v", method, got)
		}
	}
	c.result(session, "Runtime.evaluate", object("expression", "1"))
	if err := d.ReleaseControl(t.Context(), person); err != nil {
		t.Fatal(err)
	}
	c.result(session, "Input.dispatchMouseEvent", move)
}
