package desktops

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/httpapi/internal/grants"
	"github.com/deskhand/deskhand/httpapi/internal/rest"
)

// controller is a desktop of which one actor at a time has control.
type controller interface {
	Control() desktop.Control
	TakeControl(ctx context.Context, a desktop.Actor, force bool) error
	TakeSharedControl(ctx context.Context, a desktop.Actor, force bool) error
	ReleaseControl(ctx context.Context, a desktop.Actor) error
}

type controlBody struct {
	Holder *actorBody `json:"holder,omitempty" doc:"Omitted if no actor is in control"`
	Taken  bool       `json:"taken" doc:"Whether input of all other actors is refused"`
	Since  *time.Time `json:"since,omitempty"`
}

type actorBody struct {
	Kind desktop.ActorKind `json:"kind" enum:"api,agent,viewer"`
	Name string            `json:"name,omitempty"`
	ID   string            `json:"id,omitempty"`
}

type takeBody struct {
	Force  bool `json:"force,omitempty" doc:"Take control even if another client is in control"`
	Shared bool `json:"shared,omitempty" doc:"Refuse only the input of other viewers, and accept input of API callers and agents"`
}

// presenceBody lists the viewers, agents and API callers of a desktop.
type presenceBody struct {
	Present []presentBody `json:"present" nullable:"false" doc:"Viewers, agents with a running process that uses this desktop, the actor in control, and API callers and agents that sent input in the last five minutes"`
}

type presentBody struct {
	actorBody
	Control bool       `json:"control" doc:"Whether it is in control"`
	SeenAt  *time.Time `json:"seenAt,omitempty" doc:"Time of the last input of an API caller or agent"`
}

func actorOf(a desktop.Actor) actorBody { return actorBody{a.Kind, a.Name, a.ID} }

func controlOf(c desktop.Control) controlBody {
	out := controlBody{Taken: c.Taken}
	if c.Holder != nil {
		holder := actorOf(*c.Holder)
		out.Holder, out.Since = &holder, &c.Since
	}
	return out
}

const controlTag = "Control"

const aboutControl = "The header Deskhand-Actor names the caller; callers without the header are the same actor. "

func (a *Area) registerControl() {
	r := rest.Route{Tag: controlTag, Other: runtimeFailed}
	add(a, r.Get("getPresence", "/presence", "List the viewers, agents and API callers of the desktop").
		WithAbout("The response does not wait for the desktop."), a.presence)
	act(a, r.Get("getControl", "/control", "Get the actor in control of the desktop").
		WithAbout("While a viewer has the control that it requested, the input of other viewers is refused. While control is taken, the input of all other actors is refused."),
		func(_ context.Context, in *target) (*rest.Output[controlBody], error) {
			return a.control(in.Desktop, func(controller) error { return nil })
		})
	act(a, r.Post("takeControl", "/control/take", "Take control of the desktop").
		WithAbout(aboutControl+"The input of all other actors is refused with 409 control_held until control is released, or a minute passes without input."),
		func(ctx context.Context, in *input[takeBody]) (*rest.Output[controlBody], error) {
			return a.control(in.Desktop, func(c controller) error {
				if in.Body.Shared {
					return c.TakeSharedControl(ctx, desktop.ActorFrom(ctx), in.Body.Force)
				}
				return c.TakeControl(ctx, desktop.ActorFrom(ctx), in.Body.Force)
			})
		})
	act(a, r.Post("releaseControl", "/control/release", "Release control").WithAbout(aboutControl+"Does nothing if the caller is not in control."),
		func(ctx context.Context, in *target) (*rest.Output[controlBody], error) {
			return a.control(in.Desktop, func(c controller) error { return c.ReleaseControl(ctx, desktop.ActorFrom(ctx)) })
		})
}

// control calls change and returns the control of a desktop.
func (a *Area) control(desktopID string, change func(controller) error) (*rest.Output[controlBody], error) {
	c, err := running[controller](a, desktopID)
	if err == nil {
		err = change(c)
	}
	if err != nil {
		return nil, err
	}
	return rest.Reply(controlOf(c.Control()), nil)
}

func (a *Area) presence(ctx context.Context, in *target) (*rest.Output[presenceBody], error) {
	inst, err := a.fleet.Find(in.Desktop)
	if err != nil {
		return nil, err
	}
	var agents []desktop.Actor
	for _, agent := range a.cfg.AgentsUsing(ctx, in.Desktop) {
		agents = append(agents, grants.AgentActor(agent))
	}
	list := []presentBody{}
	for _, p := range inst.Presence(agents...) {
		one := presentBody{actorBody: actorOf(p.Actor), Control: p.Control}
		if !p.Seen.IsZero() {
			one.SeenAt = &p.Seen
		}
		list = append(list, one)
	}
	return rest.Reply(presenceBody{list}, nil)
}

// release releases the control of a caller that has disconnected.
func (a *Area) release(c controller, caller desktop.Actor) {
	ctx, cancel := context.WithTimeout(context.Background(), partingTime)
	defer cancel()
	if err := c.ReleaseControl(ctx, caller); err != nil {
		a.cfg.Logger.Debug("release control of a caller that has disconnected", "error", err)
	}
}

// partingTime bounds the release of a caller's keys.
const partingTime = 5 * time.Second

// ReleaseControl ends the control that an actor has of the desktops that its token shows.
func ReleaseControl(a *Area, g *grants.Grant, holder string) {
	ctx, cancel := context.WithTimeout(context.Background(), partingTime)
	defer cancel()
	var all sync.WaitGroup
	for _, inst := range a.fleet.List() {
		d, err := inst.Desktop()
		c, ok := d.(controller)
		if err != nil || !ok || !shows(g, inst.ID()) {
			continue
		}
		all.Go(func() {
			if err := c.ReleaseControl(ctx, g.Actor(holder)); err != nil && !errors.Is(err, desktop.ErrClosed) {
				a.cfg.Logger.Debug("release control of a caller that has disconnected", "desktop", inst.ID(), "error", err)
			}
		})
	}
	all.Wait()
}
