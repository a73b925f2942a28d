package opencomputer

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/deskhand/deskhand/agents/eventlog"
	"github.com/deskhand/deskhand/internal/cuttext"
	"github.com/deskhand/deskhand/internal/plainjson"
)

// KindConfigured is the kind of the entry that records that a client configured the session.
// The params in its payload are the options that were not applied.
const KindConfigured = "opencomputer/configured"

// rawMethod is the notification in which Claude's adapter passes on what the
// Agent SDK said.
const rawMethod = "_claude/sdkMessage"

// State is the result of all entries that Apply has got, as far as later lines depend on it.
// The zero value is the state before the first entry.
type State struct {
	native string
	cwd    string
	raw    bool // the agent passes the SDK's messages on itself

	begun   bool   // init was sent in this turn's process
	text    []byte // of the message that may continue
	thought []byte // of the thought that may continue
	message string // the last message of the turn, for its result
	calls   map[string]*call
	order   []string
	open    int      // bytes of calls, as call.size has them
	turns   []string // the requests of the open prompts

	out [][]byte
}

// call is an open tool call.
type call struct {
	title   string
	input   json.RawMessage
	output  []json.RawMessage
	raw     json.RawMessage
	emitted bool
	bytes   int // counted in State.open
}

// Limits of what a State holds. Entries of the agent beyond maxEntry are left out, except answers,
// which lose their result. A text beyond maxText continues in another message, and the oldest calls
// beyond the others end.
const (
	maxEntry     = 8 << 20
	maxText      = 1 << 20
	maxOpenBytes = 16 << 20
	maxOpenCalls = 1000
	maxError     = 4 << 10 // bytes of an error of the agent
)

// size returns the memory that a call takes.
func (c *call) size(id string) int {
	n := len(id) + len(c.title) + len(c.input) + len(c.raw)
	for _, o := range c.output {
		n += 32 + len(o)
	}
	return n
}

type envelope struct {
	ID     json.RawMessage `json:"id"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  *struct {
		Message string `json:"message"`
	} `json:"error"`
}

type object = map[string]any

// Apply applies the next entry of the session's log and returns its lines without line feeds.
// There may be none.
func (s *State) Apply(e eventlog.Event) [][]byte {
	s.out = nil
	tooLarge := e.Dir == eventlog.Agent && len(e.Payload) > maxEntry
	if tooLarge && !strings.HasPrefix(e.Kind, "response:") {
		return nil
	}
	var env envelope
	if json.Unmarshal(e.Payload, &env) != nil {
		return nil
	}
	if tooLarge {
		if env.Result = nil; env.Error != nil {
			env.Error.Message = "the agent's error is too large; the session's log has it"
		}
	}
	if env.Error != nil {
		env.Error.Message = cuttext.Cut(env.Error.Message, maxError)
	}
	if e.Dir == eventlog.Agent {
		s.ofAgent(e, env)
		return s.out
	}
	switch e.Kind {
	case "session/new":
		var p struct{ Cwd string }
		_ = json.Unmarshal(env.Params, &p) // a missing cwd is empty
		s.cwd = p.Cwd
	case KindConfigured:
		s.emit(object{"type": "configured", "notApplied": env.Params})
	case "session/restored":
		s.begun = false
	case "session/prompt":
		if len(s.turns) == 0 {
			s.message = ""
		}
		s.turns = append(s.turns, e.Process+" "+string(env.ID))
	case "response:session/new":
		s.created(env) // the host has answered
	case "response:session/prompt":
		s.finish(e.Process+" "+string(env.ID), env) // the host has answered
	case "_adapter/agent_exited", "session/ended":
		s.exited()
	}
	return s.out
}

// ofAgent applies a message of the agent, which cannot use the kinds of other senders.
func (s *State) ofAgent(e eventlog.Event, env envelope) {
	switch e.Kind {
	case "response:session/new":
		s.created(env)
	case "response:session/prompt":
		s.finish(e.Process+" "+string(env.ID), env)
	case rawMethod:
		s.forward(env)
	case "session/request_permission":
		var p struct {
			ToolCall json.RawMessage `json:"toolCall"`
		}
		if json.Unmarshal(env.Params, &p) == nil && !s.raw {
			s.tool(p.ToolCall) // some agents ask before they announce the call
		}
	case "session/update":
		if !s.raw {
			s.update(env)
		}
	}
}

func (s *State) emit(o object) {
	line, err := plainjson.Marshal(o)
	if err == nil { // all members were decoded from JSON
		s.out = append(s.out, line)
	}
}

func (s *State) created(env envelope) {
	if env.Error != nil {
		s.emit(object{"type": "error", "message": env.Error.Message})
		return
	}
	var r struct{ SessionID string }
	_ = json.Unmarshal(env.Result, &r) // a missing id is empty
	s.native = r.SessionID
	s.emit(object{"type": "ready"})
}

// forward returns a message of the SDK unchanged.
func (s *State) forward(env envelope) {
	var p struct {
		Message json.RawMessage `json:"message"`
	}
	if json.Unmarshal(env.Params, &p) != nil || len(p.Message) == 0 || p.Message[0] != '{' {
		return
	}
	s.raw = true
	s.out = append(s.out, slices.Clone(p.Message))
}

// finish applies the response to a prompt.
func (s *State) finish(key string, env envelope) {
	at := slices.Index(s.turns, key)
	if at < 0 {
		return // the end of the process has ended the turn
	}
	s.turns = slices.Delete(s.turns, at, at+1)
	s.closeAll()
	var r struct {
		StopReason string          `json:"stopReason"`
		Usage      json.RawMessage `json:"usage"`
	}
	_ = json.Unmarshal(env.Result, &r) // missing members are empty
	if env.Error != nil {
		if !s.raw {
			s.emit(s.synthetic(object{"type": "result", "subtype": "error_during_execution", "is_error": true, "result": env.Error.Message}))
		}
		s.emit(object{"type": "error", "message": env.Error.Message})
	} else if !s.raw {
		o := object{"type": "result", "subtype": "success", "is_error": false, "result": s.message, "stop_reason": r.StopReason}
		if r.StopReason == "max_turn_requests" {
			o["subtype"], o["is_error"] = "error_max_turns", true
		}
		if r.Usage != nil {
			o["usage"] = r.Usage
		}
		s.emit(s.synthetic(o))
	}
	if r.StopReason == "cancelled" {
		s.emit(object{"type": "interrupted"})
	}
	s.emit(object{"type": "turn_complete", "claude_session_id": s.native})
}

// synthetic adds to a message that the agent did not send it.
func (s *State) synthetic(o object) object {
	o["session_id"], o["synthetic"] = s.native, true
	return o
}

// exited applies the end of the agent's process, which ends the open turns.
func (s *State) exited() {
	s.closeAll()
	s.begun = false
	for range s.turns {
		s.emit(object{"type": "error", "message": "the agent ended in the middle of a turn"})
		s.emit(object{"type": "turn_complete", "claude_session_id": s.native})
	}
	s.turns = nil
}

// update applies a session/update.
func (s *State) update(env envelope) {
	var p struct {
		Update json.RawMessage `json:"update"`
	}
	var u struct {
		Kind    string          `json:"sessionUpdate"`
		Content json.RawMessage `json:"content"`
	}
	if json.Unmarshal(env.Params, &p) != nil || json.Unmarshal(p.Update, &u) != nil {
		return
	}
	switch u.Kind {
	case "agent_message_chunk", "agent_thought_chunk":
		s.chunk(u.Kind == "agent_thought_chunk", u.Content)
	case "tool_call", "tool_call_update":
		s.tool(p.Update)
	}
}

// tool applies an update of a tool call.
func (s *State) tool(raw json.RawMessage) {
	var u struct {
		ID      string          `json:"toolCallId"`
		Title   *string         `json:"title"`
		Status  string          `json:"status"`
		Content json.RawMessage `json:"content"`
		Input   json.RawMessage `json:"rawInput"`
		Output  json.RawMessage `json:"rawOutput"`
	}
	if json.Unmarshal(raw, &u) != nil || u.ID == "" {
		return
	}
	c := s.calls[u.ID]
	if c == nil {
		s.closeText()
		c = &call{title: "tool", input: json.RawMessage("{}")}
		if s.calls == nil {
			s.calls = map[string]*call{}
		}
		s.calls[u.ID] = c
		s.order = append(s.order, u.ID)
	}
	if u.Title != nil {
		c.title = *u.Title
	}
	if u.Input != nil {
		c.input = u.Input
	}
	if u.Output != nil {
		c.raw = u.Output
	}
	if u.Content != nil {
		c.output = nil
		_ = json.Unmarshal(u.Content, &c.output) // an invalid list is empty
	}
	s.open -= c.bytes
	c.bytes = c.size(u.ID)
	s.open += c.bytes
	switch u.Status {
	case "completed", "failed":
		s.endCall(u.ID, u.Status == "failed")
	case "in_progress":
		s.emitCall(u.ID, c)
	}
	for s.open > maxOpenBytes || len(s.order) > maxOpenCalls {
		s.endCall(s.order[0], false)
	}
}

// chunk adds text to a message or a thought.
func (s *State) chunk(isThought bool, raw json.RawMessage) {
	var b struct {
		Type, Text, Data, MimeType string
	}
	if json.Unmarshal(raw, &b) != nil {
		return
	}
	switch {
	case isThought && len(s.text) > 0, !isThought && len(s.thought) > 0, b.Type != "text":
		s.closeText()
	}
	switch {
	case b.Type == "image":
		s.assistant(object{"type": "image", "source": object{"type": "base64", "media_type": b.MimeType, "data": b.Data}})
	case b.Type != "text":
	case isThought:
		s.thought = append(s.thought, b.Text...)
	default:
		s.text = append(s.text, b.Text...)
	}
	if len(s.text)+len(s.thought) > maxText {
		s.closeText()
	}
}

// assistant emits one message of the agent.
func (s *State) assistant(content object) { s.emitMessage("assistant", content) }

func (s *State) emitMessage(role string, content object) {
	if !s.begun {
		s.begun = true
		s.emit(s.synthetic(object{"type": "system", "subtype": "init", "cwd": s.cwd}))
	}
	s.emit(s.synthetic(object{
		"type": role, "parent_tool_use_id": nil, "message": object{"role": role, "content": []any{content}},
	}))
}

// closeText emits the open message or thought.
func (s *State) closeText() {
	if len(s.thought) > 0 {
		s.assistant(object{"type": "thinking", "thinking": string(s.thought)})
		s.thought = nil
	}
	if len(s.text) > 0 {
		s.message = string(s.text)
		s.text = nil
		s.assistant(object{"type": "text", "text": s.message})
	}
}

func (s *State) closeAll() {
	s.closeText()
	for _, id := range slices.Clone(s.order) {
		s.endCall(id, true)
	}
}

// emitCall emits a call once, when its input is known.
func (s *State) emitCall(id string, c *call) {
	if !c.emitted {
		c.emitted = true
		s.assistant(object{"type": "tool_use", "id": id, "name": c.title, "input": c.input})
	}
}

// endCall emits the result of a call.
func (s *State) endCall(id string, failed bool) {
	c := s.calls[id]
	s.emitCall(id, c)
	s.open -= c.bytes
	delete(s.calls, id)
	s.order = slices.DeleteFunc(s.order, func(o string) bool { return o == id })
	s.emitMessage("user", object{"type": "tool_result", "tool_use_id": id, "content": c.result(), "is_error": failed})
}

// result returns the result of a call in the form of the Messages API.
func (c *call) result() []any {
	list := []any{}
	for _, raw := range c.output {
		var o struct {
			Type    string
			Path    string
			Content struct{ Type, Text, Data, MimeType string }
		}
		if json.Unmarshal(raw, &o) != nil {
			continue
		}
		switch {
		case o.Type == "content" && o.Content.Type == "text":
			list = append(list, object{"type": "text", "text": o.Content.Text})
		case o.Type == "content" && o.Content.Type == "image":
			list = append(list, object{"type": "image", "source": object{"type": "base64", "media_type": o.Content.MimeType, "data": o.Content.Data}})
		case o.Type == "diff":
			list = append(list, object{"type": "text", "text": "changed " + o.Path})
		}
	}
	if len(list) == 0 && c.raw != nil {
		text := string(c.raw)
		_ = json.Unmarshal(c.raw, &text) // a result that is not a string stays JSON
		list = append(list, object{"type": "text", "text": text})
	}
	return list
}
