package browser_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/desktop/browser"
)

// TestFileChooserUnderControl: a client that intercepts file choosers gets them. While a person has
// control, the person gets them.
func TestFileChooserUnderControl(t *testing.T) {
	t.Parallel()
	d := startDesktop(t, desktop.Config{})
	b := start(t, browser.Config{Desktop: d})
	navigate(t, b, "data:text/html,<title>Choose</title><input type=file style='position:fixed;inset:0;width:100%25;height:100%25'>")
	tabs, err := b.Tabs(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c := connect(t, b, tabs[0].ID)
	c.result("", "Page.enable", object())
	agent := desktop.WithActor(t.Context(), desktop.Actor{Kind: desktop.ActorAPI})
	jane := desktop.Actor{Kind: desktop.ActorViewer, ID: "1", Name: "Jane"}
	person := desktop.WithActor(t.Context(), jane)
	clicked, err := b.Click(agent, browser.Click{Element: css("input")}) // the client does not intercept yet
	if err != nil || clicked.At == nil {
		t.Fatal(clicked, err)
	}
	opened := func() bool {
		windows, err := d.Windows(t.Context(), desktop.WindowFilter{All: true})
		if err != nil {
			t.Fatal(err)
		}
		return slices.ContainsFunc(windows, func(w desktop.Window) bool { return w.Dialog })
	}
	intercepted := func() bool {
		c.result("", "Runtime.evaluate", object("expression", "1"))
		return slices.ContainsFunc(c.events, func(e map[string]any) bool { return e["method"] == "Page.fileChooserOpened" })
	}
	within := func(f func() bool, limit time.Duration) bool {
		for begun := time.Now(); time.Since(begun) < limit; time.Sleep(50 * time.Millisecond) {
			if f() {
				return true
			}
		}
		return false
	}
	closeDialog := func(ctx context.Context) {
		t.Helper()
		if err := d.Press(ctx, desktop.Press{Keys: "Escape"}); err != nil {
			t.Fatal(err)
		}
		if !within(func() bool { return !opened() }, 20*time.Second) {
			t.Fatal("the dialog stays open")
		}
	}
	click := func(ctx context.Context) {
		t.Helper()
		if _, err := d.Click(ctx, desktop.Click{At: clicked.At}); err != nil {
			t.Fatal(err)
		}
	}
	if !within(opened, 20*time.Second) {
		t.Fatal("no dialog opens")
	}
	closeDialog(agent)
	c.result("", "Page.setInterceptFileChooserDialog", object("enabled", true))
	click(agent)
	if !within(intercepted, 20*time.Second) {
		t.Fatal("the client does not get the file chooser")
	}
	c.events = nil
	if err := d.TakeControl(t.Context(), jane, true); err != nil {
		t.Fatal(err)
	}
	// The browser learns of control a little later.
	if !within(func() bool { click(person); return within(opened, 5*time.Second) }, time.Minute) {
		t.Fatal("the person does not get the file chooser")
	}
	closeDialog(person)
	c.result("", "Page.setInterceptFileChooserDialog", object("enabled", true))
	c.events = nil
	click(person)
	if !within(opened, 20*time.Second) || intercepted() {
		t.Fatal("the person does not get the file chooser, which the client wants again")
	}
	closeDialog(person)
	if err := d.ReleaseControl(t.Context(), jane); err != nil {
		t.Fatal(err)
	}
	again := func() bool {
		click(agent)
		if within(intercepted, 5*time.Second) {
			return true
		}
		if opened() {
			closeDialog(agent)
		}
		return false
	}
	if !within(again, time.Minute) {
		t.Error("the client does not get the file chooser after the person's control")
	}
}
