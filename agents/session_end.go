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

// Terminate ends a session for good, and its process if that is for it alone.
// Skills of its own leave its folder's configuration.
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
	if err := h.Cancel(ctx, id); err != nil {
		return err
	}
	err = h.change(ctx, id, endedNote("terminated", failed{}), func(t *talk) error {
		t.row.State, t.row.EndReason, t.row.EndedAt = eventlog.Ended, "terminated", time.Now()
		return nil
	})
	if err != nil {
		return err
	}
	h.dropSkills(id, row.Cwd, talkOf(row).data.Skills)
	if row.Server != own(id) {
		return nil
	}
	return h.Delete(ctx, row.Server)
}

// failedWait is how long CreateSession waits until its failure is written down.
const failedWait = 2 * time.Second

// failed writes down why a session could not be made; behind the caller's back
// if the log does not take it soon.
func (h *Host) failed(row eventlog.Session, why error) error {
	ctx := context.WithoutCancel(h.ctx)
	row.State, row.EndReason, row.EndedAt = eventlog.Failed, cut(cleaned(why.Error()), 4<<10), time.Now()
	f := failedBy(why)
	row.Error, row.ExitCode, row.UpdatedAt = encode(f), f.Code, row.EndedAt
	_ = h.Delete(ctx, row.Server) // its process, if there is one; the error is known
	write := func(ctx context.Context) error {
		return h.cfg.Log.Commit(ctx, func(tx *eventlog.Tx) error { return putFailed(tx, row, f) })
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

// putFailed writes a failed session, with its end in its stream.
func putFailed(tx *eventlog.Tx, row eventlog.Session, f failed) error {
	n := endedNote("failed", f)
	e := eventlog.Event{Stream: SessionStream(row.ID), Session: row.ID, Dir: eventlog.Daemon, Kind: n.kind, Payload: n.payload}
	if _, err := tx.Append(e); err != nil {
		return err
	}
	return tx.PutSession(row)
}
