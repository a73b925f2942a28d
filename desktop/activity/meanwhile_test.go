package activity

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/deskhand/deskhand/desktop"
)

var (
	agent = desktop.Actor{Kind: desktop.ActorAgent, Name: "claude", ID: "tok_1"}
	other = desktop.Actor{Kind: desktop.ActorAgent, Name: "codex"}
	ann   = desktop.Actor{Kind: desktop.ActorViewer, ID: "v1"}
	bob   = desktop.Actor{Kind: desktop.ActorViewer, ID: "v2"}
	ci    = desktop.Actor{Kind: desktop.ActorAPI, Name: "ci"}
)

// fake is a desktop with a log and control alone.
type fake struct {
	*desktop.EventLog
	control desktop.Control
	clock   time.Time
}

func newFake(t *testing.T) *fake {
	t.Helper()
	f := &fake{EventLog: desktop.NewEventLog("main"), clock: time.Now()}
	t.Cleanup(f.Close)
	return f
}

func (f *fake) Control() desktop.Control { return f.control }

func (f *fake) emit(e desktop.Event, after time.Duration) {
	f.clock = f.clock.Add(after)
	e.Time = f.clock
	f.Emit(e)
}

// take gives exclusive control to an actor, or ends control for nil.
func (f *fake) take(a *desktop.Actor) {
	f.control = desktop.Control{Holder: a, Taken: a != nil}
	c := f.control
	f.emit(desktop.Event{Type: desktop.EventControl, Control: &c}, time.Second)
}

func (f *fake) act(a desktop.Action) {
	f.emit(desktop.Event{Type: desktop.EventAction, Action: &a}, 100*time.Millisecond)
}

func told(t *testing.T, deeds []Deed) string {
	t.Helper()
	text, err := json.Marshal(deeds)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestMeanwhile(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	var tracker Tracker
	at := func(x, y int) *desktop.Point { return &desktop.Point{X: x, Y: y} }
	click := func(a desktop.Actor, x, y int) {
		f.act(desktop.Action{Name: desktop.ActionButtonDown, Actor: a, At: at(x, y), Button: desktop.ButtonLeft})
		f.act(desktop.Action{Name: desktop.ActionButtonUp, Actor: a, At: at(x, y), Button: desktop.ButtonLeft})
	}
	want := func(a desktop.Actor, want string) {
		t.Helper()
		if got := told(t, tracker.Meanwhile(f, a)); got != want {
			t.Errorf("%s gets %s, want %s", a, got, want)
		}
	}
	click(ann, 1, 1)
	want(agent, "null") // the first answer
	click(ann, 2, 2)
	want(agent, "null") // no actor has taken control
	f.take(&ann)
	click(ann, 3, 4)
	click(ann, 3, 4)
	f.act(desktop.Action{Name: desktop.ActionButtonDown, Actor: ann, At: at(5, 5), Button: desktop.ButtonRight})
	f.act(desktop.Action{Name: desktop.ActionButtonUp, Actor: ann, At: at(50, 60), Button: desktop.ButtonRight})
	for range 3 {
		f.act(desktop.Action{Name: desktop.ActionScroll, Actor: ann, At: at(7, 8), Delta: at(0, 2)})
	}
	want(agent, "null") // it does not have control again
	for range 3 {       // as runs of typing end
		f.act(desktop.Action{Name: desktop.ActionType, Actor: ann, Length: 4})
	}
	f.act(desktop.Action{Name: desktop.ActionClick, Actor: ann, At: at(9, 9), Button: desktop.ButtonLeft, Count: 1, Error: "it failed"})
	f.act(desktop.Action{Name: desktop.ActionClick, Actor: other, At: at(9, 9), Button: desktop.ButtonLeft, Count: 1})
	f.take(&bob)
	click(bob, 6, 6)
	f.take(&ci)
	f.act(desktop.Action{Name: desktop.ActionType, Actor: ci, Text: "hunter2", Length: 7})
	f.act(desktop.Action{Name: desktop.ActionType, Actor: ci, Secret: "BANK"})
	f.act(desktop.Action{Name: desktop.ActionPress, Actor: ci, Keys: "ctrl+s"})
	f.act(desktop.Action{Name: desktop.ActionLaunch, Actor: ci, App: "xterm"})
	f.take(nil)
	deeds := tracker.Meanwhile(f, agent)
	const all = `[{"by":"Viewer 1","did":"click","at":[3,4],"count":2},{"by":"Viewer 1","did":"drag","at":[5,5],"to":[50,60],"button":"right"},` +
		`{"by":"Viewer 1","did":"scroll","at":[7,8],"delta":[0,6]},{"by":"Viewer 1","did":"typed","length":12},{"by":"Viewer 2","did":"click","at":[6,6]},` +
		`{"by":"ci","did":"typed","length":8},{"by":"ci","did":"launch","app":"xterm"}]`
	got := told(t, deeds)
	if got != all {
		t.Errorf("told %s, want\n%s", got, all)
	}
	var words []string
	for _, d := range Map(deeds, func(p desktop.Point) desktop.Point { return desktop.Point{X: 2 * p.X, Y: p.Y} }) {
		words = append(words, d.String())
	}
	const text = "Viewer 1 double-clicked at [6, 4]; Viewer 1 drag at [10, 5] to [100, 60]; Viewer 1 scroll at [14, 8]; " +
		"Viewer 1 typed 12 characters; Viewer 2 clicked at [12, 6]; ci typed 8 characters; ci launch xterm"
	if got := strings.Join(words, "; "); got != text || deeds[0].At[0] != 3 {
		t.Errorf("in words: %s", got)
	}
	want(agent, "null") // told once
	want(other, "null") // its first answer

	f.take(&ann)
	want(ci, "null") // refused in its first call
	click(ann, 1, 2)
	f.take(nil)
	want(ci, `[{"by":"Viewer 1","did":"click","at":[1,2]}]`)
	want(agent, `[{"by":"Viewer 1","did":"click","at":[1,2]}]`)
	f.take(&agent) // the actor's own control is not another's
	click(ann, 1, 2)
	f.take(nil)
	want(agent, "null")
}

// TestMeanwhileIsBounded floods the log, and the tracker with actors.
func TestMeanwhileIsBounded(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	var tracker Tracker
	tracker.Meanwhile(f, agent)
	f.take(&ann)
	for i := range 3000 {
		f.act(desktop.Action{Name: desktop.ActionClick, Actor: ann, At: &desktop.Point{X: i, Y: 1}, Button: desktop.ButtonLeft, Count: 1})
	}
	for range 3 {
		f.act(desktop.Action{Name: desktop.ActionFocusWindow, Actor: ann, Window: 7})
	}
	f.take(nil)
	deeds := tracker.Meanwhile(f, agent)
	if n := len(deeds); n != MaxDeeds || deeds[n-1].Times != 3 || deeds[n-2].At[0] != 2999 {
		t.Errorf("%d deeds, the last %+v", n, deeds[max(0, n-2):])
	}
	for i := range 1000 {
		tracker.Meanwhile(f, desktop.Actor{Kind: desktop.ActorAgent, Name: fmt.Sprint(i)})
	}
	if n := len(tracker.marks); n > maxActors {
		t.Errorf("the tracker remembers %d actors", n)
	}
}
