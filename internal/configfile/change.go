package configfile

import (
	"context"
	"encoding/json"
	"fmt"
)

// fileLock gives one caller at a time the use of a file.
type fileLock struct {
	free  chan struct{} // holds a value while no caller uses the file
	users int           // callers that use the file or wait; guarded by Store.mu
}

// Exclusive runs f while this Store makes no change of a file, so that f sees the file after
// Written has returned for each change. It waits for a running change until ctx ends. It returns
// the error of f, or the cause if ctx ended first.
func (s *Store) Exclusive(ctx context.Context, file string, f func() error) error {
	s.mu.Lock()
	t := s.locks[file]
	if t == nil {
		t = &fileLock{free: make(chan struct{}, 1)}
		t.free <- struct{}{}
		if s.locks == nil {
			s.locks = map[string]*fileLock{}
		}
		s.locks[file] = t
	}
	t.users++
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if t.users--; t.users == 0 {
			delete(s.locks, file)
		}
	}()
	select {
	case <-t.free:
		defer func() { t.free <- struct{}{} }()
		return f()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// change changes a file. edit returns the names of the entries that it has set or deleted.
func (s *Store) change(ctx context.Context, file string, edit func(map[string]json.RawMessage) []string) error {
	return s.Exclusive(ctx, file, func() error {
		changed := map[string]json.RawMessage{}
		dir, name := split(file)
		err := s.Files.Update(ctx, dir, name, MaxSize, func(old []byte) ([]byte, error) {
			entries := map[string]json.RawMessage{}
			if old != nil {
				var err error
				if entries, err = parse(old); err != nil {
					return nil, &InvalidFileError{file, err}
				}
			}
			for _, name := range edit(entries) {
				changed[name] = entries[name]
			}
			text, err := format(entries)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", file, err)
			}
			return text, nil
		})
		if err != nil || s.Written == nil || len(changed) == 0 {
			return describe(file, err)
		}
		if err := s.Written(context.WithoutCancel(ctx), file, changed); err != nil { // even if ctx ends: the file has changed
			return &WrittenError{file, err}
		}
		return nil
	})
}
