package browser_test

import (
	"strings"
	"testing"

	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/desktop/browser"
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
				if _, err := b.Wait(ctx, browser.Wait{Tab: tab.ID, Selector: "#far", Timeout: 10_000}); err != nil || !strings.HasPrefix(tab.URL, site.URL) {
					t.Errorf("%+v: %v", tab, err)
				}
			}
		})
	}
}
