package rest

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/valyala/fasthttp"
)

// TestFlushTracker reports an event with the first read after the one that has taken
// its last byte.
func TestFlushTracker(t *testing.T) {
	t.Parallel()
	var sent []int64
	tracker := &FlushTracker{
		body: io.NopCloser(bytes.NewReader(make([]byte, 100))),
		Sent: func(seq int64) { sent = append(sent, seq) },
	}
	tracker.Mark(0, 7) // where the stream begins
	tracker.Mark(10, 8)
	tracker.Mark(15, 8) // a heartbeat
	tracker.Mark(30, 11)
	tracker.Mark(50, 12)
	for i, want := range [][]int64{{7}, {7}, {7, 8}, {7, 8, 11}, {7, 8, 11}} {
		if _, err := tracker.Read(make([]byte, []int{9, 1, 20, 19, 1}[i])); err != nil {
			t.Fatal(err)
		}
		if !cmp.Equal(sent, want) {
			t.Errorf("%v was sent before read %d, not %v", sent, i+1, want)
		}
	}
}

// writtenListener has connections whose written bytes can be looked at.
type writtenListener struct {
	net.Listener
	mu      sync.Mutex // guards the fields below
	written []byte
}

func (l *writtenListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	return writtenConn{conn, l}, err
}

func (l *writtenListener) has(text string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return bytes.Contains(l.written, []byte(text))
}

type writtenConn struct {
	net.Conn
	l *writtenListener
}

func (c writtenConn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	c.l.mu.Lock()
	defer c.l.mu.Unlock()
	c.l.written = append(c.l.written, b[:n]...)
	return n, err
}

// TestFlushTrackerOfTheServer: what the tracker reports is with the system. It fails
// if fasthttp ever reads on before it has flushed.
func TestFlushTrackerOfTheServer(t *testing.T) {
	t.Parallel()
	under, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ln := &writtenListener{Listener: under}
	const events = 200
	server := &fasthttp.Server{Handler: func(rc *fasthttp.RequestCtx) {
		sent := make(chan int64, events)
		tracker := &FlushTracker{Sent: func(seq int64) { sent <- seq }}
		tracker.body = fasthttp.NewStreamReader(func(w *bufio.Writer) {
			total := int64(0)
			for seq := range int64(events) {
				text := fmt.Sprintf("event %d;%0*d\n", seq, int(seq*50), 0)
				total += int64(len(text))
				tracker.Mark(total, seq) // before the write: a large one goes past the buffer
				if _, err := w.WriteString(text); err != nil || w.Flush() != nil {
					return
				}
				if got, text := <-sent, fmt.Sprintf("event %d;", seq); got != seq || !ln.has(text) {
					t.Errorf("event %d is reported, after %q; it was written: %v", got, text, ln.has(text))
				}
			}
		})
		rc.SetBodyStream(tracker, -1)
	}}
	done := make(chan error, 1)
	go func() { done <- server.Serve(ln) }()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+ln.Addr().String(), nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(response.Body)
	if err != nil || bytes.Count(body, []byte("event ")) != events {
		t.Errorf("%d bytes, %v", len(body), err)
	}
	if err := response.Body.Close(); err != nil {
		t.Error(err)
	}
	if err := server.Shutdown(); err != nil {
		t.Error(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}
