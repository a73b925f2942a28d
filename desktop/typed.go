package desktop

import (
	"context"
	"time"

	"github.com/deskhand/deskhand/internal/x11"
)

// A person's typing is secret, as it may be a password. ActionFrom removes keys and text
// before the policy sees the action. Events join a person's keys into runs, because the
// times of single keys reveal much about a word.

const (
	// typingPause is the pause that ends a run.
	typingPause = 2 * time.Second

	// typingMost is the longest duration of a run.
	typingMost = 10 * time.Second
)

type personKey struct{}

// WithPerson returns a context for the input of a person, whatever actor sends it. Typing
// is secret, as it is for viewers.
func WithPerson(ctx context.Context) context.Context {
	return context.WithValue(ctx, personKey{}, true)
}

// ActionFrom returns a with the actor of ctx. If the actor is a viewer, or ctx comes
// from [WithPerson], it removes Keys and Text. Length is then the number of characters:
// the length of Text, or one for a key or chord that is pressed, unless it consists of
// modifiers.
func ActionFrom(ctx context.Context, a Action) Action {
	a.Actor = ActorFrom(ctx)
	a.person = IsPerson(ctx)
	if !a.person {
		return a
	}
	if (a.Name == ActionPress || a.Name == ActionKeyDown) && !a.modifiesOnly() {
		a.Length = 1
	}
	a.Keys, a.Text, a.chord = "", "", nil
	return a
}

// IsPerson reports whether a person sends the input of ctx: the actor is a viewer, or ctx comes
// from [WithPerson].
func IsPerson(ctx context.Context) bool {
	return ActorFrom(ctx).Kind == ActorViewer || ctx.Value(personKey{}) != nil
}

func (a *Action) modifiesOnly() bool {
	if a.chord != nil {
		return a.chord.ModifiesOnly()
	}
	chord, err := x11.ParseChord(a.Keys)
	return err == nil && chord.ModifiesOnly()
}

// isTyping reports whether an event is part of a person's typing.
func (e *Event) isTyping() bool {
	a := e.Action
	return a != nil && a.person && a.Secret == "" && (a.Name.pressesKeys() || a.Name == ActionKeyUp)
}

// typed adds a person's typing to a run. The caller has mu.
func (l *EventLog) typed(e Event) {
	a := *e.Action
	a.Name = ActionType
	e.Action = &a
	if e.Time.IsZero() {
		e.Time = time.Now()
	}
	if a.Error != "" {
		a.Error = "not all of it was typed" // an error's text may name a key
		l.endRun()
		l.put(e)
		return
	}
	if a.Length == 0 {
		return // a modifier, or the release of a key
	}
	if r := l.run; r != nil && (!r.Action.Actor.Same(a.Actor) || e.Time.Sub(r.Time) > typingMost) {
		l.endRun()
	}
	if l.run == nil {
		l.run = &e
	} else {
		l.run.Action.Length += a.Length
	}
	if l.pause == nil {
		l.pause = time.AfterFunc(typingPause, l.flush)
	} else {
		l.pause.Reset(typingPause)
	}
}

// endsRun reports whether an event must follow the run of typing before it. The
// caller has mu, and there is a run.
func (l *EventLog) endsRun(e Event) bool {
	switch e.Type {
	case EventAction:
		return e.Action.Actor.Same(l.run.Action.Actor)
	case EventWindowFocused, EventControl, EventFailed, EventRestarted, EventClosed:
		return true
	case EventWindowOpened, EventWindowClosed, EventWindowRenamed, EventClipboardChanged, EventResized, EventBrowser, EventGap:
	}
	return false
}

// endRun emits the run of typing, if there is one. The caller has mu.
func (l *EventLog) endRun() {
	if l.run == nil {
		return
	}
	e := *l.run
	l.run = nil
	l.pause.Stop()
	l.put(e)
}

// flush is endRun for the timer.
func (l *EventLog) flush() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.endRun()
}
