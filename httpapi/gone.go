package httpapi

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/gofiber/fiber/v2"
)

// watchAfter is how long a call on a desktop runs before its connection is
// watched. Most calls are over by then, and keep their connection.
const watchAfter = 500 * time.Millisecond

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
	ctx, cancel := context.WithCancelCause(ctx)
	conn, over := rc.Conn(), make(chan struct{})
	var mu sync.Mutex // orders the deadlines of the connection
	var wait sync.WaitGroup
	watched := false
	watch := func() bool {
		mu.Lock()
		defer mu.Unlock()
		select {
		case <-over:
		default:
			watched = conn.SetReadDeadline(time.Time{}) == nil
		}
		return watched
	}
	wait.Go(func() {
		t := time.NewTimer(watchAfter)
		defer t.Stop()
		select {
		case <-over:
			return
		case <-t.C:
		}
		if !watch() {
			return
		}
		_, _ = io.Copy(io.Discard, conn)
		select {
		case <-over: // the deadline that stop sets
		default:
			cancel(errClientGone)
		}
	})
	return ctx, func() {
		mu.Lock()
		close(over)
		_ = conn.SetReadDeadline(time.Unix(1, 0))
		mu.Unlock()
		wait.Wait()
		cancel(nil)
		if watched {
			rc.SetConnectionClose()
		}
		_ = conn.SetReadDeadline(time.Time{})
	}
}
