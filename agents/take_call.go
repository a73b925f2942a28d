package agents

import (
	"bytes"
	"encoding/json"
	"strconv"
	"time"

	"github.com/deskhand/deskhand/agents/eventlog"
)

// takeCall does with a message to the agent what there is to do before the
// agent gets it.
func (l *life) takeCall(b *batch, s *step, c *call) {
	s.tell = func(err error) { c.finish(reply{err: err}) }
	s.refuse = func(err error) {
		l.inputs.Release(c.weight)
		s.tell(err)
	}
	switch {
	case c.env.isResponse():
		l.takeAnswer(b, s, c)
	case c.env.isRequest():
		l.takeRequest(b, s, c)
	default:
		l.takeNotification(b, s, c)
	}
}

// drop accepts a message that the agent must not get.
func (l *life) drop(s *step, c *call, why string) {
	l.log.Warn("message dropped", "why", why, "method", c.env.method)
	s.after = append(s.after, func() {
		l.inputs.Release(c.weight)
		c.finish(reply{})
	})
}

// takeAnswer passes on the answer to a question of the agent's. The first one
// counts: agents fail on answers to what they did not ask.
func (l *life) takeAnswer(b *batch, s *step, c *call) {
	q := l.questions[idKey(c.env.bytes(c.env.id))]
	if q == nil {
		l.drop(s, c, "it answers no open question")
		return
	}
	dir := eventlog.Client
	if c.internal {
		dir = eventlog.Daemon
	}
	l.answer(b, s, q, dir, c.env.rewritten(q.id, nil), c.weight)
	s.after = append(s.after, func() { c.finish(reply{}) })
}

// answer closes a question with an envelope for the agent.
func (l *life) answer(b *batch, s *step, q *question, dir eventlog.Direction, line []byte, weight int64) {
	delete(l.questions, q.key)
	held := q.holds
	if held {
		q.holds = false
		q.talk.questions--
		b.change(q.talk)
	}
	s.undo = append(s.undo, func() {
		l.questions[q.key] = q
		if held {
			q.holds = true
			q.talk.questions++
		}
	})
	l.record(s, dir, q.talk, "response:"+q.method, line)
	q.row.State, q.row.Answer, q.row.AnsweredAt = eventlog.Answered, line, time.Now()
	s.requests = append(s.requests, q.row)
	s.after = append(s.after, func() {
		q.stop()
		l.box.put(line, weight)
	})
}

// takeRequest gives a request an id of the host's own: clients choose theirs
// without knowing of each other.
func (l *life) takeRequest(b *batch, s *step, c *call) {
	if len(l.pending) >= maxPending {
		s.refuse(ErrTooManyRequests)
		*s = step{}
		return
	}
	l.next++
	c.out = l.next
	id := strconv.AppendInt(nil, c.out, 10)
	l.pending[c.out] = c
	s.undo = append(s.undo, func() { delete(l.pending, c.out) })

	c.session = c.env.sessionID()
	c.talk = l.talks[c.session]
	if c.goesOn && c.talk == nil {
		l.refuseEnded(s, c, id)
		return
	}
	l.join(c)
	var native []byte
	switch {
	case c.row != nil: // opened by this request, and known under the agent's name from now on
		native = quote(c.row.native())
	case c.talk != nil:
		native = quote(c.talk.native())
	}
	l.recordRequest(b, s, c, id)
	at := len(s.events) - 1
	line := c.env
	if c.edits != nil {
		if e, err := parse(c.edits); err == nil {
			line = e
		}
	}
	toAgent := line.rewritten(id, native)
	s.after = append(s.after, func() {
		if c.talk != nil && at < len(s.events) { // else it was no session's, or dropped
			c.asked = s.events[at].Seq
		}
		l.box.put(toAgent, c.weight)
		if c.accepted != nil {
			close(c.accepted)
		}
	})
}

// refuseEnded answers a request that goes on with a session which has ended. The
// agent may have it still, but nobody would see what it does there.
func (l *life) refuseEnded(s *step, c *call, id []byte) {
	l.record(s, eventlog.Client, nil, c.env.method, c.env.rewritten(id, nil))
	l.fail(s, c, failureOf(c.env.bytes(c.env.id), codeParams, ErrSessionEnded.Error()+": "+c.session, nil))
	s.undo = nil // it was never pending
	s.after = append(s.after, func() { l.inputs.Release(c.weight) })
}

// recordRequest logs a request as the clients of its session see it, and does
// what it means for the session.
func (l *life) recordRequest(b *batch, s *step, c *call, id []byte) {
	dir := eventlog.Client
	if c.internal {
		dir = eventlog.Daemon
	}
	t := c.talk
	switch c.env.method {
	case methodInitialize:
		l.row.Init, l.rowDirty = c.env.bytes(c.env.params), true
	case "authenticate":
		l.s.setAuthentication(c.env.bytes(c.env.params))
		l.row.Data, l.rowDirty = l.s.lifeData(), true
	case "session/prompt":
		if t != nil {
			t.prompts++
			s.undo = append(s.undo, func() { t.prompts-- })
			l.linkHistory(t, c.env)
			b.change(t)
			l.prefix(s, c, t)
		}
	case "session/load", "session/resume":
		if o := c.opening(); o != nil {
			l.beginOpening(s, o, c.env.method)
		}
	}
	// What was added to it from configuration may be secret.
	l.record(s, dir, t, c.env.method, c.env.rewritten(id, nil))
}

// join makes the session that a request opens the one that the process has, or
// that another request opens already, so that all that is said of it is in one place.
func (l *life) join(c *call) {
	if c.row == nil || isCreation(c.env.method) {
		return
	}
	if t := l.talks[c.row.row.ID]; t != nil {
		c.row = t
	} else if t := l.natives[c.row.row.Native]; t != nil && t.row.ID == c.row.row.ID {
		c.row = t
	}
}

// beginOpening notes that a request loads or resumes a session, of which the agent
// may speak before it answers.
func (l *life) beginOpening(s *step, t *talk, method string) {
	native := t.native()
	was := l.natives[native]
	l.natives[native] = t
	t.opens++
	quiet := 0
	if method == "session/load" {
		quiet = 1
	}
	t.quiet += quiet
	s.undo = append(s.undo, func() {
		t.opens--
		t.quiet -= quiet
		if was == nil {
			delete(l.natives, native)
		} else {
			l.natives[native] = was
		}
	})
}

// opening is the session that a request loads or resumes, or nil.
func (c *call) opening() *talk {
	if c.row != nil {
		return c.row
	}
	return c.talk
}

// prefix puts the history of a session before its prompt, for an agent that has
// forgotten it.
func (l *life) prefix(s *step, c *call, t *talk) {
	if t.preface == "" {
		return
	}
	at := c.env.find(c.env.params, "prompt")
	if !at.there() || c.env.raw[at.from] != '[' {
		return
	}
	block := encode(struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}{"text", t.preface})
	blocks := append([]byte{'['}, block...)
	if rest := bytes.TrimSpace(c.env.raw[at.from+1 : at.to-1]); len(rest) > 0 {
		blocks = append(append(blocks, ','), rest...)
	}
	c.edits = c.env.with(edit{at, append(blocks, ']')})
	was := *t
	// Until now the session that knows all was the old one.
	t.row.Native, t.fresh, t.preface = t.native(), "", ""
	s.undo = append(s.undo, func() { t.row.Native, t.fresh, t.preface = was.row.Native, was.fresh, was.preface })
}

// takeNotification passes a notification on, or what is no JSON-RPC at all.
func (l *life) takeNotification(b *batch, s *step, c *call) {
	line := c.env.raw
	t := l.talks[c.env.sessionID()]
	if t != nil {
		line = c.env.rewritten(nil, quote(t.native()))
	}
	if c.env.method == "$/cancel_request" {
		at := c.env.find(c.env.params, "requestId")
		out, ok := l.outgoing(c.env.bytes(at))
		if !ok {
			l.drop(s, c, "it cancels no open request")
			return
		}
		line = c.env.with(edit{at, strconv.AppendInt(nil, out, 10)})
	}
	dir := eventlog.Client
	if c.internal {
		dir = eventlog.Daemon
	}
	l.record(s, dir, t, c.env.method, c.env.raw)
	s.after = append(s.after, func() {
		l.box.put(line, c.weight)
		c.finish(reply{})
	})
	if c.env.method == "session/cancel" && t != nil {
		l.cancelQuestions(b, s, t)
	}
}

// outgoing finds the newest request that a client calls that.
func (l *life) outgoing(id []byte) (out int64, ok bool) {
	key := idKey(id)
	for n, c := range l.pending {
		if n > out && !c.internal && idKey(c.env.bytes(c.env.id)) == key {
			out, ok = n, true
		}
	}
	return out, ok
}

// sessionEdit changes what is known of a session.
type sessionEdit struct {
	session string
	note    note // empty: none
	edit    func(*talk) error
	done    chan error
}

func (e *sessionEdit) finish(err error) {
	select {
	case e.done <- err:
	default:
	}
}

func (l *life) takeEdit(b *batch, s *step, e *sessionEdit) {
	t := l.talks[e.session]
	if t == nil {
		e.finish(ErrSessionNotFound)
		return
	}
	was := *t
	s.refuse, s.tell = e.finish, e.finish
	if err := e.edit(t); err != nil {
		// What was done to it before is in the log by then.
		s.after = append(s.after, func() { e.finish(err) })
		return
	}
	b.change(t)
	if e.note.kind != "" {
		l.record(s, eventlog.Daemon, t, e.note.kind, e.note.payload)
	}
	s.undo = append(s.undo, func() { t.row, t.data, t.making, t.opening = was.row, was.data, was.making, was.opening })
	s.after = append(s.after, func() {
		switch {
		case t.row.State == eventlog.Ended:
			l.remove(t)
		case l.talks[e.session] == t: // else it was let go of
			l.admit(t)
		}
		e.finish(nil)
	})
}

// modeOf is what a request chooses for a session.
func modeOf(env *envelope, name string) string {
	var v string
	_ = json.Unmarshal(env.bytes(env.find(env.params, name)), &v)
	return v
}
