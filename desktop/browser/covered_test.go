package browser_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/desktop/browser"
)

// TestClickInCoveredFrame: an element of a frame that an element of the page covers is not clicked,
// whether the frame has a process of its own or not.
func TestClickInCoveredFrame(t *testing.T) {
	t.Parallel()
	const overlay = `<!doctype html><title>Page</title><body style="margin:0;height:4000px">
		<button id=over onclick="document.title='overlay'" style="position:fixed;left:20px;top:20px;width:300px;height:100px;z-index:9">Accept and pay</button>
		<div style="height:1500px"></div><p id=spacer>`
	mux := http.NewServeMux()
	var other string
	page := func(path, body string) {
		mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			_, _ = w.Write([]byte(strings.ReplaceAll(body, "OTHER", other)))
		})
	}
	const reject = `<!doctype html><body style="margin:0"><div style="height:60px"></div><button onclick="this.textContent='Rejected'">Reject</button>`
	const frame = ` style="position:absolute;left:20px;top:1520px;border:5px solid" width=300 height=100></iframe>`
	page("/button", reject)
	page("/nested", `<!doctype html><body style="margin:0"><iframe style="border:0" width=300 height=95 src=/button></iframe>`)
	page("/same", overlay+`<iframe src=/button`+frame)
	page("/nest", overlay+`<iframe src=/nested`+frame)
	page("/other", overlay+`<iframe src=OTHER/button`+frame)
	page("/othernest", overlay+`<iframe src=OTHER/nested`+frame)
	site := httptest.NewServer(mux)
	t.Cleanup(site.Close)
	other = strings.Replace(site.URL, "127.0.0.1", "localhost", 1)
	d := startDesktop(t, desktop.Config{})
	for _, headless := range []bool{false, true} {
		profile, args := "seen", []string{"--site-per-process"}
		if headless {
			profile = "headless"
		}
		b := start(t, browser.Config{Desktop: d, Headless: headless, Profile: profile, Args: args})
		for _, path := range []string{"/same", "/nest", "/other", "/othernest"} {
			navigate(t, b, site.URL+path)
			evaluate[any](t, b, "scrollTo(0, 1500), null") // the overlay is over the frame
			ref := awaitRef(t, b, "button", "Reject")
			_, err := b.Click(t.Context(), browser.Click{Element: el(ref), Timeout: 700})
			if e, ok := errors.AsType[*browser.NotReadyError](err); !ok || !strings.Contains(e.Reason, `covered by button "Accept and pay"`) {
				t.Errorf("%s, headless %t: %v", path, headless, err)
			}
			if title := evaluate[string](t, b, "document.title"); title != "Page" {
				t.Errorf("%s, headless %t: the %s was clicked", path, headless, title)
			}
			evaluate[any](t, b, "over.style.pointerEvents = 'none', scrollTo(0, 0), null") // out of view, and clicks pass the overlay
			if _, err := b.Click(t.Context(), browser.Click{Element: el(ref)}); err != nil {
				t.Errorf("%s, headless %t, uncovered: %v", path, headless, err)
			}
			if got := awaitRef(t, b, "button", "Rejected"); got != ref {
				t.Errorf("%s, headless %t: %s is not %s", path, headless, got, ref)
			}
		}
	}
}

// awaitRef waits for a node with a role and a name, and returns its reference.
func awaitRef(tb testing.TB, b *browser.Browser, role, name string) browser.Ref {
	tb.Helper()
	for begun := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		o, err := b.Outline(tb.Context(), browser.OutlineQuery{All: true, Timeout: 5000})
		if err != nil {
			tb.Fatal(err)
		}
		if ref := find(o, role, name); ref != 0 {
			return ref
		}
		if time.Since(begun) > 20*time.Second {
			tb.Fatalf("no %s %q in\n%s", role, name, o.Text())
		}
	}
}
