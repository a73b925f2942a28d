package agents

import (
	"context"
	"net/http"
	"reflect"

	"github.com/danielgtaylor/huma/v2"
	"github.com/gofiber/fiber/v2"

	"github.com/deskhand/deskhand/agents/registry"
	"github.com/deskhand/deskhand/httpapi/internal/agenthost"
	"github.com/deskhand/deskhand/httpapi/internal/rest"
	"github.com/deskhand/deskhand/internal/plainjson"
)

type installBody struct {
	Reinstall      bool   `json:"reinstall,omitempty" doc:"Install again if it is installed"`
	Version        string `json:"agentVersion,omitempty" doc:"Version or tag of the agent's npm package; defaults to the tested version"`
	ProcessVersion string `json:"agentProcessVersion,omitempty" doc:"Version or tag of the agent's ACP adapter package; defaults to the tested version"`
}

type installInput struct {
	Agent string `path:"agent" example:"claude"`
	Body  installBody
}

// agentInstalled has a member in snake case, like sandbox-agent's.
type agentInstalled struct {
	Already   bool            `json:"already_installed"`
	Artifacts []agentArtifact `json:"artifacts" nullable:"false" doc:"Installed programs"`
}

type agentArtifact struct {
	Kind    string `json:"kind" enum:"native_agent,agent_process"`
	Path    string `json:"path"`
	Source  string `json:"source" enum:"registry,fallback,local_path,builtin"`
	Version string `json:"version,omitempty"`
}

func (a *area) registerInstall(r rest.Route) {
	schema := a.Huma.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[agentInstalled](), true, "AgentInstalled")
	r = r.Post("installAgent", "/v1/agents/{agent}/install", "Install an agent").
		WithErrors(http.StatusInternalServerError, http.StatusServiceUnavailable)
	r.About = "Installs the agent from npm without running scripts of packages, and responds when the install has ended. " +
		"The first session of an agent also installs it. A slow response starts with white space; a failure is then a problem in the body of a 200. " +
		"install/events reports the progress."
	r.Content = map[string]*huma.MediaType{fiber.MIMEApplicationJSON: {Schema: schema}}
	agenthost.Add(a.Group, r, a.install)
}

func (a *area) install(ctx context.Context, in *installInput) (*rest.BodyOutput, error) {
	options := registry.InstallOptions{Reinstall: in.Body.Reinstall, AgentVersion: in.Body.Version, ProcessVersion: in.Body.ProcessVersion}
	return a.AnswerLong(ctx, a.Go, func() ([]byte, error) {
		ctx, stop := rest.WhileWanted(nil, a.Done())
		defer stop()
		got, err := a.Registry.Install(ctx, in.Agent, options)
		if err != nil {
			return nil, agenthost.Names{Agent: in.Agent}.Explain(err)
		}
		body := agentInstalled{Already: got.Already, Artifacts: make([]agentArtifact, len(got.Artifacts))}
		for i, a := range got.Artifacts {
			body.Artifacts[i] = agentArtifact{string(a.Kind), a.Path, string(a.Source), a.Version}
		}
		return plainjson.Marshal(body)
	}, func(err error) []byte {
		text, _ := plainjson.Marshal(a.Fail(ctx, rest.Route{ID: "installAgent"}, err)) // it has the status that it would have had
		return text
	})
}

func (a *area) registerProgress(r rest.Route) {
	r = r.Get("followAgentInstall", "/v1/agents/{agent}/install/events", "Stream the progress of an install")
	r.Query = true
	r.About = "A stream of server-sent events named progress: first the state of the running install, or of the next one, then each change. " +
		"It ends with the stage done or failed. A slow client misses intermediate events, never the last."
	r.Content = rest.EventContent()
	agenthost.Add(a.Group, r, a.followInstall)
}

// followInstall answers with the progress of the install that is under way, or of the
// next one, until that install ends.
func (a *area) followInstall(_ context.Context, in *agentPath) (*rest.EventsOutput, error) {
	if _, err := a.Registry.Agent(in.Agent); err != nil {
		return nil, err
	}
	p, seen, changed := a.Registry.Progress(in.Agent)
	news := p.Stage != "" && !p.Stage.Over() && seen != 0
	return rest.AnswerFeed(a.API, rest.Feed[registry.Progress]{
		Next: func(ctx context.Context) (registry.Progress, error) {
			for ; !news; news = p.Stage != "" {
				select {
				case <-changed:
				case <-ctx.Done():
					return p, ctx.Err()
				}
				p, _, changed = a.Registry.Progress(in.Agent)
			}
			news = false
			return p, nil
		},
		Write: func(_ context.Context, w *rest.EventWriter, p registry.Progress) (more bool) {
			return w.WriteJSON("progress", 0, p) && !p.Stage.Over()
		},
	}), nil
}
