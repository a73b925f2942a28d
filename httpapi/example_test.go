package httpapi_test

import (
	"context"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"

	"github.com/deskhand/deskhand/httpapi"
)

// A server of its own, until an interrupt.
func ExampleNew() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	s, err := httpapi.New(httpapi.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	ln, err := net.Listen("tcp", "127.0.0.1:2468")
	if err != nil {
		log.Fatal(err)
	}
	log.Printf("http://%s/?token=%s", ln.Addr(), s.Token())
	if err := s.Serve(ctx, ln); err != nil {
		log.Fatal(err)
	}
}

// The API beside a program's own routes.
func ExampleServer_Handler() {
	s, err := httpapi.New(httpapi.Config{Token: "a secret of the program"})
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	mux := http.NewServeMux()
	mux.Handle("/v1/", s.Handler())
	log.Fatal(http.ListenAndServe("127.0.0.1:8080", mux))
}
