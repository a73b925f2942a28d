package browser_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/desktop/browser"
)

// pages serves pages by path, and returns the site's URL, its URL under another name, and what the
// pages have told it. OTHER in a page becomes that other URL.
func pages(t *testing.T, bodies map[string]string) (site, other string, told func() []string) {
	t.Helper()
	var mu sync.Mutex
	var all []string
	mux := http.NewServeMux()
	mux.HandleFunc("/tell", func(_ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		all = append(all, r.URL.RawQuery)
	})
	for path, body := range bodies {
		mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			_, _ = w.Write([]byte("<!doctype html>" + strings.ReplaceAll(body, "OTHER", other)))
		})
	}
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	other = strings.Replace(s.URL, "127.0.0.1", "localhost", 1)
	return s.URL, other, func() []string {
		mu.Lock()
		defer mu.Unlock()
		return append([]string(nil), all...)
	}
}

// TestTabThatClaimsTheFocus: a page in the background cannot make itself the active tab.
func TestTabThatClaimsTheFocus(t *testing.T) {
	t.Parallel()
	site, other, told := pages(t, map[string]string{
		"/claims": `<title>claims</title><input id=pw oninput="fetch('/tell?'+value)"><form name=hasFocus></form><form name=visibilityState></form>
			<script>Document.prototype.hasFocus = () => 1e6; Object.defineProperty(Document.prototype, 'visibilityState', {get: () => 'visible'})</script>`,
		"/bank": `<title>bank</title><input id=pw>`,
	})
	b := start(t, browser.Config{Desktop: startDesktop(t, desktop.Config{})})
	ctx := t.Context()
	navigate(t, b, site+"/claims")
	bank, err := b.NewTab(ctx, other+"/bank")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Wait(ctx, browser.Wait{Tab: bank.ID, Selector: "#pw", Timeout: 10_000}); err != nil {
		t.Fatal(err)
	}
	if err := b.Fill(ctx, browser.Fill{Element: css("#pw"), Text: "for the bank"}); err != nil {
		t.Fatal(err)
	}
	v, err := b.Evaluate(ctx, browser.Evaluate{Tab: bank.ID, Expression: "pw.value"})
	if err != nil || string(v.Value) != `"for the bank"` || len(told()) > 0 {
		t.Errorf("the bank has %s, %v; the other page has told %q", v.Value, err, told())
	}
	if err := b.ActivateTab(ctx, bank.ID); err != nil {
		t.Error(err)
	}
}

// TestActiveTabThatIsSilent: text for the tab that is shown goes to no other tab while it is busy, or
// while a client has another tab say that it has the focus.
func TestActiveTabThatIsSilent(t *testing.T) {
	t.Parallel()
	site, other, told := pages(t, map[string]string{
		"/first": `<title>first</title><input id=pw oninput="fetch('/tell?'+value)">`,
		"/bank":  `<title>bank</title><input id=pw>`,
	})
	b := start(t, browser.Config{Desktop: startDesktop(t, desktop.Config{})})
	ctx := t.Context()
	navigate(t, b, site+"/first")
	tabs, err := b.Tabs(ctx)
	if err != nil {
		t.Fatal(err)
	}
	first := tabs[0].ID
	bank, err := b.NewTab(ctx, other+"/bank")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Wait(ctx, browser.Wait{Tab: bank.ID, Selector: "#pw", Timeout: 10_000}); err != nil {
		t.Fatal(err)
	}
	c := connect(t, b, first)
	for name, prepare := range map[string]func(){
		"busy": func() {
			evaluate[any](t, b, "setTimeout(() => { for (const end = Date.now() + 3000; Date.now() < end;); }), null")
		},
		"another says that it has the focus": func() {
			c.result("", "Emulation.setFocusEmulationEnabled", object("enabled", true))
		},
	} {
		if _, err := b.Evaluate(ctx, browser.Evaluate{Tab: bank.ID, Expression: "pw.value = ''"}); err != nil {
			t.Fatal(name, err)
		}
		prepare()
		if _, err := b.Text(ctx, browser.TextQuery{Tab: first}); err != nil { // it is the one that was used last
			t.Fatal(name, err)
		}
		if err := b.Fill(ctx, browser.Fill{Element: css("#pw"), Text: "for the bank"}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		v, err := b.Evaluate(ctx, browser.Evaluate{Tab: bank.ID, Expression: "pw.value"})
		if err != nil || string(v.Value) != `"for the bank"` || len(told()) > 0 {
			t.Errorf("%s: the bank has %s, %v; the other page has told %q", name, v.Value, err, told())
		}
	}
}

// TestFrameThatTakesTheFocus: a frame of another site that takes the focus all the time gets no text,
// and no key that Press says is done.
func TestFrameThatTakesTheFocus(t *testing.T) {
	t.Parallel()
	site, _, told := pages(t, map[string]string{
		"/page": `<title>page</title><div contenteditable id=e></div><input id=pw><input id=t onkeydown="window.keys=(window.keys??0)+1"><br>
			<iframe src="OTHER/thief" width=300 height=100></iframe>`,
		"/thief": `<input id=i oninput="fetch('/tell?text='+value)"><script>setInterval(() => { window.focus(); i.focus() }, 1)</script>`,
	})
	for name, cfg := range map[string]browser.Config{"window": {Desktop: startDesktop(t, desktop.Config{})}, "headless": {Headless: true}} {
		t.Run(name, func(t *testing.T) {
			b := start(t, cfg)
			ctx := t.Context()
			navigate(t, b, site+"/page")
			if _, err := b.Click(ctx, browser.Click{Element: css("iframe"), Timeout: 2000}); err != nil {
				t.Logf("click into the frame: %v", err)
			}
			var filled, pressed int
			for range 10 {
				if b.Fill(ctx, browser.Fill{Element: css("#pw"), Text: "secret"}) == nil {
					if filled++; evaluate[string](t, b, "pw.value") != "secret" {
						t.Error("the field has no text")
					}
				}
				evaluate[any](t, b, "pw.value = '', null")
			}
			for _, text := range told() {
				if strings.Contains(text, "secret") {
					t.Errorf("the frame got %s", text)
				}
			}
			for range 10 { // an editor's text goes where the focus is
				err := b.Fill(ctx, browser.Fill{Element: css("#e"), Text: "text\nof two lines"})
				if got := evaluate[string](t, b, "e.innerText"); (err == nil) != (got != "") {
					t.Errorf("the editor has %q: %v", got, err)
				}
				evaluate[any](t, b, "e.textContent = '', null")
			}
			for range 5 {
				if b.Press(ctx, browser.Press{Element: css("#t"), Keys: "x"}) == nil {
					pressed++
				}
			}
			if got := evaluate[int](t, b, "window.keys ?? 0"); got < pressed {
				t.Errorf("the element got %d of %d keys", got, pressed)
			}
			t.Logf("%d of 10 texts, %d of 5 keys", filled, pressed)
			if filled == 0 {
				t.Error("no text was filled in")
			}
		})
	}
}

// TestClickOnWhatMoves: what a page shows under the pointer when it comes does not get the click
// instead, or the caller is told.
func TestClickOnWhatMoves(t *testing.T) {
	t.Parallel()
	const buttons = `<title>none</title><button id=b style="position:absolute;left:300px;top:200px;width:100px;height:30px" onclick="document.title='safe'">Safe</button>
		<button id=c style="position:absolute;left:300px;top:300px;width:100px;height:30px" onclick="document.title='deleted'">Delete</button>`
	const overlay = `<script>const show = () => { c.style.cssText = 'position:absolute;left:200px;top:100px;width:300px;height:300px;z-index:9' }</script>`
	site, _, _ := pages(t, map[string]string{
		"/overlay": buttons + overlay + `<script>b.onmouseenter = show</script>`,
		"/swap":    buttons + `<script>b.onmouseenter = () => { b.style.top = '300px'; c.style.top = '200px' }</script>`,
		"/late":    buttons + overlay + `<script>b.onmouseenter = () => setTimeout(show, 4)</script>`,
		"/press":   buttons + overlay + `<script>addEventListener('pointerdown', show, {capture: true, once: true})</script>`,
		"/frame": `<title>none</title><button id=b style="position:absolute;left:50px;top:50px;width:100px;height:30px" onclick="document.title='safe'">Safe</button>
			<iframe id=f src="OTHER/late" style="display:none;position:absolute;left:0;top:0;width:500px;height:500px;border:0"></iframe>
			<script>b.onmouseenter = () => { f.style.display = 'block' }</script>`,
		"/lateframe": `<title>none</title><button id=b style="position:absolute;left:50px;top:50px;width:100px;height:30px" onclick="document.title='safe'">Safe</button>
			<iframe id=f src="OTHER/late" style="position:absolute;left:0;top:600px;width:500px;height:500px;border:0"></iframe>
			<script>b.onmouseenter = () => setTimeout(() => { f.style.top = 0 }, 8)</script>`,
		"/keeps": `<title>none</title><button id=b style="position:absolute;left:50px;top:50px;width:100px;height:30px" onclick="document.title='safe'">Safe</button>
			<script>addEventListener('pointerdown', (e) => e.stopImmediatePropagation(), true)</script>`,
	})
	d := startDesktop(t, desktop.Config{})
	for _, headless := range []bool{false, true} {
		profile := "window"
		if headless {
			profile = "headless"
		}
		b := start(t, browser.Config{Desktop: d, Headless: headless, Profile: profile, Args: []string{"--site-per-process"}})
		for _, path := range []string{"/overlay", "/swap", "/late", "/press", "/frame", "/lateframe", "/keeps"} {
			for range 3 {
				if _, err := d.Move(t.Context(), desktop.Move{At: desktop.Point{X: 5, Y: 600}}); err != nil {
					t.Fatal(err)
				}
				navigate(t, b, site+path)
				done, err := b.Click(t.Context(), browser.Click{Element: css("#b"), Timeout: 500})
				title := evaluate[string](t, b, "new Promise((resolve) => setTimeout(() => resolve(document.title), 50))")
				refused := map[string]bool{"/overlay": true, "/frame": true}[path]
				if title != "safe" && path != "/press" && err == nil || refused && err == nil || path == "/keeps" && err != nil {
					t.Errorf("%s, headless %t: %s, %+v, %v", path, headless, title, done, err)
				}
				t.Logf("%s, headless %t: %s, %v", path, headless, title, err)
			}
		}
	}
}
