package main

import (
	"context"
	"net"
	"sync"

	"github.com/deskhand/deskhand/httpapi"
)

// listener tells when it is first asked for a connection.
type listener struct {
	net.Listener
	once  sync.Once
	asked chan struct{} // closed then
}

// Accept waits for a connection, as net.Listener's does.
func (l *listener) Accept() (net.Conn, error) {
	l.once.Do(func() { close(l.asked) })
	return l.Listener.Accept()
}

// serveUntil serves ln until ctx ends. A server that is told to end before it
// has begun to listen would never end, so it is told no earlier.
func serveUntil(ctx context.Context, s *httpapi.Server, ln net.Listener) <-chan error {
	l := &listener{Listener: ln, asked: make(chan struct{})}
	serving, end := context.WithCancel(context.WithoutCancel(ctx))
	over, served := make(chan struct{}), make(chan error, 1)
	stop := context.AfterFunc(ctx, func() {
		select {
		case <-l.asked:
		case <-over:
		}
		end()
	})
	go func() {
		err := s.Serve(serving, l)
		close(over)
		stop()
		end()
		served <- err
	}()
	return served
}
