package agents

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/deskhand/deskhand/agents/eventlog"
)

// Servers lists the ACP servers that were not deleted, by id.
func (h *Host) Servers(ctx context.Context) ([]ServerInfo, error) {
	processes, err := h.cfg.Log.Processes(ctx, eventlog.ProcessFilter{Latest: true})
	if err != nil {
		return nil, err
	}
	infos := make([]ServerInfo, 0, len(processes))
	for _, row := range processes {
		if row.Reason != endedDeleted && !h.servers.isEnding(row.Server) {
			infos = append(infos, infoOf(row))
		}
	}
	slices.SortFunc(infos, func(a, b ServerInfo) int { return cmp.Compare(a.ID, b.ID) })
	return infos, nil
}

// AgentStatus describes the servers of an agent.
type AgentStatus struct {
	Running bool      // whether one of them has a process
	Since   time.Time // the start of the oldest of these processes
}

// Agents returns, by name, the agents that have servers. It does not include deleted servers.
// Its cost does not depend on the number of servers.
func (h *Host) Agents(ctx context.Context) (map[string]AgentStatus, error) {
	names, err := h.cfg.Log.Agents(ctx)
	if err != nil {
		return nil, err
	}
	processes, err := h.cfg.Log.Processes(ctx, eventlog.ProcessFilter{Open: true})
	if err != nil {
		return nil, err
	}
	all := make(map[string]AgentStatus, len(names))
	for _, name := range names {
		all[name] = AgentStatus{}
	}
	for _, row := range processes { // the oldest first
		if !all[row.Agent].Running && row.Reason != endedDeleted && !h.servers.isEnding(row.Server) {
			all[row.Agent] = AgentStatus{Running: true, Since: row.StartedAt}
		}
	}
	return all, nil
}

const (
	// deleteWait bounds the wait of Delete for the agent's end. Clients wait for two
	// seconds.
	deleteWait = 1800 * time.Millisecond

	// intentWait bounds intendDeletion.
	intentWait = 500 * time.Millisecond
)

// Delete deletes an ACP server and ends its agent. It returns nil if there is no such server.
// Delete waits for the end of the agent until ctx ends, but for less than two seconds. Then it
// returns nil, and the agent ends later. A new server of the same id starts its agent after
// that end.
func (h *Host) Delete(ctx context.Context, id string) error {
	s, err := h.find(ctx, id)
	if errors.Is(err, ErrServerNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	s.mu.Lock()
	again := s.deleted
	runs := s.process != nil || s.starting != nil
	s.deleted = true
	s.mu.Unlock()
	switch {
	case again:
		return nil
	case !runs:
		h.servers.drop(s)
		return s.markDeleted(ctx)
	}
	over := h.servers.beginEnding(s)
	ended := make(chan error, 1)
	err = h.tasks.start(func(ctx context.Context) {
		defer over()
		ended <- s.end(ctx)
	})
	if err != nil {
		over()
		return err
	}
	t := time.NewTimer(deleteWait)
	defer t.Stop()
	select {
	case err = <-ended:
	case <-t.C:
	case <-ctx.Done():
	}
	return err
}

// end ends the process of a deleted server, also a process that is being started.
func (s *server) end(ctx context.Context) error {
	intent, cancel := context.WithTimeout(ctx, intentWait)
	if err := s.intendDeletion(intent); err != nil {
		s.host.cfg.Logger.Warn("record the deletion of a server that still runs; it comes back if the host is killed now", "server", s.id, "error", err)
	}
	cancel()
	s.mu.Lock()
	st := s.starting
	s.mu.Unlock()
	if st != nil {
		if p := s.newestProcess(); p != nil {
			p.end(endedDeleted) // it may wait for the agent's first answer
		}
		<-st.done // spawn ends the process of a deleted server
	}
	if p := s.newestProcess(); p != nil {
		p.end(endedDeleted)
		if err := p.lifecycle.lostError(); err != nil {
			return err
		}
	}
	if s.record().Reason == endedDeleted {
		return nil
	}
	return s.markDeleted(ctx)
}

// intendDeletion records the deletion in the record of a process that still runs.
func (s *server) intendDeletion(ctx context.Context) error {
	row := s.record()
	if row.ID == "" {
		return nil
	}
	return s.host.cfg.Log.Commit(ctx, func(tx *eventlog.Tx) error {
		row, err := tx.Process(row.ID)
		if err != nil || !row.ExitedAt.IsZero() {
			return err
		}
		row.Reason = endedDeleted
		return tx.PutProcess(row)
	})
}

// markDeleted records the deletion of a server without a running process.
func (s *server) markDeleted(ctx context.Context) error {
	row, _, err := s.newestRecord(ctx)
	if errors.Is(err, ErrServerNotFound) {
		return nil // another host has deleted it
	}
	if err != nil || row.ID == "" {
		return err
	}
	err = s.host.cfg.Log.Commit(ctx, func(tx *eventlog.Tx) error {
		now, err := tx.NewestProcess(serverStream(s.id), s.id) // claim waits for its end
		if errors.Is(err, eventlog.ErrNotFound) || err == nil && now.ID != row.ID {
			return errOvertaken
		}
		if err != nil {
			return err
		}
		now.Reason = endedDeleted
		if now.ExitedAt.IsZero() {
			now.ExitedAt = time.Now()
		}
		return tx.PutProcess(now)
	})
	if errors.Is(err, errOvertaken) {
		return s.markDeleted(ctx)
	}
	return err
}
