package accessibility_test

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/deskhand/deskhand/desktop/accessibility"
)

// largePage has 100000 buttons: the first half beside each other, the rest in groups of 100.
const largePage = `<!doctype html><title>Large</title><body><script>
for (let i = 0, parent = document.body; i < 100000; i++) {
  if (i >= 50000 && i % 100 == 0) {
    parent = document.createElement("form");
    parent.ariaLabel = "Group " + i;
    document.body.append(parent);
  }
  const b = document.createElement("button");
  b.textContent = "Button " + i;
  parent.append(b);
}</script>`

// TestLargePage: a page with 100000 elements costs the query's time and little memory, and the
// result says that elements are missing. It does not run beside tests that need memory.
func TestLargePage(t *testing.T) {
	const mostMemory = 64 << 20 // that a query allocates
	d, tree := startPrepared(t)
	file := filepath.Join(t.TempDir(), "page.html")
	if err := os.WriteFile(file, []byte(largePage), 0o644); err != nil { //nolint:gosec // of the test
		t.Fatal(err)
	}
	launch(t, d, "chromium", "--no-first-run", "--no-sandbox", "--password-store=basic", "file://"+file)
	awaited(t, tree, accessibility.Match{Role: "button", Name: "Button 0"})
	for name, q := range map[string]accessibility.Query{
		"short":    {Timeout: 20 * time.Millisecond},
		"default":  {Timeout: accessibility.DefaultTimeout},
		"patient":  {Timeout: patient},
		"all":      {All: true, Limit: accessibility.MaxLimit, Timeout: time.Second},
		"no match": {Match: accessibility.Match{Name: "~^nothing$"}, All: true, Timeout: time.Second},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		begun := time.Now()
		s, err := tree.Snapshot(t.Context(), q)
		took := time.Since(begun)
		runtime.ReadMemStats(&after)
		used := after.TotalAlloc - before.TotalAlloc
		t.Logf("%s: %d elements in %v, %d bytes allocated", name, len(s.Elements), took, used)
		if err != nil || !s.Truncated || took > q.Timeout+2*time.Second {
			t.Errorf("%s: truncated %v after %v, %v", name, s.Truncated, took, err)
		}
		if used > mostMemory {
			t.Errorf("%s: it allocates %d bytes", name, used)
		}
		if name == "patient" && (one(s, "button", "Button 0") == nil || len(s.Elements) < 200) {
			t.Errorf("%s: %d elements:\n%s", name, len(s.Elements), s.Outline())
		}
	}
}
