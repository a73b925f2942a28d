package configfile

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

// change is one change of a file that somebody waits for.
type change struct {
	// edit returns the names of the entries that it has set or deleted.
	edit func(map[string]json.RawMessage) []string
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
func (s *Store) change(ctx context.Context, file string, edit func(map[string]json.RawMessage) []string) error {
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
	dir, name := split(file)
	var b *batch
	err := s.files().Update(ctx, dir, name, MaxSize, func(old []byte) (text []byte, err error) {
		b, text, err = apply(file, old, s.take(q))
		return text, err
	})
	err = describe(file, err)
	if b == nil { // it did not come to that
		if s.withdraw(q, own) {
			own.done <- err
		}
		return
	}
	if err == nil && s.Written != nil && len(b.changed) > 0 {
		// Not bounded by ctx, which is of one of several callers.
		err = s.Written(context.WithoutCancel(ctx), file, b.changed)
	}
	for _, c := range b.made {
		c.done <- err
	}
}

// batch is what one write of a file does.
type batch struct {
	made    []*change
	changed map[string]json.RawMessage // what entries are now; nil: deleted
}

// apply applies changes to the text of a file, nil if there is none. Changes that
// would make the file too large get that error; the others are applied.
func apply(file string, old []byte, changes []*change) (b *batch, text []byte, err error) {
	entries := map[string]json.RawMessage{}
	if old != nil {
		if entries, err = parse(old); err != nil {
			return &batch{made: changes}, nil, &InvalidFileError{file, err}
		}
	}
	b, all := edited(entries, changes)
	if text, err = format(all); err == nil || len(changes) == 1 {
		return b, text, prefixed(file, err)
	}
	var fitting []*change
	for _, c := range changes {
		_, one := edited(entries, append(slices.Clip(fitting), c))
		with, err := format(one)
		if err != nil {
			c.done <- prefixed(file, err)
			continue
		}
		text, fitting = with, append(fitting, c)
	}
	b, _ = edited(entries, fitting)
	return b, text, nil
}

// edited applies changes to a copy of entries.
func edited(entries map[string]json.RawMessage, changes []*change) (*batch, map[string]json.RawMessage) {
	all := maps.Clone(entries)
	b := &batch{changes, map[string]json.RawMessage{}}
	for _, c := range changes {
		for _, name := range c.edit(all) {
			b.changed[name] = all[name]
		}
	}
	return b, all
}

func prefixed(file string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", file, err)
}

// Exclusive runs f while this Store writes no change of a file, so that f sees each
// change together with the work of Written. It waits until ctx ends at most, and
// returns the error of f.
func (s *Store) Exclusive(ctx context.Context, file string, f func() error) error {
	q := s.join(file, nil)
	defer s.leave(file, q)
	select {
	case <-q.turn:
		defer func() { q.turn <- struct{}{} }()
		return f()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// join registers a caller that uses a file. c is its change, or nil if it makes none.
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
	if c != nil {
		q.waiting = append(q.waiting, c)
	}
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
