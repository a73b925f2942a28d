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
	row, err := h.row(ctx, session)
	if err != nil {
		return nil, err
	}
	id := serverOfSession(row)
	h.mu.Lock()
	e := h.ending[id]
	h.mu.Unlock()
	var s *server
	if e != nil {
		s = e.s
	} else if s, err = h.find(ctx, id); err != nil {
		if errors.Is(err, ErrServerNotFound) {
			err = nil
		}
		return nil, err
	}
	p := s.newestProcess()
	if p == nil || isClosed(p.done) {
		return nil, nil //nolint:nilnil // no process owns it
	}
	return p, nil
}

// change edits a session, whether a process has it attached or not.
func (h *Host) change(ctx context.Context, id string, n note, f func(*attachedSession) error) error {
	p, err := h.processOfSession(ctx, id)
	if err != nil {
		return err
	}
	if p != nil && p.sessions.isKnown(id) {
		err := p.edit(ctx, id, n, f)
		if err == nil || !isClosed(p.done) && !errors.Is(err, ErrSessionNotFound) {
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
		n = note{} // it is in the log
		err = p.edit(ctx, id, n, f)
		if errors.Is(err, ErrSessionNotFound) {
			return nil
		}
		if err == nil || !isClosed(p.done) {
			return err
		}
	}
}

// changeRow edits the row of a session.
func (h *Host) changeRow(ctx context.Context, id string, n note, f func(*attachedSession) error) error {
	return h.commit(ctx, func(tx *eventlog.Tx) error {
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
			e := eventlog.Event{Stream: SessionStream(id), Session: id, Dir: eventlog.Daemon, Kind: n.kind, Payload: n.payload}
			if _, err := tx.Append(e); err != nil {
				return err
			}
		}
		return tx.PutSession(s.row)
	})
}

// note is an event for a session's stream.
type note struct {
	kind    string
	payload []byte
}

// edit changes an attached session, and adds a note to its stream unless the note is
// empty.
func (p *agentProcess) edit(ctx context.Context, session string, n note, f func(*attachedSession) error) error {
	return p.execute(ctx, func(b *commitBatch, fx *effects, finish func(error)) {
		s := p.sessions.byID[session]
		if s == nil {
			finish(ErrSessionNotFound)
			return
		}
		was := *s
		if err := f(s); err != nil {
			// Earlier changes of the session are in the log by then.
			fx.deliver = append(fx.deliver, func() { finish(err) })
			return
		}
		b.markChanged(s)
		if n.kind != "" {
			p.recordMessage(fx, eventlog.Daemon, s, n.kind, n.payload)
		}
		fx.undo = append(fx.undo, func() { s.row, s.data, s.making, s.opening = was.row, was.data, was.making, was.opening })
		fx.deliver = append(fx.deliver, func() {
			switch {
			case s.row.State == eventlog.Ended:
				p.sessions.detach(s)
			case p.sessions.byID[session] == s: // it is still attached
				p.sessions.open(s)
			}
			finish(nil)
		})
	})
}
