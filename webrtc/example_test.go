package webrtc_test

import (
	"context"
	"log"
	"net/http"

	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/webrtc"
)

// A program that shows a desktop of its own to whoever opens its page.
func Example() {
	ctx := context.Background()
	desk, err := desktop.Start(ctx, desktop.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer desk.Close()
	live, err := webrtc.Start(ctx, desk, webrtc.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = live.Close() }()
	if _, err := desk.Launch(ctx, desktop.Launch{App: "xterm"}); err != nil {
		log.Fatal(err)
	}
	log.Fatal(http.ListenAndServe("127.0.0.1:8080", live.Handler()))
}
