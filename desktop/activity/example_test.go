package activity_test

import (
	"fmt"

	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/desktop/activity"
)

// watched is a desktop of which only the log exists.
type watched struct{ log *desktop.EventLog }

func (w watched) Control() desktop.Control                     { return desktop.Control{} }
func (w watched) Subscribe(after uint64) *desktop.Subscription { return w.log.Subscribe(after) }

// An agent learns what a person did while the person had control.
func Example() {
	d := watched{desktop.NewEventLog("main")}
	defer d.log.Close()
	agent, jane := desktop.Actor{Kind: desktop.ActorAgent, Name: "claude"}, desktop.Actor{Kind: desktop.ActorViewer, Name: "Jane"}
	var tracker activity.Tracker
	tracker.Meanwhile(d, agent) // the agent's first answer

	d.log.Emit(desktop.Event{Type: desktop.EventControl, Control: &desktop.Control{Holder: &jane, Taken: true}})
	d.log.Emit(desktop.Event{Type: desktop.EventAction, Action: &desktop.Action{
		Name: desktop.ActionClick, Actor: jane, At: &desktop.Point{X: 5, Y: 6}, Button: desktop.ButtonLeft, Count: 1,
	}})
	d.log.Emit(desktop.Event{Type: desktop.EventControl, Control: &desktop.Control{}})

	for _, deed := range tracker.Meanwhile(d, agent) {
		fmt.Println(deed)
	}
	fmt.Println(len(tracker.Meanwhile(d, agent)))
	// Output:
	// Jane clicked at [5, 6]
	// 0
}
