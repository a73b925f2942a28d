package httpapi

import (
	"context"
	"time"

	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/desktop/fleet"
	"github.com/deskhand/deskhand/httpapi/internal/grants"
	"github.com/deskhand/deskhand/httpapi/internal/rest"
)

// presenceBody lists the viewers, agents and API callers of a desktop.
type presenceBody struct {
	Present []presentBody `json:"present" nullable:"false" doc:"Viewers, agents whose process runs with this desktop, the holder of control, and API callers and agents that sent input in the last five minutes"`
}

type presentBody struct {
	actorBody
	Control bool       `json:"control" doc:"It has control"`
	SeenAt  *time.Time `json:"seenAt,omitempty" doc:"When an API caller or agent last sent input"`
}

type presenceOutput struct{ Body presenceBody }

func (s *Server) registerPresence(r rest.Route) {
	r.ID, r.Path, r.Summary = "getPresence", "/presence", "List the viewers, agents and API callers of the desktop"
	r.About = "The list has viewers, agents and API callers. The answer does not wait for the desktop."
	onInstance(s, r, func(ctx context.Context, inst *fleet.Instance, _ *struct{}) (*presenceOutput, error) {
		return &presenceOutput{presenceBody{s.present(ctx, inst)}}, nil
	})
}

// present lists the viewers, agents and API callers of a desktop, each once.
func (s *Server) present(ctx context.Context, inst *fleet.Instance) []presentBody {
	var agents []desktop.Actor
	for _, agent := range s.agents.Using(ctx, inst.ID()) {
		agents = append(agents, grants.AgentActor(agent))
	}
	list := []presentBody{}
	for _, p := range inst.Presence(agents...) {
		one := presentBody{actorBody: actorBody{p.Actor.Kind, p.Actor.Name, p.Actor.ID}, Control: p.Control}
		if !p.Seen.IsZero() {
			one.SeenAt = &p.Seen
		}
		list = append(list, one)
	}
	return list
}
