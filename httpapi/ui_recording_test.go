package httpapi

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/cdproto/browser"
	"github.com/chromedp/chromedp"

	"github.com/deskhand/deskhand/internal/testbrowser"
	"github.com/deskhand/deskhand/internal/testx11"
)

// TestPageRecords makes a recording by the button, plays it, downloads it and
// deletes it.
func TestPageRecords(t *testing.T) {
	t.Parallel()
	testx11.Require(t, "ffmpeg", "ffprobe")
	s := startReal(t, Config{}, `{"width":640,"height":480}`)
	s.rawTerminal(t, "")
	v := s.view(t, s.withToken())
	v.is("live")
	v.holds(`document.querySelector("#record").getAttribute("aria-label") === "Record"`)
	v.click(`[popovertarget="more-panel"]`)
	v.click("#recordings-open")
	v.shows("#recordings-none", "No recordings yet")
	testbrowser.Do(v.ctx, t, chromedp.KeyEvent("\x1b"))

	v.click("#record")
	v.holds(`document.querySelector("#record").getAttribute("aria-label") === "Stop recording"`)
	v.shows("#announce", "Recording")
	eve := v.another("?role=view&token=" + s.Token())
	eve.is("live")
	eve.holds(`document.querySelector("#record").getAttribute("aria-label") === "Recording in progress" && document.querySelector("#record").disabled`)
	s.post(t, mainPath+"/mouse/click", `{"x":200,"y":100}`).want(t, 200)
	id := s.get(t, mainPath+"/recordings").want(t, 200).json(t)["recordings"].([]any)[0].(map[string]any)["id"].(string)
	s.post(t, mainPath+"/recordings/"+id+"/markers", `{"title":"A mark"}`).want(t, 201)
	v.holds(`/^0:(0[2-9]|[1-5][0-9])/.test(document.querySelector("#record-time").innerText.trim())`)
	v.holds(`/^[0-9.]+ .?B$/.test(document.querySelector("#record-size").textContent)`)
	// A reload changes nothing, and another way of stopping it is noticed.
	testbrowser.Do(v.ctx, t, chromedp.Reload())
	v.is("live")
	v.holds(`document.querySelector("#record").getAttribute("aria-label") === "Stop recording"`)
	v.click("#record")
	v.shows("#toast", "Recording saved (0:0")
	v.click("#toast button")
	v.shows("#recordings", "0:0")
	eve.holds(`document.querySelector("#record").hidden`)
	v.holds(`document.querySelector("#recordings img")?.naturalWidth > 0`)

	v.click(`#recordings [aria-label^="Play"]`)
	v.holds(`%s.readyState >= 2 && %s.currentTime > 0.1`, video, video)
	v.click("#page-close")
	v.click(`#more`)
	v.click("#recordings-open")
	testDownloadLink(t, v, s)

	remove := `#recordings .danger`
	v.click(remove)
	v.shows(remove, "Delete permanently?")
	v.click(remove)
	v.shows("#recordings-none", "No recordings yet")
	s.get(t, mainPath+"/recordings/"+id).problem(t, 404, "not_found")

	// What programs record shows, too, and the end of the desktop ends it.
	s.post(t, mainPath+"/recordings", `{"title":"By a program"}`).want(t, 201)
	v.shows("#recordings", "By a program")
	s.post(t, mainPath+"/stop", "").want(t, 200)
	v.is("off")
	v.shows("#recordings", "Stopped with the desktop")
}

// testDownloadLink downloads the only recording as people do.
func testDownloadLink(t *testing.T, v *viewer, s *testServer) {
	t.Helper()
	dir := t.TempDir()
	p := browser.SetDownloadBehaviorParams{Behavior: browser.SetDownloadBehaviorBehaviorAllow, DownloadPath: dir}
	if _, err := chromedp.Call(v.ctx, browser.SetDownloadBehavior, p); err != nil {
		t.Fatal(err)
	}
	info := s.get(t, mainPath+"/recordings").want(t, 200).json(t)["recordings"].([]any)[0].(map[string]any)
	v.click(`#recordings a`)
	file := filepath.Join(dir, fmt.Sprint(info["fileName"]))
	eventually(t, "the download is complete", func() bool {
		data, err := os.ReadFile(file)
		return err == nil && float64(len(data)) == info["bytes"]
	})
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	probe(t, data)
}
