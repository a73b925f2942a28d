package sessions

import (
	"cmp"
	"context"
	"encoding/json"
	"strconv"

	"github.com/deskhand/deskhand/agents/universal"
	"github.com/deskhand/deskhand/httpapi/internal/rest"
)

// Bounds of one page of events.
const (
	eventPage = 1000
	mostPage  = 10_000
	pageBytes = 4 << 20 // the last event may exceed it
)

// EventsQuery chooses events of a session.
type EventsQuery struct {
	ID     string `path:"sessionId" doc:"Id of your choice"`
	Offset int64  `query:"offset" minimum:"0" doc:"Last sequence number that the client received"`
	Raw    bool   `query:"include_raw" doc:"Include the agent's raw messages"`
}

type sessionEventsInput struct {
	EventsQuery
	Limit int `query:"limit" minimum:"0" maximum:"10000" doc:"Maximum number of events; defaults to 1000"`
}

type sessionFollowInput struct {
	EventsQuery
	LastEventID string `header:"Last-Event-ID" pattern:"^[0-9]*$" doc:"The same as offset; browsers send it when they reconnect"`
}

type sessionEventsOutput struct {
	Body struct {
		Events  []json.RawMessage `json:"events" nullable:"false"`
		HasMore bool              `json:"hasMore"`
	}
}

func (a *area) events(ctx context.Context, in *sessionEventsInput) (*sessionEventsOutput, error) {
	if _, _, err := a.find(ctx, in.ID); err != nil {
		return nil, err
	}
	projection := a.Host.Events(in.ID)
	events, more, err := projection.Events(ctx, in.Offset, min(cmp.Or(in.Limit, eventPage), mostPage))
	if err != nil {
		return nil, err
	}
	out := &sessionEventsOutput{}
	out.Body.Events, out.Body.HasMore = make([]json.RawMessage, 0, len(events)), more
	bytes := 0
	for i, e := range events {
		text, err := projection.JSON(ctx, e, in.Raw)
		if err != nil {
			return nil, err
		}
		out.Body.Events = append(out.Body.Events, text)
		if bytes += len(text); bytes >= pageBytes {
			out.Body.HasMore = more || i+1 < len(events)
			break
		}
	}
	return out, nil
}

func (a *area) follow(ctx context.Context, in *sessionFollowInput) (*rest.EventsOutput, error) {
	after := in.Offset
	if in.LastEventID != "" {
		last, err := strconv.ParseInt(in.LastEventID, 10, 64)
		if err != nil {
			return nil, rest.InvalidRequest.Problem("invalid request: Last-Event-ID must be a non-negative integer")
		}
		after = max(after, last)
	}
	if _, _, err := a.find(ctx, in.ID); err != nil {
		return nil, err
	}
	projection := a.Host.Events(in.ID)
	f, err := projection.Follow(ctx, after)
	if err != nil {
		return nil, err
	}
	return a.stream(projection, f, in.Raw), nil
}

// stream answers with events until they end.
func (a *area) stream(projection *universal.Projection, f *universal.Follower, raw bool) *rest.EventsOutput {
	return rest.AnswerFeed(a.API, rest.Feed[[]universal.Event]{
		Next: f.Next,
		Write: func(ctx context.Context, w *rest.EventWriter, events []universal.Event) (more bool) {
			for _, e := range events {
				text, err := projection.JSON(ctx, e, raw)
				if err != nil {
					return false
				}
				w.Write("", e.Sequence, text)
			}
			return true
		},
	})
}
