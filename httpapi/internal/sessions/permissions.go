package sessions

import (
	"context"
	"encoding/json"

	"github.com/deskhand/deskhand/agents"
	"github.com/deskhand/deskhand/agents/eventlog"
)

type permissionsInput struct {
	Session string `query:"session" doc:"Session of the requests; defaults to all"`
}

type permissionsOutput struct {
	Body struct {
		Permissions []PermissionInfo `json:"permissions" nullable:"false"`
	}
}

// Bounds of what describes open permission requests. What is beyond them is left out.
const (
	maxAsked   = 1 << 20   // bytes of a question's parameters
	maxShown   = 256 << 10 // bytes of a tool call; of a larger one the id, the kind and the title are shown
	askedBytes = 8 << 20   // bytes of the parameters of all questions in an answer
)

// PermissionInfo describes an open permission request, or a question for approval. If the
// parameters are too large, it has the first members only, and Truncated is true.
type PermissionInfo struct {
	ID      string          `json:"id" doc:"Id for the reply"`
	Session string          `json:"sessionId"`
	AskedAt int64           `json:"askedAt" doc:"Unix time in milliseconds"`
	Tool    json.RawMessage `json:"toolCall,omitempty" doc:"The tool call, as in ACP"`
	Options json.RawMessage `json:"options,omitempty" doc:"What the user can choose, as PermissionOption of ACP"`

	Truncated bool `json:"truncated,omitempty" doc:"Parts of the request are left out, since they are too large"`

	Message   string                `json:"message,omitempty" doc:"Text of a question that is not a permission request"`
	Questions []agents.FormQuestion `json:"questions,omitempty" doc:"Parts of such a question, for the answers of replyQuestion"`
}

func (a *area) permissions(ctx context.Context, in *permissionsInput) (*permissionsOutput, error) {
	host, err := a.Host.Get(ctx)
	if err != nil {
		return nil, err
	}
	open, err := host.Questions(ctx, in.Session)
	if err != nil {
		return nil, err
	}
	out := &permissionsOutput{}
	out.Body.Permissions = []PermissionInfo{}
	left := askedBytes
	for _, q := range open {
		p, bytes, err := describePermission(ctx, host, q, min(maxAsked, left))
		if err != nil {
			return nil, err
		}
		if p != nil {
			out.Body.Permissions = append(out.Body.Permissions, *p)
		}
		if left -= bytes; left <= 0 {
			left = -1
		}
	}
	return out, nil
}

// describePermission describes an open question, and returns the bytes of its parameters. It
// leaves out parameters that have more than most bytes, or all if most is negative. It returns
// nil if the question was answered meanwhile.
func describePermission(ctx context.Context, host *agents.Host, q eventlog.Request, most int) (p *PermissionInfo, bytes int, err error) {
	rows, err := host.Log().Requests(ctx, eventlog.RequestFilter{Session: q.Session, PublicID: q.PublicID, Pending: true, MaxParams: most})
	if err != nil || len(rows) != 1 {
		return nil, 0, err
	}
	q = rows[0]
	p = &PermissionInfo{ID: q.PublicID, Session: q.Session, AskedAt: q.AskedAt.UnixMilli(), Truncated: q.ParamsLeftOut}
	if form, err := agents.ParseForm(q.Params); q.Method == agents.MethodForm && err == nil {
		p.Message, p.Questions = form.Message, form.Questions
		return p, len(q.Params), nil
	}
	var params struct {
		Tool    json.RawMessage `json:"toolCall"`
		Options json.RawMessage `json:"options"`
	}
	_ = json.Unmarshal(q.Params, &params) // a request without them can be answered, too
	p.Tool, p.Options = params.Tool, params.Options
	if len(p.Tool) > maxShown {
		var short struct {
			ID    string `json:"toolCallId"`
			Kind  string `json:"kind,omitempty"`
			Title string `json:"title,omitempty"`
		}
		_ = json.Unmarshal(p.Tool, &short)
		p.Truncated = true
		p.Tool, err = json.Marshal(short)
	}
	return p, len(q.Params), err
}
