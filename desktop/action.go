package desktop

import (
	"context"
	"strings"
	"time"
)

// ActorKind says what sort of party acts on a desktop.
type ActorKind string

// The kinds of actor.
const (
	ActorAPI    ActorKind = "api"    // an HTTP or Go caller; the default
	ActorAgent  ActorKind = "agent"  // an agent session's tool call
	ActorViewer ActorKind = "viewer" // a person at a live view
)

// Actor is who acts. The zero value stands for an unnamed API caller.
type Actor struct {
	Kind ActorKind `json:"kind"`
	Name string    `json:"name,omitempty"` // for people
	ID   string    `json:"id,omitempty"`   // tells actors of one name apart
}

type actorKey struct{}

// WithActor returns a context whose input is done in that actor's name.
func WithActor(ctx context.Context, a Actor) context.Context {
	return context.WithValue(ctx, actorKey{}, a)
}

// ActorFrom returns the actor of a context.
func ActorFrom(ctx context.Context) Actor {
	a, _ := ctx.Value(actorKey{}).(Actor)
	if a.Kind == "" {
		a.Kind = ActorAPI
	}
	return a
}

// ActionName says what kind of input an action is.
type ActionName string

// The names of actions.
const (
	ActionMove           ActionName = "move"
	ActionClick          ActionName = "click"
	ActionButtonDown     ActionName = "button_down"
	ActionButtonUp       ActionName = "button_up"
	ActionDrag           ActionName = "drag"
	ActionScroll         ActionName = "scroll"
	ActionType           ActionName = "type"
	ActionPress          ActionName = "press"
	ActionKeyDown        ActionName = "key_down"
	ActionKeyUp          ActionName = "key_up"
	ActionReleaseAll     ActionName = "release_all"
	ActionSetClipboard   ActionName = "set_clipboard"
	ActionLaunch         ActionName = "launch"
	ActionResize         ActionName = "resize"
	ActionFocusWindow    ActionName = "focus_window"
	ActionMoveWindow     ActionName = "move_window"
	ActionResizeWindow   ActionName = "resize_window"
	ActionCloseWindow    ActionName = "close_window"
	ActionMinimiseWindow ActionName = "minimise_window"
	ActionMaximiseWindow ActionName = "maximise_window"
	ActionRestoreWindow  ActionName = "restore_window"
)

// words returns the name as errors write it.
func (n ActionName) words() string { return strings.ReplaceAll(string(n), "_", " ") }

// pressesKeys reports whether an action presses keys. Only ActionKeyUp uses the
// keyboard and presses none.
func (n ActionName) pressesKeys() bool {
	return n == ActionType || n == ActionPress || n == ActionKeyDown
}

// Action is one input, as the policy and the event stream see it. What a viewer, or the
// person of [WithPerson], types is secret: the action has its Length alone. The
// event stream joins such actions into one "type" event, which ends after a pause of
// two seconds, or after ten seconds.
type Action struct {
	Name   ActionName `json:"name"`
	Actor  Actor      `json:"actor"`
	At     *Point     `json:"at,omitempty"`     // on the screen; of every pointer action
	To     *Point     `json:"to,omitempty"`     // end of a drag, or new position of a window
	Size   *Size      `json:"size,omitempty"`   // of resize actions
	Button Button     `json:"button,omitempty"` // of pointer actions
	Count  int        `json:"count,omitempty"`  // of clicks
	Delta  *Point     `json:"delta,omitempty"`  // of scrolls
	Keys   string     `json:"keys,omitempty"`   // the chord or key; empty when a person pressed it
	Text   string     `json:"text,omitempty"`   // what was typed, at most its first 4096 characters; empty when secret
	Length int        `json:"length,omitempty"` // of what was typed, in characters
	Typed  *int       `json:"typed,omitempty"`  // characters that were typed, when that was not all
	Window WindowID   `json:"window,omitempty"` // of window actions
	App    string     `json:"app,omitempty"`    // of launches
	Time   time.Time  `json:"time"`             // when it began
	// Error tells why it was not done, or not to the end. Actions that had no
	// effect at all are not told.
	Error string `json:"error,omitempty"`

	person bool // keys and text were removed
	long   bool // it may take longer than others should have to wait
}

// Button is a pointer button.
type Button string

// The buttons.
const (
	ButtonLeft    Button = "left"
	ButtonMiddle  Button = "middle"
	ButtonRight   Button = "right"
	ButtonBack    Button = "back"
	ButtonForward Button = "forward"
)

// Pointer is where the pointer is.
type Pointer struct {
	Point
	Screen int      // X screen number
	Window WindowID // top-level window under it; the root window where there is none
}

// Move puts the pointer somewhere.
type Move struct {
	At          Point
	Modifiers   []string // held meanwhile: "ctrl", "shift", "alt", "super"
	Observation string   // id of the picture that At is in; empty: the screen
}

// Click presses and releases a button.
type Click struct {
	At          *Point // nil: where the pointer is
	Button      Button // empty: left
	Count       int    // zero: 1; at most 100
	Modifiers   []string
	Observation string
}

// ButtonPress presses or releases a button and leaves it so.
type ButtonPress struct {
	At          *Point // nil: where the pointer is
	Button      Button // empty: left
	Modifiers   []string
	Observation string
}

// Drag moves along a path with a button held.
type Drag struct {
	Path        []Point // at least two
	Button      Button  // empty: left
	Modifiers   []string
	Observation string
}

// Scroll turns the wheel.
type Scroll struct {
	At          *Point // nil: where the pointer is
	DX, DY      int    // in clicks; DX > 0 is right, DY > 0 is down
	Modifiers   []string
	Observation string
}

// Type types text into whatever has the focus.
type Type struct {
	Text   string
	Delay  time.Duration // between characters
	Secret bool          // keeps the text out of events and logs
}

// Press presses and releases a key or a chord.
type Press struct {
	// Keys is a chord: "ctrl+shift+t", "Return", "F5", "Control_L+a",
	// "ControlOrMeta+A", "pagedown". Names are those of xdotool, Playwright
	// and pyautogui.
	Keys      string
	Modifiers []string // added to those in Keys
}

// Selection is one of the X selections that carry copied content.
type Selection string

// The selections (ICCCM, section 2.6.1).
const (
	Clipboard Selection = "clipboard"
	Primary   Selection = "primary"
)

// Content is what a selection holds: text, or an image.
type Content struct {
	Type string // "text/plain;charset=utf-8" or "image/png"; empty: text
	Data []byte
}

// The content types that selections carry.
const (
	TypeText = "text/plain;charset=utf-8"
	TypePNG  = "image/png"
)
