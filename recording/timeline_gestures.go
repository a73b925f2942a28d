package recording

import (
	"github.com/deskhand/deskhand/desktop"
)

const (
	// pressTime is the longest time that a button is held in a click, and pressSlack
	// the largest distance that the pointer moves meanwhile, in pixels.
	pressTime  Milliseconds = 500
	pressSlack              = 4

	// againTime is the longest time between the clicks of a double click.
	againTime Milliseconds = 500

	// wheelPause is the pause that ends a viewer's scroll, and wheelMost the longest
	// time that a scroll lasts.
	wheelPause Milliseconds = 1000
	wheelMost  Milliseconds = 5000
)

// hand is one button of one actor, or the wheel if button is empty.
type hand struct {
	actor  desktop.Actor
	button desktop.Button
}

// gestures joins button events into clicks and drags, and a viewer's turns of the
// wheel into scrolls: viewers send each such event separately. An entry that became
// part of another one has no action afterwards.
func gestures(sorted []Entry) []Entry {
	g := gesturing{list: sorted, down: map[hand]int{}, clicked: map[hand]int{}, scrolled: map[hand]wheelTurn{}}
	for i, e := range sorted {
		a := e.Action
		if a == nil || a.At == nil || a.Error != "" {
			continue
		}
		switch h := (hand{a.Actor, a.Button}); a.Name {
		case desktop.ActionButtonDown:
			g.down[h] = i
		case desktop.ActionButtonUp:
			if from, ok := g.down[h]; ok {
				delete(g.down, h)
				g.release(h, from, i)
			}
		case desktop.ActionScroll:
			if a.Actor.Kind == desktop.ActorViewer && a.Delta != nil {
				g.scroll(h, i)
			}
		default: // no part of a gesture
		}
	}
	return g.list
}

// gesturing is a pass over a list. The maps have places in it.
type gesturing struct {
	list     []Entry
	down     map[hand]int
	clicked  map[hand]int // the latest clicks
	scrolled map[hand]wheelTurn
}

// wheelTurn is a scroll that may go on.
type wheelTurn struct {
	begun  int // place of its entry
	latest Milliseconds
}

// release makes one action of a button that went down and came up.
func (g *gesturing) release(h hand, down, up int) {
	first, last := g.list[down], g.list[up]
	a := *first.Action
	switch {
	case !samePlace(*a.At, *last.Action.At):
		a.Name, a.To = desktop.ActionDrag, last.Action.At
	case last.At-first.At > pressTime:
		return // it was held on purpose
	default:
		a.Name, a.Count = desktop.ActionClick, 1
		if before, ok := g.clicked[h]; ok && first.At-g.list[before].At <= againTime*Milliseconds(g.list[before].Action.Count) &&
			g.list[before].Action.Count < 3 && samePlace(*a.At, *g.list[before].Action.At) {
			g.list[before].Action.Count++
			g.absorb(down)
			g.absorb(up)
			return
		}
		g.clicked[h] = down
	}
	g.list[down].Action = &a
	g.absorb(up)
}

func samePlace(a, b desktop.Point) bool {
	dx, dy := a.X-b.X, a.Y-b.Y
	return dx*dx+dy*dy <= pressSlack*pressSlack
}

// scroll adds one turn of the wheel to the scroll before it, if that goes on.
func (g *gesturing) scroll(h hand, i int) {
	e := g.list[i]
	turn, ok := g.scrolled[h]
	if ok && e.At-turn.latest <= wheelPause && e.At-g.list[turn.begun].At <= wheelMost {
		whole := g.list[turn.begun].Action.Delta
		if along(whole.X, e.Action.Delta.X) && along(whole.Y, e.Action.Delta.Y) {
			whole.X += e.Action.Delta.X
			whole.Y += e.Action.Delta.Y
			g.scrolled[h] = wheelTurn{turn.begun, e.At}
			g.absorb(i)
			return
		}
	}
	a, delta := *e.Action, *e.Action.Delta
	a.Delta = &delta
	g.list[i].Action = &a
	g.scrolled[h] = wheelTurn{i, e.At}
}

// along says whether b does not turn back what a did.
func along(a, b int) bool { return a == 0 || b == 0 || (a > 0) == (b > 0) }

// absorb leaves an entry without an action, which another entry tells.
func (g *gesturing) absorb(i int) { g.list[i].Action = nil }
