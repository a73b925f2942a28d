package webrtc

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/internal/testx11"
)

// counted counts how often the clipboard is fetched, and how often at the same time.
type counted struct {
	*desktop.Desktop
	fetches, running, most atomic.Int32
}

func (c *counted) Clipboard(ctx context.Context, sel desktop.Selection, typ string) (desktop.Content, error) {
	c.fetches.Add(1)
	if n := c.running.Add(1); n > c.most.Load() {
		c.most.Store(n)
	}
	defer c.running.Add(-1)
	return c.Desktop.Clipboard(ctx, sel, typ)
}

// TestClipboardThatChangesAlways changes the clipboard continuously, with a viewer in control
// and without one.
func TestClipboardThatChangesAlways(t *testing.T) {
	t.Parallel()
	d := &counted{Desktop: startDesktop(t, desktop.Config{})}
	s := stream(t, d, Config{})
	ann, bob := watch(t, s, ViewerOptions{Name: "ann"}), watch(t, s, ViewerOptions{Name: "bob", ViewOnly: true})
	<-ann.open
	<-bob.open
	ann.event("control/host")
	copyTo := func(text string) {
		t.Helper()
		if err := d.SetClipboard(t.Context(), desktop.Content{Data: []byte(text)}); err != nil {
			t.Fatal(err)
		}
	}
	begin := time.Now()
	for i := range 50 {
		copyTo(fmt.Sprint("text ", i))
	}
	until(t, "the last text has come", func() bool { return string(ann.event("clipboard/updated")) == `{"text":"text 49"}` })
	if n, most := d.fetches.Load(), int32(2+time.Since(begin)/clipboardPause); n > most || d.most.Load() > 1 {
		t.Errorf("50 changes led to %d fetches, %d at a time, want at most %d", n, d.most.Load(), most)
	}
	ann.send("control/release", nil)
	until(t, "control is free", func() bool { return d.Control().Holder == nil })
	before := d.fetches.Load()
	copyTo("without a viewer")
	bob.send("the/end", nil)
	ann.send("control/request", nil)
	ann.event("control/host")
	ann.event("control/host")
	if n := d.fetches.Load(); n > before {
		t.Errorf("%d fetches without a viewer", n-before)
	}
	if _, err := d.Desktop.Clipboard(desktop.WithActor(t.Context(), desktop.Actor{Kind: desktop.ActorViewer}), desktop.Clipboard, ""); err != nil {
		t.Fatal(err)
	}
	copyTo(string(make([]byte, clipboardMost+1)))
	if c, err := d.Desktop.Clipboard(desktop.WithActor(t.Context(), desktop.Actor{Kind: desktop.ActorViewer}), desktop.Clipboard, ""); err == nil {
		t.Errorf("a viewer gets %d bytes", len(c.Data))
	}
}

// TestClipboardThatChangesAlwaysCostsLittle changes the owner of the clipboard continuously,
// with a viewer in control.
func TestClipboardThatChangesAlwaysCostsLittle(t *testing.T) {
	testx11.Require(t, "xclip")
	d := &counted{Desktop: startDesktop(t, desktop.Config{})}
	s := stream(t, d, Config{})
	ann := watch(t, s, ViewerOptions{Name: "ann"})
	<-ann.open
	ann.event("control/host")
	if _, err := d.Launch(t.Context(), desktop.Launch{
		App: "sh", Args: []string{"-c", "i=0; while :; do i=$((i+1)); yes $i | head -c 900000 | xclip -selection clipboard; done"},
	}); err != nil {
		t.Fatal(err)
	}
	ann.event("clipboard/updated")
	begin, used, fetches := time.Now(), cpuTime(t), d.fetches.Load()
	for time.Since(begin) < 3*time.Second {
		ann.event("clipboard/updated")
	}
	took, cost := time.Since(begin), cpuTime(t)-used
	if cost > took/2 {
		t.Errorf("%v of CPU time in %v", cost, took)
	}
	if n := d.fetches.Load() - fetches; n > 2+int32(took/clipboardPause) {
		t.Errorf("%d fetches in %v", n, took)
	}
}
