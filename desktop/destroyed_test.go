package desktop_test

import (
	"context"
	"testing"
	"time"

	"github.com/jezek/xgb"
	"github.com/jezek/xgb/shm"
	"github.com/jezek/xgb/xproto"

	"github.com/deskhand/deskhand/desktop"
)

// TestDestroyedSegments: a program on the desktop destroys the segments for pictures. The desktop
// starts again and tells it, screenshots work, and a feed goes on.
func TestDestroyedSegments(t *testing.T) {
	d := start(t, desktop.Config{})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	feed := d.Feed()
	defer feed.Close()
	if _, err := feed.Next(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Screenshot(ctx, desktop.ScreenshotOptions{}); err != nil {
		t.Fatal(err)
	}
	events := d.Subscribe(0)
	defer events.Close()
	t.Setenv("XAUTHORITY", d.Status().Authority)
	x, err := xgb.NewConnDisplay(d.Status().Display)
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	extension, err := xproto.QueryExtension(x, 7, "MIT-SHM").Reply()
	if err != nil || !extension.Present {
		t.Fatalf("MIT-SHM: %v, %v", extension, err)
	}
	x.Extensions["MIT-SHM"] = extension.MajorOpcode
	for client := range uint32(32) {
		for n := range uint32(64) {
			shm.Detach(x, shm.Seg(client<<21|n))
		}
	}
	root := xproto.Setup(x).DefaultScreen(x).Root
	xproto.ChangeWindowAttributes(x, root, xproto.CwBackPixel, []uint32{0xcc0000})
	xproto.ClearArea(x, false, root, 0, 0, 0, 0)
	x.Sync()
	for reset := false; !reset; {
		frame, err := feed.Next(ctx)
		if err != nil {
			t.Fatal(err)
		}
		reset = frame.Reset
	}
	for {
		if _, err = d.Screenshot(ctx, desktop.ScreenshotOptions{}); err == nil {
			break
		}
		if ctx.Err() != nil {
			t.Fatal(err)
		}
	}
	for e := range events.Events() {
		if e.Type == desktop.EventRestarted {
			return
		}
	}
	t.Error("no event of a restart")
}
