package timeline

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/deskhand/deskhand/desktop"
)

// Errors that a caller may branch on, with errors.Is.
var (
	// ErrFull is returned if a timeline has no room for more entries of a kind, or if too
	// many entries wait for a slow disk.
	ErrFull = errors.New("the recording's timeline has no room for more entries of this kind")
	// ErrClosed is returned by Mark and Add after Timeline.Close.
	ErrClosed = errors.New("the recording is not active")
)

// InvalidError names an argument that was refused. It wraps desktop.ErrInvalid.
type InvalidError struct {
	Field  string // as in the Go struct, lower camel case: "frameRate"
	Reason string // what would be accepted: "must be from 1 to 60"
}

func (e *InvalidError) Error() string { return e.Field + ": " + e.Reason }

// Unwrap returns desktop.ErrInvalid.
func (e *InvalidError) Unwrap() error { return desktop.ErrInvalid }

func invalid(field, format string, args ...any) error {
	return &InvalidError{Field: field, Reason: fmt.Sprintf(format, args...)}
}

// Milliseconds is a position in a video, or the length of a part of it.
type Milliseconds int64

// Duration converts m.
func (m Milliseconds) Duration() time.Duration { return time.Duration(m) * time.Millisecond }

// millis rounds down, so that an entry is visible at its position.
func millis(d time.Duration) Milliseconds { return Milliseconds(d / time.Millisecond) }

// The types of entries that only a timeline has.
const (
	TypeStarted desktop.EventType = "started" // Size, Windows, Control: the desktop when the video began
	TypeMarker  desktop.EventType = "marker"  // Marker
)

// Entry is an event in the timeline of a video.
type Entry struct {
	Seq  uint64            `json:"seq"`  // from 1, in the order in which entries became known
	At   Milliseconds      `json:"at"`   // position in the video; of an action, where it began
	Time time.Time         `json:"time"` // the same moment by the wall clock
	Type desktop.EventType `json:"type"` // a type of package desktop or of this package, or Event.Type

	Action    *desktop.Action       `json:"action,omitempty"`
	Window    *desktop.Window       `json:"window,omitempty"`
	Selection desktop.Selection     `json:"selection,omitempty"`
	Control   *desktop.Control      `json:"control,omitempty"`
	Size      *desktop.Size         `json:"size,omitempty"`
	Failure   *Failure              `json:"failure,omitempty"`
	Dropped   uint64                `json:"missed,omitempty"` // of a gap: the number of entries that were left out
	Windows   []desktop.Window      `json:"windows,omitempty"`
	Browser   *desktop.BrowserEvent `json:"browser,omitempty"`
	Marker    *Marker               `json:"marker,omitempty"`

	// Title and Data are the members of an Event.
	Title string          `json:"title,omitempty"`
	Data  json.RawMessage `json:"data,omitempty"`
}

// Failure is a failure of the desktop itself.
type Failure struct {
	Code    string `json:"code"` // as in desktop.Failure
	Message string `json:"message"`
}

// Marker names a moment. It begins a chapter.
type Marker struct {
	Title string `json:"title"`           // at most 200 characters, not empty
	Text  string `json:"text,omitempty"`  // at most 4096 characters
	Color string `json:"color,omitempty"` // "#rrggbb", for players

	// At is the position in the video. Nil means now, while the video is being made.
	// Entries do not have it: Entry.At is the position.
	At *Milliseconds `json:"at,omitempty"`
}

// Event is an event from outside of the desktop, such as an agent's message or tool call. It
// is stored unchanged, so it must not contain secrets.
type Event struct {
	// Type is a name such as "agent_message": 1 to 64 lower case letters, digits,
	// underscores, full stops and hyphens. It must not be a type of package desktop or of
	// this package.
	Type desktop.EventType `json:"type"`

	// Title is the text in captions, at most 200 characters. An event without a title
	// has no caption.
	Title string `json:"title,omitempty"`

	// Data is any JSON of at most 64 KiB.
	Data json.RawMessage `json:"data,omitempty"`

	// Time is when the event happened. Zero means now.
	Time time.Time `json:"time,omitzero"`
}

const (
	maxTitle = 200  // characters
	maxText  = 4096 // characters
	maxData  = 64 << 10
)

var (
	eventName = regexp.MustCompile(`^[a-z][a-z0-9_.-]{0,63}$`)
	colorName = regexp.MustCompile(`^#[0-9a-fA-F]{6}$`)

	// programTypes are the types of entries that programs of the desktop can cause.
	programTypes = []desktop.EventType{
		desktop.EventWindowOpened, desktop.EventWindowClosed, desktop.EventWindowFocused, desktop.EventWindowRenamed,
		desktop.EventClipboardChanged, desktop.EventResized, desktop.EventBrowser,
	}
	// reservedTypes are the types that an Event cannot have.
	reservedTypes = append([]desktop.EventType{
		TypeStarted, TypeMarker, desktop.EventAction, desktop.EventControl, desktop.EventFailed, desktop.EventRestarted,
		desktop.EventClosed, desktop.EventGap,
	}, programTypes...)
)

func (m Marker) check() error {
	switch {
	case strings.TrimSpace(m.Title) == "":
		return invalid("title", "must not be empty")
	case m.Color != "" && !colorName.MatchString(m.Color):
		return invalid("color", `must look like "#ff8800"`)
	case m.At != nil && *m.At < 0:
		return invalid("at", "must not be negative")
	}
	return cmp.Or(checkText("title", m.Title, maxTitle), checkText("text", m.Text, maxText))
}

func (e Event) check() error {
	switch {
	case !eventName.MatchString(string(e.Type)):
		return invalid("type", "must be at most 64 lower case letters, digits, underscores, full stops and hyphens, and begin with a letter")
	case slices.Contains(reservedTypes, e.Type):
		return invalid("type", "%q is one that the timeline writes itself; choose another name", e.Type)
	case len(e.Data) > maxData:
		return invalid("data", "must be at most %d bytes; name a file instead", maxData)
	case len(e.Data) > 0 && !json.Valid(e.Data):
		return invalid("data", "must be JSON")
	}
	return checkText("title", e.Title, maxTitle)
}

func checkText(field, text string, most int) error {
	switch {
	case !utf8.ValidString(text):
		return invalid(field, "must be valid UTF-8")
	case utf8.RuneCountInString(text) > most:
		return invalid(field, "must be at most %d characters", most)
	}
	return nil
}

// entryOf returns the entry for an event of the desktop.
func entryOf(e desktop.Event) Entry {
	entry := Entry{
		Time: e.Time, Type: e.Type, Action: e.Action, Window: e.Window, Selection: e.Selection,
		Control: e.Control, Size: e.Size, Browser: e.Browser, Dropped: e.Dropped,
	}
	if e.Failure != nil {
		entry.Failure = &Failure{e.Failure.Code, e.Failure.Message}
	}
	return entry
}
