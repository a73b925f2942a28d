package opencode

import (
	"cmp"
	"encoding/json"

	"github.com/deskhand/deskhand/agents"
	"github.com/deskhand/deskhand/agents/eventlog"
)

// Names for agents that name no model or no mode.
const (
	DefaultModel = "default"
	DefaultAgent = "build"
)

// Session is a session as OpenCode's clients read it.
type Session struct {
	ID         string          `json:"id"`
	Slug       string          `json:"slug"`
	Project    string          `json:"projectID"`
	Directory  string          `json:"directory"`
	Parent     string          `json:"parentID,omitempty"`
	Title      string          `json:"title"`
	Agent      string          `json:"agent,omitempty"`
	Model      *Model          `json:"model,omitempty"`
	Version    string          `json:"version"`
	Metadata   json.RawMessage `json:"metadata,omitempty"`
	Permission json.RawMessage `json:"permission,omitempty"`
	Time       SessionTime     `json:"time"`
}

// Model names a model of a session.
type Model struct {
	ID       string `json:"id"`
	Provider string `json:"providerID"`
	Variant  string `json:"variant,omitempty"`
}

// SessionTime has times in Unix milliseconds.
type SessionTime struct {
	Created  int64 `json:"created"`
	Updated  int64 `json:"updated"`
	Archived int64 `json:"archived,omitempty"`
}

// SessionOf describes a session. project is the id of its project, and version the version of
// OpenCode that clients see. The title of a session without one is the first line of its first
// prompt, or "New session". SessionOf does not set Time.Archived: s does not say when it was
// archived.
func SessionOf(s agents.Session, project, version string) Session {
	return Session{
		ID: s.ID, Slug: s.ID, Project: project, Directory: s.Cwd, Version: version,
		Title: cmp.Or(s.Title, s.Prompt, "New session"),
		Agent: cmp.Or(s.Mode, DefaultAgent),
		Model: &Model{ID: cmp.Or(s.Model, DefaultModel), Provider: s.Agent},
		Time:  SessionTime{Created: s.CreatedAt.UnixMilli(), Updated: s.UpdatedAt.UnixMilli()},
	}
}

// Status says whether a session works.
type Status struct {
	Type string `json:"type"` // idle or busy
}

// StatusOf returns the status of a session. A session that starts, or waits for an answer of the
// user, is busy.
func StatusOf(s agents.Session) Status {
	switch s.State {
	case eventlog.Starting, eventlog.Running, eventlog.Waiting:
		return Status{"busy"}
	}
	return Status{"idle"}
}

// endTurns ends all turns with the agent's process or with the session.
func endTurns(t *Transcript, kind string) {
	rejectAll(t)
	interrupted := len(t.turns) > 0
	message := "The agent ended in the middle of the turn."
	if kind == "session/ended" {
		message = "The session ended in the middle of the turn."
	}
	for len(t.turns) > 0 {
		t.end(0, "", &Error{Unknown, ErrorData{message}})
	}
	if interrupted {
		t.interruption = t.out
	}
}
