package mockagent

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"time"
)

const (
	idPrefix = "mock-"
	fileType = ".jsonl"
)

// goodID matches this agent's session ids. No other id becomes part of a path.
var goodID = regexp.MustCompile(`^` + idPrefix + `[0-9a-f]{16}$`)

func (a *agent) path(id string) string { return filepath.Join(a.cfg.Dir, id+fileType) }

// entry is a line of a session's file. One of its members is set. The last Session
// counts.
type entry struct {
	Session *kept           `json:"session,omitempty"`
	Update  json.RawMessage `json:"update,omitempty"`
}

// save replaces a session's file. The caller holds a.mu.
func (a *agent) save(s *session) error {
	if a.cfg.Dir == "" || s.deleted {
		return nil
	}
	s.endText()
	s.Updated = time.Now()
	var text bytes.Buffer
	for _, u := range s.history {
		fmt.Fprintf(&text, `{"update":%s}`+"\n", u)
	}
	err := json.NewEncoder(&text).Encode(entry{Session: &s.kept})
	if err == nil {
		err = os.WriteFile(a.path(s.ID)+".new", text.Bytes(), 0o600)
	}
	if err == nil {
		err = os.Rename(a.path(s.ID)+".new", a.path(s.ID))
	}
	if err != nil {
		return fmt.Errorf("keep session %s: %w", s.ID, err)
	}
	return nil
}

// restore reads a session's file.
func (a *agent) restore(id string) (*session, error) {
	unknown := rpcErrorf(codeNotFound, "no session %q is kept; begin one with session/new", id)
	if a.cfg.Dir == "" || !goodID.MatchString(id) {
		return nil, unknown
	}
	data, err := os.ReadFile(a.path(id))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, unknown
	}
	if err != nil {
		return nil, fmt.Errorf("restore session %s: %w", id, err)
	}
	s := &session{tools: &toolbox{env: a.cfg.Env}}
	if err := s.read(data); err != nil || s.ID != id {
		return nil, rpcErrorf(codeInternal, "the file of session %s is damaged; delete %s and begin a new session", id, a.path(id))
	}
	return s, nil
}

// read decodes a session's file. It ignores an incomplete last line.
func (s *session) read(data []byte) error {
	for text := range bytes.Lines(data[:bytes.LastIndexByte(data, '\n')+1]) {
		var l entry
		if err := json.Unmarshal(text, &l); err != nil {
			return err
		}
		if l.Session != nil {
			s.kept = *l.Session
		} else {
			s.add(l.Update)
		}
	}
	return nil
}

// fileName matches the names of session files, complete or not.
var fileName = regexp.MustCompile(`^` + idPrefix + `[0-9a-f]{16}\` + fileType + `(\.new)?$`)

// files lists the session files, complete or not.
func (a *agent) files() ([]fs.DirEntry, error) {
	if a.cfg.Dir == "" {
		return nil, nil
	}
	files, err := os.ReadDir(a.cfg.Dir)
	if err != nil {
		return nil, fmt.Errorf("list sessions: %w", err)
	}
	return slices.DeleteFunc(files, func(f fs.DirEntry) bool { return !fileName.MatchString(f.Name()) }), nil
}

// keepTime is how long a session's file stays after the last turn. Many clients never
// close their sessions.
const keepTime = 30 * 24 * time.Hour

// sweep removes session files, complete or not, that are older than keepTime.
func (a *agent) sweep() error {
	files, err := a.files()
	if err != nil {
		return err
	}
	for _, f := range files {
		info, err := f.Info()
		if err != nil || time.Since(info.ModTime()) < keepTime {
			continue // young, or deleted meanwhile
		}
		if err := os.Remove(filepath.Join(a.cfg.Dir, f.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("delete an old session: %w", err)
		}
	}
	return nil
}

// discard removes a session's file.
func (a *agent) discard(id string) error {
	if a.cfg.Dir == "" || !goodID.MatchString(id) {
		return nil
	}
	if err := os.Remove(a.path(id)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("delete session %s: %w", id, err)
	}
	return nil
}
