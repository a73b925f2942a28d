package universal

import (
	"encoding/json"
	"time"

	"github.com/deskhand/deskhand/agents"
	"github.com/deskhand/deskhand/internal/plainjson"
)

// The types of event.
const (
	SessionStarted     = "session.started"
	SessionEnded       = "session.ended"
	TurnStarted        = "turn.started"
	TurnEnded          = "turn.ended"
	ItemStarted        = "item.started"
	ItemDelta          = "item.delta"
	ItemCompleted      = "item.completed"
	Failed             = "error"
	PermissionAsked    = "permission.requested"
	PermissionResolved = "permission.resolved"
	QuestionAsked      = "question.requested"
	QuestionResolved   = "question.resolved"
	Unparsed           = "agent.unparsed"
)

// Event is a UniversalEvent.
type Event struct {
	ID        string          `json:"event_id"`
	Sequence  int64           `json:"sequence"` // from 1, without gaps, per session
	Time      time.Time       `json:"time"`
	Session   string          `json:"session_id"`
	Native    *string         `json:"native_session_id"`
	Synthetic bool            `json:"synthetic"`
	Source    string          `json:"source"` // "agent" or "daemon"
	Type      string          `json:"type"`
	Data      json.RawMessage `json:"data"`
	Raw       json.RawMessage `json:"raw"` // null unless it is requested

	// Entry is the sequence number of the entry that the event was made of. The entry's
	// payload is the event's raw form.
	Entry int64 `json:"-"`
}

// JSON returns the event as clients get it, without escapes for HTML. raw is the payload of its
// entry. Nil leaves it out, and so does a synthetic event.
func (e Event) JSON(raw []byte) ([]byte, error) {
	e.Raw = json.RawMessage("null")
	if raw != nil && !e.Synthetic {
		e.Raw = raw
	}
	return plainjson.Marshal(e)
}

// Item is a piece of a conversation.
type Item struct {
	ID      string  `json:"item_id"`
	Native  *string `json:"native_item_id"`
	Parent  *string `json:"parent_id"`
	Kind    string  `json:"kind"` // message, tool_call, tool_result, system, status, unknown
	Role    *string `json:"role"` // user, assistant, system, tool
	Content []Part  `json:"content"`
	Status  string  `json:"status"` // in_progress, completed, failed
}

// Part is a piece of an item's content. Which members are set depends on its
// type.
type Part struct {
	Type       string          `json:"type"` // text, json, tool_call, tool_result, file_ref, reasoning, image, status
	Text       *string         `json:"text,omitempty"`
	JSON       json.RawMessage `json:"json,omitempty"`
	Name       *string         `json:"name,omitempty"`
	Arguments  *string         `json:"arguments,omitempty"` // JSON
	CallID     *string         `json:"call_id,omitempty"`
	Output     *string         `json:"output,omitempty"`
	Path       *string         `json:"path,omitempty"`
	Action     *string         `json:"action,omitempty"` // read, write, patch
	Diff       *string         `json:"diff,omitempty"`
	Mime       *string         `json:"mime,omitempty"`
	Visibility *string         `json:"visibility,omitempty"` // public, private
	Label      *string         `json:"label,omitempty"`
	Detail     *string         `json:"detail,omitempty"`
}

// The data of events.
type (
	sessionStarted struct {
		Metadata map[string]any `json:"metadata"`
	}
	sessionEnded struct {
		Reason     string  `json:"reason"`        // completed, error, terminated
		By         string  `json:"terminated_by"` // agent, daemon
		Message    *string `json:"message,omitempty"`
		ExitCode   *int    `json:"exit_code,omitempty"`
		StderrTail *string `json:"stderr,omitempty"`
	}
	turnData struct {
		Phase    string         `json:"phase"` // started, ended
		ID       string         `json:"turn_id"`
		Metadata map[string]any `json:"metadata,omitempty"`
	}
	itemData struct {
		Item Item `json:"item"`
	}
	deltaData struct {
		ID     string  `json:"item_id"`
		Native *string `json:"native_item_id"`
		Delta  string  `json:"delta"`
	}
	errorData struct {
		Message string          `json:"message"`
		Code    *string         `json:"code"`
		Details json.RawMessage `json:"details,omitempty"`
	}
	permissionData struct {
		ID       string         `json:"permission_id"`
		Action   string         `json:"action"`
		Status   string         `json:"status"` // requested, accept, accept_for_session, reject
		Metadata map[string]any `json:"metadata"`
	}
	questionData struct {
		ID       string   `json:"question_id"`
		Prompt   string   `json:"prompt"`
		Options  []string `json:"options"`
		Response *string  `json:"response"`
		Status   string   `json:"status"` // requested, answered, rejected

		// Questions has the questions of a form.
		Questions []agents.FormQuestion `json:"questions,omitempty"`
	}
	unparsedData struct {
		Error    string `json:"error"`
		Location string `json:"location"`
		Hash     string `json:"raw_hash"`
	}
)
