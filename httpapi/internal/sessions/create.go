package sessions

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"

	"github.com/danielgtaylor/huma/v2"
	"github.com/gofiber/fiber/v2"

	"github.com/deskhand/deskhand/agents"
	"github.com/deskhand/deskhand/agents/eventlog"
	"github.com/deskhand/deskhand/httpapi/internal/agenthost"
	"github.com/deskhand/deskhand/httpapi/internal/rest"
	"github.com/deskhand/deskhand/internal/configfile"
	"github.com/deskhand/deskhand/internal/plainjson"
)

type sessionCreatedBody struct {
	Healthy bool          `json:"healthy"`
	Error   *sessionError `json:"error,omitempty"`
	agentID
}

func (a *area) registerCreate(r rest.Route) {
	schema := a.Huma.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[sessionCreatedBody](), true, "SessionCreatedBody")
	r = r.WithErrors(http.StatusConflict)
	r.About = "Installs the agent if necessary. A slow response starts with white space; a failure is then in error, with healthy: false."
	r.Content = map[string]*huma.MediaType{fiber.MIMEApplicationJSON: {Schema: schema}}
	agenthost.Add(a.Group, r, a.create)
}

// create makes a session, also if the client disconnects.
func (a *area) create(ctx context.Context, in *sessionCreateInput) (*rest.BodyOutput, error) {
	host, err := a.Host.Get(ctx)
	if err != nil {
		return nil, err
	}
	work := rest.Detach(ctx)
	return a.AnswerLong(ctx, a.Host.Go, func() ([]byte, error) { // ends at the latest with the host
		body, err := a.begin(work, host, in)
		if err != nil {
			return nil, agenthost.Names{Session: in.ID, Agent: in.Body.Agent}.Explain(err)
		}
		return plainjson.Marshal(body)
	}, func(err error) []byte {
		p := a.Fail(ctx, rest.Route{ID: "createSession"}, err)
		text, _ := plainjson.Marshal(in.failure(p.Code, p))
		return text
	})
}

// begin makes a session. An agent that does not work is a body, not an error.
func (a *area) begin(ctx context.Context, host *agents.Host, in *sessionCreateInput) (*sessionCreatedBody, error) {
	if err := in.Body.check(); err != nil {
		return nil, err
	}
	o, err := in.Body.options(host, a.Host.Folder)
	if err != nil {
		return nil, err
	}
	if len(in.Body.Skills) > 0 && string(in.Body.Skills) != "null" {
		o.Skills = in.Body.Skills
	}
	session, err := host.CreateSession(ctx, in.ID, o)
	if err != nil {
		return a.explain(err, in)
	}
	payload, err := plainjson.Marshal(in.Body)
	if err != nil {
		return nil, err
	}
	out := &sessionCreatedBody{Healthy: true, agentID: newAgentID(session.Native)}
	return out, host.Log().Commit(ctx, func(tx *eventlog.Tx) error {
		_, err := tx.Append(eventlog.Event{Stream: streamOf(in.ID), Session: in.ID, Dir: eventlog.Client, Kind: "create", Payload: payload})
		return err
	})
}

// Bounds of the members of a request, which lists and streams of sessions repeat.
const (
	maxConfig = 64 << 10 // of mcp and skills
	maxMember = 4 << 10  // of the others
)

// check returns a problem for a member that is too large.
func (c *sessionCreate) check() error {
	mcp := 0
	for name, entry := range c.MCP {
		mcp += len(name) + len(entry)
	}
	for _, m := range []struct {
		name        string
		bytes, most int
	}{
		{"mcp", mcp, maxConfig},
		{"skills", len(c.Skills), maxConfig},
		{"agentMode", len(rest.Value(c.AgentMode)), maxMember},
		{"agentVersion", len(rest.Value(c.AgentVersion)), maxMember},
		{"directory", len(rest.Value(c.Directory)), maxMember},
		{"model", len(rest.Value(c.Model)), maxMember},
		{"variant", len(rest.Value(c.Variant)), maxMember},
	} {
		if m.bytes > m.most {
			return rest.InvalidField(m.name, fmt.Sprintf("%s has %d bytes, and at most %d are allowed", m.name, m.bytes, m.most))
		}
	}
	return nil
}

// explain returns the body for an error of an agent that does not work, or the problem for
// another error.
func (a *area) explain(err error, in *sessionCreateInput) (*sessionCreatedBody, error) {
	var start *agents.StartError
	var exited *agents.ExitedError
	var refused *agents.ResponseError
	var late *agents.TimeoutError
	var broken *configfile.InvalidFileError
	if errors.As(err, &broken) || rest.IsAny(err, configfile.ErrTooLarge, configfile.ErrLocked) {
		return nil, a.FolderProblem(err) // where its skills are to be kept
	}
	if !errors.As(err, &start) && !errors.As(err, &exited) && !errors.As(err, &refused) && !errors.As(err, &late) {
		return nil, err
	}
	out := in.failure(agenthost.Names{Session: in.ID, Agent: in.Body.Agent}.Problem(err).Code, err)
	if exited != nil {
		out.Error.Details = agenthost.ExitDetails(exited)
	}
	return out, nil
}

func (in *sessionCreateInput) failure(code string, err error) *sessionCreatedBody {
	return &sessionCreatedBody{Error: &sessionError{Type: code, Message: err.Error(), Agent: in.Body.Agent, Session: in.ID}}
}
