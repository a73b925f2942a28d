package httpapi

import (
	"context"
	"errors"
	"io"
	"net"
	"time"

	"github.com/gofiber/fiber/v2"
)

// watchAfter is how long a call on a desktop runs before its connection is
// watched. Most calls are over by then, and keep their connection.
const watchAfter = 500 * time.Millisecond

// noDeadline is a deadline that no call reaches. The connections of Handler can
// wake a reader only if it began to read with a deadline.
const noDeadline = 365 * 24 * time.Hour

// errClientGone is the cause of contexts whose client closed its connection.
var errClientGone = errors.New("the client closed its connection")

// untilGone returns a context that also ends when the client closes its
// connection, of which fasthttp tells nothing. Only reading the connection tells;
// as in request.stream, it is not used again after it was read. The caller calls
// stop before it answers.
func untilGone(ctx context.Context, c *fiber.Ctx) (_ context.Context, stop func()) {
	rc := c.Context()
	if rc.RequestBodyStream() != nil && !bodyOf(c).ended {
		return ctx, func() {} // what would be read is the body
	}
	conn := rc.Conn()
	if conn.SetReadDeadline(time.Now().Add(noDeadline)) != nil {
		return ctx, func() {}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	over, ended := make(chan struct{}), make(chan struct{})
	watch := time.AfterFunc(watchAfter, func() {
		defer close(ended)
		_, _ = io.Copy(io.Discard, conn)
		select {
		case <-over: // the deadline that stop sets
		default:
			cancel(errClientGone)
		}
	})
	return ctx, func() {
		if !watch.Stop() {
			close(over)
			wakeReader(conn, ended)
			rc.SetConnectionClose()
		}
		cancel(nil)
		_ = conn.SetReadDeadline(time.Time{})
	}
}

// wakeReader ends a read of conn and waits until ended is closed. A connection of
// Handler wakes its reader only at a deadline that is in the future when it is
// set, which a busy machine may miss. Hence the repetition.
func wakeReader(conn net.Conn, ended <-chan struct{}) {
	for delay := time.Millisecond; ; delay *= 2 {
		_ = conn.SetReadDeadline(time.Now().Add(delay))
		select {
		case <-ended:
			return
		case <-time.After(10 * delay):
		}
	}
}
