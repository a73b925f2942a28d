package httpapi

import (
	"fmt"
	"testing"

	"github.com/chromedp/cdproto/browser"
	"github.com/chromedp/chromedp"

	"github.com/deskhand/deskhand/internal/testbrowser"
)

// background lets a test hide the page and see its notifications, as the browser shows them.
const background = `
	let away = false;
	Object.defineProperty(Document.prototype, "hidden", { get: () => away });
	window.hide = (now) => { away = now; document.dispatchEvent(new Event("visibilitychange")); };
	window.notes = [];
	window.Notification = class extends Notification {
		constructor(title, options) { super(title, options); notes.push(this); }
		close() { this.closed = true; super.close(); }
	};`

// TestPageNotifies: a hidden page tells of an agent that waits, if the user has chosen that. A
// click on the notification leads to the question.
func TestPageNotifies(t *testing.T) {
	t.Parallel()
	s := startReal(t, withMock(t), `{"width":640,"height":480}`)
	for _, id := range []string{"one", "two"} {
		s.post(t, "/v1/sessions/"+id, fmt.Sprintf(`{"agent":"mock","directory":%q}`, t.TempDir())).want(t, 200)
	}
	asks := func(id, text string) {
		t.Helper()
		s.post(t, "/v1/sessions/"+id+"/messages", fmt.Sprintf(`{"message":%q}`, text)).want(t, 204)
	}
	v := s.view(t, s.withToken()+"#/settings/notifications", background)
	v.is("live")
	set := func(setting browser.PermissionSetting) {
		t.Helper()
		p := browser.SetPermissionParams{Permission: &browser.PermissionDescriptor{Name: "notifications"}, Setting: setting, Origin: s.url}
		if _, err := chromedp.CallBrowser(v.ctx, browser.SetPermission, p); err != nil {
			t.Fatal(err)
		}
	}
	hide := func(hidden bool) { testbrowser.Evaluate[bool](v.ctx, t, fmt.Sprintf("hide(%v); true", hidden)) }
	shown := `.settings .section > section:not([hidden])`
	check := shown + ` input[type="checkbox"]`

	set(browser.PermissionSettingDenied)
	v.click(check)
	v.shows(shown, "The browser blocks notifications of this page.")
	v.holds(`!document.querySelector(%q).checked`, check)
	set(browser.PermissionSettingGranted)
	v.click(check)
	v.holds(`document.querySelector(%q).checked && !document.querySelector(%q).innerText.includes("blocks")`, check, shown)
	v.saveScreenshot("settings")

	// A visible page shows none, and a hidden one none of what it has shown before.
	asks("one", "permission")
	v.holds(`document.title.startsWith("● Permission")`)
	hide(true)
	asks("two", "permission")
	v.holds(`notes.length === 1 && notes[0].title === "mock needs permission" && notes[0].body === "Open the page to answer."`)
	testbrowser.Evaluate[bool](v.ctx, t, `notes[0].dispatchEvent(new Event("click"))`)
	hide(false)
	v.holds(`location.hash === "#/s/two" && document.activeElement.matches(".conversation .permission") && notes[0].closed === true`)

	// The session is open already.
	v.click(".conversation .permission button:nth-of-type(3)")
	v.holds(`!document.querySelector(".conversation .permission") && document.querySelector(".composer .stop").hidden`)
	hide(true)
	asks("two", "permission")
	v.holds(`notes.length === 2 && document.querySelector(".conversation .permission") !== null`)
	testbrowser.Evaluate[bool](v.ctx, t, `notes[1].dispatchEvent(new Event("click"))`)
	v.holds(`document.activeElement.matches(".conversation .permission")`)

	// An answer elsewhere closes a notification.
	hide(false)
	s.post(t, "/v1/sessions/two/cancel", "{}").want(t, 204)
	v.holds(`!document.querySelector(".conversation .permission")`)
	hide(true)
	asks("two", "permission")
	v.holds(`notes.length === 3 && notes[2].closed === undefined`)
	s.post(t, "/v1/sessions/two/cancel", "{}").want(t, 204)
	v.holds(`notes[2].closed === true`)

	// They can be turned off from the list of commands.
	hide(false)
	testbrowser.Evaluate[bool](v.ctx, t, `document.querySelector("#commands-open").click(); true`)
	v.holds(`document.activeElement.matches(".palette input")`)
	testbrowser.Do(v.ctx, t, chromedp.KeyEvent("notifications\r"))
	v.shows("#toast", "Notifications are off")
	hide(true)
	asks("two", "permission")
	v.holds(`document.querySelector('#rail [aria-label="Sessions"]').dataset.count === "2"`)
	v.holds(`notes.length === 3`)
}
