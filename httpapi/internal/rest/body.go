package rest

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net"
	"sync"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"
)

// body is a request's body. It records whether its end was read. After an
// error it returns no more data, because what follows may not be the body.
type body struct {
	r     io.Reader
	size  int // in bytes, or chunked
	read  int
	ended bool
	err   error
}

func (b *body) Read(p []byte) (int, error) {
	switch {
	case b.ended:
		return 0, io.EOF
	case b.err != nil:
		return 0, b.err
	}
	n, err := b.r.Read(p)
	b.read += n
	switch {
	case err == nil:
		return n, nil
	case !errors.Is(err, io.EOF):
		b.err = err
	case b.size != chunked && b.read < b.size:
		// fasthttp takes the end of the connection for the end of the body.
		b.err = io.ErrUnexpectedEOF
	default:
		b.ended = true
		return n, io.EOF
	}
	return n, b.err
}

type bodyKey struct{}

// bodyOf returns the body of a request, the same at every call.
func bodyOf(c *fiber.Ctx) *body {
	if b, ok := c.Locals(bodyKey{}).(*body); ok {
		return b
	}
	b := &body{}
	switch stream := c.Context().RequestBodyStream(); {
	case stream != nil:
		b.r, b.size = stream, c.Request().Header.ContentLength()
	default:
		whole := c.Request().Body()
		b.r, b.size = bytes.NewReader(whole), len(whole)
	}
	c.Locals(bodyKey{}, b)
	return b
}

// Limits of the unread body that is discarded to keep the connection.
const (
	DrainMost = 8 << 20
	drainTime = 2 * time.Second
)

// finishBody reads the rest of the body after the handler. If the rest is too large, it
// closes the connection, which would take the rest for the next request.
func (a *API) finishBody(c *fiber.Ctx) {
	rc := c.Context()
	if rc.RequestBodyStream() == nil {
		return
	}
	if ambiguous(c) {
		rc.SetConnectionClose()
	}
	b := bodyOf(c)
	if !b.ended && b.err == nil && b.size-b.read <= DrainMost {
		_ = rc.Conn().SetReadDeadline(time.Now().Add(drainTime))
		_, _ = io.CopyN(io.Discard, b, DrainMost)
	}
	_ = rc.Conn().SetReadDeadline(time.Time{}) // the handler may have set one as well
	if !b.ended {
		a.linger(rc)
	}
}

// lingerTime is how long the connection stays open for the sender of a body
// that was not read to its end.
const lingerTime = 5 * time.Second

// linger answers while the client is still sending, and closes the connection.
// To close it immediately would have the client's system throw the answer away with
// the connection (RFC 9112, section 9.6), so linger reads and discards for a
// while. fasthttp does not do that, so linger sends the answer itself.
func (a *API) linger(rc *fasthttp.RequestCtx) {
	rc.SetConnectionClose()
	if rc.Response.IsBodyStream() || rc.Hijacked() {
		return
	}
	e, under := a.EntryOf(rc), rc.Conn()
	rc.HijackSetNoResponse(true)
	rc.Hijack(func(conn net.Conn) {
		end, ok := e.sockets.begin(under)
		if !ok {
			return
		}
		defer end()
		_ = under.SetWriteDeadline(time.Now().Add(lingerTime))
		w := bufio.NewWriter(under)
		if rc.Response.Write(w) != nil || w.Flush() != nil {
			return
		}
		if half, ok := under.(interface{ CloseWrite() error }); ok {
			_ = half.CloseWrite()
		}
		_ = under.SetReadDeadline(time.Now().Add(lingerTime))
		read := make(chan struct{})
		var wait sync.WaitGroup
		wait.Go(func() {
			select {
			case <-e.Ending:
				_ = under.Close()
			case <-read:
			}
		})
		_, _ = io.Copy(io.Discard, conn)
		close(read)
		wait.Wait()
	})
}

// ambiguous reports whether a request gives its length in two ways. A proxy in front of
// this server may have seen another end of the request, so nothing that follows can be
// trusted (RFC 9112, section 6.3).
func ambiguous(c *fiber.Ctx) bool {
	h := &c.Request().Header
	return h.ContentLength() == chunked && bytes.Contains(bytes.ToLower(h.RawHeaders()), []byte("content-length"))
}

// badFraming returns why proxies may read the headers of a request in another way than this
// server, or "" (RFC 9112, sections 5.2 and 6.1).
func badFraming(c *fiber.Ctx) string {
	h := &c.Request().Header
	raw := h.RawHeaders()
	switch {
	case bytes.Contains(raw, []byte("\n ")), bytes.Contains(raw, []byte("\n\t")):
		return "a header continues on another line"
	case h.ContentLength() == chunked && bytes.Count(bytes.ToLower(raw), []byte("transfer-encoding")) > 1:
		return "it has two Transfer-Encoding headers"
	}
	return ""
}

// chunked is fasthttp's length of a chunked body.
const chunked = -1
