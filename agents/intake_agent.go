package agents

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/deskhand/deskhand/agents/eventlog"
	"github.com/deskhand/deskhand/internal/jsonlimit"
	"github.com/deskhand/deskhand/internal/jsonlines"
)

// handleLine takes in a line of the agent's.
func (p *agentProcess) handleLine(b *commitBatch, fx *effects, line []byte) {
	if err := jsonlimit.CheckLimits(line, math.MaxInt, jsonlimit.MaxValues); err != nil {
		p.dropLine(fx, "a message "+err.Error()+"; it was dropped", line, line)
		return
	}
	e, err := parse(line)
	switch {
	case err != nil:
		p.publishInvalid(fx, err.Error(), line)
	case e.isResponse():
		p.handleResponse(b, fx, e)
	case e.isRequest():
		p.handleQuestion(b, fx, e)
	case e.isNotification():
		p.handleUpdate(b, fx, e)
	default:
		p.publish(fx, eventlog.Agent, nil, "", e.raw)
	}
}

const rawKept = 64 << 10 // of a line that makes no sense

// publishInvalid tells the followers of a line that is not a message.
func (p *agentProcess) publishInvalid(fx *effects, problem string, line []byte) {
	if len(line) > rawKept {
		line = line[:rawKept]
	}
	p.publish(fx, eventlog.Daemon, nil, "_adapter/invalid_stdout", notification("_adapter/invalid_stdout", struct {
		Error string `json:"error"`
		Raw   string `json:"raw"`
	}{problem, strings.ToValidUTF8(string(line), "\uFFFD")}))
}

var (
	answerHead = regexp.MustCompile(`^\{(?:"jsonrpc":\s*"2.0",\s*)?"id":\s*([0-9]+)\s*,\s*"(?:result|error)"`)
	answerTail = regexp.MustCompile(`"id":\s*([0-9]+)\s*(?:,\s*"jsonrpc":\s*"2.0"\s*)?\}\s*$`)
)

// handleOutsized is dropLine for a line that was too long or late.
func (p *agentProcess) handleOutsized(fx *effects, long *jsonlines.TooLong) {
	problem := fmt.Sprintf("a line has %d bytes, and %d are allowed; it was dropped", long.Size, p.host.cfg.MaxMessageBytes)
	if long.Late {
		problem = fmt.Sprintf("a line of more than %d bytes did not end within %s; it was dropped", long.Size, p.host.lineTime)
	}
	p.dropLine(fx, problem, long.Head, long.Tail)
}

// dropLine tells the followers of a line that is not taken in. If the line was an answer,
// its caller gets an error. The line begins with head and ends with tail.
func (p *agentProcess) dropLine(fx *effects, problem string, head, tail []byte) {
	p.publishInvalid(fx, problem, head[:min(len(head), 1<<10)])
	m := answerHead.FindSubmatch(bytes.ReplaceAll(head[:min(len(head), 256)], []byte(" "), nil))
	if m == nil {
		m = answerTail.FindSubmatch(tail[max(0, len(tail)-256):])
	}
	if m == nil {
		return
	}
	if c := p.pending.answeredBy(m[1]); c != nil {
		p.failCall(fx, c, failureOf(c.env.bytes(c.env.id), codeInternal, "the agent's answer was not taken: "+problem, nil))
	}
}

// JSON-RPC's codes (section 5.1 of its specification).
const (
	codeParams   = -32602
	codeInternal = -32603
)

// failCall answers a request in the agent's place.
func (p *agentProcess) failCall(fx *effects, c *call, answer []byte) {
	p.pending.remove(c)
	if !c.internal {
		p.publish(fx, eventlog.Daemon, c.attached, "response:"+c.env.method, answer)
	}
	fx.deliver = append(fx.deliver, func() { c.answered(fx, answer) })
}

// handleResponse passes an answer to the caller and to the followers.
func (p *agentProcess) handleResponse(b *commitBatch, fx *effects, e *envelope) {
	c := p.pending.answeredBy(e.bytes(e.id))
	if c == nil {
		p.publishStray(fx, e)
		return
	}
	p.pending.remove(c)
	s := p.applyResponse(b, fx, c, e)
	k := "response:" + c.env.method
	if !c.internal || s != nil && c.opens == nil {
		p.recordMessage(fx, eventlog.Agent, s, k, e.raw)
		if s != nil && isCreation(c.env.method) {
			p.recordProblems(fx, s, c)
		}
	}
	answer := e.raw
	if !c.internal {
		answer = e.rewritten(c.env.bytes(c.env.id), nil)
		if s != nil && isCreation(c.env.method) {
			// A session that was made under another name than the agent's.
			if at := e.find(e.result, "sessionId"); at.there() && s.row.ID != s.row.Native {
				answer = e.with(edit{e.id, c.env.bytes(c.env.id)}, edit{at, quote(s.row.ID)})
			}
		}
		p.publish(fx, eventlog.Agent, s, k, answer)
	}
	if e.failure.there() && !c.internal {
		answer = withStderr(answer, p.child.stderr())
	}
	fx.deliver = append(fx.deliver, func() {
		if !e.failure.there() && (c.env.method == methodInitialize || c.env.method == "session/new") {
			p.host.cfg.Observe(p.agent, c.env.method, e.bytes(e.result))
		}
		c.answered(fx, answer)
	})
}

// recordProblems records in a new session's stream what of its configuration does not
// work.
func (p *agentProcess) recordProblems(fx *effects, s *attachedSession, c *call) {
	for _, problem := range c.problems {
		n := problemEvent(problem)
		p.recordMessage(fx, eventlog.Daemon, s, n.kind, n.payload)
	}
}

// publishStray tells the followers of an answer that no caller waits for. Clients would
// take the bare answer for the one to their request with that id.
func (p *agentProcess) publishStray(fx *effects, e *envelope) {
	if string(e.bytes(e.id)) == "null" { // JSON-RPC's answer to what could not be read
		p.publish(fx, eventlog.Agent, nil, "", e.raw)
		return
	}
	p.log.Warn("agent answered a request that it did not get", "id", cut(string(e.bytes(e.id)), 200))
	p.publish(fx, eventlog.Daemon, nil, "_adapter/unmatched_response", notification("_adapter/unmatched_response", struct {
		Envelope json.RawMessage `json:"envelope"`
	}{e.raw}))
}

// withStderr adds the end of the agent's standard error to an error for the caller, as
// sandbox-agent does.
func withStderr(answer []byte, stderr string) []byte {
	e, err := parse(answer)
	if err != nil || stderr == "" || !e.failure.there() || e.raw[e.failure.from] != '{' {
		return answer
	}
	failure := e.bytes(e.failure)
	data := []byte("{}")
	f := envelope{raw: failure}
	if at := f.find(span{0, len(failure)}, "data"); at.there() && string(f.bytes(at)) != "null" {
		data = f.bytes(at)
	}
	if data[0] != '{' {
		return answer
	}
	data = setMember(data, "agentStderr", quote(stderr))
	return e.with(edit{e.failure, setMember(failure, "data", data)})
}

func isCreation(method string) bool { return method == "session/new" || method == "session/fork" }

// applyResponse changes what is known of the session that a response is about, and
// returns the session.
func (p *agentProcess) applyResponse(b *commitBatch, fx *effects, c *call, e *envelope) *attachedSession {
	ok := !e.failure.there()
	switch c.env.method {
	case methodInitialize:
		if ok {
			p.setCapabilities(capabilitiesOf(e.bytes(e.result)))
		}
	case "session/new", "session/fork":
		if ok && !c.givenUp.Load() {
			return p.applyCreation(b, fx, c, e)
		}
	case "session/load", "session/resume":
		return p.applyOpening(b, fx, c, e, ok && !c.givenUp.Load())
	}
	s := c.attached
	if s == nil {
		return nil
	}
	switch c.env.method {
	case "session/prompt":
		s.prompts--
		b.markChanged(s)
	case "session/set_mode", "session/set_model", "session/set_config_option":
		if ok {
			p.applyChoice(s, c, e)
			b.markChanged(s)
		}
	case "session/close", "session/delete":
		if ok {
			p.endSession(b, s, "closed")
			fx.deliver = append(fx.deliver, func() { p.sessions.detach(s) })
		}
	}
	return s
}

func (p *agentProcess) endSession(b *commitBatch, s *attachedSession, reason string) {
	s.row.State, s.row.EndReason, s.row.EndedAt = eventlog.Ended, reason, time.Now()
	b.markChanged(s)
}

func (p *agentProcess) applyCreation(b *commitBatch, fx *effects, c *call, e *envelope) *attachedSession {
	var result created
	_ = json.Unmarshal(e.bytes(e.result), &result)
	if !recordable(result.Session) {
		return nil
	}
	if c.opens != nil { // a session that lost its history goes on in a new one
		s := c.opens
		s.newNative, s.row.Server = result.Session, p.server.id
		s.row.EndReason, s.row.ExitCode = "", nil
		s.applyResult(result)
		if s.preface == "" { // there is nothing to tell
			s.row.Native, s.newNative = s.newNative, ""
		}
		p.sessions.attachAs(s, result.Session)
		p.ownSession(b, s)
		return nil
	}
	s := p.newSession(c, result)
	if of := c.attached; of != nil && c.env.method == "session/fork" {
		s.row.Continues = of.row.ID
		s.data.Mode, s.data.Model, s.data.Options = of.data.Mode, of.data.Model, of.data.Options
		s.applyResult(result)
	}
	if c.want == "" && p.host.hasSession(s.row.ID) {
		// The agent numbers its sessions from the beginning in each process.
		s.row.ID += "-" + strings.TrimPrefix(p.id, "life_")
	}
	p.sessions.attach(s)
	b.markChanged(s)
	request := c.env.rewritten(strconv.AppendInt(nil, c.outID, 10), nil)
	p.recordMessage(fx, eventlog.Client, s, c.env.method, request)
	return s
}

// applyOpening attaches a session that was loaded or resumed.
func (p *agentProcess) applyOpening(b *commitBatch, fx *effects, c *call, e *envelope, ok bool) *attachedSession {
	s := c.opening()
	if s != nil {
		s.opens--
		if c.env.method == "session/load" {
			s.loads--
		}
	}
	if !ok {
		if s != nil && s.pendingOpen && s.opens == 0 && p.sessions.byNative[s.native()] == s {
			delete(p.sessions.byNative, s.native())
		}
		return nil
	}
	var result created
	_ = json.Unmarshal(e.bytes(e.result), &result)
	if s == nil {
		if result.Session = c.session; !recordable(result.Session) {
			return nil
		}
		s = p.newSession(c, result)
	}
	s.applyResult(result)
	if s.row.State == eventlog.Ended {
		n := restoredEvent(c.env.method, 0)
		p.recordMessage(fx, eventlog.Daemon, s, n.kind, n.payload)
	}
	s.row.Server, s.row.State = p.server.id, eventlog.Idle
	s.row.EndReason, s.row.ExitCode, s.row.EndedAt = "", nil, time.Time{}
	p.sessions.attachAs(s, s.native())
	p.ownSession(b, s)
	return s
}

// ownSession makes the process the owner of the row of an opened session.
func (p *agentProcess) ownSession(b *commitBatch, s *attachedSession) {
	if s.pendingOpen {
		s.pendingOpen = false
		b.opened[s] = struct{}{}
		for _, q := range p.questions {
			p.holdTurn(b, q)
		}
	}
	b.markChanged(s)
}

func setCurrent(object []byte, name, value string) []byte {
	if len(object) == 0 || object[0] != '{' {
		return object
	}
	return setMember(object, name, quote(value))
}

// handleUpdate takes in a notification of the agent's.
func (p *agentProcess) handleUpdate(b *commitBatch, fx *effects, e *envelope) {
	s, line := p.translate(e)
	history, c := p.replayOf(s)
	if c != nil {
		c.replayed++
		return
	}
	p.publish(fx, eventlog.Agent, s, e.method, line)
	if s == nil || history {
		return
	}
	p.recordMessage(fx, eventlog.Agent, s, e.method, line)
	if e.method == "session/update" {
		p.applyUpdate(b, s, e)
	}
}

// translate returns the session that a message is about, and the message with the
// session's id in place of the agent's.
func (p *agentProcess) translate(e *envelope) (*attachedSession, []byte) {
	s := p.sessions.byNative[e.sessionID()]
	if s == nil || s.row.ID == e.sessionID() {
		return s, e.raw
	}
	return s, e.rewritten(nil, quote(s.row.ID))
}

// replayOf reports whether updates of a session repeat its history, as they do during a
// load, and by which load of the host's own. Loads that were given up no longer count
// once the session is open, because some are never answered.
func (p *agentProcess) replayOf(s *attachedSession) (is bool, own *call) {
	if s == nil || s.loads == 0 {
		return false, nil
	}
	for _, c := range p.pending.byID {
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

// applyUpdate changes what is known of a session after an update about it as a whole.
func (p *agentProcess) applyUpdate(b *commitBatch, s *attachedSession, e *envelope) {
	at := e.find(e.params, "update")
	switch text(e.bytes(e.find(at, "sessionUpdate"))) {
	case "current_mode_update":
		s.recordListedChoice(categoryMode, text(e.bytes(e.find(at, "currentModeId"))))
	case "config_option_update":
		if v := e.bytes(e.find(at, "configOptions")); given(v) {
			s.setOptions(v, settingsOf(s.row.Config))
		}
	case "session_info_update":
		title := e.find(at, "title")
		if !title.there() {
			return
		}
		s.row.Title = cut(cleaned(text(e.bytes(title))), maxTitle)
	default:
		return
	}
	b.markChanged(s)
}
