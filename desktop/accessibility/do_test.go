package accessibility_test

import (
	"errors"
	"fmt"
	"image"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/desktop/accessibility"
)

// do does something with the first element that has a role and a name.
func do(t *testing.T, tree *accessibility.Tree, role, name string, verb accessibility.Verb, value string) accessibility.Done {
	t.Helper()
	e, err := tree.Wait(t.Context(), accessibility.Condition{Match: accessibility.Match{Role: role, Name: name}})
	if err != nil {
		t.Fatalf("%s %q: %v", role, name, err)
	}
	done, err := tree.Do(t.Context(), accessibility.Action{Ref: e.Ref, Do: verb, Value: value})
	if err != nil {
		t.Fatalf("%s of %s %q: %v", verb, role, name, err)
	}
	return done
}

// shows waits until there is an element.
func shows(t *testing.T, tree *accessibility.Tree, m accessibility.Match) {
	t.Helper()
	if _, err := tree.Wait(t.Context(), accessibility.Condition{Match: m}); err != nil {
		s, _ := tree.Snapshot(t.Context(), accessibility.Query{Timeout: time.Second})
		t.Fatalf("%+v: %v; elements:\n%s", m, err, s.Outline())
	}
}

// TestDoGTK uses a GTK 3 dialog.
func TestDoGTK(t *testing.T) {
	t.Parallel()
	d, tree := start(t, desktop.Config{})
	sub := d.Subscribe(0)
	defer sub.Close()
	out := filepath.Join(t.TempDir(), "out")
	launch(t, d, "sh", "-c", "zenity --entry --title=Ask --text=Name > "+out)
	done := do(t, tree, "text", "", accessibility.SetText, "Grüße, 世界")
	if done.Via != accessibility.ViaAction {
		t.Errorf("set text: %+v", done)
	}
	shows(t, tree, accessibility.Match{Role: "text", Text: "Grüße, 世界"})
	done = do(t, tree, "button", "OK", accessibility.Focus, "")
	if done.Via != accessibility.ViaAction {
		t.Errorf("focus: %+v", done)
	}
	shows(t, tree, accessibility.Match{Role: "button", Name: "OK", States: []string{"focused"}})
	ok, err := tree.Wait(t.Context(), accessibility.Condition{Match: accessibility.Match{Role: "button", Name: "OK"}})
	if err != nil {
		t.Fatal(err)
	}
	done = do(t, tree, "button", "OK", accessibility.Click, "")
	if done.Via != accessibility.ViaPointer || done.At == nil {
		t.Errorf("click: %+v", done)
	}
	if _, err := tree.Wait(t.Context(), accessibility.Condition{Match: accessibility.Match{Name: "OK"}, Gone: true}); err != nil {
		t.Fatal(err)
	}
	var stale *accessibility.StaleError
	if _, err := tree.Do(t.Context(), accessibility.Action{Ref: ok.Ref, Do: accessibility.Click}); !errors.As(err, &stale) || stale.Ref != ok.Ref || stale.Nearest != nil {
		t.Errorf("click when it is gone: %v", err)
	}
	launch(t, d, "zenity", "--info")
	shows(t, tree, accessibility.Match{Role: "button", Name: "OK"})
	if _, err := tree.Do(t.Context(), accessibility.Action{Ref: ok.Ref, Do: accessibility.Click}); !errors.As(err, &stale) || stale.Nearest == nil || stale.Nearest.Name != "OK" {
		t.Errorf("click on another dialog: %v", err)
	}
	text, err := os.ReadFile(out)
	if err != nil || string(text) != "Grüße, 世界\n" {
		t.Errorf("the program got %q, %v", text, err)
	}
	var actions []string
	for len(actions) < 3 {
		select {
		case e := <-sub.Events():
			if a := e.Action; a != nil && a.Name == desktop.ActionElement {
				actions = append(actions, a.Command+" "+a.Target+" "+a.Text)
			} else if a != nil && a.Name == desktop.ActionClick {
				actions = append(actions, "click")
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("events: %q", actions)
		}
	}
	if want := []string{`setText text "" Grüße, 世界`, `focus button "OK" `, "click"}; !slices.Equal(actions, want) {
		t.Errorf("events: %q, want %q", actions, want)
	}
}

// page makes a page that shows in its title what its elements did.
const page = `<!doctype html><title>start</title>
<button onclick="document.title='clicked'" oncontextmenu="document.title='menu';return false">Press</button>
<label>City <input oninput="document.title='city '+this.value"></label>
<label>Key <input type=password oninput="document.title='key '+this.value.length"></label>
<select aria-label=Colour onchange="document.title='colour '+this.value"><option>red<option>blue</select>
<input type=range aria-label=Volume min=0 max=10 value=3 oninput="document.title='volume '+this.value">
<input type=checkbox aria-label=Agree onchange="document.title='agree '+this.checked">
<button disabled>Never</button>
<button aria-expanded=false onclick="this.ariaExpanded=this.ariaExpanded!='true';document.title='expanded '+this.ariaExpanded">Details</button>
<div style="height:4000px"></div><button onclick="document.title='far'">Far</button>`

// TestDoChromium uses a page.
func TestDoChromium(t *testing.T) {
	t.Parallel()
	d, tree := start(t, desktop.Config{})
	file := filepath.Join(t.TempDir(), "page.html")
	if err := os.WriteFile(file, []byte(page), 0o644); err != nil {
		t.Fatal(err)
	}
	launch(t, d, "chromium", "--no-first-run", "--no-sandbox", "--force-renderer-accessibility", "--password-store=basic", "--window-position=120,90", "--window-size=900,600", "file://"+file)
	title := func(want string) {
		t.Helper()
		shows(t, tree, accessibility.Match{Role: "document web", Name: want})
	}
	title("start")
	for _, c := range []struct {
		role, name  string
		verb        accessibility.Verb
		value, want string
	}{
		{"button", "Press", accessibility.Click, "", "clicked"},
		{"button", "Press", accessibility.Menu, "", "menu"},
		{"entry", "City", accessibility.SetText, "Zürich", "city Zürich"},
		{"password text", "Key", accessibility.SetText, "secret", "key 6"},
		{"combo box", "Colour", accessibility.Select, "blue", "colour blue"},
		{"slider", "Volume", accessibility.SetValue, "7", "volume 7"},
		{"check box", "Agree", accessibility.Click, "", "agree true"},
		{"button", "Details", accessibility.Expand, "", "expanded true"},
		{"button", "Details", accessibility.Collapse, "", "expanded false"},
	} {
		done := do(t, tree, c.role, c.name, c.verb, c.value)
		t.Logf("%s %s: %+v", c.verb, c.name, done)
		title(c.want)
	}
	if done := do(t, tree, "button", "Details", accessibility.Collapse, ""); done.Via != accessibility.ViaNothing {
		t.Errorf("what is collapsed is collapsed: %+v", done)
	}
	never, err := tree.Wait(t.Context(), accessibility.Condition{Match: accessibility.Match{Name: "Never"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tree.Do(t.Context(), accessibility.Action{Ref: never.Ref, Do: accessibility.Click}); !errors.Is(err, accessibility.ErrRefused) {
		t.Errorf("click on a disabled button: %v", err)
	}
	colour, err := tree.Wait(t.Context(), accessibility.Condition{Match: accessibility.Match{Role: "combo box", Name: "Colour"}})
	if err != nil {
		t.Fatal(err)
	}
	_, err = tree.Do(t.Context(), accessibility.Action{Ref: colour.Ref, Do: accessibility.Select, Value: "hunter2"})
	if !errors.Is(err, accessibility.ErrRefused) || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("an option that does not exist: %v", err)
	}
	far := accessibility.Query{All: true, Match: accessibility.Match{Role: "button", Name: "Far"}, Timeout: 2 * time.Second}
	e := one(until(t, tree, far, has("button", "Far")), "button", "Far")
	if e.Box != nil {
		t.Errorf("the button that does not show has a box: %+v", e)
	}
	if _, err := tree.Do(t.Context(), accessibility.Action{Ref: e.Ref, Do: accessibility.ScrollIntoView}); err != nil {
		t.Fatalf("scroll into view: %v", err)
	}
	do(t, tree, "button", "Far", accessibility.Click, "")
	title("far")
}

// TestDoMoved: an element is clicked where it is now, also below another window.
func TestDoMoved(t *testing.T) {
	t.Parallel()
	d, tree := start(t, desktop.Config{})
	app := launch(t, d, "zenity", "--info", "--text=Here")
	ok, err := tree.Wait(t.Context(), accessibility.Condition{Match: accessibility.Match{Role: "button", Name: "OK"}})
	if err != nil {
		t.Fatal(err)
	}
	w, err := d.MoveWindow(t.Context(), app.Window, desktop.Point{X: 300, Y: 300})
	if err != nil {
		t.Fatal(err)
	}
	launch(t, d, "xterm", "-geometry", "100x50+200+200") // above it
	done, err := tree.Do(t.Context(), accessibility.Action{Ref: ok.Ref, Do: accessibility.Click})
	if err != nil || done.Via != accessibility.ViaPointer {
		t.Fatalf("click: %+v, %v", done, err)
	}
	if before := (image.Rect(ok.Box.X, ok.Box.Y, ok.Box.X+ok.Box.Width, ok.Box.Y+ok.Box.Height)); image.Pt(done.At.X, done.At.Y).In(before) {
		t.Errorf("the click at %+v is where the button was, at %v; its window is at %+v", done.At, before, w.Frame)
	}
	if _, err := tree.Wait(t.Context(), accessibility.Condition{Match: accessibility.Match{Name: "OK"}, Gone: true}); err != nil {
		t.Error(err)
	}
}

// TestDoCovered: the context menu of an element below a window that stays above all others is
// refused, and the error names that window. A click uses the program's own action.
func TestDoCovered(t *testing.T) {
	t.Parallel()
	d, tree := start(t, desktop.Config{})
	launch(t, d, "zenity", "--info", "--text=Here")
	ok, err := tree.Wait(t.Context(), accessibility.Condition{Match: accessibility.Match{Role: "button", Name: "OK"}})
	if err != nil {
		t.Fatal(err)
	}
	script := filepath.Join(t.TempDir(), "above.tcl")
	if err := os.WriteFile(script, []byte("wm geometry . 1400x860+0+0; wm attributes . -topmost 1"), 0o600); err != nil {
		t.Fatal(err)
	}
	above := launch(t, d, "wish", script)
	middle := desktop.Point{X: ok.Box.X + ok.Box.Width/2, Y: ok.Box.Y + ok.Box.Height/2}
	for begun := time.Now(); ; { // until Tk has asked for the place above
		p, err := d.Move(t.Context(), desktop.Move{At: middle})
		if err != nil || time.Since(begun) > 20*time.Second {
			t.Fatalf("%+v, %v", p, err)
		}
		if _, err := d.FocusWindow(t.Context(), ok.Window); err != nil {
			t.Fatal(err)
		}
		if p, err = d.Move(t.Context(), desktop.Move{At: middle}); err == nil && p.Window == above.Window {
			break
		}
	}
	_, err = tree.Do(t.Context(), accessibility.Action{Ref: ok.Ref, Do: accessibility.Menu})
	if !errors.Is(err, accessibility.ErrRefused) || !strings.Contains(err.Error(), fmt.Sprintf("window %d covers it", above.Window)) {
		t.Errorf("the menu of a covered button: %v", err)
	}
	done, err := tree.Do(t.Context(), accessibility.Action{Ref: ok.Ref, Do: accessibility.Click})
	if err != nil || done.Via != accessibility.ViaAction || done.At != nil {
		t.Errorf("a click on a covered button: %+v, %v", done, err)
	}
}

// TestDoRefused: control and states refuse actions.
func TestDoRefused(t *testing.T) {
	t.Parallel()
	d, tree := start(t, desktop.Config{})
	launch(t, d, "zenity", "--info", "--text=Here")
	ok, err := tree.Wait(t.Context(), accessibility.Condition{Match: accessibility.Match{Role: "button", Name: "OK"}})
	if err != nil {
		t.Fatal(err)
	}
	person := desktop.Actor{Kind: desktop.ActorViewer, Name: "Ann", ID: "1"}
	if err := d.TakeControl(t.Context(), person, false); err != nil {
		t.Fatal(err)
	}
	for _, verb := range accessibility.Verbs() {
		if _, err := tree.Do(t.Context(), accessibility.Action{Ref: ok.Ref, Do: verb, Value: "1"}); !errors.Is(err, desktop.ErrControlHeld) {
			t.Errorf("%s while a person has control: %v", verb, err)
		}
	}
	if err := d.ReleaseControl(t.Context(), person); err != nil {
		t.Fatal(err)
	}
	for verb, want := range map[accessibility.Verb]error{
		accessibility.SetText: accessibility.ErrRefused, accessibility.SetValue: accessibility.ErrRefused, "press": accessibility.ErrInvalid,
	} {
		if _, err := tree.Do(t.Context(), accessibility.Action{Ref: ok.Ref, Do: verb, Value: "1"}); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", verb, err, want)
		}
	}
	for _, ref := range []string{"", "12", "@e0", "@e01", "@e99999999999", "e-1"} {
		if _, err := tree.Do(t.Context(), accessibility.Action{Ref: ref, Do: accessibility.Click}); !errors.Is(err, accessibility.ErrInvalid) {
			t.Errorf("reference %q: %v", ref, err)
		}
	}
	if _, err := tree.Do(t.Context(), accessibility.Action{Ref: "@e9999", Do: accessibility.Click}); !errors.Is(err, accessibility.ErrStale) {
		t.Errorf("unknown reference: %v", err)
	}
}
