package recording_test

import (
	"context"
	"fmt"
	"log"

	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/recording"
)

// A program that records how it uses a desktop. A video, its captions and
// pictures are in the directory "recordings" then.
func Example() {
	ctx := context.Background()
	desk, err := desktop.Start(ctx, desktop.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer desk.Close()
	rec, err := recording.Start(ctx, desk, recording.Config{})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := desk.Launch(ctx, desktop.Launch{App: "xterm", Wait: true}); err != nil {
		log.Fatal(err)
	}
	info, err := rec.Stop(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("recordings/"+info.ID+"/video.mp4", info.Status, info.Duration)
}
