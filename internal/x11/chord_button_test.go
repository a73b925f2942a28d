package x11

import "testing"

// TestPressesButton: which chords may press a button of a dialog.
func TestPressesButton(t *testing.T) {
	t.Parallel()
	for keys, want := range map[string]bool{
		"Return": true, "KP_Enter": true, "space": true,
		"a": false, "Escape": false, "Down": false, "ctrl+o": false,
	} {
		ch, err := ParseChord(keys)
		if err != nil {
			t.Fatal(err)
		}
		if got := ch.pressesButton(); got != want {
			t.Errorf("%s: %v", keys, got)
		}
	}
}
