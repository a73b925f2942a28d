package sessions

import (
	"context"
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
	open.Large = true
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
