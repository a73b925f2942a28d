package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

// listenMetrics listens on the address of --metrics-listen. It returns nil without the flag.
func (f *serverFlags) listenMetrics(ctx context.Context) (net.Listener, error) {
	if f.metrics == "" {
		return nil, nil //nolint:nilnil // there is nothing to serve
	}
	if _, _, err := net.SplitHostPort(f.metrics); err != nil {
		return nil, usagef("--metrics-listen must be ADDRESS:PORT, such as 127.0.0.1:9090, not %q", f.metrics)
	}
	ln, err := (&net.ListenConfig{}).Listen(ctx, "tcp", f.metrics)
	if err != nil {
		return nil, fmt.Errorf("--metrics-listen: %w", err)
	}
	return ln, nil
}

// mostScrapers bounds the connections of --metrics-listen, so that they do not take the
// descriptors of desktops, agents and clients. Further ones are closed.
const mostScrapers = 16

// serveMetrics serves /metrics on ln, which may be nil, until end is called.
func serveMetrics(ln net.Listener, metrics http.Handler, log *slog.Logger) (end func()) {
	if ln == nil {
		return func() {}
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", metrics)
	srv := &http.Server{
		Handler: mux, ReadTimeout: 10 * time.Second, WriteTimeout: 30 * time.Second, MaxHeaderBytes: 16 << 10,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	var open atomic.Int32
	srv.ConnState = func(conn net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			if open.Add(1) > mostScrapers {
				_ = conn.Close()
			}
		case http.StateClosed:
			open.Add(-1)
		case http.StateActive, http.StateIdle, http.StateHijacked:
		}
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = srv.Serve(ln) // Close ends it
	}()
	log.Info("metrics", "url", "http://"+ln.Addr().String()+"/metrics")
	return func() {
		_ = srv.Close()
		<-done
	}
}
