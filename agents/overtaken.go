package agents

import (
	"context"
	"errors"

	"github.com/deskhand/deskhand/agents/eventlog"
)

// A host that loses Postgres counts as gone, and another one may start its servers,
// or delete them, while their agents run here. What these say or are told from then
// on is not part of the sessions: none of it is written down or passed on, and they
// are ended.

// overtakenError says that a life is not the one of its server any more. It wraps
// what clients are told: an [ElsewhereError] or [ErrServerNotFound].
type overtakenError struct{ error }

func (e overtakenError) Unwrap() error { return e.error }

// own is an overtakenError if the newest life of the server is another one, or was
// ended by the deletion of the server elsewhere. It keeps that from happening until the
// end of the transaction, for which claim waits.
func (l *life) own(tx *eventlog.Tx) error {
	if !l.host.cfg.Log.Shared() {
		return nil
	}
	newest, err := tx.Newest(published(l.s.id), l.s.id)
	switch {
	case errors.Is(err, eventlog.ErrNotFound):
		return overtakenError{ErrServerNotFound}
	case err != nil:
		return err
	case newest.Reason == endedDeleted && !newest.ExitedAt.IsZero():
		return overtakenError{ErrServerNotFound}
	case newest.ID != l.id:
		return overtakenError{&ElsewhereError{l.s.id}}
	}
	return nil
}

// lose ends a life whose server was taken over. From now on nothing of it is written
// down, and who waits for the agent gets the error.
func (l *life) lose(why error) {
	if l.lostTo() != nil {
		return
	}
	l.log.Warn("another host has taken the server over, so its agent is ended here", "error", why)
	l.cutOff = true
	l.mu.Lock()
	if l.reason == "" || l.reason == endedItself {
		l.reason = endedServer
	}
	l.lost = why
	l.mu.Unlock()
	l.row.Reason = endedServer // whoever comes next looks into the log
	l.s.remember(l.row)
	for _, c := range l.pending {
		c.finish(reply{err: why})
	}
	l.s.followers.lose(why)
	l.host.lives.Go(func() { l.end(endedServer) }) // run is one of them, so there are some
}

// lostTo is why a life was lost, or nil.
func (l *life) lostTo() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lost
}

// tellLost has a life lost, by somebody who is not run.
func (l *life) tellLost(ctx context.Context, err error) error {
	over, is := errors.AsType[overtakenError](err)
	if !is {
		return err
	}
	_ = l.submit(ctx, item{lost: over.error}) // its process may just have ended
	return nil
}

// here fails if the server runs in another host, or was deleted there.
func (s *server) here(ctx context.Context) error {
	s.mu.Lock()
	l, starts, known := s.life, s.starting != nil, s.last.ID
	s.mu.Unlock()
	switch {
	case starts || known == "" || !s.host.cfg.Log.Shared():
		return nil
	case l != nil && !isClosed(l.done):
		return l.lostTo()
	}
	lives, err := s.host.cfg.Log.Lives(ctx, eventlog.LifeFilter{Server: s.id, Latest: true})
	switch {
	case err != nil || len(lives) == 0:
		return err
	case lives[0].Reason == endedDeleted:
		return ErrServerNotFound
	case lives[0].ID == known || !lives[0].ExitedAt.IsZero():
		return nil
	}
	running, err := s.host.elsewhere(ctx, lives[0])
	if running {
		err = &ElsewhereError{s.id}
	}
	return err
}
