package sessions

import (
	"context"
	"encoding/json"

	"github.com/deskhand/deskhand/agents"
	"github.com/deskhand/deskhand/agents/eventlog"
	"github.com/deskhand/deskhand/httpapi/internal/events"
)

// permissionEvent is an event of the topic permissions.
type permissionEvent struct {
	Type       string          `json:"type"` // requested or answered
	Permission *PermissionInfo `json:"permission,omitempty"`
	ID         string          `json:"id,omitempty"`
	Session    string          `json:"sessionId,omitempty"`
	Outcome    string          `json:"outcome,omitempty"` // selected or cancelled; of a form accepted, declined or cancelled
	Option     string          `json:"option,omitempty"`  // the id of the selected option
}

// tellPermissions sends the requests of a session that are new or answered.
func (s *sessionsSource) tellPermissions(ctx context.Context, session agents.Session) (more bool, err error) {
	before := s.open[session.ID]
	if session.State != eventlog.Waiting && len(before) == 0 {
		return true, nil
	}
	now, err := s.host.Questions(ctx, session.ID)
	if err != nil {
		return false, err
	}
	open := map[string]bool{}
	for _, q := range now {
		open[q.PublicID] = true
	}
	for id := range before {
		if open[id] {
			continue
		}
		e := permissionEvent{Type: "answered", ID: id, Session: session.ID}
		if e.Outcome, e.Option, err = s.outcome(ctx, session.ID, id); err != nil {
			return false, err
		}
		delete(before, id)
		if !s.send(events.Message{Name: "permissions", Data: e}) {
			return false, nil
		}
	}
	if len(before) == 0 {
		delete(s.open, session.ID)
	}
	return s.tellRequests(ctx, now)
}

// tellRequests sends the requests that the client does not know.
func (s *sessionsSource) tellRequests(ctx context.Context, all []eventlog.Request) (more bool, err error) {
	for _, q := range all {
		if s.open[q.Session][q.PublicID] {
			continue
		}
		p, _, err := describePermission(ctx, s.host, q, maxAsked)
		if err != nil {
			return false, err
		}
		if p == nil {
			continue
		}
		if s.open[q.Session] == nil {
			s.open[q.Session] = map[string]bool{}
		}
		s.open[q.Session][q.PublicID] = true
		if !s.send(events.Message{Name: "permissions", Data: permissionEvent{Type: "requested", Permission: p}}) {
			return false, nil
		}
	}
	return true, nil
}

// outcome returns how a request was answered.
func (s *sessionsSource) outcome(ctx context.Context, session, id string) (outcome, option string, err error) {
	rows, err := s.host.Log().Requests(ctx, eventlog.RequestFilter{Session: session, PublicID: id, MaxParams: -1})
	var answer struct {
		Result struct {
			Action  string `json:"action"` // of a form
			Outcome struct {
				Outcome string `json:"outcome"`
				Option  string `json:"optionId"`
			} `json:"outcome"`
		} `json:"result"`
	}
	if len(rows) == 1 {
		_ = json.Unmarshal(rows[0].Answer, &answer) // of a cancelled request there is none
	}
	o := answer.Result.Outcome
	switch {
	case o.Outcome == "selected":
		return o.Outcome, o.Option, err
	case answer.Result.Action == "accept":
		return "accepted", "", err
	case answer.Result.Action == "decline":
		return "declined", "", err
	}
	return "cancelled", "", err
}
