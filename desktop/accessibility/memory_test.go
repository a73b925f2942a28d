package accessibility_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/godbus/dbus/v5"

	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/desktop/accessibility"
)

// writer is a liar whose elements have long texts and actions.
type writer struct {
	liar
	long string
}

// GetChildren returns the children of the root.
func (w *writer) GetChildren(m dbus.Message) ([]ref, *dbus.Error) {
	if path, _ := m.Headers[dbus.FieldPath].Value().(dbus.ObjectPath); !strings.HasSuffix(string(path), "/root") {
		return nil, nil
	}
	kids := make([]ref, w.children)
	for i := range kids {
		kids[i] = ref{w.conn.Names()[0], dbus.ObjectPath(fmt.Sprintf("/org/a11y/atspi/accessible/%d", i))}
	}
	return kids, nil
}

type action struct{ Name, Description, Keys string }

func (w *writer) GetRole() (uint32, *dbus.Error)             { return 61, nil } // text
func (w *writer) GetText(int32, int32) (string, *dbus.Error) { return w.long, nil }
func (w *writer) GetActions() ([]action, *dbus.Error)        { return make16(action{Name: w.long[:800]}), nil }

func make16(a action) (list []action) {
	for range 16 {
		list = append(list, a)
	}
	return list
}

// TestManyTexts: the texts of a result take little memory, and the result says that elements are
// missing. A few long texts are complete.
func TestManyTexts(t *testing.T) {
	t.Parallel()
	const most = 4 << 20
	d, tree := start(t, desktop.Config{})
	w := &writer{liar: liar{children: 1000, box: [4]int32{0, 0, 500, 500}}, long: strings.Repeat("𝄞", 1200)}
	w.name = w.long
	w.present(t, d, w)
	s, err := tree.Snapshot(t.Context(), accessibility.Query{Limit: 50, Actions: true, Timeout: patient})
	if err != nil || len(s.Elements) < 40 {
		t.Fatalf("%d elements, skipped %+v, %v", len(s.Elements), s.Skipped, err)
	}
	for _, e := range s.Elements {
		if e.Text != strings.Repeat("𝄞", 1000) || len(e.Actions) != 16 || e.Name != strings.Repeat("𝄞", 200) {
			t.Fatalf("text %d, name %d, actions %d", len(e.Text), len(e.Name), len(e.Actions))
		}
	}
	for name, q := range map[string]accessibility.Query{
		"all":       {Limit: accessibility.MaxLimit, Actions: true, Timeout: patient},
		"with text": {Limit: accessibility.MaxLimit, Timeout: patient, Match: accessibility.Match{Text: "~𝄞"}},
	} {
		s, err := tree.Snapshot(t.Context(), q)
		size := 0
		for _, e := range s.Elements {
			size += len(e.Name) + len(e.Text) + len(strings.Join(e.Actions, ""))
		}
		if err != nil || size > most || size < most/2 || !s.Truncated || len(s.Skipped) != 1 || s.Skipped[0].Reason != accessibility.ReasonBudget {
			t.Errorf("%s: %d elements with %d bytes, truncated %v, skipped %+v, %v", name, len(s.Elements), size, s.Truncated, s.Skipped, err)
		}
	}
}
