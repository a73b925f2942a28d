package sessions

import (
	"context"
	"encoding/json"
	"strconv"

	"github.com/deskhand/deskhand/agents/universal"
	"github.com/deskhand/deskhand/httpapi/internal/events"
)

// oneSource has the events of one session, as GET /v1/sessions/{id}/events has them.
type oneSource struct {
	id         string
	projection *universal.Projection
	follower   *universal.Follower
	after      int64 // the last event before the stream
	lost       bool  // the client has events that the log does not have
	resumes    bool
	raw        bool // with the agent's own messages
}

func sessionKey(id string) string { return "session:" + id }

// newOneSource returns a source that begins after the client's position, or after the
// newest event.
func newOneSource(ctx context.Context, projection *universal.Projection, id string, from events.Positions, raw bool) (*oneSource, error) {
	newest, err := projection.Count(ctx)
	if err != nil {
		return nil, err
	}
	s := &oneSource{id: id, projection: projection, raw: raw, after: newest}
	if last, ok := from.Number(sessionKey(id)); ok {
		s.resumes, s.lost = true, last > newest
		s.after = min(last, newest)
	}
	s.follower, err = projection.Follow(ctx, s.after)
	return s, err
}

func (s *oneSource) reset() events.Message { return events.Reset("session:"+s.id, nil) }

// run is a source.
func (s *oneSource) run(ctx context.Context, send func(events.Message) bool) error {
	if s.lost && !send(s.reset()) {
		return nil
	}
	for last := s.after; ; {
		all, err := s.follower.Next(ctx)
		if err != nil {
			return events.IgnoreEnd(ctx, err)
		}
		for _, e := range all {
			if s.resumes && e.Sequence > last+1 && !send(s.reset()) { // the log has dropped events
				return nil
			}
			last = e.Sequence
			var text json.RawMessage
			if text, err = s.projection.JSON(ctx, e, s.raw); err != nil {
				return events.IgnoreEnd(ctx, err)
			}
			if !send(events.Message{Name: "session", Data: text, Key: sessionKey(s.id), At: strconv.FormatInt(last, 10)}) {
				return nil
			}
		}
	}
}
