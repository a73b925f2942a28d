package httpapi

import (
	"fmt"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/deskhand/deskhand/internal/testbrowser"
)

// TestPageKeys: keys open panes and take control, a list of commands finds what its user types,
// and texts and the desktop keep their keys.
func TestPageKeys(t *testing.T) {
	t.Parallel()
	s := startReal(t, withMock(t), `{"width":640,"height":480}`)
	s.post(t, "/v1/sessions/one", fmt.Sprintf(`{"agent":"mock","directory":%q,"title":"Water the plants"}`, t.TempDir())).want(t, 200)
	v := s.view(t, s.withToken())
	v.is("live")
	press := func(keys string) { t.Helper(); testbrowser.Do(v.ctx, t, chromedp.KeyEvent(keys)) }
	commands := key{name: "k", code: "KeyK", virtual: 75, modifiers: chromedp.ModifierCtrl}
	v.holds(`!document.querySelector("#shortcuts-open").hidden`) // the keys are there

	press("?")
	v.shows("dialog.shortcuts[open] .columns", "Take or release control")
	v.saveScreenshot("keys")
	press("t") // not while a dialog asks
	press(kb.Escape)
	v.holds(`!document.querySelector("dialog[open]")`)
	v.shows("#control", "Take control")

	press("gf")
	v.holds(`document.querySelector('#rail [aria-label="Files"]').ariaPressed === "true" && Boolean(document.querySelector(".pane.files .open"))`)
	press("gd")
	v.holds(`document.querySelector("#dock").hidden`)

	v.press(commands)
	v.shows(".palette[open] ul", "New session")
	v.shows(".palette[open] ul", "Water the plants")
	v.saveScreenshot("commands")
	v.types("plants water")
	v.holds(`document.querySelectorAll(".palette li").length === 1`)
	v.types(" nothing")
	v.shows(".palette[open] > p", "Nothing matches")
	for range len(" nothing") {
		press(kb.Backspace)
	}
	v.press(enter)
	v.holds(`location.hash === "#/s/one" && !document.querySelector("dialog[open]")`)

	// A text keeps its keys, but for those with Ctrl.
	v.holds(`document.activeElement.matches(".composer textarea")`)
	v.types("gt?")
	v.holds(`document.activeElement.value === "gt?" && !document.querySelector("dialog[open]") && document.querySelector("#dock").hidden`)
	v.press(commands)
	v.shows(".palette[open] ul", "New session")
	v.press(commands)
	v.holds(`!document.querySelector("dialog[open]")`)

	// T takes control, and then the keys are the desktop's.
	testbrowser.Evaluate[bool](v.ctx, t, `document.activeElement.blur(), true`)
	press("t")
	v.shows("#control", "You · in control")
	v.holds(`document.querySelector("#main").classList.contains("captured")`)
	press("?")
	v.press(commands)
	v.holds(`!document.querySelector("dialog[open]")`)
	testbrowser.Evaluate[bool](v.ctx, t, `document.activeElement.blur(), true`)
	press("t")
	v.shows("#control", "Take control")

	// Single keys can be turned off.
	press("?")
	v.click("dialog.shortcuts input")
	press(kb.Escape)
	v.holds(`!document.querySelector("dialog[open]")`)
	press("n")
	v.press(commands)
	v.shows(".palette[open] ul", "New session")
	v.holds(`location.hash === "#/s/one"`)
}

// TestPageEmptyDesktop: a desktop without windows offers a terminal, until there is a window.
func TestPageEmptyDesktop(t *testing.T) {
	t.Parallel()
	s := startReal(t, Config{}, `{"width":640,"height":480}`)
	v := s.view(t, s.withToken())
	v.is("live")
	v.shows("#empty", "This desktop is empty")
	v.saveScreenshot("empty")
	v.point(50, 50) // a person who uses the desktop needs its room
	v.shows("#control", "You · in control")
	v.holds(`document.querySelector("#empty").hidden`)
	v.click("#control")
	v.click("#control-release")
	v.shows("#empty", "This desktop is empty")
	v.click("#empty .row button")
	v.holds(`document.querySelector("#empty").hidden`)
	windows := s.get(t, mainPath+"/windows").want(t, 200).json(t)["windows"].([]any)
	if len(windows) != 1 {
		t.Fatalf("windows: %v", windows)
	}
	window := fmt.Sprintf("%s/windows/%v", mainPath, windows[0].(map[string]any)["id"])
	s.post(t, window+"/minimise", "").want(t, 200)
	v.click(`[popovertarget="windows-panel"]`)
	v.shows("#windows", "Minimized")
	v.click(`[popovertarget="share-panel"]`)
	v.click("#share-make")
	v.shows("#share-link", "works only on this computer")
	testbrowser.Do(v.ctx, t, chromedp.KeyEvent(kb.Escape))
	s.post(t, window+"/close", "").want(t, 200)
	v.shows("#empty", "This desktop is empty")
	v.click(`#empty [aria-label="Close"]`)
	v.holds(`document.querySelector("#empty").hidden`)

	// A person with a link for control may start nothing.
	token := s.post(t, "/v1/tokens", `{"scope":"control"}`).want(t, 200).json(t)["token"].(string)
	guest := v.another("#token=" + token)
	guest.is("live")
	guest.holds(`!document.querySelector("#shortcuts-open").hidden && !document.querySelector("#empty")`)
}
