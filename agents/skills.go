package agents

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/deskhand/deskhand/agents/folders"
	"github.com/deskhand/deskhand/internal/folder"
)

// skillStore copies the configured skills of sessions' folders to where agents look. It holds
// copies of repositories with skills. A copy is replaced as a whole, and not while it is read.
type skillStore struct {
	launcher *launcher
	folders  *folders.Store
	tasks    *taskGroup
	patience time.Duration // how long a session with an older copy waits for a newer one
	fetches  singleflight.Group

	mu     sync.Mutex // held while copies are read or replaced, and guards what follows
	dir    string     // empty: a temporary one is made when it is needed
	temp   bool
	failed map[string]failedFetch // by name of a copy: the last attempt to renew it
}

// folder returns the folder of the copies.
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

// skillSource is a source in an entry of skills.json.
type skillSource struct {
	Type    string   `json:"type"` // github, git or local
	Source  string   `json:"source"`
	Skills  []string `json:"skills"` // names; empty: all
	Ref     string   `json:"ref"`
	Subpath string   `json:"subpath"`
}

// UnmarshalJSON decodes a source by decodeEntry.
func (s *skillSource) UnmarshalJSON(raw []byte) error {
	type fields skillSource
	return decodeEntry(raw, (*fields)(s))
}

func (s skillSource) String() string { return s.Type + " " + s.Source }

// skillFolders has the folders in which agents look for skills, below a session's folder.
var skillFolders = map[string]string{
	"claude": ".claude/skills", "codex": ".codex/skills", "opencode": ".opencode/skill", "gemini": ".gemini/skills",
	"cursor": ".cursor/skills", "amp": ".agents/skills", "pi": ".pi/skills",
}

const otherSkillFolder = ".agents/skills"

// location is a file or folder below a folder.
type location struct {
	files folder.Files
	dir   string
	name  string
}

func (p location) below(name string) location {
	p.name = path.Join(p.name, name)
	return p
}

// skill is one to place.
type skill struct {
	name   string
	at     string // in its source
	from   location
	source string
}

// placeAll copies the configured skills of a folder to where an agent looks, and removes
// skills that are no longer configured. It returns problems.
func (s *skillStore) placeAll(ctx context.Context, cwd, agent string) (problems []string) {
	if !filepath.IsAbs(cwd) {
		return nil
	}
	entries, problems, err := s.entries(ctx, cwd)
	if err != nil {
		return []string{err.Error()}
	}
	before, err := s.folders.Placed(cwd)
	if err != nil {
		return append(problems, err.Error())
	}
	if len(entries) == 0 && len(before) == 0 {
		return problems
	}
	fetched, more, failed := s.fetchAll(ctx, cwd, entries)
	problems = append(problems, more...)
	wanted := map[string]skill{}
	s.mu.Lock() // so that no copy changes
	defer s.mu.Unlock()
	if before, err = s.folders.Placed(cwd); err != nil { // another session may have changed them
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
		for _, one := range found {
			wanted[one.name] = one
		}
	}
	into := cmp.Or(skillFolders[agent], otherSkillFolder)
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		if err := s.copySkill(ctx, location{s.folders.Files(), cwd, path.Join(into, name)}, wanted[name], before); err != nil {
			problems = append(problems, fmt.Sprintf("skill %s: %v", name, err))
		}
	}
	if failed { // then it is not known which skills are configured
		return problems
	}
	for at := range before {
		if _, ok := wanted[path.Base(at)]; ok {
			continue
		}
		err := s.folders.Files().RemoveAll(cwd, at)
		if err == nil {
			err = s.folders.SetPlaced(ctx, cwd, at, folders.Placement{})
		}
		if err != nil {
			problems = append(problems, fmt.Sprintf("skill %s: %v", at, err))
		}
	}
	return problems
}

// fetchAll fetches the sources of all entries concurrently. failed reports that some entries
// cannot be decoded.
func (s *skillStore) fetchAll(ctx context.Context, cwd string, entries map[string]json.RawMessage) (all []*fetchedSource, problems []string, failed bool) {
	var wg sync.WaitGroup
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		var entry struct {
			Sources []skillSource `json:"sources"`
		}
		if err := decodeEntry(entries[name], &entry); err != nil {
			problems, failed = append(problems, fmt.Sprintf("skills %s: %v", name, err)), true
			continue
		}
		for _, source := range entry.Sources {
			f := &fetchedSource{entry: name, source: source}
			all = append(all, f)
			wg.Go(func() { f.at, f.stale, f.err = s.fetch(ctx, cwd, source) })
		}
	}
	wg.Wait()
	return all, problems, failed
}

// entries returns the entries that count. problems names the others.
func (s *skillStore) entries(ctx context.Context, cwd string) (entries map[string]json.RawMessage, problems []string, err error) {
	found, err := s.folders.Entries(ctx, cwd, folders.Skills)
	entries = map[string]json.RawMessage{}
	for _, name := range slices.Sorted(maps.Keys(found)) {
		if e := found[name]; e.Approved {
			entries[name] = e.Content
		} else {
			problems = append(problems, fmt.Sprintf("skills %s: %s", name, s.folders.Refusal(cwd, folders.Skills, name, e)))
		}
	}
	return entries, problems, err
}

// copySkill copies a skill to its place, unless an unchanged copy is there.
func (s *skillStore) copySkill(ctx context.Context, to location, one skill, before map[string]folders.Placement) error {
	old, known := before[to.name]
	_, err := to.files.List(to.dir, to.name, 0, maxSkillFiles)
	there := !errors.Is(err, fs.ErrNotExist)
	switch {
	case there && !known && errors.Is(err, folder.ErrLink):
		return err
	case there && !known:
		return fmt.Errorf("%s is there already and is not from here; rename or remove it", filepath.Join(to.dir, to.name))
	}
	entries, state, err := one.from.list()
	if err != nil {
		return err
	}
	now := folders.Placement{Source: one.source, State: state}
	if there && old == now {
		return nil
	}
	files, err := one.from.read(entries)
	if err != nil {
		return err
	}
	// The host owns the place also if the copy fails.
	if err := s.folders.SetPlaced(ctx, to.dir, to.name, now); err != nil {
		return err
	}
	return to.files.WriteTree(to.dir, to.name, files)
}

const (
	maxSkillFiles = 2000
	maxSkillBytes = 64 << 20
)

// list returns the files of a skill, without symbolic links. state changes when a file
// changes.
func (p location) list() (entries []folder.Entry, state string, err error) {
	entries, err = p.files.List(p.dir, p.name, math.MaxInt, maxSkillFiles)
	size := int64(0)
	for _, e := range entries {
		size += e.Size
	}
	switch {
	case errors.Is(err, folder.ErrTooMany), err == nil && size > maxSkillBytes:
		return nil, "", fmt.Errorf("it has more than %d files or %d bytes", maxSkillFiles, maxSkillBytes)
	case err != nil:
		return nil, "", err
	}
	slices.SortFunc(entries, func(a, b folder.Entry) int { return strings.Compare(a.Name, b.Name) })
	var b strings.Builder
	for _, e := range entries {
		fmt.Fprintf(&b, "%s %d %d\n", e.Name, e.Size, e.ModTime.UnixNano())
	}
	return entries, shortHash(b.String()), nil
}

// read returns the files that list has found.
func (p location) read(entries []folder.Entry) ([]folder.File, error) {
	files := make([]folder.File, 0, len(entries))
	left := int64(maxSkillBytes)
	for _, e := range entries {
		text, err := p.files.Read(p.dir, path.Join(p.name, e.Name), left)
		if err != nil {
			return nil, err
		}
		left -= int64(len(text))
		files = append(files, folder.File{Name: e.Name, Mode: 0o644 | e.Mode.Perm()&0o111, Content: text})
	}
	return files, nil
}

// ownSkills returns the name of the entry with a session's own skills in its folder's
// skills.json.
func ownSkills(session string) string { return "session-" + session }

// dropWait bounds the wait for other writers of a folder's configuration.
const dropWait = 5 * time.Second

// drop removes a session's own skills, unless the entry was changed.
func (s *skillStore) drop(session, cwd, hash string) {
	if hash == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), dropWait)
	defer cancel()
	err := s.folders.DeleteIf(ctx, cwd, folders.Skills, ownSkills(session), hash)
	if err != nil {
		s.launcher.cfg.Logger.Warn("a session's skills stay in its folder's configuration", "session", session, "error", err)
	}
}
