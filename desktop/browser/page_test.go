package browser_test

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/deskhand/deskhand/desktop/browser"
)

// TestHiddenMembers uses forms and documents whose named elements hide the members that the script
// of this package needs.
func TestHiddenMembers(t *testing.T) {
	t.Parallel()
	b := start(t, browser.Config{Headless: true})
	ctx := t.Context()
	var inputs, images strings.Builder
	names := evaluate[[]string](t, b, `[...new Set([HTMLFormElement, HTMLElement, Element, Node, EventTarget].flatMap((c) => Object.getOwnPropertyNames(c.prototype)))]`)
	for _, name := range names {
		fmt.Fprintf(&inputs, "<input type=hidden name=%s>", name)
	}
	names = evaluate[[]string](t, b, `[...new Set([HTMLDocument, Document, Node].flatMap((c) => Object.getOwnPropertyNames(c.prototype)))]`)
	for _, name := range names {
		fmt.Fprintf(&images, "<img name=%s alt=''>", name)
	}
	const rest = `<button onclick="document.title='clicked'">Transfer</button><label>Amount <input id=amount></label>
		<select aria-label=Bank><option>One<option>Two</select>`
	for name, page := range map[string]string{
		"form":     "<form aria-label=Pay tabindex=0>" + inputs.String() + rest + "</form>",
		"nodeType": "<form aria-label=Pay tabindex=0><input type=hidden name=nodeType>" + rest + "</form>",
		"document": images.String() + "<form aria-label=Pay tabindex=0 name=body>" + rest + "</form>",
		"window":   "<form aria-label=Pay tabindex=0 id=deskhand>" + rest + "</form>",
	} {
		navigate(t, b, "data:text/html,"+url.PathEscape("<!doctype html><title>Bank</title><body>"+page))
		o, err := b.Outline(ctx, browser.OutlineQuery{All: true, Timeout: 5000})
		if err != nil || o.Truncated {
			t.Errorf("%s: truncated %v, %v", name, o.Truncated, err)
			continue
		}
		for _, want := range []string{`form "Pay"`, `button "Transfer"`, `textbox "Amount"`, `combobox "Bank"`} {
			if !strings.Contains(o.Text(), want) {
				t.Errorf("%s: no %s in\n%s", name, want, o.Text())
			}
		}
		form, amount := refOf(t, b, "form", "Pay"), refOf(t, b, "textbox", "Amount")
		if err := b.Press(ctx, browser.Press{Element: el(form), Keys: "a"}); name != "document" && err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err := b.Fill(ctx, browser.Fill{Element: el(form), Text: "1"}); !errors.Is(err, browser.ErrNotReady) {
			t.Errorf("%s: Fill() of a form = %v, want ErrNotReady", name, err)
		}
		if err := b.Fill(ctx, browser.Fill{Element: el(amount), Text: "100"}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if s, err := b.Select(ctx, browser.Select{Element: css("select"), Values: []string{"Two"}}); err != nil || len(s.Values) != 1 {
			t.Errorf("%s: %v %v", name, s, err)
		}
		if _, err := b.Click(ctx, browser.Click{Element: css("form")}); err != nil && !strings.Contains(err.Error(), "covered") {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := b.Click(ctx, browser.Click{Element: css("button")}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := b.Wait(ctx, browser.Wait{Selector: "form", Text: "Transfer", Timeout: 5000}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if text, err := b.Text(ctx, browser.TextQuery{}); err != nil || !strings.Contains(text.Text, "Transfer") {
			t.Errorf("%s: %q, %v", name, text.Text, err)
		}
	}
}
