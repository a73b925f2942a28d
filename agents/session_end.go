package agents

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/deskhand/deskhand/agents/eventlog"
	"github.com/deskhand/deskhand/internal/cuttext"
)

// endedEvent returns the host event about the end of a session.
func endedEvent(reason string, f sessionFailure) hostEvent {
	return newHostEvent("session/ended", struct {
		Reason string `json:"reason"` // terminated, failed
		sessionFailure
	}{reason, f})
}

// sessionFailure is the reason why a session could not be made. All members except Message are about
// an agent that ended.
type sessionFailure struct {
	Message string `json:"message,omitempty"`
	Agent   string `json:"agent,omitempty"`
	Code    *int   `json:"exitCode,omitempty"`
	Signal  string `json:"signal,omitempty"`
	Stderr  string `json:"stderr,omitempty"`
}

func sessionFailureOf(err error) sessionFailure {
	f := sessionFailure{Message: cuttext.Cut(sanitized(err.Error()), maxErrorText)}
	if e, ok := errors.AsType[*ExitedError](err); ok {
		f.Agent, f.Code, f.Signal, f.Stderr = e.Agent, e.Code, e.Signal, sanitized(e.Stderr)
	}
	return f
}

// stopWait bounds the wait for the end of a turn or of a restoration.
const stopWait = 2 * time.Second

// Terminate ends a session permanently, and its process if no other session can be in there.
// It removes the session's own skills from its folder's configuration. It waits only a
// few seconds for an agent that does not answer. It stops a restoration of the session, whose
// callers get [ErrSessionEnded].
//
// It returns [ErrSessionNotFound] if there is no such session, and nil if the session has
// ended.
func (h *Host) Terminate(ctx context.Context, id string) error {
	row, err := rowOf(ctx, h.cfg.Log, id)
	if err != nil || row.State == eventlog.Ended {
		return err
	}
	defer h.servers.terminate(id)()
	if err := h.stopTurn(ctx, id); err != nil {
		return err
	}
	if err := h.recordTermination(ctx, id); err != nil {
		return err
	}
	h.dropSkills(id, row.Cwd, attachedSessionOf(row).data.Skills)
	if serverOfSession(row) != ownServer(id) {
		return nil
	}
	if err := h.Delete(ctx, ownServer(id)); err != nil {
		return err
	}
	// A client of the server may have opened the session meanwhile.
	return h.recordTermination(ctx, id)
}

// dropSkills removes a session's own skills from the configuration of its folder. hash is
// empty for a session without.
func (h *Host) dropSkills(session, cwd, hash string) {
	if hash == "" {
		return
	}
	if err := h.skills.Drop(session, cwd, hash); err != nil {
		h.cfg.Logger.Warn("a session's skills stay in its folder's configuration", "session", session, "error", err)
	}
}

// stopTurn cancels the turn of a session and stops its restoration. It gives up after
// stopWait.
func (h *Host) stopTurn(ctx context.Context, id string) error {
	p, err := h.processOfSession(ctx, id)
	if p == nil {
		return err
	}
	wait, cancel := context.WithTimeout(ctx, stopWait)
	defer cancel()
	p.restorer.stop(wait, id, ErrSessionEnded)
	err = h.Cancel(wait, id)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		p.log.Warn("the agent does not read that its turn is cancelled", "session", id)
		return nil
	}
	return err
}

// recordTermination records that a session was terminated, unless it has ended.
func (h *Host) recordTermination(ctx context.Context, id string) error {
	err := h.change(ctx, id, endedEvent("terminated", sessionFailure{}), func(s *attachedSession) error {
		if s.row.State == eventlog.Ended {
			return errEndedAlready
		}
		s.row.State, s.row.EndReason, s.row.EndedAt = eventlog.Ended, "terminated", time.Now()
		return nil
	})
	if errors.Is(err, errEndedAlready) {
		return nil
	}
	return err
}

// errEndedAlready prevents that a session is ended twice.
var errEndedAlready = errors.New("the session has ended already")

// failedWait is how long CreateSession waits until its failure is in the log.
const failedWait = 2 * time.Second

// recordFailure records why a session could not be made. It returns after failedWait, and
// continues in the background.
func (h *Host) recordFailure(row eventlog.Session, why error) error {
	ctx := context.WithoutCancel(h.tasks.ctx)
	f := sessionFailureOf(why)
	row.State, row.EndReason, row.EndedAt = eventlog.Failed, f.Message, time.Now()
	row.Error, row.ExitCode, row.UpdatedAt = encode(f), f.Code, row.EndedAt
	_ = h.Delete(ctx, row.Server) // its process, if there is one; the error is known
	write := func(ctx context.Context) error {
		return h.cfg.Log.Commit(ctx, func(tx *eventlog.Tx) error {
			if another, err := madeElsewhere(tx, row, h.cfg.Log.Instance()); another || err != nil {
				return err
			}
			return putFailed(tx, row, f)
		})
	}
	wait, cancel := context.WithTimeout(ctx, failedWait)
	defer cancel()
	written := make(chan error, 1)
	if err := h.tasks.start(func(ctx context.Context) { written <- write(ctx) }); err != nil {
		return write(wait) // the host is being closed
	}
	select {
	case err := <-written:
		return err
	case <-wait.Done():
		return fmt.Errorf("%w: the session's failure is not recorded yet", eventlog.ErrUnavailable)
	}
}

// madeElsewhere reports whether a session that could not be made here was terminated
// meanwhile, or is being made by another host, for which this one seemed gone. here is
// eventlog.Log.Instance.
func madeElsewhere(tx *eventlog.Tx, row eventlog.Session, here string) (bool, error) {
	now, err := tx.Session(row.ID)
	switch {
	case errors.Is(err, eventlog.ErrNotFound):
		return false, nil
	case err != nil:
		return false, err
	case now.State == eventlog.Ended:
		return true, nil
	}
	// Without a maker, the newest process may be of an earlier session.
	if maker := attachedSessionOf(now).data.Maker; maker != "" {
		return maker != here, nil
	}
	newest, err := tx.Processes(eventlog.ProcessFilter{Server: row.Server, Latest: true})
	return err == nil && len(newest) > 0 && newest[0].Instance != here, err
}

// putFailed writes the row of a failed session, and its end into its stream.
func putFailed(tx *eventlog.Tx, row eventlog.Session, f sessionFailure) error {
	if _, err := tx.Append(endedEvent("failed", f).event(row.ID)); err != nil {
		return err
	}
	return tx.PutSession(row)
}
