package sdktest

import (
	"embed"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/deskhand/deskhand/internal/testbrowser"
	"github.com/deskhand/deskhand/internal/testx11"
)

//go:embed accessibility/package.json accessibility/package-lock.json
var axe embed.FS

// faults is a script that returns the serious faults that axe-core finds on the page.
const faults = `axe.run(document, { runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"] }).then(({ violations }) => violations
	.filter(({ impact }) => impact === "serious" || impact === "critical")
	.map(({ id, nodes }) => id + ": " + nodes.map((n) => n.target.join(" ") + " (" + n.any.map((a) => a.message).join("; ").slice(0, 200) + ")").join(", ")).join("\n"))`

// TestPageIsAccessible has axe-core look at each pane and dialog of the page, light and dark,
// wide and narrow.
func TestPageIsAccessible(t *testing.T) {
	t.Parallel()
	if reference {
		t.Skip("the reference server has another page")
	}
	testx11.Require(t, "node", "npm", "Xvfb", "openbox", "dbus-daemon", "chromium")
	modules, err := installFrom(t.Context(), axe, "accessibility")
	if err != nil {
		t.Skipf("axe-core cannot be installed: %v", err)
	}
	script, err := os.ReadFile(filepath.Join(modules, "axe-core", "axe.min.js"))
	if err != nil {
		t.Fatal(err)
	}
	s := startServer(t, modules, Config{})
	call := func(method, path string, body any) {
		t.Helper()
		r, err := s.Request(t.Context(), method, path, body)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		if answer.StatusCode >= 300 {
			t.Fatalf("%s: %s", path, answer.Status)
		}
	}
	call(http.MethodPost, "/v1/desktop/start", map[string]int{"width": 640, "height": 480})
	call(http.MethodPost, "/v1/sessions/one", map[string]string{"agent": "mock", "directory": t.TempDir()})
	call(http.MethodPost, "/v1/sessions/one/messages/stream", map[string]string{"message": "demo"})
	call(http.MethodPost, "/v1/sessions/one/messages", map[string]string{"message": "permission"})
	call(http.MethodPost, "/v1/tokens", map[string]string{"scope": "view"})
	call(http.MethodPost, "/v1/processes", map[string]any{"command": "sleep", "args": []string{"1000"}})

	ctx := testbrowser.Open(t, s.URL+"/ui/#token="+s.Token)
	holds := func(format string, a ...any) { t.Helper(); testbrowser.Holds(ctx, t, fmt.Sprintf(format, a...)) }
	holds(`document.body?.dataset.state === "live" && document.querySelectorAll("#rail button").length > 5`)
	testbrowser.Evaluate[bool](ctx, t, string(script)+"; true")
	look := func(what string, open func()) {
		t.Helper()
		for _, c := range []struct {
			scheme string
			width  int64
		}{{"light", 1280}, {"dark", 1280}, {"dark", 390}} {
			p := emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: c.scheme}, {Name: "prefers-reduced-motion", Value: "reduce"}}}
			if _, err := chromedp.Call(ctx, emulation.SetEmulatedMedia, p); err != nil {
				t.Fatal(err)
			}
			testbrowser.Do(ctx, t, chromedp.EmulateViewport(c.width, 800))
			holds("innerWidth === %d", c.width)
			open() // a narrow page shows one pane
			if bad := testbrowser.Await[string](ctx, t, faults); bad != "" {
				t.Errorf("%s, %s, %d pixels wide:\n%s", what, c.scheme, c.width, bad)
			}
		}
		testbrowser.Do(ctx, t, chromedp.EmulateViewport(1280, 800))
		holds("innerWidth === 1280")
	}
	run := func(format string, a ...any) { testbrowser.Evaluate[bool](ctx, t, fmt.Sprintf(format, a...)+"; true") }
	pane := func(title, ready string) {
		t.Helper()
		look(title, func() {
			holds(`(() => { const b = [...document.querySelectorAll("#rail button")].find((b) => b.ariaLabel === %q); if (b && b.ariaPressed !== "true") b.click(); return Boolean(b) && Boolean(document.querySelector(%q)?.checkVisibility()); })()`, title, ready)
		})
	}
	address := func(hash, ready string) {
		t.Helper()
		look(hash, func() {
			run(`location.hash = ""; location.hash = %q`, hash)
			holds(`Boolean(document.querySelector(%q)?.checkVisibility())`, ready)
		})
	}
	look("the picture", func() {})
	pane("Sessions", ".chat .sessions li button")
	address("#/s/one", ".permission button")
	address("#/s/new", "#new-text")
	pane("Terminal", "[role=tab]")
	pane("Files", ".files .scroller")
	pane("Processes", ".processes tbody tr + tr")
	pane("Logs", ".pane.logs")
	pane("Events", ".pane.events")
	address("#/desktops", ".grid-of-desktops li")
	address("#/settings/agents", "[data-agent]")
	address("#/settings/folders", ".settings .section > section:not([hidden]) form")
	address("#/settings/tokens", ".settings .section > section:not([hidden]) li")
	address("#/settings/secrets", ".settings .section > section:not([hidden]) form")
	address("#/settings/notifications", ".settings .section > section:not([hidden]) input")
	address("#/settings/diagnostics", ".settings .section > section:not([hidden]) dt")
	dialog := func(button, ready string) {
		t.Helper()
		look(button, func() {
			run(`document.querySelector(%q).click()`, button)
			holds(`Boolean(document.querySelector("dialog[open]")?.querySelector(%q)?.checkVisibility())`, ready)
		})
		run(`document.querySelector("dialog[open]").close()`)
	}
	dialog("#commands-open", "[role=option]")
	dialog("#shortcuts-open", "dd")
	look("the menu View", func() {
		run(`document.querySelector("#view-panel").showPopover()`)
		holds(`document.querySelector("#quality-choice").checkVisibility()`)
	})
}
