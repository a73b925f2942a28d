package browser_test

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/desktop/browser"
	"github.com/deskhand/deskhand/internal/testx11"
)

// TestPopup: a window that a page opens loads, and the page goes on.
func TestPopup(t *testing.T) {
	t.Parallel()
	site := serve(t)
	for name, cfg := range map[string]browser.Config{"window": {Desktop: startDesktop(t, desktop.Config{})}, "headless": {Headless: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := start(t, cfg)
			ctx := t.Context()
			navigate(t, b, site.URL)
			opener, err := b.Tabs(ctx)
			if err != nil {
				t.Fatal(err)
			}
			for _, features := range []string{"", "popup,width=300,height=200"} {
				open := "document.getElementById('name').onclick = () => window.open(location.href, '', '" + features + "'); 0"
				if _, err := b.Evaluate(ctx, browser.Evaluate{Tab: opener[0].ID, Expression: open}); err != nil {
					t.Fatal(err)
				}
				if _, err := b.Click(ctx, browser.Click{Tab: opener[0].ID, Element: css("#name")}); err != nil {
					t.Fatal(err)
				}
				if _, err := b.Evaluate(ctx, browser.Evaluate{Tab: opener[0].ID, Expression: "1 + 1", Timeout: 10_000}); err != nil {
					t.Errorf("the page does not answer: %v", err)
				}
			}
			tabs, err := b.Tabs(ctx)
			if err != nil || len(tabs) != 3 {
				t.Fatal(tabs, err)
			}
			for _, tab := range tabs {
				if tab, err := b.Wait(ctx, browser.Wait{Tab: tab.ID, Selector: "#far", Timeout: 10_000}); err != nil || !strings.HasPrefix(tab.URL, site.URL) {
					t.Errorf("%+v: %v", tab, err)
				}
			}
		})
	}
}

// TestPressInWindows: with several windows, a key goes to the window of its tab, also if another one
// has the focus and a client has pages say that they have it.
func TestPressInWindows(t *testing.T) {
	t.Parallel()
	testx11.Require(t, "xdotool")
	site, _, told := pages(t, map[string]string{
		"/page":  `<title>page</title><button id=open onclick="open('/other', '', 'popup,width=300,height=200,left=200,top=100')">Open</button><input id=i>`,
		"/other": `<title>other</title><script>onkeydown = (e) => fetch('/tell?' + e.key)</script>`,
	})
	d := startDesktop(t, desktop.Config{})
	b := start(t, browser.Config{Desktop: d})
	ctx := t.Context()
	navigate(t, b, site+"/page")
	tabs, err := b.Tabs(ctx)
	if err != nil {
		t.Fatal(err)
	}
	page := tabs[0].ID
	if _, err := b.Click(ctx, browser.Click{Element: css("#open")}); err != nil {
		t.Fatal(err)
	}
	var other desktop.Window
	for other.ID == 0 {
		windows, err := d.Windows(ctx, desktop.WindowFilter{})
		if err != nil {
			t.Fatal(err)
		}
		if i := slices.IndexFunc(windows, func(w desktop.Window) bool { return strings.HasPrefix(w.Title, "other") }); i >= 0 {
			other = windows[i]
		}
	}
	c := connect(t, b, page)
	c.result("", "Emulation.setFocusEmulationEnabled", object("enabled", true))
	steal := "while xdotool windowfocus " + strconv.Itoa(int(other.ID)) + "; do sleep 0.005; done"
	var pressed int
	for i := range 20 {
		if _, err := d.FocusWindow(ctx, other.ID); err != nil {
			t.Fatal(err)
		}
		if i == 5 {
			if _, err := d.Launch(ctx, desktop.Launch{App: "sh", Args: []string{"-c", steal}}); err != nil {
				t.Fatal(err)
			}
		}
		switch err := b.Press(ctx, browser.Press{Tab: page, Element: css("#i"), Keys: "x"}); {
		case err == nil:
			pressed++
		case !errors.Is(err, browser.ErrNotReady):
			t.Fatal(err)
		}
	}
	v, err := b.Evaluate(ctx, browser.Evaluate{Tab: page, Expression: "i.value.length"})
	if got, _ := strconv.Atoi(string(v.Value)); err != nil || got < pressed || pressed < 5 {
		t.Errorf("%d keys are said to be done; the page got %s, %v, the other window %q", pressed, v.Value, err, told())
	}
	t.Logf("%d of 20 keys; the other window got %d", pressed, len(told()))
}
