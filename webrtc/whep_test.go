package webrtc

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"image"
	"image/png"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/internal/testbrowser"
	"github.com/deskhand/deskhand/internal/testx11"
)

// player is a page that plays WHEP.
const player = `<!doctype html><video autoplay muted playsinline></video><script type="module">
const pc = new RTCPeerConnection();
pc.addTransceiver("video", { direction: "recvonly" });
pc.ontrack = (e) => { document.querySelector("video").srcObject = e.streams[0]; };
await pc.setLocalDescription();
while (pc.iceGatheringState !== "complete") await new Promise((done) => { pc.onicegatheringstatechange = done; });
const answer = await fetch("/whep", { method: "POST", headers: { "Content-Type": "application/sdp" }, body: pc.localDescription.sdp });
await pc.setRemoteDescription({ type: "answer", sdp: await answer.text() });
globalThis.place = answer.headers.get("Location");
</script>`

func TestWHEP(t *testing.T) {
	t.Parallel()
	testx11.Require(t, "chromium", "xterm")
	d := startDesktop(t, desktop.Config{})
	if _, err := d.Launch(t.Context(), desktop.Launch{App: "xterm", Wait: true}); err != nil {
		t.Fatal(err)
	}
	s := stream(t, d, Config{})
	mux := http.NewServeMux()
	mux.HandleFunc("/whep", s.ServeWHEP)
	mux.HandleFunc("/whep/", s.ServeWHEP)
	mux.HandleFunc("/{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, player)
	})
	server := httptest.NewServer(mux)
	defer server.Close()

	ctx := testbrowser.Open(t, server.URL)
	testbrowser.Holds(ctx, t, "document.querySelector('video').videoWidth === 640 && document.querySelector('video').readyState >= 2")
	text := testbrowser.Evaluate[string](ctx, t, `(() => {
		const v = document.querySelector("video"), c = document.createElement("canvas");
		[c.width, c.height] = [v.videoWidth, v.videoHeight];
		c.getContext("2d").drawImage(v, 0, 0);
		return c.toDataURL("image/png").split(",")[1];
	})()`)
	frame, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	img, err := png.Decode(bytes.NewReader(frame))
	if err != nil {
		t.Fatal(err)
	}
	if diff := apart(img, screenshot(t, d)); diff > 12 {
		t.Errorf("the video is %.1f levels off the screen", diff)
	}
	if v := s.Viewers(); len(v) != 1 || v[0].Transport != TransportWHEP || !v[0].ViewOnly {
		t.Errorf("viewers = %+v", v)
	}
	place := testbrowser.Evaluate[string](ctx, t, "place")
	ask := func(method, path, kind, body string) *http.Response {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, server.URL+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", kind)
		resp, err := server.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		return resp
	}
	if r := ask(http.MethodDelete, place, "", ""); r.StatusCode != 200 {
		t.Errorf("DELETE %s: %s", place, r.Status)
	}
	until(t, "the player is gone", func() bool { return len(s.Viewers()) == 0 })
	for _, tt := range []struct {
		method, path, kind, body string
		status                   int
	}{
		{http.MethodDelete, place, "", "", 404},
		{http.MethodGet, "/whep", "", "", 405},
		{http.MethodPost, "/whep", "text/plain", "v=0", 415},
		{http.MethodPost, "/whep", "application/sdp", "", 400},
		{http.MethodPost, "/whep", "application/sdp", "nonsense", 400},
		{http.MethodPost, "/whep", "application/sdp", "v=0\r\n" + strings.Repeat("a=x\r\n", 20_000), 400},
	} {
		if r := ask(tt.method, tt.path, tt.kind, tt.body); r.StatusCode != tt.status {
			t.Errorf("%s %s %.20q: %s, want %d", tt.method, tt.path, tt.body, r.Status, tt.status)
		}
	}
	if v := s.Viewers(); len(v) != 0 {
		t.Errorf("refused players are still there: %+v", v)
	}
}

// TestHandler opens the page that an embedding program serves.
func TestHandler(t *testing.T) {
	t.Parallel()
	testx11.Require(t, "chromium")
	d := startDesktop(t, desktop.Config{})
	s := stream(t, d, Config{})
	mux := http.NewServeMux()
	mux.Handle("/desk/", http.StripPrefix("/desk", s.Handler()))
	server := httptest.NewServer(mux)
	defer server.Close()
	ctx := testbrowser.Open(t, server.URL+"/desk/")
	testbrowser.Holds(ctx, t, "document.querySelector('video').videoWidth === 640 && document.querySelector('video').readyState >= 2")
	testbrowser.Holds(ctx, t, "document.querySelector('[role=status]').textContent === ''")
	if v := s.Viewers(); len(v) != 1 {
		t.Errorf("viewers = %+v", v)
	}
	resp, err := server.Client().Get(server.URL + "/desk/nothing")
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != 404 {
		t.Errorf("a file that does not exist: %s", resp.Status)
	}
}

// apart returns the mean difference of two pictures over all colours.
func apart(a, b image.Image) float64 {
	total, n := 0.0, 0
	for y := range b.Bounds().Dy() {
		for x := range b.Bounds().Dx() {
			r1, g1, b1, _ := a.At(x, y).RGBA()
			r2, g2, b2, _ := b.At(x, y).RGBA()
			for _, d := range []int{int(r1>>8) - int(r2>>8), int(g1>>8) - int(g2>>8), int(b1>>8) - int(b2>>8)} {
				total += float64(max(d, -d))
				n++
			}
		}
	}
	return total / float64(n)
}
