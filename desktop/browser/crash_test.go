package browser_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/deskhand/deskhand/desktop/browser"
)

// nest is a script that nests elements, at the end of a page.
const nest = `(n, style) => {
	const top = document.createElement("div");
	let e = top;
	for (let i = 0; i < n; i++) { const d = document.createElement("div"); e.append(d); e = d; }
	top.style = style;
	e.innerHTML = "<button>Bottom</button>";
	document.body.append(top);
	return true;
}`

// TestDeepPage checks that an outline of any depth has an answer, also if the browser crashes.
func TestDeepPage(t *testing.T) {
	t.Parallel()
	b := start(t, browser.Config{Headless: true})
	ctx := t.Context()
	const page = "data:text/html,<title>Deep</title><button>Top</button>"
	outline := func() ([]string, error) {
		t.Helper()
		begun := time.Now()
		o, err := b.Outline(ctx, browser.OutlineQuery{All: true, Timeout: 5000})
		if took := time.Since(begun); took > 8*time.Second {
			t.Errorf("the outline took %v", took)
		}
		var names []string
		for _, n := range o.Nodes {
			names = append(names, n.Name)
		}
		return names, err
	}
	navigate(t, b, page)
	evaluate[bool](t, b, "("+nest+")(1500, '')")
	if names, err := outline(); err != nil || !slices.Equal(names, []string{"Top", "Bottom"}) {
		t.Errorf("%q, %v", names, err)
	}
	navigate(t, b, page)
	evaluate[bool](t, b, "("+nest+")(8000, 'display: none')")
	if names, err := outline(); err != nil || !slices.Equal(names, []string{"Top"}) {
		t.Errorf("%q, %v", names, err)
	}
	_, _ = b.Evaluate(ctx, browser.Evaluate{Expression: "(" + nest + ")(8000, '')"})
	for range 2 { // while it crashes, and after that
		if names, err := outline(); !errors.Is(err, browser.ErrNotReady) || !strings.Contains(fmt.Sprint(err), "crashed") {
			t.Errorf("%q, %v", names, err)
		}
	}
	if _, err := b.Evaluate(ctx, browser.Evaluate{Expression: "1"}); !errors.Is(err, browser.ErrNotReady) {
		t.Errorf("Evaluate() = %v, want ErrNotReady", err)
	}
	navigate(t, b, page)
	if names, err := outline(); err != nil || !slices.Equal(names, []string{"Top"}) {
		t.Errorf("after the crash: %q, %v", names, err)
	}
}
