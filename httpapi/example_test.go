package httpapi_test

import (
	"context"
	"fmt"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/signal"

	"github.com/deskhand/deskhand/httpapi"
)

// The server runs until its context ends.
func Example() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	s, err := httpapi.New(httpapi.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	ended := make(chan error)
	go func() { ended <- s.Serve(ctx, ln) }()

	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+ln.Addr().String()+"/v1/health", nil)
	if err != nil {
		log.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+s.Token())
	health, err := http.DefaultClient.Do(request)
	if err != nil {
		log.Fatal(err)
	}
	defer health.Body.Close()
	fmt.Println(health.Status)
	stop() // as an interrupt does
	fmt.Println(<-ended)
	// Output:
	// 200 OK
	// <nil>
}

// A program serves the API next to routes of its own.
func ExampleServer_Handler() {
	s, err := httpapi.New(httpapi.Config{Token: "a secret of the program"})
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	mux := http.NewServeMux()
	mux.Handle("/v1/", s.Handler())
	server := httptest.NewServer(mux) // a program uses http.ListenAndServe
	defer server.Close()
	desktops, err := http.Get(server.URL + "/v1/desktops")
	if err != nil {
		log.Fatal(err)
	}
	defer desktops.Body.Close()
	fmt.Println(desktops.Status)
	// Output: 401 Unauthorized
}
