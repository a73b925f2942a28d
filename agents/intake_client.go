package agents

import (
	"bytes"
	"encoding/json"
	"strconv"
	"time"

	"github.com/deskhand/deskhand/agents/eventlog"
)

// dropCall reports success for a message without passing it on.
func (p *agentProcess) dropCall(fx *effects, c *call, why string) {
	p.log.Warn("message dropped", "why", why, "method", c.env.method)
	fx.deliver = append(fx.deliver, func() {
		p.inputs.Release(c.weight)
		c.finish(reply{})
	})
}

// handleAnswer takes in the answer to a question of the agent's. Only the first answer
// counts, because agents fail on answers to closed questions.
func (p *agentProcess) handleAnswer(b *commitBatch, fx *effects, c *call) {
	q := p.questions[idKey(c.env.bytes(c.env.id))]
	if q == nil {
		p.dropCall(fx, c, "it answers no open question")
		return
	}
	p.answerQuestion(b, fx, q, c.dir(), c.env.rewritten(q.id, nil), c.weight)
	fx.deliver = append(fx.deliver, func() { c.finish(reply{}) })
}

// answerQuestion closes a question with a message for the agent.
func (p *agentProcess) answerQuestion(b *commitBatch, fx *effects, q *question, dir eventlog.Direction, line []byte, weight int64) {
	delete(p.questions, q.key)
	held := q.holdsTurn
	if held {
		q.holdsTurn = false
		q.session.questions--
		b.markChanged(q.session)
	}
	fx.undo = append(fx.undo, func() {
		p.questions[q.key] = q
		if held {
			q.holdsTurn = true
			q.session.questions++
		}
	})
	p.recordMessage(fx, dir, q.session, "response:"+q.method, line)
	q.row.State, q.row.Answer, q.row.AnsweredAt = eventlog.Answered, line, time.Now()
	fx.requests = append(fx.requests, q.row)
	fx.deliver = append(fx.deliver, func() {
		q.stop()
		p.box.put(line, weight)
	})
}

// handleRequest gives a request an id of the host's own and adds it to the pending
// calls.
func (p *agentProcess) handleRequest(b *commitBatch, fx *effects, c *call) {
	if len(p.pending.byID) >= maxPending {
		fx.refuse(ErrTooManyRequests)
		*fx = effects{}
		return
	}
	id := p.pending.add(c)
	fx.undo = append(fx.undo, func() { p.pending.remove(c) })

	c.session = c.env.sessionID()
	c.attached = p.sessions.byID[c.session]
	if c.goesOn && c.attached == nil {
		p.refuseEnded(fx, c, id)
		return
	}
	if c.opens != nil && !isCreation(c.env.method) {
		// There is one attachedSession for all requests that open it.
		if s := p.sessions.byID[c.opens.row.ID]; s != nil {
			c.opens = s
		} else if s := p.sessions.byNative[c.opens.row.Native]; s != nil && s.row.ID == c.opens.row.ID {
			c.opens = s
		}
	}
	var native []byte
	switch {
	case c.opens != nil:
		native = quote(c.opens.native())
	case c.attached != nil:
		native = quote(c.attached.native())
	}
	p.recordRequest(b, fx, c, id)
	at := len(fx.events) - 1
	line := c.env
	if c.edits != nil {
		if e, err := parse(c.edits); err == nil {
			line = e
		}
	}
	toAgent := line.rewritten(id, native)
	fx.deliver = append(fx.deliver, func() {
		if c.attached != nil && at < len(fx.events) { // dropInvalid removes events
			c.asked = fx.events[at].Seq
		}
		p.box.put(toAgent, c.weight)
		close(c.accepted)
	})
}

// refuseEnded answers a request that goes on with a session that has ended. The agent
// may still have the session, but no client would see what it does there.
func (p *agentProcess) refuseEnded(fx *effects, c *call, id []byte) {
	p.recordMessage(fx, eventlog.Client, nil, c.env.method, c.env.rewritten(id, nil))
	p.failCall(fx, c, failureOf(c.env.bytes(c.env.id), codeParams, ErrSessionEnded.Error()+": "+c.session, nil))
	fx.undo = nil // it is not pending
	fx.deliver = append(fx.deliver, func() { p.inputs.Release(c.weight) })
}

// recordRequest logs a request as the clients of its session see it, and changes what
// is known of the session.
func (p *agentProcess) recordRequest(b *commitBatch, fx *effects, c *call, id []byte) {
	s := c.attached
	switch c.env.method {
	case methodInitialize:
		p.record.Init, p.recordDirty = c.env.bytes(c.env.params), true
	case "authenticate":
		p.record.Data, p.recordDirty = p.server.encodeData(c.env.bytes(c.env.params)), true
	case "session/prompt":
		if s != nil {
			s.prompts++
			fx.undo = append(fx.undo, func() { s.prompts-- })
			p.linkHistory(s, c.env)
			b.markChanged(s)
			if s.preface != "" {
				p.addHistory(fx, c, s)
			}
		}
	case "session/load", "session/resume":
		if o := c.opening(); o != nil {
			p.beginOpening(fx, o, c.env.method)
		}
	}
	// The added configuration may be secret.
	p.recordMessage(fx, c.dir(), s, c.env.method, c.env.rewritten(id, nil))
}

// beginOpening records that a request loads or resumes a session. The agent may send
// updates of the session before it answers.
func (p *agentProcess) beginOpening(fx *effects, s *attachedSession, method string) {
	native := s.native()
	was := p.sessions.byNative[native]
	p.sessions.byNative[native] = s
	s.opens++
	quiet := 0
	if method == "session/load" {
		quiet = 1
	}
	s.loads += quiet
	fx.undo = append(fx.undo, func() {
		s.opens--
		s.loads -= quiet
		if was == nil {
			delete(p.sessions.byNative, native)
		} else {
			p.sessions.byNative[native] = was
		}
	})
}

// addHistory puts the history of a session, which the agent does not know, before a
// prompt.
func (p *agentProcess) addHistory(fx *effects, c *call, s *attachedSession) {
	at := c.env.find(c.env.params, "prompt")
	if !at.there() || c.env.raw[at.from] != '[' {
		return
	}
	block := encode(struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}{"text", s.preface})
	blocks := append([]byte{'['}, block...)
	if rest := bytes.TrimSpace(c.env.raw[at.from+1 : at.to-1]); len(rest) > 0 {
		blocks = append(append(blocks, ','), rest...)
	}
	c.edits = c.env.with(edit{at, append(blocks, ']')})
	was := *s
	// From now on the new session knows everything.
	s.row.Native, s.newNative, s.preface = s.native(), "", ""
	fx.undo = append(fx.undo, func() { s.row.Native, s.newNative, s.preface = was.row.Native, was.newNative, was.preface })
}

// handleNotification passes on a notification, or an object that is not JSON-RPC.
func (p *agentProcess) handleNotification(b *commitBatch, fx *effects, c *call) {
	line := c.env.raw
	s := p.sessions.byID[c.env.sessionID()]
	if s != nil {
		line = c.env.rewritten(nil, quote(s.native()))
	}
	if c.env.method == "$/cancel_request" {
		at := c.env.find(c.env.params, "requestId")
		out, ok := p.pending.outgoingID(c.env.bytes(at))
		if !ok {
			p.dropCall(fx, c, "it cancels no open request")
			return
		}
		line = c.env.with(edit{at, strconv.AppendInt(nil, out, 10)})
	}
	p.recordMessage(fx, c.dir(), s, c.env.method, c.env.raw)
	fx.deliver = append(fx.deliver, func() {
		p.box.put(line, c.weight)
		c.finish(reply{})
	})
	if c.env.method == "session/cancel" && s != nil {
		p.cancelQuestions(b, fx, s)
	}
}

// modeOf returns a member of a request's params, for example the chosen mode.
func modeOf(env *envelope, name string) string {
	var v string
	_ = json.Unmarshal(env.bytes(env.find(env.params, name)), &v)
	return v
}
