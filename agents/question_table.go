package agents

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/deskhand/deskhand/agents/eventlog"
	"github.com/deskhand/deskhand/internal/cuttext"
)

// questionTable holds the open questions of an agent, of which each has another id. A question
// leaves the table with its first answer, so that the agent gets one answer. agentProcess.run
// owns the table.
type questionTable struct {
	open     map[string]*question // by idKey
	closing  map[string]bool      // keys of questions whose answers are not committed yet
	warned   []string             // the warnings that were written
	maxBytes int
	total    *atomic.Int64                // bytes of the open questions of all agents
	counted  int                          // the part of this table in total
	policy   Policy                       // for questions about no session
	stored   func(string) (Policy, error) // reads the policy of a session from the log

	inbox  *inbox
	outbox *outbox
	log    *slog.Logger
}

// Bounds of open questions. The questions of an agent may have maxBytes together, and the
// questions of all agents maxAllQuestions. An agent always has room for freeQuestions, so that
// no other agent can take all of it.
const (
	maxQuestions    = 1024
	maxAllQuestions = 128 << 20
	freeQuestions   = 1 << 20
)

// size returns the bytes of the questions.
func (t *questionTable) size() (n int) {
	for _, q := range t.open {
		n += q.size
	}
	return n
}

// count makes total right after a change of the table.
func (t *questionTable) count() {
	size := t.size()
	t.total.Add(int64(size - t.counted))
	t.counted = size
}

// close forgets the questions of a process that has ended.
func (t *questionTable) close() {
	for _, q := range t.open {
		q.stop()
	}
	clear(t.open)
	t.count()
}

// uses reports whether a question with the JSON-RPC id waits for its answer.
func (t *questionTable) uses(id []byte) bool {
	key := idKey(id)
	return t.open[key] != nil || t.closing[key]
}

// ask adds a question, or answers it by the session's policy. The table must not use its id.
func (t *questionTable) ask(fx *effects, q *question) {
	if refusal := t.tooMany(q); refusal != "" {
		t.refuse(fx, q, refusal)
		return
	}
	t.open[q.key] = q
	fx.requests = append(fx.requests, q.row)
	if !q.waitsForUser() {
		return
	}
	var params struct {
		Options []Option `json:"options"`
	}
	_ = json.Unmarshal(q.row.Params, &params) // a question without options can be cancelled
	q.setOptions(params.Options)
	q.holdTurn(fx)
	t.applyPolicy(fx, q)
}

// tooMany returns why there is no room for one more question, or "".
func (t *questionTable) tooMany(q *question) string {
	if len(t.open) >= maxQuestions {
		return fmt.Sprintf("%d questions wait for an answer already", maxQuestions)
	}
	size := t.size() + q.size
	if size > t.maxBytes && len(t.open) > 0 {
		return fmt.Sprintf("the questions that wait for an answer have %d bytes, and %d are allowed", size, t.maxBytes)
	}
	all, most := int(t.total.Load())-t.counted+size, max(maxAllQuestions, t.maxBytes)
	if all > most && size > freeQuestions {
		return fmt.Sprintf("the questions of all agents that wait for an answer have %d bytes, and %d are allowed", all, most)
	}
	return ""
}

// refuse answers a question for which there is no room with an error. The question is among
// the events but not among the open requests.
func (t *questionTable) refuse(fx *effects, q *question, why string) {
	t.warn("the agent has too many open questions", "why", why, "method", q.method)
	q.stop()
	answer := errorAnswer(q.id, codeInternal, why, nil)
	fx.record(eventlog.Daemon, q.session, "response:"+q.method, answer)
	fx.afterCommit(func() {
		if !t.outbox.full() {
			t.outbox.put(answer, 0)
		}
	})
}

// warn writes each warning once, because the agent can give cause for it with every message.
func (t *questionTable) warn(text string, args ...any) {
	if !slices.Contains(t.warned, text) {
		t.warned = append(t.warned, text)
		t.log.Warn(text, args...)
	}
}

func (t *questionTable) applyPolicy(fx *effects, q *question) {
	policy := t.policyFor(q.session)
	result := policy.result(q)
	if policy.Mode == Allow && result == nil && q.method == methodPermission {
		t.warn("the agent offers nothing that allows this once, so its question waits for a client", "session", q.session.id(), "offered", cuttext.Cut(describeOptions(q.options), 1000))
	}
	switch {
	case result != nil && !t.outbox.full(): // an agent that reads no answers waits for a client
		t.answer(fx, q, eventlog.Daemon, resultAnswer(q.id, result), 0)
	case policy.Timeout > 0:
		fx.afterCommit(func() {
			if t.open[q.key] == q { // it is not over in the batch that it came with
				t.expireAfter(policy.Timeout, q)
			}
		})
	}
}

// policyFor returns the policy of a session, or the host's for nil. It reads the policy of a
// session that is being opened from the log, since it may have changed.
func (t *questionTable) policyFor(s *attachedSession) Policy {
	switch {
	case s == nil:
		return t.policy
	case !s.pendingOpen:
		return s.data.Permissions
	}
	policy, err := t.stored(s.row.ID)
	if err != nil {
		t.warn("the policy of a session is not known, so its question waits for a client", "session", s.row.ID, "error", err)
	}
	return policy
}

// expireAfter cancels a question after some time.
func (t *questionTable) expireAfter(d time.Duration, q *question) {
	again := func(error) { t.expireAfter(retryMost, q) }
	q.timer = time.AfterFunc(d, func() {
		_ = t.inbox.put(context.Background(), command{refuse: again, handle: func(fx *effects) {
			switch {
			case t.open[q.key] != q: // it is answered
			case t.outbox.full():
				again(nil)
			default:
				fx.refuse = again
				t.answer(fx, q, eventlog.Daemon, resultAnswer(q.id, q.cancelled()), 0)
			}
		}})
	})
}

// answer closes a question with a message for the agent.
func (t *questionTable) answer(fx *effects, q *question, dir eventlog.Direction, line []byte, weight int64) {
	delete(t.open, q.key)
	t.closing[q.key] = true
	row, held := q.row, q.holdsTurn
	if held {
		q.holdsTurn = false
		q.session.questions--
		fx.markChanged(q.session)
	}
	fx.onRefusal(func() {
		delete(t.closing, q.key)
		t.open[q.key], q.row = q, row
		if held {
			q.holdsTurn = true
			q.session.questions++
		}
	})
	fx.record(dir, q.session, "response:"+q.method, line)
	q.row.State, q.row.Answer, q.row.AnsweredAt = eventlog.Answered, recordedAnswer(line), time.Now()
	fx.requests = append(fx.requests, q.row)
	fx.afterCommit(func() {
		delete(t.closing, q.key)
		q.stop()
		t.outbox.put(line, weight)
	})
}

// reply answers the question with a public id.
func (t *questionTable) reply(fx *effects, public string, r Reply) error {
	for _, q := range t.open {
		if q.row.PublicID != public {
			continue
		}
		result, err := r.result(q)
		if err == nil {
			t.answer(fx, q, eventlog.Client, resultAnswer(q.id, result), 0)
		}
		return err
	}
	return ErrRequestNotFound
}

// cancelFor cancels the questions of a session whose turn is cancelled, as ACP requires of
// clients.
func (t *questionTable) cancelFor(fx *effects, s *attachedSession) {
	for _, q := range t.open {
		if q.session == s && q.waitsForUser() {
			t.answer(fx, q, eventlog.Daemon, resultAnswer(q.id, q.cancelled()), 0)
		}
	}
}
