package opencode

import "encoding/json"

// Message is a message of a session with its parts.
type Message struct {
	Info  Info    `json:"info"`
	Parts []*Part `json:"parts"`

	seq int64 // the entry that made it
}

// Info describes a message. Members without a value in the message's role are left out.
type Info struct {
	ID      string      `json:"id"`
	Session string      `json:"sessionID"`
	Role    string      `json:"role"` // user, assistant
	Time    MessageTime `json:"time"`
	Agent   string      `json:"agent"`

	// Of the user's messages.
	Model  *ModelRef `json:"model,omitempty"`
	System string    `json:"system,omitempty"`

	// Of the agent's messages.
	Parent   string   `json:"parentID,omitempty"`
	ModelID  string   `json:"modelID,omitempty"`
	Provider string   `json:"providerID,omitempty"`
	Mode     string   `json:"mode,omitempty"`
	Path     *Path    `json:"path,omitempty"`
	Cost     *float64 `json:"cost,omitempty"`
	Tokens   *Tokens  `json:"tokens,omitempty"`
	Finish   string   `json:"finish,omitempty"`
	Error    *Error   `json:"error,omitempty"`
}

// MessageTime has times in Unix milliseconds.
type MessageTime struct {
	Created   int64 `json:"created"`
	Completed int64 `json:"completed,omitempty"`
}

// ModelRef names the model of a message.
type ModelRef struct {
	Provider string `json:"providerID"`
	Model    string `json:"modelID"`
	Variant  string `json:"variant,omitempty"`
}

// Path has the directory of a message's agent, and its project's.
type Path struct {
	Cwd  string `json:"cwd"`
	Root string `json:"root"`
}

// Tokens counts the tokens of a turn.
type Tokens struct {
	Input     int64 `json:"input"`
	Output    int64 `json:"output"`
	Reasoning int64 `json:"reasoning"`
	Cache     Cache `json:"cache"`
}

// Cache counts the tokens that were read from a cache and written to it.
type Cache struct {
	Read  int64 `json:"read"`
	Write int64 `json:"write"`
}

// Error is the error that a turn ended with.
type Error struct {
	Name string    `json:"name"`
	Data ErrorData `json:"data"`
}

// ErrorData describes an [Error].
type ErrorData struct {
	Message string `json:"message"`
}

// The names of errors.
const (
	Unknown = "UnknownError"
	Aborted = "MessageAbortedError"
)

// Part is a piece of a message. Which members are set depends on its type.
type Part struct {
	ID        string     `json:"id"`
	Session   string     `json:"sessionID"`
	Message   string     `json:"messageID"`
	Type      string     `json:"type"` // text, reasoning, file, tool, step-start, step-finish, patch
	Text      *string    `json:"text,omitempty"`
	Synthetic bool       `json:"synthetic,omitempty"`
	Time      *PartTime  `json:"time,omitempty"`
	Mime      string     `json:"mime,omitempty"`
	Filename  string     `json:"filename,omitempty"`
	URL       string     `json:"url,omitempty"`
	Call      string     `json:"callID,omitempty"`
	Tool      string     `json:"tool,omitempty"`
	State     *CallState `json:"state,omitempty"`
	Reason    string     `json:"reason,omitempty"`
	Cost      *float64   `json:"cost,omitempty"`
	Tokens    *Tokens    `json:"tokens,omitempty"`
	Hash      string     `json:"hash,omitempty"`
	Files     []string   `json:"files,omitempty"`

	pending []string // chunks of text that are not yet in Text
	bytes   int      // of all members
}

// PartTime has times in Unix milliseconds.
type PartTime struct {
	Start int64 `json:"start"`
	End   int64 `json:"end,omitempty"`
}

// CallState is the state of a tool call.
type CallState struct {
	Status      string          `json:"status"` // pending, running, completed, error
	Input       json.RawMessage `json:"input"`
	Raw         *string         `json:"raw,omitempty"`
	Title       *string         `json:"title,omitempty"`
	Output      *string         `json:"output,omitempty"`
	Error       *string         `json:"error,omitempty"`
	Metadata    map[string]any  `json:"metadata,omitempty"`
	Time        *PartTime       `json:"time,omitempty"`
	Attachments []*Part         `json:"attachments,omitempty"`
}

// Todo is an entry of an agent's plan.
type Todo struct {
	ID       string `json:"id"`
	Content  string `json:"content"`
	Status   string `json:"status"`
	Priority string `json:"priority"`
}

// FileDiff is what a session's agent changed in a file, as it said with its tool calls.
type FileDiff struct {
	File      string `json:"file"`
	Before    string `json:"before"`
	After     string `json:"after"`
	Patch     string `json:"patch"`
	Additions int    `json:"additions"`
	Deletions int    `json:"deletions"`
	Status    string `json:"status"` // added, modified, deleted
}

// Permission is an agent's question for permission.
type Permission struct {
	ID         string         `json:"id"`
	Session    string         `json:"sessionID"`
	Permission string         `json:"permission"`
	Patterns   []string       `json:"patterns"`
	Metadata   map[string]any `json:"metadata"`
	Always     []string       `json:"always"`
	Tool       *CallRef       `json:"tool,omitempty"`
}

// OlderPermission is a [Permission] as clients before version 1.1 read it.
type OlderPermission struct {
	ID       string         `json:"id"`
	Type     string         `json:"type"`
	Pattern  []string       `json:"pattern"`
	Session  string         `json:"sessionID"`
	Message  string         `json:"messageID"`
	Call     string         `json:"callID,omitempty"`
	Title    string         `json:"title"`
	Metadata map[string]any `json:"metadata"`
	Time     MessageTime    `json:"time"`
}

// Question is another question of an agent to its user.
type Question struct {
	ID        string         `json:"id"`
	Session   string         `json:"sessionID"`
	Questions []QuestionInfo `json:"questions"`
	Tool      *CallRef       `json:"tool,omitempty"`
}

// QuestionInfo is one of the questions that are asked together.
type QuestionInfo struct {
	Question string   `json:"question"`
	Header   string   `json:"header"`
	Options  []Option `json:"options"`
	Multiple bool     `json:"multiple"`
	Custom   bool     `json:"custom"`
}

// Option is an answer that a question offers.
type Option struct {
	Label       string `json:"label"`
	Description string `json:"description"`
}

// CallRef names a tool call.
type CallRef struct {
	Message string `json:"messageID"`
	Call    string `json:"callID"`
}

// Event is an event of OpenCode's event stream.
type Event struct {
	ID         string `json:"id"`
	Type       string `json:"type"`
	Properties any    `json:"properties"`
}
