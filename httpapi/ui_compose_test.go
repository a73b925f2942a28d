package httpapi

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/deskhand/deskhand/internal/testbrowser"
)

// TestPageCompletes: a message is completed with the agent's commands and with files.
func TestPageCompletes(t *testing.T) {
	t.Parallel()
	s := serve(t, withMock(t))
	folder := t.TempDir()
	for _, name := range []string{"src/main.go", "src/main_test.go", "README.md", ".hidden"} {
		file := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s.post(t, "/v1/sessions/one", fmt.Sprintf(`{"agent":"mock","directory":%q}`, folder)).want(t, 200)
	s.post(t, "/v1/sessions/one/messages", `{"message":"demo"}`).want(t, 204)
	v := s.view(t, s.withToken()+"#/s/one")
	v.shows(".conversation header .state", "Ready")
	const value = `document.querySelector(".composer textarea").value`
	choices := func(want string) {
		t.Helper()
		v.holds(`[...document.querySelectorAll(".composer .choices:not([hidden]) b")].map((e) => e.textContent).join() === %q`, want)
	}
	empty := func() {
		t.Helper()
		testbrowser.Evaluate[bool](v.ctx, t, `(() => { const e = document.querySelector(".composer textarea"); e.value = ""; return e.dispatchEvent(new Event("input")); })()`)
	}
	v.click(".composer textarea")
	v.types("see @")
	choices("src/,README.md")
	v.saveScreenshot("files")
	v.types("s")
	v.press(enter)
	v.holds(value + ` === "see @src/"`)
	choices("main_test.go,main.go")
	testbrowser.Do(v.ctx, t, chromedp.KeyEvent(kb.ArrowDown))
	v.holds(`document.querySelector(".composer [aria-selected=true]").id === document.activeElement.getAttribute("aria-activedescendant")`)
	testbrowser.Do(v.ctx, t, chromedp.KeyEvent(kb.Tab))
	v.holds(value + ` === "see @src/main.go " && document.querySelector(".choices").hidden`)
	v.types("@nothing")
	v.holds(`document.querySelector(".choices").hidden`)
	empty()

	// Commands, at the beginning only.
	v.types("/")
	v.holds(`document.querySelectorAll(".composer .choices:not([hidden]) li").length > 0`)
	v.saveScreenshot("commands")
	first := testbrowser.Evaluate[string](v.ctx, t, `document.querySelector(".composer .choices b").textContent`)
	v.press(enter)
	v.holds(value+` === %q`, first+" ")
	empty()
	v.types("a /")
	v.holds(value + ` === "a /" && document.querySelector(".choices").hidden`)
}

// TestPageKeepsSessions: sessions can be renamed, archived and restored.
func TestPageKeepsSessions(t *testing.T) {
	t.Parallel()
	s := serve(t, withMock(t))
	v := s.conversation(t, "one")
	option := func(n int) {
		t.Helper()
		v.click(`.conversation [aria-label="Session options"]`)
		v.click(fmt.Sprintf(`.conversation .items button:nth-child(%d)`, n))
	}
	v.click(`.conversation [aria-label="Session options"]`)
	v.saveScreenshot("menu")
	testbrowser.Do(v.ctx, t, chromedp.KeyEvent(kb.Escape))
	v.holds(`!document.querySelector(".options-menu").open && document.activeElement.ariaLabel === "Session options" && document.querySelector(".conversation") !== null`)
	option(1)
	v.shows("dialog[open] h2", "Rename the session")
	testbrowser.Do(v.ctx, t, chromedp.KeyEvent("Better name"+kb.Enter))
	v.shows(".conversation h2", "Better name")
	option(2)
	v.shows("#toast", "Session archived")
	eventually(t, "it is archived", func() bool { return s.get(t, "/v1/sessions/one").want(t, 200).json(t)["archived"] == true })
	v.click(`.conversation [aria-label="Back to the sessions"]`)
	v.shows(".list-view", "All sessions are archived")
	v.click(".list-view .archive")
	v.shows(".sessions", "Better name")
	v.saveScreenshot("archive")
	// A session that waits is shown in any case.
	s.post(t, "/v1/sessions/one/messages", `{"message":"permission"}`).want(t, 204)
	v.shows(".list-view", "The archive is empty")
	v.click(".list-view .archive")
	v.shows(".sessions", "Needs you")
	v.click(".sessions li button")
	option(2)
	eventually(t, "it is not archived", func() bool { return s.get(t, "/v1/sessions/one").want(t, 200).json(t)["archived"] == nil })
	s.post(t, "/v1/sessions/one/cancel", "").want(t, 204)
	v.click(`.conversation [aria-label="Back to the sessions"]`)
	v.shows(".sessions", "Ready")
	v.holds(`document.querySelector(".list-view .archive").hidden`)
}
