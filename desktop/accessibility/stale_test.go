package accessibility_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/desktop/accessibility"
)

// TestOldPage: an element of a page that Chromium has left, and may go back to, is gone. Its
// reference does not act on what the next page shows in the same place.
func TestOldPage(t *testing.T) {
	t.Parallel()
	pages := map[string]string{"/one": "Cancel", "/two": "Pay"}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w, `<!doctype html><title>%s</title><button style="width:200px;height:90px" onclick="document.title='clicked'">%s</button>`, r.URL.Path, pages[r.URL.Path])
	}))
	defer server.Close()
	d, tree := start(t, desktop.Config{})
	launch(t, d, "chromium", "--no-first-run", "--no-sandbox", "--password-store=basic", accessibility.BrowserArg, server.URL+"/one")
	old := awaited(t, tree, accessibility.Match{Role: "button", Name: "Cancel"})
	err := errors.Join(d.Press(t.Context(), desktop.Press{Keys: "ctrl+l"}), d.Type(t.Context(), desktop.Type{Text: server.URL + "/two\n"}))
	if err != nil {
		t.Fatal(err)
	}
	pay := awaited(t, tree, accessibility.Match{Role: "button", Name: "Pay"})
	for _, verb := range []accessibility.Verb{accessibility.Click, accessibility.Focus} {
		var stale *accessibility.StaleError
		done, err := tree.Do(t.Context(), accessibility.Action{Ref: old.Ref, Do: verb})
		if !errors.As(err, &stale) || stale.Nearest == nil || stale.Nearest.Ref != pay.Ref {
			t.Errorf("%s of an element of the page before: %+v, %v", verb, done, err)
		}
	}
	if _, err := tree.Snapshot(t.Context(), accessibility.Query{Root: old.Ref}); !errors.Is(err, accessibility.ErrStale) {
		t.Errorf("a query below an element of the page before: %v", err)
	}
	awaited(t, tree, accessibility.Match{Role: "document web", Name: "/two"})
	if _, err := tree.Do(t.Context(), accessibility.Action{Ref: pay.Ref, Do: accessibility.Click}); err != nil {
		t.Error(err)
	}
	awaited(t, tree, accessibility.Match{Role: "document web", Name: "clicked"})
}
