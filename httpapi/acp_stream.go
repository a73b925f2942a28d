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
		ContentType: eventStream, Cache: "no-cache", Buffering: "no",
		Body: func(ctx huma.Context) {
			ctx.SetStatus(http.StatusOK)
			r := requestOf(ctx)
			if r.Method() == fiber.MethodHead {
				stream.Close()
				return
			}
			ending := s.entryOf(r.c.Context()).ending
			s.streams.Add(1)
			r.stream(func(w *bufio.Writer, flush func() error, gone <-chan struct{}) {
				defer s.streams.Add(-1)
				defer stream.Close()
				f := acpFollower{w: w, flush: flush, stream: stream, beat: heartbeat}
				f.run(gone, ending)
			})
		},
	}, nil
}

// acpFollower sends one client what an agent says. It reads the log at its own
// pace, so that nobody waits for it and nothing is kept for it.
type acpFollower struct {
	w      *bufio.Writer
	flush  func() error
	stream *agents.Stream
	beat   time.Duration
	buf    []byte
}

// run sends events until the client, or the server, wants no more.
func (f *acpFollower) run(gone, ending <-chan struct{}) {
	ctx, stopped := whileWanted(gone, ending)
	defer stopped()
	_, _ = f.w.WriteString(": connected\n\n") // so that the client sees the headers
	for {
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
			_, _ = f.w.WriteString(": heartbeat\n\n")
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
		f.buf = append(f.buf, oneLine(e.Payload)...)
		f.buf = append(f.buf, "\n\n"...)
		_, _ = f.w.Write(f.buf) // flush tells the error
		if cap(f.buf) > 1<<20 {
			f.buf = nil
		}
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
