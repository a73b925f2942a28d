package batch_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/desktop/batch"
)

// page has a button that covers it with a message.
const page = `<!doctype html><title>ready</title><body style="margin:0">
<button style="position:fixed;left:100px;top:100px;width:300px;height:100px" onclick="
	document.title='clicked'; document.body.append('clicked'); this.style.background='red'">Click</button>`

// TestChromium: a click on a page is refused when the page has changed there.
func TestChromium(t *testing.T) {
	t.Parallel()
	d := start(t, "chromium")
	file := filepath.Join(t.TempDir(), "page.html")
	if err := os.WriteFile(file, []byte(page), 0o600); err != nil {
		t.Fatal(err)
	}
	shown := batch.Observe{Screenshot: &desktop.ScreenshotOptions{}}
	r := do(t, d, batch.Batch{Observe: shown, Actions: []batch.Action{
		batch.Launch{App: "chromium", Args: []string{"--kiosk", "--no-first-run", "file://" + file}, Wait: true},
		batch.Wait{Until: batch.UntilWindow, Window: "ready", Timeout: time.Minute},
		batch.Move{At: desktop.Point{X: 200, Y: 150}}, // a button under the pointer looks different
		batch.Wait{Until: batch.UntilSettled},
	}})
	if r.Stopped != nil {
		t.Fatalf("%+v: %+v", r.Stopped, r.Results)
	}
	click := batch.Batch{
		Observation: r.Observation.ID, Observe: shown,
		Actions: []batch.Action{batch.Click{At: &desktop.Point{X: 200, Y: 150}}, batch.Wait{Until: batch.UntilWindow, Window: "clicked"}},
	}
	if r = do(t, d, click); r.Stopped != nil || r.Done() != 2 {
		t.Fatalf("%+v: %+v", r.Stopped, r.Results)
	}
	var stale *desktop.StaleError
	if r, err := batch.Do(t.Context(), batch.Target{Desktop: d}, click); !errors.As(err, &stale) || stale.Reason != "the screen has changed" || r.Screenshot == nil {
		t.Errorf("a click on what has changed: %v", err)
	}
}
