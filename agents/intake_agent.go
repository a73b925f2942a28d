package agents

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/deskhand/deskhand/agents/eventlog"
	"github.com/deskhand/deskhand/internal/cuttext"
	"github.com/deskhand/deskhand/internal/jsonlimit"
	"github.com/deskhand/deskhand/internal/jsonlines"
)

// handleLine takes in a line of the agent.
func (in *intake) handleLine(fx *effects, line []byte) {
	if err := jsonlimit.CheckLimits(line, math.MaxInt, jsonlimit.MaxValues); err != nil {
		in.dropLine(fx, "a message "+err.Error()+"; it was dropped", line, line)
		return
	}
	e, err := parseAgent(line)
	switch {
	case err != nil:
		fx.publishInvalid(err.Error(), line[:min(len(line), maxInvalid)])
	case e.isResponse():
		in.handleResponse(fx, e)
	case isReserved(e.method):
		fx.publishInvalid("a method of an agent must not begin with response: or _adapter/; the message was dropped", line[:min(len(line), maxInvalid)])
	case e.isRequest() && in.questions.uses(e.bytes(e.id)):
		fx.publishInvalid("a request of an agent must not have the id of one that waits for its answer; the message was dropped", line[:min(len(line), maxInvalid)])
	case e.isRequest():
		in.handleQuestion(fx, e)
	case e.isNotification():
		in.handleUpdate(fx, e)
	default:
		fx.publish(eventlog.Agent, nil, "", e.raw)
	}
}

// isReserved reports whether the log has the method as the kind of other entries: of answers, and
// of what the host reports.
func isReserved(method string) bool {
	kind := eventKind(method)
	return strings.HasPrefix(kind, "response:") || strings.HasPrefix(kind, "_adapter/")
}

// maxInvalid bounds what followers get of a line that is not JSON.
const maxInvalid = 64 << 10

// publishInvalid reports a line that is not a message to the followers.
func (fx *effects) publishInvalid(problem string, line []byte) {
	fx.publishHostEvent(newHostEvent("_adapter/invalid_stdout", struct {
		Error string `json:"error"`
		Raw   string `json:"raw"`
	}{problem, strings.ToValidUTF8(string(line), "\uFFFD")}))
}

var (
	answerHead = regexp.MustCompile(`^\{(?:"jsonrpc":\s*"2.0",\s*)?"id":\s*([0-9]+)\s*,\s*"(?:result|error)"`)
	answerTail = regexp.MustCompile(`"id":\s*([0-9]+)\s*(?:,\s*"jsonrpc":\s*"2.0"\s*)?\}\s*$`)
)

// handleOutsized is dropLine for a line that was too long or late.
func (in *intake) handleOutsized(fx *effects, long *jsonlines.TooLong) {
	problem := fmt.Sprintf("a line has %d bytes, and %d are allowed; it was dropped", long.Size, in.host.cfg.MaxMessageBytes)
	if long.Late {
		problem = fmt.Sprintf("a line of more than %d bytes did not end within %s; it was dropped", long.Size, in.host.lineTime)
	}
	in.dropLine(fx, problem, long.Head, long.Tail)
}

// dropLine reports to the followers that a line was dropped. If the line was an answer,
// its caller gets an error. The line begins with head and ends with tail.
func (in *intake) dropLine(fx *effects, problem string, head, tail []byte) {
	fx.publishInvalid(problem, head[:min(len(head), 1<<10)])
	m := answerHead.FindSubmatch(bytes.ReplaceAll(head[:min(len(head), 256)], []byte(" "), nil))
	if m == nil {
		m = answerTail.FindSubmatch(tail[max(0, len(tail)-256):])
	}
	if m == nil {
		return
	}
	if c := in.pending.answeredBy(m[1]); c != nil {
		in.failCall(fx, c, codeInternal, "the agent's answer was not taken: "+problem)
	}
}

// JSON-RPC's codes (section 5.1 of its specification).
const (
	codeParams   = -32602
	codeInternal = -32603
)

// failCall answers a request in the agent's place with an error.
func (in *intake) failCall(fx *effects, c *call, code int, message string) {
	in.pending.remove(c)
	answer := errorAnswer(c.env.bytes(c.env.id), code, message, nil)
	if !c.internal {
		fx.publish(eventlog.Daemon, c.attached, "response:"+c.env.method, answer)
	}
	fx.afterCommit(func() { c.answered(fx, answer) })
}

// handleResponse passes an answer to the caller and to the followers.
func (in *intake) handleResponse(fx *effects, e *envelope) {
	c := in.pending.answeredBy(e.bytes(e.id))
	if c == nil {
		in.publishStray(fx, e)
		return
	}
	in.pending.remove(c)
	s := in.applyResponse(fx, c, e)
	k := "response:" + c.env.method
	if !c.internal || s != nil && c.opens == nil {
		fx.record(eventlog.Agent, s, k, e.raw)
		if s != nil && isCreation(c.env.method) {
			for _, problem := range c.problems {
				fx.recordHostEvent(s, problemEvent(problem))
			}
		}
	}
	answer := e.raw
	if !c.internal {
		answer = e.rewritten(c.env.bytes(c.env.id), nil)
		if s != nil && isCreation(c.env.method) {
			// A session that was made under another name than the agent's.
			if at := e.find(e.result, "sessionId"); at.exists() && s.row.ID != s.row.Native {
				answer = e.with(edit{e.id, c.env.bytes(c.env.id)}, edit{at, jsonString(s.row.ID)})
			}
		}
		fx.publish(eventlog.Agent, s, k, answer)
	}
	if e.failure.exists() && !c.internal {
		answer = withStderr(answer, in.child.stderr())
		if in.agent == agentPi {
			answer = withPiHint(answer)
		}
	}
	fx.afterCommit(func() {
		if !e.failure.exists() && (c.env.method == methodInitialize || c.env.method == "session/new") {
			in.host.cfg.Observe(in.agent, c.env.method, e.bytes(e.result))
		}
		c.answered(fx, answer)
	})
}

// publishStray reports an answer that no caller waits for to the followers. Clients would
// take the bare answer for the one to their request with that id.
func (in *intake) publishStray(fx *effects, e *envelope) {
	if string(e.bytes(e.id)) == "null" { // JSON-RPC's answer to what could not be read
		fx.publish(eventlog.Agent, nil, "", e.raw)
		return
	}
	in.questions.warn("agent answered a request that it did not get", "id", cuttext.Cut(string(e.bytes(e.id)), 200))
	fx.publishHostEvent(newHostEvent("_adapter/unmatched_response", struct {
		Envelope json.RawMessage `json:"envelope"`
	}{e.raw}))
}

// withStderr adds the end of the agent's standard error to an error for the caller, as
// sandbox-agent does.
func withStderr(answer []byte, stderr string) []byte {
	e, err := parse(answer)
	if err != nil || stderr == "" || !e.failure.exists() || e.raw[e.failure.from] != '{' {
		return answer
	}
	failure := e.bytes(e.failure)
	data := []byte("{}")
	f := envelope{raw: failure}
	if at := f.find(span{0, len(failure)}, "data"); at.exists() && string(f.bytes(at)) != "null" {
		data = f.bytes(at)
	}
	if data[0] != '{' {
		return answer
	}
	data = setMember(data, "agentStderr", jsonString(stderr))
	return e.with(edit{e.failure, setMember(failure, "data", data)})
}

func isCreation(method string) bool { return method == "session/new" || method == "session/fork" }

// applyResponse changes what is known of the session that a response is about, and
// returns the session.
func (in *intake) applyResponse(fx *effects, c *call, e *envelope) *attachedSession {
	ok := !e.failure.exists()
	switch c.env.method {
	case methodInitialize:
		if ok {
			in.handshake.answered(e.bytes(e.result))
		}
	case "session/new", "session/fork":
		if ok && !c.givenUp.Load() {
			return in.applyCreation(fx, c, e)
		}
	case "session/load", "session/resume":
		return in.applyOpening(fx, c, e, ok && !c.givenUp.Load())
	}
	s := c.attached
	if s == nil {
		return nil
	}
	switch c.env.method {
	case "session/prompt":
		s.prompts--
		fx.markChanged(s)
	case "session/set_mode", "session/set_model", "session/set_config_option":
		if ok {
			s.applyChoice(c, e)
			fx.markChanged(s)
		}
	case "session/close", "session/delete":
		if ok {
			s.row.State, s.row.EndReason, s.row.EndedAt = eventlog.Ended, "closed", time.Now()
			fx.markChanged(s)
			fx.afterCommit(func() { in.sessions.detach(s) })
		}
	}
	return s
}

// applyCreation attaches the session that session/new or session/fork made.
func (in *intake) applyCreation(fx *effects, c *call, e *envelope) *attachedSession {
	var result sessionResult
	_ = json.Unmarshal(e.bytes(e.result), &result)
	if !recordable(result.Session) {
		return nil
	}
	if c.opens != nil { // a session that lost its history goes on in a new one
		s := c.opens
		s.newNative, s.row.Server = result.Session, in.server.id
		s.row.EndReason, s.row.ExitCode = "", nil
		s.applyResult(result)
		if s.preface == "" { // there is nothing to report
			s.row.Native, s.newNative = s.newNative, ""
		}
		in.own(fx, s)
		return s
	}
	s := in.newSession(c, result)
	if of := c.attached; of != nil && c.env.method == "session/fork" {
		s.row.Continues = of.row.ID
		s.data.Mode, s.data.Model, s.data.Options = of.data.Mode, of.data.Model, of.data.Options
		s.applyResult(result)
	}
	if c.wantID == "" && in.host.hasSession(s.row.ID) {
		// The agent numbers its sessions from the beginning in each process.
		s.row.ID += "-" + strings.TrimPrefix(in.process, processPrefix)
	}
	in.own(fx, s)
	request := c.env.rewritten(strconv.AppendInt(nil, c.agentID, 10), nil)
	fx.record(eventlog.Client, s, c.env.method, request)
	return s
}

// newSession returns the session that an answer to session/new or session/fork made, or one
// that the log does not have.
func (in *intake) newSession(c *call, result sessionResult) *attachedSession {
	now := time.Now()
	s := &attachedSession{row: eventlog.Session{
		ID: cmp.Or(c.wantID, result.Session), Agent: in.agent, Server: in.server.id, Native: result.Session, Origin: c.origin,
		Continues: c.continues, Init: c.env.bytes(c.env.params), Caps: in.handshake.capabilities().raw, State: eventlog.Idle,
		Cwd: cuttext.Cut(sanitized(memberOf(c.env, "cwd")), 4<<10), Title: c.title, CreatedAt: now, UpdatedAt: now,
	}}
	s.data = sessionData{Permissions: in.host.cfg.Permissions, Desktop: in.server.info().Desktop, Problems: c.problems, Skills: c.skills}
	if c.policy != nil {
		s.data.Permissions = *c.policy
	}
	if c.wantID != "" {
		s.making, s.data.Maker = true, in.host.cfg.Log.Instance()
		s.row.State = s.state()
	}
	s.applyResult(result)
	return s
}

// applyOpening attaches a session that was loaded or resumed.
func (in *intake) applyOpening(fx *effects, c *call, e *envelope, ok bool) *attachedSession {
	s := c.opening()
	if s != nil {
		s.countOpening(-1, c.env.method == "session/load")
	}
	if !ok {
		if s != nil {
			in.sessions.failOpening(s)
		}
		return nil
	}
	var result sessionResult
	_ = json.Unmarshal(e.bytes(e.result), &result)
	if s == nil {
		if result.Session = c.env.sessionID(); !recordable(result.Session) {
			return nil
		}
		s = in.newSession(c, result)
	}
	s.applyResult(result)
	if s.row.State == eventlog.Ended {
		fx.recordHostEvent(s, restoredEvent(c.env.method, 0))
	}
	s.row.Server, s.row.State = in.server.id, eventlog.Idle
	s.row.EndReason, s.row.ExitCode, s.row.EndedAt = "", nil, time.Time{}
	in.own(fx, s)
	return s
}

// own attaches a session and makes the process the owner of its row.
func (in *intake) own(fx *effects, s *attachedSession) {
	in.sessions.attach(s)
	if s.pendingOpen {
		s.pendingOpen = false
		fx.batch.opened[s] = struct{}{}
		for _, q := range in.questions.open {
			if q.session == s {
				q.holdTurn(fx)
			}
		}
	}
	fx.markChanged(s)
}

// handleQuestion passes on a question, or answers it by the session's policy.
func (in *intake) handleQuestion(fx *effects, e *envelope) {
	s, line := in.sessions.translate(e)
	q := newQuestion(in.process, s, e)
	fx.publish(eventlog.Agent, s, e.method, line)
	if s != nil {
		fx.record(eventlog.Agent, s, e.method, line)
		fx.events[len(fx.events)-1].ID = q.event
	}
	q.span = in.turns.ask(s, e.method)
	in.questions.ask(fx, q)
}

// handleUpdate takes in a notification of the agent.
func (in *intake) handleUpdate(fx *effects, e *envelope) {
	s, line := in.sessions.translate(e)
	history, c := in.pending.replaying(s)
	if c != nil {
		c.replayed++
		return
	}
	fx.publish(eventlog.Agent, s, e.method, line)
	if s == nil || history {
		return
	}
	fx.record(eventlog.Agent, s, e.method, line)
	if e.method != "session/update" {
		return
	}
	in.turns.update(s, e)
	if s.applyUpdate(e) {
		fx.markChanged(s)
	}
}
