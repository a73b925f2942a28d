package configfile

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/deskhand/deskhand/internal/folder"
	"github.com/deskhand/deskhand/internal/jsonlimit"
)

// MaxSize is the maximum size of a file in bytes.
const MaxSize = 16 << 20

// maxEntries bounds the entries of a file. Small entries take a hundred times their size in
// memory.
const maxEntries = 10_000

var (
	// ErrNotFound says that a file has no entry of a name, or does not exist.
	ErrNotFound = errors.New("no such entry")

	// ErrTooLarge says that a change would exceed MaxSize or 10,000 entries.
	ErrTooLarge = fmt.Errorf("would have more than %d bytes or %d entries", MaxSize, maxEntries)

	// ErrLocked is folder.ErrLocked.
	ErrLocked = folder.ErrLocked
)

// InvalidFileError says that the content of a file is not valid. The file does not change
// until a person repairs or removes it.
type InvalidFileError struct {
	Path   string
	Reason error
}

func (e *InvalidFileError) Error() string {
	return fmt.Sprintf("invalid config file %s: %v", e.Path, e.Reason)
}

// Unwrap returns the reason.
func (e *InvalidFileError) Unwrap() error { return e.Reason }

// WrittenError says that a file has changed, but that Store.Written returned an error.
type WrittenError struct {
	Path string
	Err  error
}

func (e *WrittenError) Error() string {
	return fmt.Sprintf("config file %s has changed, but not the record of it, so that its entry may need approval: %v", e.Path, e.Err)
}

// Unwrap returns the error of Store.Written.
func (e *WrittenError) Unwrap() error { return e.Err }

const configDir = ".sandbox-agent/config"

// Path returns the file of a kind ("mcp", "skills") in a directory, at the place of
// sandbox-agent 0.4.2.
func Path(directory, kind string) string {
	return filepath.Join(directory, configDir, kind+".json")
}

// Store reads and changes files. The zero value is ready to use. A Store must not be copied
// after its first use.
type Store struct {
	// Files reads and writes.
	Files folder.Files

	// Written is called after each write of a file, before the callers get their
	// results, with the entries that were set or deleted (nil). The callers get its
	// error in a *WrittenError. Further changes of the file wait for it.
	Written func(ctx context.Context, file string, changed map[string]json.RawMessage) error

	mu    sync.Mutex
	locks map[string]*fileLock // by file, while callers use it
}

// Get returns an entry with its text in the file, or ErrNotFound.
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
	text, err := s.read(file)
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

// Put sets an entry. It makes the file and the directories above it if they do not exist. ctx
// bounds the wait for other changes. If entry is not valid JSON or is nested too deep, Put
// returns an error and changes nothing.
func (s *Store) Put(ctx context.Context, file, name string, entry json.RawMessage) error {
	return s.Edit(ctx, file, map[string]json.RawMessage{name: entry})
}

// Edit is like Put for several entries. It deletes the entries that are nil.
func (s *Store) Edit(ctx context.Context, file string, set map[string]json.RawMessage) error {
	for name, entry := range set {
		if entry == nil {
			continue
		}
		if !json.Valid(entry) {
			return fmt.Errorf("%s: %q: not valid JSON", file, name)
		}
		if err := jsonlimit.Check(entry); err != nil {
			return fmt.Errorf("%s: %q: %w", file, name, err)
		}
	}
	return s.change(ctx, file, func(entries map[string]json.RawMessage) []string {
		for name, entry := range set {
			entries[name] = entry
			if entry == nil {
				delete(entries, name)
			}
		}
		return slices.Collect(maps.Keys(set))
	})
}

// Delete removes an entry, if there is one. A file that does not exist is made without
// entries, as in sandbox-agent.
func (s *Store) Delete(ctx context.Context, file, name string) error {
	return s.Edit(ctx, file, map[string]json.RawMessage{name: nil})
}

// DeleteIf removes an entry if is returns true for it. A file without such an entry does not
// change.
func (s *Store) DeleteIf(ctx context.Context, file, name string, is func(json.RawMessage) bool) error {
	switch entry, err := s.Get(file, name); {
	case errors.Is(err, ErrNotFound):
		return nil
	case err != nil:
		return err
	case !is(entry):
		return nil
	}
	return s.change(ctx, file, func(entries map[string]json.RawMessage) []string {
		if entry, ok := entries[name]; !ok || !is(entry) { // it has changed
			return nil
		}
		delete(entries, name)
		return []string{name}
	})
}

// Split returns the directory and the kind of a file that [Path] returned.
func Split(file string) (directory, kind string) {
	directory, name := split(file)
	return directory, strings.TrimSuffix(filepath.Base(name), ".json")
}

// split returns the directory of a file, below which no symbolic link is followed, and the
// name below it. For a result of Path it is the argument of Path.
func split(file string) (dir, name string) {
	const below = "/" + configDir + "/"
	if i := strings.LastIndex(file, below); i >= 0 {
		return cmp.Or(file[:i], "/"), file[i+1:]
	}
	return filepath.Split(file)
}

// read returns the content of a file.
func (s *Store) read(file string) ([]byte, error) {
	dir, name := split(file)
	text, err := s.Files.Read(dir, name, MaxSize)
	return text, describe(file, err)
}

// describe returns an InvalidFileError if err says that a file cannot be read as such, else err.
func describe(file string, err error) error {
	switch {
	case errors.Is(err, folder.ErrTooLarge):
		return &InvalidFileError{file, fmt.Errorf("has more than %d bytes", MaxSize)}
	case errors.Is(err, folder.ErrNotRegular):
		return &InvalidFileError{file, folder.ErrNotRegular}
	case errors.Is(err, folder.ErrLink): // of the file or of a directory above it
		return &InvalidFileError{file, err}
	}
	return err
}
