package rest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"sync"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp/fasthttputil"

	"github.com/deskhand/deskhand/internal/plainjson"
)

// The headers in which Handler passes on what it knows of a connection. What a
// client sends in them is dropped.
const (
	innerClient   = "Deskhand-Client"   // the client's address
	innerLoopback = "Deskhand-Loopback" // set when it came to a loopback address
)

// Mount adds the API's routes to a fiber app.
func (a *API) Mount(app *fiber.App) error {
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
	case <-a.closing:
		return ErrClosed
	default:
	}
	for _, path := range []string{"/v1", "/v1/*", "/opencomputer/*", "/opencode/*", "/ui", "/ui/*", "/docs", "/docs/*", "/llms.txt", "/openapi.json", "/livez", "/readyz", "/metrics"} {
		app.All(path, func(c *fiber.Ctx) error {
			a.answer(c.Context())
			return nil
		})
	}
	return nil
}

// Handler returns the API as an http.Handler.
func (a *API) Handler() http.Handler { return a.handler() }

// bridge passes requests of net/http on to fiber.
type bridge struct{ *API }

// newHandler serves an in-memory listener behind a reverse proxy: fiber's own
// adaptor to net/http holds bodies in memory and cannot stream.
func (a bridge) newHandler() http.Handler {
	if err := a.Begin(); err != nil {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
		})
	}
	ln := fasthttputil.NewInmemoryListener()
	e := &entry{proxied: true, Ending: a.closing, sockets: new(sockets)}
	srv := a.newFastHTTP(e)
	transport := &http.Transport{
		DialContext:         func(context.Context, string, string) (net.Conn, error) { return ln.Dial() },
		DisableCompression:  true,
		MaxIdleConnsPerHost: 64,
	}
	go func() {
		defer a.Serving.Done()
		served := make(chan struct{})
		go func() { defer close(served); _ = srv.Serve(ln) }()
		<-a.closing
		grace, cancel := context.WithTimeout(context.Background(), graceTime)
		defer cancel()
		_ = srv.ShutdownWithContext(grace)
		transport.CloseIdleConnections()
		_ = ln.Close()
		<-served
		e.sockets.wait()
	}()
	return a.receive(a.proxy(transport))
}

// proxy passes requests on to the inside.
func (a bridge) proxy(inside http.RoundTripper) *httputil.ReverseProxy {
	return &httputil.ReverseProxy{
		Rewrite:       a.rewrite,
		Transport:     inside,
		FlushInterval: -1,
		ErrorLog:      slog.NewLogLogger(a.log.Handler(), slog.LevelDebug), // else it would write to standard error
		ModifyResponse: func(r *http.Response) error {
			// Inside, the rest of the body is not wanted; outside it still comes.
			if in, ok := r.Request.Context().Value(incomingKey{}).(*incoming); ok && r.Close && !in.ended() {
				r.Header.Set("Connection", "close")
			}
			return nil
		},
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			a.log.Debug("handler", "path", r.URL.Path, "error", err)
			p := Unavailable.Problem(fmt.Sprintf("the server did not answer: %v", err))
			if in, ok := r.Context().Value(incomingKey{}).(*incoming); ok {
				p = cmp.Or(in.problem(err), p)
			}
			text, _ := plainjson.Marshal(p)
			w.Header().Set("Content-Type", ProblemType)
			w.WriteHeader(p.Status)
			_, _ = w.Write(text)
		},
	}
}

// receive passes requests on with bodies that may take any time, as long as they
// move, and lets answers pass before a body has come to its end: net/http would
// read a part of it first.
func (a bridge) receive(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Body != nil && r.Body != http.NoBody {
			control := http.NewResponseController(w)
			_ = control.EnableFullDuplex() // HTTP/2 always is
			in := &incoming{ReadCloser: r.Body, control: control, patience: a.Patience}
			r = r.WithContext(context.WithValue(r.Context(), incomingKey{}, in))
			r.Body = in
		}
		next.ServeHTTP(w, r)
	})
}

// incoming is the body of a request on its way inside, which remembers why it
// ended early.
type incoming struct {
	io.ReadCloser

	control  *http.ResponseController
	patience time.Duration

	mu   sync.Mutex
	read int64
	err  error // io.EOF is none to problem
}

type incomingKey struct{}

// Read is called by the transport.
func (in *incoming) Read(p []byte) (int, error) {
	_ = in.control.SetReadDeadline(time.Now().Add(in.patience))
	n, err := in.ReadCloser.Read(p)
	in.mu.Lock()
	defer in.mu.Unlock()
	in.read += int64(n)
	if err != nil {
		in.err = err
	}
	return n, err
}

// ended says whether all of it was read.
func (in *incoming) ended() bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	return errors.Is(in.err, io.EOF)
}

// problem is the answer when passing the request on failed with err because of
// the body, or nil. The end of a connection is noticed by the context, too.
func (in *incoming) problem(err error) *Problem {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.err == nil && errors.Is(err, context.Canceled) {
		in.err = io.ErrUnexpectedEOF
	}
	if in.err == nil || errors.Is(in.err, io.EOF) {
		return nil
	}
	return brokenOff(in.err, in.read, in.patience)
}

// rewrite sends a request inside as it came.
func (a bridge) rewrite(r *httputil.ProxyRequest) {
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
