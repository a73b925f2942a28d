package opencode

import (
	"cmp"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/deskhand/deskhand/agents/eventlog"
	"github.com/deskhand/deskhand/internal/cuttext"
)

// Transcript is the messages of a session, made from its log. Make one with NewTranscript. It
// is for one goroutine at a time.
type Transcript struct {
	session  string
	provider string
	model    string
	mode     string
	cwd      string
	root     string

	ids      ids
	messages []*Message
	byID     map[string]*Message
	turns    []*turn          // that run or wait, in the order of their prompts
	calls    map[string]*Part // tool calls of the running turn, by the agent's ids
	results  map[string]*result
	shells   map[string]*Part // commands of the user that run
	asked    map[string]asked // open questions, by process and id
	todos    []Todo
	commands []string
	initial  string // the mode in which the agent began
	files    changedFiles
	maxBytes int // of messages
	bytes    int // of messages
	askedAll int // bytes of asked

	interruption []Event // see Interruption

	entry eventlog.Event // that Apply got
	out   []Event
}

// turn is a prompt without its answer.
type turn struct {
	key   string // of the request
	user  *Message
	reply *Message // nil: it waits for the turn before
	text  *Part    // the text or the thought that may continue
	files []string // that the agent changed
	usage *Tokens
}

// Config names what a session's log does not say.
type Config struct {
	Session  string
	Agent    string // the name of the agent
	Cwd      string
	Worktree string // of the project
	MaxBytes int    // of messages in memory; zero: 32 MiB. The oldest are forgotten.
}

// NewTranscript returns the transcript before the first entry of a session's log.
func NewTranscript(c Config) *Transcript {
	return &Transcript{
		maxBytes: cmp.Or(c.MaxBytes, maxBytes), ids: newIDs(c.Session), session: c.Session, provider: c.Agent, cwd: c.Cwd, root: cmp.Or(c.Worktree, c.Cwd), model: DefaultModel, mode: DefaultAgent,
		byID: map[string]*Message{}, shells: map[string]*Part{}, calls: map[string]*Part{}, results: map[string]*result{}, asked: map[string]asked{}, files: newChangedFiles(), todos: []Todo{},
	}
}

// Messages returns the messages in their order. They change with Apply.
func (t *Transcript) Messages() []*Message {
	for _, turn := range t.turns {
		turn.text.join()
	}
	return t.messages
}

// Message returns a message, or nil if there is none with that id.
func (t *Transcript) Message(id string) *Message {
	t.Messages()
	return t.byID[id]
}

// TurnOf returns the number of the entry with which the turn of a message begins. It is 0 if
// there is no such message.
func (t *Transcript) TurnOf(message string) int64 {
	m := t.byID[message]
	if m == nil {
		return 0
	}
	if user := t.byID[m.Info.Parent]; user != nil {
		m = user
	}
	return m.seq
}

// Todos returns the agent's newest plan, which is empty if there is none.
func (t *Transcript) Todos() []Todo { return t.todos }

// Diffs returns the changes of files that the agent reported with its tool calls, one for each
// file.
func (t *Transcript) Diffs() []FileDiff { return t.files.all() }

// Trim forgets all messages, unless a turn or a command of the user runs. Later events do not
// depend on them.
func (t *Transcript) Trim() {
	if len(t.turns) == 0 && len(t.shells) == 0 {
		t.messages, t.bytes = nil, 0
		clear(t.byID)
		clear(t.calls)
		clear(t.results)
		t.interruption = nil
	}
}

// DiffsOf is like Diffs but leaves out files that the agent did not change in the turn of a
// message. A file's changes are the ones of the whole session. An empty id selects all turns.
func (t *Transcript) DiffsOf(message string) []FileDiff {
	all := t.Diffs()
	if message == "" {
		return all
	}
	var files []string
	for _, m := range t.messages {
		if m.Info.ID != message && m.Info.Parent != message {
			continue
		}
		for _, p := range m.Parts {
			files = append(files, p.Files...)
		}
	}
	return slices.DeleteFunc(all, func(d FileDiff) bool { return !slices.Contains(files, d.File) })
}

// Busy reports whether a prompt has no answer yet.
func (t *Transcript) Busy() bool { return len(t.turns) > 0 }

// Interruption returns the events of the end of the agent's process in the middle of the last
// turn. It returns nil if the last turn ended in another way or runs.
func (t *Transcript) Interruption() []Event { return t.interruption }

// Commands returns the names of the agent's slash commands.
func (t *Transcript) Commands() []string { return slices.Clone(t.commands) }

// InitialMode returns the mode in which the agent began. It is empty if the agent has no modes.
func (t *Transcript) InitialMode() string { return t.initial }

// Bytes returns the approximate size of the transcript in memory.
func (t *Transcript) Bytes() int {
	n := t.bytes + t.askedAll + t.files.bytes
	for _, path := range t.files.paths {
		n += overhead + len(path)
	}
	for _, todo := range t.todos {
		n += len(todo.Content) + len(todo.Status) + len(todo.Priority)
	}
	for _, name := range t.commands {
		n += len(name)
	}
	return n
}

// Reply returns the agent's last message in the turn of a message of the user, or nil if there is
// none. done reports whether there is a reply and that turn has ended: without a reply it is
// false.
func (t *Transcript) Reply(user string) (reply *Message, done bool) {
	for _, m := range t.messages {
		if m.Info.Parent == user {
			reply = m
		}
	}
	running := slices.ContainsFunc(t.turns, func(turn *turn) bool { return turn.user.Info.ID == user })
	return reply, reply != nil && !running
}

type envelope struct {
	ID     json.RawMessage `json:"id"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  *struct {
		Message string `json:"message"`
	} `json:"error"`
}

// Apply applies the next entry of the session's log and returns its events. It ignores an entry
// that it does not understand, or that has more than 8 MiB.
func (t *Transcript) Apply(e eventlog.Event) []Event {
	t.entry, t.out = e, nil
	var env envelope
	if len(e.Payload) > maxEntry && e.Kind != "response:session/prompt" || json.Unmarshal(e.Payload, &env) != nil {
		return nil
	}
	if t.ofAgent(env) {
		t.bound()
		return t.out
	}
	switch e.Kind {
	case "session/new":
		var p struct{ Cwd string }
		_ = json.Unmarshal(env.Params, &p) // a missing cwd is empty
		t.cwd = cmp.Or(t.cwd, p.Cwd)
	case "session/set_model", "session/set_mode":
		var p struct{ ModelID, ModeID string }
		_ = json.Unmarshal(env.Params, &p) // missing members change nothing
		t.model, t.mode = cmp.Or(p.ModelID, t.model), cmp.Or(p.ModeID, t.mode)
	case "session/prompt":
		t.prompt(env)
	case "response:session/prompt":
		t.finish(env) // the host has answered
	case "response:session/request_permission", "response:elicitation/create":
		t.answer(env)
	case KindShell:
		t.shell(env)
	case "_adapter/agent_exited", "session/ended":
		endTurns(t, e.Kind)
	}
	t.bound()
	return t.out
}

// ofAgent applies a message of the agent. It returns false for a message of a client or of the
// host, whose kinds an agent cannot use.
func (t *Transcript) ofAgent(env envelope) bool {
	if t.entry.Dir != eventlog.Agent {
		return false
	}
	switch t.entry.Kind {
	case "response:session/new", "response:session/load", "response:session/resume":
		t.opened(env)
	case "response:session/prompt":
		t.finish(env)
	case "session/update":
		t.update(env)
	case "session/request_permission", "elicitation/create":
		t.ask(env)
	}
	return true
}

// emit adds an event.
func (t *Transcript) emit(kind string, properties any) {
	t.out = append(t.out, Event{t.ids.next("evt", t.entry.At), kind, properties})
}

type object = map[string]any

func (t *Transcript) emitInfo(m *Message) {
	t.emit("message.updated", object{"sessionID": t.session, "info": m.Info})
}

// emitPart emits a copy of a part, because parts change.
func (t *Transcript) emitPart(p *Part) {
	p.join()
	copied := *p
	if p.State != nil {
		state := *p.State
		copied.State = &state
	}
	t.emit("message.part.updated", object{"sessionID": t.session, "part": &copied, "time": t.now()})
}

func (t *Transcript) emitStatus(status string) {
	t.emit("session.status", object{"sessionID": t.session, "status": Status{status}})
}

func (t *Transcript) now() int64 { return t.entry.At.UnixMilli() }

// opened applies the answer to session/new or to a request that restores the session.
func (t *Transcript) opened(env envelope) {
	var r struct {
		Models struct{ CurrentModelID string }
		Modes  struct{ CurrentModeID string }
	}
	_ = json.Unmarshal(env.Result, &r) // missing members change nothing
	t.initial = cmp.Or(t.initial, cuttext.Cut(r.Modes.CurrentModeID, maxName))
	t.model, t.mode = cmp.Or(cuttext.Cut(r.Models.CurrentModelID, maxName), t.model), cmp.Or(cuttext.Cut(r.Modes.CurrentModeID, maxName), t.mode)
}

// key returns a key of a request that is unique among all processes.
func (t *Transcript) key(id json.RawMessage) string { return t.entry.Process + " " + string(id) }

// addMessage adds a message. A client may have chosen its id.
func (t *Transcript) addMessage(id, role string) *Message {
	if id == "" || t.byID[id] != nil {
		id = t.ids.next("msg", t.entry.At)
	}
	t.ids.follow(id)
	m := &Message{Info: Info{ID: id, Session: t.session, Role: role, Agent: t.mode, Time: MessageTime{Created: t.now()}}, Parts: []*Part{}, seq: t.entry.Seq}
	t.messages = append(t.messages, m)
	t.byID[id] = m
	t.bytes += overhead
	return m
}

// addPart adds a part to a message without an event.
func (t *Transcript) addPart(m *Message, kind string) *Part {
	p := &Part{ID: t.ids.next("prt", t.entry.At), Session: t.session, Message: m.Info.ID, Type: kind}
	m.Parts = append(m.Parts, p)
	t.resize(p, overhead)
	return p
}

// prompt applies a prompt.
func (t *Transcript) prompt(env envelope) {
	var p struct {
		Prompt []promptBlock `json:"prompt"`
	}
	if json.Unmarshal(env.Params, &p) != nil {
		return
	}
	var about Chosen
	if len(p.Prompt) > 0 && p.Prompt[0].Meta.Chosen != nil {
		about = *p.Prompt[0].Meta.Chosen
	}
	forked := about.Session != "" && about.Session != t.session
	if forked {
		about.Message = ""
	}
	t.interruption = nil
	m := t.addMessage(about.Message, "user")
	m.Info.Agent = cmp.Or(about.Agent, t.mode)
	m.Info.Model = &ModelRef{Provider: t.provider, Model: cmp.Or(about.Model, t.model), Variant: about.Variant}
	m.Info.System = about.System
	t.turns = append(t.turns, &turn{key: t.key(env.ID), user: m})
	t.emitInfo(m)
	for _, b := range p.Prompt {
		part := b.part(t, m)
		if b.Meta.Chosen != nil && b.Meta.Chosen.Part != "" && !forked {
			part.ID = b.Meta.Chosen.Part
		}
		t.emitPart(part)
	}
	if len(t.turns) == 1 {
		t.emitStatus("busy")
		t.begin(t.turns[0])
	}
}

// begin adds the agent's message of a turn.
func (t *Transcript) begin(turn *turn) {
	m := t.addMessage("", "assistant")
	turn.reply = m
	for _, p := range t.calls {
		t.measure(p, nil)
	}
	t.calls, t.results = map[string]*Part{}, map[string]*result{}
	m.Info.Agent, m.Info.Mode = turn.user.Info.Agent, turn.user.Info.Agent
	m.Info.Parent, m.Info.ModelID, m.Info.Provider = turn.user.Info.ID, turn.user.Info.Model.Model, t.provider
	m.Info.Path, m.Info.Cost, m.Info.Tokens = &Path{t.cwd, t.root}, new(float64), &Tokens{}
	t.emitInfo(m)
	t.emitPart(t.addPart(m, "step-start"))
}

// running returns the turn that runs. An agent may send an update without a prompt, which then
// has a message without a question.
func (t *Transcript) running() *turn {
	if len(t.turns) > 0 {
		return t.turns[0]
	}
	return nil
}

// finish applies the answer to a prompt.
func (t *Transcript) finish(env envelope) {
	key := t.key(env.ID)
	at := slices.IndexFunc(t.turns, func(turn *turn) bool { return turn.key == key })
	if at < 0 {
		return // the end of the process has ended the turn
	}
	var r struct {
		StopReason string
		Usage      *struct {
			Input     int64 `json:"inputTokens"`
			Output    int64 `json:"outputTokens"`
			Thought   int64 `json:"thoughtTokens"`
			CacheRead int64 `json:"cachedReadTokens"`
			CacheNew  int64 `json:"cachedWriteTokens"`
		}
	}
	_ = json.Unmarshal(env.Result, &r) // missing members are empty
	turn := t.turns[at]
	if r.Usage != nil {
		turn.usage = &Tokens{r.Usage.Input, r.Usage.Output, r.Usage.Thought, Cache{r.Usage.CacheRead, r.Usage.CacheNew}}
	}
	var failed *Error
	switch {
	case env.Error != nil:
		failed = &Error{Unknown, ErrorData{cuttext.Cut(env.Error.Message, maxError)}}
	case r.StopReason == "cancelled":
		failed = &Error{Aborted, ErrorData{"The turn was aborted."}}
	}
	t.end(at, finishOf(r.StopReason), failed)
}

// finishOf returns the finish reason for a stop reason of ACP.
func finishOf(stop string) string {
	switch stop {
	case "end_turn":
		return "stop"
	case "max_tokens":
		return "length"
	case "refusal":
		return "content-filter"
	}
	return "other"
}

// end ends a turn.
func (t *Transcript) end(at int, finish string, failed *Error) {
	turn := t.turns[at]
	if turn.reply == nil {
		t.begin(turn)
	}
	closeText(t, turn)
	endCalls(t, turn)
	m := turn.reply
	if turn.usage != nil {
		m.Info.Tokens = turn.usage
	}
	if failed == nil {
		p := t.addPart(m, "step-finish")
		p.Reason, p.Cost, p.Tokens = finish, new(float64), m.Info.Tokens
		t.emitPart(p)
		m.Info.Finish = finish
	}
	if len(turn.files) > 0 {
		p := t.addPart(m, "patch")
		p.Hash, p.Files = strconv.FormatInt(t.entry.Seq, 16), turn.files
		t.resize(p, overhead+len(strings.Join(turn.files, "")))
		t.emitPart(p)
	}
	m.Info.Error, m.Info.Time.Completed = failed, t.now()
	if failed != nil {
		t.emit("session.error", object{"sessionID": t.session, "error": failed})
	}
	t.emitInfo(m)
	t.turns = slices.Delete(t.turns, at, at+1)
	if len(turn.files) > 0 {
		t.emit("session.diff", object{"sessionID": t.session, "diff": t.Diffs()})
	}
	switch {
	case len(t.turns) == 0:
		t.emitStatus("idle")
		t.emit("session.idle", object{"sessionID": t.session})
	case t.turns[0].reply == nil:
		t.begin(t.turns[0])
	}
}

// update applies a session/update.
func (t *Transcript) update(env envelope) {
	var p struct {
		Update json.RawMessage `json:"update"`
	}
	var u struct {
		Kind    string `json:"sessionUpdate"`
		Content block  `json:"content"`
		ModeID  string `json:"currentModeId"`
		Entries []struct{ Content, Status, Priority string }
		List    []struct{ Name string } `json:"availableCommands"`
	}
	if json.Unmarshal(env.Params, &p) != nil {
		return
	}
	var kind struct {
		Kind string `json:"sessionUpdate"`
	}
	if json.Unmarshal(p.Update, &kind) != nil {
		return
	}
	if kind.Kind == "tool_call" || kind.Kind == "tool_call_update" {
		t.tool(p.Update)
		return
	}
	if json.Unmarshal(p.Update, &u) != nil {
		return
	}
	switch u.Kind {
	case "agent_message_chunk", "agent_thought_chunk":
		t.chunk(u.Kind == "agent_thought_chunk", u.Content)
	case "current_mode_update":
		t.mode = cmp.Or(cuttext.Cut(u.ModeID, maxName), t.mode)
	case "available_commands_update":
		t.commands = nil
		for _, c := range u.List[:min(len(u.List), maxCommands)] {
			t.commands = append(t.commands, cuttext.Cut(c.Name, maxName))
		}
	case "plan":
		t.todos = []Todo{}
		for i, e := range u.Entries[:min(len(u.Entries), maxTodos)] {
			t.todos = append(t.todos, Todo{strconv.Itoa(i + 1), cuttext.Cut(e.Content, maxName), cmp.Or(cuttext.Cut(e.Status, maxName), "pending"), cmp.Or(cuttext.Cut(e.Priority, maxName), "medium")})
		}
		t.emit("todo.updated", object{"sessionID": t.session, "todos": t.todos})
	}
}
