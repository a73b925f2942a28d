package httpapi

import (
	"bufio"
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/gofiber/fiber/v2"

	"github.com/deskhand/deskhand/agents"
	"github.com/deskhand/deskhand/agents/eventlog"
	"github.com/deskhand/deskhand/httpapi/internal/rest"
)

type transportFollow struct {
	ACPTarget
	Desktop string `query:"desktop" doc:"Of a WebSocket: a desktop that the agent gets, as tools and in its environment"`

	last, accept string
	socket       bool
}

// Resolve keeps what the answer depends on.
func (in *transportFollow) Resolve(ctx huma.Context) []error {
	r := rest.RequestOf(ctx)
	in.last, in.accept, in.socket = strings.TrimSpace(r.Fiber.Get("Last-Event-ID")), r.Fiber.Get(fiber.HeaderAccept), wantsSocket(r)
	return nil
}

// seen is the last event that the client has, or negative when it does not say.
func (in *transportFollow) seen() (int64, error) {
	switch {
	case !rest.Accepts(in.accept, rest.EventStream):
		return 0, rest.NotAcceptable.Problem("not acceptable: Accept must allow text/event-stream").With("field", fiber.HeaderAccept)
	case in.Connection == "":
		return 0, noHeader()
	case in.last == "":
		return -1, nil
	}
	n, err := strconv.ParseInt(in.last, 10, 64)
	if err != nil || n < 0 {
		return 0, badHeader("Last-Event-ID", "must be a non-negative integer")
	}
	return n, nil
}

func (s *Server) followTransport(ctx context.Context, in *transportFollow) (*rest.EventsOutput, error) {
	if in.socket {
		return s.connectSocket(ctx, in)
	}
	seen, err := in.seen()
	if err != nil {
		return nil, err
	}
	host, err := s.agents.get(ctx)
	if err != nil {
		return nil, acpError(err, in.Connection, in.Agent)
	}
	c, err := s.connections.find(ctx, host, in.Connection, in.Agent)
	if err != nil {
		return nil, err
	}
	r, err := c.attach(in.Session, seen)
	if err != nil {
		return nil, err
	}
	stream, err := host.Follow(ctx, c.id, agents.Replay{After: max(r.from, 0), All: r.from == 0, None: r.from < 0})
	if err != nil {
		c.detach(r)
		return nil, connectionError(err, c)
	}
	return &rest.EventsOutput{
		ContentType: rest.EventStream, Cache: rest.StreamCache, Buffering: "no",
		Body: func(ctx huma.Context) { s.sendTransport(rest.RequestOf(ctx), c, r, stream) },
	}, nil
}

// sendTransport answers with a stream's events.
func (s *Server) sendTransport(r *rest.Request, c *connection, of *reader, stream *agents.Stream) {
	r.SetStatus(http.StatusOK)
	if r.Method() == fiber.MethodHead {
		stream.Close()
		c.detach(of)
		return
	}
	s.rest.Follow(r, nil, func(w *bufio.Writer, flush func() error, gone, ending <-chan struct{}) {
		defer c.detach(of)
		defer stream.Close()
		f := transportFollower{connection: c, reader: of, w: w, flush: flush, stream: stream, beat: rest.Heartbeat}
		f.run(gone, ending)
	})
}

// transportFollower sends what belongs to one stream. It reads the log at its
// own pace, so that nobody waits for it and nothing is kept for it.
type transportFollower struct {
	*connection

	reader *reader
	w      *bufio.Writer
	flush  func() error
	stream *agents.Stream
	beat   time.Duration
	buf    []byte
}

// run sends events until nobody wants more, or the agent has ended.
func (f *transportFollower) run(gone, ending <-chan struct{}) {
	wanted, stopped := rest.WhileWanted(gone, ending)
	defer stopped()
	defer context.AfterFunc(wanted, f.reader.end)()
	_, _ = f.w.WriteString(": connected\n\n") // so that the client sees the headers
	seq := f.stream.Seq()
	for over := false; ; {
		if f.flush() != nil {
			return
		}
		f.reached(f.reader, seq)
		if over {
			return
		}
		wait, stop := context.WithTimeout(f.reader.ctx, f.beat)
		events, err := f.stream.Next(wait)
		stop()
		switch {
		case err == nil:
			seq, over = f.send(events)
		case errors.Is(err, context.DeadlineExceeded) && f.reader.ctx.Err() == nil:
			_, _ = f.w.WriteString(": heartbeat\n\n")
		default:
			return
		}
	}
}

// send sends those of some events that belong to the stream, and tells how far
// it came, and whether the connection's agent ended there.
func (f *transportFollower) send(events []eventlog.Event) (seq int64, over bool) {
	for i := range events {
		e := &events[i]
		seq = e.Seq
		// An end that was there before the stream was opened is history: the next
		// message starts the agent again, or is refused.
		if exited(e) && e.Seq > f.stream.Newest() {
			return seq, true
		}
		session, ok := streamOf(e)
		if !ok {
			continue
		}
		if f.reader.session == "" && session != "" {
			f.note(session, e.Seq)
		}
		if session != f.reader.session {
			continue
		}
		f.buf = append(f.buf[:0], "id: "...)
		f.buf = strconv.AppendInt(f.buf, e.Seq, 10)
		f.buf = append(f.buf, "\ndata: "...)
		_, _ = f.w.Write(f.buf) // flush returns the error
		_, _ = f.w.Write(rest.OneLine(e.Payload))
		_, _ = f.w.WriteString("\n\n")
	}
	return seq, false
}

// exited tells whether an event is the end of an agent's process.
func exited(e *eventlog.Event) bool {
	return e.Kind == "_adapter/agent_exited" && e.Dir == eventlog.Daemon
}

// streamOf is the session to whose stream an event belongs; none: it is the
// connection's. What the agent did not say, and what the answer to initialize
// has told, belongs to none. A client cannot have a session's stream before it
// knows the session, which is why answers that make one are the connection's,
// and so, by the RFD, is that to session/load.
func streamOf(e *eventlog.Event) (session string, ok bool) {
	switch e.Kind {
	case "response:initialize":
		return "", false
	case "response:session/new", "response:session/fork", "response:session/load":
		return "", true
	}
	said := len(e.Payload) > 0 && e.Payload[0] == '{' && !(e.Dir == eventlog.Daemon && strings.HasPrefix(e.Kind, "_adapter/"))
	if !said || e.Session != "" {
		return e.Session, said
	}
	m, _ := agents.Inspect(e.Payload) // the host does not know the session yet
	return m.Session, true
}
