package httpapi

import (
	"bytes"
	"errors"
	"io"
	"time"

	"github.com/gofiber/fiber/v2"
)

// body is a request's body, which remembers whether its end was seen.
type body struct {
	r     io.Reader
	ended bool
}

func (b *body) Read(p []byte) (int, error) {
	if b.ended {
		return 0, io.EOF
	}
	n, err := b.r.Read(p)
	if errors.Is(err, io.EOF) {
		b.ended = true
	}
	return n, err
}

type bodyKey struct{}

// bodyOf is the body of a request, the same at every call.
func bodyOf(c *fiber.Ctx) *body {
	if b, ok := c.Locals(bodyKey{}).(*body); ok {
		return b
	}
	b := &body{}
	switch stream := c.Context().RequestBodyStream(); {
	case stream != nil:
		b.r = stream
	default:
		b.r = bytes.NewReader(c.Request().Body())
	}
	c.Locals(bodyKey{}, b)
	return b
}

// What is read of a body that nobody wanted, so that its sender gets to see
// the answer, and for how long.
const (
	drainMost = 8 << 20
	drainTime = 2 * time.Second
)

// finishBody reads what a handler left of the body. What then is still left
// would be taken for the connection's next request: the connection is closed.
func finishBody(c *fiber.Ctx) {
	if c.Context().RequestBodyStream() == nil {
		return
	}
	if ambiguous(c) {
		c.Context().SetConnectionClose()
	}
	b := bodyOf(c)
	if !b.ended {
		_ = c.Context().Conn().SetReadDeadline(time.Now().Add(drainTime))
		_, _ = io.CopyN(io.Discard, b, drainMost)
		_ = c.Context().Conn().SetReadDeadline(time.Time{})
	}
	if !b.ended {
		c.Context().SetConnectionClose()
	}
}

// ambiguous says whether a request tells its length in two ways. Somebody in
// front of this server may have seen another end of it, so that nothing that
// follows can be trusted (RFC 9112, section 6.3).
func ambiguous(c *fiber.Ctx) bool {
	h := &c.Request().Header
	return h.ContentLength() == chunked && bytes.Contains(bytes.ToLower(h.RawHeaders()), []byte("content-length"))
}

// chunked is what fasthttp has for a length in place of a number.
const chunked = -1
