package recording

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/internal/testbrowser"
	"github.com/deskhand/deskhand/internal/testx11"
)

// TestBrowserColours checks that Chromium shows the colours of the screen, for a file as it was
// recorded and for a file with its index at the start.
func TestBrowserColours(t *testing.T) {
	t.Parallel()
	testx11.Require(t, "chromium")
	d := startDesktop(t, desktop.Config{})
	s := openStore(t, StoreConfig{})
	var path string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/video.mp4" {
			w.Header().Set("Content-Type", "text/html")
			fmt.Fprint(w, "<!doctype html><title>video</title><video muted></video>")
			return
		}
		http.ServeFile(w, r, path)
	}))
	defer server.Close()
	page := testbrowser.Open(t, server.URL)
	for _, want := range []uint32{0xff0000, 0x00c040, 0x2050e0, 0x808080, 0xffffff} {
		paint(t, d, want)
		info := stop(t, start(t, s, d, Config{Cursor: CursorNone}))
		path = videoPath(t, s, info.ID)
		got := testbrowser.Await[uint32](page, t, `(async () => {
			const v = document.querySelector("video");
			v.src = "video.mp4?`+info.ID+`";
			await new Promise((done, failed) => { v.onloadeddata = done; v.onerror = () => failed(new Error(v.error.message)) });
			await new Promise(done => { v.onseeked = done; v.currentTime = v.duration });
			const c = new OffscreenCanvas(v.videoWidth, v.videoHeight).getContext("2d");
			for (;;) { // a busy browser may not have the picture yet
				c.drawImage(v, 0, 0);
				const p = c.getImageData(600, 50, 1, 1).data;
				if (p[3] == 255) return p[0] << 16 | p[1] << 8 | p[2];
				await new Promise(done => setTimeout(done, 20));
			}
		})()`)
		for shift := 0; shift <= 16; shift += 8 {
			a, b := int(got>>shift&255), int(want>>shift&255)
			if a-b > 6 || b-a > 6 {
				t.Errorf("#%06x is shown as #%06x", want, got)
				break
			}
		}
	}
}
