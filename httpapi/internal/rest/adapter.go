package rest

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"mime/multipart"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"

	"github.com/deskhand/deskhand/httpapi/internal/grants"
)

// adapter lets huma register its operations with fiber v2. huma's own package
// for that links fiber v3 in as well.
type adapter struct {
	api     *API
	bodies  *bodyMemory // of requests
	answers *bodyMemory
	http    func() http.Handler // for huma's ServeHTTP
}

// Handle registers one operation. Every GET answers HEAD too.
func (a *adapter) Handle(op *huma.Operation, handler func(huma.Context)) {
	path := strings.NewReplacer("{", ":", "}", "").Replace(op.Path)
	f := func(c *fiber.Ctx) error {
		r := &Request{op: op, Fiber: c, bodies: a.bodies, asked: askedOf(c), keep: a.api.cfg.Forward}
		r.ctx = context.WithValue(c.UserContext(), requestKey{}, r)
		defer func() { r.buffered.release(); r.giveBack() }()
		handler(r)
		if r.elsewhere != "" {
			if err := (forwarder{a.api}).forward(r); err != nil {
				return err
			}
		}
		return r.holdAnswer(a.answers)
	}
	if op.Method == http.MethodGet {
		a.api.app.Add(http.MethodHead, path, f)
	}
	a.api.app.Add(op.Method, path, f)
	a.api.Routes = append(a.api.Routes, op)
}

// ServeHTTP serves one request of net/http.
func (a *adapter) ServeHTTP(w http.ResponseWriter, r *http.Request) { a.http().ServeHTTP(w, r) }

// Request is a huma.Context over a fiber one.
type Request struct {
	op     *huma.Operation
	Fiber  *fiber.Ctx
	ctx    context.Context //nolint:containedctx // huma's interface asks for it; it ends with the request
	status int
	forced int // the status to send instead of the one that huma chooses
	Empty  bool
	opened io.Reader
	Grant  *grants.Grant // of the token that it came with; nil: the server's own, or none
	asked  asked

	bodies   *bodyMemory
	buffered *buffered              // the body, when huma reads it into memory
	endless  bool                   // the answer of streamTracked is never complete
	keep     bool                   // the body's bytes are kept, for forward
	places   []chan struct{}        // that take has taken
	raw      []byte                 // what send got
	encode   func([]byte) io.Reader // of SendEncoded

	elsewhere string // the address of the server that answers instead; empty: this one does
}

var _ huma.Context = (*Request)(nil)

// RequestOf returns the request behind a context of huma.
func RequestOf(ctx huma.Context) *Request {
	for {
		switch c := ctx.(type) {
		case *Request:
			return c
		case interface{ Unwrap() huma.Context }:
			ctx = c.Unwrap()
		default:
			panic("httpapi: a context that this adapter did not make")
		}
	}
}

type requestKey struct{}

// RequestIn returns the request whose route got ctx, or nil.
func RequestIn(ctx context.Context) *Request {
	r, _ := ctx.Value(requestKey{}).(*Request)
	return r
}

// holdAnswer counts a large answer until it is written, because a client can read it as slowly as
// it likes. It returns a Problem if there is no memory for the answer. The call has been carried out then.
func (r *Request) holdAnswer(memory *bodyMemory) error {
	response := r.Fiber.Response()
	if response.IsBodyStream() || r.Fiber.Method() == http.MethodHead && r.encode == nil || r.Fiber.Context().Hijacked() || len(response.Body()) <= Prefetch {
		return nil
	}
	body := r.raw
	if body == nil {
		body = response.SwapBody(nil) // else fasthttp would use its memory again
	}
	size, encode := len(body), r.encode
	if encode == nil {
		encode = func(body []byte) io.Reader { return bytes.NewReader(body) }
	} else {
		size = -1 // fasthttp sends it in chunks
	}
	a := &heldAnswer{Reader: encode(body), memory: memory, size: int64(cap(body)), guest: r.guest()}
	if !memory.take(a.size, a.guest) {
		response.ResetBody()
		for _, name := range []string{fiber.HeaderETag, fiber.HeaderLastModified, fiber.HeaderContentDisposition} {
			response.Header.Del(name)
		}
		return r.noRoom()
	}
	a.end = r.Grant.Hold(r.Fiber.Context().Conn())
	response.SetBodyStream(a, size)
	return nil
}

// noRoom returns the problem of an answer for which there is no memory. Only a call that changes
// nothing may be repeated.
func (r *Request) noRoom() *Problem {
	const why = "too many large answers are being sent"
	if method := r.Fiber.Method(); method == http.MethodGet || method == http.MethodHead {
		return Unavailable.Problem(why+"; try again later").WithHeader(fiber.HeaderRetryAfter, "1")
	}
	done := "the call was carried out"
	if r.Fiber.Response().StatusCode() >= http.StatusBadRequest {
		done = "the call has failed"
	}
	return answerNotSent.Problem(done + ", and only its answer could not be sent, because " + why + "; look at what it has changed before another call")
}

// Limited reports whether the request has a token of a scope other than admin.
func (r *Request) Limited() bool { return r.Grant != nil && r.Grant.Scope != grants.ScopeAdmin }

// guest returns the token of a request that is Limited, and nil for others.
func (r *Request) guest() *grants.Grant {
	if r.Limited() {
		return r.Grant
	}
	return nil
}

// heldAnswer is an answer that memory counts until fasthttp closes it.
type heldAnswer struct {
	io.Reader
	memory *bodyMemory
	size   int64
	guest  *grants.Grant // see bodyMemory.take
	end    func()        // the token's end closes the connection until then
}

// Close implements io.Closer.
func (a *heldAnswer) Close() error {
	a.end()
	a.memory.release(a.size, a.guest)
	a.size = 0
	return nil
}

// WithContext replaces the context that handlers get.
func (r *Request) WithContext(ctx context.Context) huma.Context {
	r.Fiber.SetUserContext(ctx)
	r.ctx = ctx
	return r
}

// Operation returns the operation that the request is of.
func (r *Request) Operation() *huma.Operation { return r.op }

// Context returns the context that the function of the route gets.
func (r *Request) Context() context.Context { return r.ctx }

// TLS returns the state of TLS, or nil.
func (r *Request) TLS() *tls.ConnectionState { return r.Fiber.Context().TLSConnectionState() }

// Version returns the version of HTTP.
func (r *Request) Version() huma.ProtoVersion {
	major, minor, ok := http.ParseHTTPVersion(r.Fiber.Protocol())
	if !ok {
		major, minor = 1, 1
	}
	return huma.ProtoVersion{Proto: r.Fiber.Protocol(), ProtoMajor: major, ProtoMinor: minor}
}

// Method returns the method.
func (r *Request) Method() string { return r.Fiber.Method() }

// Host returns the name by which the client knows this server.
func (r *Request) Host() string { return r.Fiber.Hostname() }

// RemoteAddr returns the address of the connection.
func (r *Request) RemoteAddr() string { return r.Fiber.Context().RemoteAddr().String() }

// URL returns the URL.
func (r *Request) URL() url.URL {
	u, err := url.ParseRequestURI(string(r.Fiber.Request().RequestURI()))
	if err != nil {
		return url.URL{Path: r.Fiber.Path()}
	}
	return *u
}

// Param returns a parameter of the path, decoded.
func (r *Request) Param(name string) string { return param(r.Fiber, name) }

// param returns a path parameter, decoded.
func param(c *fiber.Ctx, name string) string {
	raw := c.Params(name)
	if v, err := url.PathUnescape(raw); err == nil {
		return v
	}
	return raw
}

// Query returns the first parameter of the query with that name.
func (r *Request) Query(name string) string { return r.Fiber.Query(name) }

// Header returns a request header. For a JSON operation, an empty body counts as {},
// and a body without a type as one of the wrong type: browsers send such bodies
// across sites without asking.
func (r *Request) Header(name string) string {
	v := r.Fiber.Get(name)
	if strings.EqualFold(name, fiber.HeaderContentType) && r.takesJSON() {
		r.open()
		switch {
		case r.Empty:
			return fiber.MIMEApplicationJSON
		case v == "":
			return fiber.MIMEOctetStream
		}
	}
	return v
}

// EachHeader calls cb with each header.
func (r *Request) EachHeader(cb func(name, value string)) {
	for name, value := range r.Fiber.Request().Header.All() {
		cb(string(name), string(value))
	}
}

func (r *Request) takesJSON() bool {
	return r.op.RequestBody != nil && r.op.RequestBody.Content[fiber.MIMEApplicationJSON] != nil
}

// BodyReader returns the request's body for huma, which reads it into memory.
func (r *Request) BodyReader() io.Reader {
	r.open()
	r.buffered = &buffered{Reader: r.opened, memory: r.bodies, guest: r.guest(), keep: r.keep}
	size := min(int64(bodyOf(r.Fiber).size), r.op.MaxBodyBytes) // huma reads no more
	if err := r.buffered.reserve(size); err != nil {
		return failingReader{err}
	}
	return r.buffered
}

// open reports whether there is a body.
func (r *Request) open() {
	if r.opened != nil {
		return
	}
	body := bodyOf(r.Fiber)
	first := make([]byte, 1)
	_, err := io.ReadFull(body, first)
	switch {
	case err == nil:
		r.opened = io.MultiReader(bytes.NewReader(first), body)
	case errors.Is(err, io.EOF):
		r.Empty, r.opened = true, bytes.NewReader(nil)
		if r.takesJSON() {
			r.opened = strings.NewReader("{}")
		}
	default:
		r.opened = failingReader{err}
	}
}

type failingReader struct{ err error }

func (f failingReader) Read([]byte) (int, error) { return 0, f.err }

// GetMultipartForm returns the form that the body is.
func (r *Request) GetMultipartForm() (*multipart.Form, error) { return r.Fiber.MultipartForm() }

// SetReadDeadline sets the deadline for reading the body.
func (r *Request) SetReadDeadline(t time.Time) error {
	return r.Fiber.Context().Conn().SetReadDeadline(t)
}

// SetStatus sets the status of the answer.
func (r *Request) SetStatus(code int) {
	if r.forced != 0 {
		code = r.forced
	}
	r.status = code
	r.Fiber.Status(code)
}

// Status returns the status of the answer.
func (r *Request) Status() int { return r.status }

// AppendHeader adds a header to the answer.
func (r *Request) AppendHeader(name, value string) { r.Fiber.Response().Header.Add(name, value) }

// SetHeader sets a header of the answer.
func (r *Request) SetHeader(name, value string) { r.Fiber.Set(name, value) }

// BodyWriter returns a writer of the answer's body.
func (r *Request) BodyWriter() io.Writer { return r.Fiber.Context() }

// Send answers with a body that is not copied; it must not change any more.
func (r *Request) Send(body []byte) {
	r.raw = body
	r.Fiber.Response().SetBodyRaw(body)
}

// SendEncoded answers with what encode reads from body, which must not change any more. It
// keeps only body in memory, and not all that encode makes of it.
func (r *Request) SendEncoded(body []byte, encode func([]byte) io.Reader) {
	if len(body) > Prefetch {
		r.encode = encode
		r.Send(body)
		return
	}
	encoded, _ := io.ReadAll(encode(body)) // encoders of memory have no error
	r.Send(encoded)
}

// Stream answers with what f writes. f runs after the handler has returned,
// gets a flush that fails when the client has gone, and must return soon after
// gone is closed.
func (r *Request) Stream(f func(w *bufio.Writer, flush func() error, gone <-chan struct{})) {
	r.streamTracked(nil, f)
}

// streamTracked is like stream. The tracker, unless it is nil, reports what of the
// stream was written to the connection.
func (r *Request) streamTracked(tracker *FlushTracker, f func(w *bufio.Writer, flush func() error, gone <-chan struct{})) {
	rc := r.Fiber.Context()
	conn := rc.Conn()
	// fasthttp does not report that a client has disconnected. A read of the
	// connection, on which nothing more is expected, ends then. The connection is not
	// used again. After this header some clients take the end of a connection for the end of
	// the answer, even when the server was killed.
	if !r.endless {
		rc.SetConnectionClose()
	}
	g := r.Grant
	body := fasthttp.NewStreamReader(func(w *bufio.Writer) {
		defer g.Hold(conn)()
		gone := make(chan struct{})
		go func() {
			defer close(gone)
			_ = conn.SetReadDeadline(time.Time{})
			buf := make([]byte, 512)
			for {
				if _, err := conn.Read(buf); err != nil {
					return
				}
			}
		}()
		out := bufio.NewWriter(pieceWriter{w, conn})
		f(out, func() error {
			if err := out.Flush(); err != nil {
				return err
			}
			_ = conn.SetWriteDeadline(time.Now().Add(slowClient))
			return w.Flush()
		}, gone)
		_ = out.Flush() // an error ends the connection
		if r.endless {
			_ = conn.Close()
		}
	})
	if tracker != nil {
		tracker.body, body = body, tracker
	}
	rc.SetBodyStream(body, -1)
}

// pieceWriter writes to a stream in pieces. fasthttp keeps copies of a few writes that
// the client has not accepted, however large they are.
type pieceWriter struct {
	w    io.Writer
	conn net.Conn
}

const pieceBytes = 64 << 10

// Write implements [io.Writer].
func (p pieceWriter) Write(b []byte) (n int, err error) {
	for n < len(b) && err == nil {
		_ = p.conn.SetWriteDeadline(time.Now().Add(slowClient))
		var m int
		m, err = p.w.Write(b[n:min(n+pieceBytes, len(b))])
		n += m
	}
	return n, err
}

// slowClient is how long a client may take to accept what was written to it.
const slowClient = 30 * time.Second

// WhileWanted returns a context that ends when the client disconnects or the server
// closes. stop ends it, too, and waits for its goroutine.
func WhileWanted(gone, ending <-chan struct{}) (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		select {
		case <-gone:
		case <-ending:
		case <-ctx.Done():
		}
		cancel()
	})
	return ctx, func() { cancel(); wg.Wait() }
}

// Follow is like streamTracked, with a stream that is counted among the server's and
// must end soon after ending is closed as well.
func (a *API) Follow(r *Request, tracker *FlushTracker, f func(w *bufio.Writer, flush func() error, gone, ending <-chan struct{})) {
	ending := a.EntryOf(r.Fiber.Context()).Ending
	a.streams.Add(1)
	r.streamTracked(tracker, func(w *bufio.Writer, flush func() error, gone <-chan struct{}) {
		defer a.streams.Add(-1)
		f(w, flush, gone, ending)
	})
}
