package httpapi

import (
	"context"
	"slices"
	"time"

	"github.com/deskhand/deskhand/desktop"
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

// actorLister is a desktop that knows which actors send input.
type actorLister interface{ Actors() []desktop.Presence }

func (s *Server) registerPresence(r route) {
	r.id, r.path, r.summary = "getPresence", "/presence", "List the viewers, agents and API callers of the desktop"
	r.about = "The list has viewers, agents and API callers. The answer does not wait for the desktop."
	onSlot(s, r, func(ctx context.Context, sl *slot, _ *struct{}) (*presenceOutput, error) {
		return &presenceOutput{presenceBody{s.present(ctx, sl)}}, nil
	})
}

// present lists the viewers, agents and API callers of a desktop, each once.
func (s *Server) present(ctx context.Context, sl *slot) []presentBody {
	list := []presentBody{}
	add := func(a desktop.Actor, seen *time.Time) {
		one := presentBody{actorBody: actorBody{a.Kind, a.Name, a.ID}, SeenAt: seen}
		if !slices.ContainsFunc(list, func(p presentBody) bool { return p.actorBody == one.actorBody }) {
			list = append(list, one)
		}
	}
	if stream := sl.live.running(); stream != nil {
		for _, v := range stream.Viewers() {
			add(desktop.Actor{Kind: desktop.ActorViewer, Name: v.Name, ID: v.ID}, nil)
		}
	}
	_, _, d, _ := sl.status()
	if l, ok := d.(actorLister); ok {
		for _, p := range l.Actors() {
			add(p.Actor, &p.Seen)
		}
	}
	for _, agent := range s.agents.using(ctx, sl.id) {
		add(mountedActor(agent), nil)
	}
	if c, ok := d.(controller); ok {
		if h := c.Control().Holder; h != nil {
			add(*h, nil)
			for i := range list {
				list[i].Control = list[i].actorBody == actorBody{h.Kind, h.Name, h.ID}
			}
		}
	}
	return list
}

// using returns the names of the agents whose process has a desktop's tools.
func (a *agentHost) using(ctx context.Context, desktopID string) []string {
	host := a.started()
	if host == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, readTime)
	defer cancel()
	all, err := host.Servers(ctx)
	if err != nil {
		a.cfg.Logger.Debug("list agents of a desktop", "error", err)
	}
	var names []string
	for _, one := range all {
		if one.Running && one.Desktop == desktopID {
			names = append(names, one.Agent)
		}
	}
	return names
}
