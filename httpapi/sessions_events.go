package httpapi

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/gofiber/fiber/v2"

	"github.com/deskhand/deskhand/agents"
	"github.com/deskhand/deskhand/agents/eventlog"
	"github.com/deskhand/deskhand/agents/universal"
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
	limit = min(limit, mostPage)
	behind := v.projection.catchUpTo(ctx, v.log, in.Offset+int64(limit)+1)
	if behind != nil && !logTakesNothing(behind) {
		return nil, acpError(behind, in.ID, "")
	}
	events, err := readEvents(ctx, v.log, in.ID, in.Offset, limit+1)
	if len(events) == 0 { // there may be some that cannot be stored
		err = errors.Join(err, behind)
	}
	if err != nil {
		return nil, acpError(err, in.ID, "")
	}
	out := &sessionEventsOutput{}
	out.Body.Events = []json.RawMessage{}
	if len(events) > limit {
		events, out.Body.HasMore = events[:limit], true
	} else if n := len(events); n > 0 { // a page of large ones has fewer
		last, err := v.log.Last(ctx, universalStream(in.ID))
		if err != nil {
			return nil, acpError(err, in.ID, "")
		}
		out.Body.HasMore = behind != nil || last > events[n-1].Event.Sequence
	}
	for _, e := range events {
		text, err := e.tell(ctx, v.log, in.Raw)
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
	projection *projection
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
	return &view{host, host.Log(), session, s.projections.of(id)}, nil
}

type sessionFollowInput struct {
	SessionEventsQuery
	LastEventID string `header:"Last-Event-ID" pattern:"^[0-9]*$" doc:"The same as offset, which browsers send when they connect again"`
}

func (s *Server) followSession(ctx context.Context, in *sessionFollowInput) (*eventsOutput, error) {
	after := in.Offset
	if in.LastEventID != "" {
		last, err := strconv.ParseInt(in.LastEventID, 10, 64)
		if err != nil {
			return nil, invalidRequest.problem("invalid request: Last-Event-ID must be a non-negative integer")
		}
		after = max(after, last)
	}
	v, err := s.view(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	return s.eventStream(v, after, in.Raw, nil), nil
}

// eventStream sends events until the client leaves, or last says that one was
// the last.
func (s *Server) eventStream(v *view, after int64, raw bool, last func(universal.Event) bool) *eventsOutput {
	return &eventsOutput{
		ContentType: eventStream, Cache: streamCache, Buffering: "no",
		Body: func(ctx huma.Context) {
			ctx.SetStatus(http.StatusOK)
			r := requestOf(ctx)
			if r.Method() == fiber.MethodHead {
				return
			}
			s.follow(r, nil, func(w *bufio.Writer, flush func() error, gone, ending <-chan struct{}) {
				f := sessionFollower{view: v, w: w, flush: flush, after: after, raw: raw, last: last}
				f.run(gone, ending)
			})
		},
	}
}

// sessionFollower sends one client the events of a session, at its own pace.
type sessionFollower struct {
	*view

	w     *bufio.Writer
	flush func() error
	after int64
	raw   bool
	last  func(universal.Event) bool
}

func (f *sessionFollower) run(gone, ending <-chan struct{}) {
	ctx, stopped := whileWanted(gone, ending)
	defer stopped()
	_, _ = f.w.WriteString(": connected\n\n") // so that the client sees the headers
	newest, err := f.log.Last(ctx, agents.SessionStream(f.session.ID))
	if err != nil {
		return
	}
	news := f.log.Follow(agents.SessionStream(f.session.ID), newest)
	for {
		over, err := f.send(ctx)
		pause := heartbeat
		switch {
		case logTakesNothing(err):
			pause = logRetry // all that is stored was sent; the rest comes when it can be
		case err != nil || over:
			return
		}
		wait, stop := context.WithTimeout(ctx, pause)
		_, err = news.Next(wait)
		stop()
		switch {
		case err == nil:
		case errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil:
			_, _ = f.w.WriteString(": heartbeat\n\n")
		default:
			return
		}
	}
}

// logRetry is how long a follower waits before it looks again whether the log
// takes something.
const logRetry = 2 * time.Second

// send sends what there is.
func (f *sessionFollower) send(ctx context.Context) (over bool, err error) {
	for {
		// A page at a time, so that the first events of a long history come at once.
		behind := f.projection.catchUpTo(ctx, f.log, f.after+eventPage)
		if behind != nil && !logTakesNothing(behind) {
			return false, behind
		}
		events, err := readEvents(ctx, f.log, f.session.ID, f.after, eventPage)
		if err != nil {
			return false, err
		}
		for _, e := range events {
			text, err := e.tell(ctx, f.log, f.raw)
			if err != nil {
				return false, err
			}
			f.after = e.Event.Sequence
			_, _ = f.w.WriteString("id: " + strconv.FormatInt(f.after, 10) + "\ndata: ") // flush tells the error
			_, _ = f.w.Write(oneLine(text))
			_, _ = f.w.WriteString("\n\n")
			if f.last != nil && f.last(e.Event) {
				return true, f.flush()
			}
		}
		if err := f.flush(); err != nil {
			return false, err
		}
		if len(events) == 0 {
			return false, behind
		}
	}
}

// turnOf says of each event whether it ends the turn that this entry began.
func turnOf(entry int64) func(universal.Event) bool {
	id := ""
	return func(e universal.Event) bool {
		var d struct {
			ID string `json:"turn_id"`
		}
		switch e.Type {
		case universal.TurnStarted, universal.TurnEnded:
			if json.Unmarshal(e.Data, &d) != nil {
				return false
			}
		}
		switch {
		case e.Type == universal.TurnStarted && e.Entry == entry:
			id = d.ID
		case e.Type == universal.TurnEnded && id != "":
			return d.ID == id
		case e.Type == universal.SessionEnded && id != "":
			return true
		}
		return false
	}
}
