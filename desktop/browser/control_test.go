package browser_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

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
		"Page.setWebLifecycleState": object("state", "frozen"), "Page.stopLoading": object(),
		"Emulation.setDeviceMetricsOverride":   object("width", 100, "height", 100, "deviceScaleFactor", 1, "mobile", false),
		"Emulation.setEmitTouchEventsForMouse": object("enabled", true), "Autofill.trigger": object("fieldId", 1),
		"FedCm.dismissDialog": object("dialogId", "1"), "DeviceAccess.enable": object(), "PWA.launch": object("manifestId", "1"),
		"Page.setDeviceMetricsOverride":  object("width", 100, "height", 100, "deviceScaleFactor", 1, "mobile", false),
		"Emulation.setVirtualTimePolicy": object("policy", "pause"), "Debugger.enable": object(), "Debugger.pause": object(),
		"Runtime.terminateExecution": object(), "Network.setBlockedURLs": object("urls", []string{"*"}),
		"Storage.clearDataForOrigin":             object("origin", "*", "storageTypes", "all"),
		"DOMDebugger.setEventListenerBreakpoint": object("eventName", "click"), "WebAuthn.enable": object(), "Fetch.enable": object(),
		"Page.setRPHRegistrationMode": object("mode", "autoAccept"), "Browser.grantPermissions": object("permissions", []string{"geolocation"}),
		"Network.emulateNetworkConditions": object("offline", true, "latency", 0, "downloadThroughput", 0, "uploadThroughput", 0),
		"Target.openDevTools":              object("targetId", "1"), "Target.disposeBrowserContext": object("browserContextId", "1"),
		"Target.autoAttachRelated":              object("targetId", "1", "waitForDebuggerOnStart", true),
		"Security.setOverrideCertificateErrors": object("override", true), "Network.setCookie": object("name", "a", "value", "", "url", "http://a"),
		"IndexedDB.deleteDatabase": object("databaseName", "a"), "Memory.prepareForLeakDetection": object(), "Page.setFontFamilies": object(),
		"Browser.cancelDownload": object("guid", "1"), "Emulation.setEmulatedVisionDeficiency": object("type", "achromatopsia"),
		"Overlay.highlightRect": object("x", 1), "Network.setExtraHTTPHeaders": object("headers", object()), "ServiceWorker.stopAllWorkers": object(),
	} {
		if got := c.call(session, method, params); !strings.Contains(fmt.Sprint(got["error"]), "Jane has control") {
			t.Errorf("%s: %v", method, got)
		}
	}
	// These Playwright sends when it attaches.
	c.result(session, "Emulation.setFocusEmulationEnabled", object("enabled", true))
	c.result(session, "Emulation.setEmulatedMedia", object("media", ""))
	c.result(session, "Page.setInterceptFileChooserDialog", object("enabled", true))
	c.result(session, "Runtime.evaluate", object("expression", "1"))
	c.call(session, "Runtime.evaluate", nil)
	for _, method := range []string{"Fetch.continueRequest", "Fetch.disable", "Debugger.resume"} { // a page waits for the client
		if got := c.call(session, method, object("requestId", "1")); strings.Contains(fmt.Sprint(got["error"]), "control") {
			t.Errorf("%s: %v", method, got)
		}
	}
	opened := c.result(session, "Runtime.evaluate", object("expression", "window.open('about:blank') === null", "userGesture", true, "returnByValue", true))
	if value := opened["result"].(map[string]any)["value"]; value != true {
		t.Errorf("a script opened a window: %v", opened)
	}
	if err := d.ReleaseControl(t.Context(), person); err != nil {
		t.Fatal(err)
	}
	c.result(session, "Input.dispatchMouseEvent", move)
	if got := c.call(session, "Input.setIgnoreInputEvents", object("ignore", true)); !strings.Contains(fmt.Sprint(got["error"]), "not allowed") {
		t.Errorf("a page ignores people: %v", got)
	}
}

// TestRefusedCalls checks that a call which control refuses neither shows a tab nor moves the focus.
func TestRefusedCalls(t *testing.T) {
	t.Parallel()
	d := startDesktop(t, desktop.Config{})
	b := start(t, browser.Config{Desktop: d})
	ctx := desktop.WithActor(t.Context(), desktop.Actor{Kind: desktop.ActorAgent, Name: "agent"})
	navigate(t, b, "data:text/html,<title>Form</title><input id=password autofocus><input id=public><button>Send</button>")
	tabs, err := b.Tabs(ctx)
	if err != nil {
		t.Fatal(err)
	}
	first := tabs[0].ID
	c := connect(t, b, first)
	if err := b.Press(ctx, browser.Press{Element: css("#password"), Keys: "a"}); err != nil {
		t.Fatal(err)
	}
	send := el(refOf(t, b, "button", "Send"))
	second, err := b.NewTab(ctx, "about:blank")
	if err != nil {
		t.Fatal(err)
	}
	jane := desktop.Actor{Kind: desktop.ActorViewer, ID: "1", Name: "Jane"}
	if err := d.TakeControl(t.Context(), jane, true); err != nil {
		t.Fatal(err)
	}
	public := browser.Element{Selector: "#public"}
	for name, err := range map[string]error{
		"press":         b.Press(ctx, browser.Press{Tab: first, Element: public, Keys: "a"}),
		"press no more": b.Press(ctx, browser.Press{Tab: first, Keys: "a"}),
		"fill":          b.Fill(ctx, browser.Fill{Tab: first, Element: public, Text: "a"}),
		"upload":        b.Upload(ctx, browser.Upload{Tab: first, Element: public}),
		"activate":      b.ActivateTab(ctx, first),
	} {
		if !errors.Is(err, desktop.ErrControlHeld) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := b.Click(ctx, browser.Click{Element: send}); !errors.Is(err, desktop.ErrControlHeld) {
		t.Error("click:", err)
	}
	if _, err := b.Click(ctx, browser.Click{Tab: first, Element: css("button")}); !errors.Is(err, desktop.ErrControlHeld) {
		t.Error("click by a selector:", err)
	}
	if tabs, err = b.Tabs(ctx); err != nil || !tabs[1].Active || tabs[1].ID != second.ID {
		t.Errorf("the second tab is not shown any more: %+v, %v", tabs, err)
	}
	got := c.result("", "Runtime.evaluate", object("expression", "document.activeElement.id + document.visibilityState"))
	if value := fmt.Sprint(got["result"].(map[string]any)["value"]); value != "passwordhidden" {
		t.Errorf("the page has %s", value)
	}
}

// TestClickThatWaits checks that other input runs while a click waits for its element, and that the
// click ends when another actor takes control.
func TestClickThatWaits(t *testing.T) {
	t.Parallel()
	d := startDesktop(t, desktop.Config{})
	b := start(t, browser.Config{Desktop: d})
	navigate(t, b, "data:text/html,<title>Never</title><button disabled>Send</button>")
	ctx := desktop.WithActor(t.Context(), desktop.Actor{Kind: desktop.ActorAgent, Name: "agent"})
	clicked := make(chan error, 1)
	go func() {
		_, err := b.Click(ctx, browser.Click{Element: css("button"), Timeout: 60_000})
		clicked <- err
	}()
	begun := time.Now()
	for x := range 10 {
		if _, err := d.Move(t.Context(), desktop.Move{At: desktop.Point{X: x, Y: 5}}); err != nil {
			t.Error(err)
		}
		time.Sleep(100 * time.Millisecond)
	}
	if took := time.Since(begun); took > 15*time.Second {
		t.Errorf("ten moves took %s", took)
	}
	if err := d.TakeControl(t.Context(), desktop.Actor{Kind: desktop.ActorViewer, ID: "1"}, true); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-clicked:
		if !errors.Is(err, desktop.ErrControlHeld) {
			t.Error(err)
		}
	case <-time.After(10 * time.Second):
		t.Error("the click goes on")
		t.Error(<-clicked)
	}
}

// TestPagesUnderControl: frames, workers and windows do not wait for a client while another actor has
// control alone, although the client asked for that before.
func TestPagesUnderControl(t *testing.T) {
	t.Parallel()
	site, _, _ := pages(t, map[string]string{
		"/page": `<title>page</title><script>var from = {}; onmessage = (e) => from[e.data] = true;
			new Worker(URL.createObjectURL(new Blob(['postMessage("worker")']))).onmessage = onmessage</script><iframe src="OTHER/frame"></iframe>`,
		"/frame": `<script>parent.postMessage("frame", "*")</script>`,
	})
	d := startDesktop(t, desktop.Config{})
	b := start(t, browser.Config{Desktop: d})
	c := connect(t, b, "")
	wait := object("autoAttach", true, "waitForDebuggerOnStart", true, "flatten", true)
	tabs, err := b.Tabs(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	session, _ := c.result("", "Target.attachToTarget", object("targetId", tabs[0].ID, "flatten", true))["sessionId"].(string)
	c.result(session, "Target.setAutoAttach", wait)
	navigateOnly := browser.Navigate{URL: site + "/page", Until: "commit"}
	if _, err := b.Navigate(t.Context(), navigateOnly); err != nil { // its frame waits
		t.Fatal(err)
	}
	jane := desktop.Actor{Kind: desktop.ActorViewer, ID: "1", Name: "Jane"}
	ctx := desktop.WithActor(t.Context(), jane)
	for _, when := range []string{"before", "under control"} {
		if when == "before" {
			err = d.TakeControl(t.Context(), jane, true)
		} else {
			_, err = b.Navigate(ctx, navigateOnly)
		}
		if err != nil {
			t.Fatal(when, err)
		}
		loaded := func() bool {
			v, err := b.Evaluate(ctx, browser.Evaluate{Expression: "from.frame && from.worker"})
			return err == nil && string(v.Value) == "true"
		}
		for end := time.Now().Add(20 * time.Second); !loaded(); {
			if time.Now().After(end) {
				t.Fatalf("a page of %s: its frame or worker waits", when)
			}
		}
	}
}

// TestPicturesUnderControl: while another actor has control alone, a picture of a client does not
// change the size of a page, and pictures of whole pages, which do, are refused.
func TestPicturesUnderControl(t *testing.T) {
	t.Parallel()
	d := startDesktop(t, desktop.Config{})
	b := start(t, browser.Config{Desktop: d})
	c := connect(t, b, "")
	_, page := c.newPage("data:text/html,<script>sizes = []; onresize = () => sizes.push(innerWidth)</script>")
	if err := d.TakeControl(t.Context(), desktop.Actor{Kind: desktop.ActorViewer, ID: "1", Name: "Jane"}, true); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Screenshot(t.Context(), browser.Screenshot{Full: true}); !errors.Is(err, desktop.ErrControlHeld) {
		t.Error("a picture of the whole page:", err)
	}
	if _, err := b.Screenshot(t.Context(), browser.Screenshot{}); err != nil {
		t.Error(err)
	}
	c.result(page, "Page.captureScreenshot", object("captureBeyondViewport", true, "clip", object("x", 0, "y", 0, "width", 20, "height", 20, "scale", 1)))
	value := c.result(page, "Runtime.evaluate", object("expression", "new Promise((r) => setTimeout(() => r(sizes.join()), 200))", "awaitPromise", true))
	if got, _ := value["result"].(map[string]any)["value"].(string); slices.Contains(strings.Split(got, ","), "20") {
		t.Errorf("a picture has given the page the widths %v", got)
	}
}

// TestClientOfClosedTab: the connection of a client to a tab ends with the tab.
func TestClientOfClosedTab(t *testing.T) {
	t.Parallel()
	b := start(t, browser.Config{Headless: true})
	tab, err := b.NewTab(t.Context(), "about:blank")
	if err != nil {
		t.Fatal(err)
	}
	c := connect(t, b, tab.ID)
	c.result("", "Runtime.enable", object())
	if err := b.CloseTab(t.Context(), tab.ID); err != nil {
		t.Fatal(err)
	}
	detached := false
	for open := true; open; {
		select {
		case text := <-c.toClient:
			detached = detached || strings.Contains(string(text), "Inspector.detached")
		case <-c.closed:
			open = false
		}
	}
	if !detached {
		t.Error("no event")
	}
	err = <-c.ended
	c.ended <- nil // for the end of the test
	if !errors.Is(err, browser.ErrNoTab) {
		t.Error(err)
	}
}
