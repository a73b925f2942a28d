package accessibility_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/godbus/dbus/v5"

	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/desktop/accessibility"
)

// buttons returns the addresses of all buttons on a bus.
func buttons(t *testing.T, conn *dbus.Conn) (found []ref) {
	t.Helper()
	const iface = "org.a11y.atspi.Accessible"
	level := []ref{{"org.a11y.atspi.Registry", "/org/a11y/atspi/accessible/root"}}
	for len(level) > 0 {
		var next []ref
		for _, at := range level {
			var role uint32
			var kids []ref
			o := conn.Object(at.Name, at.Path)
			if err := errors.Join(o.Call(iface+".GetRole", 0).Store(&role), o.Call(iface+".GetChildren", 0).Store(&kids)); err != nil {
				t.Fatal(err)
			}
			const button = 43
			if role == button {
				found = append(found, at)
			}
			next = append(next, kids...)
		}
		level = next
	}
	return found
}

// TestForeignChildren: a program that lists the elements of another one as its own changes neither
// where they are nor what a click on them does.
func TestForeignChildren(t *testing.T) {
	t.Parallel()
	d, tree := start(t, desktop.Config{})
	out := filepath.Join(t.TempDir(), "out")
	launch(t, d, "sh", "-c", "zenity --question --text='Delete all?'; echo $? > "+out)
	s := until(t, tree, accessibility.Query{Timeout: patient}, has("button", "Yes"))
	before := *one(s, "button", "Yes")
	kids := append([]ref{{":1.999999", "/gone"}}, buttons(t, connect(t, d))...)
	if len(kids) != 3 {
		t.Fatalf("the buttons are %v", kids[1:])
	}
	for _, l := range []*liar{
		{children: int32(len(kids)), kids: kids, box: [4]int32{89, 0, 2, 2}},
		{children: 1, kids: slices.Clone(kids[1:2]), box: [4]int32{89, 0, 2, 2}},
	} {
		l.tell(t, d)
	}
	// A click on an element of another program, which has no window, would press the button below it.
	b := before.Box
	above := &liar{name: "Help", children: 1, box: [4]int32{int32(b.X), int32(b.Y), int32(b.Width), int32(b.Height)}}
	above.tell(t, d)
	s = until(t, tree, accessibility.Query{Timeout: patient}, has("button", "Help"))
	got := 0
	for _, e := range s.Elements {
		if e.Name == before.Name && e.Role == before.Role {
			got++
		}
	}
	if yes := one(s, before.Role, before.Name); got != 1 || yes.Ref != before.Ref || yes.Window != before.Window || *yes.Box != *before.Box {
		t.Errorf("%d buttons Yes, before %+v:\n%s", got, before, s.Outline())
	}
	_, err := tree.Do(t.Context(), accessibility.Action{Ref: one(s, "button", "Help").Ref, Do: accessibility.Click})
	if !errors.Is(err, accessibility.ErrRefused) {
		t.Errorf("a click on an element above the window of another program: %v", err)
	}
	done, err := tree.Do(t.Context(), accessibility.Action{Ref: before.Ref, Do: accessibility.Click})
	if err != nil || done.Via != accessibility.ViaPointer || done.At == nil || done.At.X < before.Box.X || done.At.X > before.Box.X+before.Box.Width {
		t.Errorf("%+v, %v", done, err)
	}
	until(t, tree, accessibility.Query{}, func(accessibility.Snapshot) bool {
		status, _ := os.ReadFile(out)
		if len(status) > 0 && string(status) != "0\n" {
			t.Errorf("zenity ended with status %s", status)
		}
		return len(status) > 0
	})
}
