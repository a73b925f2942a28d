package sessions

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/deskhand/deskhand/agents"
	"github.com/deskhand/deskhand/httpapi/internal/agenthost"
	"github.com/deskhand/deskhand/httpapi/internal/rest"
)

type sessionChange struct {
	ID   string `path:"sessionId" doc:"Id of your choice"`
	Body struct {
		AgentMode *string `json:"agentMode,omitempty" doc:"Mode of the agent"`
		Model     *string `json:"model,omitempty"`
		Variant   *string `json:"variant,omitempty" doc:"Thought level of the agent"`
		Title     *string `json:"title,omitempty" doc:"Title of the session, at most 1024 bytes; the agent may change it again"`
		Archived  *bool   `json:"archived,omitempty" doc:"Whether lists show the session as archived; it works as before"`
	}
}

// registerChanges adds the routes that change a session or its turn, and the list of open
// permission requests.
func (a *area) registerChanges(r rest.Route) {
	const at = "/v1/sessions/{sessionId}"
	change := r.Post("updateSession", at, "Change the mode, model, thought level, title or archive mark of a session")
	change.Method, change.Status = http.MethodPatch, http.StatusNoContent
	change.About = "Changes are made in the order agentMode, model, variant, title, archived. The first one that fails ends the call. " +
		"If the agent's process has ended, a change of the agent's options restores the session first."
	change.Errors = append(change.Errors, http.StatusConflict)
	agenthost.Add(a.Group, change, a.change)

	cancel := r.Post("cancelTurn", at+"/cancel", "Cancel the running turn of a session")
	cancel.Status = http.StatusNoContent
	cancel.About = "Asks the agent to end the turn, and cancels the open permission requests of the session. The answer does not wait for " +
		"the end of the turn, which is the event turn.ended. Without a running turn nothing happens."
	agenthost.Add(a.Group, cancel, func(ctx context.Context, in *sessionPath) (*struct{}, error) {
		host, _, err := a.find(ctx, in.ID)
		if err != nil {
			return nil, err
		}
		return nil, host.Cancel(ctx, in.ID)
	})

	open := rest.Route{Tag: r.Tag, Scope: r.Scope, UntilGone: true}.Get("listPermissions", "/v1/permissions", "List the permission requests that wait for an answer, oldest first")
	agenthost.Add(a.Group, open, a.permissions)
}

func (a *area) change(ctx context.Context, in *sessionChange) (*struct{}, error) {
	host, _, err := a.find(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	for _, one := range []struct {
		field string
		value *string
		set   func(ctx context.Context, id, value string) error
	}{
		{"agentMode", in.Body.AgentMode, host.SetMode},
		{"model", in.Body.Model, host.SetModel},
		{"variant", in.Body.Variant, host.SetThoughtLevel},
		{"title", in.Body.Title, host.SetTitle},
	} {
		if one.value == nil {
			continue
		}
		if err := one.set(ctx, in.ID, *one.value); err != nil {
			if bad, ok := errors.AsType[*agents.InvalidError](err); ok {
				err = rest.InvalidField(one.field, one.field+" "+bad.Reason)
			}
			return nil, err
		}
	}
	if in.Body.Archived != nil {
		return nil, host.SetArchived(ctx, in.ID, *in.Body.Archived)
	}
	return nil, nil
}

type permissionsInput struct {
	Session string `query:"session" doc:"Session of the requests; defaults to all"`
}

type permissionsOutput struct {
	Body struct {
		Permissions []PermissionInfo `json:"permissions" nullable:"false"`
	}
}

// PermissionInfo describes an open permission request, or a question for approval.
type PermissionInfo struct {
	ID      string          `json:"id" doc:"Id for the reply"`
	Session string          `json:"sessionId"`
	AskedAt int64           `json:"askedAt" doc:"Unix time in milliseconds"`
	Tool    json.RawMessage `json:"toolCall,omitempty" doc:"The tool call, as in ACP"`
	Options json.RawMessage `json:"options,omitempty" doc:"What the user can choose, as PermissionOption of ACP"`

	Message   string                `json:"message,omitempty" doc:"Text of a question that is not a permission request"`
	Questions []agents.FormQuestion `json:"questions,omitempty" doc:"Parts of such a question, for the answers of replyQuestion"`
}

func (a *area) permissions(ctx context.Context, in *permissionsInput) (*permissionsOutput, error) {
	host, err := a.Host.Get(ctx)
	if err != nil {
		return nil, err
	}
	all, err := openPermissions(ctx, host, in.Session)
	out := &permissionsOutput{}
	out.Body.Permissions = all
	return out, err
}

// openPermissions describes the open permission requests of a session, or of all sessions if
// session is empty.
func openPermissions(ctx context.Context, host *agents.Host, session string) ([]PermissionInfo, error) {
	open, err := host.Questions(ctx, session)
	all := make([]PermissionInfo, len(open))
	for i, q := range open {
		all[i] = PermissionInfo{ID: q.PublicID, Session: q.Session, AskedAt: q.AskedAt.UnixMilli()}
		if form, err := agents.ParseForm(q.Params); q.Method == agents.MethodForm && err == nil {
			all[i].Message, all[i].Questions = form.Message, form.Questions
			continue
		}
		var params struct {
			Tool    json.RawMessage `json:"toolCall"`
			Options json.RawMessage `json:"options"`
		}
		_ = json.Unmarshal(q.Params, &params) // a request without them can be answered, too
		all[i].Tool, all[i].Options = params.Tool, params.Options
	}
	return all, err
}
