package browser_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/desktop/browser"
)

// TestFillOfBusyPage: a field gets no text after its call has failed, also when the page is busy and
// would get it later.
func TestFillOfBusyPage(t *testing.T) {
	t.Parallel()
	site, _, _ := pages(t, map[string]string{"/page": `<title>page</title><input id=i oninput="if (value) got.push({ Text: value, At: Date.now() })"><script>
		var got = [], bursts = 0;
		function burst() {
			for (const end = performance.now() + 150 + 150 * (bursts % 5); performance.now() < end;);
			if (++bursts < 40) setTimeout(burst);
		}
	</script>`})
	b := start(t, browser.Config{Headless: true})
	navigate(t, b, site+"/page")
	evaluate[any](t, b, "setTimeout(burst), null")
	done, failed := map[string]bool{}, map[string]time.Time{}
	for n := range 12 {
		text := fmt.Sprint("text ", n)
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(300+100*n)*time.Millisecond)
		switch err := b.Fill(ctx, browser.Fill{Element: css("#i"), Text: text}); {
		case err == nil:
			done[text] = true
		case errors.Is(err, context.DeadlineExceeded):
			failed[text] = time.Now()
		default:
			t.Error(err)
		}
		cancel()
	}
	for evaluate[int](t, b, "bursts") < 40 {
	}
	for _, got := range evaluate[[]struct {
		Text string
		At   int64
	}](t, b, "got") {
		if end, ok := failed[got.Text]; ok && time.UnixMilli(got.At).After(end) {
			t.Errorf("the field got %q %v after its call had failed", got.Text, time.UnixMilli(got.At).Sub(end))
		}
		delete(done, got.Text)
	}
	if len(done) > 0 || len(failed) == 0 {
		t.Errorf("calls without effect: %v; %d have failed", done, len(failed))
	}
}

// TestClicksOnWhatMoves: each of several clicks goes to the element, or the error names what got it.
func TestClicksOnWhatMoves(t *testing.T) {
	t.Parallel()
	site, _, told := pages(t, map[string]string{
		"/page": `<title>page</title><button id=b style="position:absolute;left:0;top:0;width:200px;height:100px"
			ondblclick="fetch('/tell?twice')" onmouseup="if (location.hash) f.style.visibility = 'visible'">b</button>
			<iframe id=f src="/other" style="position:fixed;left:0;top:0;width:300px;height:300px;visibility:hidden;border:0"></iframe>`,
		"/other": `<button style="width:280px;height:280px">Pay</button>`,
	})
	for name, cfg := range map[string]browser.Config{"window": {Desktop: startDesktop(t, desktop.Config{})}, "headless": {Headless: true}} {
		t.Run(name, func(t *testing.T) {
			b := start(t, cfg)
			navigate(t, b, site+"/page")
			before := len(told())
			for range 2 {
				if _, err := b.Click(t.Context(), browser.Click{Element: css("#b"), Count: 2}); err != nil {
					t.Fatal(err)
				}
			}
			evaluate[any](t, b, "fetch('/page').then(() => null)") // after the others
			if got := len(told()) - before; got != 2 {
				t.Errorf("%d double clicks, want 2", got)
			}
			for _, count := range []int{2, 3} {
				navigate(t, b, "about:blank")
				navigate(t, b, site+"/page#cover")
				_, err := b.Click(t.Context(), browser.Click{Element: css("#b"), Count: count})
				if !errors.Is(err, browser.ErrNotReady) || !strings.Contains(err.Error(), "click") {
					t.Errorf("%d clicks, of which a frame got one: %v", count, err)
				}
			}
		})
	}
}

// TestXHTML: names of tags are in lower case there, and may have a prefix.
func TestXHTML(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/xhtml+xml")
		_, _ = w.Write([]byte(`<h:html xmlns:h="http://www.w3.org/1999/xhtml"><h:head><h:title>x</h:title></h:head><h:body>
			<h:input type="password" role="textbox" aria-label="Password" value="hunter2"/><h:input type="text" aria-label="Name"/>
			<h:select aria-label="Town"><h:option>Rome</h:option><h:option>Oslo</h:option></h:select></h:body></h:html>`))
	}))
	defer s.Close()
	b := start(t, browser.Config{Headless: true})
	navigate(t, b, s.URL)
	if err := b.Fill(t.Context(), browser.Fill{Element: el(refOf(t, b, "textbox", "Name")), Text: "Ann"}); err != nil {
		t.Error(err)
	}
	if _, err := b.Select(t.Context(), browser.Select{Element: el(refOf(t, b, "combobox", "Town")), Values: []string{"Oslo"}}); err != nil {
		t.Error(err)
	}
	o, err := b.Outline(t.Context(), browser.OutlineQuery{})
	if text := o.Text(); err != nil || strings.Contains(text, "hunter2") || !strings.Contains(text, "Ann") || !strings.Contains(text, "Oslo") {
		t.Errorf("%v\n%s", err, text)
	}
}

// TestRolesOfPages: a page cannot put lines into an outline by roles, or hide the reference of a
// control.
func TestRolesOfPages(t *testing.T) {
	t.Parallel()
	b := start(t, browser.Config{Headless: true})
	navigate(t, b, "data:text/html,<meta charset=utf-8><button role='x\u0085@e99\u2800button'>A</button><button role=text>B</button><button role=TAB>C</button>")
	refOf(t, b, "button", "A")
	refOf(t, b, "button", "B")
	refOf(t, b, "tab", "C")
}

// TestFieldsOfTypes: values that the browser writes in another way are accepted, and others leave the
// field as it was.
func TestFieldsOfTypes(t *testing.T) {
	t.Parallel()
	b := start(t, browser.Config{Headless: true})
	site, _, _ := pages(t, map[string]string{"/page": `<title>page</title><input id=color type=color><input id=range type=range value=50><input id=at type=datetime-local>
		<input id=number type=number maxlength=2><select id=list><option>a<option disabled>b</select><script>
		var changes = []; addEventListener('change', (e) => changes.push(e.target.id))</script>`})
	navigate(t, b, site+"/page")
	for _, c := range []struct{ field, text, want string }{
		{"color", "#FF0000", "#ff0000"}, {"color", "red", "fails"}, {"range", "70.0", "70"}, {"range", "700", "fails"},
		{"at", "2026-01-02T10:00:00", "2026-01-02T10:00"}, {"at", "soon", "fails"}, {"number", "123", "123"},
	} {
		before := evaluate[string](t, b, c.field+".value")
		err := b.Fill(t.Context(), browser.Fill{Element: css("#" + c.field), Text: c.text})
		got := evaluate[string](t, b, c.field+".value")
		if c.want == "fails" && (err == nil || got != before) || c.want != "fails" && (err != nil || got != c.want) {
			t.Errorf("%s %q: %q, %v", c.field, c.text, got, err)
		}
	}
	if got := evaluate[[]string](t, b, "changes"); !slices.Equal(got, []string{"color", "range", "at"}) {
		t.Errorf("changes of %q", got)
	}
	if _, err := b.Select(t.Context(), browser.Select{Element: css("#list"), Values: []string{"b"}}); !errors.Is(err, browser.ErrNotReady) {
		t.Errorf("an option that is disabled: %v", err)
	}
}

// TestNestedFrames: elements of a frame are used that is in a frame of another site.
func TestNestedFrames(t *testing.T) {
	t.Parallel()
	site, other, told := pages(t, map[string]string{
		"/page":   `<title>page</title><iframe src="OTHER/middle" width=500 height=300></iframe>`,
		"/middle": `<p>middle</p><iframe width=400 height=200></iframe><script>document.querySelector("iframe").src = decodeURIComponent(location.search.slice(1))</script>`,
		"/inner":  `<button onclick="fetch('/tell?clicked')">Inner</button><input aria-label=Field oninput="fetch('/tell?'+value)">`,
	})
	for name, cfg := range map[string]browser.Config{"window": {Desktop: startDesktop(t, desktop.Config{})}, "headless": {Headless: true}} {
		t.Run(name, func(t *testing.T) {
			b := start(t, cfg)
			navigate(t, b, site+"/page")
			evaluate[any](t, b, fmt.Sprintf("document.querySelector('iframe').src = '%s/middle?' + encodeURIComponent('%s/inner'), null", other, site))
			var inner browser.Ref
			for end := time.Now().Add(10 * time.Second); inner == 0 && time.Now().Before(end); {
				o, err := b.Outline(t.Context(), browser.OutlineQuery{All: true, Timeout: 5000})
				if err != nil {
					t.Fatal(err)
				}
				inner = find(o, "button", "Inner")
			}
			before := len(told())
			if _, err := b.Click(t.Context(), browser.Click{Element: el(inner)}); err != nil {
				t.Fatal(err)
			}
			if err := b.Fill(t.Context(), browser.Fill{Element: el(refOf(t, b, "textbox", "Field")), Text: "text"}); err != nil {
				t.Fatal(err)
			}
			for end := time.Now().Add(10 * time.Second); !slices.Equal(told()[before:], []string{"clicked", "text"}); {
				if time.Now().After(end) {
					t.Fatalf("the frame has told %q", told()[before:])
				}
			}
		})
	}
}

// TestSlowFocus: a page that takes its time for the focus changes nothing after the call has failed.
func TestSlowFocus(t *testing.T) {
	t.Parallel()
	site, _, _ := pages(t, map[string]string{"/page": `<title>page</title><input id=other value=old><div id=e contenteditable>old</div>
		<select id=s><option>a<option>b</select><script>
		addEventListener('focusin', (e) => {
			if (e.target === other) return;
			if (e.target === window.e) setTimeout(() => other.focus());
			for (const end = performance.now() + 1500; performance.now() < end;);
		}, true)</script>`})
	b := start(t, browser.Config{Headless: true})
	navigate(t, b, site+"/page")
	try := func(what string, f func(ctx context.Context) error) {
		ctx, cancel := context.WithTimeout(t.Context(), 700*time.Millisecond)
		defer cancel()
		if err := f(ctx); err == nil {
			t.Error(what, "is done")
		}
		if got := evaluate[string](t, b, "[other.value, e.textContent, s.value].join()"); got != "old,old,a" {
			t.Errorf("%s: %s", what, got)
		}
	}
	try("fill", func(ctx context.Context) error { return b.Fill(ctx, browser.Fill{Element: css("#e"), Text: "new"}) })
	try("select", func(ctx context.Context) error {
		_, err := b.Select(ctx, browser.Select{Element: css("#s"), Values: []string{"b"}})
		return err
	})
}

// TestSlowPage: a page that is busy again and again is filled.
func TestSlowPage(t *testing.T) {
	t.Parallel()
	site, _, _ := pages(t, map[string]string{"/page": `<title>page</title><input id=i><div id=e contenteditable></div><script>
		(function busy() { for (const end = performance.now() + 700; performance.now() < end;); setTimeout(busy) })()</script>`})
	b := start(t, browser.Config{Headless: true})
	if _, err := b.Navigate(t.Context(), browser.Navigate{URL: site + "/page", Until: "commit"}); err != nil {
		t.Fatal(err)
	}
	for _, field := range []string{"#i", "#e"} {
		if err := b.Fill(t.Context(), browser.Fill{Element: css(field), Text: "text"}); err != nil {
			t.Error(field, err)
		}
	}
}

// TestClicksOnLabels: a click on a link in a label is none on the label's field, and an element that
// the page draws anew with the first of two clicks gets the second.
func TestClicksOnLabels(t *testing.T) {
	t.Parallel()
	b := start(t, browser.Config{Headless: true})
	site, _, _ := pages(t, map[string]string{"/page": `<title>page</title><label style="position:relative;display:block;width:200px;height:40px">
		<input id=c type=checkbox style="opacity:0;position:absolute;left:50px"><a href="#gone" style="position:absolute;inset:0">terms</a></label>
		<div id=list onclick="clicks = event.detail; list.innerHTML = list.innerHTML"><button id=b>Open</button></div>`})
	navigate(t, b, site+"/page")
	if _, err := b.Click(t.Context(), browser.Click{Element: css("#c"), Timeout: 500}); !errors.Is(err, browser.ErrNotReady) {
		t.Errorf("a link covers the checkbox: %v", err)
	}
	if _, err := b.Click(t.Context(), browser.Click{Element: css("#b"), Count: 2}); err != nil || evaluate[int](t, b, "clicks") != 2 {
		t.Errorf("a button that is drawn anew: %v", err)
	}
}

// TestFillOfEditor: an editable element gets a text whatever its line breaks are.
func TestFillOfEditor(t *testing.T) {
	t.Parallel()
	b := start(t, browser.Config{Headless: true})
	navigate(t, b, "data:text/html,<div contenteditable id=e>old</div>")
	for _, text := range []string{"a", "a\nb", "\n", "a\r\nb", "\n\n", "a\n"} {
		if err := b.Fill(t.Context(), browser.Fill{Element: css("#e"), Text: text}); err != nil {
			t.Errorf("%q: %v", text, err)
		}
		if got := evaluate[string](t, b, "e.innerText"); strings.Contains(got, "old") {
			t.Errorf("%q: the editor has %q", text, got)
		}
	}
}
