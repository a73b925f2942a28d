package agents

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/deskhand/deskhand/agents/eventlog"
	"github.com/deskhand/deskhand/internal/cuttext"
)

// call is a message to the agent, from a client or from the host itself.
type call struct {
	env       *envelope // see pendingCalls.delivered
	weight    int64
	accepted  chan struct{} // closed when a request is in the log
	done      chan struct{} // closed by finish
	result    reply         // set before done is closed
	once      sync.Once     // for finish
	submitted bool          // by the start of the process

	internal     bool             // from the host: clients do not see its answer
	origin       string           // of the session that it makes
	wantID       string           // the id that this session gets; empty: the agent's
	opens        *attachedSession // the session that it loads or resumes; nil: see attached
	continues    string           // the session whose history the made or opened session has; empty: none
	replacement  []byte           // what the agent gets instead of env.raw; nil: env.raw
	policy       *Policy          // of the session that it makes
	title        string           // of the session that it makes
	skills       string           // the hash of the own skills of the session that it makes
	needsSession bool             // it is refused unless the session that it names is attached
	givenUp      atomic.Bool      // a late answer no longer makes or opens a session
	replayed     int              // updates that it caused and clients did not get
	problems     []string         // parts of the configuration that do not work
	turn         *turnSpan        // that it begins; nil: none

	agentID    int64            // its id as the agent knows it
	kept       int              // its part of pendingCalls.kept
	attached   *attachedSession // the session that it names; nil: it is not attached
	sessionSeq int64            // its number in the session's stream; 0: it is not there
	answerSeq  int64            // the number of its answer in the server's stream; 0: it is not there
}

// reply is the end of a call. A call without an answer has neither raw nor err.
type reply struct {
	raw []byte
	err error
}

func newCall(env *envelope, origin string) *call {
	return &call{env: env, origin: origin, accepted: make(chan struct{}), done: make(chan struct{})}
}

// newInternalCall returns a request of the host.
func newInternalCall(method string, params json.RawMessage) (*call, error) {
	env, err := parse(encode(rpcRequest{"2.0", new("deskhand"), method, params}))
	c := newCall(env, originGo)
	c.internal = true
	return c, err
}

// newClientCall returns a message that looks to all clients like a message of another
// client. Its id is unlike all ids that clients choose.
func newClientCall(method string, request bool, params any) (*call, error) {
	var id *string
	if request {
		id = new("deskhand-" + strings.ToLower(rand.Text()))
	}
	env, err := parse(encode(rpcRequest{"2.0", id, method, params}))
	return newCall(env, originGo), err
}

type rpcRequest struct {
	Version string  `json:"jsonrpc"`
	ID      *string `json:"id,omitempty"`
	Method  string  `json:"method"`
	Params  any     `json:"params"`
}

func (c *call) dir() eventlog.Direction {
	if c.internal {
		return eventlog.Daemon
	}
	return eventlog.Client
}

// sent returns the message as the agent gets it, but for its ids.
func (c *call) sent() *envelope {
	if c.replacement != nil {
		if e, err := parse(c.replacement); err == nil {
			return e
		}
	}
	return c.env
}

// opening returns the session that a request loads or resumes, or nil.
func (c *call) opening() *attachedSession {
	if c.opens != nil {
		return c.opens
	}
	return c.attached
}

// finish ends a call. Only the first reply counts.
func (c *call) finish(r reply) {
	c.once.Do(func() {
		c.result = r
		c.turn.end(r, isClosed(c.accepted))
		close(c.done)
	})
}

// answered ends a call with an answer. Unless the call is the host's own, fx has
// published the answer as its last event.
func (c *call) answered(fx *effects, answer []byte) {
	if n := len(fx.events); n > 0 && !c.internal {
		c.answerSeq = fx.events[n-1].Seq
	}
	c.finish(reply{raw: answer})
}

// resultOf returns the result in an answer, or its error as a ResponseError.
func resultOf(method string, raw []byte) (json.RawMessage, error) {
	var a struct {
		Result json.RawMessage `json:"result"`
		Error  *struct {
			Code    int             `json:"code"`
			Message string          `json:"message"`
			Data    json.RawMessage `json:"data"`
		} `json:"error"`
	}
	if err := json.Unmarshal(raw, &a); err != nil {
		return nil, &ResponseError{Method: method, Message: cuttext.Cut("the answer is not JSON-RPC: "+err.Error(), maxErrorText)}
	}
	if a.Error != nil {
		if len(a.Error.Data) > maxErrorData {
			a.Error.Data = nil
		}
		return nil, &ResponseError{method, a.Error.Code, cuttext.Cut(a.Error.Message, maxErrorText), a.Error.Data}
	}
	return a.Result, nil
}

// createdBy is like resultOf for a method that makes a session. The result must have
// the session's id.
func createdBy(method string, raw []byte) (json.RawMessage, error) {
	result, err := resultOf(method, raw)
	if err != nil {
		return nil, err
	}
	var c sessionResult
	_ = json.Unmarshal(result, &c)
	if !recordable(c.Session) {
		return nil, &ResponseError{Method: method, Message: fmt.Sprintf("the agent's answer has no sessionId that is text of 1 to %d bytes", maxSessionID)}
	}
	return result, nil
}

// maxPending bounds the requests that wait for an agent's answers.
const maxPending = 4096

// pendingCalls holds the requests that the agent has not answered, by the ids that
// the agent knows. agentProcess.run owns it.
type pendingCalls struct {
	lastID int64
	byID   map[int64]*call
	kept   int // bytes of messages that answers need
}

// add gives a request an id of the host's own, because clients choose theirs without
// knowing of each other. It returns the id as JSON.
func (p *pendingCalls) add(c *call) (id []byte) {
	p.lastID++
	c.agentID = p.lastID
	p.byID[c.agentID] = c
	return strconv.AppendInt(nil, c.agentID, 10)
}

func (p *pendingCalls) remove(c *call) {
	delete(p.byID, c.agentID)
	p.kept -= c.kept
	c.kept = 0
}

// delivered drops the parts of a request that its answer does not need. The outbox has the
// message for the agent.
func (p *pendingCalls) delivered(c *call) {
	if p.byID[c.agentID] != c { // an agent that guesses ids has answered it
		return
	}
	c.replacement = nil
	switch c.env.method {
	case "session/new", "session/fork", "session/load", "session/resume",
		"session/set_mode", "session/set_model", "session/set_config_option":
	default:
		id := bytes.Clone(c.env.bytes(c.env.id))
		c.env = &envelope{raw: id, object: true, id: span{0, len(id)}, method: cuttext.Cut(c.env.method, maxKind)}
	}
	c.kept = len(c.env.raw)
	p.kept += c.kept
}

// answeredBy returns the request with the id that a response has, or nil.
func (p *pendingCalls) answeredBy(id []byte) *call {
	n, err := strconv.ParseInt(idKey(id), 10, 64)
	if err != nil {
		return nil
	}
	return p.byID[n]
}

// outgoingID returns the agent's id of the newest request that a client gave an id.
func (p *pendingCalls) outgoingID(id []byte) (out int64, ok bool) {
	key := idKey(id)
	for n, c := range p.byID {
		if n > out && !c.internal && idKey(c.env.bytes(c.env.id)) == key {
			out, ok = n, true
		}
	}
	return out, ok
}

// replaying reports whether updates of a session repeat its history, as they do during a load,
// and by which load of the host's own. Loads that were given up no longer count once the
// session is open, because some are never answered.
func (p *pendingCalls) replaying(s *attachedSession) (is bool, own *call) {
	if s == nil || s.loads == 0 {
		return false, nil
	}
	for _, c := range p.byID {
		late := c.givenUp.Load()
		if c.env.method != "session/load" || c.opening() != s || late && !s.pendingOpen {
			continue
		}
		is = true
		if c.internal && (own == nil || !late) {
			own = c
		}
	}
	return is, own
}
