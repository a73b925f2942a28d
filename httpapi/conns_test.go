package httpapi

import (
	"net"
	"testing"

	"github.com/valyala/fasthttp"
)

// TestConnsWait closes a connection that is still being served.
func TestConnsWait(t *testing.T) {
	t.Parallel()
	ours, theirs := net.Pipe()
	var c conns
	c.track(ours, fasthttp.StateNew)
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		c.closeAll()
	}()
	if _, err := theirs.Read(make([]byte, 1)); err == nil {
		t.Error("the connection is open")
	}
	select {
	case <-closed:
		t.Error("closeAll did not wait for who serves it")
	default:
	}
	c.track(ours, fasthttp.StateClosed)
	<-closed
	c.closeAll() // there is none
}
