package configfile

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"syscall"
)

// MaxSize is how many bytes a file may have.
const MaxSize = 16 << 20

var (
	// ErrNotFound says that a file has no entry of a name. A file that does
	// not exist has none at all.
	ErrNotFound = errors.New("no such entry")

	// ErrTooLarge says that a change would let a file grow beyond MaxSize.
	ErrTooLarge = fmt.Errorf("would have more than %d bytes", MaxSize)

	// ErrLocked says that another program has kept the lock for too long.
	ErrLocked = errors.New("locked by another program")
)

// InvalidFileError says that a file is not what this package writes. It stays
// as it is until somebody repairs or removes it.
type InvalidFileError struct {
	Path   string
	Reason error
}

// Error names the file.
func (e *InvalidFileError) Error() string {
	return fmt.Sprintf("invalid config file %s: %v", e.Path, e.Reason)
}

// Unwrap is the reason.
func (e *InvalidFileError) Unwrap() error { return e.Reason }

// Path is the file of that kind ("mcp", "skills") for a directory, at the place
// where sandbox-agent 0.4.2 has it.
func Path(directory, kind string) string {
	return filepath.Join(directory, ".sandbox-agent", "config", kind+".json")
}

// Store reads and changes files. Its zero value is ready; one must not be
// copied after its first use.
type Store struct {
	mu     sync.Mutex
	queues map[string]*queue // by file, while it is being changed
}

// Get returns an entry as it stands in the file, or ErrNotFound.
func (s *Store) Get(file, name string) (json.RawMessage, error) {
	entries, err := s.Entries(file)
	if err != nil {
		return nil, err
	}
	entry, ok := entries[name]
	if !ok {
		return nil, fmt.Errorf("%s: %q: %w", file, name, ErrNotFound)
	}
	return entry, nil
}

// Entries returns all entries of a file. A file that does not exist has none.
func (s *Store) Entries(file string) (map[string]json.RawMessage, error) {
	text, _, err := read(file)
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return map[string]json.RawMessage{}, nil
	}
	if err != nil {
		return nil, err
	}
	entries, err := parse(text)
	if err != nil {
		return nil, &InvalidFileError{file, err}
	}
	return entries, nil
}

// Put sets an entry, which must be valid JSON. It makes the file, and the
// directories above it, when they do not exist. ctx bounds the wait for others.
func (s *Store) Put(ctx context.Context, file, name string, entry json.RawMessage) error {
	if !json.Valid(entry) {
		return fmt.Errorf("%s: %q: not valid JSON", file, name)
	}
	return s.change(ctx, file, func(entries map[string]json.RawMessage) { entries[name] = entry })
}

// Delete removes an entry, if it is there. A file that does not exist becomes
// an empty one, as sandbox-agent has it.
func (s *Store) Delete(ctx context.Context, file, name string) error {
	return s.change(ctx, file, func(entries map[string]json.RawMessage) { delete(entries, name) })
}

// DeleteIf removes an entry if it is there and is what the caller thinks. A file
// without such an entry stays as it is.
func (s *Store) DeleteIf(ctx context.Context, file, name string, is func(json.RawMessage) bool) error {
	switch entry, err := s.Get(file, name); {
	case errors.Is(err, ErrNotFound):
		return nil
	case err != nil:
		return err
	case !is(entry):
		return nil
	}
	return s.change(ctx, file, func(entries map[string]json.RawMessage) {
		if entry, ok := entries[name]; ok && is(entry) { // still
			delete(entries, name)
		}
	})
}

// rewrite applies changes to a file that is locked.
func rewrite(file, target string, changes []*change) error {
	entries := map[string]json.RawMessage{}
	old, info, err := read(target)
	switch {
	case errors.Is(err, os.ErrNotExist):
	case err != nil:
		return err
	default:
		if entries, err = parse(old); err != nil {
			return &InvalidFileError{file, err}
		}
	}
	for _, c := range changes {
		c.edit(entries)
	}
	text, err := format(entries)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return replace(target, text, info)
}

// read returns what a file holds and what it is. It does not wait for the
// writer of a FIFO.
func read(path string) ([]byte, os.FileInfo, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, nil, &InvalidFileError{path, errors.New("not a regular file")}
	}
	text, err := io.ReadAll(io.LimitReader(f, MaxSize+1))
	if err != nil {
		return nil, nil, err
	}
	if len(text) > MaxSize {
		return nil, nil, &InvalidFileError{path, fmt.Errorf("has more than %d bytes", MaxSize)}
	}
	return text, info, nil
}
