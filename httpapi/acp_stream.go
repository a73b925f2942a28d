package httpapi

import (
	"bufio"
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/gofiber/fiber/v2"

	"github.com/deskhand/deskhand/agents"
	"github.com/deskhand/deskhand/agents/eventlog"
	"github.com/deskhand/deskhand/httpapi/internal/rest"
)

func (s *Server) followACP(ctx context.Context, in *acpFollow) (*rest.EventsOutput, error) {
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
	return &rest.EventsOutput{
		ContentType: rest.EventStream, Cache: rest.StreamCache, Buffering: "no",
		Body: func(ctx huma.Context) {
			ctx.SetStatus(http.StatusOK)
			r := rest.RequestOf(ctx)
			if r.Method() == fiber.MethodHead {
				stream.Close()
				return
			}
			f := acpFollower{stream: stream, beat: rest.Heartbeat, tracker: &rest.FlushTracker{Sent: stream.Sent}}
			s.rest.Follow(r, f.tracker, func(w *bufio.Writer, flush func() error, gone, ending <-chan struct{}) {
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
	tracker *rest.FlushTracker
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
	ctx, stopped := rest.WhileWanted(gone, ending)
	defer stopped()
	f.write([]byte(": connected\n\n")) // so that the client sees the headers
	for {
		f.tracker.Mark(f.wrote, f.stream.Seq())
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
		f.write(rest.OneLine(e.Payload))
		f.write([]byte("\n\n"))
	}
}
