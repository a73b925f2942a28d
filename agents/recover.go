package agents

import (
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/deskhand/deskhand/agents/eventlog"
)

// recovery completes the records of hosts that are gone: their processes have ended, their
// questions are cancelled, sessions that were in a turn are interrupted, and sessions that
// were being made have failed. A record is completed once, also by several hosts.
type recovery struct {
	cfg     Config
	servers *serverTable
	unseen  map[string]time.Time // since when each host was not seen; owned by watch
}

// start completes the records of hosts that have ended before this one starts.
func (r *recovery) start(ctx context.Context) error {
	if _, err := r.processes(ctx, r.gone); err != nil {
		return err
	}
	return r.starts(ctx, r.gone)
}

// processes completes the records of processes and returns their number.
func (r *recovery) processes(ctx context.Context, gone goneFunc) (completed int, err error) {
	processes, err := r.cfg.Log.Processes(ctx, eventlog.ProcessFilter{Open: true})
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
		if err := r.process(ctx, row); err != nil {
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
func (r *recovery) gone(ctx context.Context, instance string) (bool, error) {
	if instance == r.cfg.Log.Instance() {
		return true, nil
	}
	alive, err := r.cfg.Log.Alive(ctx, instance)
	return !alive, err
}

// starts marks sessions that were being made when their host ended as failed.
func (r *recovery) starts(ctx context.Context, gone goneFunc) error {
	rows, err := r.sessions(ctx, eventlog.SessionFilter{States: []eventlog.State{eventlog.Starting}})
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
		err = r.cfg.Log.Commit(ctx, func(tx *eventlog.Tx) error {
			row, err := tx.Session(row.ID)
			if err != nil || row.State != eventlog.Starting {
				return err // another host has completed it
			}
			const why = "the server ended while the session was being made"
			row.State, row.EndReason, row.EndedAt, row.UpdatedAt = eventlog.Failed, why, time.Now(), time.Now()
			row.Error = encode(sessionFailure{Message: why})
			return putFailed(tx, row, sessionFailure{Message: why})
		})
		if err != nil {
			return fmt.Errorf("complete the record of session %s: %w", row.ID, err)
		}
	}
	return nil
}

// checkElsewhere returns an ElsewhereError if a process whose end is not recorded runs in
// another program that has the log open.
func (r *recovery) checkElsewhere(ctx context.Context, row eventlog.Process) error {
	if row.Instance == r.cfg.Log.Instance() {
		return nil // the log has one host at a time, which is this one
	}
	running, err := r.cfg.Log.Alive(ctx, row.Instance)
	if running {
		err = &ElsewhereError{row.Server, dataOf(row).Address}
	}
	return err
}

// process records the end of a process that ended with its host. A prompt without an
// answer is not sent again, because its effects are not known.
func (r *recovery) process(ctx context.Context, row eventlog.Process) error {
	sessions, err := r.sessions(ctx, eventlog.SessionFilter{Server: row.Server, States: continuableStates})
	if err != nil {
		return err
	}
	exited := exitEvent(exitStatus{}, "")
	return commitNow(ctx, r.cfg.Log, func(tx *eventlog.Tx) error {
		if now, err := tx.Process(row.ID); err != nil || !now.ExitedAt.IsZero() {
			return err // another host has completed it
		}
		now := time.Now()
		event := eventlog.Event{
			Stream: serverStream(row.Server), Process: row.ID, Dir: eventlog.Daemon, Kind: exited.kind, Payload: exited.payload,
		}
		if _, err := tx.Append(event); err != nil {
			return err
		}
		open, err := tx.Requests(eventlog.RequestFilter{Process: row.ID, Pending: true})
		if err != nil {
			return err
		}
		for _, question := range open {
			if _, err := tx.Answer(question.RequestKey, eventlog.Cancelled, nil); err != nil {
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

// sessions returns all pages of a list.
func (r *recovery) sessions(ctx context.Context, f eventlog.SessionFilter) ([]eventlog.Session, error) {
	var all []eventlog.Session
	for cursor := ""; ; {
		page, next, err := r.cfg.Log.Sessions(ctx, f, cursor, 0)
		if err != nil {
			return nil, err
		}
		all = append(all, page...)
		if cursor = next; next == "" {
			return all, nil
		}
	}
}

// watch completes the records of other hosts with the same log that are gone. Without that,
// their sessions would seem to be in a turn, and clients that follow them would wait.
func (r *recovery) watch(ctx context.Context) {
	tick := time.NewTicker(max(r.cfg.GoneAfter/2, time.Millisecond))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if err := r.completeMissing(ctx); err != nil {
			clear(r.unseen) // when Postgres is away, all hosts lose it
			r.cfg.Logger.Debug("look for hosts that are gone", "error", err)
		}
	}
}

// completeMissing completes the records of hosts that were missing for long enough.
func (r *recovery) completeMissing(ctx context.Context) error {
	completed, err := r.processes(ctx, r.missing)
	if err == nil && completed > 0 { // all sessions are looked at for that
		err = r.starts(ctx, r.missing)
	}
	if err == nil {
		err = r.takeBack(ctx)
	}
	maps.DeleteFunc(r.unseen, func(_ string, since time.Time) bool { return time.Since(since) > 3*r.cfg.GoneAfter })
	return err
}

// missing reports whether another host was gone for Config.GoneAfter.
func (r *recovery) missing(ctx context.Context, instance string) (bool, error) {
	if instance == r.cfg.Log.Instance() {
		return false, nil
	}
	alive, err := r.cfg.Log.Alive(ctx, instance)
	if err != nil || alive {
		delete(r.unseen, instance)
		return false, err
	}
	since, known := r.unseen[instance]
	if !known {
		r.unseen[instance] = time.Now()
		return false, nil
	}
	return time.Since(since) >= r.cfg.GoneAfter, nil
}

// takeBack reopens records that another host has completed while this one had lost Postgres,
// since the processes still run. If another host has started or deleted the server, the
// process ends.
func (r *recovery) takeBack(ctx context.Context) error {
	if seen, err := r.cfg.Log.Alive(ctx, r.cfg.Log.Instance()); err != nil || !seen {
		return err // the others would complete them again
	}
	open, err := r.cfg.Log.Processes(ctx, eventlog.ProcessFilter{Instance: r.cfg.Log.Instance(), Open: true})
	if err != nil {
		return err
	}
	known := map[string]bool{}
	for _, row := range open {
		known[row.ID] = true
	}
	for _, p := range r.servers.processes() {
		if !known[p.id] && p.lifecycle.endReason() == "" {
			_ = p.inbox.put(ctx, command{handle: p.intake.reopen}) // a process that has just ended needs no record
		}
	}
	return nil
}

// continuableStates has the states of sessions that can continue.
var continuableStates = []eventlog.State{
	eventlog.Starting, eventlog.Idle, eventlog.Running, eventlog.Waiting, eventlog.Interrupted,
}
