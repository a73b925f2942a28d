package opencode

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/deskhand/deskhand/agents"
	"github.com/deskhand/deskhand/agents/eventlog"
	"github.com/deskhand/deskhand/agents/opencode"
	"github.com/deskhand/deskhand/httpapi/internal/agenthost"
	"github.com/deskhand/deskhand/httpapi/internal/rest"
)

// replies has the routes of permissions and questions.
type replies struct{ *area }

func (a replies) routes() []route {
	return []route{
		{http.MethodGet, "/permission", func(c *call) (any, error) {
			permissions, _, err := a.open(c)
			return permissions, err
		}},
		{http.MethodPost, "/permission/{requestID}/reply", func(c *call) (any, error) {
			var body struct{ Reply, Message string }
			if err := c.ReadJSON(&body); err != nil {
				return nil, err
			}
			return a.replyPermission(c, c.Param("requestID"), "reply", body.Reply, body.Message)
		}},
		{http.MethodPost, "/session/{sessionID}/permissions/{permissionID}", func(c *call) (any, error) {
			var body struct{ Response string }
			if err := c.ReadJSON(&body); err != nil {
				return nil, err
			}
			if _, err := a.find(c); err != nil {
				return nil, err
			}
			return a.replyPermission(c, c.Param("permissionID"), "response", body.Response, "")
		}},
		{http.MethodGet, "/question", func(c *call) (any, error) {
			_, questions, err := a.open(c)
			return questions, err
		}},
		{http.MethodPost, "/question/{requestID}/reply", a.replyQuestion},
		{http.MethodPost, "/question/{requestID}/reject", func(c *call) (any, error) {
			host, q, err := a.request(c, c.Param("requestID"))
			if err != nil {
				return nil, err
			}
			return true, host.Answer(c.ctx, q.Session, q.PublicID, agents.Reply{Kinds: []string{agents.RejectOnce}, Cancel: true})
		}},
	}
}

// open returns the open permissions and questions of the selected sessions.
func (a replies) open(c *call) (permissions []opencode.Permission, questions []opencode.Question, err error) {
	permissions, questions = []opencode.Permission{}, []opencode.Question{}
	host, err := a.Host.Get(c.ctx)
	if err != nil {
		return nil, nil, err
	}
	all, err := host.Questions(c.ctx, "")
	if err != nil {
		return nil, nil, err
	}
	var ids []string
	for _, q := range all {
		ids = append(ids, q.Session)
	}
	slices.Sort(ids)
	for _, id := range slices.Compact(ids) {
		f, err := a.findByID(c.ctx, id)
		if err != nil {
			return nil, nil, err
		}
		if c.named && f.Cwd != c.directory {
			continue
		}
		if err := a.withTranscript(c.ctx, host, f.Session, func(t *opencode.Transcript) {
			p, q := t.Open()
			permissions, questions = append(permissions, p...), append(questions, q...)
		}); err != nil {
			return nil, nil, err
		}
	}
	return permissions, questions, nil
}

// request returns the open request of an agent with a public id.
func (a replies) request(c *call, id string) (*agents.Host, eventlog.Request, error) {
	host, err := a.Host.Get(c.ctx)
	if err != nil {
		return nil, eventlog.Request{}, err
	}
	all, err := host.Questions(c.ctx, "")
	if err != nil {
		return nil, eventlog.Request{}, err
	}
	session := c.Param("sessionID")
	for _, q := range all {
		if q.PublicID == id && (session == "" || q.Session == session) {
			if q, err = host.Question(c.ctx, q.Session, id); !errors.Is(err, agents.ErrRequestNotFound) {
				return host, q, err
			}
		}
	}
	return nil, eventlog.Request{}, rest.Missing("open request", id+"; it may have been answered")
}

// replyPermission answers a question for permission. A reply is never more permanent than the
// client asks for.
func (a replies) replyPermission(c *call, id, field, reply, message string) (any, error) {
	kinds := map[string][]string{
		"once": {agents.AllowOnce}, "always": {agents.AllowAlways, agents.AllowOnce}, "reject": {agents.RejectOnce},
	}[reply]
	if kinds == nil {
		return nil, rest.InvalidField(field, field+" must be once, always or reject")
	}
	host, q, err := a.request(c, id)
	if err != nil {
		return nil, err
	}
	err = host.Answer(c.ctx, q.Session, q.PublicID, agents.Reply{Kinds: kinds, Cancel: reply == "reject"})
	if other, ok := errors.AsType[*agents.OptionError](err); ok {
		return nil, rest.ConflictOf(fmt.Sprintf("%s %s: %v", field, reply, other))
	}
	if err != nil || message == "" {
		return err == nil, err
	}
	// The agent reads the user's words after the answer.
	text, err := json.Marshal([]block{{Type: "text", Text: message}})
	if err == nil {
		_, err = host.Prompt(c.ctx, q.Session, text)
	}
	if err != nil {
		return nil, rest.StreamError.Problem(fmt.Sprintf("stream error: the agent has the answer %s, but not the message: %v", reply, err))
	}
	return true, nil
}

// replyQuestion answers a question.
func (a replies) replyQuestion(c *call) (any, error) {
	var body struct{ Answers [][]string }
	if err := c.ReadJSON(&body); err != nil {
		return nil, err
	}
	host, q, err := a.request(c, c.Param("requestID"))
	if err != nil {
		return nil, err
	}
	if q.ParamsLeftOut {
		return nil, agenthost.QuestionTooLarge(q.PublicID)
	}
	if q.Method == agents.MethodForm {
		form, err := agents.ParseForm(q.Params)
		if err != nil {
			return nil, agenthost.QuestionUnreadable(q.PublicID, err)
		}
		result, err := form.AnswerLabels(body.Answers)
		if err != nil {
			return nil, err
		}
		return true, host.Answer(c.ctx, q.Session, q.PublicID, agents.Reply{Result: result})
	}
	var p struct{ Options []agents.Option }
	if err := json.Unmarshal(q.Params, &p); err != nil {
		return nil, agenthost.QuestionUnreadable(q.PublicID, err)
	}
	if len(body.Answers) != 1 || len(body.Answers[0]) != 1 {
		return nil, rest.InvalidField("answers", "answers must hold one list with one option, since the agent asks one question")
	}
	option, err := agenthost.ChosenOption(p.Options, body.Answers[0][0])
	if err != nil {
		return nil, err
	}
	return true, host.Answer(c.ctx, q.Session, q.PublicID, agents.Reply{Option: option})
}
