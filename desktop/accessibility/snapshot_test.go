package accessibility_test

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/desktop/accessibility"
)

// TestOutline reads a GTK 3 dialog.
func TestOutline(t *testing.T) {
	t.Parallel()
	d, tree := start(t, desktop.Config{})
	app := launch(t, d, "zenity", "--entry", "--title=Ask", "--text=Hello", "--entry-text=before")
	s := until(t, tree, accessibility.Query{Timeout: patient}, has("button", "OK"))
	if s.Truncated || len(s.Skipped) > 0 {
		t.Errorf("truncated %v, skipped %+v", s.Truncated, s.Skipped)
	}
	want := regexp.MustCompile(`^@e\d+ dialog "Ask" \[\d+,\d+ \d+x\d+\] active
  @e\d+ label "Hello" \[\d+,\d+ \d+x\d+\]
  @e\d+ text text "before" \[\d+,\d+ \d+x\d+\] focused
  @e\d+ button "Cancel" \[\d+,\d+ \d+x\d+\]
  @e\d+ button "OK" \[\d+,\d+ \d+x\d+\]
$`)
	if got := s.Outline(); !want.MatchString(got) {
		t.Errorf("outline:\n%s", got)
	}
	windows, err := d.Windows(t.Context(), desktop.WindowFilter{All: true})
	if err != nil {
		t.Fatal(err)
	}
	dialog, ok := one(s, "dialog", "Ask"), one(s, "button", "OK")
	if ok.Window != app.Window || ok.Parent != dialog.Ref || !slices.Contains(dialog.Children, ok.Ref) {
		t.Errorf("dialog %+v, button %+v", dialog, ok)
	}
	frame := windows[0].Frame
	if b := ok.Box; b.X <= frame.X || b.Y <= frame.Y || b.X+b.Width >= frame.X+frame.Width || b.Y+b.Height >= frame.Y+frame.Height {
		t.Errorf("the button at %+v is outside the window at %+v", b, frame)
	}

	again, err := tree.Snapshot(t.Context(), accessibility.Query{Timeout: patient})
	if err != nil {
		t.Fatal(err)
	}
	if again.Outline() != s.Outline() {
		t.Errorf("references changed:\n%s%s", s.Outline(), again.Outline())
	}
	for name, q := range map[string]accessibility.Query{
		"role":   {Match: accessibility.Match{Role: "push button", Name: "OK"}},
		"name":   {Match: accessibility.Match{Name: "~^O.$"}},
		"states": {Match: accessibility.Match{States: []string{"is-default", "enabled"}}},
		"root":   {Root: ok.Ref},
		"window": {Window: app.Window, Match: accessibility.Match{Name: "OK"}},
	} {
		q.Timeout = patient
		s, err := tree.Snapshot(t.Context(), q)
		if err != nil || len(s.Elements) != 1 || s.Elements[0].Ref != ok.Ref {
			t.Errorf("%s: %+v, %v", name, s.Elements, err)
		}
	}
	s, err = tree.Snapshot(t.Context(), accessibility.Query{Match: accessibility.Match{Text: "before"}, Actions: true, Timeout: patient})
	if err != nil || len(s.Elements) != 1 || s.Elements[0].Role != "text" || !slices.Contains(s.Elements[0].Actions, "Activate") {
		t.Errorf("text: %+v, %v", s.Elements, err)
	}
	s, err = tree.Snapshot(t.Context(), accessibility.Query{Depth: 1, Timeout: patient})
	if err != nil || one(s, "dialog", "Ask") == nil || one(s, "button", "OK") != nil {
		t.Errorf("depth: %s, %v", s.Outline(), err)
	}
	s, err = tree.Snapshot(t.Context(), accessibility.Query{Limit: 2, Timeout: patient})
	if err != nil || len(s.Elements) > 2 || !s.Truncated {
		t.Errorf("limit: %+v, %v", s, err)
	}
}

// TestPassword: no query returns the text of a password.
func TestPassword(t *testing.T) {
	t.Parallel()
	d, tree := start(t, desktop.Config{})
	launch(t, d, "zenity", "--password", "--title=Secret")
	until(t, tree, accessibility.Query{}, has("password text", ""))
	if err := d.Type(t.Context(), desktop.Type{Text: "hunter2", Secret: true}); err != nil {
		t.Fatal(err)
	}
	for _, q := range []accessibility.Query{{}, {All: true}, {Match: accessibility.Match{Role: "password text"}}} {
		s, err := tree.Snapshot(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range s.Elements {
			if e.Role == "password text" && e.Text != "" || strings.Contains(e.Text+e.Name+e.Value, "hunter2") {
				t.Errorf("%+v", e)
			}
		}
	}
}

// TestHideFieldText: what is in fields, of which the screen may show a part, is neither read nor
// matched, and events do not have it.
func TestHideFieldText(t *testing.T) {
	t.Parallel()
	for app, args := range map[string][]string{
		"zenity":   {"--entry", "--title=Ask", "--text=Hello", "--entry-text=" + strings.Repeat("far ", 100) + "hunter2"},
		"chromium": {"--no-first-run", "--no-sandbox", "--force-renderer-accessibility", "--password-store=basic"},
		"firefox":  {"--new-instance", "--profile", t.TempDir()},
	} {
		t.Run(app, func(t *testing.T) {
			t.Parallel()
			d, tree := start(t, desktop.Config{})
			wanted := 1
			if app != "zenity" {
				application(t, app)
				file := filepath.Join(t.TempDir(), "page.html")
				if err := os.WriteFile(file, []byte(fields), 0o644); err != nil { //nolint:gosec // of the test
					t.Fatal(err)
				}
				args, wanted = append(args, "file://"+file), 4
			}
			launch(t, d, app, args...)
			has := func(s accessibility.Snapshot) (found []string) {
				for _, e := range s.Elements {
					if strings.Contains(e.Text+e.Name+e.Value, "hunter2") {
						found = append(found, e.Ref)
					}
				}
				return found
			}
			s := until(t, tree, accessibility.Query{Timeout: patient}, func(s accessibility.Snapshot) bool { return len(has(s)) >= wanted })
			for _, q := range []accessibility.Query{{}, {Match: accessibility.Match{Text: "~hunter2"}}, {Match: accessibility.Match{Name: "~hunter2"}}} {
				q.HideFieldText, q.Timeout = true, patient
				hidden, err := tree.Snapshot(t.Context(), q)
				if err != nil || len(has(hidden)) > 0 || q.Match.Text+q.Match.Name != "" && len(hidden.Elements) > 0 {
					t.Errorf("%+v: %v\n%s", q.Match, err, hidden.Outline())
				}
			}
			events := d.Subscribe(0)
			defer events.Close()
			for _, ref := range has(s) {
				for _, verb := range []accessibility.Verb{accessibility.ScrollIntoView, accessibility.Focus} {
					_, _ = tree.Do(t.Context(), accessibility.Action{Ref: ref, Do: verb})
				}
				hidden, err := tree.Snapshot(t.Context(), accessibility.Query{Root: ref, HideFieldText: true, Timeout: patient})
				if err != nil || len(has(hidden)) > 0 {
					t.Errorf("root %s: %v\n%s", ref, err, hidden.Outline())
				}
			}
			if _, err := d.Move(t.Context(), desktop.Move{}); err != nil {
				t.Fatal(err)
			}
			elements := 0
			for e := range events.Events() {
				if e.Action != nil && e.Action.Name == desktop.ActionMove {
					break
				}
				if e.Action != nil && e.Action.Name == desktop.ActionElement {
					if elements++; strings.Contains(e.Action.Target, "hunter2") {
						t.Errorf("an event has %q", e.Action.Target)
					}
				}
			}
			if elements == 0 && app != "zenity" { // its only field has the focus already
				t.Error("no event of an element")
			}
			_, err := tree.Wait(t.Context(), accessibility.Condition{
				Match: accessibility.Match{Text: "~hunter2"}, HideFieldText: true, Timeout: time.Millisecond,
			})
			if !errors.Is(err, accessibility.ErrNotFound) {
				t.Errorf("wait: %v", err)
			}
		})
	}
}

const fields = `<!doctype html><title>fields</title><style>input,textarea,div{width:80px;height:20px;overflow:hidden;white-space:nowrap}</style>
<input value="far away far away far away far away far away hunter2">
<textarea readonly>far away far away far away far away far away hunter2</textarea><textarea>far away far away far away far away far away hunter2</textarea>
<div contenteditable>far away far away far away far away far away hunter2</div>`

// TestNoTree: a program without elements is named.
func TestNoTree(t *testing.T) {
	t.Parallel()
	d, tree := start(t, desktop.Config{})
	app := launch(t, d, "xterm")
	s, err := tree.Snapshot(t.Context(), accessibility.Query{Timeout: patient})
	want := accessibility.Skipped{App: "XTerm", PID: app.PID, Window: app.Window, Reason: accessibility.ReasonNoAccessibility}
	if err != nil || len(s.Elements) > 0 || !slices.Contains(s.Skipped, want) {
		t.Errorf("%+v, %v", s, err)
	}
}
