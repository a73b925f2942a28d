package agents

import (
	"bytes"
	"strconv"

	"github.com/deskhand/deskhand/agents/eventlog"
)

// handleCall takes in a message of a client or of the host.
func (in *intake) handleCall(fx *effects, c *call) {
	switch {
	case c.env.isResponse():
		in.handleAnswer(fx, c)
	case c.env.isRequest():
		in.handleRequest(fx, c)
	default:
		in.handleNotification(fx, c)
	}
}

// dropCall reports success for a message without passing it on.
func (in *intake) dropCall(fx *effects, c *call, why string) {
	in.log.Warn("message dropped", "why", why, "method", c.env.method)
	fx.afterCommit(func() {
		in.outbox.room.Release(c.weight)
		c.finish(reply{})
	})
}

// handleAnswer takes in the answer to a question of the agent. Only the first answer counts,
// because agents fail on answers to closed questions.
func (in *intake) handleAnswer(fx *effects, c *call) {
	q := in.questions.open[idKey(c.env.bytes(c.env.id))]
	if q == nil {
		in.dropCall(fx, c, "it answers no open question")
		return
	}
	in.questions.answer(fx, q, c.dir(), c.env.rewritten(q.id, nil), c.weight)
	fx.afterCommit(func() { c.finish(reply{}) })
}

// handleRequest gives a request an id of the host's own and adds it to the pending calls.
func (in *intake) handleRequest(fx *effects, c *call) {
	if len(in.pending.byID) >= maxPending || in.pending.kept >= in.host.cfg.MaxMessageBytes {
		fx.refuse(ErrTooManyRequests)
		*fx = effects{batch: fx.batch}
		return
	}
	id := in.pending.add(c)
	fx.onRefusal(func() { in.pending.remove(c) })

	c.attached = in.sessions.byID[c.env.sessionID()]
	if c.needsSession && c.attached == nil {
		in.refuseEnded(fx, c, id)
		return
	}
	if c.opens != nil && !isCreation(c.env.method) {
		// There is one attachedSession for all requests that open it.
		c.opens = in.sessions.beingOpened(c.opens)
	}
	var native []byte
	if s := c.opening(); s != nil {
		native = jsonString(s.native())
	}
	in.recordRequest(fx, c, id)
	at := len(fx.events) - 1
	sent := c.turn.mark(c.sent())
	if in.agent == agentPi {
		sent = piRequest(sent)
	}
	toAgent := sent.rewritten(id, native)
	fx.afterCommit(func() {
		if c.attached != nil && at < len(fx.events) { // commit removes invalid events
			c.sessionSeq = fx.events[at].Seq
		}
		in.outbox.put(toAgent, c.weight)
		in.pending.delivered(c)
		close(c.accepted)
	})
}

// refuseEnded answers a request that goes on with a session that has ended. The agent
// may still have the session, but no client would see what it does there.
func (in *intake) refuseEnded(fx *effects, c *call, id []byte) {
	fx.record(eventlog.Client, nil, c.env.method, c.env.rewritten(id, nil))
	in.failCall(fx, c, codeParams, ErrSessionEnded.Error()+": "+c.env.sessionID())
	fx.undo = nil // it is not pending
	fx.afterCommit(func() { in.outbox.room.Release(c.weight) })
}

// recordRequest logs a request as the clients of its session see it, and changes what
// is known of the session.
func (in *intake) recordRequest(fx *effects, c *call, id []byte) {
	s := c.attached
	switch c.env.method {
	case methodInitialize:
		in.record.Init, in.record.changed = c.env.bytes(c.env.params), true
	case "authenticate":
		in.record.Data, in.record.changed = in.server.encodeData(c.env.bytes(c.env.params)), true
	case "session/prompt":
		if s != nil {
			s.prompts++
			fx.onRefusal(func() { s.prompts-- })
			fx.onRefusal(s.countPrompt(c.env))
			s.linkHistory(c.env, in.host.hasSession)
			fx.markChanged(s)
			if s.preface != "" {
				s.addHistory(fx, c)
			}
		}
	case "session/load", "session/resume":
		if o := c.opening(); o != nil { // the agent may send updates before it answers
			in.sessions.beginOpening(fx, o, c.env.method == "session/load")
		}
	}
	// The added configuration may be secret.
	fx.record(c.dir(), s, c.env.method, c.env.rewritten(id, nil))
}

// addHistory puts the history of the session, which the agent does not know, before a prompt.
func (s *attachedSession) addHistory(fx *effects, c *call) {
	at := c.env.find(c.env.params, "prompt")
	if !at.exists() || c.env.raw[at.from] != '[' {
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
	c.replacement = c.env.with(edit{at, append(blocks, ']')})
	was := *s
	// From now on the new session knows everything.
	s.row.Native, s.newNative, s.preface = s.native(), "", ""
	fx.onRefusal(func() { s.row.Native, s.newNative, s.preface = was.row.Native, was.newNative, was.preface })
}

// handleNotification passes on a notification, or an object that is not JSON-RPC.
func (in *intake) handleNotification(fx *effects, c *call) {
	line := c.env.raw
	s := in.sessions.byID[c.env.sessionID()]
	if s != nil {
		line = c.env.rewritten(nil, jsonString(s.native()))
	}
	if c.env.method == "$/cancel_request" {
		at := c.env.find(c.env.params, "requestId")
		out, ok := in.pending.outgoingID(c.env.bytes(at))
		if !ok {
			in.dropCall(fx, c, "it cancels no open request")
			return
		}
		line = c.env.with(edit{at, strconv.AppendInt(nil, out, 10)})
	}
	fx.record(c.dir(), s, c.env.method, c.env.raw)
	fx.afterCommit(func() {
		in.outbox.put(line, c.weight)
		c.finish(reply{})
	})
	if c.env.method == "session/cancel" && s != nil {
		in.questions.cancelFor(fx, s)
	}
}

// memberOf returns a text in a request's params, for example the chosen mode.
func memberOf(env *envelope, name string) string {
	return stringValue(env.bytes(env.find(env.params, name)))
}
