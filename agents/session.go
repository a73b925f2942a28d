package agents

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

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
	Desktop     string   // that the agent got; empty: none
	Mode        string   // the current one, as far as it was chosen or told
	Model       string   // the same
	Problems    []string // what of its configuration did not work when it was made
}

func sessionOf(row eventlog.Session) Session {
	d := attachedSessionOf(row).data
	return Session{row, d.Permissions, d.Desktop, d.Mode, d.Model, d.Problems}
}

// Session returns a session, or [ErrSessionNotFound].
func (h *Host) Session(ctx context.Context, id string) (Session, error) {
	row, err := h.cfg.Log.Session(ctx, id)
	if errors.Is(err, eventlog.ErrNotFound) {
		err = ErrSessionNotFound
	}
	return sessionOf(row), err
}

// Sessions lists the sessions of all clients by the time at which they were made. The
// cursor is empty at first; next is that of the following page, and empty at the end.
// A limit of 0 is 100.
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

// Requests lists the open questions of the agent in a session, the oldest first.
func (h *Host) Requests(ctx context.Context, session string) ([]eventlog.Request, error) {
	return h.cfg.Log.Requests(ctx, eventlog.RequestFilter{Session: session, Pending: true})
}

// processWithSession returns a process that has the session attached, and starts the
// process or restores the session if need be. If the server is deleted meanwhile, it
// tries once more.
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
	p, err := h.process(ctx, row.Server, PostOptions{Agent: row.Agent}, asClient, nil)
	if err != nil {
		return nil, err
	}
	return p, p.restore(ctx, row.ID)
}

// Turn is a prompt that is in the log.
type Turn struct {
	// Seq is the number of the prompt in the session's stream.
	Seq int64

	process *agentProcess
	call    *call
}

// Prompt passes a prompt, which is a list of ACP's content blocks, to a session. It
// returns once the prompt is in the log. A session whose process has ended is restored
// first.
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
		if err := turn.process.submit(ctx, c); err != nil {
			return err
		}
		if err := turn.process.awaitCommit(ctx, c); err != nil {
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

// Cancel ends the running turn of a session, if there is one. Open questions of the
// agent are answered as cancelled. A prompt that waits for the restoration of its
// session is not a turn yet, and goes on.
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

// SetPermissions changes the policy of a session for questions that its agent asks from
// then on. It may be called while the session is being restored.
func (h *Host) SetPermissions(ctx context.Context, id string, p Policy) error {
	if err := p.check(); err != nil {
		return err
	}
	return h.change(ctx, id, note{}, p.setPolicy)
}
