package fleet_test

import (
	"context"
	"fmt"
	"log"
	"net/http"

	"github.com/deskhand/deskhand/desktop/fleet"
	"github.com/deskhand/deskhand/recording"
)

// Two desktops: one is recorded, and the other is shown live.
func Example() {
	ctx := context.Background()
	f, err := fleet.Open(ctx, fleet.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer f.Close()
	work, err := f.Create(ctx, "work", fleet.StartOptions{})
	if err != nil {
		log.Fatal(err)
	}
	play, err := f.Create(ctx, "play", fleet.StartOptions{})
	if err != nil {
		log.Fatal(err)
	}
	rec, err := work.Record(ctx, recording.Config{})
	if err != nil {
		log.Fatal(err)
	}
	stream, err := play.Stream(ctx)
	if err != nil {
		log.Fatal(err)
	}
	http.Handle("/play/", http.StripPrefix("/play", stream.Handler()))
	info, err := rec.Stop(ctx)
	fmt.Println(info.Desktop, info.Status, err)
	// Output: work completed <nil>
}
