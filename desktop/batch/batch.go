package batch

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/deskhand/deskhand/desktop"
)

// MaxActions bounds Batch.Actions.
const MaxActions = 1000

// Batch is a list of actions, and what to observe after them. The zero value only observes.
type Batch struct {
	// Observation is the id of the picture that coordinates are in. Empty: the screen.
	Observation string

	// Actions run in this order. There are at most MaxActions.
	Actions []Action

	// StopOn is what stops the batch. Nil: StopFailure. The loss of control, and the end of the
	// desktop, always stop it.
	StopOn []Stop

	// Expect is how the screen must look at the positions of the actions before the first
	// one runs. Empty: ExpectSame for positions in the picture of an observation, if the
	// desktop has the method Exclusive.
	Expect Expect

	// Settle is the wait for the screen before it is observed. Nil: until it has not changed for
	// 200 ms, at most 2 s.
	Settle *Settle

	Observe Observe
}

// Stop is a reason to stop a batch.
type Stop string

// The reasons to stop.
const (
	StopFailure Stop = "failure" // an action failed
	StopWindow  Stop = "window"  // a window opened or closed
	StopFocus   Stop = "focus"   // another window has the focus
	StopControl Stop = "control" // another actor took control, or released all input
)

// Expect is how the screen must look at the position of an action, compared with the
// observation that the position is in. See [desktop.Turn.Same].
type Expect string

// The expectations.
const (
	ExpectSame   Expect = "same"   // what is around the position, and its window, are the same
	ExpectWindow Expect = "window" // its window is the same
	ExpectAny    Expect = "any"    // the screen may look in any way
)

// Settle is a wait until the screen has not changed for Quiet, or until Timeout has passed.
type Settle struct {
	Quiet   time.Duration // at most a minute; zero: no wait
	Timeout time.Duration // at most five minutes; zero: the screen is looked at once
}

// defaultSettle is the wait of a batch without Settle.
var defaultSettle = Settle{200 * time.Millisecond, 2 * time.Second}

// Observe is what a batch observes in addition to the windows that opened and closed, the focus
// and control.
type Observe struct {
	// Screenshot describes the picture. Its region must be nil, and its Settle is not used.
	// Nil: no picture.
	Screenshot *desktop.ScreenshotOptions
	Windows    bool      // list all windows
	Elements   *Outlines // nil: no elements
	Clipboard  bool      // the text on the clipboard, at most 1 MiB of it
}

// Outlines selects the elements of an outline.
type Outlines struct {
	Window desktop.WindowID // zero: all windows
	Limit  int              // elements; zero: 300

	// Picture is the observation in whose picture boxes are. Do sets it.
	Picture *desktop.Observation
}

// Target is what a batch acts on.
type Target struct {
	Desktop  Desktop
	Elements Elements // nil: elements are unsupported
	Browser  Browser  // nil: the browser is unsupported
}

// Desktop is the desktop of a [Target]: a *desktop.Desktop or a wrapper of one. If it has the
// method Exclusive of *desktop.Desktop, the actions run in one turn.
type Desktop interface {
	Screen
	Mouse
	Keyboard
	Windows
	Programs
}

// Screen is the part of a [Desktop] that shows it.
type Screen interface {
	Status() desktop.Status
	Screenshot(context.Context, desktop.ScreenshotOptions) (*desktop.Screenshot, error)
}

// Mouse is the part of a [Desktop] for the pointer.
type Mouse interface {
	Move(context.Context, desktop.Move) (desktop.Pointer, error)
	Click(context.Context, desktop.Click) (desktop.Pointer, error)
	ButtonDown(context.Context, desktop.ButtonPress) (desktop.Pointer, error)
	ButtonUp(context.Context, desktop.ButtonPress) (desktop.Pointer, error)
	Drag(context.Context, desktop.Drag) (desktop.Pointer, error)
	Scroll(context.Context, desktop.Scroll) (desktop.Pointer, error)
}

// Keyboard is the part of a [Desktop] for the keyboard.
type Keyboard interface {
	Type(context.Context, desktop.Type) error
	Press(context.Context, desktop.Press) error
	KeyDown(ctx context.Context, key string) error
	KeyUp(ctx context.Context, key string) error
}

// Windows is the part of a [Desktop] for windows.
type Windows interface {
	Windows(context.Context, desktop.WindowFilter) ([]desktop.Window, error)
	FocusWindow(context.Context, desktop.WindowID) (desktop.Window, error)
}

// Programs is the part of a [Desktop] that starts programs and exchanges content with them.
type Programs interface {
	Launch(context.Context, desktop.Launch) (desktop.App, error)
	Open(ctx context.Context, target string) (desktop.App, error)
	Clipboard(ctx context.Context, sel desktop.Selection, contentType string) (desktop.Content, error)
	SetClipboard(context.Context, desktop.Content, ...desktop.Selection) error
}

// Elements is the elements of the applications on a desktop. The context of its methods may
// be one of desktop.Exclusive.
type Elements interface {
	// Act does what an action says, and returns how: by the program's own action ("action"), by
	// the pointer or the keyboard ("pointer"), or not at all, because the element was in that
	// state already ("nothing").
	Act(ctx context.Context, a Element) (via string, err error)
	// Find returns the reference of the first element with a role and a name, each of which may
	// be empty. It returns "" if there is none.
	Find(ctx context.Context, role, name string) (ref string, err error)
	// Outline returns the outline of the elements that o selects.
	Outline(ctx context.Context, o Outlines) (Outline, error)
}

// Outline is an outline of elements, one in each line.
type Outline struct {
	Text      string
	Truncated bool
}

// Browser is the browser of a desktop.
type Browser interface {
	// Do does what an action says, and returns its result as JSON, or nil.
	Do(ctx context.Context, a Browse) (json.RawMessage, error)
}

// ActionError is returned for an action that is not valid. No action of its batch ran.
type ActionError struct {
	Index int
	Err   error
}

func (e *ActionError) Error() string { return fmt.Sprintf("actions[%d]: %v", e.Index, e.Err) }

// Unwrap returns the error of the action.
func (e *ActionError) Unwrap() error { return e.Err }

// ProgressError is returned if a batch ended without its observation, or with a part of it.
type ProgressError struct {
	Done, Of int // actions
	Err      error
}

func (e *ProgressError) Error() string {
	return fmt.Sprintf("%v (%d of %d actions were done)", e.Err, e.Done, e.Of)
}

// Unwrap returns the reason.
func (e *ProgressError) Unwrap() error { return e.Err }

// Validate returns what is wrong with a batch without looking at a desktop: an *ActionError or
// a *desktop.InvalidError.
func (b Batch) Validate() error {
	if len(b.Actions) > MaxActions {
		return &desktop.InvalidError{Field: "actions", Reason: fmt.Sprintf("must be at most %d, and there are %d", MaxActions, len(b.Actions))}
	}
	for i, a := range b.Actions {
		err := error(&desktop.InvalidError{Field: "type", Reason: "is missing"})
		if a != nil {
			err = a.Validate()
		}
		if err != nil {
			return &ActionError{i, err}
		}
	}
	for _, s := range b.StopOn {
		if !slices.Contains([]Stop{StopFailure, StopWindow, StopFocus, StopControl}, s) {
			return &desktop.InvalidError{Field: "stopOn", Reason: fmt.Sprintf("must have failure, window, focus or control, and has %q", s)}
		}
	}
	if !slices.Contains([]Expect{"", ExpectSame, ExpectWindow, ExpectAny}, b.Expect) {
		return &desktop.InvalidError{Field: "expect", Reason: "must be same, window or any"}
	}
	if b.Observation != "" {
		if _, err := desktop.ParseObservation(b.Observation); err != nil {
			return err
		}
	}
	if s := b.Settle; s != nil && (s.Quiet < 0 || s.Quiet > time.Minute || s.Timeout < 0 || s.Timeout > 5*time.Minute) {
		return &desktop.InvalidError{Field: "settle", Reason: "must be at most a minute, and its timeout at most five"}
	}
	return b.Observe.validate()
}

func (o Observe) validate() error {
	if o.Elements != nil && o.Elements.Limit < 0 {
		return &desktop.InvalidError{Field: "limit", Reason: "must not be negative"}
	}
	if o.Screenshot == nil {
		return nil
	}
	if o.Screenshot.Region != nil {
		return &desktop.InvalidError{Field: "region", Reason: "must not be given"}
	}
	return o.Screenshot.Validate()
}
