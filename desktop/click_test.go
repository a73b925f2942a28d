package desktop_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/internal/testx11"
)

// clickBoard starts a window that counts clicks as Tk does: it appends 1 to a file for each
// press, and 2 for the second press of a double click. It returns the file and a point in
// the window.
func clickBoard(t *testing.T, d *desktop.Desktop) (path string, at desktop.Point) {
	t.Helper()
	testx11.Require(t, "wish")
	path = filepath.Join(t.TempDir(), "clicks")
	const script = `
wm geometry . 300x200+50+50
proc tell what { set f [open [lindex $::argv 0] a]; puts -nonewline $f $what; close $f }
bind . <Button-1> {tell 1}
bind . <Double-Button-1> {tell 2}
bind . <Triple-Button-1> {tell 3}
bind . <Map> {tell ""}
`
	file := filepath.Join(t.TempDir(), "board.tcl")
	if err := os.WriteFile(file, []byte(script), 0o600); err != nil {
		t.Fatal(err)
	}
	app, err := d.Launch(t.Context(), desktop.Launch{App: "wish", Args: []string{file, path}, Wait: true})
	if err != nil || app.Window == 0 {
		t.Fatalf("wish: %+v, %v", app, err)
	}
	w, err := d.FocusedWindow(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	until(t, "the board is there", func() bool { _, err := os.Stat(path); return err == nil })
	return path, desktop.Point{X: w.Bounds.X + 100, Y: w.Bounds.Y + 100}
}

func TestCallsAreSingleClicks(t *testing.T) {
	t.Parallel()
	d := start(t, desktop.Config{})
	path, at := clickBoard(t, d)
	near := desktop.Point{X: at.X + 2, Y: at.Y - 2}
	far := desktop.Point{X: at.X + 60, Y: at.Y}
	wanted := ""
	for _, c := range []struct {
		at    desktop.Point
		count int
		want  string
		quick bool
	}{
		{at, 1, "1", true},
		{far, 1, "1", true},
		{at, 1, "1", true},
		{near, 1, "1", false},
		{at, 2, "12", false},
		{at, 1, "1", false},
		{far, 3, "123", false},
	} {
		begin := time.Now()
		click(t, d, c.at.X, c.at.Y, desktop.ButtonLeft, c.count)
		if took := time.Since(begin); c.quick && took > 300*time.Millisecond {
			t.Errorf("a click at %v took %v", c.at, took)
		}
		wanted += c.want
		until(t, "the clicks "+wanted, func() bool { return len(readFile(t, path)) >= len(wanted) })
		if got := readFile(t, path); got != wanted {
			t.Fatalf("clicks %s, want %s", got, wanted)
		}
	}
	if _, err := d.Drag(t.Context(), desktop.Drag{Path: []desktop.Point{far, at}}); err != nil {
		t.Fatal(err)
	}
	until(t, "the drag's press", func() bool { return len(readFile(t, path)) > len(wanted) })
	if got := readFile(t, path); got != wanted+"1" {
		t.Errorf("clicks %s, want %s", got, wanted+"1")
	}
}

// TestViewersClickAsTheyLike lets a person's own clicks make a double click, and come while
// an agent's click waits.
func TestViewersClickAsTheyLike(t *testing.T) {
	t.Parallel()
	d := start(t, desktop.Config{})
	path, at := clickBoard(t, d)
	viewer := desktop.WithActor(t.Context(), desktop.Actor{Kind: desktop.ActorViewer, ID: "v"})
	// On a busy machine the program may get the clicks too late for a double click.
	double := func(at desktop.Point) bool {
		t.Helper()
		before := len(readFile(t, path))
		begin := time.Now()
		for range 2 {
			if _, err := d.Click(viewer, desktop.Click{At: &at}); err != nil {
				t.Fatal(err)
			}
		}
		took := time.Since(begin)
		until(t, "both clicks", func() bool { return len(readFile(t, path)) >= before+2 })
		return took < 400*time.Millisecond && strings.HasSuffix(readFile(t, path), "2")
	}
	tries := 0
	for !double(desktop.Point{X: at.X, Y: at.Y + 20*tries}) {
		if tries++; tries == 5 {
			t.Fatalf("clicks %s, want a double click", readFile(t, path))
		}
	}
	agent := make(chan error, 1)
	go func() { _, err := d.Click(t.Context(), desktop.Click{At: &at}); agent <- err }()
	far := desktop.Point{X: at.X + 60, Y: at.Y}
	begin := time.Now()
	if _, err := d.Click(viewer, desktop.Click{At: &far}); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(begin); took > 300*time.Millisecond {
		t.Errorf("a viewer's click waited %v for an agent's", took)
	}
	if err := <-agent; err != nil {
		t.Fatal(err)
	}
}
