package agents

import (
	"context"
	"fmt"
	"time"

	"github.com/deskhand/deskhand/agents/eventlog"
)

// recover completes the records of hosts that are gone.
func (h *Host) recover(ctx context.Context) error {
	if _, err := h.recoverLives(ctx, h.gone); err != nil {
		return err
	}
	return h.recoverStarts(ctx, h.gone)
}

// recoverLives completes the records of processes and returns their number.
func (h *Host) recoverLives(ctx context.Context, gone goneFunc) (completed int, err error) {
	processes, err := h.cfg.Log.Processes(ctx, eventlog.ProcessFilter{Open: true})
	if err != nil {
		return 0, err
	}
	for _, row := range processes {
		over, err := gone(ctx, row.Instance)
		if err != nil {
			return completed, err
		}
		if !over {
			continue
		}
		if err := h.recoverProcess(ctx, row); err != nil {
			return completed, fmt.Errorf("complete the record of %s: %w", row.Server, err)
		}
		completed++
	}
	return completed, nil
}

// goneFunc reports whether the host with an instance of the log is gone.
type goneFunc func(ctx context.Context, instance string) (bool, error)

// gone is the goneFunc of a starting host. A host with the same instance of the log was
// closed before.
func (h *Host) gone(ctx context.Context, instance string) (bool, error) {
	if instance == h.cfg.Log.Instance() {
		return true, nil
	}
	alive, err := h.cfg.Log.Alive(ctx, instance)
	return !alive, err
}

// recoverStarts marks sessions that were being made when their host ended as failed.
func (h *Host) recoverStarts(ctx context.Context, gone goneFunc) error {
	rows, err := h.sessionsIn(ctx, eventlog.SessionFilter{States: []eventlog.State{eventlog.Starting}})
	if err != nil {
		return err
	}
	for _, row := range rows {
		over, err := gone(ctx, attachedSessionOf(row).data.Maker)
		if err != nil {
			return err
		}
		if !over {
			continue
		}
		err = h.cfg.Log.Commit(ctx, func(tx *eventlog.Tx) error {
			row, err := tx.Session(row.ID)
			if err != nil || row.State != eventlog.Starting {
				return err // another host was quicker
			}
			const why = "the server ended while the session was being made"
			row.State, row.EndReason, row.EndedAt, row.UpdatedAt = eventlog.Failed, why, time.Now(), time.Now()
			row.Error = encode(failed{Message: why})
			return putFailed(tx, row, failed{Message: why})
		})
		if err != nil {
			return fmt.Errorf("complete the record of session %s: %w", row.ID, err)
		}
	}
	return nil
}

// checkElsewhere returns an ElsewhereError if a process whose end is not recorded runs in
// another program that has the log open.
func (h *Host) checkElsewhere(ctx context.Context, row eventlog.Process) error {
	if row.Instance == h.cfg.Log.Instance() {
		return nil // the log has one host at a time
	}
	running, err := h.cfg.Log.Alive(ctx, row.Instance)
	if running {
		err = &ElsewhereError{row.Server}
	}
	return err
}

// recoverProcess records the end of a process that ended with its host. A prompt without an
// answer is not sent again, because its effects are not known.
func (h *Host) recoverProcess(ctx context.Context, row eventlog.Process) error {
	sessions, err := h.sessionsOf(ctx, row.Server)
	if err != nil {
		return err
	}
	exited := exitEvent(ended{}, "")
	return h.commit(ctx, func(tx *eventlog.Tx) error {
		if now, err := tx.Process(row.ID); err != nil || !now.ExitedAt.IsZero() {
			return err // another host was quicker
		}
		now := time.Now()
		event := eventlog.Event{
			Stream: published(row.Server), Process: row.ID, Dir: eventlog.Daemon, Kind: "_adapter/agent_exited", Payload: exited,
		}
		if _, err := tx.Append(event); err != nil {
			return err
		}
		open, err := tx.Requests(eventlog.RequestFilter{Process: row.ID, Pending: true})
		if err != nil {
			return err
		}
		for _, r := range open {
			if _, err := tx.Answer(r.RequestKey, eventlog.Cancelled, nil); err != nil {
				return err
			}
		}
		for _, s := range sessions {
			event.Stream, event.Session = SessionStream(s.ID), s.ID
			if _, err := tx.Append(event); err != nil {
				return err
			}
			if s.State == eventlog.Running || s.State == eventlog.Waiting {
				s.State, s.EndReason, s.UpdatedAt = eventlog.Interrupted, "the server ended in the middle of a turn", now
				if err := tx.PutSession(s); err != nil {
					return err
				}
			}
		}
		row := row
		row.ExitedAt = now
		if row.Reason != endedDeleted {
			row.Reason = endedServer
		}
		return tx.PutProcess(row)
	})
}

func (h *Host) sessionsOf(ctx context.Context, server string) ([]eventlog.Session, error) {
	return h.sessionsIn(ctx, eventlog.SessionFilter{Server: server, States: alive})
}

// sessionsIn returns all pages of a list.
func (h *Host) sessionsIn(ctx context.Context, f eventlog.SessionFilter) ([]eventlog.Session, error) {
	var all []eventlog.Session
	for cursor := ""; ; {
		page, next, err := h.cfg.Log.Sessions(ctx, f, cursor, 0)
		if err != nil {
			return nil, err
		}
		all = append(all, page...)
		if cursor = next; next == "" {
			return all, nil
		}
	}
}

// alive has the states of sessions that can continue.
var alive = []eventlog.State{
	eventlog.Starting, eventlog.Idle, eventlog.Running, eventlog.Waiting, eventlog.Interrupted,
}
