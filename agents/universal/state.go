package universal

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/deskhand/deskhand/agents"
	"github.com/deskhand/deskhand/agents/eventlog"
	"github.com/deskhand/deskhand/internal/cuttext"
)

// State holds everything about the applied entries that later events depend on. Its fields are
// exported only for JSON.
type State struct {
	Session  string                  `json:"session"`
	Native   string                  `json:"native,omitempty"`
	Sequence int64                   `json:"sequence"`
	Items    int                     `json:"items"` // the number of items, for their ids
	Agent    map[string]any          `json:"agent,omitempty"`
	Started  bool                    `json:"started,omitempty"`
	Text     *openItem               `json:"text,omitempty"`   // the message or thought that may continue
	Parent   string                  `json:"parent,omitempty"` // the latest message
	Tools    map[string]*openTool    `json:"tools,omitempty"`  // calls that run, by the agent's id
	Order    []string                `json:"order,omitempty"`  // their ids, in the order of their beginning
	Open     int                     `json:"open,omitempty"`   // bytes of Tools
	Turns    []openTurn              `json:"turns,omitempty"`  // that run or wait
	Asked    map[string]openQuestion `json:"asked,omitempty"`  // questions, by process and id

	entry eventlog.Event // the entry that Apply got
	out   []Event        // the events of that entry
}

type openItem struct {
	Item
	Update  string   `json:"update"`            // the kind of update that continues it
	Pending []string `json:"pending,omitempty"` // chunks of text that are not yet in the content
	Bytes   int      `json:"bytes,omitempty"`   // of the content, with partSize for each part
}

type openTool struct {
	Item   string          `json:"item"`
	Parent string          `json:"parent"`
	Title  string          `json:"title"`
	Kind   string          `json:"kind"`
	Input  json.RawMessage `json:"input,omitempty"`
	Output json.RawMessage `json:"output,omitempty"`
	Result []content       `json:"content,omitempty"`
	Places []string        `json:"places,omitempty"`
	Bytes  int             `json:"bytes,omitempty"` // of all these
}

type openTurn struct {
	Key string `json:"key"` // of its request
	ID  string `json:"id"`
}

type openQuestion struct {
	ID       string            `json:"id"`
	Question bool              `json:"question"` // rather than a permission
	Action   string            `json:"action"`
	Options  []string          `json:"options"`
	Kinds    map[string]string `json:"kinds"` // of the options, by their ids
	Names    map[string]string `json:"names"`
	Form     *agents.Form      `json:"form,omitempty"` // of a question that is a form
	Bytes    int               `json:"bytes"`          // of all these
}

// Limits of the state. Data beyond them is only in the log.
const (
	maxEntry     = 8 << 20  // bytes of an entry of the agent that makes more than one event
	maxText      = 1 << 20  // bytes of a message and its parts, after which a new one continues
	maxOpen      = 16 << 20 // bytes of the tool calls that run
	maxTools     = 1000     // tool calls that run
	maxAsked     = 1000     // questions without an answer
	maxAskedSize = 16 << 20 // bytes of these questions
	maxOptions   = 64       // of a question
	maxPlaces    = 100      // files of a tool call
	maxID        = 1 << 10  // bytes of an id of the agent, which many events repeat
	maxAction    = 16 << 10 // bytes of a tool call's title that a question about it repeats
	maxPrompt    = 64 << 10 // bytes of a tool call whose content a question about it repeats
	maxError     = 4 << 10  // bytes of an error of the agent
	maxErrorData = 64 << 10 // bytes of an error's data
	maxPending   = 4096     // chunks of a text until they are joined
)

// NewState returns the state before the first entry of a session.
func NewState(session string) *State { return &State{Session: session} }

// Version is the version of Apply and of State. It changes when Apply makes other events or
// another state from the same log.
const Version = 11

// saved is a state with the version that made it.
type saved struct {
	Version int    `json:"version"`
	State   *State `json:"state"`
}

// Snapshot encodes the state. [Restore] returns a state that continues like this one.
func (s *State) Snapshot() ([]byte, error) {
	if s.Text != nil {
		s.Text.joinPending()
	}
	return json.Marshal(saved{Version, s})
}

// Restore returns the state of a snapshot, or nil if the snapshot is invalid or of another
// [Version]. The snapshot need not be trusted.
func Restore(snapshot []byte) *State {
	var of saved
	if json.Unmarshal(snapshot, &of) != nil || of.Version != Version || of.State == nil {
		return nil
	}
	s := of.State
	if len(s.Order) != len(s.Tools) || s.Items < 0 {
		return nil
	}
	for id, t := range s.Tools {
		if t == nil || !slices.Contains(s.Order, id) {
			return nil
		}
	}
	return s
}

// Idle reports whether nothing is open: no turn, message, thought, tool call or question.
func (s *State) Idle() bool {
	return s.Text == nil && len(s.Tools) == 0 && len(s.Turns) == 0 && len(s.Asked) == 0
}

// size returns about how many bytes of memory the state takes.
func (s *State) size() int {
	n := s.Open + s.askedSize()
	if s.Text != nil {
		n += s.Text.Bytes
	}
	return n
}

// envelope is a message of JSON-RPC.
type envelope struct {
	ID     json.RawMessage `json:"id"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  *rpcError       `json:"error"`
}

type rpcError struct {
	Code    int             `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data"`
}

// Apply applies the next entry of the session's log and returns its events, which may be none.
// It does not fail: an entry that cannot be understood becomes agent.unparsed.
func (s *State) Apply(e eventlog.Event) []Event {
	s.entry, s.out = e, nil
	answers, isResponse := strings.CutPrefix(e.Kind, "response:")
	tooLarge := e.Dir == eventlog.Agent && len(e.Payload) > maxEntry
	if tooLarge && !isResponse {
		s.unparsed(fmt.Sprintf("it has %d bytes, more than %d; the session's log has it", len(e.Payload), maxEntry))
		return s.out
	}
	if e.Dir == eventlog.Agent && e.Kind == "session/update" && s.textChunk(e.Payload) {
		return s.out
	}
	var env envelope
	if err := json.Unmarshal(e.Payload, &env); err != nil {
		s.unparsed(fmt.Sprintf("not an envelope: %v", err))
		return s.out
	}
	if tooLarge {
		if env.Result = nil; env.Error != nil {
			env.Error = &rpcError{Code: env.Error.Code, Message: "the agent's error is too large; the session's log has it"}
		}
	}
	if failed := env.Error; failed != nil {
		failed.Message = cuttext.Cut(failed.Message, maxError)
		if len(failed.Data) > maxErrorData {
			failed.Data = nil
		}
	}
	switch {
	case isResponse && (answers == "session/request_permission" || answers == "elicitation/create"):
		s.resolve(env)
	case isResponse:
		s.applyResponse(answers, env)
	case e.Dir == eventlog.Agent:
		s.applyAgent(env)
	default:
		s.applyClient(env)
	}
	return s.out
}

// applyClient applies a message of a client or of the server itself.
func (s *State) applyClient(env envelope) {
	switch s.entry.Kind {
	case "session/new":
		var p struct {
			Cwd string `json:"cwd"`
		}
		if json.Unmarshal(env.Params, &p) == nil && p.Cwd != "" {
			s.Agent = map[string]any{"cwd": p.Cwd}
		}
	case "session/prompt":
		s.beginTurn(env)
	case "session/restored":
		s.start(map[string]any{"restored": env.Params})
	case "session/problem":
		var p struct{ Message string }
		_ = json.Unmarshal(env.Params, &p) // the event's details have all params
		s.fail(p.Message, "configuration", env.Params)
	case "session/ended":
		var p ending
		_ = json.Unmarshal(env.Params, &p) // a reason that is missing has a default
		s.end(p)
	case "_adapter/agent_exited":
		s.exited(env)
	}
}

// applyAgent applies a notification or a request of the agent.
func (s *State) applyAgent(env envelope) {
	switch s.entry.Kind {
	case "session/update":
		s.update(env)
	case "session/request_permission":
		s.ask(env)
	case "elicitation/create":
		s.askForm(env)
	case "_adapter/agent_exited":
		s.exited(env)
	case "_adapter/invalid_stdout":
		var p struct{ Error string }
		_ = json.Unmarshal(env.Params, &p) // the event is made in any case
		s.unparsed("the agent wrote a line that is not JSON: " + p.Error)
	default:
		s.unparsed("there is no universal event for it")
	}
}

// applyResponse applies the answer to a request.
func (s *State) applyResponse(method string, env envelope) {
	switch {
	case method == "session/prompt":
		s.endTurn(env)
	case method == "session/new" && env.Error == nil:
		var r struct {
			SessionID string `json:"sessionId"`
		}
		if json.Unmarshal(env.Result, &r) == nil && len(r.SessionID) <= maxID {
			s.Native = r.SessionID
		}
		s.start(s.Agent)
	case env.Error != nil && s.entry.Dir == eventlog.Agent:
		s.fail(env.Error.Message, strconv.Itoa(env.Error.Code), env.Error.Data)
		if method == "session/new" {
			s.end(ending{Reason: "error", Message: env.Error.Message})
		}
	}
}

func (s *State) start(metadata map[string]any) {
	if metadata == nil {
		metadata = map[string]any{}
	}
	s.Started = true
	s.emitOwn(SessionStarted, sessionStarted{metadata})
}

// ending is the end of a session. All fields except the first two are about an agent that
// ended before the session was made.
type ending struct {
	Reason, Message string
	Agent, Stderr   string
	ExitCode        *int
}

// end ends the session, and all turns, items and questions that are open.
func (s *State) end(e ending) {
	s.rejectQuestions()
	s.closeAll("failed")
	for _, t := range s.Turns {
		s.emitOwn(TurnEnded, turnData{Phase: "ended", ID: t.ID})
	}
	s.Turns = nil
	d := sessionEnded{Reason: "completed", By: "daemon", ExitCode: e.ExitCode}
	if e.Agent != "" {
		d.By = "agent"
	}
	if e.Stderr != "" {
		d.StderrTail = &e.Stderr
	}
	switch e.Reason {
	case "terminated", "":
		d.Reason = "terminated"
	case "failed", "error":
		d.Reason = "error"
	}
	if e.Message != "" {
		d.Message = &e.Message
	}
	s.emitOwn(SessionEnded, d)
}

// exited applies the end of the agent's process. A process that ends while it is idle is
// started again with the next message, so its end is not the end of the session.
func (s *State) exited(env envelope) {
	var p struct {
		Code    *int   `json:"code"`
		Success bool   `json:"success"`
		Stderr  string `json:"stderr"`
	}
	_ = json.Unmarshal(env.Params, &p) // missing members are left out
	if len(s.Turns) == 0 && p.Success {
		return
	}
	s.rejectQuestions()
	s.closeAll("failed")
	if len(s.Turns) == 0 {
		return
	}
	message := "the agent ended in the middle of a turn"
	s.fail(message, "agent_exited", env.Params)
	for _, t := range s.Turns {
		s.emitOwn(TurnEnded, turnData{Phase: "ended", ID: t.ID, Metadata: map[string]any{"stopReason": "error"}})
	}
	s.Turns = nil
	d := sessionEnded{Reason: "error", By: "agent", Message: &message, ExitCode: p.Code}
	if p.Stderr != "" {
		d.StderrTail = &p.Stderr
	}
	s.emitOwn(SessionEnded, d)
}

// rejectQuestions rejects the open questions of the agent.
func (s *State) rejectQuestions() {
	for _, key := range slices.Sorted(maps.Keys(s.Asked)) {
		s.emitAnswer(s.Asked[key], "", "", true)
		delete(s.Asked, key)
	}
}

func (s *State) fail(message, code string, details json.RawMessage) {
	s.emit(Failed, errorData{message, &code, details}, s.entry.Dir == eventlog.Daemon)
}

func (s *State) unparsed(why string) {
	sum := sha256.Sum256(s.entry.Payload)
	s.emit(Unparsed, unparsedData{why, s.entry.Kind, hex.EncodeToString(sum[:])}, false)
}

// emit adds an event. An event that is not synthetic has the content of the entry.
func (s *State) emit(kind string, data any, synthetic bool) {
	text, err := json.Marshal(data)
	if err != nil {
		// Only raw JSON of the agent could be wrong, and it was parsed.
		text, _ = json.Marshal(unparsedData{err.Error(), s.entry.Kind, ""})
		kind, synthetic = Unparsed, true
	}
	s.Sequence++
	e := Event{
		ID: fmt.Sprintf("evt_%s_%d", s.Session, s.Sequence), Sequence: s.Sequence, Time: s.entry.At.UTC(), Session: s.Session,
		Synthetic: synthetic, Source: "agent", Type: kind, Data: text, Entry: s.entry.Seq,
	}
	if s.Native != "" {
		e.Native = new(s.Native)
	}
	if synthetic || s.entry.Dir != eventlog.Agent {
		e.Source = "daemon"
	}
	s.out = append(s.out, e)
}

// emitOwn adds an event that the agent did not send.
func (s *State) emitOwn(kind string, data any) { s.emit(kind, data, true) }
