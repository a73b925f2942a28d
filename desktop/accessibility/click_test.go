package accessibility_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/desktop/accessibility"
)

// cover is a program whose window covers the screen for a moment when the pointer comes. The
// window manager does not know the window. Each click on it adds its id to a file.
const cover = `
wm withdraw .
wm overrideredirect . 1
wm geometry . 1400x860+0+0
bind . <ButtonPress> {close [open [lindex $argv 0] w]}
proc away {} {expr {[winfo pointerx .] < 50}}
proc watch {} {
	if {[away]} {after 1 watch} else {wm deiconify .; raise .; update; after 150 leave}
}
proc leave {} {
	wm withdraw .
	if {[away]} watch else {after 10 leave}
}
watch
`

// TestDoStolen: if a window covers an element between the check and the press, the click is no
// success, and the error names the window. A window that comes while the window manager passes
// the press on gets some clicks unnoticed.
func TestDoStolen(t *testing.T) {
	t.Parallel()
	d, tree := start(t, desktop.Config{})
	launch(t, d, "zenity", "--text-info", "--editable")
	text, err := tree.Wait(t.Context(), accessibility.Condition{Match: accessibility.Match{Role: "text"}})
	if err != nil {
		t.Fatal(err)
	}
	script, out := filepath.Join(t.TempDir(), "cover.tcl"), filepath.Join(t.TempDir(), "out")
	if err := os.WriteFile(script, []byte(cover), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Launch(t.Context(), desktop.Launch{App: "wish", Args: []string{script, out}}); err != nil {
		t.Fatal(err)
	}
	stolen, told := 0, false
	for try := 0; try < 300 && stolen < 10 && !told; try++ {
		if _, err := d.Move(t.Context(), desktop.Move{At: desktop.Point{X: 5, Y: 5}}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(200 * time.Millisecond) // until the window is away
		_ = os.Remove(out)
		_, err := tree.Do(t.Context(), accessibility.Action{Ref: text.Ref, Do: accessibility.Click})
		if err != nil && !errors.Is(err, accessibility.ErrRefused) {
			t.Fatal(err)
		}
		time.Sleep(50 * time.Millisecond) // until the program has made the file
		if _, missing := os.Stat(out); missing == nil {
			stolen++
			told = err != nil && strings.HasSuffix(err.Error(), " got it") && !strings.Contains(err.Error(), fmt.Sprint(text.Window))
		}
	}
	switch {
	case stolen == 0:
		t.Skip("no click was stolen")
	case !told:
		t.Errorf("%d clicks went into another window, and Do returned no error", stolen)
	}
}
