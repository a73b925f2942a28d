package agents

import (
	"context"
	"errors"

	"github.com/deskhand/deskhand/agents/eventlog"
)

// A host that loses Postgres counts as gone. Another host may then start its servers,
// or delete them, while their agents run here. From then on no message of these agents
// is written or passed on, and they are ended.

// overtakenError says that the server has another process. It wraps the error for
// clients: an [ElsewhereError] or [ErrServerNotFound].
type overtakenError struct{ error }

func (e overtakenError) Unwrap() error { return e.error }

// checkOwner returns an overtakenError if another host has started or deleted the
// server. Until the end of the transaction no other host can: claim waits for it.
func (p *agentProcess) checkOwner(tx *eventlog.Tx) error {
	if !p.host.cfg.Log.Shared() {
		return nil
	}
	newest, err := tx.NewestProcess(published(p.server.id), p.server.id)
	switch {
	case errors.Is(err, eventlog.ErrNotFound):
		return overtakenError{ErrServerNotFound}
	case err != nil:
		return err
	case newest.Reason == endedDeleted && !newest.ExitedAt.IsZero():
		return overtakenError{ErrServerNotFound}
	case newest.ID != p.id:
		return overtakenError{&ElsewhereError{p.server.id}}
	}
	return nil
}

// loseServer ends a process whose server was taken over. Nothing of it is written any
// more, and waiting callers get the error.
func (p *agentProcess) loseServer(why error) {
	if p.lostError() != nil {
		return
	}
	p.log.Warn("another host has taken the server over, so its agent is ended here", "error", why)
	p.silenced = true
	p.mu.Lock()
	if p.reason == "" || p.reason == endedItself {
		p.reason = endedServer
	}
	p.lost = why
	p.mu.Unlock()
	p.record.Reason = endedServer // the next caller reads the log
	p.server.keepRecord(p.record)
	for _, c := range p.pending.byID {
		c.finish(reply{err: why})
	}
	p.server.followers.endStreams(why)
	p.host.processes.Go(func() { p.end(endedServer) }) // run is one of them, so there are some
}

func (p *agentProcess) lostError() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lost
}

// reportLoss has run call loseServer if err is an overtakenError. It returns any other
// error.
func (p *agentProcess) reportLoss(ctx context.Context, err error) error {
	over, is := errors.AsType[overtakenError](err)
	if !is {
		return err
	}
	_ = p.enqueue(ctx, command{handle: func(*commitBatch, *effects) { p.loseServer(over.error) }}) // its process may just have ended
	return nil
}

// checkHere returns an error if the server runs in another host, or was deleted there.
func (s *server) checkHere(ctx context.Context) error {
	s.mu.Lock()
	p, starts, known := s.process, s.starting != nil, s.last.ID
	s.mu.Unlock()
	switch {
	case starts || known == "" || !s.host.cfg.Log.Shared():
		return nil
	case p != nil && !isClosed(p.child.done):
		return p.lostError()
	}
	processes, err := s.host.cfg.Log.Processes(ctx, eventlog.ProcessFilter{Server: s.id, Latest: true})
	switch {
	case err != nil || len(processes) == 0:
		return err
	case processes[0].Reason == endedDeleted:
		return ErrServerNotFound
	case processes[0].ID == known || !processes[0].ExitedAt.IsZero():
		return nil
	}
	return s.host.checkElsewhere(ctx, processes[0])
}
