package agents

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/deskhand/deskhand/agents/eventlog"
)

// takeLine does with a line of the agent's what there is to do before clients
// get it.
func (l *life) takeLine(b *batch, s *step, line []byte) {
	e, err := parse(line)
	switch {
	case err != nil:
		l.publishInvalid(s, err.Error(), line)
	case e.isResponse():
		l.takeResponse(b, s, e)
	case e.isRequest():
		l.takeQuestion(b, s, e)
	case e.isNotification():
		l.takeUpdate(b, s, e)
	default:
		l.publish(s, eventlog.Agent, nil, "", e.raw)
	}
}

const rawKept = 64 << 10 // of a line that makes no sense

// publishInvalid tells of a line that is no message.
func (l *life) publishInvalid(s *step, problem string, line []byte) {
	if len(line) > rawKept {
		line = line[:rawKept]
	}
	l.publish(s, eventlog.Daemon, nil, "_adapter/invalid_stdout", notification("_adapter/invalid_stdout", struct {
		Error string `json:"error"`
		Raw   string `json:"raw"`
	}{problem, strings.ToValidUTF8(string(line), "\uFFFD")}))
}

var (
	answerHead = regexp.MustCompile(`^\{(?:"jsonrpc":\s*"2.0",\s*)?"id":\s*([0-9]+)\s*,\s*"(?:result|error)"`)
	answerTail = regexp.MustCompile(`"id":\s*([0-9]+)\s*(?:,\s*"jsonrpc":\s*"2.0"\s*)?\}\s*$`)
)

// takeLong tells of a line that was too long. If it was an answer, who waits
// for it gets an error.
func (l *life) takeLong(s *step, long *outsized) {
	problem := fmt.Sprintf("a line has %d bytes, and %d are allowed; it was dropped", long.size, l.host.cfg.MaxMessageBytes)
	l.publishInvalid(s, problem, long.head[:min(len(long.head), 1<<10)])
	m := answerHead.FindSubmatch(bytes.ReplaceAll(long.head[:min(len(long.head), 256)], []byte(" "), nil))
	if m == nil {
		m = answerTail.FindSubmatch(long.tail)
	}
	if m == nil {
		return
	}
	id, err := strconv.ParseInt(string(m[1]), 10, 64)
	if c := l.pending[id]; err == nil && c != nil {
		l.fail(s, c, failureOf(c.env.bytes(c.env.id), codeInternal, "the agent's answer was not taken: "+problem, nil))
	}
}

// JSON-RPC's codes (section 5.1 of its specification).
const (
	codeParams   = -32602
	codeInternal = -32603
)

// fail answers a request in the agent's place.
func (l *life) fail(s *step, c *call, answer []byte) {
	delete(l.pending, c.out)
	if !c.internal {
		l.publish(s, eventlog.Daemon, c.talk, "response:"+c.env.method, answer)
	}
	s.after = append(s.after, func() { c.answered(s, answer) })
}

// answered ends a call with the answer that a step has published last, if it did.
func (c *call) answered(s *step, answer []byte) {
	if n := len(s.events); n > 0 && !c.internal {
		c.seq = s.events[n-1].Seq
	}
	c.finish(reply{raw: answer})
}

// takeResponse passes an answer to who asked, and to all who follow.
func (l *life) takeResponse(b *batch, s *step, e *envelope) {
	out, err := strconv.ParseInt(idKey(e.bytes(e.id)), 10, 64)
	c := l.pending[out]
	if err != nil || c == nil {
		l.publishStray(s, e)
		return
	}
	delete(l.pending, out)
	t := l.concludes(b, s, c, e)
	k := "response:" + c.env.method
	if !c.internal || t != nil && c.row == nil {
		l.record(s, eventlog.Agent, t, k, e.raw)
		l.recordProblems(s, t, c)
	}
	answer := e.raw
	if !c.internal {
		answer = e.rewritten(c.env.bytes(c.env.id), nil)
		if t != nil && isCreation(c.env.method) {
			// A session that was made under another name than the agent's.
			if at := e.find(e.result, "sessionId"); at.there() && t.row.ID != t.row.Native {
				answer = rewriteResult(e, c.env.bytes(c.env.id), at, quote(t.row.ID))
			}
		}
		l.publish(s, eventlog.Agent, t, k, answer)
	}
	if e.failure.there() && !c.internal {
		answer = withStderr(answer, l.proc.stderr())
	}
	s.after = append(s.after, func() { c.answered(s, answer) })
}

// recordProblems tells in a new session's stream what of its configuration did
// not work.
func (l *life) recordProblems(s *step, t *talk, c *call) {
	if t == nil || !isCreation(c.env.method) {
		return
	}
	for _, problem := range c.problems {
		n := problemEvent(problem)
		l.record(s, eventlog.Daemon, t, n.kind, n.payload)
	}
}

func rewriteResult(e *envelope, id []byte, at span, session []byte) []byte {
	first, second := edit{e.id, id}, edit{at, session}
	if e.id.from > at.from {
		first, second = second, first
	}
	return e.with(first, second)
}

// publishStray tells of an answer that nobody waits for. As it is, clients
// would take it for the answer to a request of theirs with that id.
func (l *life) publishStray(s *step, e *envelope) {
	if string(e.bytes(e.id)) == "null" { // JSON-RPC's answer to what could not be read
		l.publish(s, eventlog.Agent, nil, "", e.raw)
		return
	}
	l.log.Warn("agent answered what nobody asked", "id", string(e.bytes(e.id)))
	l.publish(s, eventlog.Daemon, nil, "_adapter/unmatched_response", notification("_adapter/unmatched_response", struct {
		Envelope json.RawMessage `json:"envelope"`
	}{e.raw}))
}

// withStderr adds what the agent last wrote to its standard error to the copy
// of an error that the caller gets, as sandbox-agent does.
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

// concludes does what an answer means for its session, and returns that.
func (l *life) concludes(b *batch, s *step, c *call, e *envelope) *talk {
	ok := !e.failure.there()
	switch c.env.method {
	case methodInitialize:
		if ok {
			l.setCapabilities(capabilitiesOf(e.bytes(e.result)))
		}
		l.greeted()
	case "session/new", "session/fork":
		if ok && !c.givenUp.Load() {
			return l.concludeCreation(b, s, c, e)
		}
	case "session/load", "session/resume":
		return l.concludeOpening(b, s, c, e, ok && !c.givenUp.Load())
	}
	t := c.talk
	if t == nil {
		return nil
	}
	switch c.env.method {
	case "session/prompt":
		t.prompts--
		b.change(t)
	case "session/set_mode", "session/set_model", "session/set_config_option":
		if ok {
			l.concludeChoice(t, c, e)
			b.change(t)
		}
	case "session/close", "session/delete":
		if ok {
			l.endTalk(b, t, "closed")
			s.after = append(s.after, func() { l.remove(t) })
		}
	}
	return t
}

func (l *life) endTalk(b *batch, t *talk, reason string) {
	t.row.State, t.row.EndReason, t.row.EndedAt = eventlog.Ended, reason, time.Now()
	b.change(t)
}

func (l *life) setCapabilities(c capabilities) {
	l.mu.Lock()
	l.caps, l.ready = c, true
	l.mu.Unlock()
}

func (l *life) concludeCreation(b *batch, s *step, c *call, e *envelope) *talk {
	var result created
	_ = json.Unmarshal(e.bytes(e.result), &result)
	if !recordable(result.Session) {
		return nil
	}
	if c.row != nil { // a session that lost its history goes on in a new one
		t := c.row
		t.fresh, t.row.Server = result.Session, l.s.id
		t.row.EndReason, t.row.ExitCode = "", nil
		t.learn(result)
		if t.preface == "" { // there is nothing to tell
			t.row.Native, t.fresh = t.fresh, ""
		}
		l.addAs(t, result.Session)
		l.arrive(b, t)
		return nil
	}
	t := l.newTalk(c, result)
	if of := c.talk; of != nil && c.env.method == "session/fork" {
		t.row.Continues = of.row.ID
		t.data.Mode, t.data.Model, t.data.Options = of.data.Mode, of.data.Model, of.data.Options
		t.learn(result)
	}
	if c.want == "" && l.host.taken(t.row.ID) {
		// The agent numbers its sessions from the beginning in each process.
		t.row.ID += "-" + strings.TrimPrefix(l.id, "life_")
	}
	l.add(t)
	b.change(t)
	request := c.env.rewritten(strconv.AppendInt(nil, c.out, 10), nil)
	l.record(s, eventlog.Client, t, c.env.method, request)
	return t
}

// concludeOpening makes a session known that was loaded or resumed.
func (l *life) concludeOpening(b *batch, s *step, c *call, e *envelope, ok bool) *talk {
	t := c.opening()
	if t != nil {
		t.opens--
		if c.env.method == "session/load" {
			t.quiet--
		}
	}
	if !ok {
		if t != nil && t.coming && t.opens == 0 && l.natives[t.native()] == t {
			delete(l.natives, t.native())
		}
		return nil
	}
	var result created
	_ = json.Unmarshal(e.bytes(e.result), &result)
	if t == nil {
		if result.Session = c.session; !recordable(result.Session) {
			return nil
		}
		t = l.newTalk(c, result)
	}
	t.learn(result)
	if t.row.State == eventlog.Ended {
		n := restoredEvent(c.env.method, 0)
		l.record(s, eventlog.Daemon, t, n.kind, n.payload)
	}
	t.row.Server, t.row.State = l.s.id, eventlog.Idle
	t.row.EndReason, t.row.ExitCode, t.row.EndedAt = "", nil, time.Time{}
	l.addAs(t, t.native())
	l.arrive(b, t)
	return t
}

// arrive makes the row of a session that was opened this process's.
func (l *life) arrive(b *batch, t *talk) {
	if t.coming {
		t.coming = false
		b.opened[t] = struct{}{}
		for _, q := range l.questions {
			l.hold(b, q)
		}
	}
	b.change(t)
}

func setCurrent(object []byte, name, value string) []byte {
	if len(object) == 0 || object[0] != '{' {
		return object
	}
	return setMember(object, name, quote(value))
}

// takeUpdate passes a notification on.
func (l *life) takeUpdate(b *batch, s *step, e *envelope) {
	t, line := l.translate(e)
	history, c := l.historyOf(t)
	if c != nil {
		c.replayed++
		return
	}
	l.publish(s, eventlog.Agent, t, e.method, line)
	if t == nil || history {
		return
	}
	l.record(s, eventlog.Agent, t, e.method, line)
	if e.method == "session/update" {
		l.noteUpdate(b, t, e)
	}
}

// translate finds the session that a message is about, and puts our name for it
// in the place of the agent's.
func (l *life) translate(e *envelope) (*talk, []byte) {
	t := l.natives[e.sessionID()]
	if t == nil || t.row.ID == e.sessionID() {
		return t, e.raw
	}
	return t, e.rewritten(nil, quote(t.row.ID))
}

// historyOf tells whether updates of a session are what was said before, as they are
// during a load, and of which load of the host's own, if it is one. Loads that were
// given up do not count any more once the session is open: some are never answered.
func (l *life) historyOf(t *talk) (is bool, own *call) {
	if t == nil || t.quiet == 0 {
		return false, nil
	}
	for _, c := range l.pending {
		late := c.givenUp.Load()
		if c.env.method != "session/load" || c.opening() != t || late && !t.coming {
			continue
		}
		is = true
		if c.internal && (own == nil || !late) {
			own = c
		}
	}
	return is, own
}

// noteUpdate keeps what an update says about the session as a whole.
func (l *life) noteUpdate(b *batch, t *talk, e *envelope) {
	at := e.find(e.params, "update")
	switch text(e.bytes(e.find(at, "sessionUpdate"))) {
	case "current_mode_update":
		t.choseListed(categoryMode, text(e.bytes(e.find(at, "currentModeId"))))
	case "config_option_update":
		if v := e.bytes(e.find(at, "configOptions")); given(v) {
			t.told(v, settingsOf(t.row.Config))
		}
	case "session_info_update":
		title := e.find(at, "title")
		if !title.there() {
			return
		}
		t.row.Title = cut(cleaned(text(e.bytes(title))), maxTitle)
	default:
		return
	}
	b.change(t)
}

// takeExit is the end of the agent.
func (l *life) takeExit(b *batch, s *step) {
	e := l.proc.exit()
	l.mu.Lock()
	if l.reason == "" {
		l.reason = endedItself
		if l.host.isClosed() {
			l.reason = endedServer
		}
	}
	reason := l.reason
	l.mu.Unlock()
	words := ""
	if reason == endedItself { // else they are no reason for its end
		words = l.proc.stderr()
	}
	exited := exitEvent(e, words)
	l.publish(s, eventlog.Daemon, nil, "_adapter/agent_exited", exited)
	for _, q := range l.questions {
		q.row.State, q.row.AnsweredAt = eventlog.Cancelled, time.Now()
		s.requests = append(s.requests, q.row)
	}
	for _, t := range l.talks {
		l.record(s, eventlog.Daemon, t, "_adapter/agent_exited", exited)
		l.interrupt(b, t, e, reason)
	}
	now := time.Now()
	l.row.ExitedAt, l.row.Reason, l.row.ExitCode, l.row.Stderr = now, reason, e.code, []byte(l.proc.stderr())
	l.rowDirty = true
	l.s.remember(l.row)
}

// interrupt is what the end of its process means for a session.
func (l *life) interrupt(b *batch, t *talk, e ended, reason string) {
	state := t.state()
	b.change(t)
	switch state {
	case eventlog.Running, eventlog.Waiting:
		t.row.State, t.row.ExitCode = eventlog.Interrupted, e.code
		t.row.EndReason = "the agent's process ended in the middle of a turn (" + reason + ")"
		t.over = true
	case eventlog.Starting: // who makes it says what becomes of it
		t.over = true
	case eventlog.Idle, eventlog.Interrupted, eventlog.Ended, eventlog.Failed:
	}
	if reason == endedDeleted && state != eventlog.Ended {
		t.row.Server = ""
	}
}

// exitEvent is what followers get at the end of a process. stderr is what it last
// wrote there, for one that ended by itself.
func exitEvent(e ended, stderr string) []byte {
	return notification("_adapter/agent_exited", struct {
		Success bool   `json:"success"`
		Code    *int   `json:"code"`
		Signal  string `json:"signal,omitempty"`
		Stderr  string `json:"stderr,omitempty"`
	}{e.success(), e.code, e.signal, cleaned(stderr)})
}
