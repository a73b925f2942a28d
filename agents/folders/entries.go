package folders

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/deskhand/deskhand/internal/configfile"
)

// A session reports each entry that does not count and how to approve it. These
// limits bound the cost of a file that is not trusted.
const (
	maxRefused = 100
	maxName    = 256
)

// compact returns a JSON text without white space, and other text unchanged.
func compact(text json.RawMessage) []byte {
	var b bytes.Buffer
	if json.Compact(&b, text) != nil {
		return text
	}
	return b.Bytes()
}

// Entries returns all entries of a folder, including those that do not count. A
// folder without configuration has no entries.
func (s *Store) Entries(ctx context.Context, dir string, kind Kind) (map[string]Entry, error) {
	dir = resolve(dir)
	entries, err := s.read(dir, kind)
	if err != nil || !slices.ContainsFunc(slices.Collect(maps.Values(entries)), func(e Entry) bool { return !e.Approved }) {
		return entries, err
	}
	// Put may have written the entry, and not yet recorded its approval.
	err = s.entries.Exclusive(ctx, configfile.Path(dir, string(kind)), func() (err error) {
		entries, err = s.read(dir, kind)
		return err
	})
	return entries, err
}

// read returns the entries of a folder and sets Approved of the entries that count.
func (s *Store) read(dir string, kind Kind) (map[string]Entry, error) {
	file := configfile.Path(dir, string(kind))
	found, err := s.entries.Entries(file)
	if err != nil || len(found) == 0 {
		return nil, err
	}
	approved, err := s.record(dir)
	if err != nil {
		return nil, err
	}
	trusted := s.trusted(dir)
	refused, entries := 0, map[string]Entry{}
	for name, content := range found {
		hash := Hash(content)
		var known string
		if raw, ok := approved[approvalKey(kind, name)]; ok && json.Unmarshal(raw, &known) != nil {
			known = ""
		}
		e := Entry{content, hash, trusted || known == hash}
		if entries[name] = e; e.Approved {
			continue
		}
		switch refused++; {
		case refused > maxRefused:
			return nil, &configfile.InvalidFileError{Path: file, Reason: fmt.Errorf("has more than %d entries that are not approved", maxRefused)}
		case len(name) > maxName:
			return nil, &configfile.InvalidFileError{Path: file, Reason: fmt.Errorf("has an entry whose name has more than %d bytes and that is not approved", maxName)}
		}
	}
	return entries, nil
}

// Entry returns one entry, or [ErrNotFound].
func (s *Store) Entry(ctx context.Context, dir string, kind Kind, name string) (Entry, error) {
	entries, err := s.Entries(ctx, dir, kind)
	if err != nil {
		return Entry{}, err
	}
	e, ok := entries[name]
	if !ok {
		return Entry{}, fmt.Errorf("%s %q of %s: %w", kind, name, dir, ErrNotFound)
	}
	return e, nil
}

// Put sets an entry and approves it. It makes the folder if it does not exist. It waits for
// other writers until ctx ends. It returns an error and changes nothing if content is not valid
// JSON. A nil content deletes the entry.
func (s *Store) Put(ctx context.Context, dir string, kind Kind, name string, content json.RawMessage) error {
	return s.entries.Put(ctx, configfile.Path(resolve(dir), string(kind)), name, content)
}

// Delete removes an entry. It returns nil if there is no such entry.
func (s *Store) Delete(ctx context.Context, dir string, kind Kind, name string) error {
	return s.entries.Delete(ctx, configfile.Path(resolve(dir), string(kind)), name)
}

// DeleteIf removes an entry if its content has the given hash. It returns nil if the content has
// another hash, or if there is no such entry.
func (s *Store) DeleteIf(ctx context.Context, dir string, kind Kind, name, hash string) error {
	is := func(content json.RawMessage) bool { return Hash(content) == hash }
	return s.entries.DeleteIf(ctx, configfile.Path(resolve(dir), string(kind)), name, is)
}

// written records the hashes of entries that were set, which makes them count, and removes the
// records of deleted entries.
func (s *Store) written(ctx context.Context, file string, changed map[string]json.RawMessage) error {
	dir, kind := configfile.Split(file)
	set := map[string]any{}
	for name, content := range changed {
		key := approvalKey(Kind(kind), name)
		if set[key] = nil; content != nil {
			set[key] = Hash(content)
		}
	}
	return s.setRecord(ctx, dir, set)
}

// Approve makes an entry count until its content changes. hash is the Hash that
// Entries returned. It returns [ErrNotFound], or a [ChangedError] if the entry's
// content has another hash.
func (s *Store) Approve(ctx context.Context, dir string, kind Kind, name, hash string) error {
	dir = resolve(dir)
	file := configfile.Path(dir, string(kind))
	return s.entries.Exclusive(ctx, file, func() error {
		content, err := s.entries.Get(file, name)
		if err != nil {
			return err
		}
		if now := Hash(content); now != hash {
			return &ChangedError{name, now}
		}
		// The approval is of the hash, even if the file changes meanwhile.
		return s.setRecord(ctx, dir, map[string]any{approvalKey(kind, name): hash})
	})
}
