package desktops

import (
	"context"
	"maps"
	"sync"

	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/desktop/activity"
)

// trackers holds what the answers to the actors of running desktops have reported.
type trackers struct {
	mu  sync.Mutex
	all map[string]tracker // by the id of the desktop
}

type tracker struct {
	desk any // the running desktop
	*activity.Tracker
}

// tracker returns the tracker of a running desktop. One is made for each of its starts.
func (a *Area) tracker(id string, d any) *activity.Tracker {
	t := &a.activity
	t.mu.Lock()
	defer t.mu.Unlock()
	if have := t.all[id]; have.desk == d {
		return have.Tracker
	}
	maps.DeleteFunc(t.all, func(id string, _ tracker) bool {
		_, err := a.fleet.Find(id)
		return err != nil
	})
	if t.all == nil {
		t.all = map[string]tracker{}
	}
	made := tracker{d, &activity.Tracker{}}
	t.all[id] = made
	return made.Tracker
}

// meanwhile returns what others did on a desktop while the actor of ctx did not have control.
func (a *Area) meanwhile(ctx context.Context, id string, d any) []activity.Deed {
	watched, ok := d.(activity.Desktop)
	if !ok {
		return nil
	}
	return a.tracker(id, d).Meanwhile(watched, desktop.ActorFrom(ctx))
}
