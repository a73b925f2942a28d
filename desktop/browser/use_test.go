package browser_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"image/png"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/desktop/browser"
)

const formPage = `<!doctype html><meta charset=utf-8><title>Form</title><body style="margin:0">
<h1>Order</h1>
<label>Name <input id=name></label> <label>Day <input type=date id=day></label>
<select id=size aria-label=Size><option value=s>Small<option value=l>Large</select>
<input type=file id=file aria-label=File>
<button id=send onclick="out.textContent = [document.getElementById('name').value, day.value, size.value, file.files[0]?.name, event.isTrusted, event.screenX].join('|')">Send</button>
<button onclick="out.textContent = 'asked ' + confirm('Sure?')">Ask</button>
<button disabled>Never</button>
<button id=far style="position:absolute;top:3000px" onclick="out.textContent='far'">Far away</button>
<div style="position:relative;height:40px"><button id=under onclick="out.textContent='under'">Under</button><div id=cover style="position:absolute;inset:0;background:#ccc">Cover</div></div>
<a href=/second>Second</a> <a href=/download>Download</a>
<p id=out>empty</p>
<iframe src=/inner width=300 height=80 title=Inner></iframe>`

// serve serves the pages of the tests.
func serve(tb testing.TB) *httptest.Server {
	tb.Helper()
	hang := make(chan struct{})
	mux := http.NewServeMux()
	page := func(path, body string) {
		mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			_, _ = fmt.Fprint(w, body)
		})
	}
	page("/", formPage)
	page("/second", "<title>Second</title><p>second page")
	page("/inner", `<title>Inner</title><button onclick="this.textContent='pressed'">Inside</button>`)
	page("/large", `<!doctype html><title>Large</title><body><script>
		document.title = 'T'.repeat(1e6);
		for (let i = 0; i < 100000; i++) { const b = document.createElement('button'); b.textContent = 'Button ' + i; document.body.append(b); }
		for (let i = 0; i < 5000; i++) console.log('x'.repeat(5000), i);
	</script>`)
	mux.HandleFunc("/hang", func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-hang:
		case <-r.Context().Done():
		}
	})
	mux.HandleFunc("/unfinished", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = fmt.Fprint(w, "<title>Unfinished</title><p>the beginning")
		w.(http.Flusher).Flush()
		select {
		case <-hang:
		case <-r.Context().Done():
		}
	})
	mux.HandleFunc("/download", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Disposition", "attachment; filename=report.txt")
		_, _ = fmt.Fprint(w, "the report")
	})
	mux.HandleFunc("/endless", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Disposition", "attachment; filename=endless.bin")
		_, _ = w.Write(make([]byte, 1000))
		w.(http.Flusher).Flush()
		select {
		case <-hang:
		case <-r.Context().Done():
		}
	})
	s := httptest.NewServer(mux)
	tb.Cleanup(func() {
		close(hang)
		s.CloseClientConnections()
		s.Close()
	})
	return s
}

// evaluate returns the value of a script.
func evaluate[T any](tb testing.TB, b *browser.Browser, script string) (v T) {
	tb.Helper()
	got, err := b.Evaluate(tb.Context(), browser.Evaluate{Expression: script})
	if err == nil {
		err = json.Unmarshal(got.Value, &v)
	}
	if err != nil {
		tb.Fatal(err)
	}
	return v
}

// refOf returns the reference of the node with a role and a name.
func refOf(tb testing.TB, b *browser.Browser, role, name string) browser.Ref {
	tb.Helper()
	o, err := b.Outline(tb.Context(), browser.OutlineQuery{All: true, Timeout: 5000})
	if err != nil {
		tb.Fatal(err)
	}
	ref := find(o, role, name)
	if ref == 0 {
		tb.Fatalf("no %s %q in\n%s", role, name, o.Text())
	}
	return ref
}

// find returns the reference of the first node with a role and a name, or 0.
func find(o browser.Outline, role, name string) browser.Ref {
	for _, n := range o.Nodes {
		if n.Role == role && n.Name == name {
			return n.Ref
		}
	}
	return 0
}

func el(ref browser.Ref) browser.Element { return browser.Element{Ref: ref} }

func css(selector string) browser.Element { return browser.Element{Selector: selector} }

func navigate(tb testing.TB, b *browser.Browser, url string) {
	tb.Helper()
	if _, err := b.Navigate(tb.Context(), browser.Navigate{URL: url}); err != nil {
		tb.Fatal(err)
	}
}

func TestForm(t *testing.T) {
	t.Parallel()
	site := serve(t)
	d := startDesktop(t, desktop.Config{})
	b := start(t, browser.Config{Desktop: d, URL: site.URL})
	ctx := t.Context()
	if _, err := b.Wait(ctx, browser.Wait{Until: browser.LoadComplete, Text: "Order", Selector: "#out"}); err != nil {
		t.Fatal(err)
	}
	const name = "Zoë 你好 😀"
	if err := b.Fill(ctx, browser.Fill{Element: el(refOf(t, b, "textbox", "Name")), Text: "before"}); err != nil {
		t.Fatal(err)
	}
	if err := b.Fill(ctx, browser.Fill{Element: el(refOf(t, b, "textbox", "Name")), Text: name}); err != nil {
		t.Fatal(err)
	}
	if err := b.Fill(ctx, browser.Fill{Element: css("#day"), Text: "2026-11-23"}); err != nil {
		t.Fatal(err)
	}
	if s, err := b.Select(ctx, browser.Select{Element: el(refOf(t, b, "combobox", "Size")), Values: []string{"Large"}}); err != nil || !slices.Equal(s.Values, []string{"l"}) {
		t.Fatal(s, err)
	}
	_, err := b.Select(ctx, browser.Select{Element: css("select"), Values: []string{"Large", "hunter2"}})
	if err == nil || !strings.Contains(err.Error(), "values[1]") || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("an option that does not exist: %v", err)
	}
	home := d.Status().Home
	if err := os.WriteFile(filepath.Join(home, "up.txt"), []byte("content"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := b.Upload(ctx, browser.Upload{Element: css("#file"), Files: []string{"up.txt"}}); err != nil {
		t.Fatal(err)
	}
	if err := b.Upload(ctx, browser.Upload{Element: css("#file"), Files: []string{"/etc/passwd"}}); !errors.Is(err, browser.ErrInvalid) {
		t.Error("a file elsewhere:", err)
	}
	send := refOf(t, b, "button", "Send")
	clicked, err := b.Click(ctx, browser.Click{Element: el(send)})
	if err != nil || clicked.Via != browser.ViaPointer {
		t.Fatal(clicked, err)
	}
	want := fmt.Sprintf("%s|2026-11-23|l|up.txt|true|%d", name, clicked.At.X)
	if _, err := b.Wait(ctx, browser.Wait{Text: want, Timeout: 5000}); err != nil {
		t.Fatal(err, evaluate[string](t, b, "out.textContent"), want)
	}
	if again := refOf(t, b, "button", "Send"); again != send {
		t.Error("a reference has changed:", send, again)
	}
	// Outside of the window, covered, and in a frame.
	if c, err := b.Click(ctx, browser.Click{Element: css("#far")}); err != nil || c.Via != browser.ViaPointer {
		t.Error(c, err)
	}
	if _, err := b.Wait(ctx, browser.Wait{Text: "far", Selector: "#out", Timeout: 5000}); err != nil {
		t.Error(err)
	}
	_, err = b.Click(ctx, browser.Click{Element: css("#under"), Timeout: 300})
	if e, ok := errors.AsType[*browser.NotReadyError](err); !ok || !strings.Contains(e.Reason, "Cover") {
		t.Error(err)
	}
	if _, err := b.Click(ctx, browser.Click{Element: el(refOf(t, b, "button", "Never")), Timeout: 100}); !errors.Is(err, browser.ErrNotReady) {
		t.Error(err)
	}
	inside := refOf(t, b, "button", "Inside")
	if c, err := b.Click(ctx, browser.Click{Element: el(inside)}); err != nil || c.Via != browser.ViaPointer {
		t.Error(c, err)
	}
	if got := refOf(t, b, "button", "pressed"); got != inside {
		t.Error("the element in the frame has another reference:", got, inside)
	}
	// A dialog is dismissed by default.
	events := d.Subscribe(0)
	defer events.Close()
	if _, err := b.Click(ctx, browser.Click{Element: el(refOf(t, b, "button", "Ask"))}); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Wait(ctx, browser.Wait{Text: "asked false", Timeout: 5000}); err != nil {
		t.Error(err)
	}
	for e := range events.Events() {
		if e.Browser != nil && e.Browser.Kind == desktop.BrowserDialog && e.Browser.State == "dismissed" {
			if e.Browser.Message != "Sure?" || e.Browser.Dialog != "confirm" {
				t.Error(*e.Browser)
			}
			break
		}
	}
	if err := b.Press(ctx, browser.Press{Element: css("#name"), Keys: "End"}); err != nil {
		t.Error(err)
	}
	if err := b.Press(ctx, browser.Press{Keys: "x"}); err != nil {
		t.Error(err)
	}
	if got := evaluate[string](t, b, "document.getElementById('name').value"); got != name+"x" {
		t.Error(got)
	}
	// The page is replaced.
	navigate(t, b, site.URL+"/second")
	_, err = b.Click(ctx, browser.Click{Element: el(send)})
	if e, ok := errors.AsType[*browser.StaleError](err); !ok || e.Nearest != nil {
		t.Error(err)
	}
	if tab, err := b.Back(ctx, browser.Navigate{}); err != nil || tab.Title != "Form" {
		t.Error(tab, err)
	}
	_, err = b.Click(ctx, browser.Click{Element: el(send)})
	if e, ok := errors.AsType[*browser.StaleError](err); ok && (e.Nearest == nil || e.Nearest.Name != "Send") {
		t.Error(err)
	}
	if tab, err := b.Forward(ctx, browser.Navigate{}); err != nil || tab.Title != "Second" {
		t.Error(tab, err)
	}
	if _, err := b.Forward(ctx, browser.Navigate{}); !errors.Is(err, browser.ErrNoHistory) {
		t.Error(err)
	}
	if tab, err := b.Reload(ctx, browser.Navigate{}); err != nil || tab.Title != "Second" {
		t.Error(tab, err)
	}
}

func TestTabs(t *testing.T) {
	t.Parallel()
	site := serve(t)
	b := start(t, browser.Config{})
	ctx := t.Context()
	second, err := b.NewTab(ctx, site.URL+"/second")
	if err != nil {
		t.Fatal(err)
	}
	tabs, err := b.Tabs(ctx)
	if err != nil || len(tabs) != 2 || !tabs[1].Active || tabs[1].ID != second.ID {
		t.Fatal(tabs, err)
	}
	if err := b.ActivateTab(ctx, tabs[0].ID); err != nil {
		t.Fatal(err)
	}
	// A page on a busy machine may answer too late, or with what was.
	for begun := time.Now(); err == nil && !tabs[0].Active; tabs, err = b.Tabs(ctx) {
		if time.Since(begun) > 30*time.Second {
			t.Fatal("the first tab is not active: ", tabs)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	waited := make(chan error, 1)
	go func() {
		_, err := b.Wait(ctx, browser.Wait{Tab: second.ID, Text: "never there"})
		waited <- err
	}()
	if err := b.CloseTab(ctx, second.ID); err != nil {
		t.Fatal(err)
	}
	if err := <-waited; !errors.Is(err, browser.ErrNoTab) {
		t.Errorf("Wait() = %v while its tab was closed, want ErrNoTab", err)
	}
	if tabs, err = b.Tabs(ctx); err != nil || len(tabs) != 1 {
		t.Error(tabs, err)
	}
	if _, err := b.Evaluate(ctx, browser.Evaluate{Expression: `document.title = "set by a script"`}); err != nil {
		t.Fatal(err)
	}
	for begun := time.Now(); err == nil && tabs[0].Title != "set by a script"; tabs, err = b.Tabs(ctx) {
		if time.Since(begun) > 10*time.Second {
			t.Fatalf("the title is %q", tabs[0].Title)
		}
	}
	if _, err := b.Text(ctx, browser.TextQuery{Tab: second.ID}); !errors.Is(err, browser.ErrNoTab) {
		t.Error(err)
	}
	if _, err := b.Navigate(ctx, browser.Navigate{URL: "http://127.0.0.1:1/"}); err == nil {
		t.Error("a page without a server is loaded")
	} else if e, ok := errors.AsType[*browser.NavigationError](err); !ok || !strings.HasPrefix(e.Reason, "net::") {
		t.Error(err)
	}
	for _, url := range []string{"example.com", "javascript:alert(1)", "-"} {
		if _, err := b.Navigate(ctx, browser.Navigate{URL: url}); !errors.Is(err, browser.ErrInvalid) {
			t.Error(url, err)
		}
	}
}

// TestBounds uses pages that never load, that are large, and that write without end.
func TestBounds(t *testing.T) {
	t.Parallel()
	site := serve(t)
	b := start(t, browser.Config{})
	ctx := t.Context()
	begun := time.Now()
	_, err := b.Navigate(ctx, browser.Navigate{URL: site.URL + "/hang", Timeout: 500})
	if _, ok := errors.AsType[*desktop.DeadlineError](err); !ok || time.Since(begun) > 10*time.Second {
		t.Error(err, time.Since(begun))
	}
	if _, err := b.Navigate(ctx, browser.Navigate{URL: site.URL + "/large", Timeout: 60_000}); err != nil {
		t.Fatal(err)
	}
	begun = time.Now()
	o, err := b.Outline(ctx, browser.OutlineQuery{})
	if err != nil || !o.Truncated || len(o.Nodes) == 0 || len(o.Nodes) > 300 || len(o.Title) > 1100 {
		t.Error(err, o.Truncated, len(o.Nodes), len(o.Title))
	}
	if took := time.Since(begun); took > 20*time.Second { // 1 s on an idle machine
		t.Errorf("the outline of 100000 buttons took %v", took)
	}
	begun = time.Now()
	if o, err = b.Outline(ctx, browser.OutlineQuery{All: true, Limit: 5000, Timeout: 200}); err != nil || !o.Truncated || len(o.Nodes) > 5000 || time.Since(begun) > 20*time.Second {
		t.Error(err, len(o.Nodes), time.Since(begun))
	}
	log, err := b.Console(ctx, browser.TabQuery{})
	// A browser that is asked late reports its newest 1000 messages.
	if err != nil || len(log.Messages) != 200 || log.Dropped < 800 || len(log.Messages[199].Text) > 1100 {
		t.Error(err, len(log.Messages), log.Dropped)
	}
	if _, err := b.Evaluate(ctx, browser.Evaluate{Expression: "while (true);", Timeout: 300}); err == nil {
		t.Error("a script without end has ended")
	}
	if _, err := b.Evaluate(ctx, browser.Evaluate{Expression: "new Promise(() => {})", Timeout: 300}); err == nil {
		t.Error("a promise that is not kept has a value")
	}
	if _, err := b.Evaluate(ctx, browser.Evaluate{Expression: "'x'.repeat(5e6)"}); !errors.Is(err, browser.ErrTooLarge) {
		t.Error(err)
	}
	if _, err := b.Evaluate(ctx, browser.Evaluate{Expression: "throw new Error('no')"}); err == nil || !strings.Contains(err.Error(), "no") {
		t.Error(err)
	}
	text, err := b.Text(ctx, browser.TextQuery{Limit: 1000})
	if err != nil || !text.Truncated || len(text.Text) != 1000 {
		t.Error(err, len(text.Text))
	}
	navigate(t, b, site.URL+"/second")
	network, err := b.Network(ctx, browser.TabQuery{})
	if err != nil || !slices.ContainsFunc(network.Requests, func(r browser.NetworkRequest) bool { return r.Status == 200 && strings.HasSuffix(r.URL, "/second") }) {
		t.Error(network, err)
	}
}

// TestLongRoles checks that roles of any length, which pages choose, are cut.
func TestLongRoles(t *testing.T) {
	t.Parallel()
	b := start(t, browser.Config{})
	navigate(t, b, "data:text/html,<title>Roles</title><button>A</button><div tabindex=0>B</div>")
	evaluate[bool](t, b, `document.querySelectorAll("button, div").forEach((e) => e.setAttribute("role", "Role".repeat(1e5))), true`)
	o, err := b.Outline(t.Context(), browser.OutlineQuery{})
	if err != nil || len(o.Nodes) < 2 {
		t.Fatal(err, len(o.Nodes))
	}
	for _, n := range o.Nodes {
		if len(n.Role) > 40 {
			t.Errorf("a role has %d bytes", len(n.Role))
		}
	}
}

func TestDownloads(t *testing.T) {
	t.Parallel()
	site := serve(t)
	d := startDesktop(t, desktop.Config{})
	b := start(t, browser.Config{Desktop: d, URL: site.URL})
	events := d.Subscribe(0)
	defer events.Close()
	ctx := t.Context()
	if _, err := b.Wait(ctx, browser.Wait{Text: "Download"}); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second one gets a name of its own
		if _, err := b.Navigate(ctx, browser.Navigate{URL: site.URL + "/download"}); err != nil {
			t.Error(err)
		}
	}
	if _, err := b.Navigate(ctx, browser.Navigate{URL: site.URL + "/endless", Timeout: 5000}); err != nil {
		t.Error(err)
	}
	paths := map[string]bool{}
	for e := range events.Events() {
		if e.Browser == nil || e.Browser.Kind != desktop.BrowserDownload || e.Browser.State != "completed" {
			continue
		}
		text, err := os.ReadFile(e.Browser.Path)
		if err != nil || string(text) != "the report" || e.Browser.Size != int64(len(text)) || filepath.Dir(e.Browser.Path) != filepath.Join(d.Status().Home, "Downloads") {
			t.Errorf("%+v %q %v", *e.Browser, text, err)
		}
		if paths[e.Browser.Path] = true; len(paths) == 2 {
			break
		}
	}
	if n := b.Downloads(); len(n) != 3 || n[2].State != "started" {
		t.Error(n)
	}
}

func TestPictures(t *testing.T) {
	t.Parallel()
	site := serve(t)
	b := start(t, browser.Config{Headless: true, Viewport: desktop.Size{Width: 800, Height: 600}})
	ctx := t.Context()
	navigate(t, b, site.URL)
	picture, err := b.Screenshot(ctx, browser.Screenshot{Full: true})
	if err != nil {
		t.Fatal(err)
	}
	if cfg, err := png.DecodeConfig(bytes.NewReader(picture)); err != nil || cfg.Height < 3000 {
		t.Error(cfg, err)
	}
	if pdf, err := b.PDF(ctx, browser.PDF{}); err != nil || !bytes.HasPrefix(pdf, []byte("%PDF-")) {
		t.Error(len(pdf), err)
	}
	if c, err := b.Click(ctx, browser.Click{Element: css("#far")}); err != nil || c.Via != browser.ViaBrowser {
		t.Error(c, err)
	}
	if _, err := b.Wait(ctx, browser.Wait{Text: "far", Selector: "#out", Timeout: 5000}); err != nil {
		t.Error(err)
	}
	if err := b.Press(ctx, browser.Press{Element: css("#name"), Keys: "a"}); err != nil || evaluate[string](t, b, "document.getElementById('name').value") != "a" {
		t.Error(err)
	}
}

// TestPictureOfHiddenTab: Chromium does not always draw a tab that has just been hidden.
func TestPictureOfHiddenTab(t *testing.T) {
	t.Parallel()
	site := serve(t)
	d := startDesktop(t, desktop.Config{})
	b := start(t, browser.Config{Desktop: d, URL: site.URL})
	ctx := t.Context()
	tabs, err := b.Tabs(ctx)
	if err != nil {
		t.Fatal(err)
	}
	hidden := tabs[0].ID
	if _, err := b.NewTab(ctx, site.URL); err != nil {
		t.Fatal(err)
	}
	for range 4 {
		begun := time.Now()
		picture, err := b.Screenshot(ctx, browser.Screenshot{Tab: hidden})
		if took := time.Since(begun); took > 20*time.Second || errors.Is(err, browser.ErrHidden) == (len(picture) > 0) {
			t.Errorf("a picture of %d bytes, %v after %v", len(picture), err, took)
		}
	}
	if err := b.ActivateTab(ctx, hidden); err != nil {
		t.Fatal(err)
	}
	if picture, err := b.Screenshot(ctx, browser.Screenshot{Tab: hidden}); err != nil || len(picture) == 0 {
		t.Errorf("a picture of %d bytes, %v", len(picture), err)
	}
}

func TestState(t *testing.T) {
	t.Parallel()
	site := serve(t)
	d := startDesktop(t, desktop.Config{})
	b := start(t, browser.Config{Desktop: d, URL: site.URL})
	ctx := t.Context()
	navigate(t, b, site.URL)
	evaluate[any](t, b, "document.cookie = 'a=1; max-age=1000'; localStorage.setItem('k', 'v'); null")
	state, err := b.State(ctx)
	if err != nil || len(state.Cookies) != 1 || state.Cookies[0].Value != "1" || len(state.Origins) != 1 || state.Origins[0].LocalStorage[0].Value != "v" {
		t.Fatal(state, err)
	}
	other := start(t, browser.Config{Desktop: d, Profile: "other"})
	if err := other.SetState(ctx, state); err != nil {
		t.Fatal(err)
	}
	navigate(t, other, site.URL)
	if got := evaluate[string](t, other, "document.cookie + localStorage.getItem('k')"); got != "a=1v" {
		t.Error(got)
	}
	if tabs, err := other.Tabs(ctx); err != nil || len(tabs) != 1 {
		t.Error(tabs, err)
	}
}

// TestLargeState: the local storages of two sites have more than State may return.
func TestLargeState(t *testing.T) {
	t.Parallel()
	site := serve(t)
	b := start(t, browser.Config{Desktop: startDesktop(t, desktop.Config{}), URL: site.URL})
	const fill = "localStorage.setItem('k', '世'.repeat(4_000_000)); null"
	navigate(t, b, site.URL)
	evaluate[any](t, b, fill)
	if state, err := b.State(t.Context()); err != nil || len(state.Origins) != 1 {
		t.Fatalf("the state of one site: %d origins, %v", len(state.Origins), err)
	}
	tab, err := b.NewTab(t.Context(), strings.Replace(site.URL, "127.0.0.1", "localhost", 1))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Wait(t.Context(), browser.Wait{Tab: tab.ID, Text: "Order"}); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Evaluate(t.Context(), browser.Evaluate{Tab: tab.ID, Expression: fill}); err != nil {
		t.Fatal(err)
	}
	if _, err := b.State(t.Context()); !errors.Is(err, browser.ErrTooLarge) {
		t.Errorf("the state of two sites: %v, want ErrTooLarge", err)
	}
}

// TestControlHeld: while a person has control, what acts is refused, and what looks is not.
func TestControlHeld(t *testing.T) {
	t.Parallel()
	site := serve(t)
	d := startDesktop(t, desktop.Config{})
	b := start(t, browser.Config{Desktop: d, URL: site.URL})
	if _, err := b.Wait(t.Context(), browser.Wait{Text: "Order"}); err != nil {
		t.Fatal(err)
	}
	if err := d.TakeControl(t.Context(), desktop.Actor{Kind: desktop.ActorViewer, ID: "1"}, true); err != nil {
		t.Fatal(err)
	}
	ctx := desktop.WithActor(t.Context(), desktop.Actor{Kind: desktop.ActorAgent, Name: "agent"})
	for name, args := range map[string]string{
		"navigate": `{"url":"about:blank"}`, "evaluate": `{"expression":"1"}`, "click": `{"selector":"#send"}`,
		"fill": `{"selector":"#name","text":"x"}`, "newTab": `{}`, "press": `{"keys":"x"}`,
	} {
		if _, err := b.Do(ctx, name, json.RawMessage(args)); !errors.Is(err, desktop.ErrControlHeld) {
			t.Error(name, err)
		}
	}
	if err := b.Stop(ctx); !errors.Is(err, desktop.ErrControlHeld) {
		t.Error("stop", err)
	}
	result, err := b.Do(ctx, "outline", nil)
	if err != nil || !strings.Contains(string(result), "Order") {
		t.Error(string(result), err)
	}
	if _, err := b.Do(ctx, "nothing", nil); !errors.Is(err, browser.ErrInvalid) {
		t.Error(err)
	}
	if _, err := b.Do(ctx, "click", json.RawMessage(`{"ref":"@e1","selektor":"x"}`)); !errors.Is(err, browser.ErrInvalid) {
		t.Error(err)
	}
}

// TestProxy: a browser with a proxy gets its pages from there.
func TestProxy(t *testing.T) {
	t.Parallel()
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprintf(w, "<title>%s</title>", r.URL) // a proxy gets the whole URL
	}))
	t.Cleanup(proxy.Close)
	b := start(t, browser.Config{Headless: true, Proxy: proxy.URL})
	if tab, err := b.Navigate(t.Context(), browser.Navigate{URL: "http://nowhere.example/page"}); err != nil || tab.Title != "http://nowhere.example/page" {
		t.Error(tab, err)
	}
}

// TestNavigateClosedTab closes a tab while its page loads.
func TestNavigateClosedTab(t *testing.T) {
	t.Parallel()
	site := serve(t)
	b := start(t, browser.Config{})
	ctx := t.Context()
	tab, err := b.NewTab(ctx, site.URL+"/second")
	if err != nil {
		t.Fatal(err)
	}
	loaded := make(chan error, 1)
	go func() {
		_, err := b.Navigate(ctx, browser.Navigate{Tab: tab.ID, URL: site.URL + "/unfinished"})
		loaded <- err
	}()
	if _, err := b.Wait(ctx, browser.Wait{Tab: tab.ID, URL: "/unfinished", Text: "the beginning"}); err != nil {
		t.Fatal(err)
	}
	if err := b.CloseTab(ctx, tab.ID); err != nil {
		t.Fatal(err)
	}
	if err := <-loaded; !errors.Is(err, browser.ErrNoTab) {
		t.Errorf("Navigate() = %v while its tab was closed, want ErrNoTab", err)
	}
}
