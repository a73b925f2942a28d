package httpapi

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/deskhand/deskhand/agents/computer"
	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/desktop/fleet"
	"github.com/deskhand/deskhand/httpapi/internal/rest"
)

const (
	mainPath = "/v1/desktop"
	mcpPath  = "/v1/mcp"
	sdpType  = "application/sdp"
	pngMagic = "\x89PNG\r\n\x1a\n"
)

// testServer is a server on a loopback port, until the test ends.
type testServer struct {
	*Server
	url    string
	client *http.Client
}

// serve runs a server. Its files are in a directory of the test.
func serve(t *testing.T, cfg Config) *testServer {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return serveOn(t, ln, cfg)
}

// serveOn is serve with a listener of the caller's.
func serveOn(t *testing.T, ln net.Listener, cfg Config) *testServer {
	t.Helper()
	if cfg.StateDir == "" {
		cfg.StateDir = t.TempDir()
	}
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx, ln) }()
	transport := &http.Transport{}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Serve: %v", err)
		}
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return &testServer{s, "http://" + ln.Addr().String(), &http.Client{Transport: transport, Timeout: time.Minute}}
}

// answer is a response that was read to its end.
type answer struct {
	*http.Response
	body []byte
	err  error // there is none
}

// json is the body, decoded.
func (a answer) json(t *testing.T) map[string]any {
	t.Helper()
	var v map[string]any
	if err := json.Unmarshal(a.body, &v); err != nil {
		t.Fatalf("body %q: %v", a.body, err)
	}
	return v
}

// call is a request to make. The token is sent unless header has another.
type call struct {
	method string // empty: GET, or POST with a body
	path   string
	body   string
	kind   string // Content-Type; empty: JSON when there is a body
	header map[string]string
	anon   bool // without the token
}

func (s *testServer) do(t *testing.T, c call) answer {
	t.Helper()
	a := s.try(t.Context(), c)
	if a.err != nil {
		t.Fatal(a.err)
	}
	return a
}

// try makes a call and may be used by any goroutine.
func (s *testServer) try(ctx context.Context, c call) answer {
	if c.method == "" {
		c.method = http.MethodGet
		if c.body != "" {
			c.method = http.MethodPost
		}
	}
	req, err := http.NewRequestWithContext(ctx, c.method, s.url+c.path, strings.NewReader(c.body))
	if err != nil {
		return answer{err: err}
	}
	if c.kind == "" && c.body != "" {
		c.kind = "application/json"
	}
	if c.kind != "" && c.kind != "-" {
		req.Header.Set("Content-Type", c.kind)
	}
	if !c.anon && s.Token() != "" {
		req.Header.Set("Authorization", "Bearer "+s.Token())
	}
	for name, value := range c.header {
		req.Header.Set(name, value)
		if name == "Host" {
			req.Host = value
		}
	}
	resp, err := s.client.Do(req)
	if err != nil {
		return answer{err: err}
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return answer{resp, text, err}
}

func (s *testServer) get(t *testing.T, path string) answer {
	t.Helper()
	return s.do(t, call{path: path})
}

func (s *testServer) post(t *testing.T, path, body string) answer {
	t.Helper()
	return s.do(t, call{method: http.MethodPost, path: path, body: body})
}

// want fails the test unless the answer has that status.
func (a answer) want(t *testing.T, status int) answer {
	t.Helper()
	if a.err != nil {
		t.Fatal(a.err)
	}
	if a.StatusCode != status {
		t.Fatalf("%s %s = %d %s, want %d", a.Request.Method, a.Request.URL.Path, a.StatusCode, a.body, status)
	}
	return a
}

// problem fails the test unless the answer is a problem of that status and
// code.
func (a answer) problem(t *testing.T, status int, code string) map[string]any {
	t.Helper()
	a.want(t, status)
	if got := a.Header.Get("Content-Type"); got != rest.ProblemType {
		t.Fatalf("%s %s: Content-Type = %q, want %q", a.Request.Method, a.Request.URL.Path, got, rest.ProblemType)
	}
	p := a.json(t)
	if got := p["type"]; got != rest.TypePrefix+code {
		t.Errorf("%s %s: type = %v, want %v", a.Request.Method, a.Request.URL.Path, got, rest.TypePrefix+code)
	}
	if got := p["status"]; got != float64(status) {
		t.Errorf("status member = %v, want %d", got, status)
	}
	for _, name := range []string{"title", "detail"} {
		if text, _ := p[name].(string); text == "" {
			t.Errorf("problem has no %s: %s", name, a.body)
		}
	}
	return p
}

// anyDesktop has the methods of a desktop that routes call. Fakes embed one that is nil.
type anyDesktop interface {
	computer.Desktop
	Close() error
	Subscribe(after uint64) *desktop.Subscription
	Resize(context.Context, desktop.Size) error
	ReleaseAll(context.Context) error
	FocusedWindow(context.Context) (desktop.Window, error)
}

// desktop returns main, which must run.
func (s *testServer) desktop(t *testing.T) anyDesktop {
	t.Helper()
	inst, err := s.fleet.Find(fleet.Main)
	if err != nil {
		t.Fatal(err)
	}
	d, err := inst.Desktop()
	if err != nil {
		t.Fatal(err)
	}
	full, ok := d.(anyDesktop)
	if !ok {
		t.Fatalf("%T lacks methods", d)
	}
	return full
}
