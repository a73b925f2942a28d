package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"reflect"
	"slices"

	"github.com/danielgtaylor/huma/v2"
	"github.com/gofiber/fiber/v2"

	"github.com/deskhand/deskhand/agents"
	"github.com/deskhand/deskhand/agents/eventlog"
	"github.com/deskhand/deskhand/httpapi/internal/rest"
	"github.com/deskhand/deskhand/internal/configfile"
)

type sessionCreatedBody struct {
	Healthy bool          `json:"healthy"`
	Error   *sessionError `json:"error,omitempty"`
	Native  *string       `json:"nativeSessionId,omitempty"`
}

func (s *Server) registerCreateSession(r rest.Route) {
	schema := s.rest.Huma.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[sessionCreatedBody](), true, "SessionCreatedBody")
	r.About = "The agent is installed first if need be. When it takes long the response begins with white space, and a failure is then an error with healthy: false."
	r.Errors = append(slices.Clone(r.Errors), http.StatusConflict)
	r.Content = map[string]*huma.MediaType{fiber.MIMEApplicationJSON: {Schema: schema}}
	rest.Add(s.routes, r, s.createSession)
}

// createSession makes a session, also when the client does not wait for that.
func (s *Server) createSession(ctx context.Context, in *sessionCreateInput) (*rest.LongOutput, error) {
	host, err := s.agents.get(ctx)
	if err != nil {
		return nil, acpError(err, in.ID, in.Body.Agent)
	}
	answer := make(chan rest.LongAnswer[sessionCreatedBody], 1)
	s.agents.waiting.Go(func() { // ends at the latest with the host
		body, err := in.make(context.Background(), host)
		answer <- rest.LongAnswer[sessionCreatedBody]{Body: body, Err: err}
	})
	return rest.AnswerLong(s.rest, answer, func(err error) any {
		p := problemOf(s.routes.Fail(ctx, rest.Route{ID: "createSession"}, err), rest.Internal)
		return sessionCreatedBody{Error: &sessionError{Type: p.Code, Message: p.Detail, Agent: in.Body.Agent, Session: in.ID}}
	})
}

func (in *sessionCreateInput) make(ctx context.Context, host *agents.Host) (out sessionCreatedBody, err error) {
	o, err := in.Body.options(host)
	if err != nil {
		return out, err
	}
	if len(in.Body.Skills) > 0 && string(in.Body.Skills) != "null" {
		o.Skills = in.Body.Skills
	}
	session, err := host.CreateSession(ctx, in.ID, o)
	if err != nil {
		return out, out.fail(err, in)
	}
	made, err := json.Marshal(in.Body)
	if err != nil {
		return out, err
	}
	err = host.Log().Commit(ctx, func(tx *eventlog.Tx) error {
		_, err := tx.Append(eventlog.Event{Stream: restStream(in.ID), Session: in.ID, Dir: eventlog.Client, Kind: "create", Payload: made})
		return err
	})
	if err != nil {
		return out, acpError(err, in.ID, in.Body.Agent)
	}
	out.Healthy = true
	if session.Native != "" {
		out.Native = &session.Native
	}
	return out, nil
}

// fail tells of an agent that does not work in the answer, and returns all other
// errors.
func (out *sessionCreatedBody) fail(err error, in *sessionCreateInput) error {
	var start *agents.StartError
	var exited *agents.ExitedError
	var refused *agents.ResponseError
	var late *agents.TimeoutError
	var broken *configfile.InvalidFileError
	if errors.As(err, &broken) || errors.Is(err, configfile.ErrTooLarge) || errors.Is(err, configfile.ErrLocked) {
		return configProblem(err) // where its skills are to be kept
	}
	if !errors.As(err, &start) && !errors.As(err, &exited) && !errors.As(err, &refused) && !errors.As(err, &late) {
		return acpError(err, in.ID, in.Body.Agent)
	}
	p := hostProblem(err, in.ID, in.Body.Agent)
	out.Error = &sessionError{Type: p.Code, Message: err.Error(), Agent: in.Body.Agent, Session: in.ID}
	if exited != nil {
		out.Error.Details = exitDetails(exited)
	}
	return nil
}
