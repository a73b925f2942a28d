package desktop

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestRunsOfKeys sends input of two viewers and an agent, and checks the events: runs of a
// viewer's typing, with the time at which each began.
func TestRunsOfKeys(t *testing.T) {
	t.Parallel()
	begin := time.Now()
	jane, joe := Actor{Kind: ActorViewer, ID: "1"}, Actor{Kind: ActorViewer, ID: "2"}
	l := NewEventLog("main")
	sub := l.Subscribe(0)
	defer sub.Close()
	act := func(ms int, a Action) {
		a.person = a.Actor.Kind == ActorViewer
		l.Emit(Event{Type: EventAction, Action: &a, Time: begin.Add(time.Duration(ms) * time.Millisecond)})
	}
	key := func(ms int, who Actor) {
		act(ms, Action{Name: "key_down", Actor: who, Length: 1})
		act(ms, Action{Name: "key_up", Actor: who})
	}
	for ms := range 5 {
		key(ms, jane)
	}
	l.Emit(Event{Type: EventWindowRenamed, Window: &Window{ID: 1}}) // by a shell, at each key
	act(10, Action{Name: "type", Actor: jane, Length: 3})
	act(11, Action{Name: "click", Actor: Actor{Kind: ActorAgent}})
	key(20, joe)
	key(30, jane)
	l.Emit(Event{Type: EventWindowFocused})
	for ms := 100; ms < 25_000; ms += 100 {
		key(ms, jane)
	}
	l.Close()
	var got string
	for e := range sub.Events() {
		if got += string(e.Type); e.Action != nil {
			got += fmt.Sprintf(" %s by %s, %d, at %d", e.Action.Name, e.Action.Actor.Kind+ActorKind(e.Action.Actor.ID), e.Action.Length, e.Time.Sub(begin).Milliseconds())
		}
		got += "\n"
	}
	const want = `window_renamed
action click by agent, 0, at 11
action type by viewer1, 8, at 0
action type by viewer2, 1, at 20
action type by viewer1, 1, at 30
window_focused
action type by viewer1, 101, at 100
action type by viewer1, 101, at 10200
action type by viewer1, 47, at 20300
closed
`
	if got != want {
		t.Errorf("events:\n%s", got)
	}
}

// TestRunsOfKeysEnd: a run ends when the viewer stops typing, and when a subscription is
// finished.
func TestRunsOfKeysEnd(t *testing.T) {
	t.Parallel()
	l := NewEventLog("main")
	defer l.Close()
	sub, ended := l.Subscribe(0), l.Subscribe(0)
	defer sub.Close()
	defer ended.Close()
	jane := Actor{Kind: ActorViewer, Name: "Jane"}
	typed := func() {
		l.Emit(Event{Type: EventAction, Action: &Action{Name: "type", Actor: jane, Length: 7, person: true}})
	}
	typed()
	ended.Finish()
	if e, ok := <-ended.Events(); !ok || e.Action.Length != 7 {
		t.Errorf("a subscription that is finished ends with %+v", e)
	}
	if e, ok := <-ended.Events(); ok {
		t.Errorf("a subscription that is finished goes on with %+v", e)
	}
	<-sub.Events()
	typed()
	if e := <-sub.Events(); e.Action.Length != 7 { // after a pause
		t.Errorf("event: %+v", e)
	}
}

// TestLongError checks that an event has the beginning of a long error, and keeps no more.
func TestLongError(t *testing.T) {
	t.Parallel()
	l := NewEventLog("main")
	sub := l.Subscribe(0)
	defer sub.Close()
	long := Action{Name: ActionBrowser, Error: "x" + strings.Repeat("ü", 1<<20)}
	l.Emit(Event{Type: EventAction, Action: &long})
	l.Emit(Event{Type: EventAction, Action: &Action{Name: ActionBrowser, Error: "short"}})
	l.Close()
	var got []string
	for e := range sub.Events() {
		if e.Action != nil {
			got = append(got, e.Action.Error)
		}
	}
	if len(got) != 2 || got[0] != "x"+strings.Repeat("ü", maxEventError/2-1)+"…" || got[1] != "short" {
		t.Errorf("%d errors: %.2000q", len(got), got)
	}
	if len(long.Error) <= maxEventError {
		t.Error("the caller's action was changed")
	}
}
