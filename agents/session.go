package agents

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/deskhand/deskhand/agents/eventlog"
)

// Values of Session.Origin.
const (
	originACP = "acp"
	originGo  = "go"
)

// Session describes a session.
type Session struct {
	eventlog.Session
	Permissions Policy
	Desktop     string   // of the agent; empty: none
	Mode        string   // the current mode; empty: unknown
	Model       string   // the current model; empty: unknown
	Problems    []string // parts of its configuration that did not work when it was made

	Prompt       string          // the first line of the first prompt; empty: there was none
	Turns        int             // prompts of clients
	WaitingSince time.Time       // zero: no turn waits for an answer
	Archived     bool            // [Host.SetArchived] was called
	Models       json.RawMessage // the models that the agent offers, as in ACP; nil: it offers none
}

func sessionOf(row eventlog.Session) Session {
	d := attachedSessionOf(row).data
	s := Session{
		Session: row, Permissions: d.Permissions, Desktop: d.Desktop, Mode: d.Mode, Model: d.Model, Problems: d.Problems,
		Prompt: d.Prompt, Turns: d.Turns, Models: d.Models, Archived: d.Archived,
	}
	if row.State == eventlog.Waiting { // a host that was killed left it otherwise
		s.WaitingSince = d.WaitingSince
	}
	return s
}

// Session returns a session, or [ErrSessionNotFound].
func (h *Host) Session(ctx context.Context, id string) (Session, error) {
	row, err := rowOf(ctx, h.cfg.Log, id)
	return sessionOf(row), err
}

// rowOf returns the row of a session, or ErrSessionNotFound.
func rowOf(ctx context.Context, log *eventlog.Log, id string) (eventlog.Session, error) {
	row, err := log.Session(ctx, id)
	if errors.Is(err, eventlog.ErrNotFound) {
		err = ErrSessionNotFound
	}
	return row, err
}

// Sessions lists the sessions of all clients, ordered by creation. The first page has an
// empty cursor. next is the cursor of the next page, or empty. A limit of 0 is 100, and the
// largest is 1000. Pages with large sessions have fewer. The error for another cursor is an [*eventlog.InvalidError].
func (h *Host) Sessions(ctx context.Context, f eventlog.SessionFilter, cursor string, limit int) (page []Session, next string, err error) {
	rows, next, err := h.cfg.Log.Sessions(ctx, f, cursor, limit)
	page = make([]Session, 0, len(rows))
	for _, row := range rows {
		page = append(page, sessionOf(row))
	}
	return page, next, err
}

// Log returns Config.Log. [SessionStream] names the stream of a session.
func (h *Host) Log() *eventlog.Log { return h.cfg.Log }

// Requests lists the open questions of an agent in a session, the oldest first. The list is
// empty if there is no such session.
func (h *Host) Requests(ctx context.Context, session string) ([]eventlog.Request, error) {
	return h.cfg.Log.Requests(ctx, eventlog.RequestFilter{Session: session, Pending: true})
}

// processWithSession returns a process that has the session attached, and starts the
// process or restores the session if need be. If the server is deleted meanwhile, it
// tries once more.
func (h *Host) processWithSession(ctx context.Context, id string) (p *agentProcess, err error) {
	for range 2 {
		row, err := rowOf(ctx, h.cfg.Log, id)
		switch {
		case err != nil:
			return nil, err
		case !slices.Contains(continuableStates, row.State):
			return nil, ErrSessionEnded
		case row.State == eventlog.Starting:
			return nil, ErrSessionStarting
		}
		o := PostOptions{Agent: row.Agent, Desktop: attachedSessionOf(row).data.Desktop}
		p, err = h.process(ctx, serverOfSession(row), o, hostInitialize, nil)
		if err == nil {
			err = p.restorer.restore(ctx, id)
		}
		if !errors.Is(err, ErrServerNotFound) {
			return p, err
		}
	}
	return nil, ErrServerNotFound
}

// Turn is a prompt that is in the log.
type Turn struct {
	// Seq is the number of the prompt in the session's stream.
	Seq int64

	process *agentProcess
	call    *call
}

// Prompt passes a prompt, a list of ACP's content blocks, to a session. It returns when the
// prompt is in the log, not when the turn ends. If the session's process has ended, Prompt
// restores the session and waits for that.
//
// Errors: the errors of [Host.Post], [ErrSessionNotFound], [ErrSessionStarting] and
// [ErrSessionEnded], which is also the error for a session that failed. If ctx ends first,
// the prompt may still be passed on. With an error the Turn must not be used.
func (h *Host) Prompt(ctx context.Context, id string, prompt json.RawMessage) (*Turn, error) {
	var blocks []json.RawMessage
	if err := json.Unmarshal(prompt, &blocks); err != nil || blocks == nil {
		return nil, &InvalidError{"prompt", "must be a list of content blocks"}
	}
	turn := &Turn{}
	err := retryResting(func() error {
		c, err := newClientCall("session/prompt", true, struct {
			Session string            `json:"sessionId"`
			Prompt  []json.RawMessage `json:"prompt"`
		}{id, blocks})
		if err != nil {
			return err
		}
		if turn.process, err = h.processWithSession(ctx, id); err != nil {
			return err
		}
		turn.call, c.needsSession = c, true
		if err := turn.process.submit(ctx, c); err != nil {
			return err
		}
		if err := turn.process.awaitCommit(ctx, c); err != nil {
			return err
		}
		if turn.Seq = c.sessionSeq; turn.Seq == 0 {
			return ErrSessionEnded // before the prompt was in the log
		}
		return nil
	})
	return turn, err
}

// Wait waits for the end of the turn, without a time limit, and returns the result of
// session/prompt. The end of ctx ends only the wait. Wait may be called again, and by several
// goroutines.
//
// Errors: [ResponseError] for the agent's answer, the errors of [Host.Post], and the error of
// ctx.
func (t *Turn) Wait(ctx context.Context) (json.RawMessage, error) {
	raw, err := t.process.await(ctx, t.call)
	if err != nil {
		return nil, err
	}
	return resultOf("session/prompt", raw)
}

// Cancel asks the agent to end the running turn of a session, and cancels the agent's open
// questions. It returns when that is in the log and does not wait for the end of the turn.
// It returns nil if no process has the session open or the process is ending,
// [ErrSessionNotFound] if there is no such session, and an [ElsewhereError] if another host
// runs the agent. It does not cancel a prompt that waits for the restoration of its session.
func (h *Host) Cancel(ctx context.Context, id string) error {
	p, err := h.processOfSession(ctx, id)
	switch {
	case p == nil || !p.intake.sessions.isOpen(id):
		return err
	case p.lifecycle.endReason() != "" || isClosed(p.child.done): // the turn ends with the process
		return p.lifecycle.lostError()
	}
	c, err := newClientCall("session/cancel", false, map[string]string{"sessionId": id})
	if err == nil {
		_, err = p.send(ctx, c)
	}
	return err
}

// SetTitle changes the title of a session. Its agent may change it again. It returns an
// [InvalidError] if title has more than 1024 bytes, and [ErrSessionNotFound] if there is no such
// session.
func (h *Host) SetTitle(ctx context.Context, id, title string) error {
	if len(title) > maxTitle {
		return &InvalidError{"title", fmt.Sprintf("must have at most %d bytes", maxTitle)}
	}
	return h.change(ctx, id, hostEvent{}, func(s *attachedSession) error {
		s.row.Title = sanitized(title)
		return nil
	})
}

// SetArchived marks a session as archived, or takes the mark away. The mark is for lists: an
// archived session works as before. SetArchived returns [ErrSessionNotFound] if there is no
// such session.
func (h *Host) SetArchived(ctx context.Context, id string, archived bool) error {
	return h.change(ctx, id, hostEvent{}, func(s *attachedSession) error {
		s.data.Archived = archived
		s.saveData()
		return nil
	})
}

// Questions lists the open questions of the agents to their users, about permission and forms,
// in sessions that wait for an answer, the oldest first. An empty session selects all sessions.
// The questions have no Params: [Host.Question] returns these.
func (h *Host) Questions(ctx context.Context, session string) (open []eventlog.Request, err error) {
	if session != "" {
		return questionsOf(ctx, h, session)
	}
	for cursor, more := "", true; more; more = cursor != "" {
		var page []eventlog.Session
		if page, cursor, err = h.cfg.Log.Sessions(ctx, eventlog.SessionFilter{States: []eventlog.State{eventlog.Waiting}}, cursor, 0); err != nil {
			return nil, err
		}
		for _, row := range page {
			questions, err := questionsOf(ctx, h, row.ID)
			if err != nil {
				return nil, err
			}
			open = append(open, questions...)
		}
	}
	slices.SortStableFunc(open, func(a, b eventlog.Request) int { return a.AskedAt.Compare(b.AskedAt) })
	return open, nil
}

func questionsOf(ctx context.Context, h *Host, session string) ([]eventlog.Request, error) {
	all, err := h.cfg.Log.Requests(ctx, eventlog.RequestFilter{Session: session, Pending: true, MaxParams: -1})
	return slices.DeleteFunc(all, func(r eventlog.Request) bool {
		return r.Dir != eventlog.Agent || r.Method != methodPermission && r.Method != MethodForm
	}), err
}

// SetPermissions changes the policy of a session for later questions of its agent. It may
// be called while the session is being restored. It returns an [InvalidError] if p is not
// valid, and [ErrSessionNotFound] if there is no such session.
func (h *Host) SetPermissions(ctx context.Context, id string, p Policy) error {
	if err := p.check(); err != nil {
		return err
	}
	return h.change(ctx, id, hostEvent{}, func(s *attachedSession) error {
		s.data.Permissions = p
		s.saveData()
		return nil
	})
}
