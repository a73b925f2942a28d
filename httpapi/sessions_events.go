package httpapi

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"

	"github.com/danielgtaylor/huma/v2"
	"github.com/gofiber/fiber/v2"

	"github.com/deskhand/deskhand/agents"
	"github.com/deskhand/deskhand/agents/eventlog"
	"github.com/deskhand/deskhand/agents/universal"
	"github.com/deskhand/deskhand/httpapi/internal/rest"
)

// Bounds of one page of events.
const (
	eventPage = 1000
	mostPage  = 10_000
)

type sessionEventsQuery struct {
	SessionPath
	Offset int64 `query:"offset" minimum:"0" doc:"The last sequence number that was seen"`
	Raw    bool  `query:"include_raw" doc:"With the agent's own messages"`
}

// SessionEventsQuery is exported because huma sees embedded fields only then.
type SessionEventsQuery = sessionEventsQuery

type sessionEventsInput struct {
	SessionEventsQuery
	Limit int `query:"limit" minimum:"0" maximum:"10000" doc:"1000 when left out"`
}

type sessionEventsOutput struct {
	Body struct {
		Events  []json.RawMessage `json:"events" nullable:"false"`
		HasMore bool              `json:"hasMore"`
	}
}

func (s *Server) sessionEvents(ctx context.Context, in *sessionEventsInput) (*sessionEventsOutput, error) {
	v, err := s.view(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	limit := in.Limit
	if limit == 0 {
		limit = eventPage
	}
	events, more, err := v.projection.Events(ctx, in.Offset, min(limit, mostPage))
	if err != nil {
		return nil, acpError(err, in.ID, "")
	}
	out := &sessionEventsOutput{}
	out.Body.Events, out.Body.HasMore = []json.RawMessage{}, more
	for _, e := range events {
		text, err := v.projection.JSON(ctx, e, in.Raw)
		if err != nil {
			return nil, acpError(err, in.ID, "")
		}
		out.Body.Events = append(out.Body.Events, text)
	}
	return out, nil
}

// view is a session as this API sees it.
type view struct {
	host       *agents.Host
	log        *eventlog.Log
	session    agents.Session
	projection *universal.Projection
}

func (s *Server) view(ctx context.Context, id string) (*view, error) {
	host, err := s.agents.get(ctx)
	if err != nil {
		return nil, acpError(err, id, "")
	}
	session, err := host.Session(ctx, id)
	if err != nil {
		return nil, acpError(err, id, "")
	}
	return &view{host, host.Log(), session, s.agents.projector.Load().Session(id)}, nil
}

type sessionFollowInput struct {
	SessionEventsQuery
	LastEventID string `header:"Last-Event-ID" pattern:"^[0-9]*$" doc:"The same as offset, which browsers send when they connect again"`
}

func (s *Server) followSession(ctx context.Context, in *sessionFollowInput) (*rest.EventsOutput, error) {
	after := in.Offset
	if in.LastEventID != "" {
		last, err := strconv.ParseInt(in.LastEventID, 10, 64)
		if err != nil {
			return nil, rest.InvalidRequest.Problem("invalid request: Last-Event-ID must be a non-negative integer")
		}
		after = max(after, last)
	}
	v, err := s.view(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	f, err := v.projection.Follow(ctx, after)
	if err != nil {
		return nil, acpError(err, in.ID, "")
	}
	return s.eventStream(v, f, in.Raw), nil
}

// eventStream sends events until they end or the client leaves.
func (s *Server) eventStream(v *view, events *universal.Follower, raw bool) *rest.EventsOutput {
	return &rest.EventsOutput{
		ContentType: rest.EventStream, Cache: rest.StreamCache, Buffering: "no",
		Body: func(ctx huma.Context) {
			ctx.SetStatus(http.StatusOK)
			r := rest.RequestOf(ctx)
			if r.Method() == fiber.MethodHead {
				return
			}
			s.rest.Follow(r, nil, func(w *bufio.Writer, flush func() error, gone, ending <-chan struct{}) {
				f := sessionFollower{projection: v.projection, events: events, w: w, flush: flush, raw: raw}
				f.run(gone, ending)
			})
		},
	}
}

// sessionFollower sends one client the events of a session, at its own pace.
type sessionFollower struct {
	projection *universal.Projection
	events     *universal.Follower
	w          *bufio.Writer
	flush      func() error
	raw        bool
}

func (f *sessionFollower) run(gone, ending <-chan struct{}) {
	ctx, stopped := rest.WhileWanted(gone, ending)
	defer stopped()
	_, _ = f.w.WriteString(": connected\n\n") // so that the client sees the headers
	for f.flush() == nil {
		wait, stop := context.WithTimeout(ctx, rest.Heartbeat)
		events, err := f.events.Next(wait)
		stop()
		switch {
		case err == nil:
			err = f.write(ctx, events)
		case errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil:
			_, err = f.w.WriteString(": heartbeat\n\n")
		}
		if err != nil {
			return
		}
	}
}

// write writes events to the client's buffer.
func (f *sessionFollower) write(ctx context.Context, events []universal.Event) error {
	for _, e := range events {
		text, err := f.projection.JSON(ctx, e, f.raw)
		if err != nil {
			return err
		}
		_, _ = f.w.WriteString("id: " + strconv.FormatInt(e.Sequence, 10) + "\ndata: ") // flush returns the error
		_, _ = f.w.Write(rest.OneLine(text))
		_, _ = f.w.WriteString("\n\n")
	}
	return nil
}
