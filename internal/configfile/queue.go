package configfile

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
)

// change is one change of a file that somebody waits for.
type change struct {
	edit func(map[string]json.RawMessage)
	done chan error // gets one value
}

// queue has the changes of one file that goroutines of one Store want made. One
// of them at a time writes the file, with all the changes that came while it
// waited: a write has to wait for the disk, and for other programs.
type queue struct {
	turn    chan struct{} // holds one value while it is nobody's turn
	waiting []*change     // guarded by Store.mu
	users   int           // guarded by Store.mu
}

// change makes a change of a file while nobody else makes one.
func (s *Store) change(ctx context.Context, file string, edit func(map[string]json.RawMessage)) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	c := &change{edit, make(chan error, 1)}
	q := s.join(file, c)
	defer s.leave(file, q)
	select {
	case err := <-c.done:
		return err
	case <-q.turn:
		s.write(ctx, file, q, c)
		q.turn <- struct{}{}
	case <-ctx.Done():
		if s.withdraw(q, c) {
			return context.Cause(ctx)
		}
	}
	return <-c.done
}

// write makes the changes that wait when the file is locked. own is one of them,
// unless it was made already.
func (s *Store) write(ctx context.Context, file string, q *queue, own *change) {
	if !s.waits(q, own) {
		return
	}
	target, unlock, err := lock(ctx, file)
	if err != nil {
		if s.withdraw(q, own) {
			own.done <- err
		}
		return
	}
	defer unlock()
	all := s.take(q)
	err = rewrite(file, target, all)
	if errors.Is(err, ErrTooLarge) && len(all) > 1 {
		// That is the fault of some of them only.
		for _, c := range all {
			c.done <- rewrite(file, target, []*change{c})
		}
		return
	}
	for _, c := range all {
		c.done <- err
	}
}

func (s *Store) join(file string, c *change) *queue {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.queues[file]
	if q == nil {
		q = &queue{turn: make(chan struct{}, 1)}
		q.turn <- struct{}{}
		if s.queues == nil {
			s.queues = map[string]*queue{}
		}
		s.queues[file] = q
	}
	q.users++
	q.waiting = append(q.waiting, c)
	return q
}

func (s *Store) leave(file string, q *queue) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if q.users--; q.users == 0 {
		delete(s.queues, file)
	}
}

// waits says whether nobody has taken a change to make it.
func (s *Store) waits(q *queue, c *change) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Contains(q.waiting, c)
}

// withdraw takes a change back, if nobody has taken it to make it.
func (s *Store) withdraw(q *queue, c *change) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.Index(q.waiting, c)
	if i >= 0 {
		q.waiting = slices.Delete(q.waiting, i, i+1)
	}
	return i >= 0
}

// take takes all changes that wait, to make them.
func (s *Store) take(q *queue) []*change {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := q.waiting
	q.waiting = nil
	return all
}
