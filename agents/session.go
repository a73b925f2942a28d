package agents

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"

	"github.com/deskhand/deskhand/agents/eventlog"
)

// What a session was made by.
const (
	originACP = "acp"
	originGo  = "go"
)

// Session describes a session.
type Session struct {
	eventlog.Session
	Permissions Policy
	Desktop     string   // that the agent got; empty: none
	Mode        string   // the current one, as far as it was chosen or told
	Model       string   // the same
	Problems    []string // what of its configuration did not work when it was made
}

func sessionOf(row eventlog.Session) Session {
	d := attachedSessionOf(row).data
	return Session{row, d.Permissions, d.Desktop, d.Mode, d.Model, d.Problems}
}

// processOfServer returns the running process of a server for a caller in Go, which may
// start it whatever became of the one before.
func (h *Host) processOfServer(ctx context.Context, id string, o PostOptions) (*agentProcess, error) {
	s, err := h.find(ctx, id)
	if errors.Is(err, ErrServerNotFound) {
		s, err = h.fresh(id), nil
	}
	if err != nil {
		return nil, err
	}
	p, err := s.ensureProcess(ctx, o, asClient)
	if err != nil {
		h.forget(s)
	}
	return p, err
}

// Session returns a session, or [ErrSessionNotFound].
func (h *Host) Session(ctx context.Context, id string) (Session, error) {
	row, err := h.cfg.Log.Session(ctx, id)
	if errors.Is(err, eventlog.ErrNotFound) {
		err = ErrSessionNotFound
	}
	return sessionOf(row), err
}

// Sessions lists sessions, whoever made them, by the time at which they were
// made. The cursor is empty at first; next is that of the following page, and
// empty at the end. A limit of 0 is 100.
func (h *Host) Sessions(ctx context.Context, f eventlog.SessionFilter, cursor string, limit int) (page []Session, next string, err error) {
	rows, next, err := h.cfg.Log.Sessions(ctx, f, cursor, limit)
	page = make([]Session, 0, len(rows))
	for _, row := range rows {
		page = append(page, sessionOf(row))
	}
	return page, next, err
}

// Log is the log that the host was given. Everything of a session is in its
// stream [SessionStream].
func (h *Host) Log() *eventlog.Log { return h.cfg.Log }

// Requests lists the questions of agents that are open in a session, the oldest
// first.
func (h *Host) Requests(ctx context.Context, session string) ([]eventlog.Request, error) {
	return h.cfg.Log.Requests(ctx, eventlog.RequestFilter{Session: session, Pending: true})
}

// processWithSession returns a process that knows the session, started and told of it if
// need be. When the server is deleted meanwhile, it looks once more what has
// become of the session.
func (h *Host) processWithSession(ctx context.Context, id string) (*agentProcess, error) {
	p, err := h.processWithSessionOnce(ctx, id)
	if errors.Is(err, ErrServerNotFound) {
		return h.processWithSessionOnce(ctx, id)
	}
	return p, err
}

func (h *Host) processWithSessionOnce(ctx context.Context, id string) (*agentProcess, error) {
	row, err := h.cfg.Log.Session(ctx, id)
	switch {
	case errors.Is(err, eventlog.ErrNotFound):
		return nil, ErrSessionNotFound
	case err != nil:
		return nil, err
	case !slices.Contains(alive, row.State):
		return nil, ErrSessionEnded
	case row.State == eventlog.Starting:
		return nil, ErrSessionStarting
	}
	row.Server = serverOfSession(row)
	p, err := h.processOfServer(ctx, row.Server, PostOptions{Agent: row.Agent})
	if err != nil {
		return nil, err
	}
	return p, p.restore(ctx, row)
}

// Turn is a prompt that was passed on.
type Turn struct {
	// Seq is the number of the prompt in the session's stream.
	Seq int64

	process *agentProcess
	call    *call
}

// Prompt passes a prompt to a session: a list of content blocks, as ACP has
// them. It returns once it is in the log. A session whose process has ended is
// restored first.
//
// Errors, beside those of [Host.Post]: [ErrSessionNotFound], [ErrSessionEnded],
// [InvalidError].
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
		turn.call, c.goesOn = c, true
		if err := turn.process.submitCommitted(ctx, c); err != nil {
			return err
		}
		if turn.Seq = c.asked; turn.Seq == 0 {
			return ErrSessionEnded // since it was looked up
		}
		return nil
	})
	return turn, err
}

// Wait waits for the end of the turn and returns its result. It may be called
// once.
func (t *Turn) Wait(ctx context.Context) (json.RawMessage, error) {
	raw, err := t.process.await(ctx, t.call)
	if err != nil {
		return nil, err
	}
	return resultOf("session/prompt", raw)
}

// Cancel ends the turn of a session that is under way, if there is one. What
// the agent asks at the moment is answered as cancelled. A prompt that waits until
// its session is restored is no turn yet, and goes on.
func (h *Host) Cancel(ctx context.Context, id string) error {
	p, err := h.runningProcess(ctx, id)
	switch {
	case p == nil || !p.sessions.isOpen(id):
		return err
	case p.isEnding(): // and what is under way with it
		return p.lostError()
	}
	c, err := newClientCall("session/cancel", false, map[string]string{"sessionId": id})
	if err == nil {
		_, err = p.send(ctx, c)
	}
	return err
}

// runningProcess returns the process of a session's server, or nil.
func (h *Host) runningProcess(ctx context.Context, id string) (*agentProcess, error) {
	row, err := h.cfg.Log.Session(ctx, id)
	switch {
	case errors.Is(err, eventlog.ErrNotFound):
		return nil, ErrSessionNotFound
	case err != nil:
		return nil, err
	}
	s, err := h.find(ctx, serverOfSession(row))
	if errors.Is(err, ErrServerNotFound) {
		return nil, nil //nolint:nilnil // none runs
	}
	if err != nil {
		return nil, err
	}
	return s.runningProcess(), nil
}

// Answer answers a question of the agent's: request is its public id. The first
// answer counts; later ones get [ErrRequestNotFound]. The agent must run here:
// [ElsewhereError].
func (h *Host) Answer(ctx context.Context, session, request string, r Reply) error {
	rows, err := h.cfg.Log.Requests(ctx, eventlog.RequestFilter{Session: session, PublicID: request, Pending: true})
	if err != nil {
		return err
	}
	if len(rows) == 0 || request == "" {
		return ErrRequestNotFound
	}
	for _, s := range h.allServers() {
		p := s.runningProcess()
		if p == nil || p.id != rows[0].Life {
			continue
		}
		return p.sendDecision(ctx, &decision{public: request, reply: r, dir: eventlog.Client, done: make(chan error, 1)})
	}
	asker, err := h.cfg.Log.Life(ctx, rows[0].Life)
	if err != nil || !asker.ExitedAt.IsZero() {
		return cmp.Or(err, ErrRequestNotFound)
	}
	running, err := h.runsElsewhere(ctx, asker)
	if running {
		err = &ElsewhereError{asker.Server}
	}
	return cmp.Or(err, ErrRequestNotFound)
}

// sendDecision submits a decision and waits for what becomes of it.
func (p *agentProcess) sendDecision(ctx context.Context, d *decision) error {
	if err := p.enqueue(ctx, command{decide: d}); err != nil {
		return err
	}
	select {
	case err := <-d.done:
		return err
	case <-p.done:
		select {
		case err := <-d.done: // it came before the end
			return err
		default:
			return ErrRequestNotFound
		}
	case <-ctx.Done():
		return ctx.Err()
	}
}

// SetPermissions changes the policy of a session, also while it is being opened,
// for what its agent asks from then on. Questions that are open stay.
func (h *Host) SetPermissions(ctx context.Context, id string, p Policy) error {
	if err := p.check(); err != nil {
		return err
	}
	return h.change(ctx, id, note{}, p.setPolicy)
}
