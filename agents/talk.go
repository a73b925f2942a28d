package agents

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/deskhand/deskhand/agents/eventlog"
)

// talk is a session while a process knows it. run owns it.
type talk struct {
	row       eventlog.Session
	prompts   int // that are under way
	questions int // that are open and hold the turn up
	data      sessionData
	quiet     int    // loads of clients under way: their updates are history
	opens     int    // requests under way that load or resume it
	coming    bool   // none of them was answered yet: what the log says of it is not this process's to change
	preface   string // what the agent has to be told before the next prompt, since it knows nothing of it
	fresh     string // the agent's name for the session that has to be told; row.Native knows all still
	linked    bool   // its history was looked for
	over      bool   // its process has ended; row.State is final
	opening   bool   // the host opens it again: nobody else uses it before it is whole
	making    bool   // the host makes it and chooses for it: the same
}

// sessionData is what eventlog.Session.Data holds.
type sessionData struct {
	Permissions Policy   `json:"permissions,omitzero"`
	Desktop     string   `json:"desktop,omitempty"`
	Problems    []string `json:"problems,omitempty"` // what of the configuration did not work
	Mode        string   `json:"mode,omitempty"`     // the current one
	Model       string   `json:"model,omitempty"`

	Models json.RawMessage `json:"models,omitempty"` // that the agent offers
	Skills string          `json:"skills,omitempty"` // the hash of its own

	Options choices `json:"options,omitempty"` // what was chosen of the agent's options

	Maker string `json:"maker,omitempty"` // which program makes it, while it is starting
}

// id is the session's, or "" for none.
func (t *talk) id() string {
	if t == nil {
		return ""
	}
	return t.row.ID
}

func (t *talk) state() eventlog.State {
	switch {
	case t.over || t.row.State == eventlog.Ended || t.row.State == eventlog.Failed:
		return t.row.State
	case t.making:
		return eventlog.Starting
	case t.questions > 0:
		return eventlog.Waiting
	case t.prompts > 0:
		return eventlog.Running
	}
	return eventlog.Idle
}

// native is what the agent calls it now.
func (t *talk) native() string {
	if t.fresh != "" {
		return t.fresh
	}
	return t.row.Native
}

func (t *talk) saveData() { t.row.Data = encode(t.data) }

// talkOf is what a session is at the beginning of a process.
func talkOf(row eventlog.Session) *talk {
	t := &talk{row: row}
	_ = json.Unmarshal(row.Data, &t.data) // empty at first
	return t
}

// comingTalk is talkOf of a session that is about to be opened.
func comingTalk(row eventlog.Session) *talk {
	t := talkOf(row)
	t.coming = true
	return t
}

// cleaned is text as the log takes it.
func cleaned(s string) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	return strings.ReplaceAll(s, "\x00", "\uFFFD")
}

const maxTitle = 1 << 10

// cut is text with at most so many bytes.
func cut(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "")
}

const maxSessionID = 512

// recordable tells whether an agent's session id can be a key of the log.
func recordable(id string) bool {
	return id != "" && len(id) <= maxSessionID && cleaned(id) == id
}

// add makes a session known to this life, and to those who need it unless it is
// being made or restored.
func (l *life) add(t *talk) { l.addAs(t, t.row.Native) }

func (l *life) addAs(t *talk, native string) {
	l.talks[t.row.ID] = t
	l.natives[native] = t
	l.admit(t)
}

// admit lets a session be used, if it is whole.
func (l *life) admit(t *talk) {
	if t.opening {
		return
	}
	l.mu.Lock()
	l.here[t.row.ID] = !t.making
	l.mu.Unlock()
}

// remove is the reverse of add.
func (l *life) remove(t *talk) {
	delete(l.talks, t.row.ID)
	delete(l.natives, t.native())
	l.mu.Lock()
	delete(l.here, t.row.ID)
	l.mu.Unlock()
}

// created is the result of what makes or opens a session.
type created struct {
	Session string          `json:"sessionId"`
	Modes   json.RawMessage `json:"modes"`
	Models  json.RawMessage `json:"models"`
	Config  json.RawMessage `json:"configOptions"`
}

// learn takes from a result what the agent says about a session, also about what
// was chosen, unless that is about to be chosen again.
func (t *talk) learn(c created) {
	if given(c.Modes) {
		t.row.Modes = c.Modes
	}
	if given(c.Models) {
		t.data.Models = c.Models
	}
	if !t.opening {
		t.data.Mode = corrected(t.data.Mode, currentOf(c.Modes, "currentModeId"))
		t.data.Model = corrected(t.data.Model, currentOf(c.Models, "currentModelId"))
	}
	t.saveData()
	if given(c.Config) {
		t.told(c.Config, nil)
	}
}

// corrected is what was chosen, if anything was, as the agent says that it is, if
// it says so.
func corrected(chosen, current string) string {
	if chosen == "" || current == "" {
		return chosen
	}
	return current
}

// newTalk is the session that an answer to session/new or session/fork made.
func (l *life) newTalk(c *call, result created) *talk {
	id := result.Session
	if c.want != "" {
		id = c.want
	}
	l.mu.Lock()
	caps := l.caps.raw
	l.mu.Unlock()
	now := time.Now()
	params := c.env.bytes(c.env.params)
	if c.edits != nil {
		if e, err := parse(c.edits); err == nil {
			params = e.bytes(e.params)
		}
	}
	t := &talk{row: eventlog.Session{
		ID: id, Agent: l.agent, Server: l.s.id, Native: result.Session, Origin: c.origin, Continues: c.continues,
		Init: c.env.bytes(c.env.params), Caps: caps, State: eventlog.Idle, CreatedAt: now, UpdatedAt: now,
	}}
	var p struct {
		Cwd string `json:"cwd"`
	}
	_ = json.Unmarshal(params, &p)
	t.row.Cwd, t.row.Title = cut(cleaned(p.Cwd), 4<<10), c.title
	t.data.Permissions = l.host.cfg.Permissions
	if c.policy != nil {
		t.data.Permissions = *c.policy
	}
	t.data.Desktop = l.s.desktopID()
	t.data.Problems, t.data.Skills = c.problems, c.skills
	if c.want != "" {
		t.making, t.data.Maker = true, l.host.cfg.Log.Instance()
		t.row.State = t.state()
	}
	t.learn(result)
	return t
}
