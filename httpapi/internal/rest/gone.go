package rest

import (
	"context"
	"errors"
	"io"
	"net"
	"time"

	"github.com/gofiber/fiber/v2"
)

// WatchAfter is how long a call on a desktop runs before its connection is
// watched. Most calls end earlier, and their connection is used again.
const WatchAfter = 500 * time.Millisecond

// noDeadline is a deadline that no call reaches. A read on a connection of Handler
// can be ended by a deadline only if it began with one.
const noDeadline = 365 * 24 * time.Hour

// errClientGone is the cause of contexts whose client closed its connection.
var errClientGone = errors.New("the client closed its connection")

// UntilGone returns a context that also ends when the client closes its connection.
// fasthttp does not report that, so UntilGone reads from the connection, which is
// closed after the answer (as in request.stream). The caller must call stop before
// it answers.
func UntilGone(ctx context.Context, c *fiber.Ctx) (_ context.Context, stop func()) {
	rc := c.Context()
	if rc.RequestBodyStream() != nil {
		if b := bodyOf(c); !b.ended && b.read != b.size {
			return ctx, func() {} // what would be read is the body
		}
	}
	conn := rc.Conn()
	if conn.SetReadDeadline(time.Now().Add(noDeadline)) != nil {
		return ctx, func() {}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	over, ended := make(chan struct{}), make(chan struct{})
	watch := time.AfterFunc(WatchAfter, func() {
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

// clientGone reports whether err is about the end of ctx because the client closed its connection.
func clientGone(ctx context.Context, err error) bool {
	return errors.Is(err, errClientGone) || errors.Is(err, context.Canceled) && errors.Is(context.Cause(ctx), errClientGone)
}

// wakeReader ends a read of conn and waits until ended is closed. A connection of
// Handler heeds a deadline only if it is in the future when it is set. A busy
// machine may miss that moment, so wakeReader repeats it.
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
