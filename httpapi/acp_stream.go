package httpapi

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"net/http"
	"strconv"
	"sync"
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
			f := acpFollower{stream: stream, beat: heartbeat}
			s.follow(r, f.told, func(w *bufio.Writer, flush func() error, gone, ending <-chan struct{}) {
				defer stream.Close()
				f.w, f.flush = w, flush
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
	wrote  int64 // bytes

	mu    sync.Mutex // guards what follows
	marks []acpMark  // that told has not reached
}

// acpMark is a place in what was written to a client.
type acpMark struct{ bytes, seq int64 }

// pass sends what was written, and remembers that it ends with that event.
func (f *acpFollower) pass() error {
	f.mu.Lock()
	if n := len(f.marks); n == 0 || f.marks[n-1].seq < f.stream.Seq() {
		f.marks = append(f.marks, acpMark{f.wrote, f.stream.Seq()})
	}
	f.mu.Unlock()
	return f.flush()
}

// told lets go who waits until the client has been sent an event.
func (f *acpFollower) told(bytes int64) {
	f.mu.Lock()
	n := 0
	for n < len(f.marks) && f.marks[n].bytes <= bytes {
		n++
	}
	passed := f.marks[:n]
	f.marks = f.marks[n:]
	f.mu.Unlock()
	if n > 0 {
		f.stream.Sent(passed[n-1].seq)
	}
}

// write writes to the client's buffer; pass tells the error.
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
		if f.pass() != nil {
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
		f.buf = append(f.buf, oneLine(e.Payload)...)
		f.buf = append(f.buf, "\n\n"...)
		f.write(f.buf)
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
