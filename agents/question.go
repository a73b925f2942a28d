package agents

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/deskhand/deskhand/agents/eventlog"
)

// Policy says what is answered to agents that ask for a permission.
type Policy struct {
	// Mode is [Ask], [Allow] or [Reject]. Empty: Ask.
	Mode Mode `json:"mode,omitempty"`

	// Timeout is how long a question waits for somebody's answer before it is
	// cancelled, which ends the turn or the tool call. Zero: for ever.
	Timeout time.Duration `json:"timeout,omitempty"`
}

// Mode is a way to answer.
type Mode string

// The modes. Allow and Reject choose the option that counts for this question
// alone. They never choose one that counts for later questions, too: if the agent
// offers nothing else, Allow leaves the question to clients, as Ask does, and
// Reject cancels it.
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

// set makes it a session's.
func (p Policy) set(t *talk) error {
	t.data.Permissions = p
	t.saveData()
	return nil
}

// The kinds of options, as ACP has them. Their ids differ from agent to agent
// and from version to version; the kinds do not.
const (
	AllowOnce    = "allow_once"
	AllowAlways  = "allow_always"
	RejectOnce   = "reject_once"
	RejectAlways = "reject_always"
)

// question is a request of the agent's that is open.
type question struct {
	key     string // of its id
	id      []byte
	size    int // of its message
	method  string
	talk    *talk // nil: none that is known
	options []Option
	row     eventlog.Request
	timer   *time.Timer // nil: none
	holds   bool        // its session's turn waits for a person's answer
}

// Option is an answer that an agent offers to its question about a permission.
type Option struct {
	ID   string `json:"optionId"`
	Name string `json:"name"`
	Kind string `json:"kind"` // such as [AllowOnce]
}

// hold makes the turn of a question's session wait for it, if it is one for a person
// and the session is there.
func (l *life) hold(b *batch, q *question) {
	if t := q.talk; t != nil && !t.coming && !q.holds && q.method == methodPermission {
		q.holds = true
		t.questions++
		b.change(t)
	}
}

func (q *question) stop() {
	if q.timer != nil {
		q.timer.Stop()
	}
}

const methodPermission = "session/request_permission"

// cancelled is the result of a permission request that no option answers.
var cancelled = []byte(`{"outcome":{"outcome":"cancelled"}}`)

// outcome is the result for the first of the kinds that the agent offers, or nil.
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

// questionOf is a request of the agent's, and what clients see of it.
func (l *life) questionOf(e *envelope) (q *question, line []byte) {
	t, line := l.translate(e)
	return &question{
		key: idKey(e.bytes(e.id)), id: e.bytes(e.id), size: len(e.raw), method: e.method, talk: t,
		row: eventlog.Request{
			RequestKey: eventlog.RequestKey{Life: l.id, Dir: eventlog.Agent, RPC: rpcKey(e.bytes(e.id))},
			Session:    t.id(), PublicID: "req_" + strings.ToLower(rand.Text()), Method: kind(e.method), Params: e.bytes(e.params),
			State: eventlog.Pending, AskedAt: time.Now(),
		},
	}, line
}

// takeQuestion passes a request of the agent's on, and answers it if that is
// the session's policy.
func (l *life) takeQuestion(b *batch, s *step, e *envelope) {
	q, line := l.questionOf(e)
	t := q.talk
	l.publish(s, eventlog.Agent, t, e.method, line)
	if t != nil {
		l.record(s, eventlog.Agent, t, e.method, line)
	}
	if old := l.questions[q.key]; old != nil {
		// An id that is used again: what was asked under it has no answer any more.
		old.stop()
		if old.holds {
			old.talk.questions--
		}
		if old.row.RequestKey != q.row.RequestKey { // see rpcKey
			old.row.State, old.row.AnsweredAt = eventlog.Cancelled, time.Now()
			s.requests = append(s.requests, old.row)
		}
	} else if why := l.tooMany(q); why != "" {
		l.refuseQuestion(s, q, why)
		return
	}
	l.questions[q.key] = q
	s.requests = append(s.requests, q.row)
	if e.method != methodPermission {
		return
	}
	var p struct {
		Options []Option `json:"options"`
	}
	_ = json.Unmarshal(e.bytes(e.params), &p) // a question without options can be cancelled
	q.options = p.Options
	l.hold(b, q)
	l.applyPolicy(b, s, q)
}

// maxQuestions is how many questions of an agent's may be open. All together they
// may be as large as the largest message.
const maxQuestions = 1024

// tooMany says why there is no room for one more question, or nothing.
func (l *life) tooMany(q *question) string {
	if len(l.questions) >= maxQuestions {
		return fmt.Sprintf("%d questions wait for an answer already", maxQuestions)
	}
	size := q.size
	for _, open := range l.questions {
		size += open.size
	}
	if size > l.host.cfg.MaxMessageBytes && len(l.questions) > 0 {
		return fmt.Sprintf("the questions that wait for an answer have %d bytes, and %d are allowed", size, l.host.cfg.MaxMessageBytes)
	}
	return ""
}

// refuseQuestion answers a question for which there is no room, at once. It is
// among the events, but no request that somebody could answer.
func (l *life) refuseQuestion(s *step, q *question, why string) {
	if !l.flooded {
		l.flooded = true
		l.log.Warn("agent asks more than is answered", "why", why, "method", q.method)
	}
	answer := failureOf(q.id, codeInternal, why, nil)
	l.record(s, eventlog.Daemon, q.talk, "response:"+q.method, answer)
	s.after = append(s.after, func() {
		if !l.box.full() {
			l.box.put(answer, 0)
		}
	})
}

// maxRPC bounds the ids that are kept as they are.
const maxRPC = 200

func rpcKey(id []byte) string {
	k := cleaned(string(id))
	if len(k) > maxRPC {
		return k[:maxRPC-30] + "~" + strings.ToLower(rand.Text())
	}
	return k
}

func (l *life) applyPolicy(b *batch, s *step, q *question) {
	policy := l.policyFor(q.talk)
	result := policy.result(q)
	deaf := l.box.full() // it reads no answers: its question waits as if somebody were asked
	if policy.Mode == Allow && result == nil {
		l.log.Warn("the agent offers nothing that allows this once, so its question waits for a client", "session", q.talk.id(), "offered", offers(q.options))
	}
	switch {
	case result != nil && !deaf:
		l.answer(b, s, q, eventlog.Daemon, answerOf(q.id, result), 0)
	case policy.Timeout > 0:
		s.after = append(s.after, func() { q.timer = time.AfterFunc(policy.Timeout, func() { l.expire(q) }) })
	}
}

// result is what the policy answers to a question, or nil.
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

// policyFor is the policy for what is asked in a session; nil: in none that is known.
// That of one which is being opened may have been changed since its row was read.
func (l *life) policyFor(t *talk) Policy {
	switch {
	case t == nil:
		return l.host.cfg.Permissions
	case !t.coming:
		return t.data.Permissions
	}
	row, err := l.host.cfg.Log.Session(l.host.ctx, t.row.ID)
	if err != nil {
		l.log.Warn("the policy of a session is not known, so somebody is asked", "session", t.row.ID, "error", err)
		return Policy{}
	}
	return talkOf(row).data.Permissions
}

// expire cancels a question that waited for too long.
func (l *life) expire(q *question) {
	_ = l.submit(context.Background(), item{decide: &decision{question: q, result: cancelled, dir: eventlog.Daemon}})
}

// cancelQuestions answers what is open of a session whose turn is cancelled, as
// ACP asks of clients.
func (l *life) cancelQuestions(b *batch, s *step, t *talk) {
	for _, q := range l.questions {
		if q.talk == t && q.method == methodPermission {
			l.answer(b, s, q, eventlog.Daemon, answerOf(q.id, cancelled), 0)
		}
	}
}

// decision is the answer to a question that does not come as an envelope.
type decision struct {
	question *question // which; nil: that of the id
	public   string
	reply    Reply
	result   []byte // nil: made of reply
	dir      eventlog.Direction
	done     chan error // nil: nobody waits
}

func (d *decision) finish(err error) {
	select {
	case d.done <- err: // never when it is nil
	default:
	}
}

// fail tells that a decision was not taken. One that nobody made tries again.
func (d *decision) fail(l *life, err error) {
	d.finish(err)
	if q := d.question; q != nil {
		q.timer = time.AfterFunc(retryMost, func() { l.expire(q) })
	}
}

func (l *life) takeDecision(b *batch, s *step, d *decision) {
	q := d.question
	for _, open := range l.questions {
		if q == nil && open.row.PublicID == d.public {
			q = open
		}
	}
	if q == nil || l.questions[q.key] != q {
		d.finish(ErrRequestNotFound)
		return
	}
	if d.question != nil && l.box.full() {
		d.fail(l, nil)
		return
	}
	result, err := d.result, error(nil)
	if result == nil {
		result, err = d.reply.result(q)
	}
	if err != nil {
		d.finish(err)
		return
	}
	s.refuse, s.tell = func(err error) { d.fail(l, err) }, d.finish
	l.answer(b, s, q, d.dir, answerOf(q.id, result), 0)
	s.after = append(s.after, func() { d.finish(nil) })
}

// Reply answers a question of an agent's. One of its members is set, or both
// Kinds and Cancel.
type Reply struct {
	// Kinds are the kinds of options that would do, the best first: the first
	// one that the agent offers is taken, for questions about permissions. If
	// the agent offers none of them, the error is [OptionError], or the
	// question is cancelled if Cancel is set.
	Kinds []string

	// Option is the id of an option, for questions about permissions.
	Option string

	// Cancel says that there will be no answer, for questions about permissions.
	Cancel bool

	// Result is the JSON-RPC result, for all questions.
	Result json.RawMessage
}

// OptionError says that an agent offers no option of the kinds that a [Reply]
// asks for. The question stays open.
type OptionError struct {
	Kinds   []string // of the reply
	Offered []Option
}

func (e *OptionError) Error() string {
	return fmt.Sprintf("the agent offers no %s; it offers %s", strings.Join(e.Kinds, " or "), offers(e.Offered))
}

// offers names options and their kinds.
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
