package activity

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/deskhand/deskhand/desktop"
)

// Bounds of a Tracker.
const (
	// MaxDeeds is how many deeds Meanwhile returns at most. It leaves out the earlier ones.
	MaxDeeds = 50

	maxActors = 64
)

// Deed is what an actor did.
type Deed struct {
	By     string           `json:"by" doc:"Name of the actor"`
	Did    string           `json:"did" doc:"The name of the action, or typed"`
	At     *Point           `json:"at,omitempty" doc:"Where, as [x, y]"`
	To     *Point           `json:"to,omitempty" doc:"End of a drag, or new position of a window"`
	Button desktop.Button   `json:"button,omitempty" doc:"Omitted for the left button"`
	Count  int              `json:"count,omitempty" doc:"Clicks, if more than one"`
	Delta  *Point           `json:"delta,omitempty" doc:"Steps of the wheel to the right and down"`
	Length int              `json:"length,omitempty" doc:"Characters that were typed"`
	Window desktop.WindowID `json:"window,omitempty"`
	App    string           `json:"app,omitempty" doc:"The program that was started"`
	Times  int              `json:"times,omitempty" doc:"How often in a row, if more than once"`
}

// Point is a position, in JSON [x, y].
type Point [2]int

// String puts a deed into words: "Viewer 1 clicked at [5, 6]".
func (d Deed) String() string {
	did := strings.ReplaceAll(d.Did, "_", " ")
	switch d.Did {
	case "typed":
		did = "typed"
		if d.Length > 0 {
			did = fmt.Sprintf("typed %d characters", d.Length)
		}
	case string(desktop.ActionClick):
		did = cmp.Or(map[int]string{2: "double-clicked", 3: "triple-clicked"}[d.Count], "clicked")
		if d.Button != "" {
			did += " the " + string(d.Button) + " button"
		}
	}
	text := d.By + " " + did
	if d.At != nil {
		text += fmt.Sprintf(" at [%d, %d]", d.At[0], d.At[1])
	}
	if d.To != nil {
		text += fmt.Sprintf(" to [%d, %d]", d.To[0], d.To[1])
	}
	if d.App != "" {
		text += " " + d.App
	}
	if d.Times > 1 {
		text += fmt.Sprintf(" %d times", d.Times)
	}
	return text
}

// Map returns a copy of deeds in which f has replaced each position, for example by a position in
// a picture. It does not map Delta.
func Map(deeds []Deed, f func(desktop.Point) desktop.Point) []Deed {
	deeds = slices.Clone(deeds)
	for i := range deeds {
		for _, p := range []**Point{&deeds[i].At, &deeds[i].To} {
			if *p != nil {
				q := f(desktop.Point{X: (*p)[0], Y: (*p)[1]})
				*p = &Point{q.X, q.Y}
			}
		}
	}
	return deeds
}

// Desktop is the part of a desktop that a Tracker needs. A *desktop.Desktop is one.
type Desktop interface {
	Control() desktop.Control
	Subscribe(after uint64) *desktop.Subscription
}

// Tracker remembers, for each actor of a desktop, the last event that Meanwhile has covered. The
// zero value is ready. It keeps the 64 latest actors. A desktop that was started again needs
// another Tracker.
type Tracker struct {
	mu    sync.Mutex
	marks map[desktop.Actor]mark
}

// mark is the state of a desktop at the last answer of an actor.
type mark struct {
	last  uint64          // Seq of the newest event
	taken []desktop.Actor // the holder of exclusive control, if that was another actor
}

// Meanwhile returns what other actors did since the last call for actor a, if one of them took
// exclusive control from a in that time: the deeds of viewers and of the actors that took
// control, the last MaxDeeds. It returns nil while another actor still has exclusive control; the
// next call after that returns those deeds. The first call for an actor returns nil. Meanwhile
// does not block.
//
// The desktop keeps its latest 1024 events. If earlier ones are lost, Meanwhile returns the deeds
// of viewers among the rest, even if no actor is known to have taken control.
func (t *Tracker) Meanwhile(d Desktop, a desktop.Actor) []Deed {
	t.mu.Lock()
	defer t.mu.Unlock()
	if a.ID != "" {
		a.Name = "" // as Actor.Same has it
	}
	before, known := t.marks[a]
	held := takenFrom(d.Control(), a)
	if held != nil && known {
		return nil
	}
	sub := d.Subscribe(0)
	events, last := sub.Recent(before.last)
	sub.Close()
	t.remember(a, mark{last, held})
	if !known {
		return nil
	}
	return deeds(events, a, before.taken)
}

// takenFrom returns the holder of exclusive control, unless that is a.
func takenFrom(c desktop.Control, a desktop.Actor) []desktop.Actor {
	if !c.Taken || c.Holder == nil || c.Holder.Same(a) {
		return nil
	}
	return []desktop.Actor{*c.Holder}
}

func (t *Tracker) remember(a desktop.Actor, m mark) {
	if t.marks == nil {
		t.marks = map[desktop.Actor]mark{}
	}
	t.marks[a] = m
	if len(t.marks) <= maxActors {
		return
	}
	for other, m := range t.marks { // the one whose last answer is the oldest
		if m.last < t.marks[a].last {
			a = other
		}
	}
	delete(t.marks, a)
}

// deeds returns what others did in events, if one of them had taken control before or took
// it then.
func deeds(events []desktop.Event, a desktop.Actor, holders []desktop.Actor) []Deed {
	gap := false
	for _, e := range events {
		gap = gap || e.Type == desktop.EventGap
		if e.Control != nil {
			holders = append(holders, takenFrom(*e.Control, a)...)
		}
	}
	if len(holders) == 0 && !gap {
		return nil
	}
	var list []Event
	var start time.Time
	slices.SortStableFunc(events, func(a, b desktop.Event) int { return a.Time.Compare(b.Time) })
	for _, e := range events {
		if e.Action == nil || e.Action.Error != "" || e.Action.Actor.Same(a) {
			continue
		}
		by := e.Action.Actor
		if by.Kind != desktop.ActorViewer && !slices.ContainsFunc(holders, by.Same) {
			continue
		}
		if start.IsZero() {
			start = e.Time
		}
		list = append(list, Event{e.Time.Sub(start), e.Action})
	}
	Join(list)
	names := names{}
	var out []Deed
	for _, e := range list {
		if e.Action != nil && e.Action.Name != desktop.ActionKeyUp && e.Action.Name != desktop.ActionReleaseAll {
			out = add(out, names.deed(*e.Action))
		}
	}
	return out[max(0, len(out)-MaxDeeds):]
}

// add appends a deed to a list, or joins it with the last one.
func add(list []Deed, d Deed) []Deed {
	if len(list) == 0 {
		return append(list, d)
	}
	last := &list[len(list)-1]
	same := last.By == d.By && last.Did == d.Did
	switch {
	case same && d.Did == "typed":
		last.Length += d.Length
	case same && d.Did == string(desktop.ActionMove):
		last.At = d.At
	case same && equal(last.At, d.At) && equal(last.To, d.To) && equal(last.Delta, d.Delta) &&
		last.Button == d.Button && last.Count == d.Count && last.Window == d.Window && last.App == d.App:
		last.Times = max(last.Times, 1) + 1
	default:
		return append(list, d)
	}
	return list
}

func equal(a, b *Point) bool { return a == b || a != nil && b != nil && *a == *b }

// names numbers the viewers without a name, by their ids.
type names map[string]int

func (n names) deed(a desktop.Action) Deed {
	d := Deed{By: n.of(a.Actor), Did: string(a.Name), At: point(a.At), To: point(a.To), Delta: point(a.Delta), Window: a.Window, App: a.App}
	switch {
	case a.Name == desktop.ActionType, a.Name == desktop.ActionPress, a.Name == desktop.ActionKeyDown:
		d.Did, d.Length = "typed", a.Length
		if a.Name != desktop.ActionType {
			d.Length = 1
		}
	case a.Count > 1:
		d.Count = a.Count
	}
	if a.Button != desktop.ButtonLeft {
		d.Button = a.Button
	}
	return d
}

func (n names) of(a desktop.Actor) string {
	switch {
	case a.Name != "":
		return a.Name
	case a.Kind != desktop.ActorViewer:
		return a.String()
	}
	number, known := n[a.ID]
	if !known {
		number = len(n) + 1
		n[a.ID] = number
	}
	return fmt.Sprintf("Viewer %d", number)
}

func point(p *desktop.Point) *Point {
	if p == nil {
		return nil
	}
	return &Point{p.X, p.Y}
}
