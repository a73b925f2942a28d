package agents

import (
	"context"
	"errors"
	"time"

	"github.com/deskhand/deskhand/agents/eventlog"
)

// keeper returns the process that has a session's server, or nil. One whose agent
// has ended, or whose server was deleted, keeps its sessions until its end is in
// the log, since it writes their rows once more with that.
func (h *Host) keeper(ctx context.Context, session string) (*life, error) {
	row, err := h.cfg.Log.Session(ctx, session)
	switch {
	case errors.Is(err, eventlog.ErrNotFound):
		return nil, ErrSessionNotFound
	case err != nil:
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
	l := s.newest()
	if l == nil || isClosed(l.done) {
		return nil, nil //nolint:nilnil // nobody has it
	}
	return l, nil
}

// change edits a session, whether a process knows it or not. It waits for one that
// opens it at the moment.
func (h *Host) change(ctx context.Context, id string, n note, f func(*talk) error) error {
	l, err := h.keeper(ctx, id)
	if err != nil {
		return err
	}
	if l != nil {
		if err := l.opened(ctx, id); err != nil {
			return err
		}
	}
	return h.changeNow(ctx, l, id, n, f)
}

// changeNow is change with the session's keeper, which may have let go of it
// meanwhile.
func (h *Host) changeNow(ctx context.Context, l *life, id string, n note, f func(*talk) error) error {
	if l != nil && l.knows(id) {
		err := l.edit(ctx, id, n, f)
		if err == nil || !isClosed(l.done) && !errors.Is(err, ErrSessionNotFound) {
			return err
		}
	}
	return h.commit(ctx, func(tx *eventlog.Tx) error {
		row, err := tx.Session(id)
		if err != nil {
			return err
		}
		t := talkOf(row)
		if err := f(t); err != nil {
			return err
		}
		t.row.UpdatedAt = time.Now()
		if n.kind != "" {
			e := eventlog.Event{Stream: SessionStream(id), Session: id, Dir: eventlog.Daemon, Kind: n.kind, Payload: n.payload}
			if _, err := tx.Append(e); err != nil {
				return err
			}
		}
		return tx.PutSession(t.row)
	})
}
