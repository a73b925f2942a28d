package acp

import (
	"context"
	"strconv"
	"strings"

	"github.com/gofiber/fiber/v2"

	"github.com/deskhand/deskhand/agents"
	"github.com/deskhand/deskhand/agents/eventlog"
	"github.com/deskhand/deskhand/httpapi/internal/rest"
)

type transportFollow struct {
	Target
	Desktop string `query:"desktop" doc:"Desktop for the agent, as tools and in its environment; only with a WebSocket"`
}

// seen returns the last event that the client has seen, or -1 if it does not say.
func (in *transportFollow) seen(r *rest.Request) (int64, error) {
	last := strings.TrimSpace(r.Fiber.Get("Last-Event-ID"))
	switch {
	case !rest.Accepts(r.Fiber.Get(fiber.HeaderAccept), rest.EventStream):
		return 0, rest.NotAcceptable.Problem("not acceptable: Accept must allow text/event-stream").With("field", fiber.HeaderAccept)
	case in.Connection == "":
		return 0, noHeader()
	case last == "":
		return -1, nil
	}
	n, err := strconv.ParseInt(last, 10, 64)
	if err != nil || n < 0 {
		return 0, badHeader("Last-Event-ID", "must be a non-negative integer")
	}
	return n, nil
}

func (a *Area) followTransport(ctx context.Context, in *transportFollow) (*rest.EventsOutput, error) {
	request := rest.RequestIn(ctx)
	if strings.EqualFold(strings.TrimSpace(request.Fiber.Get(fiber.HeaderUpgrade)), "websocket") {
		return a.connectSocket(ctx, in)
	}
	seen, err := in.seen(request)
	if err != nil {
		return nil, err
	}
	host, c, err := a.find(ctx, &in.Target)
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
		return nil, c.explain(err)
	}
	f := &follower{c, r, stream, stream.Seq()}
	return rest.AnswerFeed(a.API, rest.Feed[[]eventlog.Event]{
		Next: f.next, Write: f.write, Flushed: func() { c.reached(r, f.seq) }, Close: f.close,
	}), nil
}

// follower sends the events of one stream.
type follower struct {
	*connection
	reader *reader
	stream *agents.Stream
	seq    int64 // the last event that was written or passed over
}

// next waits for events, until the reader ends.
func (f *follower) next(ctx context.Context) ([]eventlog.Event, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(f.reader.ctx, cancel)()
	return f.stream.Next(ctx)
}

// write writes the events that belong to the stream. It returns false at the end of the
// connection's agent.
func (f *follower) write(_ context.Context, w *rest.EventWriter, events []eventlog.Event) (more bool) {
	for i := range events {
		e := &events[i]
		f.seq = e.Seq
		// An end that was there before the stream was opened is history: the next
		// message starts the agent again, or is refused.
		if exited(e) && e.Seq > f.stream.Newest() {
			return false
		}
		session, ok := streamOf(e)
		if !ok {
			continue
		}
		if f.reader.session == "" && session != "" {
			f.note(session, e.Seq)
		}
		if session == f.reader.session {
			w.Write("", e.Seq, e.Payload)
		}
	}
	return true
}

func (f *follower) close() {
	f.stream.Close()
	f.detach(f.reader)
}

// exited reports whether an event is the end of an agent's process.
func exited(e *eventlog.Event) bool {
	return e.Kind == "_adapter/agent_exited" && e.Dir == eventlog.Daemon
}

// streamOf returns the session to whose stream an event belongs; "" is the
// connection's stream. ok is false if the event belongs to no stream: the agent did not send it, or
// it is the answer to initialize, which the client has. Answers that make a session belong
// to the connection's stream, because the client cannot follow a session before it knows
// the session, and so does, by the RFD, the answer to session/load.
func streamOf(e *eventlog.Event) (session string, ok bool) {
	switch e.Kind {
	case "response:initialize":
		return "", false
	case "response:session/new", "response:session/fork", "response:session/load":
		return "", true
	}
	sent := len(e.Payload) > 0 && e.Payload[0] == '{' && !(e.Dir == eventlog.Daemon && strings.HasPrefix(e.Kind, "_adapter/"))
	if !sent || e.Session != "" {
		return e.Session, sent
	}
	m, _ := agents.Inspect(e.Payload) // the host does not know the session yet
	return m.Session, true
}
