package agents

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/deskhand/deskhand/agents/eventlog"
	"github.com/deskhand/deskhand/internal/cuttext"
)

// attachedSession is a session that a process has open. agentProcess.run owns it. Its
// row is what the log has after the present batch.
type attachedSession struct {
	row         eventlog.Session
	data        sessionData
	prompts     int    // that the agent has not answered
	questions   int    // that the turn waits for
	loads       int    // session/load that the agent has not answered: the updates meanwhile are history
	opens       int    // session/load and session/resume that the agent has not answered
	pendingOpen bool   // none was answered yet: another process may own the row
	preface     string // the history, which the agent does not know, for the next prompt
	newNative   string // the agent's id of the session that needs preface; row.Native still has the history
	linked      bool   // linkHistory has read the first prompt
	ended       bool   // the process has ended: row.State is final
	opening     bool   // the host restores it: no client uses it yet
	making      bool   // the host makes it: no client uses it yet

	logged settings // that its row in the log had when this process wrote or read it
}

// settings are what hosts change in a session that no process has open.
type settings struct {
	title       string
	permissions Policy
	archived    bool
}

func (s *attachedSession) settings() settings {
	return settings{s.row.Title, s.data.Permissions, s.data.Archived}
}

// adopt takes the settings that another host has changed from the row in the log, and the end of a
// session that is not opened with this commit. Settings that were changed here stay.
func (s *attachedSession) adopt(row eventlog.Session, opened bool) {
	now, theirs := s.settings(), attachedSessionOf(row).settings()
	if now.title == s.logged.title {
		s.row.Title = theirs.title
	}
	if now.permissions == s.logged.permissions {
		s.data.Permissions = theirs.permissions
	}
	if now.archived == s.logged.archived {
		s.data.Archived = theirs.archived
	}
	if row.State == eventlog.Ended && !opened {
		s.row.State, s.row.EndReason, s.row.EndedAt = row.State, row.EndReason, row.EndedAt
		s.refreshState()
	}
	s.saveData()
}

// sessionData is what eventlog.Session.Data holds.
type sessionData struct {
	Permissions Policy   `json:"permissions,omitzero"`
	Desktop     string   `json:"desktop,omitempty"`
	Problems    []string `json:"problems,omitempty"` // parts of the configuration that did not work
	Mode        string   `json:"mode,omitempty"`     // the current mode
	Model       string   `json:"model,omitempty"`

	Prompt       string    `json:"prompt,omitempty"`      // the first line of the first prompt
	Turns        int       `json:"turns,omitempty"`       // prompts of clients
	WaitingSince time.Time `json:"waitingSince,omitzero"` // zero: no turn waits for an answer

	Models json.RawMessage `json:"models,omitempty"` // that the agent offers
	Skills string          `json:"skills,omitempty"` // the hash of its own skills

	Options choices `json:"options,omitempty"` // chosen from the agent's options

	Archived bool `json:"archived,omitempty"`

	Maker string `json:"maker,omitempty"` // the instance of the host that makes it, while it is starting
}

func (s *attachedSession) id() string {
	if s == nil {
		return ""
	}
	return s.row.ID
}

func (s *attachedSession) state() eventlog.State {
	switch {
	case s.ended || s.row.State == eventlog.Ended || s.row.State == eventlog.Failed:
		return s.row.State
	case s.making:
		return eventlog.Starting
	case s.questions > 0:
		return eventlog.Waiting
	case s.prompts > 0:
		return eventlog.Running
	}
	return eventlog.Idle
}

// refreshState sets the state of the row, and since when the session waits.
func (s *attachedSession) refreshState() {
	s.row.State = s.state()
	switch waits := s.row.State == eventlog.Waiting; {
	case waits == !s.data.WaitingSince.IsZero():
		return
	case waits:
		s.data.WaitingSince = time.Now().UTC()
	default:
		s.data.WaitingSince = time.Time{}
	}
	s.saveData()
}

// countPrompt records a prompt, and returns a function that undoes that.
func (s *attachedSession) countPrompt(e *envelope) (undo func()) {
	prompt, turns := s.data.Prompt, s.data.Turns
	s.data.Turns++
	if s.data.Prompt == "" {
		s.data.Prompt = firstLine(e)
	}
	s.saveData()
	return func() {
		s.data.Prompt, s.data.Turns = prompt, turns
		s.saveData()
	}
}

const maxFirstLine = 200

// firstLine returns the first line of a prompt that has text, or "". It leaves out the history
// that the SDK of sandbox-agent puts before a prompt.
func firstLine(e *envelope) string {
	var blocks []contentBlock
	_ = json.Unmarshal(e.bytes(e.find(e.params, "prompt")), &blocks)
	for _, b := range blocks {
		if strings.Contains(b.Text[:min(len(b.Text), 4096)], replayedMark) {
			continue
		}
		for line := range strings.Lines(b.Text) {
			if line = strings.TrimSpace(line); line != "" {
				return strings.Clone(cuttext.Cut(sanitized(line), maxFirstLine)) // not a part of the prompt
			}
		}
	}
	return ""
}

// native returns the agent's id of the session.
func (s *attachedSession) native() string {
	if s.newNative != "" {
		return s.newNative
	}
	return s.row.Native
}

func (s *attachedSession) saveData() { s.row.Data = encode(s.data) }

// attachedSessionOf returns a session as its row has it.
func attachedSessionOf(row eventlog.Session) *attachedSession {
	s := &attachedSession{row: row}
	_ = json.Unmarshal(row.Data, &s.data) // empty at first
	return s
}

// openingSession is like attachedSessionOf for a session that is about to be opened.
func openingSession(row eventlog.Session) *attachedSession {
	s := attachedSessionOf(row)
	s.pendingOpen, s.logged = true, s.settings()
	return s
}

// sanitized returns text as the log accepts it.
func sanitized(s string) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	return strings.ReplaceAll(s, "\x00", "\uFFFD")
}

const maxTitle = 1 << 10

const maxSessionID = 512

// recordable reports whether an agent's session id can be a key of the log.
func recordable(id string) bool {
	return id != "" && len(id) <= maxSessionID && sanitized(id) == id
}

// sessionResult is the result of what makes or opens a session.
type sessionResult struct {
	Session string          `json:"sessionId"`
	Modes   json.RawMessage `json:"modes"`
	Models  json.RawMessage `json:"models"`
	Config  json.RawMessage `json:"configOptions"`
}

// applyResult changes what is known of a session after a result about it. The choices
// stay if they are about to be made again.
func (s *attachedSession) applyResult(c sessionResult) {
	if s.keeps("modes", &c.Modes) {
		s.row.Modes = c.Modes
	}
	if s.keeps("models", &c.Models) {
		s.data.Models = c.Models
	}
	if !s.opening {
		s.data.Mode = updatedChoice(s.data.Mode, currentOf(c.Modes, "currentModeId"))
		s.data.Model = updatedChoice(s.data.Model, currentOf(c.Models, "currentModelId"))
	}
	s.saveData()
	if isPresent(c.Config) {
		s.setOptions(c.Config, nil)
	}
}

// maxOffered bounds each of the modes, the models and the options of a session that
// its row keeps.
const maxOffered = 1 << 20

// keeps reports whether the agent offers something that the session's row can keep. It
// clears what is too large, and adds that to the session's problems.
func (s *attachedSession) keeps(what string, offered *json.RawMessage) bool {
	if len(*offered) > maxOffered {
		*offered = nil
		problem := fmt.Sprintf("the agent's %s are ignored, because they have more than %d bytes", what, maxOffered)
		if !slices.Contains(s.data.Problems, problem) {
			s.data.Problems = append(slices.Clip(s.data.Problems), problem)
		}
	}
	return isPresent(*offered)
}

// updatedChoice returns the current value for a choice that was made, if the agent reports
// it.
func updatedChoice(chosen, current string) string {
	if chosen == "" || current == "" {
		return chosen
	}
	return current
}

// countOpening counts a request that loads or resumes the session.
func (s *attachedSession) countOpening(n int, loads bool) {
	s.opens += n
	if loads {
		s.loads += n
	}
}

// applyUpdate changes what is known of a session after an update about it as a whole, and
// reports whether the update was one.
func (s *attachedSession) applyUpdate(e *envelope) bool {
	at := e.find(e.params, "update")
	member := func(name string) []byte { return e.bytes(e.find(at, name)) }
	switch stringValue(member("sessionUpdate")) {
	case "current_mode_update":
		s.recordListedChoice(categoryMode, stringValue(member("currentModeId")))
	case "config_option_update":
		if v := member("configOptions"); isPresent(v) {
			s.setOptions(v, configOptionsOf(s.row.Config))
		}
	case "session_info_update":
		title := member("title")
		if len(title) == 0 {
			return false
		}
		s.row.Title = cuttext.Cut(sanitized(stringValue(title)), maxTitle)
	default:
		return false
	}
	return true
}

// interrupt sets the state of a session whose process has ended.
func (s *attachedSession) interrupt(e exitStatus, reason string) {
	state := s.state()
	switch state {
	case eventlog.Running, eventlog.Waiting:
		s.row.State, s.row.ExitCode = eventlog.Interrupted, e.code
		s.row.EndReason = "the agent's process ended in the middle of a turn (" + reason + ")"
		s.ended = true
	case eventlog.Starting: // CreateSession records what becomes of it
		s.ended = true
	case eventlog.Idle, eventlog.Interrupted, eventlog.Ended, eventlog.Failed:
	}
	if reason == endedDeleted && state != eventlog.Ended {
		s.row.Server = ""
	}
}
