package agents

import (
	"context"
	"maps"
	"time"

	"github.com/deskhand/deskhand/agents/eventlog"
)

// watch completes the records of other hosts with the same log that are gone. Without that,
// their sessions would seem to be in a turn, and clients that follow them would wait.
func (h *Host) watch(ctx context.Context) {
	tick := time.NewTicker(max(h.cfg.GoneAfter/2, time.Millisecond))
	defer tick.Stop()
	missed := map[string]time.Time{}
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if err := h.recoverMissing(ctx, missed); err != nil {
			clear(missed) // when Postgres is away, all hosts lose it
			h.cfg.Logger.Debug("look for hosts that are gone", "error", err)
		}
	}
}

// recoverMissing completes the records of hosts that were missing for long enough. missed has
// the time since which each host was not seen.
func (h *Host) recoverMissing(ctx context.Context, missed map[string]time.Time) error {
	gone := func(ctx context.Context, instance string) (bool, error) { return h.missing(ctx, instance, missed) }
	completed, err := h.recoverLives(ctx, gone)
	if err == nil && completed > 0 { // all sessions are looked at for that
		err = h.recoverStarts(ctx, gone)
	}
	if err == nil {
		err = h.takeBack(ctx)
	}
	maps.DeleteFunc(missed, func(_ string, since time.Time) bool { return time.Since(since) > 3*h.cfg.GoneAfter })
	return err
}

// missing reports whether another host was gone for Config.GoneAfter.
func (h *Host) missing(ctx context.Context, instance string, missed map[string]time.Time) (bool, error) {
	if instance == h.cfg.Log.Instance() {
		return false, nil
	}
	alive, err := h.cfg.Log.Alive(ctx, instance)
	if err != nil || alive {
		delete(missed, instance)
		return false, err
	}
	since, known := missed[instance]
	if !known {
		missed[instance] = time.Now()
		return false, nil
	}
	return time.Since(since) >= h.cfg.GoneAfter, nil
}

// takeBack reopens records that another host has completed while this one had lost Postgres,
// since the processes still run.
func (h *Host) takeBack(ctx context.Context) error {
	if seen, err := h.cfg.Log.Alive(ctx, h.cfg.Log.Instance()); err != nil || !seen {
		return err // the others would complete them again
	}
	open, err := h.cfg.Log.Processes(ctx, eventlog.ProcessFilter{Instance: h.cfg.Log.Instance(), Open: true})
	if err != nil {
		return err
	}
	known := map[string]bool{}
	for _, row := range open {
		known[row.ID] = true
	}
	for _, s := range h.allServers() {
		p := s.newestProcess()
		if p == nil || known[p.id] || p.isEnding() {
			continue
		}
		if err := p.takeBack(ctx); err != nil {
			return err
		}
	}
	return nil
}

// takeBack reopens the record of a process that runs. If another host has started or deleted
// the server, the process ends.
func (p *agentProcess) takeBack(ctx context.Context) error {
	err := p.host.cfg.Log.Commit(ctx, func(tx *eventlog.Tx) error {
		if isClosed(p.child.done) {
			return nil
		}
		if err := p.checkOwner(tx); err != nil {
			return err
		}
		row, err := tx.Process(p.id)
		if err != nil || row.ExitedAt.IsZero() || row.Reason != endedServer {
			return err
		}
		row.ExitedAt, row.Reason = time.Time{}, ""
		return tx.PutProcess(row)
	})
	return p.reportLoss(ctx, err)
}
