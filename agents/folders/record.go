package folders

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/deskhand/deskhand/internal/configfile"
)

// The record of a folder is a file in the state directory. Its entries are the
// folder's path, the hashes of approved entries, and the files that were placed.
const (
	folderKey    = "folder"
	placedPrefix = "placed "
)

func approvalKey(kind Kind, name string) string { return "approved " + string(kind) + " " + name }

// Placement describes a file or folder that was placed in a folder.
type Placement struct {
	Source string `json:"source"`
	State  string `json:"state"` // of the source when it was copied
}

// recordFile returns the path of the record of a folder.
func (s *Store) recordFile(dir string, write bool) (string, error) {
	state, err := s.stateDir(write)
	if err != nil {
		return "", err
	}
	return filepath.Join(state, "folders", fmt.Sprintf("%x.json", sha256.Sum256([]byte(dir)))), nil
}

func (s *Store) stateDir(write bool) (string, error) {
	switch {
	case s.cfg.Locate != nil:
		return s.cfg.Locate(write)
	case s.cfg.StateDir != "":
		return s.cfg.StateDir, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.temp == "" {
		temp, err := os.MkdirTemp("", "deskhand-folders-")
		if err != nil {
			return "", err
		}
		s.temp = temp
	}
	return s.temp, nil
}

// record reads the record of a folder.
func (s *Store) record(dir string) (map[string]json.RawMessage, error) {
	file, err := s.recordFile(dir, false)
	if err != nil {
		return nil, err
	}
	return s.records.Entries(file)
}

// setRecord sets entries of a folder's record, and removes entries whose value is nil.
func (s *Store) setRecord(ctx context.Context, dir string, values map[string]any) error {
	write := slices.ContainsFunc(slices.Collect(maps.Values(values)), func(v any) bool { return v != nil })
	file, err := s.recordFile(dir, write)
	if err != nil {
		return err
	}
	if _, err := os.Lstat(file); !write && errors.Is(err, fs.ErrNotExist) {
		return nil // there is nothing to remove
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	set := map[string]json.RawMessage{}
	values[folderKey] = dir // for people who read the file
	for key, value := range values {
		if set[key] = nil; value == nil {
			continue
		}
		if set[key], err = json.Marshal(value); err != nil {
			return err
		}
	}
	return s.records.Edit(ctx, file, set)
}

// Placed returns all placements in a folder, by their path in the folder.
func (s *Store) Placed(dir string) (map[string]Placement, error) {
	entries, err := s.record(resolve(dir))
	if err != nil {
		return nil, err
	}
	all := map[string]Placement{}
	for key, raw := range entries {
		at, ok := strings.CutPrefix(key, placedPrefix)
		if !ok {
			continue
		}
		var p Placement
		if err := json.Unmarshal(raw, &p); err != nil {
			return nil, &configfile.InvalidFileError{Path: dir, Reason: fmt.Errorf("record of what was placed: %w", err)}
		}
		all[at] = p
	}
	return all, nil
}

// Exclusive runs f while no other call of Exclusive for the folder runs its function. It waits
// until ctx ends. It returns the error of f, or the cause if ctx ended first.
func (s *Store) Exclusive(ctx context.Context, dir string, f func() error) error {
	return s.entries.Exclusive(ctx, resolve(dir), f)
}

// SetPlaced records a placement at a path in a folder. The zero Placement removes
// the record.
func (s *Store) SetPlaced(ctx context.Context, dir, at string, p Placement) error {
	var value any
	if p != (Placement{}) {
		value = p
	}
	return s.setRecord(ctx, resolve(dir), map[string]any{placedPrefix + at: value})
}
