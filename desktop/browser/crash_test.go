package browser_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/desktop/browser"
	"github.com/deskhand/deskhand/internal/testx11"
)

// nest is a script that nests elements, at the end of a page.
const nest = `(n, style) => {
	const top = document.createElement("div");
	let e = top;
	for (let i = 0; i < n; i++) { const d = document.createElement("div"); e.append(d); e = d; }
	top.style = style;
	e.innerHTML = "<button>Bottom</button>";
	document.body.append(top);
	return true;
}`

// TestDeepPage checks that an outline of any depth has an answer, also if the browser crashes.
func TestDeepPage(t *testing.T) {
	t.Parallel()
	b := start(t, browser.Config{Headless: true})
	ctx := t.Context()
	const page = "data:text/html,<title>Deep</title><button>Top</button>"
	outline := func() ([]string, error) {
		t.Helper()
		begun := time.Now()
		o, err := b.Outline(ctx, browser.OutlineQuery{All: true, Timeout: 5000})
		if took := time.Since(begun); took > 8*time.Second {
			t.Errorf("the outline took %v", took)
		}
		var names []string
		for _, n := range o.Nodes {
			names = append(names, n.Name)
		}
		return names, err
	}
	navigate(t, b, page)
	evaluate[bool](t, b, "("+nest+")(1500, '')")
	if names, err := outline(); err != nil || !slices.Equal(names, []string{"Top", "Bottom"}) {
		t.Errorf("%q, %v", names, err)
	}
	navigate(t, b, page)
	evaluate[bool](t, b, "("+nest+")(8000, 'display: none')")
	if names, err := outline(); err != nil || !slices.Equal(names, []string{"Top"}) {
		t.Errorf("%q, %v", names, err)
	}
	_, _ = b.Evaluate(ctx, browser.Evaluate{Expression: "(" + nest + ")(8000, '')"})
	for range 2 { // while it crashes, and after that
		if names, err := outline(); !errors.Is(err, browser.ErrNotReady) || !strings.Contains(fmt.Sprint(err), "crashed") {
			t.Errorf("%q, %v", names, err)
		}
	}
	if _, err := b.Evaluate(ctx, browser.Evaluate{Expression: "1"}); !errors.Is(err, browser.ErrNotReady) {
		t.Errorf("Evaluate() = %v, want ErrNotReady", err)
	}
	navigate(t, b, page)
	if names, err := outline(); err != nil || !slices.Equal(names, []string{"Top"}) {
		t.Errorf("after the crash: %q, %v", names, err)
	}
}

// fakeBrowser is a program that ends its only tab while deskhand sets the size of its window.
const fakeBrowser = `#!/usr/bin/env python3
import json, os
def send(m): os.write(4, json.dumps(m, separators=(",", ":")).encode() + b"\0")
read = b""
while more := os.read(3, 65536):
    *messages, read = (read + more).split(b"\0")
    for m in map(json.loads, messages):
        answer = {"id": m["id"], "result": {}}
        if m["method"] == "Target.attachToBrowserTarget":
            answer["result"] = {"sessionId": "B"}
        if m["method"] == "Target.setAutoAttach" and "sessionId" not in m:
            send({"method": "Target.attachedToTarget", "params": {"sessionId": "S", "targetInfo": {"targetId": "T", "type": "page"}}})
        if m["method"] == "Browser.getWindowForTarget":
            send({"method": "Target.targetDestroyed", "params": {"targetId": "T"}})
            answer = {"id": m["id"], "error": {"code": 1, "message": "no"}}
        send(answer)
`

// TestBrowserWithoutTabs: a browser that has no tab any more when it is to open a page is not started.
func TestBrowserWithoutTabs(t *testing.T) {
	t.Parallel()
	testx11.Require(t, "python3")
	program := filepath.Join(t.TempDir(), "browser")
	if err := os.WriteFile(program, []byte(fakeBrowser), 0o700); err != nil {
		t.Fatal(err)
	}
	b, err := browser.Start(t.Context(), browser.Config{
		Desktop: startDesktop(t, desktop.Config{}), Program: program, URL: "https://example.com/", Viewport: desktop.Size{Width: 800, Height: 600},
	})
	if err == nil {
		b.Close()
	}
	if !errors.Is(err, browser.ErrNoTab) {
		t.Error(err)
	}
}
