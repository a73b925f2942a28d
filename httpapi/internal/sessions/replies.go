package sessions

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/deskhand/deskhand/agents"
	"github.com/deskhand/deskhand/agents/eventlog"
	"github.com/deskhand/deskhand/httpapi/internal/agenthost"
	"github.com/deskhand/deskhand/httpapi/internal/rest"
)

type permissionReply struct {
	ID         string `path:"sessionId" doc:"Id of your choice"`
	Permission string `path:"permissionId"`
	Body       struct {
		Reply  string `json:"reply,omitempty" enum:"once,always,reject" doc:"One of reply and option is required"`
		Option string `json:"option,omitempty" doc:"Id of one of the agent's options, optionId in ACP"`
	}
}

type questionPath struct {
	ID       string `path:"sessionId" doc:"Id of your choice"`
	Question string `path:"questionId"`
}

type questionReply struct {
	ID       string `path:"sessionId" doc:"Id of your choice"`
	Question string `path:"questionId"`
	Body     struct {
		Answers [][]string `json:"answers" nullable:"false" doc:"Chosen options of each question"`
	}
}

// registerReplies adds the routes that answer questions, and the one that ends a session.
func (a *area) registerReplies(r rest.Route) {
	const at = "/v1/sessions/{sessionId}"
	r.Status = http.StatusNoContent
	agenthost.Add(a.Group, r.Post("replyPermission", at+"/permissions/{permissionId}/reply", "Answer a permission request"), a.replyPermission)
	agenthost.Add(a.Group, r.Post("replyQuestion", at+"/questions/{questionId}/reply", "Answer a question"), a.replyQuestion)
	agenthost.Add(a.Group, r.Post("rejectQuestion", at+"/questions/{questionId}/reject", "Reject a question"), a.rejectQuestion)
	agenthost.Add(a.Group, r.Post("terminateSession", at+"/terminate", "Terminate a session"), func(ctx context.Context, in *sessionPath) (*struct{}, error) {
		host, _, err := a.find(ctx, in.ID)
		if err != nil {
			return nil, err
		}
		return nil, host.Terminate(ctx, in.ID)
	})
}

// findQuestion returns an open question of a session by the id that the events have for it.
func (a *area) findQuestion(ctx context.Context, session, id, what string) (*agents.Host, eventlog.Request, error) {
	host, _, err := a.find(ctx, session)
	if err != nil {
		return nil, eventlog.Request{}, err
	}
	q, err := host.Question(ctx, session, id)
	if errors.Is(err, agents.ErrRequestNotFound) {
		err = rest.Missing(what, id)
	}
	return host, q, err
}

func (a *area) replyPermission(ctx context.Context, in *permissionReply) (*struct{}, error) {
	host, q, err := a.findQuestion(ctx, in.ID, in.Permission, "permission")
	if err != nil {
		return nil, err
	}
	if option := in.Body.Option; (option == "") == (in.Body.Reply == "") {
		return nil, rest.InvalidRequest.Problem("invalid request: the body must have either reply or option").With("field", "reply")
	} else if option != "" {
		return nil, host.Answer(ctx, in.ID, q.PublicID, agents.Reply{Option: option})
	}
	// A reply is never more permanent than the client asks for.
	kinds := map[string][]string{
		"once":   {agents.AllowOnce},
		"always": {agents.AllowAlways, agents.AllowOnce},
		"reject": {agents.RejectOnce},
	}[in.Body.Reply]
	err = host.Answer(ctx, in.ID, q.PublicID, agents.Reply{Kinds: kinds})
	if other, ok := errors.AsType[*agents.OptionError](err); ok {
		return nil, rest.ConflictOf(fmt.Sprintf("reply %s: %v; choose one of these in an ACP response, or end the turn", in.Body.Reply, err)).
			With("field", "reply").With("details", map[string]any{"options": other.Offered})
	}
	return nil, err
}

func (a *area) rejectQuestion(ctx context.Context, in *questionPath) (*struct{}, error) {
	host, q, err := a.findQuestion(ctx, in.ID, in.Question, "question")
	if err != nil {
		return nil, err
	}
	return nil, host.Answer(ctx, in.ID, q.PublicID, agents.Reply{Kinds: []string{agents.RejectOnce}, Cancel: true})
}

func (a *area) replyQuestion(ctx context.Context, in *questionReply) (*struct{}, error) {
	host, q, err := a.findQuestion(ctx, in.ID, in.Question, "question")
	if err != nil {
		return nil, err
	}
	if q.ParamsLeftOut {
		return nil, agenthost.QuestionTooLarge(in.Question)
	}
	if form, err := agents.ParseForm(q.Params); q.Method == agents.MethodForm {
		if err != nil {
			return nil, agenthost.QuestionUnreadable(in.Question, err)
		}
		result, err := form.Answer(in.Body.Answers)
		if bad, ok := errors.AsType[*agents.InvalidError](err); ok {
			return nil, rest.InvalidField("answers", "answers "+bad.Reason)
		} else if err != nil {
			return nil, err
		}
		return nil, host.Answer(ctx, in.ID, q.PublicID, agents.Reply{Result: result})
	}
	var p struct{ Options []agents.Option }
	if err := json.Unmarshal(q.Params, &p); err != nil {
		return nil, agenthost.QuestionUnreadable(in.Question, err)
	}
	if len(in.Body.Answers) != 1 || len(in.Body.Answers[0]) != 1 {
		return nil, rest.InvalidField("answers", "answers must hold one list with one option, since the agent asks one question")
	}
	option, err := agenthost.ChosenOption(p.Options, in.Body.Answers[0][0])
	if err != nil {
		return nil, err
	}
	return nil, host.Answer(ctx, in.ID, q.PublicID, agents.Reply{Option: option})
}
