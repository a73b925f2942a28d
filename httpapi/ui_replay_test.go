package httpapi

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/deskhand/deskhand/internal/testbrowser"
	"github.com/deskhand/deskhand/internal/testx11"
)

// video is the video of the page, in scripts.
const video = `(document.querySelector(".replay video") ?? document.createElement("video"))`

// replayed has a recording with actions of an agent and a person, a marker, an error and a
// permission that a session asked for.
type replayed struct {
	*testServer
	id    string
	begun time.Time
	agent func(path, body string) answer
}

func recordForReplay(t *testing.T) replayed {
	t.Helper()
	testx11.Require(t, "ffmpeg", "ffprobe")
	s := startReal(t, Config{}, `{"width":640,"height":480}`)
	s.rawTerminal(t, "")
	token := s.post(t, "/v1/tokens", `{"scope":"agent","name":"claude"}`).want(t, 200).json(t)["token"].(string)
	r := replayed{testServer: s}
	r.agent = func(path, body string) answer {
		return s.do(t, call{method: http.MethodPost, path: mainPath + path, body: body, header: map[string]string{"Authorization": "Bearer " + token}})
	}
	s.post(t, "/v1/sessions/asks", fmt.Sprintf(`{"agent":"mock","directory":%q}`, t.TempDir())).want(t, 200)
	r.begun = time.Now()
	r.id = s.post(t, mainPath+"/recordings", `{"title":"Sign in"}`).want(t, 201).json(t)["id"].(string)
	return r
}

// finish waits until the recording has a length in milliseconds, and has what happened so far,
// and stops it. On a busy machine the video is behind.
func (r replayed) finish(t *testing.T, length float64) {
	t.Helper()
	length = max(length, float64(time.Since(r.begun).Milliseconds()))
	eventually(t, "the recording is long enough", func() bool {
		return r.get(t, mainPath+"/recordings/"+r.id).json(t)["durationMs"].(float64) >= length
	})
	r.post(t, mainPath+"/recordings/"+r.id+"/stop", "").want(t, 200)
}

// TestPageReplays plays a recording with its actions, and moves through its events.
func TestPageReplays(t *testing.T) {
	t.Parallel()
	r := recordForReplay(t)
	v := r.view(t, r.withToken()+"&name=Ann")
	v.is("live")
	r.agent("/mouse/click", `{"x":159,"y":119,"clickCount":2}`).want(t, 200)
	r.agent("/mouse/drag", `{"startX":10,"startY":20,"endX":300,"endY":400}`).want(t, 200)
	r.agent("/keyboard/type", `{"text":"<b>hello</b>"}`).want(t, 200)
	v.point(320, 100)
	v.shows("#control", "You")
	r.message(t, "asks", "permission")
	r.sse(t, call{path: "/v1/sessions/asks/events/sse"}, isType("permission.requested"))
	r.post(t, mainPath+"/recordings/"+r.id+"/events", `{"type":"agent_error","title":"The form was refused"}`).want(t, 201)
	r.post(t, mainPath+"/recordings/"+r.id+"/markers", `{"title":"A mark"}`).want(t, 201)
	r.finish(t, 12_000)

	v.click(`#more`)
	v.click("#recordings-open")
	v.click(`#recordings [aria-label="Play Sign in"]`)
	v.holds(`location.hash === "#/replay/%s" && !document.querySelector("#recordings-panel").matches(":popover-open")`, r.id)
	v.shows(".replay header", "Sign in")
	v.holds(`%s.readyState >= 2 && %s.videoWidth === 640 && %s.currentTime > 0.1`, video, video, video)
	v.holds(`%s.seekable.length === 1 && %s.seekable.end(0) === %s.duration`, video, video, video)

	// Each lane has its events, with texts for screen readers.
	testbrowser.Do(v.ctx, t, chromedp.KeyEvent("k"))
	v.holds(`%s.paused`, video)
	lane := func(name, text string) {
		t.Helper()
		v.holds(`[...document.querySelectorAll('.replay .lane[data-lane=%s] [role=option]')].some((e) => e.getAttribute("aria-label").includes(%q))`, name, text)
	}
	lane("agent", "Agent, 0:")
	lane("people", "Ann: ")
	lane("permissions", "mock: Asks for permission: `rm -rf build`")
	lane("errors", "The form was refused")
	lane("marker", "A mark")
	row := func(text string) string {
		t.Helper()
		v.holds(`[...document.querySelectorAll(".row-of-moment")].some((e) => e.innerText.includes(%q))`, text)
		return testbrowser.Evaluate[string](v.ctx, t, fmt.Sprintf(`"#" + [...document.querySelectorAll(".row-of-moment")].find((e) => e.innerText.includes(%q)).id`, text))
	}
	// A click on an event goes to its moment, where the picture shows the action.
	v.click(row("claude: Double-click at 159, 119"))
	v.holds(`(() => { const m = document.querySelector(".replay .mark"); return m?.innerText === "claude: double-click" && m.dataset.kind === "agent" && m.style.left.startsWith("24.9") && m.style.top.startsWith("24.8"); })()`)
	v.click(row("claude: Drag from 10, 20 to 300, 400"))
	v.holds(`[...document.querySelectorAll(".replay .path line")].some((l) => [...l.attributes].map((a) => a.value).join(" ") === "10 20 300 400")`)
	v.click(row("claude: Type “<b>hello</b>”"))
	v.holds(`[...document.querySelectorAll(".replay .chip")].some((c) => c.textContent === "claude <b>hello</b>")`)
	v.shows(".replay .now", "claude: Type")
	v.click(".replay .toggle:nth-of-type(3)")
	v.holds(`document.querySelectorAll(".replay .chip, .replay .mark").length === 0`)
	v.click(".replay .toggle:nth-of-type(3)")

	testReplayKeys(t, v)
	testReplayCaptions(t, v)
	testReplayMarker(t, v, r)

	// An event of a session opens the chat at that event.
	testbrowser.Evaluate[bool](v.ctx, t, `document.addEventListener("deskhand:seek", ({ detail }) => { window.sought = detail; }); true`)
	v.click(row("Asks for permission"))
	v.click(".replay .said button")
	v.holds(`window.sought?.session === "asks" && window.sought.seq > 0 && location.hash === "#/s/asks/" + window.sought.seq`)
	v.holds(`Boolean(document.querySelector(".chat .conversation")?.contains(document.activeElement) || document.querySelector(".pane.chat") === document.activeElement)`)
	testbrowser.Evaluate[string](v.ctx, t, fmt.Sprintf(`location.hash = "#/replay/%s/5000"`, r.id))
	v.holds(`%s.readyState >= 2 && %s.paused && %s.currentTime === 5`, video, video, video)
	v.click("#page-close")
	v.holds(`document.querySelector("#page").hidden && %s.networkState === 0 && document.activeElement.id === "more"`, video)

	testReplayEnds(t, v, r)
}

// testReplayKeys presses the keys of video players, and the keys of the lists.
func testReplayKeys(t *testing.T, v *viewer) {
	t.Helper()
	at := func(seconds float64) {
		t.Helper()
		v.holds(`!%s.seeking && Math.abs(%s.currentTime - %v) < 0.001`, video, video, seconds)
	}
	press := func(keys string) {
		t.Helper()
		testbrowser.Do(v.ctx, t, chromedp.KeyEvent(keys))
	}
	testbrowser.Evaluate[bool](v.ctx, t, `document.querySelector(".pane.replay").focus(); `+video+`.currentTime = 2; true`)
	at(2)
	press(".")
	at(2 + 1.0/30)
	press(",")
	at(2)
	press(kb.ArrowRight)
	at(7)
	press(kb.ArrowLeft)
	at(2)
	press("l")
	at(12)
	press("j")
	at(2)
	press(kb.Home)
	at(0)
	press(">")
	v.holds(`%s.playbackRate === 1.5 && document.querySelector(".replay select").value === "1.5"`, video)
	press("<")
	v.holds(`%s.playbackRate === 1`, video)
	press(" ")
	v.holds(`!%s.paused && document.querySelector(".replay .controls button").getAttribute("aria-label") === "Pause"`, video)
	press("K")
	v.holds(`%s.paused`, video)

	// The lanes: the arrow keys go from event to event.
	testbrowser.Evaluate[bool](v.ctx, t, `document.querySelector(".replay .track").focus(); true`)
	press(kb.Home)
	active := `document.getElementById(document.querySelector(".replay .track").getAttribute("aria-activedescendant"))`
	v.holds(`%s?.getAttribute("aria-selected") === "true" && %s.getAttribute("aria-label").includes("Double-click")`, active, active)
	press(kb.End)
	v.holds(`%s.closest(".lane").dataset.lane === "marker" && %s.currentTime > 0`, active, video)
	press(kb.ArrowUp)
	v.holds(`%s.closest(".lane").dataset.lane === "errors"`, active)
	press(kb.ArrowUp)
	v.holds(`%s.closest(".lane").dataset.lane === "permissions"`, active)

	// Idle parts are passed over: the last event is some seconds before the end.
	v.click(".replay .toggle")
	testbrowser.Evaluate[bool](v.ctx, t, video+`.currentTime = 0; true`)
	at(0)
	v.holds(`document.querySelectorAll(".replay .idle i").length > 0`)
	press("k")
	v.shows(".replay .skipped", "Skipped 0:0")
	v.holds(`%s.ended`, video)
	v.click(".replay .toggle")
}

func testReplayCaptions(t *testing.T, v *viewer) {
	t.Helper()
	v.click(".replay .toggle:nth-of-type(4)")
	v.holds(`%s.textTracks[0].mode === "showing" && [...%s.textTracks[0].cues ?? []].some((c) => c.text.includes("Double-click at 159, 119"))`, video, video)
	v.click(".replay .toggle:nth-of-type(4)")
	v.holds(`%s.textTracks[0].mode === "disabled"`, video)
}

func testReplayMarker(t *testing.T, v *viewer, r replayed) {
	t.Helper()
	testbrowser.Evaluate[bool](v.ctx, t, `document.querySelector(".pane.replay").focus(); `+video+`.currentTime = 9; true`)
	v.press(key{name: "m", code: "KeyM", text: "m", virtual: 77})
	v.holds(`document.activeElement.getAttribute("aria-label") === "Title of the marker"`)
	testbrowser.Do(v.ctx, t, chromedp.KeyEvent(kb.Escape))
	v.holds(`document.activeElement.textContent === "Add marker" && !document.querySelector("#page").hidden`)
	v.press(key{name: "m", code: "KeyM", text: "m", virtual: 77})
	v.types("Look, mark")
	v.press(enter)
	v.holds(`[...document.querySelectorAll('.replay .lane[data-lane=marker] [role=option]')].some((e) => e.getAttribute("aria-label") === "Marker, 0:09: Look, mark")`)
	if text := string(r.get(t, mainPath+"/recordings/"+r.id+"/timeline").want(t, 200).body); !strings.Contains(text, `"Look, mark"`) {
		t.Error("the timeline has no marker of the page")
	}
}

// testReplayEnds replays what cannot be played, as a guest and on a phone.
func testReplayEnds(t *testing.T, v *viewer, r replayed) {
	t.Helper()
	testbrowser.Evaluate[string](v.ctx, t, `location.hash = "#/replay/rec_0000"`)
	v.shows(".replay .stage", "This recording doesn't exist any more.")

	// A guest of a link sees recordings of its time, and adds no markers.
	link := r.post(t, "/v1/tokens", `{"scope":"view"}`).want(t, 200).json(t)["token"].(string)
	id := r.post(t, mainPath+"/recordings", "").want(t, 201).json(t)["id"].(string)
	guest := v.another("#token=" + link)
	guest.is("live")
	still := emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-reduced-motion", Value: "reduce"}}}
	if _, err := chromedp.Call(guest.ctx, emulation.SetEmulatedMedia, still); err != nil {
		t.Fatal(err)
	}
	testbrowser.Do(guest.ctx, t, chromedp.EmulateViewport(390, 800))
	r.agent("/mouse/click", `{"x":600,"y":470}`).want(t, 200)
	testbrowser.Evaluate[string](guest.ctx, t, fmt.Sprintf(`location.hash = "#/replay/%s/0"`, id))
	guest.holds(`%s.readyState >= 2 && document.documentElement.scrollWidth <= 390`, video)
	guest.shows(".replay .controls", "Load newer")
	guest.holds(`![...document.querySelectorAll(".replay .controls button")].find((b) => b.textContent === "Add marker").offsetParent`)

	// A recording that goes on is loaded again, and when it ends.
	before := testbrowser.Evaluate[float64](guest.ctx, t, video+".duration")
	r.post(t, mainPath+"/keyboard/type", `{"text":"more\nlines\n"}`).want(t, 200)
	guest.holds(`(() => {
		if (%s.duration > %v) return true;
		const newer = [...document.querySelectorAll(".replay .controls button")].find((b) => b.textContent === "Load newer");
		if (newer.ariaBusy !== "true") newer.click();
		return false;
	})()`, video, before)
	guest.holds(`[...document.querySelectorAll(".row-of-moment")].some((e) => e.innerText.includes("claude: Click at 600, 470"))`)
	r.post(t, mainPath+"/recordings/"+id+"/stop", "").want(t, 200)
	guest.holds(`![...document.querySelectorAll(".replay .controls button")].find((b) => b.textContent === "Load newer").offsetParent && %s.readyState >= 2`, video)
	guest.holds(`(%s.pause(), %s.paused && !%s.seeking)`, video, video, video)
	testbrowser.Evaluate[bool](guest.ctx, t, `[...document.querySelectorAll(".row-of-moment")].find((e) => e.innerText.includes("claude: Click at 600, 470")).click(); true`)
	guest.holds(`[...document.querySelectorAll(".replay .mark.left.above i")].some((i) => getComputedStyle(i).animationName === "none")`)
	r.do(t, call{method: http.MethodDelete, path: mainPath + "/recordings/" + id}).want(t, 204)
	guest.shows(".replay .stage", "This recording was deleted.")
}

// TestPageReplaysRegion: the marks of a recording of a part of the screen are where the
// actions were.
func TestPageReplaysRegion(t *testing.T) {
	t.Parallel()
	r := recordForReplay(t)
	r.post(t, mainPath+"/recordings/"+r.id+"/stop", "").want(t, 200)
	info := r.post(t, mainPath+"/recordings", `{"region":{"x":100,"y":60,"width":200,"height":120},"scale":0.5}`).want(t, 201).json(t)
	if got := info["region"]; fmt.Sprint(got) != "map[height:120 width:200 x:100 y:60]" {
		t.Errorf("region = %v", got)
	}
	r.id = info["id"].(string)
	r.agent("/mouse/click", `{"x":150,"y":90}`).want(t, 200)
	r.finish(t, 1500)
	v := r.view(t, r.withToken()+"#/replay/"+r.id)
	v.holds(`%s.readyState >= 2`, video)
	v.holds(`(() => { const row = [...document.querySelectorAll(".row-of-moment")].find((e) => e.innerText.includes("Click at 150, 90")); row?.click(); return Boolean(row); })()`)
	v.holds(`(() => {
		const ring = document.querySelector(".replay .mark i")?.getBoundingClientRect();
		const frame = document.querySelector(".replay .frame").getBoundingClientRect();
		if (!ring || !frame.width) return false;
		const [x, y] = [((ring.left + ring.right) / 2 - frame.left) / frame.width, ((ring.top + ring.bottom) / 2 - frame.top) / frame.height];
		return Math.abs(x - 50.5 / 200) < 0.01 && Math.abs(y - 30.5 / 120) < 0.02;
	})()`)
	v.saveScreenshot("region")
}
