package httpapi

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/httpapi/internal/grants"
	"github.com/deskhand/deskhand/httpapi/internal/rest"
)

// controller is a desktop of which one party at a time has control.
type controller interface {
	Control() desktop.Control
	TakeControl(ctx context.Context, a desktop.Actor, force bool) error
	TakeSharedControl(ctx context.Context, a desktop.Actor, force bool) error
	ReleaseControl(ctx context.Context, a desktop.Actor) error
}

// controlBody tells who has control.
type controlBody struct {
	Holder *actorBody `json:"holder,omitempty" doc:"Nobody has control when it is left out"`
	Taken  bool       `json:"taken" doc:"The input of everybody else is refused"`
	Since  *time.Time `json:"since,omitempty"`
}

type actorBody struct {
	Kind desktop.ActorKind `json:"kind" enum:"api,agent,viewer"`
	Name string            `json:"name,omitempty"`
	ID   string            `json:"id,omitempty"`
}

type (
	controlOutput struct{ Body controlBody }

	takeBody struct {
		Force  bool `json:"force,omitempty" doc:"Take it from somebody who has taken it, too"`
		Shared bool `json:"shared,omitempty" doc:"Keep out other viewers only; API callers and agents may go on"`
	}
)

func controlOf(c desktop.Control) *controlOutput {
	out := &controlOutput{controlBody{Taken: c.Taken}}
	if c.Holder != nil {
		out.Body.Holder = &actorBody{c.Holder.Kind, c.Holder.Name, c.Holder.ID}
		out.Body.Since = &c.Since
	}
	return out
}

const aboutControl = "Callers are told apart by the name in their header Deskhand-Actor; those without one are all the same. "

func (s *Server) registerControl() {
	r := rest.Route{Method: http.MethodGet, Path: "/control", Tag: "Control", Other: rest.RuntimeFailed}
	of := func(d Desktop) (controller, error) {
		if c, ok := d.(controller); ok {
			return c, nil
		}
		return nil, rest.UnsupportedAction.WithCode("This kind of desktop knows no control")
	}
	s.registerPresence(r)
	get := r
	get.ID, get.Summary = "getControl", "Tell who has control of the desktop"
	get.About = "Control that was granted, as viewers get it, keeps other viewers out; control that was taken keeps everybody else out."
	on(s, get, nil, func(_ context.Context, d Desktop, _ *struct{}) (*controlOutput, error) {
		c, err := of(d)
		if err != nil {
			return nil, err
		}
		return controlOf(c.Control()), nil
	})
	take := r
	take.ID, take.Method, take.Path, take.Summary = "takeControl", http.MethodPost, "/control/take", "Take control of the desktop"
	take.About = aboutControl + "Until it is released, or a minute passes without input, all others' input is refused with 409 control_held."
	on(s, take, nil, func(ctx context.Context, d Desktop, in *rest.Input[takeBody]) (*controlOutput, error) {
		c, err := of(d)
		if err != nil {
			return nil, err
		}
		takeIt := c.TakeControl
		if in.Body.Shared {
			takeIt = c.TakeSharedControl
		}
		if err := takeIt(ctx, desktop.ActorFrom(ctx), in.Body.Force); err != nil {
			return nil, err
		}
		return controlOf(c.Control()), nil
	})
	release := r
	release.ID, release.Method, release.Path, release.Summary = "releaseControl", http.MethodPost, "/control/release", "Give control back"
	release.About = aboutControl + "Without having it, this does nothing."
	on(s, release, nil, func(ctx context.Context, d Desktop, _ *struct{}) (*controlOutput, error) {
		c, err := of(d)
		if err != nil {
			return nil, err
		}
		if err := c.ReleaseControl(ctx, desktop.ActorFrom(ctx)); err != nil {
			return nil, err
		}
		return controlOf(c.Control()), nil
	})
}

// controlHeld is the kind of problem that input is when another has control.
var controlHeld = rest.Kind{Code: "control_held", Title: "Control Held", Status: http.StatusConflict}

// controlProblem is the answer to input of somebody who does not have control,
// or nil.
func controlProblem(err error) *rest.Problem {
	var held *desktop.ControlHeldError
	if !errors.As(err, &held) {
		return nil
	}
	return controlHeld.WithCode(rest.Sentence(err)+"; wait until it is released, or take control").
		With("holder", actorBody{held.Holder.Kind, held.Holder.Name, held.Holder.ID})
}

// Headers in which a caller may say who it is: a name, or the key of a viewer who
// acts by other ways than its connection, such as on windows. The viewer's
// control is its own then.
const (
	actorHeader  = "Deskhand-Actor"
	viewerHeader = "Deskhand-Viewer"
)

// typingHeader says that a person types through the request: events and recordings get
// the number of its keys or characters alone.
const typingHeader = "Deskhand-Typing"

// callerOf checks the name that a request gives of who sends it.
func callerOf(name string) (string, *rest.Problem) {
	if name != "" && !grants.ActorName().MatchString(name) {
		return "", rest.InvalidRequest.Problem("invalid request: " + actorHeader +
			" must have 1 to 64 letters, digits, spaces or any of . _ @ -, and begin with a letter or a digit")
	}
	return name, nil
}
