package mockagent

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"
	"time"
)

// session is a conversation. agent.mu guards all members except tools.
type session struct {
	kept

	queue   []*turn // the first one runs
	deleted bool    // must not be saved
	tools   *toolbox

	history []json.RawMessage // session updates
	size    int               // of history, in bytes

	// The message or thought that may continue. The history has its chunks as one update.
	textKind string
	text     strings.Builder
}

// kept is the part of a session that its file holds, with the history.
type kept struct {
	ID      string    `json:"id"`
	Cwd     string    `json:"cwd"`
	Title   string    `json:"title"`
	Mode    string    `json:"mode"`
	Model   string    `json:"model"`
	Thought string    `json:"thoughtLevel"`
	Always  bool      `json:"always"` // "permission" no longer asks
	Prompts int       `json:"prompts"`
	Updated time.Time `json:"updated"`
}

// maxHistory bounds the bytes of a session's history, which session/load repeats.
const maxHistory = 4 << 20

func startSession(p *sessionParams, env []string) *session {
	var random [8]byte
	rand.Read(random[:])
	s := &session{kept: kept{
		ID: idPrefix + hex.EncodeToString(random[:]), Cwd: p.Cwd, Updated: time.Now(),
		Mode: settings[0].choices[0].id, Model: settings[1].choices[0].id, Thought: settings[2].choices[1].id,
	}, tools: &toolbox{env: env}}
	s.tools.set(p.MCPServers)
	return s
}

// choice is one value of a setting.
type choice struct{ id, name, description string }

// setting is an option that a client can choose for a session.
type setting struct {
	id, name string // the id is the category's name as well
	field    func(*session) *string
	choices  []choice
}

var settings = []setting{
	{"mode", "Mode", func(s *session) *string { return &s.Mode }, []choice{
		{"normal", "Normal", "Does what the prompt says"},
		{"plan", "Plan", "Would only plan, if it had a model"},
	}},
	{"model", "Model", func(s *session) *string { return &s.Model }, []choice{
		{"mock", "Mock", "Says what it was told to say"},
		{"mock-fast", "Mock fast", "The same"},
	}},
	{"thought_level", "Thought level", func(s *session) *string { return &s.Thought }, []choice{
		{"low", "Low", ""}, {"medium", "Medium", ""}, {"high", "High", ""},
	}},
}

// choose changes a setting. The caller holds agent.mu.
func (s *session) choose(settingID, value string) error {
	at := slices.IndexFunc(settings, func(t setting) bool { return t.id == settingID })
	if at < 0 {
		return rpcErrorf(codeInvalidParams, `there is no option %q; there are "mode", "model" and "thought_level"`, settingID)
	}
	t := settings[at]
	if !slices.ContainsFunc(t.choices, func(c choice) bool { return c.id == value }) {
		var ids []string
		for _, c := range t.choices {
			ids = append(ids, c.id)
		}
		return rpcErrorf(codeInvalidParams, "%s cannot be %q; it can be %s", t.id, value, strings.Join(ids, ", "))
	}
	*t.field(s) = value
	return nil
}

// options returns all settings as ACP's configOptions.
func (s *session) options() []any {
	all := make([]any, 0, len(settings))
	for _, t := range settings {
		values := make([]any, 0, len(t.choices))
		for _, c := range t.choices {
			values = append(values, c.as("value"))
		}
		all = append(all, map[string]any{
			"id": t.id, "name": t.name, "category": t.id, "type": "select",
			"currentValue": *t.field(s), "options": values,
		})
	}
	return all
}

func (c choice) as(id string) map[string]string {
	m := map[string]string{id: c.id, "name": c.name}
	if c.description != "" {
		m["description"] = c.description
	}
	return m
}

// describe returns the result of session/new or, without an id, of session/load.
func (s *session) describe(id string) map[string]any {
	about := map[string]any{"configOptions": s.options()}
	for i, names := range [][4]string{
		{"modes", "availableModes", "currentModeId", "id"},
		{"models", "availableModels", "currentModelId", "modelId"},
	} {
		var list []any
		for _, c := range settings[i].choices {
			list = append(list, c.as(names[3]))
		}
		about[names[0]] = map[string]any{names[1]: list, names[2]: *settings[i].field(s)}
	}
	if id != "" {
		about["sessionId"] = id
	}
	return about
}

// change changes a setting and sends updates about it.
func (a *agent) change(sessionID, settingID, value string) (options []any, err error) {
	s, err := a.find(sessionID)
	if err != nil {
		return nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := s.choose(settingID, value); err != nil {
		return nil, err
	}
	options = s.options()
	if settingID == "mode" {
		a.sendUpdate(s, update{Kind: "current_mode_update", CurrentModeID: value})
	}
	a.sendUpdate(s, update{Kind: "config_option_update", ConfigOptions: options})
	return options, a.save(s)
}

func (a *agent) setMode(_ context.Context, _ json.RawMessage, p *sessionParams) (any, error) {
	_, err := a.change(p.SessionID, "mode", p.ModeID)
	return empty, err
}

func (a *agent) setModel(_ context.Context, _ json.RawMessage, p *sessionParams) (any, error) {
	_, err := a.change(p.SessionID, "model", p.ModelID)
	return empty, err
}

func (a *agent) setConfigOption(_ context.Context, _ json.RawMessage, p *sessionParams) (any, error) {
	var value string
	if err := json.Unmarshal(p.Value, &value); err != nil {
		return nil, rpcErrorf(codeInvalidParams, "value must be a string: the id of one of the option's values")
	}
	options, err := a.change(p.SessionID, p.ConfigID, value)
	return map[string]any{"configOptions": options}, err
}

// update is a session/update of any kind.
type update struct {
	Kind          string `json:"sessionUpdate"`
	Content       any    `json:"content,omitempty"` // a block, or a tool call's list
	ToolCallID    string `json:"toolCallId,omitempty"`
	Title         string `json:"title,omitempty"`
	ToolKind      string `json:"kind,omitempty"`
	Status        string `json:"status,omitempty"`
	Locations     any    `json:"locations,omitempty"`
	RawInput      any    `json:"rawInput,omitempty"`
	RawOutput     any    `json:"rawOutput,omitempty"`
	Entries       any    `json:"entries,omitempty"`
	Commands      any    `json:"availableCommands,omitempty"`
	CurrentModeID string `json:"currentModeId,omitempty"`
	ConfigOptions any    `json:"configOptions,omitempty"`
	Used          int    `json:"used,omitempty"`
	Size          int    `json:"size,omitempty"`
}

type sessionUpdate struct {
	SessionID string `json:"sessionId"`
	Update    any    `json:"update"`
}

// sendUpdate sends an update and adds it to the history. The caller holds a.mu.
func (a *agent) sendUpdate(s *session, u update) {
	a.addHistory(s, u)
	a.out.put(notification{"2.0", "session/update", sessionUpdate{s.ID, u}})
}

// addHistory adds an update to the history.
func (a *agent) addHistory(s *session, u update) {
	if a.cfg.Dir == "" {
		return
	}
	b, isText := u.Content.(block)
	if isText = isText && b.Type == "text"; isText && u.Kind == s.textKind && s.text.Len() < maxHistory/4 {
		s.text.WriteString(b.Text)
		return
	}
	s.endText()
	switch u.Kind {
	case "current_mode_update", "config_option_update", "usage_update", "available_commands_update":
		return // the answer to session/load has the present values
	}
	if isText {
		s.textKind = u.Kind
		s.text.WriteString(b.Text)
		return
	}
	s.record(u)
}

// endText adds the open message or thought to the history.
func (s *session) endText() {
	if s.textKind != "" {
		s.record(update{Kind: s.textKind, Content: textBlock(s.text.String())})
	}
	s.textKind = ""
	s.text.Reset()
}

func (s *session) record(u update) {
	data, err := json.Marshal(u)
	if err != nil {
		return // it was sent, so it has a JSON form
	}
	s.add(data)
}

// add appends an update to the history and removes the oldest ones beyond maxHistory.
func (s *session) add(data []byte) {
	s.history = append(s.history, data)
	for s.size += len(data); s.size > maxHistory; {
		s.size -= len(s.history[0])
		s.history = s.history[1:]
	}
}
