package httpapi

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/deskhand/deskhand/internal/testbrowser"
	"github.com/deskhand/deskhand/internal/testx11"
)

// TestPageTimeline: the timeline below the picture has what happens, goes to the moment of an
// event in the recording or the transcript, and follows the transcript.
func TestPageTimeline(t *testing.T) {
	t.Parallel()
	testx11.Require(t, "ffmpeg", "ffprobe")
	s := startReal(t, Config{}, `{"width":640,"height":480}`)
	token := s.post(t, "/v1/tokens", `{"scope":"agent","name":"claude"}`).want(t, 200).json(t)["token"].(string)
	act := func(path, body string) {
		t.Helper()
		s.do(t, call{method: http.MethodPost, path: mainPath + path, body: body, header: map[string]string{"Authorization": "Bearer " + token}}).want(t, 200)
	}
	v := s.view(t, s.withToken()+"&name=Ann")
	v.is("live")
	v.shows(".strip .none", "appears here")
	lane := func(name, text string) {
		t.Helper()
		v.holds(`[...document.querySelectorAll('.strip .lane[data-lane=%s] [role=option]')].some((e) => e.getAttribute("aria-label").includes(%q))`, name, text)
	}
	act("/mouse/click", `{"x":50,"y":60}`)
	act("/mouse/click", `{"x":100,"y":120}`)
	lane("agent", "claude: Click at 100, 120")
	v.holds(`document.querySelector(".strip .none").hidden`)
	v.holds(`document.querySelectorAll('.strip .shots img[src^="data:image/jpeg"]').length > 0`)
	v.point(200, 100)
	lane("people", "Ann: In control")
	// After a reload the timeline still has them.
	testbrowser.Do(v.ctx, t, chromedp.Reload())
	v.is("live")
	lane("agent", "claude: Click at 100, 120")

	// The session that is shown has its events there.
	s.post(t, "/v1/sessions/asks", fmt.Sprintf(`{"agent":"mock","directory":%q}`, t.TempDir())).want(t, 200)
	s.turn(t, "asks", "demo")
	s.message(t, "asks", "permission")
	testbrowser.Evaluate[string](v.ctx, t, `location.hash = "#/s/asks"`)
	v.shows(".conversation", "rm -rf build")
	lane("permissions", "mock: Asks for permission: `rm -rf build`")
	lane("errors", "go test ./... failed")

	testTimelineWithoutRecording(t, v)
	testTimelineRecorded(t, v, s, act)

	guest := v.another("#token=" + s.post(t, "/v1/tokens", `{"scope":"view"}`).want(t, 200).json(t)["token"].(string))
	guest.is("live")
	guest.holds(`document.querySelector("#strip").hidden`)
}

// testTimelineWithoutRecording goes from an event to its row, and from a row to the event.
func testTimelineWithoutRecording(t *testing.T, v *viewer) {
	t.Helper()
	const active = `document.getElementById(document.querySelector(".strip .track").getAttribute("aria-activedescendant"))`
	testbrowser.Evaluate[bool](v.ctx, t, `document.addEventListener("deskhand:seek", ({ detail }) => { window.sought = detail; }); document.querySelector(".strip .track").focus(); true`)
	testbrowser.Do(v.ctx, t, chromedp.KeyEvent(kb.End))
	for range 3 { // to the lane of permissions, from whichever has the last event
		testbrowser.Do(v.ctx, t, chromedp.KeyEvent(kb.ArrowDown))
	}
	testbrowser.Do(v.ctx, t, chromedp.KeyEvent(kb.ArrowUp))
	v.holds(`%s?.closest(".lane").dataset.lane === "permissions"`, active)
	v.shows(".strip .moment-card", "Asks for permission")
	testbrowser.Do(v.ctx, t, chromedp.KeyEvent(kb.Enter))
	v.holds(`window.sought?.session === "asks" && window.sought.source === "timeline"`)
	v.holds(`document.querySelector(".conversation .marked")?.innerText.includes("rm -rf build") && location.hash.startsWith("#/s/asks/")`)
	v.shows(".strip .moment-card", "Show in chat")
	testbrowser.Do(v.ctx, t, chromedp.KeyEvent(kb.Escape))
	v.holds(`!document.querySelector(".strip .moment-card").matches(":popover-open")`)

	// Other times, and back to the present.
	testbrowser.Evaluate[bool](v.ctx, t, `document.querySelector(".strip .track").focus(); true`)
	testbrowser.Do(v.ctx, t, chromedp.KeyEvent(kb.PageUp))
	v.holds(`document.querySelector(".strip .live").getAttribute("aria-pressed") === "false"`)
	v.click(`.conversation [data-time] p`)
	v.shows(".strip .moment-card", "Message: demo")
	v.holds(`window.sought.source === "chat" && document.querySelector(".strip [aria-selected=true]")?.closest(".lane").dataset.lane === "people"`)
	v.click(".strip .live")
	v.holds(`document.querySelector(".strip .live").getAttribute("aria-pressed") === "true" && !document.querySelector(".strip .moment-card").matches(":popover-open")`)
}

// testTimelineRecorded goes from an event to its moment in the recording.
func testTimelineRecorded(t *testing.T, v *viewer, s *testServer, act func(path, body string)) {
	t.Helper()
	s.post(t, mainPath+"/control/take", `{"force":true}`).want(t, 200)
	s.post(t, mainPath+"/control/release", "").want(t, 200)
	id := s.post(t, mainPath+"/recordings", "").want(t, 201).json(t)["id"].(string)
	eventually(t, "two seconds are recorded", func() bool {
		return s.get(t, mainPath+"/recordings/"+id).json(t)["durationMs"].(float64) > 2000
	})
	act("/mouse/click", `{"x":222,"y":111}`)
	v.holds(`document.querySelectorAll('.strip .shots img[src*="/recordings/%s/thumbnails/"]').length > 0`, id)
	// The mark of the click is the last one of its lane, after a pause.
	const mark = `[...document.querySelectorAll('.strip .lane[data-lane=agent] [role=option]')].find((e) => e.getAttribute("aria-label").includes("222, 111"))`
	testbrowser.Evaluate[bool](v.ctx, t, `(() => { const span = document.querySelector(".strip select"); span.value = "60000"; span.dispatchEvent(new Event("change")); return true; })()`)
	v.holds(`Boolean(%s)`, mark)
	// The timeline stands still under the pointer.
	box := testbrowser.Evaluate[[]float64](v.ctx, t, `(() => {
		const b = `+mark+`.getBoundingClientRect();
		const [x, y] = [b.left + 2, (b.top + b.bottom) / 2];
		document.querySelector(".strip .track").dispatchEvent(new PointerEvent("pointermove", { clientX: x, clientY: y }));
		return [x, y];
	})()`)
	v.shows(".strip .moment-card", "222, 111")
	testbrowser.Do(v.ctx, t, chromedp.MouseClickXY(box[0], box[1]))
	v.holds(`location.hash.startsWith("#/replay/%s/")`, id)
	v.holds(`%s.readyState >= 2 && %s.paused && %s.currentTime > 1.5`, video, video, video)
	v.shows(".replay .now", "222, 111")
	v.holds(`document.querySelector(".replay .mark")?.innerText === "claude: click"`)
	testbrowser.Evaluate[bool](v.ctx, t, `history.back(); true`)
	v.holds(`document.querySelector("#page").hidden && location.hash.startsWith("#/s/asks")`)
	s.post(t, mainPath+"/recordings/"+id+"/stop", "").want(t, 200)
}
