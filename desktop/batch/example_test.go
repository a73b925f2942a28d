package batch_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/desktop/batch"
)

// A program starts a terminal, types into it and gets a picture, in one call.
func Example() {
	ctx := context.Background()
	desk, err := desktop.Start(ctx, desktop.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer desk.Close()
	r, err := batch.Do(ctx, batch.Target{Desktop: desk}, batch.Batch{
		Actions: []batch.Action{
			batch.Launch{App: "xterm", Wait: true},
			batch.Type{Text: "echo hello\n"},
			batch.Wait{For: 100 * time.Millisecond},
		},
		Observe: batch.Observe{Screenshot: &desktop.ScreenshotOptions{MaxEdge: 720}},
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(r.Done(), "actions,", len(r.Observation.WindowsOpened), "window,", r.Screenshot.Size)
	// Output: 3 actions, 1 window, {720 450}
}
