package httpapi

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/fasthttp/websocket"
)

// BenchmarkTerminalEcho is the time from a byte typed to its echo.
func BenchmarkTerminalEcho(b *testing.B) {
	s := serveBench(b)
	id := s.start(b, `{"command":"sh","args":["-c","stty raw -echo; exec cat"],"tty":true}`)
	conn := s.connect(b, id)
	input := []byte(`{"type":"input","data":"x"}`)
	for b.Loop() {
		if err := conn.WriteMessage(websocket.TextMessage, input); err != nil {
			b.Fatal(err)
		}
		readBytes(b, conn, 1)
	}
}

// BenchmarkTerminalOutput is how fast what a program prints reaches a client.
func BenchmarkTerminalOutput(b *testing.B) {
	s := serveBench(b)
	const size = 32 << 20
	id := s.start(b, fmt.Sprintf(
		`{"command":"sh","args":["-c","stty raw -echo; while read x; do head -c %d /dev/zero; done"],"tty":true}`, size))
	conn := s.connect(b, id)
	b.SetBytes(size)
	for b.Loop() {
		if err := conn.WriteMessage(websocket.TextMessage, []byte(`{"type":"input","data":"\n"}`)); err != nil {
			b.Fatal(err)
		}
		readBytes(b, conn, size)
	}
}

// BenchmarkRun is a short program's run, over HTTP.
func BenchmarkRun(b *testing.B) {
	s := serveBench(b)
	for b.Loop() {
		if a := s.try(b.Context(), call{path: "/v1/processes/run", body: `{"command":"/bin/true"}`}); a.err != nil || a.StatusCode != 200 {
			b.Fatal(a.err, string(a.body))
		}
	}
}

// BenchmarkScrape is a scrape of the metrics of 30 desktops.
func BenchmarkScrape(b *testing.B) {
	s := serveBench(b)
	for range 30 {
		if a := s.try(b.Context(), call{path: "/v1/desktops", body: `{"width":640,"height":480}`}); a.err != nil || a.StatusCode != 201 {
			b.Fatal(a.err, string(a.body))
		}
	}
	if err := s.OpenAgents(b.Context()); err != nil {
		b.Fatal(err)
	}
	handler, fastest := s.Metrics(), time.Hour
	for b.Loop() {
		begun := time.Now()
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequestWithContext(b.Context(), http.MethodGet, "/metrics", nil))
		if w.Code != http.StatusOK {
			b.Fatal(w.Code)
		}
		fastest = min(fastest, time.Since(begun))
	}
	b.ReportMetric(float64(fastest.Microseconds())/1000, "ms/fastest")
}

func serveBench(b *testing.B) *testServer {
	b.Helper()
	s, err := New(Config{StateDir: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- s.Serve(b.Context(), ln) }()
	transport := &http.Transport{}
	b.Cleanup(func() {
		transport.CloseIdleConnections()
		if err := s.Close(); err != nil {
			b.Error(err)
		}
		if err := <-done; err != nil {
			b.Error(err)
		}
	})
	return &testServer{s, "http://" + ln.Addr().String(), &http.Client{Transport: transport}}
}

func (s *testServer) start(b *testing.B, body string) string {
	b.Helper()
	a := s.try(b.Context(), call{path: "/v1/processes", body: body})
	if a.err != nil || a.StatusCode != 200 {
		b.Fatal(a.err, string(a.body))
	}
	var id string
	if _, err := fmt.Sscanf(string(a.body), `{"id":%q`, &id); err != nil {
		b.Fatal(err, string(a.body))
	}
	return id
}

func (s *testServer) connect(b *testing.B, id string) *websocket.Conn {
	b.Helper()
	conn, _, err := s.tryDial(b.Context(), "/v1/processes/"+id+"/terminal/ws", nil)
	if err != nil {
		b.Fatal(err)
	}
	if err := conn.SetReadDeadline(time.Time{}); err != nil {
		b.Fatal(err)
	}
	if _, _, err := conn.ReadMessage(); err != nil { // ready
		b.Fatal(err)
	}
	return conn
}

func readBytes(b *testing.B, conn *websocket.Conn, n int) {
	b.Helper()
	for n > 0 {
		kind, data, err := conn.ReadMessage()
		if err != nil || kind != websocket.BinaryMessage {
			b.Fatal(kind, string(data), err)
		}
		n -= len(data)
	}
}
