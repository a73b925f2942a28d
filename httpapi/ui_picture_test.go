package httpapi

import (
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/deskhand/deskhand/internal/testbrowser"
	"github.com/deskhand/deskhand/internal/testx11"
)

// shownRate is how many pictures a second the page shows; NaN if it tells none.
const shownRate = `Number(document.querySelector("#quality-text").textContent.match(/(\d+) fps/)?.[1])`

// TestPageQuality chooses the quality of the picture, over each kind of link. The choice holds
// after a reload.
func TestPageQuality(t *testing.T) {
	t.Parallel()
	testx11.Require(t, "xterm")
	s := startReal(t, Config{}, `{"width":640,"height":480}`)
	s.post(t, mainPath+"/launch", `{"app":"xterm","wait":true,"args":["-e","sh","-c","while :; do date +%N; sleep 0.02; done"]}`).want(t, 200)
	for _, c := range []struct{ link, script, auto, low, details string }{
		{"WebRTC", "", shownRate + " > 7", shownRate + " <= 6", "WebRTC"},
		{"WebSocket", "delete window.RTCPeerConnection;", shownRate + " > 7", shownRate + " <= 6", "WebSocket"},
		{"screenshots", "delete window.RTCPeerConnection; delete window.VideoDecoder;", shownRate + " >= 2", `document.querySelector("#quality-text").textContent.endsWith(" ms")`, "JPEG"},
	} {
		t.Run(c.link, func(t *testing.T) {
			v := s.view(t, s.withToken(), c.script)
			v.is("live")
			choose := func(value string) {
				t.Helper()
				v.click(`#tools [popovertarget="view-panel"]`)
				v.holds(`(() => { const e = document.querySelector("#quality-choice"); e.value = %q; e.dispatchEvent(new Event("change")); return e.checkVisibility(); })()`, value)
				v.saveScreenshot("view")
				testbrowser.Do(v.ctx, t, chromedp.KeyEvent("\x1b"))
				v.holds(`!document.querySelector("#view-panel").matches(":popover-open")`)
			}
			asks := func(frames, bits float64) {
				t.Helper()
				if c.link == "screenshots" {
					return
				}
				eventually(t, "the server has the choice", func() bool {
					st := s.get(t, mainPath+"/stream/status").want(t, 200).json(t)
					return st["frameRate"] == frames && st["targetBitsPerSecond"].(float64) <= bits
				})
			}
			v.holds(`document.querySelector("#quality-choice")?.value === "auto"`)
			v.holds("%s", c.auto)
			asks(30, 8e6)
			choose("low")
			asks(5, 1e6)
			v.holds("%s", c.low)
			testbrowser.Do(v.ctx, t, chromedp.Reload())
			v.is("live")
			v.holds(`document.querySelector("#quality-choice")?.value === "low"`)
			asks(5, 1e6)
			v.holds(`!document.querySelector("#quality").hidden`)
			v.holds("%s", c.low)
			v.click("#quality")
			v.shows("#quality-rows", c.details)
			testbrowser.Do(v.ctx, t, chromedp.KeyEvent("\x1b"))
			choose("sharp")
			asks(10, 8e6)
			choose("smooth")
			asks(30, 2e6)
			choose("auto")
			asks(30, 8e6)
			v.holds("%s", c.auto)
		})
	}
}

// TestPageFloats shows the picture in a window above all others, over links with a video and
// with a canvas.
func TestPageFloats(t *testing.T) {
	t.Parallel()
	s := startReal(t, Config{}, `{"width":640,"height":480}`)
	for link, script := range map[string]string{"video": "", "canvas": "delete window.RTCPeerConnection;"} {
		t.Run(link, func(t *testing.T) {
			v := s.view(t, s.withToken(), script)
			v.is("live")
			v.holds(`Boolean(document.querySelector("#float")) === document.pictureInPictureEnabled`)
			if !testbrowser.Evaluate[bool](v.ctx, t, `document.pictureInPictureEnabled`) {
				t.Skip("this browser has no picture in picture")
			}
			v.click(`#tools [popovertarget="view-panel"]`)
			v.click("#float")
			v.holds(`document.pictureInPictureElement?.videoWidth === 640 && !document.querySelector("#view-panel").matches(":popover-open")`)
			v.holds(`(document.pictureInPictureElement === document.querySelector("#video")) === %v`, link == "video")
			v.click(`#tools [popovertarget="view-panel"]`)
			v.shows("#float", "Close picture in picture")
			v.click("#float")
			v.holds(`document.pictureInPictureElement === null && document.querySelector("#float").textContent === "Picture in picture"`)
		})
	}
	without := s.view(t, s.withToken(), `Object.defineProperty(Document.prototype, "pictureInPictureEnabled", { value: false });`)
	without.holds(`Boolean(document.querySelector("#quality-choice")) && !document.querySelector("#float")`)
}
