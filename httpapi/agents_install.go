package httpapi

import (
	"bufio"
	"context"
	"net/http"
	"reflect"
	"slices"

	"github.com/danielgtaylor/huma/v2"
	"github.com/gofiber/fiber/v2"

	"github.com/deskhand/deskhand/agents/registry"
	"github.com/deskhand/deskhand/httpapi/internal/rest"
)

type installBody struct {
	Reinstall      bool   `json:"reinstall,omitempty" doc:"Also when it is installed"`
	Version        string `json:"agentVersion,omitempty" doc:"Version or tag of the agent's npm package; the one that was tried, when left out"`
	ProcessVersion string `json:"agentProcessVersion,omitempty" doc:"The same of what makes it speak ACP"`
}

type installInput struct {
	Agent string `path:"agent" example:"claude"`
	Body  installBody
}

// agentInstalled has a name in snake case, as sandbox-agent's has.
type agentInstalled struct {
	Already   bool            `json:"already_installed"`
	Artifacts []agentArtifact `json:"artifacts" nullable:"false" doc:"What was installed"`
}

type agentArtifact struct {
	Kind    string `json:"kind" enum:"native_agent,agent_process"`
	Path    string `json:"path"`
	Source  string `json:"source" enum:"registry,fallback,local_path,builtin"`
	Version string `json:"version,omitempty"`
}

func (s *Server) registerInstall(r rest.Route) {
	schema := s.rest.Huma.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[agentInstalled](), true, "AgentInstalled")
	r.ID, r.Method, r.Path, r.Summary = "installAgent", http.MethodPost, "/v1/agents/{agent}/install", "Install an agent"
	r.About = "From npm, without running its packages' scripts; answers when it is done. Its first session would install it as well. " +
		"When it takes long the response begins with white space, and a failure is then the problem as the body of a 200. " +
		"Follow install/events to see how far it is."
	r.Errors = append(slices.Clone(r.Errors), http.StatusInternalServerError, http.StatusServiceUnavailable)
	r.Content = map[string]*huma.MediaType{fiber.MIMEApplicationJSON: {Schema: schema}}
	rest.Add(s.routes, r, s.installAgent)
}

func (s *Server) installAgent(ctx context.Context, in *installInput) (*rest.LongOutput, error) {
	answer, err := s.startInstall(in)
	if err != nil {
		return nil, err
	}
	return rest.AnswerLong(s.rest, answer, func(err error) any {
		return s.routes.Fail(ctx, rest.Route{ID: "installAgent"}, err) // which tells the status that it would have had
	})
}

// startInstall begins an install, which goes on without the client, and ends
// with the server.
func (s *Server) startInstall(in *installInput) (<-chan rest.LongAnswer[agentInstalled], error) {
	if s.rest.Begin() != nil {
		return nil, rest.Closing()
	}
	answer := make(chan rest.LongAnswer[agentInstalled], 1)
	options := registry.InstallOptions{Reinstall: in.Body.Reinstall, AgentVersion: in.Body.Version, ProcessVersion: in.Body.ProcessVersion}
	go func() { // Close waits for it
		defer s.rest.Serving.Done()
		ctx, stop := rest.WhileWanted(nil, s.rest.Done())
		defer stop()
		got, err := s.registry.Install(ctx, in.Agent, options)
		if p := agentProblem(err, in.Agent); p != nil {
			err = p
		}
		body := agentInstalled{Already: got.Already, Artifacts: make([]agentArtifact, len(got.Artifacts))}
		for i, a := range got.Artifacts {
			body.Artifacts[i] = agentArtifact{string(a.Kind), a.Path, string(a.Source), a.Version}
		}
		answer <- rest.LongAnswer[agentInstalled]{Body: body, Err: err}
	}()
	return answer, nil
}

// registerInstallEvents adds the way to see how far an install is.
func (s *Server) registerInstallEvents(r rest.Route) {
	r.ID, r.Method, r.Path, r.Summary = "followAgentInstall", http.MethodGet, "/v1/agents/{agent}/install/events", "Follow the install of an agent"
	r.Query = true
	r.About = "A stream of server-sent events named progress: first how far the install is that is under way, or the next one, then each change. " +
		"It ends with stage done or failed. A client that is slow misses some in between, never the last."
	r.Content = map[string]*huma.MediaType{"text/event-stream": {Schema: &huma.Schema{Type: huma.TypeString}}}
	rest.Add(s.routes, r, func(_ context.Context, in *modesInput) (*rest.EventsOutput, error) {
		if _, err := s.registry.Agent(in.Agent); err != nil {
			return nil, agentProblem(err, in.Agent)
		}
		return &rest.EventsOutput{ContentType: "text/event-stream", Cache: rest.StreamCache, Buffering: "no", Body: func(ctx huma.Context) {
			ctx.SetStatus(http.StatusOK)
			r := rest.RequestOf(ctx)
			if r.Method() == fiber.MethodHead {
				return
			}
			s.rest.Follow(r, nil, func(w *bufio.Writer, flush func() error, gone, ending <-chan struct{}) {
				s.writeProgress(w, flush, in.Agent, gone, ending)
			})
		}}, nil
	})
}

// writeProgress writes progress until the install that is under way, or comes
// next, has ended, or nobody wants to know.
func (s *Server) writeProgress(w *bufio.Writer, flush func() error, agent string, gone, ending <-chan struct{}) {
	stop, follow := make(chan struct{}), make(chan struct{})
	events := make(chan registry.Progress)
	go func() {
		defer close(follow)
		defer close(events)
		s.followProgress(agent, events, stop)
	}()
	rest.WriteEvents(w, flush, events, func(w *bufio.Writer, p registry.Progress) error {
		data, err := rest.MarshalJSON(p)
		if err == nil {
			_, err = w.WriteString("event: progress\ndata: " + string(data) + "\n\n")
		}
		return err
	}, rest.Heartbeat, gone, ending)
	close(stop)
	<-follow
}

func (s *Server) followProgress(agent string, events chan<- registry.Progress, stop <-chan struct{}) {
	p, seen, changed := s.registry.Progress(agent)
	if p.Stage.Over() || seen == 0 {
		p.Stage = "" // an earlier one
	}
	for {
		if p.Stage != "" {
			select {
			case events <- p:
			case <-stop:
				return
			}
			if p.Stage.Over() {
				return
			}
		}
		select {
		case <-changed:
		case <-stop:
			return
		}
		p, _, changed = s.registry.Progress(agent)
	}
}
