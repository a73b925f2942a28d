package batch

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/internal/smallregexp"
)

// Action is one of the types of this package that say so.
type Action interface {
	// Type returns the name of the action, such as "click".
	Type() string
	// Validate returns what is wrong with the action, without looking at a desktop: a
	// *desktop.InvalidError, or for a Launch without App an error that wraps
	// desktop.ErrAppNotFound.
	Validate() error

	// do runs the action and adds to done what it did.
	do(ctx context.Context, r *run, done *Done) error
}

// Actions that are one call of a desktop. If the field Observation is empty, Batch.Observation
// takes its place.
type (
	// Move is an [Action] that moves the pointer.
	Move desktop.Move

	// Click is an [Action] that clicks.
	Click desktop.Click

	// ButtonDown is an [Action] that presses a button of the pointer and holds it.
	ButtonDown desktop.ButtonPress

	// ButtonUp is an [Action] that releases a button of the pointer.
	ButtonUp desktop.ButtonPress

	// Drag is an [Action] that moves the pointer along a path with a button held.
	Drag desktop.Drag

	// Scroll is an [Action] that turns the wheel.
	Scroll desktop.Scroll

	// Type is an [Action] that types text.
	Type desktop.Type

	// Press is an [Action] that presses and releases keys.
	Press desktop.Press

	// Launch is an [Action] that starts a program.
	Launch desktop.Launch
)

// KeyDown is an [Action] that presses a key and holds it.
type KeyDown struct{ Key string }

// KeyUp is an [Action] that releases a key.
type KeyUp struct{ Key string }

// Open is an [Action] that opens a URL or a file.
type Open struct{ Target string }

// Focus is an [Action] that raises a window and gives it the focus.
type Focus struct{ Window desktop.WindowID }

// SetClipboard is an [Action] that puts content on the clipboard, or on the selections.
type SetClipboard struct {
	Content desktop.Content
	To      []desktop.Selection
}

// Element is an [Action] on an element of an application.
type Element struct {
	Ref   string // such as "@e12"
	Do    string // what to do with it, such as "click"
	Value string // for actions that set a value
}

// Browse is an [Action] of the browser. It fails if the results of all in a batch have more than
// 8 MiB.
type Browse struct {
	Do   string          // the name of a command, such as "navigate"
	Args json.RawMessage // a JSON object, or nil
}

// Call is an [Action] that calls a function within the turn of the batch. The function must
// return when its context ends.
type Call struct {
	Name   string // what Type returns
	Yields bool   // other callers may send input during the call; Do must not send any
	Opens  bool   // windows that open or close during the call, and the focus, do not stop the batch
	Do     func(context.Context) error

	// Points are the positions that Do uses, for Batch.Expect. They are in the picture of
	// Observation or, if that is empty, of the batch's observation.
	Points      []desktop.Point
	Observation string
}

// Until is what a [Wait] waits for.
type Until string

// The conditions of a Wait.
const (
	UntilSettled Until = "settled" // the screen has not changed for 500 ms
	UntilWindow  Until = "window"  // a window that Wait.Window describes is there, and has the focus if it gets it within 250 ms
	UntilElement Until = "element" // an element with Wait.Role and Wait.Name is there
	UntilGone    Until = "gone"    // there is no such window, or no such element
)

// Wait is an [Action] that waits, for the time For or until Until holds, one of which must be
// given. Other callers may send input during the wait.
//
// It fails with a *desktop.DeadlineError if Until does not hold within Timeout. A screen that
// does not settle in that time is no failure: see Done.Settled.
type Wait struct {
	For   time.Duration // at most a minute
	Until Until

	// Window is a part of a window's title, or a whole class or id. After a tilde it is a regular
	// expression for the title: "~^Report". Case does not matter.
	Window string

	// Role and Name describe an element, as for Elements.Find.
	Role, Name string

	Timeout time.Duration // of Until; at most five minutes; zero: 10 s
}

// The bounds of a Wait.
const (
	maxWait     = time.Minute
	maxUntil    = 5 * time.Minute
	untilLimit  = 10 * time.Second
	untilQuiet  = 500 * time.Millisecond
	waitPace    = 50 * time.Millisecond
	maxWaitText = 256
)

// Type returns "move".
func (Move) Type() string { return "move" }

// Type returns "click".
func (Click) Type() string { return "click" }

// Type returns "down".
func (ButtonDown) Type() string { return "down" }

// Type returns "up".
func (ButtonUp) Type() string { return "up" }

// Type returns "drag".
func (Drag) Type() string { return "drag" }

// Type returns "scroll".
func (Scroll) Type() string { return "scroll" }

// Type returns "type".
func (Type) Type() string { return "type" }

// Type returns "press".
func (Press) Type() string { return "press" }

// Type returns "keyDown".
func (KeyDown) Type() string { return "keyDown" }

// Type returns "keyUp".
func (KeyUp) Type() string { return "keyUp" }

// Type returns "wait".
func (Wait) Type() string { return "wait" }

// Type returns "launch".
func (Launch) Type() string { return "launch" }

// Type returns "open".
func (Open) Type() string { return "open" }

// Type returns "focus".
func (Focus) Type() string { return "focus" }

// Type returns "clipboard".
func (SetClipboard) Type() string { return "clipboard" }

// Type returns "element".
func (Element) Type() string { return "element" }

// Type returns "browser".
func (Browse) Type() string { return "browser" }

// Type returns the name.
func (a Call) Type() string { return a.Name }

// Validate implements [Action].
func (a Call) Validate() error { return nil }

// Validate implements [Action].
func (a Move) Validate() error { return desktop.Move(a).Validate() }

// Validate implements [Action].
func (a Click) Validate() error { return desktop.Click(a).Validate() }

// Validate implements [Action].
func (a ButtonDown) Validate() error { return desktop.ButtonPress(a).Validate() }

// Validate implements [Action].
func (a ButtonUp) Validate() error { return desktop.ButtonPress(a).Validate() }

// Validate implements [Action].
func (a Drag) Validate() error { return desktop.Drag(a).Validate() }

// Validate implements [Action].
func (a Scroll) Validate() error { return desktop.Scroll(a).Validate() }

// Validate implements [Action].
func (a Type) Validate() error { return desktop.Type(a).Validate() }

// Validate implements [Action].
func (a Press) Validate() error { return desktop.Press(a).Validate() }

// Validate implements [Action].
func (a KeyDown) Validate() error { return desktop.Press{Keys: a.Key}.Validate() }

// Validate implements [Action].
func (a KeyUp) Validate() error { return desktop.Press{Keys: a.Key}.Validate() }

// Validate implements [Action].
func (a Launch) Validate() error { return desktop.Launch(a).Validate() }

// Validate implements [Action].
func (a Open) Validate() error { return desktop.ValidateTarget(a.Target) }

// Validate implements [Action].
func (a Focus) Validate() error {
	if a.Window == 0 {
		return &desktop.InvalidError{Field: "window", Reason: "must be the id of a window"}
	}
	return nil
}

// Validate implements [Action].
func (a SetClipboard) Validate() error { return a.Content.Validate() }

// Validate implements [Action].
func (a Element) Validate() error {
	switch {
	case a.Ref == "":
		return &desktop.InvalidError{Field: "ref", Reason: "must be the reference of an element"}
	case a.Do == "":
		return &desktop.InvalidError{Field: "do", Reason: "must say what to do with the element"}
	}
	return nil
}

// Validate implements [Action].
func (a Browse) Validate() error {
	if a.Do == "" {
		return &desktop.InvalidError{Field: "do", Reason: "must say what the browser does"}
	}
	return nil
}

// Validate implements [Action].
func (a Wait) Validate() error {
	invalid := func(field, reason string) error { return &desktop.InvalidError{Field: field, Reason: reason} }
	element := a.Role != "" || a.Name != ""
	switch {
	case a.For < 0 || a.For > maxWait:
		return invalid("ms", fmt.Sprintf("must be between 0 and %d", maxWait.Milliseconds()))
	case a.Timeout < 0 || a.Timeout > maxUntil:
		return invalid("timeoutMs", fmt.Sprintf("must be between 0 and %d", maxUntil.Milliseconds()))
	case a.Until == "" && a.For == 0:
		return invalid("ms", "must be given, or until")
	case a.Until != "" && a.For != 0:
		return invalid("ms", "must not be given together with until; timeoutMs bounds that")
	case a.Until == UntilWindow && a.Window == "":
		return invalid("window", "must be text of the window's title or class")
	case a.Until == UntilElement && !element:
		return invalid("role", "or name must be given")
	case a.Until == UntilGone && (a.Window == "") == !element:
		return invalid("until", "gone needs a window, or the role or name of an element")
	case len(a.Window) > maxWaitText:
		return invalid("window", fmt.Sprintf("must have at most %d bytes", maxWaitText))
	}
	switch a.Until {
	case "", UntilSettled, UntilWindow, UntilElement, UntilGone:
	default:
		return invalid("until", "must be settled, window, element or gone")
	}
	_, err := a.matcher()
	return err
}

// matcher returns a function that reports whether Wait.Window describes a window.
func (a Wait) matcher() (func(desktop.Window) bool, error) {
	pattern, isPattern := strings.CutPrefix(a.Window, "~")
	if !isPattern {
		pattern = regexp.QuoteMeta(pattern)
	}
	re, err := smallregexp.Compile("(?i)" + pattern)
	if err != nil {
		return nil, &desktop.InvalidError{Field: "window", Reason: "must be a regular expression after ~: " + err.Error()}
	}
	return func(w desktop.Window) bool {
		return re.MatchString(w.Title) || !isPattern && (strings.EqualFold(w.Class, a.Window) || fmt.Sprint(w.ID) == a.Window)
	}, nil
}

// positions returns the positions of a pointer action for Batch.Expect, and their observation.
func positions(a Action, observation string) ([]desktop.Point, string) {
	one := func(p *desktop.Point, own string) ([]desktop.Point, string) {
		if p == nil {
			return nil, ""
		}
		return []desktop.Point{*p}, cmp.Or(own, observation)
	}
	switch a := a.(type) {
	case Move:
		return one(&a.At, a.Observation)
	case Click:
		return one(a.At, a.Observation)
	case ButtonDown:
		return one(a.At, a.Observation)
	case ButtonUp:
		return one(a.At, a.Observation)
	case Scroll:
		return one(a.At, a.Observation)
	case Drag:
		return []desktop.Point{a.Path[0], a.Path[len(a.Path)-1]}, cmp.Or(a.Observation, observation)
	case Call:
		if len(a.Points) > 0 {
			return a.Points, cmp.Or(a.Observation, observation)
		}
	}
	return nil, ""
}
