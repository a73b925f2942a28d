package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gofiber/fiber/v2"

	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/internal/testx11"
)

// embedded is a server behind a program of net/http, below a mux.
func embedded(t *testing.T, cfg Config) *testServer {
	t.Helper()
	s := newServer(t, cfg)
	mux := http.NewServeMux()
	mux.Handle("/v1/", s.Handler())
	mux.HandleFunc("/mine", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "mine") })
	front := httptest.NewServer(mux)
	t.Cleanup(front.Close)
	return &testServer{s, front.URL, front.Client()}
}

func TestHandler(t *testing.T) {
	t.Parallel()
	testx11.Require(t, "Xvfb", "openbox", "dbus-daemon")
	s := embedded(t, Config{})
	s.do(t, call{path: "/v1/health", anon: true}).problem(t, 401, "token_invalid")
	s.get(t, "/v1/health").want(t, 200)
	if got := s.get(t, "/mine"); string(got.body) != "mine" {
		t.Errorf("the program's own route: %s", got.body)
	}
	s.do(t, call{path: "/v1/health", anon: true, header: map[string]string{"Origin": "http://evil.example"}}).problem(t, 403, "permission_denied")
	s.do(t, call{path: "/v1/health", header: map[string]string{"Origin": s.url}}).want(t, 200)
	s.post(t, "/v1/desktop/start", `{"width":640,"height":480}`).want(t, 200)
	if img, _ := s.get(t, "/v1/desktop/screenshot").picture(t); img.Bounds().Dx() != 640 {
		t.Errorf("screenshot: %v", img.Bounds())
	}
	ctx, cancel := context.WithCancel(t.Context())
	events := s.follow(ctx, t, "/v1/desktop/events?access_token="+s.Token(), nil)
	s.post(t, "/v1/desktop/mouse/move", `{"x":5,"y":6}`).want(t, 200)
	await(t, events, desktop.EventAction)
	cancel()
	eventually(t, "end of the stream", func() bool { return s.rest.OpenStreams() == 0 })
	s.post(t, "/v1/desktop/keyboard/type", `{"text":"`+strings.Repeat("x", DefaultMaxBodyBytes)+`"}`).problem(t, 413, "invalid_request")
}

// TestHandlerAsHuma: the adapter can serve net/http, which huma may ask it for.
func TestHandlerAsHuma(t *testing.T) {
	t.Parallel()
	s := newServer(t, Config{NoToken: true})
	w := httptest.NewRecorder()
	s.rest.Huma.Adapter().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/v1/health", nil))
	if w.Code != 200 || !strings.Contains(w.Body.String(), "ok") {
		t.Errorf("health = %d %s", w.Code, w.Body)
	}
}

func TestHandlerChecksHosts(t *testing.T) {
	t.Parallel()
	s := embedded(t, Config{NoToken: true})
	s.do(t, call{path: "/v1/health"}).want(t, 200)
	s.do(t, call{path: "/v1/health", header: map[string]string{"Host": "evil.example"}}).problem(t, 403, "permission_denied")
}

func TestHandlerAfterClose(t *testing.T) {
	t.Parallel()
	s := newServer(t, Config{})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/v1/health", nil))
	if w.Code != 503 {
		t.Errorf("status = %d, want 503", w.Code)
	}
	if err := s.Serve(t.Context(), nil); !errors.Is(err, ErrClosed) {
		t.Errorf("Serve = %v, want %v", err, ErrClosed)
	}
	if err := s.Mount(fiber.New(fiber.Config{StreamRequestBody: true, DisablePreParseMultipartForm: true})); !errors.Is(err, ErrClosed) {
		t.Errorf("Mount = %v, want %v", err, ErrClosed)
	}
}

// mounted is a server whose routes are part of another fiber app.
func mounted(t *testing.T, cfg Config) *testServer {
	t.Helper()
	app := fiber.New(fiber.Config{StreamRequestBody: true, DisablePreParseMultipartForm: true, DisableStartupMessage: true})
	app.Get("/", func(c *fiber.Ctx) error { return c.SendString("mine") })
	srv := newServer(t, cfg)
	if err := srv.Mount(app); err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- app.Listener(ln) }()
	transport := &http.Transport{}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		if err := srv.Close(); err != nil {
			t.Error(err)
		}
		if err := app.Shutdown(); err != nil {
			t.Error(err)
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return &testServer{srv, "http://" + ln.Addr().String(), &http.Client{Transport: transport}}
}

func TestMount(t *testing.T) {
	t.Parallel()
	testx11.Require(t, "Xvfb", "openbox", "dbus-daemon")
	s := mounted(t, Config{MaxBodyBytes: 1000})
	if got := s.get(t, "/"); string(got.body) != "mine" {
		t.Errorf("the app's own route: %s", got.body)
	}
	s.do(t, call{path: "/v1/health", anon: true}).problem(t, 401, "token_invalid")
	s.get(t, "/v1/nothing").problem(t, 404, "invalid_request")
	s.get(t, "/ui/").want(t, 200)
	s.get(t, "/docs/").want(t, 200)
	s.get(t, "/llms.txt").want(t, 200)
	s.post(t, "/v1/desktop/start", `{"width":640,"height":480}`).want(t, 200)
	s.post(t, "/v1/desktop/keyboard/type", `{"text":"`+strings.Repeat("x", 100_000)+`"}`).problem(t, 413, "invalid_request")
	events := s.follow(t.Context(), t, "/v1/desktop/events?access_token="+s.Token(), nil)
	s.post(t, "/v1/desktop/mouse/move", `{"x":5,"y":6}`).want(t, 200)
	await(t, events, desktop.EventAction)
}

func TestMountRefusesAppsThatDoNotStream(t *testing.T) {
	t.Parallel()
	s := newServer(t, Config{})
	for _, cfg := range []fiber.Config{
		{},
		{StreamRequestBody: true},
		{StreamRequestBody: true, DisablePreParseMultipartForm: true, WriteTimeout: 1},
		{StreamRequestBody: true, DisablePreParseMultipartForm: true, GETOnly: true},
	} {
		if err := s.Mount(fiber.New(cfg)); err == nil {
			t.Errorf("Mount accepted %+v", cfg)
		}
	}
}

func TestRoot(t *testing.T) {
	t.Parallel()
	s := serve(t, Config{})
	s.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	root := s.do(t, call{path: "/", anon: true}).want(t, 200).json(t)
	for name, want := range map[string]string{"name": "Sandbox Agent", "docs": "https://sandboxagent.dev", "server": "deskhand"} {
		if root[name] != want {
			t.Errorf("%s = %v, want %s", name, root[name], want)
		}
	}
	browser := map[string]string{"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
	a := s.do(t, call{path: "/?token=abc", anon: true, header: browser}).want(t, 302)
	if got := a.Header.Get("Location"); got != "/ui/?token=abc" {
		t.Errorf("Location = %q", got)
	}
	for path, kind := range map[string]string{
		"/ui/": "text/html; charset=utf-8", "/ui/deep/link": "text/html; charset=utf-8",
		"/ui/main.js": "text/javascript; charset=utf-8", "/ui/style.css": "text/css; charset=utf-8", "/ui/icon.svg": "image/svg+xml",
	} {
		a := s.do(t, call{path: path, anon: true}).want(t, 200)
		if got := a.Header.Get("Content-Type"); got != kind || a.Header.Get("Content-Security-Policy") == "" {
			t.Errorf("%s: %s, %v", path, got, a.Header)
		}
	}
	for _, path := range []string{"/ui/../server.go", "/ui/%2e%2e/server.go", "/ui/x.js", "/ui//etc/x.js"} {
		s.do(t, call{path: path, anon: true}).problem(t, 404, "invalid_request")
	}
}

// TestServeEndedEarly ends servers at the moment they begin.
func TestServeEndedEarly(t *testing.T) {
	t.Parallel()
	for range 50 {
		s, err := New(Config{StateDir: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		served := make(chan error, 1)
		go func() { served <- s.Serve(ctx, ln) }()
		select {
		case err := <-served:
			if err != nil {
				t.Errorf("Serve: %v", err)
			}
		case <-time.After(time.Minute):
			t.Fatal("Serve does not end")
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}
