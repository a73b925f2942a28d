package agents

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/deskhand/deskhand/agents/eventlog"
)

// endedNote tells in a session's stream that it has ended.
func endedNote(reason string, f failed) note {
	return note{"session/ended", notification("session/ended", struct {
		Reason string `json:"reason"` // terminated, failed
		failed
	}{reason, f})}
}

// failed is why a session could not be made. All but Message is about an agent
// that ended.
type failed struct {
	Message string `json:"message,omitempty"`
	Agent   string `json:"agent,omitempty"`
	Code    *int   `json:"exitCode,omitempty"`
	Signal  string `json:"signal,omitempty"`
	Stderr  string `json:"stderr,omitempty"`
}

func failedBy(err error) failed {
	f := failed{Message: err.Error()}
	if e, ok := errors.AsType[*ExitedError](err); ok {
		f.Agent, f.Code, f.Signal, f.Stderr = e.Agent, e.Code, e.Signal, cleaned(e.Stderr)
	}
	return f
}

// stopWait is how long Terminate waits for what hangs, each time that it does.
const stopWait = 2 * time.Second

// Terminate ends a session for good, and its process if that is for it alone.
// Skills of its own leave its folder's configuration. It waits neither for an
// agent that does not answer nor for a session that is being restored: who needs
// that gets [ErrSessionEnded].
func (h *Host) Terminate(ctx context.Context, id string) error {
	row, err := h.cfg.Log.Session(ctx, id)
	switch {
	case errors.Is(err, eventlog.ErrNotFound):
		return ErrSessionNotFound
	case err != nil:
		return err
	case row.State == eventlog.Ended:
		return nil
	}
	defer h.terminating(id)()
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
	// A client of the server itself may have opened it in between.
	return h.recordTermination(ctx, id)
}

// terminating keeps everybody from opening a session until the function is
// called that it returns.
func (h *Host) terminating(session string) func() {
	h.mu.Lock()
	h.leaving[session]++
	h.mu.Unlock()
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.leaving[session]--; h.leaving[session] == 0 {
			delete(h.leaving, session)
		}
	}
}

func (h *Host) isTerminating(session string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.leaving[session] > 0
}

// stopTurn cancels the turn of a session and stops its restoration. It gives up after
// stopWait.
func (h *Host) stopTurn(ctx context.Context, id string) error {
	p, err := h.runningProcess(ctx, id)
	if p == nil {
		return err
	}
	wait, cancel := context.WithTimeout(ctx, stopWait)
	defer cancel()
	p.stopRestoring(wait, id)
	err = h.Cancel(wait, id)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		p.log.Warn("the agent does not read that its turn is cancelled", "session", id)
		return nil
	}
	return err
}

// recordTermination records that a session was terminated, unless it has ended.
func (h *Host) recordTermination(ctx context.Context, id string) error {
	row, err := h.cfg.Log.Session(ctx, id)
	if err != nil || row.State == eventlog.Ended {
		return err
	}
	err = h.change(ctx, id, endedNote("terminated", failed{}), func(s *attachedSession) error {
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

// errEndedAlready keeps a session from being ended twice.
var errEndedAlready = errors.New("the session has ended already")

// failedWait is how long CreateSession waits until its failure is written down.
const failedWait = 2 * time.Second

// recordFailure writes down why a session could not be made; behind the caller's back
// if the log does not take it soon.
func (h *Host) recordFailure(row eventlog.Session, why error) error {
	ctx := context.WithoutCancel(h.ctx)
	row.State, row.EndReason, row.EndedAt = eventlog.Failed, cut(cleaned(why.Error()), 4<<10), time.Now()
	f := failedBy(why)
	row.Error, row.ExitCode, row.UpdatedAt = encode(f), f.Code, row.EndedAt
	_ = h.Delete(ctx, row.Server) // its process, if there is one; the error is known
	write := func(ctx context.Context) error {
		return h.cfg.Log.Commit(ctx, func(tx *eventlog.Tx) error {
			if another, err := h.madeElsewhere(tx, row); another || err != nil {
				return err
			}
			return putFailed(tx, row, f)
		})
	}
	wait, cancel := context.WithTimeout(ctx, failedWait)
	defer cancel()
	written := make(chan error, 1)
	if err := h.task(func(ctx context.Context) { written <- write(ctx) }); err != nil {
		return write(wait) // the host is being closed
	}
	select {
	case err := <-written:
		return err
	case <-wait.Done():
		return fmt.Errorf("%w: the session's failure is not written down yet", eventlog.ErrUnavailable)
	}
}

// madeElsewhere tells whether a session that could not be made was terminated meanwhile,
// or is made by another host that has taken this one for gone.
func (h *Host) madeElsewhere(tx *eventlog.Tx, row eventlog.Session) (bool, error) {
	now, err := tx.Session(row.ID)
	switch {
	case errors.Is(err, eventlog.ErrNotFound):
		return false, nil
	case err != nil:
		return false, err
	case now.State == eventlog.Ended:
		return true, nil
	}
	here := h.cfg.Log.Instance()
	// A process may be one of before: this host need not have got as far as to start one.
	if maker := attachedSessionOf(now).data.Maker; maker != "" {
		return maker != here, nil
	}
	newest, err := tx.Lives(eventlog.LifeFilter{Server: row.Server, Latest: true})
	return err == nil && len(newest) > 0 && newest[0].Instance != here, err
}

// putFailed writes a failed session, with its end in its stream.
func putFailed(tx *eventlog.Tx, row eventlog.Session, f failed) error {
	n := endedNote("failed", f)
	e := eventlog.Event{Stream: SessionStream(row.ID), Session: row.ID, Dir: eventlog.Daemon, Kind: n.kind, Payload: n.payload}
	if _, err := tx.Append(e); err != nil {
		return err
	}
	return tx.PutSession(row)
}
