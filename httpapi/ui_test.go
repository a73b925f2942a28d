package httpapi

import (
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	cdpinput "github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"

	"github.com/deskhand/deskhand/internal/testbrowser"
	"github.com/deskhand/deskhand/internal/testx11"
)

// TestPage starts a desktop, sees it, uses its windows and stops it.
func TestPage(t *testing.T) {
	t.Parallel()
	testx11.Require(t, "Xvfb", "openbox", "dbus-daemon", "xterm")
	s := serve(t, Config{})
	v := s.view(t, "?keep=1&token="+s.Token())
	v.is("off")
	if at := testbrowser.Evaluate[string](v.ctx, t, "location.href"); at != s.url+"/ui/?keep=1" {
		t.Errorf("the page is at %s, want it without the token", at)
	}
	testbrowser.Evaluate[bool](v.ctx, t, `document.querySelector("#size").value = "1280x800"; true`)
	v.click("#start")
	v.is("live")
	v.holds(`document.querySelector("video").videoWidth === 1280`)
	v.sees()
	v.holds(`!document.querySelector("#quality").hidden`)

	v.click(`[popovertarget="windows-panel"]`)
	v.shows("#windows-none", "No open windows")
	testbrowser.Do(v.ctx, t, chromedp.SendKeys("#app", "no-such-program"), chromedp.Click("#launch-button"))
	v.shows("#windows-problem", "no-such-program")
	testbrowser.Do(v.ctx, t, chromedp.SetValue("#app", "xterm"), chromedp.Click("#launch-button"))
	v.shows("#windows", "xterm")
	v.sees()
	v.click(`#windows [aria-label^="Close"]`)
	v.shows("#windows-none", "No open windows")

	v.click(`[popovertarget="more-panel"]`)
	v.click("#stop")
	v.click("#stop-confirm")
	v.is("off")
	v.shows("#cover", "You stopped it")
	// Somebody else starts it, and stops it.
	s.post(t, mainPath+"/start", `{"width":640,"height":480}`).want(t, 200)
	v.is("live")
	v.holds(`document.querySelector("video").videoWidth === 640`)
	s.post(t, mainPath+"/stop", "").want(t, 200)
	v.is("off")
	v.shows("#cover", "Another person or a program stopped it")
}

// TestPageInput acts on a desktop with mouse and keys.
func TestPageInput(t *testing.T) {
	t.Parallel()
	s := startReal(t, Config{}, `{"width":1000,"height":700}`)
	// Mouse reports as SGR 1006: ESC [ < button ; column ; row M.
	file := s.rawTerminal(t, `\033[?1000h\033[?1006h`)
	v := s.view(t, s.withToken())
	v.is("live")
	v.sees()
	v.shows("#control", "Take control")

	v.point(100, 150)
	v.shows("#control", "You · in control")
	eventually(t, "a click in the terminal", func() bool {
		b, _ := os.ReadFile(file)
		return strings.Count(string(b), "\x1b[<0;") == 2 // it went down, and up
	})
	testWheel(t, v, file)

	v.types("plain text, with Ümlaut ß and 漢字!")
	v.press(enter)
	got(t, file, "plain text, with Ümlaut ß and 漢字!\r")

	// Shift comes up before the letter does; nothing stays down.
	a, b := key{name: "A", code: "KeyA", text: "A", virtual: 65, modifiers: chromedp.ModifierShift}, key{name: "b", code: "KeyB", text: "b", virtual: 66}
	v.down(shift)
	v.down(a)
	v.up(shift)
	v.up(key{name: "a", code: "KeyA", virtual: 65})
	v.press(b)
	got(t, file, "Ab")
	// A German keyboard has / on Shift and 7, and @ on AltGr and Q.
	slash := key{name: "/", code: "Digit7", text: "/", virtual: 55, modifiers: chromedp.ModifierShift}
	v.down(shift)
	v.press(slash, a)
	v.up(shift)
	v.down(key{name: "AltGraph", code: "AltRight", virtual: 225})
	v.press(key{name: "@", code: "KeyQ", text: "@", virtual: 81})
	v.up(key{name: "AltGraph", code: "AltRight", virtual: 225})
	got(t, file, "/A@")
	// Shortcuts on a keyboard without Latin letters.
	v.down(control)
	v.press(key{name: "с", code: "KeyC", virtual: 67, modifiers: chromedp.ModifierCtrl})
	v.up(control)
	got(t, file, "\x03")

	testComposition(t, v, file)
	testBlur(t, v, file)
}

// testWheel turns the wheel, as browsers with different pixels tell it.
func testWheel(t *testing.T, v *viewer, file string) {
	t.Helper()
	steps := func() (up, down int) {
		b, _ := os.ReadFile(file)
		return strings.Count(string(b), "\x1b[<64;"), strings.Count(string(b), "\x1b[<65;")
	}
	turn := func(pixels float64) {
		v.mouse(chromedp.MouseWheel, 100, 150, func(p *mouseEvent) {
			p.DeltaX, p.DeltaY = 1e-9, pixels // what is zero is not sent
		})
	}
	for range 3 {
		turn(100)
	}
	eventually(t, "three steps down", func() bool { up, down := steps(); return up == 0 && down == 3 })
	for range 5 {
		turn(-120)
	}
	eventually(t, "five steps up", func() bool { up, down := steps(); return up == 5 && down == 3 })
	// A touchpad's pixels make a step together. Firefox counts lines, three to
	// a step.
	turnBy := func(times int, pixels float64, mode int) {
		testbrowser.Evaluate[bool](v.ctx, t, fmt.Sprintf(`(() => {
			const frame = document.querySelector("#frame");
			const box = frame.getBoundingClientRect();
			const event = { deltaY: %v, deltaMode: %d, clientX: box.left + 100, clientY: box.top + 100 };
			for (let n = 0; n < %d; n++) frame.dispatchEvent(new WheelEvent("wheel", event));
			return true;
		})()`, pixels, mode, times))
	}
	turnBy(43, 7, 0)
	eventually(t, "three more steps down", func() bool { up, down := steps(); return up == 5 && down == 6 })
	turnBy(2, 3, 1)
	eventually(t, "two more steps down", func() bool { up, down := steps(); return up == 5 && down == 8 })
}

// testComposition enters text by an input method, and as phones do.
func testComposition(t *testing.T, v *viewer, file string) {
	t.Helper()
	compose := func(text string) {
		n := int64(len([]rune(text)))
		if _, err := chromedp.Call(v.ctx, cdpinput.ImeSetComposition, cdpinput.ImeSetCompositionParams{Text: text, SelectionStart: n, SelectionEnd: n}); err != nil {
			t.Fatal(err)
		}
	}
	insert := func(text string) {
		if _, err := chromedp.Call(v.ctx, cdpinput.InsertText, cdpinput.InsertTextParams{Text: text}); err != nil {
			t.Fatal(err)
		}
	}
	compose("n")
	compose("にほ")
	v.holds(`document.querySelector("#keyboard").classList.contains("composing")`)
	insert("日本語")
	got(t, file, "日本語")
	insert("from a phone")
	got(t, file, "from a phone")
	testbrowser.Evaluate[bool](v.ctx, t, `document.execCommand("delete")`)
	got(t, file, "from a phone\x7f")
}

// testBlur leaves the page with keys, and a button, held.
func testBlur(t *testing.T, v *viewer, file string) {
	t.Helper()
	leave := func() {
		testbrowser.Evaluate[bool](v.ctx, t, `window.dispatchEvent(new Event("blur")); true`)
	}
	v.down(shift)
	v.down(key{name: "X", code: "KeyX", text: "X", virtual: 88, modifiers: chromedp.ModifierShift})
	got(t, file, "XX") // the desktop repeats keys that are held
	leave()
	eventually(t, "Shift came up", func() bool {
		v.s.post(t, mainPath+"/keyboard/press", `{"key":"y"}`).want(t, 200)
		b, _ := os.ReadFile(file)
		return strings.HasSuffix(string(b), "y")
	})

	v.mouse(chromedp.MousePressed, 100, 150, left)
	got(t, file, "M")
	leave()
	got(t, file, "m")
	v.mouse(chromedp.MouseReleased, 100, 150, left)

	// Ctrl, Alt and Shift give the keys back to the page.
	v.point(100, 150)
	v.holds(`document.querySelector("#main").classList.contains("captured")`)
	v.down(control)
	v.down(key{name: "Alt", code: "AltLeft", virtual: 18, modifiers: chromedp.ModifierCtrl | chromedp.ModifierAlt})
	v.down(key{name: "Shift", code: "ShiftLeft", virtual: 16, modifiers: chromedp.ModifierCtrl | chromedp.ModifierAlt | chromedp.ModifierShift})
	v.holds(`!document.querySelector("#main").classList.contains("captured") && document.activeElement.id === "control"`)
	for _, k := range []key{shift, alt, control} {
		v.up(k)
	}
	eventually(t, "the keys came up on the desktop", func() bool {
		v.s.post(t, mainPath+"/keyboard/press", `{"key":"z"}`).want(t, 200)
		b, _ := os.ReadFile(file)
		return strings.HasSuffix(string(b), "z")
	})
}

func TestPageAsksForTheToken(t *testing.T) {
	t.Parallel()
	testx11.Require(t, "chromium")
	s := serve(t, Config{})
	ctx := testbrowser.Open(t, s.url+"/ui/#token=wrong&keep=1")
	testbrowser.Holds(ctx, t, `document.body.dataset.state === "locked" && document.activeElement.id === "token"`)
	if at := testbrowser.Evaluate[string](ctx, t, "location.href"); at != s.url+"/ui/#keep=1" {
		t.Errorf("the page is at %s, want it without the token", at)
	}
	testbrowser.Do(ctx, t, chromedp.SendKeys("#token", "wrong, too\r"))
	testbrowser.Holds(ctx, t, `Boolean(document.querySelector("#cover .problem")?.textContent.includes("isn't valid"))`)
	testbrowser.Do(ctx, t, chromedp.SendKeys("#token", s.Token()+"\r"))
	testbrowser.Holds(ctx, t, `document.body.dataset.state === "off"`)
	if kept := testbrowser.Evaluate[string](ctx, t, `sessionStorage.getItem("token")`); kept != s.Token() {
		t.Errorf("the tab keeps the token %q", kept)
	}
	for _, link := range []string{"#/s/a%20b&token=other", "#/s/a%20b?t=other"} { // a route stays
		testbrowser.Do(ctx, t, chromedp.Navigate("about:blank"), chromedp.Navigate(s.url+"/ui/"+link))
		testbrowser.Holds(ctx, t, `document.body.dataset.state === "locked"`)
		if at := testbrowser.Evaluate[string](ctx, t, "location.href"); at != s.url+"/ui/#/s/a%20b" {
			t.Errorf("the page is at %s after %s, want it without the token", at, link)
		}
		testbrowser.Do(ctx, t, chromedp.SendKeys("#token", s.Token()+"\r"))
		testbrowser.Holds(ctx, t, `document.body.dataset.state === "off"`)
	}
}

// TestPageTakesInspectorURLs: the page takes a token and headers from the query, as the SDK of
// sandbox-agent writes them, and sends the headers with each call. It names another server's
// page and sends that server's token and headers nowhere. A link chooses no headers that the
// page sets.
func TestPageTakesInspectorURLs(t *testing.T) {
	t.Parallel()
	testx11.Require(t, "chromium")
	s := serve(t, Config{})
	var with, without, foreign atomic.Int32
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.Contains(r.Header.Get("Deskhand-Actor")+r.Header.Get("Deskhand-Typing")+r.Header.Get("Content-Type"), "eve"):
			foreign.Add(1)
		case r.Header.Get("X-Route") == "a b" && r.Header.Get("Authorization") == "Bearer "+s.Token():
			with.Add(1)
		case r.Header.Get("X-Route") != "":
			foreign.Add(1)
		default:
			without.Add(1)
		}
		s.Handler().ServeHTTP(w, r)
	}))
	t.Cleanup(proxy.Close)
	query := url.Values{"url": {proxy.URL}, "token": {s.Token()}, "headers": {`{"X-Route":"a b","authorization":"Bearer x","deskhand-actor":"eve","Deskhand-Typing":"eve","content-type":"eve"}`}}
	ctx := testbrowser.OpenStrict(t, proxy.URL+"/ui/?"+query.Encode()+"&name=Ann")
	testbrowser.Holds(ctx, t, `document.body.dataset.state === "off"`)
	if at := testbrowser.Evaluate[string](ctx, t, "location.href"); at != proxy.URL+"/ui/?name=Ann" || with.Load() == 0 || foreign.Load() != 0 {
		t.Errorf("the page is at %s, %d calls had the header, %d another token", at, with.Load(), foreign.Load())
	}

	query = url.Values{"url": {"http://other.invalid/prefix/"}, "token": {"theirs"}, "headers": {`{"X-Route":"theirs"}`}}
	ctx = testbrowser.Open(t, proxy.URL+"/ui/?"+query.Encode())
	testbrowser.Holds(ctx, t, `document.body.dataset.state === "locked" && !document.getElementById("toast").hidden && document.getElementById("toast").textContent.includes("own server")`)
	if at := testbrowser.Evaluate[string](ctx, t, "location.href"); at != proxy.URL+"/ui/" || foreign.Load() != 0 {
		t.Errorf("the page is at %s, %d calls had the headers of another server", at, foreign.Load())
	}
}

// TestPageFiles: the page's files are sent with their types, and not again when
// the browser has them.
func TestPageFiles(t *testing.T) {
	t.Parallel()
	s := serve(t, Config{})
	files, err := pageFiles()
	if err != nil || len(files) < 10 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	built, err := pageBuilt()
	if err != nil {
		t.Fatal(err)
	}
	for name, f := range files {
		if f.Type == "" {
			t.Errorf("%s has no type", name)
		}
		kept := s.do(t, call{path: "/ui/" + built.prefix + name, anon: true}).want(t, 200)
		if string(kept.body) != string(f.Data) || kept.Header.Get("Cache-Control") != "public, max-age=31536000, immutable" {
			t.Errorf("%s below %s: %d of %d bytes, %v", name, built.prefix, len(kept.body), len(f.Data), kept.Header)
		}
		if name == "index.html" {
			f = built.index
		}
		a := s.do(t, call{path: "/ui/" + name, anon: true, header: map[string]string{"Accept-Encoding": "identity"}}).want(t, 200)
		if string(a.body) != string(f.Data) || a.Header.Get("Content-Type") != f.Type || a.Header.Get("Content-Encoding") != "" {
			t.Errorf("%s: %d of %d bytes, %v", name, len(a.body), len(f.Data), a.Header)
		}
		again := s.do(t, call{path: "/ui/" + name, anon: true, header: map[string]string{"Accept-Encoding": "identity", "If-None-Match": `"x", ` + a.Header.Get("ETag")}})
		if again.want(t, 304); len(again.body) != 0 {
			t.Errorf("%s is sent again", name)
		}
		if zip := s.do(t, call{path: "/ui/" + name, anon: true}).want(t, 200); string(zip.body) != string(f.Data) {
			t.Errorf("%s is not the same when it is compressed", name)
		}
	}
	policy := s.do(t, call{path: "/ui/", anon: true}).Header.Get("Content-Security-Policy")
	host := strings.TrimPrefix(s.url, "http://")
	if want := fmt.Sprintf("connect-src 'self' ws://%[1]s wss://%[1]s;", host); !strings.Contains(policy, want) {
		t.Errorf("policy = %s, want %s", policy, want)
	}
	for _, bad := range []string{"evil.example; script-src *", "[::1]:80", ""} {
		if got := policyFor(bad); strings.Contains(got, "ws:") || strings.Count(got, "script-src") != 1 {
			t.Errorf("policy for %q: %s", bad, got)
		}
	}
}

// TestPageIsKept: a reload asks the server for the page itself and for no file, since their
// URLs name their content. The first load asks once for each file.
func TestPageIsKept(t *testing.T) {
	t.Parallel()
	testx11.Require(t, "chromium")
	s := serve(t, Config{})
	var mu sync.Mutex
	asked := map[string]int{}
	counted := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/prefix/ui/") {
			mu.Lock()
			asked[strings.TrimPrefix(r.URL.Path, "/prefix/ui/")]++
			mu.Unlock()
		}
		http.StripPrefix("/prefix", s.Handler()).ServeHTTP(w, r)
	}))
	t.Cleanup(counted.Close)
	take := func() map[string]int {
		mu.Lock()
		defer mu.Unlock()
		taken := asked
		asked = map[string]int{}
		return taken
	}
	v := &viewer{t, s, testbrowser.OpenStrict(t, counted.URL+"/prefix/ui/#token="+s.Token())}
	v.is("off")
	const loaded = `Boolean(document.querySelector(".strip select") && document.querySelector("#empty")) && !document.querySelector("#shortcuts-open").hidden`
	v.holds(loaded) // the last of the page to be loaded
	built, err := pageBuilt()
	if err != nil {
		t.Fatal(err)
	}
	first := take()
	for _, name := range append(built.modules("main.js"), "style.css") {
		if first[built.prefix+name] != 1 {
			t.Errorf("the first load asked %d times for %s: %v", first[built.prefix+name], name, first)
		}
	}
	testbrowser.Do(v.ctx, t, chromedp.Reload())
	v.is("off")
	v.holds(loaded)
	if again := take(); !maps.Equal(again, map[string]int{"": 1}) {
		t.Errorf("the reload asked for %v, want the page alone", again)
	}
	s.do(t, call{path: "/ui/_0123456789abcdef/main.js", anon: true}).problem(t, 404, "invalid_request")
	s.do(t, call{path: "/ui/_0123456789abcdef/", anon: true}).problem(t, 404, "invalid_request")
}
