package batch_test

import (
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/desktop/batch"
	"github.com/deskhand/deskhand/internal/testx11"
)

func TestMain(m *testing.M) {
	testx11.SkipExamples("Xvfb", "openbox", "dbus-daemon", "xterm")
	goleak.VerifyTestMain(m)
}

// start runs a desktop of 800x600.
func start(t *testing.T, programs ...string) *desktop.Desktop {
	t.Helper()
	testx11.Require(t, append(programs, "Xvfb", "openbox", "dbus-daemon")...)
	d, err := desktop.Start(t.Context(), desktop.Config{Size: desktop.Size{Width: 800, Height: 600}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

// do runs a batch without an error of its own.
func do(t *testing.T, d batch.Desktop, b batch.Batch) *batch.Result {
	t.Helper()
	r, err := batch.Do(t.Context(), batch.Target{Desktop: d}, b)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// quick is a wait for the screen that costs tests no time.
var quick = &batch.Settle{Quiet: 20 * time.Millisecond, Timeout: 200 * time.Millisecond}

// terminal starts an xterm and returns its window.
func terminal(t *testing.T, d *desktop.Desktop) desktop.WindowID {
	t.Helper()
	app, err := d.Launch(t.Context(), desktop.Launch{App: "xterm", Wait: true})
	if err != nil || app.Window == 0 {
		t.Fatalf("%+v, %v", app, err)
	}
	return app.Window
}
