package agents

import (
	"context"
	"errors"
	"time"

	"github.com/deskhand/deskhand/agents/eventlog"
)

// endedNote tells in a session's stream that it has ended.
func endedNote(reason, message string) note {
	return note{"session/ended", notification("session/ended", struct {
		Reason  string `json:"reason"` // terminated, failed
		Message string `json:"message,omitempty"`
	}{reason, message})}
}

// Terminate ends a session for good, and its process if that is for it alone.
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
	err = h.change(ctx, id, endedNote("terminated", ""), func(t *talk) error {
		t.row.State, t.row.EndReason, t.row.EndedAt = eventlog.Ended, "terminated", time.Now()
		return nil
	})
	if err != nil || row.Server != own(id) {
		return err
	}
	return h.Delete(ctx, row.Server)
}
