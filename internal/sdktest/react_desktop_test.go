package sdktest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"

	"github.com/deskhand/deskhand/internal/testbrowser"
	"github.com/deskhand/deskhand/internal/testx11"
)

// TestDesktopViewer uses the viewer of @sandbox-agent/react, unmodified, as a
// person would: it shows the desktop, and takes the mouse, the wheel and keys.
func TestDesktopViewer(t *testing.T) {
	t.Parallel()
	if reference {
		t.Skip("reference fault: its stream refuses the token that the SDK sends")
	}
	testx11.Require(t, "chromium", "node", "npm", "Xvfb", "openbox", "dbus-daemon", "xterm")
	modules, err := Install(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	pages := httptest.NewServer(http.FileServer(http.Dir(bundle(t, modules, "desktop"))))
	defer pages.Close()
	server := startServer(t, modules, Config{Origins: []string{pages.URL}})
	var status map[string]any
	server.call(t, http.MethodPost, "/v1/desktop/start", `{"width":1000,"height":600}`, &status)
	file := filepath.Join(t.TempDir(), "typed")
	server.launchTerminal(t, file)

	ctx := testbrowser.Open(t, pages.URL+"?"+url.Values{"url": {server.URL}, "token": {server.Token}}.Encode())
	shows := func(text string) string {
		return fmt.Sprintf("document.querySelector('#root')?.innerText.includes(%q)", text)
	}
	testbrowser.Holds(ctx, t, shows("Desktop stream connected."))
	testbrowser.Holds(ctx, t, shows("1000×600"))
	testbrowser.Holds(ctx, t, "document.querySelector('video').videoWidth === 1000")
	testbrowser.Holds(ctx, t, fmt.Sprintf("(difference(%q).then((d) => { globalThis.apart = d; }), globalThis.apart < 12)",
		server.URL+"/v1/desktop/screenshot?access_token="+url.QueryEscape(server.Token)))

	var at []float64
	box := `(() => { const r = document.querySelector("[role=button]").getBoundingClientRect(); return [r.left, r.top, r.width, r.height]; })()`
	at = testbrowser.Evaluate[[]float64](ctx, t, box)
	// The picture is fitted into the box.
	scale := min(at[2]/1000, at[3]/600)
	x := at[0] + (at[2]-1000*scale)/2 + 300*scale
	y := at[1] + (at[3]-600*scale)/2 + 200*scale
	testbrowser.Do(ctx, t, chromedp.MouseClickXY(x, y))
	await(t, file, func(got string) bool { return strings.Contains(got, "\033[<0;") })
	var pointer struct{ X, Y int }
	server.call(t, http.MethodGet, "/v1/desktop/mouse/position", "", &pointer)
	if abs(pointer.X-300) > 2 || abs(pointer.Y-200) > 2 {
		t.Errorf("the pointer is at %+v, want 300,200", pointer)
	}
	testbrowser.Do(ctx, t, chromedp.KeyEvent("Hi!"))
	await(t, file, func(got string) bool { return strings.HasSuffix(got, "Hi!") })

	for name, tt := range map[string]struct {
		delta float64
		want  string // of SGR mouse reports: 64 is up, 65 down
	}{"down": {120, "\033[<65;"}, "up": {-120, "\033[<64;"}} {
		before := read(t, file)
		testbrowser.Do(ctx, t, chromedp.MouseEvent(chromedp.MouseWheel, x, y, func(p *input.DispatchMouseEventParams) {
			p.DeltaX, p.DeltaY = 1e-6, tt.delta // chromedp leaves out a zero, which Chromium wants to see
		}))
		await(t, file, func(got string) bool { return strings.Contains(got[len(before):], tt.want) })
		// A click behind it shows that no more came.
		testbrowser.Do(ctx, t, chromedp.MouseClickXY(x, y))
		await(t, file, func(got string) bool { return strings.Contains(got[len(before):], "\033[<0;") })
		if got := read(t, file)[len(before):]; strings.Count(got, tt.want) != 1 {
			t.Errorf("a notch of the wheel %s came as %q", name, got)
		}
	}
	if told := testbrowser.Evaluate[string](ctx, t, "JSON.stringify(told)"); told != `[]` {
		t.Errorf("the component told %s", told)
	}
}

// launchTerminal shows a terminal over the whole desktop, which writes what is
// typed and clicked to a file, as an application gets it.
func (s *Server) launchTerminal(t *testing.T, file string) {
	t.Helper()
	script := `stty raw -echo; printf '\033[?1000h\033[?1006h'; exec cat >` + file
	body, err := json.Marshal(map[string]any{
		"app": "xterm", "wait": true,
		"args": []string{"-u8", "-geometry", "160x45+0+0", "-e", "sh", "-c", script},
	})
	if err != nil {
		t.Fatal(err)
	}
	var launched map[string]any
	s.call(t, http.MethodPost, "/v1/desktop/launch", string(body), &launched)
	await(t, file, func(string) bool { return true })
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// await waits until a file is there and as wanted.
func await(t *testing.T, file string, wanted func(string) bool) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for tick := time.NewTicker(10 * time.Millisecond); ; <-tick.C {
		text, err := os.ReadFile(file)
		if err == nil && wanted(string(text)) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the terminal got %q, %v", text, err)
		}
	}
}

func abs(n int) int { return max(n, -n) }
