package accessibility_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/desktop/accessibility"
	"github.com/deskhand/deskhand/internal/testx11"
)

// slowly is how long a condition may take while a large program starts.
const slowly = 2 * time.Minute

// startPrepared runs a desktop whose programs offer their elements.
func startPrepared(t testing.TB) (*desktop.Desktop, *accessibility.Tree) {
	t.Helper()
	return start(t, desktop.Config{Env: accessibility.Environ(), BrowserArgs: []string{accessibility.BrowserArg}})
}

// tested are the applications that make test installs. A test that lacks one fails in CI.
var tested = []string{"chromium", "featherpad", "wish", "zenity"}

// application skips a test if an application is not installed. .ci/install apps has them.
func application(t testing.TB, name string) {
	t.Helper()
	if slices.Contains(tested, name) {
		testx11.Require(t, name)
	}
	if _, err := exec.LookPath(name); err != nil {
		t.Skipf("%s is missing", name)
	}
}

// awaited waits until a large program shows an element.
func awaited(t testing.TB, tree *accessibility.Tree, m accessibility.Match) accessibility.Element {
	t.Helper()
	e, err := tree.Wait(t.Context(), accessibility.Condition{Match: m, Timeout: slowly})
	if err != nil {
		s, _ := tree.Snapshot(t.Context(), accessibility.Query{Timeout: patient})
		t.Fatalf("%+v: %v; skipped %+v, elements:\n%s", m, err, s.Skipped, s.Outline())
	}
	return e
}

// TestEditors reads and changes the text of a GTK 3 and a Qt editor.
func TestEditors(t *testing.T) {
	for app, menu := range map[string]string{"mousepad": "menu", "featherpad": "menu item"} {
		t.Run(app, func(t *testing.T) {
			t.Parallel()
			application(t, app)
			d, tree := startPrepared(t)
			file := filepath.Join(t.TempDir(), "notes.txt")
			if err := os.WriteFile(file, []byte("first\n"), 0o644); err != nil { //nolint:gosec // of the test
				t.Fatal(err)
			}
			launch(t, d, app, file)
			text := awaited(t, tree, accessibility.Match{Role: "text", Text: "first"})
			if _, err := tree.Do(t.Context(), accessibility.Action{Ref: text.Ref, Do: accessibility.SetText, Value: "second, 世界"}); err != nil {
				t.Fatal(err)
			}
			awaited(t, tree, accessibility.Match{Role: "text", Text: "second, 世界"})
			file2 := awaited(t, tree, accessibility.Match{Role: menu, Name: "File"})
			if done, err := tree.Do(t.Context(), accessibility.Action{Ref: file2.Ref, Do: accessibility.Click}); err != nil || done.At == nil {
				t.Fatalf("click: %+v, %v", done, err)
			}
			save := awaited(t, tree, accessibility.Match{Role: "menu item", Name: "Save"})
			if _, err := tree.Do(t.Context(), accessibility.Action{Ref: save.Ref, Do: accessibility.Click}); err != nil {
				t.Fatal(err)
			}
			saved := func() bool {
				data, err := os.ReadFile(file)
				return err == nil && strings.TrimSpace(string(data)) == "second, 世界"
			}
			until(t, tree, accessibility.Query{}, func(accessibility.Snapshot) bool { return saved() })
		})
	}
}

// TestKCalc calculates by buttons.
func TestKCalc(t *testing.T) {
	t.Parallel()
	application(t, "kcalc")
	d, tree := startPrepared(t)
	launch(t, d, "kcalc")
	for _, name := range []string{"7", "×", "6", "="} {
		b := awaited(t, tree, accessibility.Match{Role: "button", Name: name})
		if _, err := tree.Do(t.Context(), accessibility.Action{Ref: b.Ref, Do: accessibility.Click}); err != nil {
			t.Fatal(err)
		}
	}
	awaited(t, tree, accessibility.Match{Role: "frame", Name: "42"})
}

// TestTk: the windows of Tk have no elements.
func TestTk(t *testing.T) {
	t.Parallel()
	application(t, "wish")
	d, tree := startPrepared(t)
	app := launch(t, d, "wish")
	s, err := tree.Snapshot(t.Context(), accessibility.Query{Timeout: patient})
	want := accessibility.Skipped{App: "Wish", PID: app.PID, Window: app.Window, Reason: accessibility.ReasonNoAccessibility}
	if err != nil || len(s.Elements) > 0 || !slices.Contains(s.Skipped, want) {
		t.Errorf("%+v, %v", s, err)
	}
}

// TestFirefox uses a page.
func TestFirefox(t *testing.T) {
	t.Parallel()
	application(t, "firefox")
	profile := t.TempDir() // removed after the desktop has ended, and Firefox with it
	d, tree := startPrepared(t)
	usePage(t, d, tree, "firefox", "--new-instance", "--profile", profile)
}

// TestPreparedChromium uses a page in a browser that a shell starts.
func TestPreparedChromium(t *testing.T) {
	t.Parallel()
	d, tree := startPrepared(t)
	usePage(t, d, tree, "sh", "-c", `exec chromium --no-first-run --password-store=basic "$0"`)
}

// usePage opens a page, sets a text in it and clicks.
func usePage(t *testing.T, d *desktop.Desktop, tree *accessibility.Tree, app string, args ...string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "page.html")
	if err := os.WriteFile(file, []byte(page), 0o644); err != nil { //nolint:gosec // of the test
		t.Fatal(err)
	}
	launch(t, d, app, append(args, "file://"+file)...)
	for _, c := range []struct {
		role, name string
		verb       accessibility.Verb
		value      string
		want       string
	}{
		{"entry", "City", accessibility.SetText, "Zürich", "city Zürich"},
		{"check box", "Agree", accessibility.Click, "", "agree true"},
		{"button", "Press", accessibility.Click, "", "clicked"},
	} {
		e := awaited(t, tree, accessibility.Match{Role: c.role, Name: c.name})
		if _, err := tree.Do(t.Context(), accessibility.Action{Ref: e.Ref, Do: c.verb, Value: c.value}); err != nil {
			t.Fatalf("%s %q: %v", c.role, c.name, err)
		}
		awaited(t, tree, accessibility.Match{Role: "document web", Name: c.want})
	}
}

// TestCalc: a spreadsheet of 2^30 cells costs the query's time, and the result says that cells
// are missing. What it has is described in full.
func TestCalc(t *testing.T) {
	t.Parallel()
	application(t, "localc")
	if _, err := os.Stat("/usr/lib/libreoffice/program/libvclplug_gtk3lo.so"); err != nil {
		t.Skip("LibreOffice has no elements without GTK 3")
	}
	d, tree := startPrepared(t)
	launch(t, d, "localc", "--norestore", "--nologo")
	awaited(t, tree, accessibility.Match{Role: "table cell", Name: "A1"})
	for _, timeout := range []time.Duration{50 * time.Millisecond, accessibility.DefaultTimeout, patient} {
		begun := time.Now()
		s, err := tree.Snapshot(t.Context(), accessibility.Query{Timeout: timeout, Limit: accessibility.MaxLimit})
		took := time.Since(begun)
		t.Logf("%d elements in %v of %v", len(s.Elements), took, timeout)
		if err != nil || !s.Truncated || took > timeout+time.Second {
			t.Errorf("truncated %v after %v, %v", s.Truncated, took, err)
		}
		for _, e := range s.Elements {
			if e.Role == "table cell" && (e.Name == "" || e.Box == nil) {
				t.Errorf("%+v lacks its name or its box", e)
			}
		}
	}
}
