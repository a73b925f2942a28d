package mockagent

import (
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
	fileType = ".json"
)

// goodID is what this agent's session ids look like. Anything else is nobody's
// session, and must not become part of a path.
var goodID = regexp.MustCompile(`^` + idPrefix + `[0-9a-f]{16}$`)

func (a *agent) path(id string) string { return filepath.Join(a.cfg.Dir, id+fileType) }

// save keeps a session as it is, whole or not at all; the mutex is held.
func (a *agent) save(s *session) error {
	if a.cfg.Dir == "" || s.deleted {
		return nil
	}
	s.settle()
	s.Updated = time.Now()
	data, err := json.Marshal(s.kept)
	if err != nil {
		return err
	}
	temporary := a.path(s.ID) + ".new"
	if err := os.WriteFile(temporary, data, 0o600); err != nil {
		return fmt.Errorf("keep session %s: %w", s.ID, err)
	}
	if err := os.Rename(temporary, a.path(s.ID)); err != nil {
		return fmt.Errorf("keep session %s: %w", s.ID, err)
	}
	return nil
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
	if err := json.Unmarshal(data, &s.kept); err != nil || s.ID != id {
		return nil, rpcErrorf(codeInternal, "the file of session %s is damaged; delete %s and begin a new session", id, a.path(id))
	}
	return s, nil
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
