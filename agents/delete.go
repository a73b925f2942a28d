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
	lives, err := h.cfg.Log.Lives(ctx, eventlog.LifeFilter{Latest: true})
	if err != nil {
		return nil, err
	}
	infos := make([]ServerInfo, 0, len(lives))
	for _, row := range lives {
		if row.Reason != endedDeleted && !h.isEnding(row.Server) {
			infos = append(infos, infoOf(row))
		}
	}
	slices.SortFunc(infos, func(a, b ServerInfo) int { return cmp.Compare(a.ID, b.ID) })
	return infos, nil
}

// AgentStatus tells about the servers of an agent.
type AgentStatus struct {
	Running bool      // one of them has a process
	Since   time.Time // when the oldest of those started
}

// Agents tells which agents have servers that were not deleted. It takes no longer
// when there are many.
func (h *Host) Agents(ctx context.Context) (map[string]AgentStatus, error) {
	names, err := h.cfg.Log.Agents(ctx)
	if err != nil {
		return nil, err
	}
	lives, err := h.cfg.Log.Lives(ctx, eventlog.LifeFilter{Open: true})
	if err != nil {
		return nil, err
	}
	all := make(map[string]AgentStatus, len(names))
	for _, name := range names {
		all[name] = AgentStatus{}
	}
	for _, row := range lives { // the oldest first
		if !all[row.Agent].Running && row.Reason != endedDeleted && !h.isEnding(row.Server) {
			all[row.Agent] = AgentStatus{Running: true, Since: row.StartedAt}
		}
	}
	return all, nil
}

// isEnding tells whether a server was deleted whose process is still there.
func (h *Host) isEnding(id string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.ending[id] != nil
}

// ending is a server that was deleted, until its process has ended.
type ending struct {
	s    *server
	gone chan struct{}
}

const (
	// deleteWait is how long Delete waits for the agent's end: clients wait for
	// two seconds.
	deleteWait = 1800 * time.Millisecond
	// intentWait is how long the agent's end waits until it is written down that
	// it is wanted.
	intentWait = 500 * time.Millisecond
)

// Delete ends an ACP server: from now on there is none of that id, and the next
// one of the id starts when the agent of this one has ended. One that does not
// exist is no error. The agent may take a moment longer to end than Delete does.
func (h *Host) Delete(ctx context.Context, id string) error {
	s, err := h.find(ctx, id)
	if errors.Is(err, ErrServerNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	e := &ending{s, make(chan struct{})}
	s.mu.Lock()
	again := s.deleted
	runs := s.process != nil || s.starting != nil
	s.deleted = true
	s.mu.Unlock()
	if again {
		return nil
	}
	h.mu.Lock()
	if h.servers[id] == s {
		delete(h.servers, id)
	}
	if runs {
		h.ending[id] = e
	}
	h.mu.Unlock()
	if !runs {
		return s.markDeleted(ctx)
	}
	ended := make(chan error, 1)
	err = h.task(func(ctx context.Context) {
		defer h.ended(id, e)
		ended <- s.end(ctx)
	})
	if err != nil {
		h.ended(id, e)
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

// ended says that nothing is left of a server that was deleted.
func (h *Host) ended(id string, e *ending) {
	h.mu.Lock()
	if h.ending[id] == e {
		delete(h.ending, id)
	}
	h.mu.Unlock()
	close(e.gone)
}

// end ends the process of a server that was deleted, also one that is just being
// started.
func (s *server) end(ctx context.Context) error {
	intent, cancel := context.WithTimeout(ctx, intentWait)
	if err := s.host.intendDeletion(intent, s.record()); err != nil {
		s.host.cfg.Logger.Warn("what is deleted comes back if the host is killed now", "server", s.id, "error", err)
	}
	cancel()
	s.mu.Lock()
	st := s.starting
	s.mu.Unlock()
	if st != nil {
		<-st.done // spawn ends what it started
	}
	if p := s.newestProcess(); p != nil {
		p.end(endedDeleted)
		if err := p.lostError(); err != nil {
			return err
		}
	}
	if s.record().Reason == endedDeleted {
		return nil
	}
	return s.markDeleted(ctx)
}

// intendDeletion writes down that a process which still runs belongs to a server
// that is no more.
func (h *Host) intendDeletion(ctx context.Context, row eventlog.Life) error {
	if row.ID == "" {
		return nil
	}
	return h.cfg.Log.Commit(ctx, func(tx *eventlog.Tx) error {
		row, err := tx.Life(row.ID)
		if err != nil || !row.ExitedAt.IsZero() {
			return err
		}
		row.Reason = endedDeleted
		return tx.PutLife(row)
	})
}

// record is that of the newest process.
func (s *server) record() eventlog.Life {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last
}

// markDeleted writes down that a server which does not run is no more.
func (s *server) markDeleted(ctx context.Context) error {
	row, _, err := s.newestRecord(ctx)
	if errors.Is(err, ErrServerNotFound) {
		return nil // another host was quicker
	}
	if err != nil || row.ID == "" {
		return err
	}
	err = s.host.cfg.Log.Commit(ctx, func(tx *eventlog.Tx) error {
		now, err := tx.Newest(published(s.id), s.id) // claim waits for its end
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
		return tx.PutLife(now)
	})
	if errors.Is(err, errOvertaken) {
		return s.markDeleted(ctx)
	}
	return err
}
