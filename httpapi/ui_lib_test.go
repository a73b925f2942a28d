package httpapi

import (
	"encoding/json"
	"os"
	"testing"
)

// requireLibs skips a test that needs the third-party code of the page. make test fetches
// it, so there the test fails.
func requireLibs(t *testing.T) {
	t.Helper()
	if _, err := page.ReadDir("ui/lib"); err == nil {
		return
	}
	if os.Getenv("REQUIRE_TOOLS") != "" {
		t.Fatal("the third-party code of the page is missing: make test fetches it")
	}
	t.Skip("the third-party code of the page is missing: make libs")
}

// TestPageLibs: the page has what the lock file names, with the types of scripts and
// style sheets.
func TestPageLibs(t *testing.T) {
	t.Parallel()
	requireLibs(t)
	text, err := os.ReadFile("libs.lock")
	if err != nil {
		t.Fatal(err)
	}
	var libraries []struct{ Files map[string]string }
	if err := json.Unmarshal(text, &libraries); err != nil {
		t.Fatal(err)
	}
	files, err := pageFiles()
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range libraries {
		for _, name := range l.Files {
			if f := files["lib/"+name]; f == nil || f.Type == "" {
				t.Errorf("the page has no lib/%s, or it has no type: make libs", name)
			}
		}
	}
}
