package accessibility

import (
	"errors"
	"image"
	"log/slog"
	"testing"

	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/internal/panics"
	"github.com/deskhand/deskhand/internal/testx11"
)

// TestBoxesInWindow: some programs give boxes relative to their window. Elements get their boxes on
// the screen, and so do the elements in them.
func TestBoxesInWindow(t *testing.T) {
	root := &node{at: address{":1.2", "/root"}, role: roleApplication}
	top := &node{at: address{":1.2", "/top"}, up: root, role: roleWindow, name: "board", states: 1 << 25, box: desktop.Rect{Width: 300, Height: 200}}
	kid := &node{at: address{":1.2", "/kid"}, up: top, role: roleLabel, name: "words", states: 1 << 25, box: desktop.Rect{X: 10, Y: 20, Width: 30, Height: 40}}
	p := &program{root: root, nodes: []*node{top, kid}, windows: []desktop.Window{{ID: 7, Title: "board", Bounds: desktop.Rect{X: 100, Y: 50, Width: 300, Height: 200}}}}
	var s Snapshot
	new(Tree).report(&s, Query{}, p)
	for i, want := range []desktop.Rect{{X: 100, Y: 50, Width: 300, Height: 200}, {X: 110, Y: 70, Width: 30, Height: 40}} {
		if e := s.Elements[i]; e.Box == nil || *e.Box != want || e.Window != 7 {
			t.Errorf("%s: box %+v of window %d, want %+v", e.Name, e.Box, e.Window, want)
		}
	}
}

// TestNoWindow: the boxes of an element whose window is unknown are not moved, however small it is.
func TestNoWindow(t *testing.T) {
	if shift := shiftOf(&node{box: desktop.Rect{X: 89, Width: 2, Height: 2}}, desktop.Window{}); shift != (image.Point{}) {
		t.Errorf("shifted by %v", shift)
	}
}

// TestReadPanics: a panic while elements are read ends the query, not the program.
func TestReadPanics(t *testing.T) {
	testx11.Require(t, "Xvfb", "openbox", "dbus-daemon")
	d, err := desktop.Start(t.Context(), desktop.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	tree := &Tree{cfg: Config{Desktop: d, Logger: slog.New(slog.DiscardHandler)}}
	if err := tree.read(t.Context(), nil, Query{All: true}, nil, []*program{{}}); !errors.Is(err, panics.Err) { // without a root
		t.Errorf("%v, want %v", err, panics.Err)
	}
}
