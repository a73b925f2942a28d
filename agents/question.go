package agents

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/deskhand/deskhand/agents/eventlog"
)

// Policy decides about an agent's questions for permission.
type Policy struct {
	// Mode is [Ask], [Allow] or [Reject]. Empty: Ask.
	Mode Mode `json:"mode,omitempty"`

	// Timeout is how long a question waits for a client's answer before it is cancelled,
	// which ends the turn or the tool call. Zero: no limit.
	Timeout time.Duration `json:"timeout,omitempty"`
}

// Mode is a way to answer questions.
type Mode string

// The modes. Ask leaves questions to clients. Allow and Reject choose an option that counts
// once. If the agent offers no such option, Allow leaves the question to clients, and Reject
// cancels it.
const (
	Ask    Mode = "ask"
	Allow  Mode = "allow"
	Reject Mode = "reject"
)

func (p Policy) check() error {
	switch p.Mode {
	case "", Ask, Allow, Reject:
	default:
		return &InvalidError{"permissions.mode", "must be ask, allow or reject"}
	}
	if p.Timeout < 0 {
		return &InvalidError{"permissions.timeout", "must not be negative"}
	}
	return nil
}

// The kinds of options in ACP. Agents choose the ids of options, but not the kinds.
const (
	AllowOnce    = "allow_once"
	AllowAlways  = "allow_always"
	RejectOnce   = "reject_once"
	RejectAlways = "reject_always"
)

// question is an open request of the agent.
type question struct {
	key       string // the idKey of id
	id        []byte
	size      int // of the message
	method    string
	session   *attachedSession // nil: it is about no attached session
	options   []Option         // the first maxOptions
	row       eventlog.Request
	timer     *time.Timer // nil: none
	holdsTurn bool        // the session's turn waits for the answer
}

// Option is an option of a question for permission.
type Option struct {
	ID   string `json:"optionId"`
	Name string `json:"name"`
	Kind string `json:"kind"` // such as [AllowOnce]
}

// holdTurn records that the turn of a session waits for a question for permission.
func (p *agentProcess) holdTurn(b *commitBatch, q *question) {
	if s := q.session; s != nil && !s.pendingOpen && !q.holdsTurn && q.method == methodPermission {
		q.holdsTurn = true
		s.questions++
		b.markChanged(s)
	}
}

func (q *question) stop() {
	if q.timer != nil {
		q.timer.Stop()
	}
}

const methodPermission = "session/request_permission"

// cancelled is the result of a cancelled question for permission.
var cancelled = []byte(`{"outcome":{"outcome":"cancelled"}}`)

// outcome returns the result for the first of the kinds that the agent offers, or nil.
func (q *question) outcome(kinds ...string) []byte {
	for _, kind := range kinds {
		if i := slices.IndexFunc(q.options, func(o Option) bool { return o.Kind == kind }); i >= 0 {
			return selected(q.options[i].ID)
		}
	}
	return nil
}

func selected(option string) []byte {
	return append(append([]byte(`{"outcome":{"outcome":"selected","optionId":`), quote(option)...), "}}"...)
}

// questionOf returns a question, and the message for clients.
func (p *agentProcess) questionOf(e *envelope) (q *question, line []byte) {
	s, line := p.translate(e)
	return &question{
		key: idKey(e.bytes(e.id)), id: e.bytes(e.id), size: len(e.raw), method: e.method, session: s,
		row: eventlog.Request{
			RequestKey: eventlog.RequestKey{Process: p.id, Dir: eventlog.Agent, RPC: rpcKey(e.bytes(e.id))},
			Session:    s.id(), PublicID: "req_" + strings.ToLower(rand.Text()), Method: kind(e.method), Params: e.bytes(e.params),
			State: eventlog.Pending, AskedAt: time.Now(),
		},
	}, line
}

// handleQuestion passes on a question, or answers it by the session's policy.
func (p *agentProcess) handleQuestion(b *commitBatch, fx *effects, e *envelope) {
	q, line := p.questionOf(e)
	s := q.session
	p.publish(fx, eventlog.Agent, s, e.method, line)
	if s != nil {
		p.recordMessage(fx, eventlog.Agent, s, e.method, line)
	}
	old := p.questions[q.key]
	if old != nil {
		// The agent uses the id again, so the old question gets no answer.
		old.stop()
		if old.holdsTurn {
			old.session.questions--
		}
		delete(p.questions, q.key)
	}
	refusal := p.tooMany(q)
	if old != nil && (refusal != "" || old.row.RequestKey != q.row.RequestKey) { // see rpcKey
		old.row.State, old.row.AnsweredAt = eventlog.Cancelled, time.Now()
		fx.requests = append(fx.requests, old.row)
	}
	if refusal != "" {
		p.refuseQuestion(fx, q, refusal)
		return
	}
	p.questions[q.key] = q
	fx.requests = append(fx.requests, q.row)
	if e.method != methodPermission {
		return
	}
	var params struct {
		Options []Option `json:"options"`
	}
	_ = json.Unmarshal(e.bytes(e.params), &params) // a question without options can be cancelled
	q.options = slices.Clone(params.Options[:min(len(params.Options), maxOptions)])
	p.holdTurn(b, q)
	p.applyPolicy(b, fx, q)
}

// maxOptions bounds the options of a question that count. The log has all options.
const maxOptions = 64

// maxQuestions bounds the open questions of an agent. Together they may be as large as the
// largest message.
const maxQuestions = 1024

// tooMany returns why there is no room for one more question, or "".
func (p *agentProcess) tooMany(q *question) string {
	if len(p.questions) >= maxQuestions {
		return fmt.Sprintf("%d questions wait for an answer already", maxQuestions)
	}
	size := q.size
	for _, open := range p.questions {
		size += open.size
	}
	if size > p.host.cfg.MaxMessageBytes && len(p.questions) > 0 {
		return fmt.Sprintf("the questions that wait for an answer have %d bytes, and %d are allowed", size, p.host.cfg.MaxMessageBytes)
	}
	return ""
}

// refuseQuestion answers a question for which there is no room with an error. The question is
// among the events but not among the open requests.
func (p *agentProcess) refuseQuestion(fx *effects, q *question, why string) {
	if !p.warnedOfQuestions {
		p.warnedOfQuestions = true
		p.log.Warn("the agent has too many open questions", "why", why, "method", q.method)
	}
	answer := failureOf(q.id, codeInternal, why, nil)
	p.recordMessage(fx, eventlog.Daemon, q.session, "response:"+q.method, answer)
	fx.deliver = append(fx.deliver, func() {
		if !p.box.full() {
			p.box.put(answer, 0)
		}
	})
}

// maxRPC bounds the ids in the log. Longer ones are cut.
const maxRPC = 200

func rpcKey(id []byte) string {
	k := cleaned(string(id))
	if len(k) > maxRPC {
		return k[:maxRPC-30] + "~" + strings.ToLower(rand.Text())
	}
	return k
}

func (p *agentProcess) applyPolicy(b *commitBatch, fx *effects, q *question) {
	policy := p.policyFor(q.session)
	result := policy.result(q)
	deaf := p.box.full() // the agent reads no answers, so its question waits for a client
	if policy.Mode == Allow && result == nil {
		p.log.Warn("the agent offers nothing that allows this once, so its question waits for a client", "session", q.session.id(), "offered", cut(offers(q.options), 1000))
	}
	switch {
	case result != nil && !deaf:
		p.answerQuestion(b, fx, q, eventlog.Daemon, answerOf(q.id, result), 0)
	case policy.Timeout > 0:
		fx.deliver = append(fx.deliver, func() { q.timer = time.AfterFunc(policy.Timeout, func() { p.expire(q) }) })
	}
}

// result returns the policy's answer to a question, or nil.
func (p Policy) result(q *question) []byte {
	switch p.Mode {
	case Allow:
		return q.outcome(AllowOnce)
	case Reject:
		if r := q.outcome(RejectOnce); r != nil {
			return r
		}
		return cancelled
	case Ask:
	}
	return nil
}

// policyFor returns the policy of a session, or the host's for nil. It reads the policy of a
// session that is being opened from the log, since it may have changed.
func (p *agentProcess) policyFor(s *attachedSession) Policy {
	switch {
	case s == nil:
		return p.host.cfg.Permissions
	case !s.pendingOpen:
		return s.data.Permissions
	}
	row, err := p.host.cfg.Log.Session(p.host.ctx, s.row.ID)
	if err != nil {
		p.log.Warn("the policy of a session is not known, so its question waits for a client", "session", s.row.ID, "error", err)
		return Policy{}
	}
	return attachedSessionOf(row).data.Permissions
}

// expire cancels a question whose time is over.
func (p *agentProcess) expire(q *question) {
	again := func(error) { q.timer = time.AfterFunc(retryMost, func() { p.expire(q) }) }
	_ = p.enqueue(context.Background(), command{refuse: again, handle: func(b *commitBatch, fx *effects) {
		switch {
		case p.questions[q.key] != q: // it is answered
		case p.box.full():
			again(nil)
		default:
			fx.refuse = again
			p.answerQuestion(b, fx, q, eventlog.Daemon, answerOf(q.id, cancelled), 0)
		}
	}})
}

// cancelQuestions cancels the questions of a session whose turn is cancelled, as ACP requires
// of clients.
func (p *agentProcess) cancelQuestions(b *commitBatch, fx *effects, s *attachedSession) {
	for _, q := range p.questions {
		if q.session == s && q.method == methodPermission {
			p.answerQuestion(b, fx, q, eventlog.Daemon, answerOf(q.id, cancelled), 0)
		}
	}
}

// Reply is the answer to a question. One of its members is set, or Kinds and Cancel. Kinds,
// Option and Cancel are for questions for permission.
type Reply struct {
	// Kinds lists kinds of options, the best first. The first kind that the agent offers is
	// chosen. If it offers none, the question is cancelled if Cancel is set, or else the
	// error is an [OptionError].
	Kinds []string

	// Option is the id of an option.
	Option string

	// Cancel cancels the question.
	Cancel bool

	// Result is the JSON-RPC result.
	Result json.RawMessage
}

// OptionError reports that an agent offers no option of the kinds in a [Reply]. The question
// stays open.
type OptionError struct {
	Kinds   []string // of the reply
	Offered []Option
}

func (e *OptionError) Error() string {
	return fmt.Sprintf("the agent offers no %s; it offers %s", strings.Join(e.Kinds, " or "), offers(e.Offered))
}

func offers(options []Option) string {
	if len(options) == 0 {
		return "no options"
	}
	var all []string
	for _, o := range options {
		all = append(all, fmt.Sprintf("%q (%s)", o.Name, o.Kind))
	}
	return strings.Join(all, ", ")
}

func (r Reply) result(q *question) ([]byte, error) {
	switch {
	case r.Result != nil:
		return r.Result, nil
	case q.method != methodPermission:
		return nil, &InvalidError{"result", "is needed, since the question is about no permission"}
	case r.Option != "":
		if !slices.ContainsFunc(q.options, func(o Option) bool { return o.ID == r.Option }) {
			return nil, &InvalidError{"option", "the agent offers no such option"}
		}
		return selected(r.Option), nil
	}
	if result := q.outcome(r.Kinds...); result != nil {
		return result, nil
	}
	if r.Cancel {
		return cancelled, nil
	}
	return nil, &OptionError{r.Kinds, q.options}
}

// Answer answers the question with a public id, and returns when the answer is in the log.
// Only the first answer counts. Later ones get [ErrRequestNotFound].
//
// It returns an [OptionError] if the agent offers no option of the kinds in r, an
// [InvalidError] if r does not fit the question, and an [ElsewhereError] if the agent runs in
// another host.
func (h *Host) Answer(ctx context.Context, session, request string, r Reply) error {
	rows, err := h.cfg.Log.Requests(ctx, eventlog.RequestFilter{Session: session, PublicID: request, Pending: true})
	if err != nil {
		return err
	}
	if len(rows) == 0 || request == "" {
		return ErrRequestNotFound
	}
	for _, s := range h.allServers() {
		if p := s.newestProcess(); p != nil && p.id == rows[0].Process {
			return p.reply(ctx, request, r)
		}
	}
	asker, err := h.cfg.Log.Process(ctx, rows[0].Process)
	if err != nil || !asker.ExitedAt.IsZero() {
		return cmp.Or(err, ErrRequestNotFound)
	}
	return cmp.Or(h.checkElsewhere(ctx, asker), ErrRequestNotFound)
}

// reply answers the question with a public id.
func (p *agentProcess) reply(ctx context.Context, public string, r Reply) error {
	err := p.execute(ctx, func(b *commitBatch, fx *effects, finish func(error)) {
		for _, q := range p.questions {
			if q.row.PublicID != public {
				continue
			}
			result, err := r.result(q)
			if err != nil {
				finish(err)
				return
			}
			p.answerQuestion(b, fx, q, eventlog.Client, answerOf(q.id, result), 0)
			fx.deliver = append(fx.deliver, func() { finish(nil) })
			return
		}
		finish(ErrRequestNotFound)
	})
	if err != nil && isClosed(p.done) {
		return ErrRequestNotFound
	}
	return err
}
