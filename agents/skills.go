package agents

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/deskhand/deskhand/internal/configfile"
)

// skillStore keeps what was fetched, and puts it where agents look.
type skillStore struct {
	patience time.Duration // how long a session waits for what it has an older copy of
	fetches  singleflight.Group

	mu     sync.Mutex // held while copies are read or replaced, and guards what follows
	dir    string     // empty: none was needed yet, and it will be a temporary one
	temp   bool
	failed map[string]failedFetch // by name of a copy: the last attempt to renew it
}

// folder is where copies are kept.
func (s *skillStore) folder() (dir string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dir == "" {
		if s.dir, err = os.MkdirTemp("", "deskhand-skills-"); err != nil {
			return "", err
		}
		s.temp = true
	}
	return s.dir, os.MkdirAll(s.dir, 0o755)
}

func (s *skillStore) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.temp {
		return nil
	}
	return os.RemoveAll(s.dir)
}

// skillSource is one source of an entry of skills.json.
type skillSource struct {
	Type    string   `json:"type"` // github, git or local
	Source  string   `json:"source"`
	Skills  []string `json:"skills"` // which of it; all when there is none
	Ref     string   `json:"ref"`
	Subpath string   `json:"subpath"`
}

func (s skillSource) String() string { return s.Type + " " + s.Source }

// skillFolders are where agents look for skills, in a session's folder.
var skillFolders = map[string]string{
	"claude": ".claude/skills", "codex": ".codex/skills", "opencode": ".opencode/skill", "gemini": ".gemini/skills",
	"cursor": ".cursor/skills", "amp": ".agents/skills", "pi": ".pi/skills",
}

const otherSkillFolder = ".agents/skills"

// placed is an entry of placed.json, which tells which skills in a folder are
// from here and may be replaced and removed.
type placed struct {
	Source string `json:"source"`
	State  string `json:"state"` // of the source when it was copied
}

// skill is one to place.
type skill struct {
	name, from string
	source     string
}

// placeSkills brings the skills of a folder to where an agent looks, and removes
// those that were placed before and are not configured any more. It returns
// what did not work.
func (h *Host) placeSkills(ctx context.Context, cwd, agent string) (problems []string) {
	if !filepath.IsAbs(cwd) {
		return nil
	}
	entries, err := h.store.Entries(configfile.Path(cwd, "skills"))
	if err != nil {
		return []string{err.Error()}
	}
	record := configfile.Path(cwd, "placed")
	before, err := h.store.Entries(record)
	if err != nil {
		return []string{err.Error()}
	}
	if len(entries) == 0 && len(before) == 0 {
		return nil
	}
	fetched, problems, failed := h.fetchAll(ctx, cwd, entries)
	wanted := map[string]skill{}
	h.skills.mu.Lock() // from here on what was fetched stays as it is
	defer h.skills.mu.Unlock()
	if before, err = h.store.Entries(record); err != nil { // another session may have placed some meanwhile
		return append(problems, err.Error())
	}
	for _, f := range fetched {
		if f.stale != "" {
			problems = append(problems, fmt.Sprintf("skills %s: %s: %s", f.entry, f.source, f.stale))
		}
		found, err := f.find()
		if err != nil {
			problems, failed = append(problems, fmt.Sprintf("skills %s: %s: %v", f.entry, f.source, err)), true
		}
		for _, s := range found {
			wanted[s.name] = s
		}
	}
	folder := cmp.Or(skillFolders[agent], otherSkillFolder)
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		if err := h.place(ctx, cwd, filepath.Join(folder, name), wanted[name], before, record); err != nil {
			problems = append(problems, fmt.Sprintf("skill %s: %v", name, err))
		}
	}
	if failed { // what cannot be fetched now is not removed
		return problems
	}
	for at := range before {
		if _, ok := wanted[filepath.Base(at)]; ok || !ours(at) {
			continue
		}
		if err := errors.Join(os.RemoveAll(filepath.Join(cwd, at)), h.store.Delete(ctx, record, at)); err != nil {
			problems = append(problems, fmt.Sprintf("skill %s: %v", at, err))
		}
	}
	return problems
}

// fetchAll fetches the sources of all entries at once. failed tells that there
// are some which cannot be known.
func (h *Host) fetchAll(ctx context.Context, cwd string, entries map[string]json.RawMessage) (all []*fetchedSource, problems []string, failed bool) {
	var wg sync.WaitGroup
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		var entry struct {
			Sources []skillSource `json:"sources"`
		}
		if err := json.Unmarshal(entries[name], &entry); err != nil {
			problems, failed = append(problems, fmt.Sprintf("skills %s: %v", name, err)), true
			continue
		}
		for _, source := range entry.Sources {
			f := &fetchedSource{entry: name, source: source}
			all = append(all, f)
			wg.Go(func() { f.dir, f.stale, f.err = h.fetch(ctx, cwd, source) })
		}
	}
	wg.Wait()
	return all, problems, failed
}

// ours tells whether a path of placed.json is one that can have been placed: it
// is a file that anybody may edit, and what it names is removed.
func ours(at string) bool {
	folder := filepath.Dir(at)
	known := folder == otherSkillFolder || slices.Contains(slices.Collect(maps.Values(skillFolders)), folder)
	return filepath.IsLocal(at) && filepath.Clean(at) == at && known
}

// place copies a skill to its place, unless it is there as it is.
func (h *Host) place(ctx context.Context, cwd, at string, s skill, before map[string]json.RawMessage, record string) error {
	var old placed
	raw, known := before[at]
	if known && json.Unmarshal(raw, &old) != nil {
		known = false
	}
	target := filepath.Join(cwd, at)
	_, err := os.Lstat(target)
	there := err == nil
	if there && !known {
		return fmt.Errorf("%s is there already and is not from here; rename or remove it", target)
	}
	state, err := stateOf(s.from)
	if err != nil {
		return err
	}
	now := placed{Source: s.source, State: state}
	if there && old == now {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
		return err
	}
	staging, err := os.MkdirTemp(filepath.Dir(target), ".new-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(staging)
	if err := copyTree(s.from, staging); err != nil {
		return err
	}
	// It is ours from now on, whether the rest succeeds or not.
	if err := h.store.Put(ctx, record, at, encode(now)); err != nil {
		return err
	}
	if err := os.RemoveAll(target); err != nil {
		return err
	}
	return os.Rename(staging, target)
}

const (
	maxSkillFiles = 2000
	maxSkillBytes = 64 << 20
)

// eachFile calls f with the regular files of a skill. Links are left out: they
// could lead anywhere.
func eachFile(dir string, f func(path, rel string, info fs.FileInfo) error) error {
	files, size := 0, int64(0)
	return filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.IsDir() && e.Name() == ".git":
			return filepath.SkipDir
		case !e.Type().IsRegular():
			return nil
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		files++
		size += info.Size()
		if files > maxSkillFiles || size > maxSkillBytes {
			return fmt.Errorf("it has more than %d files or %d bytes", maxSkillFiles, maxSkillBytes)
		}
		rel, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		return f(path, rel, info)
	})
}

// stateOf changes when a file does.
func stateOf(dir string) (string, error) {
	var b strings.Builder
	err := eachFile(dir, func(_, rel string, info fs.FileInfo) error {
		fmt.Fprintf(&b, "%s %d %d\n", rel, info.Size(), info.ModTime().UnixNano())
		return nil
	})
	return digest(b.String()), err
}

func copyTree(from, to string) error {
	if err := os.Chmod(to, 0o755); err != nil {
		return err
	}
	return eachFile(from, func(path, rel string, info fs.FileInfo) error {
		target := filepath.Join(to, rel)
		if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(target, content, 0o644|info.Mode().Perm()&0o111)
	})
}
