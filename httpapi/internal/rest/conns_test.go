package rest

import (
	"net"
	"testing"
	"time"

	"github.com/valyala/fasthttp"
)

// TestConnsWait closes a server while one of its connections is being served.
func TestConnsWait(t *testing.T) {
	t.Parallel()
	ours, theirs := net.Pipe()
	var s API
	var c conns
	c.track(ours, fasthttp.StateNew)
	s.part(c.closeAll())
	if _, err := theirs.Read(make([]byte, 1)); err == nil {
		t.Error("the connection is open")
	}
	over := make(chan struct{})
	go func() {
		defer close(over)
		s.AwaitParting()
	}()
	select {
	case <-over:
		t.Error("who serves it is not waited for")
	case <-time.After(partTime / 20):
	}
	c.track(ours, fasthttp.StateClosed)
	<-over
	if s.part(c.closeAll()); len(s.parting) != 1 || !isOver(s.parting[0]) {
		t.Error("there is somebody to wait for")
	}
}
