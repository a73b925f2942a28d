package agents

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/deskhand/deskhand/agents/eventlog"
	"github.com/deskhand/deskhand/internal/cuttext"
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
	event     string // the id of its event in the session's stream
	id        []byte
	size      int // of the message
	method    string
	session   *attachedSession // nil: it is about no attached session
	options   []Option         // the first MaxOptions
	offers    map[string]int   // the number of options by their ids, for the ids in options
	row       eventlog.Request
	timer     *time.Timer // nil: none
	holdsTurn bool        // the session's turn waits for the answer
	span      trace.Span  // nil: none
}

// MaxOptions is how many options of a question count. Options with an id of more than 1 KiB do not
// count. The log has all options.
const MaxOptions = 64

// Option is an option of a question for permission.
type Option struct {
	ID   string `json:"optionId"`
	Name string `json:"name"`
	Kind string `json:"kind"` // such as [AllowOnce]
}

// newQuestion returns a question of a process about a session.
func newQuestion(process string, s *attachedSession, e *envelope) *question {
	id, event, method := e.bytes(e.id), eventlog.NewID(), eventKind(e.method)
	return &question{
		key: idKey(id), event: event, id: id, size: len(e.raw), method: method, session: s,
		row: eventlog.Request{
			RequestKey: eventlog.RequestKey{Process: process, Dir: eventlog.Agent, RPC: string(id)},
			Session:    s.id(), PublicID: QuestionID(event), Method: method, Params: e.bytes(e.params),
			State: eventlog.Pending, AskedAt: time.Now(),
		},
	}
}

// QuestionID returns the public id of a question from the id of its event in the session's stream.
// A JSON-RPC id would not do, because an agent can use it again after the answer.
func QuestionID(event string) string {
	sum := sha256.Sum256([]byte(event))
	return "req_" + hex.EncodeToString(sum[:10])
}

// holdTurn records that the turn of the session waits for a question for permission.
func (q *question) holdTurn(fx *effects) {
	if s := q.session; s != nil && !s.pendingOpen && !q.holdsTurn && q.waitsForUser() {
		q.holdsTurn = true
		s.questions++
		fx.markChanged(s)
	}
}

// cancel records that a question gets no answer.
func (q *question) cancel(fx *effects) {
	q.row.State, q.row.AnsweredAt = eventlog.Cancelled, time.Now()
	fx.requests = append(fx.requests, q.row)
}

// stop ends the timer and the span of a question that is over.
func (q *question) stop() {
	if q.timer != nil {
		q.timer.Stop()
	}
	if q.span != nil {
		q.span.End()
	}
}

// waitsForUser reports whether the question is for the user: about permission, or a form.
func (q *question) waitsForUser() bool {
	return q.method == methodPermission || q.method == MethodForm
}

// cancelled returns the result of a cancelled question.
func (q *question) cancelled() []byte {
	if q.method == MethodForm {
		return formCancelled
	}
	return cancelled
}

const methodPermission = "session/request_permission"

// cancelled is the result of a cancelled question for permission.
var cancelled = []byte(`{"outcome":{"outcome":"cancelled"}}`)

// setOptions sets what the agent offers.
func (q *question) setOptions(all []Option) {
	all = slices.DeleteFunc(all, func(o Option) bool { return len(o.ID) > maxID })
	q.options, q.offers = nil, map[string]int{}
	for _, o := range all[:min(len(all), MaxOptions)] {
		q.options = append(q.options, Option{o.ID, cuttext.Cut(o.Name, maxTitle), cuttext.Cut(o.Kind, maxTitle)})
		q.offers[o.ID] = 0
	}
	for _, o := range all {
		if n, counts := q.offers[o.ID]; counts {
			q.offers[o.ID] = n + 1
		}
	}
}

// outcome returns the result for the first of the kinds that the agent offers, or nil. It passes
// over options that share their id: the agent may take one for another.
func (q *question) outcome(kinds ...string) []byte {
	for _, kind := range kinds {
		if i := slices.IndexFunc(q.options, func(o Option) bool { return o.Kind == kind && q.offers[o.ID] == 1 }); i >= 0 {
			return selectedOutcome(q.options[i].ID)
		}
	}
	return nil
}

func selectedOutcome(option string) []byte {
	return append(append([]byte(`{"outcome":{"outcome":"selected","optionId":`), jsonString(option)...), "}}"...)
}

// recordedAnswer returns an answer for the record of its question. Of one that the log would drop
// it is what was decided.
func recordedAnswer(line []byte) []byte {
	if len(line) <= eventlog.MaxAnswer {
		return line
	}
	var a struct {
		Result struct {
			Action  string `json:"action,omitempty"` // of a form
			Outcome struct {
				Outcome string `json:"outcome,omitempty"`
				Option  string `json:"optionId,omitempty"`
			} `json:"outcome"`
		} `json:"result"`
	}
	_ = json.Unmarshal(line, &a) // what is not as in ACP is left out
	r := &a.Result
	for _, text := range []*string{&r.Action, &r.Outcome.Outcome, &r.Outcome.Option} {
		if len(*text) > maxID {
			*text = ""
		}
	}
	short, _ := json.Marshal(a) // texts can be encoded
	return short
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
	return fmt.Sprintf("the agent offers no %s; it offers %s", strings.Join(e.Kinds, " or "), describeOptions(e.Offered))
}

func describeOptions(options []Option) string {
	if len(options) == 0 {
		return "no options"
	}
	var all []string
	for _, o := range options {
		all = append(all, fmt.Sprintf("%.100q (%.100s)", o.Name, o.Kind))
	}
	return strings.Join(all, ", ")
}

func (r Reply) result(q *question) ([]byte, error) {
	switch {
	case r.Result != nil:
		return r.Result, nil
	case q.method == MethodForm && r.Cancel:
		return formDeclined, nil
	case q.method != methodPermission:
		return nil, &InvalidError{"result", "is needed, since the question is about no permission"}
	case r.Option != "":
		if !slices.ContainsFunc(q.options, func(o Option) bool { return o.ID == r.Option }) {
			return nil, &InvalidError{"option", "the agent offers no such option"}
		}
		return selectedOutcome(r.Option), nil
	}
	if result := q.outcome(r.Kinds...); result != nil {
		return result, nil
	}
	if r.Cancel {
		return cancelled, nil
	}
	return nil, &OptionError{r.Kinds, q.options}
}

// result returns the policy's answer to a question, or nil.
func (p Policy) result(q *question) []byte {
	if q.method == MethodForm {
		if p.Mode == Reject {
			return formDeclined
		}
		return nil
	}
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

// maxParams bounds the parameters of a question that Question returns.
const maxParams = 8 << 20

// Question returns the open question with a public id, or [ErrRequestNotFound], also if there is
// no such session. An empty session selects all sessions. Params above 8 MiB are left out, which
// ParamsLeftOut reports.
func (h *Host) Question(ctx context.Context, session, id string) (eventlog.Request, error) {
	rows, err := h.cfg.Log.Requests(ctx, eventlog.RequestFilter{Session: session, PublicID: id, Pending: true, MaxParams: maxParams})
	if err != nil {
		return eventlog.Request{}, err
	}
	if len(rows) == 0 || id == "" {
		return eventlog.Request{}, ErrRequestNotFound
	}
	return rows[0], nil
}

// Answer answers the question with a public id, and returns when the answer is in the log.
// Only the first answer counts. Later ones get [ErrRequestNotFound]. The session is as for
// [Host.Question].
//
// It returns an [OptionError] if the agent offers no option of the kinds in r, an
// [InvalidError] if r does not fit the question, and an [ElsewhereError] if the agent runs in
// another host.
func (h *Host) Answer(ctx context.Context, session, request string, r Reply) error {
	q, err := h.Question(ctx, session, request)
	if err != nil {
		return err
	}
	for _, p := range h.servers.processes() {
		if p.id == q.Process {
			return p.reply(ctx, request, r)
		}
	}
	asker, err := h.cfg.Log.Process(ctx, q.Process)
	if err != nil || !asker.ExitedAt.IsZero() {
		return cmp.Or(err, ErrRequestNotFound)
	}
	return cmp.Or(h.recovery.checkElsewhere(ctx, asker), ErrRequestNotFound)
}

// reply answers the question with a public id.
func (p *agentProcess) reply(ctx context.Context, public string, r Reply) error {
	err := p.inbox.execute(ctx, func(fx *effects, finish func(error)) {
		if err := p.intake.questions.reply(fx, public, r); err != nil {
			finish(err)
			return
		}
		fx.afterCommit(func() { finish(nil) })
	})
	if err != nil && isClosed(p.inbox.done) {
		return ErrRequestNotFound
	}
	return err
}
