package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp/fasthttputil"
)

// The headers in which Handler passes on what it knows of a connection. What a
// client sends in them is dropped.
const (
	innerClient   = "Deskhand-Client"   // the client's address
	innerLoopback = "Deskhand-Loopback" // set when it came to a loopback address
)

// Mount adds the API's routes (/v1, /ui, /openapi.json, /livez and /readyz, but
// not /) to a fiber app. Requests are read as that app is configured, so it is
// an error when that would break streams or bodies. Close ends the streams, but
// not that app.
func (s *Server) Mount(app *fiber.App) error {
	cfg := app.Config()
	switch {
	case !cfg.StreamRequestBody:
		return errors.New("mount: the fiber app must set StreamRequestBody, so that bodies are not held in memory")
	case !cfg.DisablePreParseMultipartForm:
		return errors.New("mount: the fiber app must set DisablePreParseMultipartForm, so that bodies reach their handlers")
	case cfg.WriteTimeout != 0:
		return errors.New("mount: the fiber app must not set WriteTimeout, which would cut event streams off")
	case cfg.GETOnly || cfg.DisableHeaderNormalizing || cfg.Prefork:
		return errors.New("mount: the fiber app must not set GETOnly, DisableHeaderNormalizing or Prefork")
	}
	select {
	case <-s.closing:
		return ErrClosed
	default:
	}
	for _, path := range []string{"/v1", "/v1/*", "/ui", "/ui/*", "/openapi.json", "/livez", "/readyz"} {
		app.All(path, func(c *fiber.Ctx) error {
			s.answer(c.Context())
			return nil
		})
	}
	return nil
}

// Handler returns the API as an http.Handler. Streams and WebSockets pass.
func (s *Server) Handler() http.Handler { return s.handler() }

// newHandler serves an in-memory listener behind a reverse proxy: fiber's own
// adaptor to net/http holds bodies in memory and cannot stream.
func (s *Server) newHandler() http.Handler {
	if err := s.begin(); err != nil {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
		})
	}
	ln := fasthttputil.NewInmemoryListener()
	e := &entry{proxied: true, ending: s.closing, sockets: new(sockets)}
	srv := s.newFastHTTP(e)
	transport := &http.Transport{
		DialContext:         func(context.Context, string, string) (net.Conn, error) { return ln.Dial() },
		DisableCompression:  true,
		MaxIdleConnsPerHost: 64,
	}
	go func() {
		defer s.serving.Done()
		served := make(chan struct{})
		go func() { defer close(served); _ = srv.Serve(ln) }()
		<-s.closing
		grace, cancel := context.WithTimeout(context.Background(), graceTime)
		defer cancel()
		_ = srv.ShutdownWithContext(grace)
		transport.CloseIdleConnections()
		_ = ln.Close()
		<-served
		e.sockets.wait()
	}()
	return &httputil.ReverseProxy{
		Rewrite:       s.rewrite,
		Transport:     transport,
		FlushInterval: -1,
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			s.log.Debug("handler", "path", r.URL.Path, "error", err)
			p := shuttingDown.problem(fmt.Sprintf("the server did not answer: %v", err))
			text, _ := marshalJSON(p)
			w.Header().Set("Content-Type", problemType)
			w.WriteHeader(p.Status)
			_, _ = w.Write(text)
		},
	}
}

// rewrite sends a request inside as it came.
func (s *Server) rewrite(r *httputil.ProxyRequest) {
	r.Out.URL.Scheme, r.Out.URL.Host = "http", "deskhand"
	r.Out.Host = r.In.Host
	for _, name := range []string{"X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "Forwarded"} {
		if v, ok := r.In.Header[name]; ok {
			r.Out.Header[name] = v
		}
	}
	r.Out.Header.Set(innerClient, r.In.RemoteAddr)
	r.Out.Header.Del(innerLoopback)
	if to, ok := r.In.Context().Value(http.LocalAddrContextKey).(net.Addr); ok && loopback(to) {
		r.Out.Header.Set(innerLoopback, "1")
	}
}
