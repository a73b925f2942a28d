package httpapi

import (
	"fmt"
	"net/http"
	"syscall"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/deskhand/deskhand/internal/testbrowser"
	"github.com/deskhand/deskhand/internal/testx11"
)

// TestPageAsksBeforeStop says what ends with the desktop.
func TestPageAsksBeforeStop(t *testing.T) {
	t.Parallel()
	testx11.Require(t, "ffmpeg")
	s := startReal(t, Config{}, `{"width":640,"height":480}`)
	v := s.view(t, s.withToken())
	v.is("live")
	ask := func() {
		t.Helper()
		v.click("#more")
		v.click("#stop")
		v.holds(`document.querySelector("#stop-dialog").open && document.activeElement.id === "stop-cancel" && document.querySelector("#stop-list").ariaBusy === "false"`)
	}
	ask()
	for _, text := range []string{"No apps are open", "No one else is watching", "No recording in progress"} {
		v.shows("#stop-list", text)
	}
	v.click("#stop-cancel")
	v.holds(`!document.querySelector("#stop-dialog").open && document.activeElement.id === "more"`)
	v.is("live")

	s.rawTerminal(t, "")
	s.post(t, mainPath+"/launch", `{"app":"xterm","wait":true}`).want(t, 200)
	s.post(t, mainPath+"/recordings", "").want(t, 201)
	v.another("?role=view&token=" + s.Token()).is("live")
	v.holds(`document.querySelector("#people-count").textContent === "3"`)
	ask()
	for _, text := range []string{"2 apps will close", "1 other viewer will be disconnected", "The recording (0:"} {
		v.shows("#stop-list", text)
	}
	testbrowser.Do(v.ctx, t, chromedp.KeyEvent("\x1b"))
	v.is("live")
	ask()
	v.click("#stop-confirm")
	v.is("off")
}

// TestPageTellsRestart: viewers by video and by screenshots are told that the X
// server has ended and is back.
func TestPageTellsRestart(t *testing.T) {
	t.Parallel()
	s := startReal(t, Config{}, `{"width":640,"height":480}`)
	v := s.view(t, s.withToken(), `
		const real = window.fetch;
		window.fetch = (...a) => (window.cut ? Promise.reject(new TypeError("cut")) : real(...a));
		window.WebSocket = class extends WebSocket { constructor(...a) { super(...a); window.socket = this; } };`)
	v.is("live")
	worse := &viewer{t, s, testbrowser.Window(v.ctx, t, s.url+"/ui/"+s.withToken(), "delete window.RTCPeerConnection; delete window.VideoDecoder;")}
	worse.is("live")
	s.killXServer(t)
	for _, v := range []*viewer{v, worse} {
		v.shows("#notice", "X server stopped and was restarted")
		v.is("live")
		v.shows("#notice", "X server stopped and was restarted")
		v.click("#notice button")
		v.holds(`document.querySelector("#notice").hidden`)
	}
	// One that was not connected then is told when it is again.
	before := s.get(t, mainPath+"/status").want(t, 200).json(t)["startedAt"]
	testbrowser.Evaluate[bool](v.ctx, t, "window.cut = true, socket.close(), true")
	v.is("reconnecting")
	s.killXServer(t)
	eventually(t, "another X server", func() bool {
		now := s.get(t, mainPath+"/status").want(t, 200).json(t)
		return now["state"] == "active" && now["startedAt"] != before
	})
	testbrowser.Evaluate[bool](v.ctx, t, "window.cut = false; true")
	v.is("live")
	v.shows("#notice", "X server stopped and was restarted")
}

func (s *testServer) killXServer(t *testing.T) {
	t.Helper()
	for _, p := range s.get(t, mainPath+"/status").want(t, 200).json(t)["processes"].([]any) {
		if p := p.(map[string]any); p["name"] == "Xvfb" {
			if err := syscall.Kill(int(p["pid"].(float64)), syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestPageEndedLink: a link that expired or was revoked says so.
func TestPageEndedLink(t *testing.T) {
	t.Parallel()
	s := startReal(t, Config{}, `{"width":640,"height":480}`)
	made := s.post(t, "/v1/tokens", `{"scope":"view","ttl":600}`).want(t, 200).json(t)
	v := s.view(t, fmt.Sprintf("?role=view#token=%v", made["token"]))
	v.is("live")
	s.do(t, call{method: http.MethodDelete, path: fmt.Sprintf("/v1/tokens/%v", made["id"])}).want(t, 204)
	v.is("locked")
	v.shows("#cover h2", "This link no longer works")
	v.shows("#cover", "expired or was revoked")
	v.holds(`document.activeElement.id === "token"`)
	testbrowser.Do(v.ctx, t, chromedp.SendKeys("#token", "wrong\r"))
	v.shows("#cover h2", "Enter your access token")
	v.shows("#cover .problem", "That token isn't valid")
	testbrowser.Do(v.ctx, t, chromedp.SendKeys("#token", s.Token()+"\r"))
	v.is("live")

	short := s.post(t, "/v1/tokens", `{"scope":"view","ttl":1}`).want(t, 200).json(t)["token"].(string)
	eventually(t, "the token has expired", func() bool {
		return s.do(t, call{path: mainPath + "/status", header: map[string]string{"Authorization": "Bearer " + short}}).StatusCode == 401
	})
	late := v.another("?role=view#token=" + short)
	late.is("locked")
	late.shows("#cover h2", "This link no longer works")
}

// relayOnly keeps a browser from reaching anything by WebRTC but a TURN server.
const relayOnly = `window.RTCPeerConnection = class extends RTCPeerConnection {
	constructor(config) { super({ ...config, iceTransportPolicy: "relay" }); }
};`

// TestPageShowsScreenshotFirst: where WebRTC is blocked, there is a
// picture from the first second on, and a reload begins with what got through.
func TestPageShowsScreenshotFirst(t *testing.T) {
	t.Parallel()
	s := startReal(t, Config{}, `{"width":640,"height":480}`)
	s.rawTerminal(t, "")
	v := s.view(t, s.withToken(), relayOnly+`window.states = [];
		addEventListener("DOMContentLoaded", () => new MutationObserver(() => states.push(document.body.dataset.state + " " + document.querySelector("#cover").innerText))
			.observe(document.body, { attributeFilter: ["data-state"] }));`)
	v.is("connecting")
	v.shows("#cover", "Showing screenshots in the meantime")
	v.holds(`document.body.dataset.state === "connecting" && document.querySelector("#frame").checkVisibility() && document.querySelector("#canvas").width === 640`)
	v.sees()
	v.is("live")
	v.holds(`document.querySelector("#frame").dataset.surface === "canvas"`)
	v.sees()
	v.shows("#control", "Take control")
	testbrowser.Do(v.ctx, t, chromedp.Reload())
	v.is("live")
	v.holds(`!document.querySelector("#quality").hidden`)
	v.holds(`states.every((s) => !s.includes("WebRTC"))`)
	v.click("#quality")
	v.shows("#quality-why", "WebRTC is blocked on this network; using WebSocket instead.")
	v.click("#quality-why button")
	v.holds(`sessionStorage.getItem("transport") === null`)
}

// TestPageFullScreen: every control of the bar can be used in full screen.
func TestPageFullScreen(t *testing.T) {
	t.Parallel()
	s := startReal(t, Config{}, `{"width":640,"height":480}`)
	v := s.view(t, s.withToken()+"&name=A+viewer+with+a+long+name")
	v.is("live")
	v.point(100, 100)
	v.shows("#control", "You · in control")
	v.holds(`!document.querySelector("#quality").hidden`)
	v.click("#full")
	v.holds(`document.body.classList.contains("full") && document.fullscreenElement !== null`)
	v.holds(`document.querySelector("#main").getBoundingClientRect().top === 0 && document.querySelector("#main").offsetHeight === innerHeight`)
	for _, width := range []int64{1440, 1024, 768, 390, 320} {
		resize(t, v, width, 700)
		testbrowser.Evaluate[bool](v.ctx, t, `document.body.classList.add("peek"); true`)
		v.holds(`(() => {
			window.hiddenControls = [...document.querySelectorAll("#bar button, #tools button")].filter((b) => {
				if (!b.checkVisibility()) return false;
				const box = b.getBoundingClientRect();
				const hit = document.elementFromPoint((box.left + box.right) / 2, (box.top + box.bottom) / 2);
				return box.left < 0 || box.right > innerWidth || box.top < 0 || box.bottom > innerHeight || !b.contains(hit);
			}).map((b) => b.id || b.title);
			return hiddenControls.length === 0 && innerWidth === %d;
		})()`, width)
		v.click("#more")
		v.shows("#more-panel", "Stop desktop")
		testbrowser.Do(v.ctx, t, chromedp.KeyEvent("\x1b"))
	}
}

// TestPageRecordingsProblem: a list that cannot be had is not an empty one.
func TestPageRecordingsProblem(t *testing.T) {
	t.Parallel()
	s := startReal(t, Config{}, `{"width":640,"height":480}`)
	v := s.view(t, s.withToken(), `
		const real = window.fetch;
		window.fetch = (url, init) => {
			if (!window.broken || !String(url).endsWith("/recordings")) return real(url, init);
			const body = JSON.stringify({ title: "Internal Error", detail: "the recordings' folder cannot be read" });
			return Promise.resolve(new Response(body, { status: 500, headers: { "Content-Type": "application/problem+json" } }));
		};`)
	v.is("live")
	open := func() {
		t.Helper()
		v.click("#more")
		v.click("#recordings-open")
	}
	testbrowser.Evaluate[bool](v.ctx, t, "window.broken = true")
	open()
	v.shows("#recordings-problem", "Couldn't list recordings. The recordings' folder cannot be read.")
	v.holds(`document.querySelector("#recordings-none").hidden`)
	testbrowser.Do(v.ctx, t, chromedp.KeyEvent("\x1b"))
	testbrowser.Evaluate[bool](v.ctx, t, "window.broken = false; true")
	open()
	v.shows("#recordings-none", "No recordings yet")
	v.holds(`document.querySelector("#recordings-problem").hidden`)
}

// TestPageFocus: the focus goes into a panel that opens, and back to its button.
func TestPageFocus(t *testing.T) {
	t.Parallel()
	s := startReal(t, Config{}, `{"width":640,"height":480}`)
	v := s.view(t, s.withToken())
	v.is("live")
	within := func(id string) {
		t.Helper()
		v.holds(`document.querySelector("#%s").contains(document.activeElement) && document.querySelector("#%s").matches(":popover-open")`, id, id)
	}
	for _, panel := range []string{"windows", "keys", "clipboard", "view", "share", "more"} {
		button := fmt.Sprintf(`[popovertarget="%s-panel"]`, panel)
		v.click(button)
		within(panel + "-panel")
		testbrowser.Do(v.ctx, t, chromedp.KeyEvent("\x1b"))
		v.holds(`document.activeElement === document.querySelector(%q)`, button)
	}
	// From one panel to another, by keys alone.
	for _, one := range []struct{ button, panel string }{{"recordings-open", "recordings-panel"}, {"programs", "programs-panel"}} {
		testbrowser.Do(v.ctx, t, chromedp.Focus("#more"), chromedp.KeyEvent("\r"))
		within("more-panel")
		testbrowser.Do(v.ctx, t, chromedp.Focus("#"+one.button), chromedp.KeyEvent("\r"))
		within(one.panel)
		testbrowser.Do(v.ctx, t, chromedp.KeyEvent("\x1b"))
		v.holds(`document.activeElement.id === "more"`)
	}
}
