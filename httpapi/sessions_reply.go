package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/deskhand/deskhand/agents"
	"github.com/deskhand/deskhand/agents/eventlog"
	"github.com/deskhand/deskhand/agents/universal"
	"github.com/deskhand/deskhand/httpapi/internal/rest"
)

type permissionReply struct {
	SessionPath
	Permission string `path:"permissionId"`
	Body       struct {
		Reply string `json:"reply" enum:"once,always,reject"`
	}
}

type questionPath struct {
	SessionPath
	Question string `path:"questionId"`
}

// QuestionPath is exported because huma sees embedded fields only then.
type QuestionPath = questionPath

type questionReply struct {
	QuestionPath
	Body struct {
		Answers [][]string `json:"answers" nullable:"false" doc:"For each question, the options that were chosen"`
	}
}

// registerReplies adds what ends something.
func (s *Server) registerReplies(on func(id, method, path, summary string) rest.Route) {
	post := func(id, path, summary string) rest.Route {
		r := on(id, http.MethodPost, "/{sessionId}"+path, summary)
		r.Status = http.StatusNoContent
		return r
	}
	rest.Add(s.routes, post("replyPermission", "/permissions/{permissionId}/reply", "Answer an agent that asks for a permission"), s.replyPermission)
	rest.Add(s.routes, post("replyQuestion", "/questions/{questionId}/reply", "Answer a question"), s.replyQuestion)
	rest.Add(s.routes, post("rejectQuestion", "/questions/{questionId}/reject", "Refuse to answer a question"), s.rejectQuestion)
	rest.Add(s.routes, post("terminateSession", "/terminate", "End a session for good"), func(ctx context.Context, in *sessionPath) (*struct{}, error) {
		v, err := s.view(ctx, in.ID)
		if err != nil {
			return nil, err
		}
		return nil, nilOr(v.host.Terminate(ctx, in.ID), in.ID)
	})
}

// nilOr is the problem of an error, or nil.
func nilOr(err error, session string) error {
	if err == nil {
		return nil
	}
	return acpError(err, session, "")
}

// open finds an open question by the id that the events have for it.
func (s *Server) open(ctx context.Context, session, id, what string) (*view, eventlog.Request, error) {
	v, err := s.view(ctx, session)
	if err != nil {
		return nil, eventlog.Request{}, err
	}
	all, err := v.host.Requests(ctx, session)
	if err != nil {
		return nil, eventlog.Request{}, acpError(err, session, "")
	}
	for _, q := range all {
		if universal.RequestID(q.Process, []byte(q.RPC)) == id || q.PublicID == id {
			return v, q, nil
		}
	}
	return nil, eventlog.Request{}, rest.Missing(what, id)
}

func (s *Server) replyPermission(ctx context.Context, in *permissionReply) (*struct{}, error) {
	v, q, err := s.open(ctx, in.ID, in.Permission, "permission")
	if err != nil {
		return nil, err
	}
	// Nothing more permanent than what the client asks for.
	kinds := map[string][]string{
		"once":   {agents.AllowOnce},
		"always": {agents.AllowAlways, agents.AllowOnce},
		"reject": {agents.RejectOnce},
	}[in.Body.Reply]
	err = v.host.Answer(ctx, in.ID, q.PublicID, agents.Reply{Kinds: kinds})
	if other, ok := errors.AsType[*agents.OptionError](err); ok {
		return nil, rest.ConflictOf(fmt.Sprintf("reply %s: %v; choose one of these in an ACP response, or end the turn", in.Body.Reply, err)).
			With("field", "reply").With("details", map[string]any{"options": other.Offered})
	}
	return nil, nilOr(err, in.Permission)
}

func (s *Server) rejectQuestion(ctx context.Context, in *questionPath) (*struct{}, error) {
	v, q, err := s.open(ctx, in.ID, in.Question, "question")
	if err != nil {
		return nil, err
	}
	return nil, nilOr(v.host.Answer(ctx, in.ID, q.PublicID, agents.Reply{Kinds: []string{agents.RejectOnce}, Cancel: true}), in.Question)
}

func (s *Server) replyQuestion(ctx context.Context, in *questionReply) (*struct{}, error) {
	v, q, err := s.open(ctx, in.ID, in.Question, "question")
	if err != nil {
		return nil, err
	}
	var p struct {
		Options []struct {
			ID   string `json:"optionId"`
			Name string `json:"name"`
		} `json:"options"`
	}
	if err := json.Unmarshal(q.Params, &p); err != nil {
		return nil, fmt.Errorf("options of question %s: %w", in.Question, err)
	}
	if len(in.Body.Answers) != 1 || len(in.Body.Answers[0]) != 1 {
		return nil, rest.InvalidField("answers", "answers must hold one list with one option, since the agent asks one question")
	}
	chosen := in.Body.Answers[0][0]
	var names []string
	for _, o := range p.Options {
		names = append(names, o.Name)
		if strings.EqualFold(o.Name, chosen) || o.ID == chosen {
			return nil, nilOr(v.host.Answer(ctx, in.ID, q.PublicID, agents.Reply{Option: o.ID}), in.Question)
		}
	}
	slices.Sort(names)
	return nil, rest.InvalidField("answers", fmt.Sprintf("answers: there is no option %q; there are %s", chosen, strings.Join(names, ", ")))
}
