package desktop_test

import (
	"testing"

	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/internal/testx11"
)

// TestLaunchedHasFocus: Launch returns after the window manager has decided whether to give the
// window the focus.
func TestLaunchedHasFocus(t *testing.T) {
	t.Parallel()
	testx11.Require(t, "xterm", "zenity")
	d := start(t, desktop.Config{})
	var last desktop.WindowID
	for range 10 {
		for _, l := range []desktop.Launch{
			{App: "xterm", Wait: true},
			{App: "zenity", Args: []string{"--entry"}, Env: []string{"NO_AT_BRIDGE=1"}, Wait: true},
		} {
			app, err := d.Launch(t.Context(), l)
			if err != nil {
				t.Fatal(err)
			}
			if w, err := d.FocusedWindow(t.Context()); err != nil || w.ID != app.Window {
				t.Errorf("%s has window %d; focused: %+v, %v", l.App, app.Window, w, err)
			}
			last = app.Window
		}
	}
	app, err := d.Launch(t.Context(), desktop.Launch{App: "xterm", Args: []string{"-iconic"}, Wait: true})
	if err != nil || app.Window == 0 {
		t.Fatal(app, err)
	}
	if w, err := d.FocusedWindow(t.Context()); err != nil || w.ID != last {
		t.Errorf("window %d opened as an icon, and %d had the focus; focused: %+v, %v", app.Window, last, w, err)
	}
}
