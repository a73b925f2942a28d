package webrtc_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"

	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/webrtc"
)

// A program shows its desktop on a web page.
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

	server := httptest.NewServer(live.Handler()) // a program uses http.ListenAndServe
	defer server.Close()
	page, err := http.Get(server.URL)
	if err != nil {
		log.Fatal(err)
	}
	defer page.Body.Close()
	fmt.Println(page.Status, page.Header.Get("Content-Type"))
	// Output: 200 OK text/html; charset=utf-8
}
