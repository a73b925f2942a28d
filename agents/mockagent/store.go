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
	"strings"
	"time"
)

const (
	idPrefix = "mock-"
	fileType = ".jsonl"
)

// goodID is what this agent's session ids look like. Anything else is nobody's
// session, and must not become part of a path.
var goodID = regexp.MustCompile(`^` + idPrefix + `[0-9a-f]{16}$`)

func (a *agent) path(id string) string { return filepath.Join(a.cfg.Dir, id+fileType) }

// entry is a line of a session's file, and has one of the two. The last session
// counts.
type entry struct {
	Session *kept           `json:"session,omitempty"`
	Update  json.RawMessage `json:"update,omitempty"`
}

// maxFile is how long a file gets before it is written anew, without what was
// said first.
const maxFile = 4 * maxHistory

// save keeps a session as it is; the mutex is held. What is new goes to the end
// of its file, so that a long session is kept as fast as a short one.
func (a *agent) save(s *session) error {
	if a.cfg.Dir == "" || s.deleted {
		return nil
	}
	s.settle()
	s.Updated = time.Now()
	whole := s.written == 0 || s.written > maxFile
	said := s.history
	if !whole {
		said = said[len(said)-s.unsaved:]
	}
	var text bytes.Buffer
	to := json.NewEncoder(&text)
	for _, u := range said {
		if err := to.Encode(entry{Update: u}); err != nil {
			return err
		}
	}
	if err := to.Encode(entry{Session: &s.kept}); err != nil {
		return err
	}
	var err error
	if whole {
		s.written = 0
		err = replace(a.path(s.ID), text.Bytes())
	} else {
		err = extend(a.path(s.ID), text.Bytes())
		if errors.Is(err, fs.ErrNotExist) { // another process has swept it away
			s.written = 0
			return a.save(s)
		}
	}
	if err != nil {
		s.written = 0 // a part of it may be there
		return fmt.Errorf("keep session %s: %w", s.ID, err)
	}
	s.written += text.Len()
	s.unsaved = 0
	return nil
}

// replace makes a file anew, whole or not at all.
func replace(path string, text []byte) error {
	temporary := path + ".new"
	if err := os.WriteFile(temporary, text, 0o600); err != nil {
		return err
	}
	return os.Rename(temporary, path)
}

// extend writes to the end of a file that there is.
func extend(path string, text []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Close())
}

// restore reads a session that was kept.
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
	s := &session{tools: new(toolbox)}
	if err := s.read(data); err != nil || s.ID != id {
		return nil, rpcErrorf(codeInternal, "the file of session %s is damaged; delete %s and begin a new session", id, a.path(id))
	}
	return s, nil
}

// read takes what a file holds. What ends in the middle of a line was being
// written when the process ended, and was not told to anybody as kept.
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

// kept lists the ids of the sessions that have a file.
func (a *agent) kept() ([]string, error) {
	if a.cfg.Dir == "" {
		return nil, nil
	}
	files, err := os.ReadDir(a.cfg.Dir)
	if err != nil {
		return nil, fmt.Errorf("list sessions: %w", err)
	}
	var ids []string
	for _, f := range files {
		if id, ok := strings.CutSuffix(f.Name(), fileType); ok && goodID.MatchString(id) {
			ids = append(ids, id)
		}
	}
	return ids, nil
}

// keepTime is how long a session's file is there after its last turn. Nobody may
// tell the agent that a session is over: clients leave, and servers are deleted.
const keepTime = 30 * 24 * time.Hour

// sweep removes the files of sessions that nobody used for long, and what a
// process left half written.
func (a *agent) sweep() error {
	if a.cfg.Dir == "" {
		return nil
	}
	files, err := os.ReadDir(a.cfg.Dir)
	if err != nil {
		return fmt.Errorf("look for old sessions: %w", err)
	}
	for _, f := range files {
		id, ok := strings.CutSuffix(strings.TrimSuffix(f.Name(), ".new"), fileType)
		if !ok || !goodID.MatchString(id) {
			continue
		}
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
