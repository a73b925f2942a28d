package recording_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/recording"
)

// A program records how it uses a desktop.
func Example() {
	ctx := context.Background()
	desk, err := desktop.Start(ctx, desktop.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer desk.Close()
	dir, err := os.MkdirTemp("", "example-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	store, err := recording.Open(ctx, recording.StoreConfig{Dir: dir})
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = store.Close() }()

	rec, err := store.Start(ctx, desk, recording.Config{})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := desk.Click(ctx, desktop.Click{At: &desktop.Point{X: 100, Y: 100}}); err != nil {
		log.Fatal(err)
	}
	info, err := rec.Stop(ctx)
	if err != nil {
		log.Fatal(err)
	}
	video, _, err := store.Video(info.ID)
	if err != nil {
		log.Fatal(err)
	}
	defer video.Close()
	fmt.Println(info.Status)
	// Output: completed
}
