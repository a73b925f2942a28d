package fleet

import (
	"slices"
	"time"

	"github.com/deskhand/deskhand/desktop"
)

// Presence is a viewer, agent or API caller of a desktop.
type Presence struct {
	Actor   desktop.Actor
	Control bool      // it has control
	Seen    time.Time // when an API caller or agent last sent input; zero: unknown
}

// Presence returns the actors of the desktop, each once: its viewers, the API callers
// and agents that sent input in the last five minutes, others, and the holder of
// control. It does not block.
func (in *Instance) Presence(others ...desktop.Actor) []Presence {
	var all []Presence
	add := func(a desktop.Actor, seen time.Time) {
		if !slices.ContainsFunc(all, func(p Presence) bool { return p.Actor == a }) {
			all = append(all, Presence{Actor: a, Seen: seen})
		}
	}
	if stream := in.RunningStream(); stream != nil {
		for _, v := range stream.Viewers() {
			add(desktop.Actor{Kind: desktop.ActorViewer, Name: v.Name, ID: v.ID}, time.Time{})
		}
	}
	d := in.Status().Desktop
	if l, ok := d.(interface{ Actors() []desktop.Presence }); ok {
		for _, p := range l.Actors() {
			add(p.Actor, p.Seen)
		}
	}
	for _, a := range others {
		add(a, time.Time{})
	}
	if c, ok := d.(interface{ Control() desktop.Control }); ok {
		if holder := c.Control().Holder; holder != nil {
			add(*holder, time.Time{})
			for i := range all {
				all[i].Control = all[i].Actor == *holder
			}
		}
	}
	return all
}
