package recording

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/deskhand/deskhand/desktop"
)

// Milliseconds is a position in a video, or a length of it, in JSON.
type Milliseconds int64

// Duration is the same as Go has it.
func (m Milliseconds) Duration() time.Duration { return time.Duration(m) * time.Millisecond }

// millis rounds down, so that what is told at a position can be seen there.
func millis(d time.Duration) Milliseconds { return Milliseconds(d / time.Millisecond) }

// EntryType says what an Entry tells. Besides those below there are the types of
// desktop.EventType, and those that callers choose.
type EntryType string

// The types of entry that only a timeline has.
const (
	EntryStarted EntryType = "started" // Size, Windows, Control: what was there when the video began
	EntryMarker  EntryType = "marker"  // Marker
)

// Entry is something that happened while a recording was made.
type Entry struct {
	Seq  uint64       `json:"seq"`  // from 1, per recording, in the order in which it became known
	At   Milliseconds `json:"at"`   // in the video; of an action, when it began
	Time time.Time    `json:"time"` // the same moment by the clock on the wall
	Type EntryType    `json:"type"`

	Action    *desktop.Action   `json:"action,omitempty"`
	Window    *desktop.Window   `json:"window,omitempty"`
	Selection desktop.Selection `json:"selection,omitempty"`
	Control   *desktop.Control  `json:"control,omitempty"`
	Size      *desktop.Size     `json:"size,omitempty"`
	Failure   *Failure          `json:"failure,omitempty"`
	Missed    uint64            `json:"missed,omitempty"` // of a gap: how many entries are not there
	Windows   []desktop.Window  `json:"windows,omitempty"`
	Marker    *Marker           `json:"marker,omitempty"`

	// Title and Data are those of an Event that the caller added.
	Title string          `json:"title,omitempty"`
	Data  json.RawMessage `json:"data,omitempty"`
}

// Failure is what went wrong with the desktop itself.
type Failure struct {
	Code    string `json:"code"` // as in desktop.Failure
	Message string `json:"message"`
}

// Marker names a moment. It begins a chapter.
type Marker struct {
	Title string `json:"title"`           // at most 200 characters, not empty
	Text  string `json:"text,omitempty"`  // at most 4096 characters
	Color string `json:"color,omitempty"` // "#rrggbb", for players

	// At is the place in the video. Nil: now, which only a recording that runs
	// has. Entries do not have it: their own At is the place.
	At *Milliseconds `json:"at,omitempty"`
}

// Event is something else to be told in the timeline, such as an agent's message
// or tool call. It is kept as it is given: what is secret must not be in it.
type Event struct {
	// Type is a name such as "agent_message": lower case letters, digits,
	// underscore, full stop and hyphen, at most 64 of them, and none of the
	// types that the timeline itself has.
	Type EntryType `json:"type"`

	// Title is how captions tell it, at most 200 characters. Empty: they do not.
	Title string `json:"title,omitempty"`

	// Data is any JSON, at most 64 KiB of it.
	Data json.RawMessage `json:"data,omitempty"`

	// Time is when it happened. Zero: now.
	Time time.Time `json:"time,omitzero"`
}

// Bounds of what callers put into a timeline.
const (
	mostTitle = 200
	mostText  = 4096
	mostData  = 64 << 10
)

var (
	eventName = regexp.MustCompile(`^[a-z][a-z0-9_.-]{0,63}$`)
	colorName = regexp.MustCompile(`^#[0-9a-fA-F]{6}$`)

	// ownTypes are the types that callers cannot choose.
	ownTypes = []EntryType{
		EntryStarted, EntryMarker, EntryType(desktop.EventAction), EntryType(desktop.EventWindowOpened),
		EntryType(desktop.EventWindowClosed), EntryType(desktop.EventWindowFocused), EntryType(desktop.EventWindowRenamed),
		EntryType(desktop.EventClipboardChanged), EntryType(desktop.EventControl), EntryType(desktop.EventResized),
		EntryType(desktop.EventFailed), EntryType(desktop.EventRestarted), EntryType(desktop.EventClosed), EntryType(desktop.EventGap),
	}
)

func (m Marker) check() error {
	switch {
	case strings.TrimSpace(m.Title) == "":
		return &InvalidError{"title", "must not be empty"}
	case m.Color != "" && !colorName.MatchString(m.Color):
		return &InvalidError{"color", `must look like "#ff8800"`}
	case m.At != nil && *m.At < 0:
		return &InvalidError{"at", "must not be negative"}
	}
	if err := checkText("title", m.Title, mostTitle); err != nil {
		return err
	}
	return checkText("text", m.Text, mostText)
}

func (e Event) check() error {
	switch {
	case !eventName.MatchString(string(e.Type)):
		return &InvalidError{"type", "must be at most 64 lower case letters, digits, underscores, full stops and hyphens, and begin with a letter"}
	case slices.Contains(ownTypes, e.Type):
		return &InvalidError{"type", fmt.Sprintf("%q is one that the timeline writes itself; choose another name", e.Type)}
	case len(e.Data) > mostData:
		return &InvalidError{"data", fmt.Sprintf("must be at most %d bytes; name a file instead", mostData)}
	case len(e.Data) > 0 && !json.Valid(e.Data):
		return &InvalidError{"data", "must be JSON"}
	}
	return checkText("title", e.Title, mostTitle)
}

func checkText(field, text string, most int) error {
	switch {
	case !utf8.ValidString(text):
		return &InvalidError{field, "must be valid UTF-8"}
	case utf8.RuneCountInString(text) > most:
		return &InvalidError{field, fmt.Sprintf("must be at most %d characters", most)}
	}
	return nil
}

// entryOf is a desktop's event as the timeline tells it.
func entryOf(e desktop.Event) Entry {
	entry := Entry{
		Time: e.Time, Type: EntryType(e.Type), Action: e.Action, Window: e.Window, Selection: e.Selection,
		Control: e.Control, Size: e.Size, Missed: e.Missed,
	}
	if e.Failure != nil {
		entry.Failure = &Failure{e.Failure.Code, e.Failure.Message}
	}
	return entry
}
