package desktop

import "time"

// EventType is a kind of Event.
type EventType string

// The types of event and which of Event's fields they set.
const (
	EventAction           EventType = "action"            // Action
	EventWindowOpened     EventType = "window_opened"     // Window
	EventWindowClosed     EventType = "window_closed"     // Window
	EventWindowFocused    EventType = "window_focused"    // Window; nil when none has the focus
	EventWindowRenamed    EventType = "window_renamed"    // Window; four a second of one window, and the last
	EventClipboardChanged EventType = "clipboard_changed" // Selection
	EventControl          EventType = "control"           // Control
	EventResized          EventType = "resized"           // Size
	EventFailed           EventType = "failed"            // Failure
	EventRestarted        EventType = "restarted"         // Failure that led to it
	EventClosed           EventType = "closed"            // the last one
	EventGap              EventType = "gap"               // Dropped: the subscriber was too slow
)

// Event is something that happened on a desktop.
type Event struct {
	Seq       uint64    `json:"seq"` // from 1, without holes, per Desktop
	Time      time.Time `json:"time"`
	Type      EventType `json:"type"`
	Desktop   string    `json:"desktop"`
	Action    *Action   `json:"action,omitempty"`
	Window    *Window   `json:"window,omitempty"`
	Selection Selection `json:"selection,omitempty"`
	Control   *Control  `json:"control,omitempty"`
	Size      *Size     `json:"size,omitempty"`
	Failure   *Failure  `json:"failure,omitempty"`
	Dropped   uint64    `json:"missed,omitempty"` // events before this one
}
