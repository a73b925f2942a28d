package httpapi

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/deskhand/deskhand/internal/testbrowser"
)

// TestPageDesktops: a pane shows the desktops of the server, creates one, opens it and
// deletes it.
func TestPageDesktops(t *testing.T) {
	t.Parallel()
	s := startReal(t, Config{}, `{"width":640,"height":480}`)
	v := s.view(t, s.withToken())
	v.is("live")
	v.click(`#rail [aria-label="Desktops"]`)
	v.holds(`location.hash === "#/desktops" && document.querySelector('#rail [aria-label="Desktops"]').ariaPressed === "true"`)
	v.shows("#page", "Running · 640 × 480")
	v.holds(`document.querySelector(".grid-of-desktops img").naturalWidth === 160`)

	testbrowser.Do(v.ctx, t, chromedp.SendKeys("#desktop-name", "no spaces"))
	v.click("#page form button")
	v.shows("#page form .problem", "must match")
	testbrowser.Do(v.ctx, t, chromedp.SetValue("#desktop-name", "second"))
	v.click("#page form button")
	v.shows(`.grid-of-desktops li:nth-child(2)`, "Running · 1280 × 800")
	v.holds(`document.activeElement.getAttribute("aria-label") === "Open second, Running"`)
	v.holds(`document.querySelectorAll(".seen").length === 2`)

	testbrowser.Do(v.ctx, t, chromedp.KeyEvent(kb.Enter))
	v.holds(`document.querySelector("h1 span")?.textContent === "second" && document.body?.dataset.state === "live"`)
	v.holds(`document.querySelector("#page").hidden`)
	v.click(`#rail [aria-label="Desktops"]`)
	v.shows(`.grid-of-desktops li:nth-child(2)`, "Shown")
	// The address is kept over a reload, and Esc goes back to the picture.
	testbrowser.Do(v.ctx, t, chromedp.Reload())
	v.shows("#page", "second")
	v.is("live")
	testbrowser.Do(v.ctx, t, chromedp.KeyEvent(kb.Escape))
	v.holds(`document.querySelector("#page").hidden && location.hash === "#/"`)
	v.click(`#rail [aria-label="Desktops"]`)
	v.click(`.grid-of-desktops li:nth-child(2) .danger`)
	v.shows(`.grid-of-desktops li:nth-child(2)`, "Delete? Programs end")
	v.click(`.grid-of-desktops li:nth-child(2) .danger`)
	v.holds(`document.querySelectorAll(".grid-of-desktops li").length === 1`)
	s.get(t, "/v1/desktops/second").want(t, 404)

	// A link shows the picture alone.
	token := s.post(t, "/v1/tokens", `{"scope":"control"}`).want(t, 200).json(t)["token"].(string)
	guest := s.view(t, "#token="+token)
	guest.is("live")
	guest.holds(`document.querySelector("#rail").hidden`)
	testbrowser.Evaluate[string](guest.ctx, t, `location.hash = "#/desktops"`)
	guest.holds(`document.querySelector("#page").hidden`)
}

// TestPageNarrow: on a phone a pane covers the picture, and the rail's first button
// shows the picture again.
func TestPageNarrow(t *testing.T) {
	t.Parallel()
	s := startReal(t, Config{}, `{"width":640,"height":480}`)
	v := s.view(t, s.withToken())
	testbrowser.Do(v.ctx, t, chromedp.EmulateViewport(390, 800))
	v.is("live")
	const low = `document.querySelector("#rail").getBoundingClientRect().bottom === innerHeight`
	v.holds(low)
	v.holds(`document.querySelector("#tools").getBoundingClientRect().height > 40`)
	v.holds(`(({ scrollWidth, clientWidth }) => scrollWidth === clientWidth)(document.querySelector("#control-who"))`)
	v.saveScreenshot("narrow")
	v.holds(`[...document.querySelectorAll("#rail button")].filter((b) => b.offsetParent).map((b) => b.innerText.trim()).join() === "Desktop,Sessions,Terminal,Files,More"`)
	v.click(`#rail [aria-label="More panes"]`)
	v.shows("#rail-panel", "Settings")
	v.saveScreenshot("more")
	v.click("#rail-panel button:nth-of-type(4)")
	v.shows("#page", "Running")
	v.holds(low)
	v.holds(`document.documentElement.scrollWidth <= 390 && getComputedStyle(document.querySelector("#main")).visibility === "hidden"`)
	v.click(`#rail [aria-label="Desktop"]`)
	v.holds(`document.querySelector("#page").hidden && getComputedStyle(document.querySelector("#main")).visibility === "visible"`)
}

// TestPageFirstVisit: on a wide screen the first visit shows the sessions beside the picture.
func TestPageFirstVisit(t *testing.T) {
	t.Parallel()
	s := startReal(t, withMock(t), `{"width":640,"height":480}`)
	v := s.view(t, s.withToken(), `if (!sessionStorage.getItem("visited")) localStorage.removeItem("layout")`)
	v.is("live")
	v.holds(`document.querySelectorAll("#rail button").length > 5 && document.querySelector("#side").hidden`)
	testbrowser.Do(v.ctx, t, chromedp.EmulateViewport(1600, 900), chromedp.Reload())
	v.shows("#side", "No sessions yet")
	v.saveScreenshot("first")
	testbrowser.Evaluate[bool](v.ctx, t, `sessionStorage.setItem("visited", "1"), true`)
	v.click("#side-close")
	testbrowser.Do(v.ctx, t, chromedp.Reload())
	v.is("live")
	v.holds(`document.querySelectorAll("#rail button").length > 5 && document.querySelector("#side").hidden`)
}

// TestPageTakesDrops: files that are dragged over the picture open the pane of files, and the
// browser does not open them.
func TestPageTakesDrops(t *testing.T) {
	t.Parallel()
	s := startReal(t, Config{}, `{"width":640,"height":480}`)
	v := s.view(t, s.withToken())
	v.is("live")
	drag := func(kind string) bool {
		return testbrowser.Evaluate[bool](v.ctx, t, fmt.Sprintf(`(() => {
			const data = new DataTransfer();
			data.items.add(new File(["here"], "here.txt"));
			return document.querySelector("#main").dispatchEvent(new DragEvent(%q, { dataTransfer: data, bubbles: true, cancelable: true }));
		})()`, kind))
	}
	drag("dragenter")
	v.holds(`Boolean(document.querySelector(".pane.files .scroller"))`)
	if drag("dragover") || drag("drop") {
		t.Error("the browser takes a file that is dropped on the picture")
	}
}

// TestPageSettings uses each section of the settings.
func TestPageSettings(t *testing.T) {
	t.Parallel()
	cfg := agentsConfig(t)
	gate := slowNPM(t, &cfg)
	s := startReal(t, cfg, `{"width":640,"height":480}`)
	s.rest.Early, s.rest.Beat = 20*time.Millisecond, 30*time.Millisecond
	v := s.view(t, s.withToken())
	v.is("live")
	v.click(`#rail [aria-label="Settings"]`)
	v.shows(`[data-agent="mock"]`, "Installed")
	v.shows(`[data-agent="claude"]`, "How to sign in")
	for _, c := range []struct{ how, selector, want string }{
		{"bad", ".settings .problem", "ENOSPC"},
		{"good", `[data-agent="gemini"]`, "Installed"},
	} {
		v.click(`[data-agent="gemini"] button`)
		v.shows(`[data-agent="gemini"]`, "Downloading…")
		if err := os.WriteFile(gate, []byte(c.how+"\n"), 0); err != nil {
			t.Fatal(err)
		}
		v.shows(c.selector, c.want)
	}
	v.holds(`document.querySelector('.settings nav [aria-current]').textContent === "Agents"`)
	section := func(name string) {
		t.Helper()
		v.click(`.settings nav [data-name="` + name + `"]`)
		v.holds(`document.querySelector('.settings nav [aria-current]').dataset.name === %q`, name)
	}
	shown := `.settings .section > section:not([hidden])`
	types := func(label, text string) {
		t.Helper()
		v.holds(`(() => { const f = [...document.querySelectorAll('%s .field')].find((f) => f.firstChild.textContent === %q); f?.querySelector("input, select").focus(); return Boolean(f); })()`, shown, label)
		testbrowser.Do(v.ctx, t, chromedp.KeyEvent(text))
	}
	press := func(label string) {
		t.Helper()
		v.holds(`(() => { const b = [...document.querySelectorAll('%s button')].find((b) => b.offsetParent && b.textContent === %q); b?.click(); return Boolean(b) })()`, shown, label)
	}

	section("folders")
	folder := t.TempDir()
	if err := os.MkdirAll(filepath.Join(folder, ".sandbox-agent", "config"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, ".sandbox-agent", "config", "mcp.json"), []byte(`{"found":{"type":"remote","url":"https://example.com"}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	types("Folder on the server", folder+"\r")
	v.shows(shown, "not approved")
	press("Approve")
	v.holds(`!document.querySelector('%s').innerText.includes("not approved")`, shown)
	types("Name", "files")
	types("Value", `npx "with space" --flag`)
	press("Add")
	v.shows(shown+" .list", `"with space"`)
	v.holds(`document.querySelectorAll('%s .list li').length === 2`, shown)
	press("Remove")
	press("Remove?")
	v.holds(`document.querySelectorAll('%s .list li').length === 1`, shown)

	section("secrets")
	types("Name", "MAIL")
	types("Value", "hunter2")
	press("Set secret")
	v.shows(shown+" .list", "MAIL")
	press("Delete")
	press("Delete?")
	v.shows(shown, "No secrets.")

	section("tokens")
	types("Name", "ci")
	press("Create token")
	v.shows(shown+" .list", "view · desktop main · expires")
	v.holds(`document.querySelector('%s .row input').value.startsWith("dh_")`, shown)
	press("Revoke")
	press("Revoke?")
	v.shows(shown, "No tokens.")
	section("diagnostics")
	v.shows(shown, "main, active")
	v.holds(`!document.querySelector(".settings").innerText.includes("dh_")`)
	press("Check the live view")
	v.holds(`![..."", "Checking…"].includes(document.querySelector('%s .dim').textContent)`, shown)
	v.holds(`location.hash === "#/settings/diagnostics"`)
}

// TestPageFirstScreen bounds what a browser loads before it shows the picture.
func TestPageFirstScreen(t *testing.T) {
	t.Parallel()
	built, err := pageBuilt()
	if err != nil {
		t.Fatal(err)
	}
	compressed := func(names ...string) (sum int) {
		for _, name := range names {
			var b bytes.Buffer
			w := gzip.NewWriter(&b)
			_, _ = w.Write(built.files[name].Data)
			_ = w.Close() // a bytes.Buffer takes all
			sum += b.Len()
		}
		return sum
	}
	for what, c := range map[string]struct{ got, most int }{
		"JavaScript": {compressed(built.modules("main.js")...), 60_000},
		"CSS":        {compressed("style.css", "shell/shell.css"), 12_000},
		"HTML":       {compressed("index.html"), 8_000},
	} {
		t.Logf("%s: %d bytes", what, c.got)
		if c.got < 1000 || c.got > c.most {
			t.Errorf("%s of the first screen: %d bytes compressed, at most %d", what, c.got, c.most)
		}
	}
}
