package desktop

import (
	"context"
	"strings"
	"time"

	"github.com/deskhand/deskhand/internal/x11"
)

// ActorKind is a kind of actor.
type ActorKind string

// The kinds of actor.
const (
	ActorAPI    ActorKind = "api"    // an HTTP or Go caller; the default
	ActorAgent  ActorKind = "agent"  // an agent session's tool call
	ActorViewer ActorKind = "viewer" // a person at a live view
)

// Actor is the sender of an input. The zero value is an unnamed API caller.
type Actor struct {
	Kind ActorKind `json:"kind"`
	Name string    `json:"name,omitempty"` // for people
	ID   string    `json:"id,omitempty"`   // distinguishes actors of one name
}

type actorKey struct{}

// WithActor returns a context for the input of an actor.
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

// ActionName is a kind of input.
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

	// ActionExclusive is the end of inputs of [Desktop.Exclusive] that were cut. Its Count
	// is the number of inputs before that.
	ActionExclusive ActionName = "exclusive"
	ActionElement   ActionName = "element" // Command, Target, and Text of setText
	ActionBrowser   ActionName = "browser" // Command, and Target if it has one
)

func (n ActionName) words() string { return strings.ReplaceAll(string(n), "_", " ") }

// pressesKeys reports whether an action presses keys. ActionKeyUp does not.
func (n ActionName) pressesKeys() bool {
	return n == ActionType || n == ActionPress || n == ActionKeyDown
}

// pressesButton reports whether an action presses a button, of the wheel aside.
func (n ActionName) pressesButton() bool {
	return n == ActionClick || n == ActionButtonDown || n == ActionDrag
}

// mayConfirm reports whether an action may press a dialog's button.
func (a *Action) mayConfirm() bool {
	return a.Name.pressesButton() || a.Name == ActionPress && a.chord != nil && a.chord.Confirms()
}

// Action is one input, as the policy and the event stream see it. If a viewer, or the
// person of [WithPerson], types, the action has Length, but neither Keys nor Text. The
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
	Secret string     `json:"secret,omitempty"` // the name of the secret that was typed or filled in; Length and Typed are zero then
	Length int        `json:"length,omitempty"` // of what was typed, in characters
	Typed  *int       `json:"typed,omitempty"`  // characters that were typed, if not all
	Window WindowID   `json:"window,omitempty"` // of window actions
	App    string     `json:"app,omitempty"`    // of launches
	// Command is what an action of a browser or of an element does, such as "navigate", and
	// Target the URL or the element that it is about.
	Command string    `json:"command,omitempty"`
	Target  string    `json:"target,omitempty"`
	Time    time.Time `json:"time"` // when it began
	// Error is why the action failed, or ended early. An action that had no effect
	// has no event. An event has at most the first 1024 bytes of it.
	Error string `json:"error,omitempty"`

	chord  *x11.Chord    // Keys, parsed; nil: not parsed yet
	person bool          // keys and text were removed
	keep   time.Duration // how long no release of all input or of control ends it
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

// Pointer is the position of the pointer.
type Pointer struct {
	Point
	Screen int      // X screen number
	Window WindowID // top-level window under it; the root window if there is none
}

// Move moves the pointer.
type Move struct {
	At          Point
	Modifiers   []string // held during the move: "ctrl", "shift", "alt", "super"
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

// ButtonPress presses a button without releasing it, or releases it.
type ButtonPress struct {
	At          *Point // nil: where the pointer is
	Button      Button // empty: left
	Modifiers   []string
	Observation string
}

// Drag moves along a path with a button held.
type Drag struct {
	Path        []Point // 2 to 10 000 points
	Button      Button  // empty: left
	Modifiers   []string
	Observation string
}

// Scroll turns the wheel.
type Scroll struct {
	At          *Point // nil: where the pointer is
	DX, DY      int    // in clicks, at most 1000; DX > 0 is right, DY > 0 is down
	Modifiers   []string
	Observation string
}

// TypeMode is a way to get a text into a program.
type TypeMode string

// The ways to get a text into a program.
//
// TypeKeys presses keys. TypePaste puts the text on the clipboard, presses the chord that pastes
// in the program with the focus, and then puts the former text or picture back on the clipboard.
// A line feed in a pasted text does not press Return. TypeAuto presses keys, but pastes the
// characters that the program cannot get from keys: Java takes characters beyond U+FFFF, such as
// emoji, for other ones. It never pastes a secret.
const (
	TypeAuto  TypeMode = "auto"
	TypeKeys  TypeMode = "keys"
	TypePaste TypeMode = "paste"
)

// Type is text to type into the window that has the focus.
type Type struct {
	Text   string        // 1 byte to 1 MiB
	Delay  time.Duration // between characters; at most 10 s
	Secret bool          // keeps the text out of events and logs
	Mode   TypeMode      // empty: TypeAuto

	// SecretName names the secret of Config.SecretValue that is typed in place of Text. Its
	// text and its length are in no event, error or log.
	SecretName string
}

// Press presses and releases a key or a chord.
type Press struct {
	// Keys is a chord: "ctrl+shift+t", "Return", "F5", "Control_L+a",
	// "ControlOrMeta+A", "pagedown". Keys have their names in xdotool, Playwright
	// or pyautogui.
	Keys      string
	Modifiers []string // added to those in Keys
}

// Selection is an X selection with copied content.
type Selection string

// The selections (ICCCM, section 2.6.1).
const (
	Clipboard Selection = "clipboard"
	Primary   Selection = "primary"
)

// Content is the text or image on a selection.
type Content struct {
	Type string // "text/plain;charset=utf-8" or "image/png"; empty: text
	Data []byte
}

// The content types that selections carry.
const (
	TypeText = "text/plain;charset=utf-8"
	TypePNG  = "image/png"
)
