package activity

import (
	"time"

	"github.com/deskhand/deskhand/desktop"
)

const (
	// clickTime and clickSlack are the longest time for which a click holds the button,
	// and the largest distance of the pointer between press and release, in pixels.
	clickTime  = 500 * time.Millisecond
	clickSlack = 4

	// repeatTime is the longest time between the clicks of a double click.
	repeatTime = 500 * time.Millisecond

	// scrollPause is the pause that ends a viewer's scroll, and maxScroll its longest
	// time.
	scrollPause = time.Second
	maxScroll   = 5 * time.Second
)

// control is a button of an actor, or the actor's wheel if button is empty.
type control struct {
	actor  desktop.Actor
	button desktop.Button
}

// Event is an action at a time, counted from any moment.
type Event struct {
	At     time.Duration
	Action *desktop.Action // nil: none
}

// Join joins the button events of each actor into clicks and drags, and the wheel events of
// viewers into scrolls. The list must be sorted by time. Join changes the list: the first event of
// a gesture gets the action of the gesture, and the others get no action.
func Join(sorted []Event) {
	j := joiner{list: sorted, down: map[control]int{}, clicked: map[control]int{}, scrolled: map[control]scroll{}}
	for i, e := range sorted {
		a := e.Action
		if a == nil || a.At == nil || a.Error != "" {
			continue
		}
		switch c := (control{a.Actor, a.Button}); a.Name {
		case desktop.ActionButtonDown:
			j.down[c] = i
		case desktop.ActionButtonUp:
			if from, ok := j.down[c]; ok {
				delete(j.down, c)
				j.release(c, from, i)
			}
		case desktop.ActionScroll:
			if a.Actor.Kind == desktop.ActorViewer && a.Delta != nil {
				j.scroll(c, i)
			}
		default: // not part of a gesture
		}
	}
}

// joiner is one pass over a list. The maps have indexes of the list.
type joiner struct {
	list     []Event
	down     map[control]int
	clicked  map[control]int // the latest click
	scrolled map[control]scroll
}

// scroll is a scroll that may continue.
type scroll struct {
	first  int
	latest time.Duration
}

// release makes a click or a drag of a button that went down and came up.
func (j *joiner) release(c control, down, up int) {
	first, last := j.list[down], j.list[up]
	a := *first.Action
	switch {
	case !samePlace(*a.At, *last.Action.At):
		a.Name, a.To = desktop.ActionDrag, last.Action.At
	case last.At-first.At > clickTime:
		return // the button was held
	default:
		a.Name, a.Count = desktop.ActionClick, 1
		if i, ok := j.clicked[c]; ok {
			before := &j.list[i]
			if first.At-before.At <= repeatTime*time.Duration(before.Action.Count) && before.Action.Count < 3 && samePlace(*a.At, *before.Action.At) {
				before.Action.Count++
				j.list[down].Action, j.list[up].Action = nil, nil
				return
			}
		}
		j.clicked[c] = down
	}
	j.list[down].Action, j.list[up].Action = &a, nil
}

func samePlace(a, b desktop.Point) bool {
	dx, dy := a.X-b.X, a.Y-b.Y
	return dx*dx+dy*dy <= clickSlack*clickSlack
}

// scroll adds an event of the wheel to the scroll before it, if that continues.
func (j *joiner) scroll(c control, i int) {
	e := j.list[i]
	s, ok := j.scrolled[c]
	if ok && e.At-s.latest <= scrollPause && e.At-j.list[s.first].At <= maxScroll {
		whole := j.list[s.first].Action.Delta
		if whole.X*e.Action.Delta.X >= 0 && whole.Y*e.Action.Delta.Y >= 0 { // in the same direction
			whole.X += e.Action.Delta.X
			whole.Y += e.Action.Delta.Y
			j.scrolled[c] = scroll{s.first, e.At}
			j.list[i].Action = nil
			return
		}
	}
	a, delta := *e.Action, *e.Action.Delta
	a.Delta = &delta
	j.list[i].Action = &a
	j.scrolled[c] = scroll{i, e.At}
}
