package agents

import (
	"context"
	"errors"
	"slices"
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

// change edits a session, whether a process knows it or not. One that opens it at
// the moment takes the change over.
func (h *Host) change(ctx context.Context, id string, n note, f func(*talk) error) error {
	l, err := h.keeper(ctx, id)
	if err != nil {
		return err
	}
	if l != nil && l.knows(id) {
		err := l.edit(ctx, id, n, f)
		if err == nil || !isClosed(l.done) && !errors.Is(err, ErrSessionNotFound) {
			return err
		}
	}
	for {
		if err := h.changeRow(ctx, id, n, f); err != nil {
			return err
		}
		// A process that has opened it before this was in the log does not know it;
		// who opens it later takes it over.
		l, err := h.keeper(ctx, id)
		if l == nil {
			return err
		}
		n = note{} // which is there
		err = l.edit(ctx, id, n, f)
		if errors.Is(err, ErrSessionNotFound) {
			return nil
		}
		if err == nil || !isClosed(l.done) {
			return err
		}
	}
}

// changeRow changes what the log has of a session.
func (h *Host) changeRow(ctx context.Context, id string, n note, f func(*talk) error) error {
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

// takeOver puts into the rows of sessions what was changed in the log between the
// reading of them, for the process to open these sessions, and this moment, from
// which on the process has them. It returns the policies that hold.
func takeOver(tx *eventlog.Tx, rows []eventlog.Session, opened map[*talk]struct{}) (map[*talk]Policy, error) {
	now := map[*talk]Policy{}
	for t := range opened {
		i := slices.IndexFunc(rows, func(row eventlog.Session) bool { return row.ID == t.row.ID })
		there, err := tx.Session(t.row.ID)
		if i < 0 || errors.Is(err, eventlog.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		is := talkOf(rows[i])
		is.data.Permissions = talkOf(there).data.Permissions
		is.saveData()
		rows[i], now[t] = is.row, is.data.Permissions
	}
	return now, nil
}
