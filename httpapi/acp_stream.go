package httpapi

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/gofiber/fiber/v2"

	"github.com/deskhand/deskhand/agents"
	"github.com/deskhand/deskhand/agents/eventlog"
)

func (s *Server) followACP(ctx context.Context, in *acpFollow) (*eventsOutput, error) {
	replay, err := in.replay()
	if err != nil {
		return nil, err
	}
	host, err := s.agents.get(ctx)
	if err != nil {
		return nil, acpError(err, in.ID, "")
	}
	stream, err := host.Follow(ctx, in.ID, replay)
	if err != nil {
		return nil, acpError(err, in.ID, "")
	}
	return &eventsOutput{
		ContentType: eventStream, Cache: streamCache, Buffering: "no",
		Body: func(ctx huma.Context) {
			ctx.SetStatus(http.StatusOK)
			r := requestOf(ctx)
			if r.Method() == fiber.MethodHead {
				stream.Close()
				return
			}
			f := acpFollower{stream: stream, beat: heartbeat, tracker: &flushTracker{sent: stream.Sent}}
			s.follow(r, f.tracker, func(w *bufio.Writer, flush func() error, gone, ending <-chan struct{}) {
				defer stream.Close()
				f.w, f.flush = w, flush
				f.run(gone, ending)
			})
		},
	}, nil
}

// acpFollower sends one client what an agent says. It reads the log at its own
// pace. By its tracker, answers of POST wait until it has sent the events before them:
// see [agents.Host.Post].
type acpFollower struct {
	w       *bufio.Writer
	flush   func() error
	tracker *flushTracker
	stream  *agents.Stream
	beat    time.Duration
	buf     []byte
	wrote   int64 // bytes
}

// write writes to the client's buffer; flush returns the error.
func (f *acpFollower) write(b []byte) {
	n, _ := f.w.Write(b)
	f.wrote += int64(n)
}

// run sends events until the client, or the server, wants no more.
func (f *acpFollower) run(gone, ending <-chan struct{}) {
	ctx, stopped := whileWanted(gone, ending)
	defer stopped()
	f.write([]byte(": connected\n\n")) // so that the client sees the headers
	for {
		f.tracker.mark(f.wrote, f.stream.Seq())
		if f.flush() != nil {
			return
		}
		wait, stop := context.WithTimeout(ctx, f.beat)
		events, err := f.stream.Next(wait)
		stop()
		switch {
		case err == nil:
			f.send(events)
		case errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil:
			f.write([]byte(": heartbeat\n\n"))
		default:
			return
		}
	}
}

func (f *acpFollower) send(events []eventlog.Event) {
	for i := range events {
		e := &events[i]
		f.buf = append(f.buf[:0], "event: message\nid: "...)
		f.buf = strconv.AppendInt(f.buf, e.Seq, 10)
		f.buf = append(f.buf, "\ndata: "...)
		f.write(f.buf)
		f.write(oneLine(e.Payload))
		f.write([]byte("\n\n"))
	}
}

// oneLine keeps a message from ending an event early.
func oneLine(b []byte) []byte {
	if bytes.IndexByte(b, '\n') < 0 && bytes.IndexByte(b, '\r') < 0 {
		return b
	}
	return bytes.Map(func(r rune) rune {
		if r == '\n' || r == '\r' {
			return ' '
		}
		return r
	}, b)
}
