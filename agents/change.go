package agents

import (
	"context"
	"errors"
	"time"

	"github.com/deskhand/deskhand/agents/eventlog"
)

// processOfSession returns the process of a session's server, or nil. A process owns its
// sessions' rows until its end is in the log.
func (h *Host) processOfSession(ctx context.Context, session string) (*agentProcess, error) {
	row, err := rowOf(ctx, h.cfg.Log, session)
	if err != nil {
		return nil, err
	}
	id := serverOfSession(row)
	_, s := h.servers.get(id)
	if s == nil {
		if s, err = h.find(ctx, id); errors.Is(err, ErrServerNotFound) {
			return nil, nil //nolint:nilnil // no process owns it
		}
		if err != nil {
			return nil, err
		}
	}
	p := s.newestProcess()
	if p == nil || isClosed(p.inbox.done) {
		return nil, nil //nolint:nilnil // no process owns it
	}
	return p, nil
}

// change edits a session, whether a process has it attached or not.
func (h *Host) change(ctx context.Context, id string, n hostEvent, f func(*attachedSession) error) error {
	p, err := h.processOfSession(ctx, id)
	if err != nil {
		return err
	}
	if p != nil && p.intake.sessions.isKnown(id) {
		err := p.edit(ctx, id, n, f)
		if err == nil || !isClosed(p.inbox.done) && !errors.Is(err, ErrSessionNotFound) {
			return err
		}
	}
	for {
		if err := h.changeRow(ctx, id, n, f); err != nil {
			return err
		}
		// A process that opened it before this commit does not know the change. One that
		// opens it later reads it.
		p, err := h.processOfSession(ctx, id)
		if p == nil {
			return err
		}
		n = hostEvent{} // it is in the log
		err = p.edit(ctx, id, n, f)
		if errors.Is(err, ErrSessionNotFound) {
			return nil
		}
		if err == nil || !isClosed(p.inbox.done) {
			return err
		}
	}
}

// changeRow edits the row of a session.
func (h *Host) changeRow(ctx context.Context, id string, n hostEvent, f func(*attachedSession) error) error {
	return commitNow(ctx, h.cfg.Log, func(tx *eventlog.Tx) error {
		row, err := tx.Session(id)
		if err != nil {
			return err
		}
		s := attachedSessionOf(row)
		if err := f(s); err != nil {
			return err
		}
		s.row.UpdatedAt = time.Now()
		if n.kind != "" {
			if _, err := tx.Append(n.event(id)); err != nil {
				return err
			}
		}
		return tx.PutSession(s.row)
	})
}

// edit changes an attached session, and adds a host event to its stream unless it is empty.
func (p *agentProcess) edit(ctx context.Context, session string, n hostEvent, f func(*attachedSession) error) error {
	return p.inbox.execute(ctx, func(fx *effects, finish func(error)) { p.intake.edit(fx, session, n, f, finish) })
}
