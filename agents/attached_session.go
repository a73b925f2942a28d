package agents

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/deskhand/deskhand/agents/eventlog"
)

// attachedSession is a session that a process has open. agentProcess.run owns it.
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
}

// sessionData is what eventlog.Session.Data holds.
type sessionData struct {
	Permissions Policy   `json:"permissions,omitzero"`
	Desktop     string   `json:"desktop,omitempty"`
	Problems    []string `json:"problems,omitempty"` // parts of the configuration that did not work
	Mode        string   `json:"mode,omitempty"`     // the current mode
	Model       string   `json:"model,omitempty"`

	Models json.RawMessage `json:"models,omitempty"` // that the agent offers
	Skills string          `json:"skills,omitempty"` // the hash of its own skills

	Options choices `json:"options,omitempty"` // chosen from the agent's options

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
	s.pendingOpen = true
	return s
}

// cleaned returns text as the log takes it.
func cleaned(s string) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	return strings.ReplaceAll(s, "\x00", "\uFFFD")
}

const maxTitle = 1 << 10

// cut returns text with at most that many bytes.
func cut(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "")
}

const maxSessionID = 512

// recordable reports whether an agent's session id can be a key of the log.
func recordable(id string) bool {
	return id != "" && len(id) <= maxSessionID && cleaned(id) == id
}

// created is the result of what makes or opens a session.
type created struct {
	Session string          `json:"sessionId"`
	Modes   json.RawMessage `json:"modes"`
	Models  json.RawMessage `json:"models"`
	Config  json.RawMessage `json:"configOptions"`
}

// applyResult changes what is known of a session after a result about it. The choices
// stay if they are about to be made again.
func (s *attachedSession) applyResult(c created) {
	if s.keeps("modes", &c.Modes) {
		s.row.Modes = c.Modes
	}
	if s.keeps("models", &c.Models) {
		s.data.Models = c.Models
	}
	if !s.opening {
		s.data.Mode = corrected(s.data.Mode, currentOf(c.Modes, "currentModeId"))
		s.data.Model = corrected(s.data.Model, currentOf(c.Models, "currentModelId"))
	}
	s.saveData()
	if given(c.Config) {
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
	return given(*offered)
}

// corrected returns the current value for a choice that was made, if the agent tells
// it.
func corrected(chosen, current string) string {
	if chosen == "" || current == "" {
		return chosen
	}
	return current
}

// newSession returns the session that an answer to session/new or session/fork made.
func (p *agentProcess) newSession(c *call, result created) *attachedSession {
	id := result.Session
	if c.want != "" {
		id = c.want
	}
	p.mu.Lock()
	caps := p.caps.raw
	p.mu.Unlock()
	now := time.Now()
	params := c.env.bytes(c.env.params)
	if c.edits != nil {
		if e, err := parse(c.edits); err == nil {
			params = e.bytes(e.params)
		}
	}
	s := &attachedSession{row: eventlog.Session{
		ID: id, Agent: p.agent, Server: p.server.id, Native: result.Session, Origin: c.origin, Continues: c.continues,
		Init: c.env.bytes(c.env.params), Caps: caps, State: eventlog.Idle, CreatedAt: now, UpdatedAt: now,
	}}
	var given struct {
		Cwd string `json:"cwd"`
	}
	_ = json.Unmarshal(params, &given)
	s.row.Cwd, s.row.Title = cut(cleaned(given.Cwd), 4<<10), c.title
	s.data.Permissions = p.host.cfg.Permissions
	if c.policy != nil {
		s.data.Permissions = *c.policy
	}
	s.data.Desktop = p.server.desktopID()
	s.data.Problems, s.data.Skills = c.problems, c.skills
	if c.want != "" {
		s.making, s.data.Maker = true, p.host.cfg.Log.Instance()
		s.row.State = s.state()
	}
	s.applyResult(result)
	return s
}
