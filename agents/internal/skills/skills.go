// Package skills copies the skills that are configured for sessions' folders to where agents
// look for them: from folders of the machine and from git repositories.
package skills

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

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"
	"golang.org/x/sync/singleflight"

	"github.com/deskhand/deskhand/agents/folders"
	"github.com/deskhand/deskhand/internal/folder"
	"github.com/deskhand/deskhand/internal/supervise"
)

// Config configures a [Store].
type Config struct {
	Dir     string           // the directory for copies of repositories; empty: a temporary one, until Close
	Folders *folders.Store   // has the configuration of sessions' folders
	Age     time.Duration    // from which a copy is fetched again; negative: never
	User    supervise.User   // the user of the agents
	Group   *supervise.Group // of git
	Environ func() []string  // the environment of git

	// Go runs a function in the background, or returns an error. Its context is done when
	// the host of the agents is closed.
	Go func(func(context.Context)) error
}

// Store copies the configured skills of sessions' folders to where agents look. It holds
// copies of repositories with skills. A copy is replaced as a whole, and not while its skills
// are listed or one of them is read.
type Store struct {
	cfg      Config
	patience time.Duration // how long a session with an older copy waits for a newer one
	fetches  singleflight.Group
	fetching *semaphore.Weighted // the fetches that run
	copies   *semaphore.Weighted // a reader of copies holds one, and clone holds all
	placing  sync.RWMutex        // Place holds it for reading, so that Close waits for it

	mu     sync.Mutex // guards the fields below
	dir    string     // empty: a temporary one is made when it is needed
	temp   bool
	failed map[string]failedFetch // by name of a copy: the last attempt to renew it
}

// New returns a store. It must be closed after the functions that Config.Go runs.
func New(cfg Config) *Store {
	return &Store{
		cfg: cfg, patience: refreshWait, dir: cfg.Dir,
		fetching: semaphore.NewWeighted(maxFetches), copies: semaphore.NewWeighted(maxReaders),
	}
}

// Bounds of what the configuration of a folder can cause.
const (
	maxSources = 32  // sources of a folder
	maxSkills  = 200 // skills of a folder
	maxAtOnce  = 4   // sources of a folder that are fetched at the same time
	maxFetches = 64  // fetches of the store that run at the same time; others wait
	maxCopies  = 64  // copies of repositories on disk; the oldest are removed
)

const maxReaders = math.MaxInt64 // of copies

// folder returns the folder of the copies.
func (s *Store) folder() (dir string, err error) {
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

// Close waits for calls of Place and removes the temporary directory.
func (s *Store) Close() error {
	s.placing.Lock()
	defer s.placing.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.temp {
		return nil
	}
	return os.RemoveAll(s.dir)
}

// source is a source in an entry of skills.json.
type source struct {
	Type    string   `json:"type"` // github, git or local
	Source  string   `json:"source"`
	Skills  []string `json:"skills"` // names; empty: all
	Ref     string   `json:"ref"`
	Subpath string   `json:"subpath"`
}

// UnmarshalJSON decodes a source by folders.Decode.
func (s *source) UnmarshalJSON(raw []byte) error {
	type fields source
	return folders.Decode(raw, (*fields)(s))
}

func (s source) String() string { return s.Type + " " + s.Source }

// agentFolders has the folders in which agents look for skills, below a session's folder.
var agentFolders = map[string]string{
	"claude": ".claude/skills", "codex": ".codex/skills", "opencode": ".opencode/skill", "gemini": ".gemini/skills",
	"cursor": ".cursor/skills", "amp": ".agents/skills", "pi": ".pi/skills",
}

const otherAgentFolder = ".agents/skills"

// location is a file or folder below a folder.
type location struct {
	files  folder.Files
	dir    string
	name   string
	copies *semaphore.Weighted // Store.copies if it is in a copy of a repository, or nil
}

func (p location) below(name string) location {
	p.name = path.Join(p.name, name)
	return p
}

// use runs f while no copy of a repository that it reads is replaced.
func (p location) use(ctx context.Context, f func() error) error {
	if p.copies != nil {
		if err := p.copies.Acquire(ctx, 1); err != nil {
			return err
		}
		defer p.copies.Release(1)
	}
	return f()
}

// skill is one to place.
type skill struct {
	name   string
	from   location
	source string
}

// Place copies the configured skills of a folder to where an agent looks, and removes
// skills that are no longer configured. It returns problems. If ctx ends, some skills are
// not copied or removed. It waits for other calls for the same folder.
func (s *Store) Place(ctx context.Context, cwd, agent string) (problems []string) {
	if !filepath.IsAbs(cwd) {
		return nil
	}
	entries, problems, err := s.entries(ctx, cwd)
	if err != nil {
		return []string{err.Error()}
	}
	before, err := s.cfg.Folders.Placed(cwd)
	if err != nil {
		return append(problems, err.Error())
	}
	if len(entries) == 0 && len(before) == 0 {
		return problems
	}
	fetched, more, failed := s.fetchAll(ctx, cwd, entries)
	problems = append(problems, more...)
	s.placing.RLock()
	defer s.placing.RUnlock()
	err = s.cfg.Folders.Exclusive(ctx, cwd, func() error {
		now, _, err := s.entries(ctx, cwd)
		// Another session may have added skills while these were fetched.
		failed = failed || !maps.EqualFunc(now, entries, slices.Equal[json.RawMessage])
		problems = append(problems, s.placeAll(ctx, cwd, agent, fetched, failed)...)
		return err
	})
	if err != nil {
		problems = append(problems, fmt.Sprintf("skills: %v", err))
	}
	return problems
}

// placeAll copies the skills of sources that were fetched, and removes the others unless failed
// is set. It returns problems.
func (s *Store) placeAll(ctx context.Context, cwd, agent string, fetched []*fetchedSource, failed bool) (problems []string) {
	before, err := s.cfg.Folders.Placed(cwd)
	if err != nil {
		return []string{err.Error()}
	}
	wanted, tooMany := map[string]skill{}, false
	for _, f := range fetched {
		if err := ctx.Err(); err != nil {
			return append(problems, fmt.Sprintf("skills: %v", err))
		}
		if f.stale != "" {
			problems = append(problems, fmt.Sprintf("skills %s: %s: %s", f.entry, f.source, f.stale))
		}
		var found []skill
		err := f.at.use(ctx, func() (err error) {
			found, err = f.find()
			return err
		})
		if err != nil {
			problems, failed = append(problems, fmt.Sprintf("skills %s: %s: %v", f.entry, f.source, err)), true
		}
		for _, one := range found {
			if _, again := wanted[one.name]; !again && len(wanted) == maxSkills {
				tooMany = true
				break
			}
			wanted[one.name] = one
		}
	}
	if tooMany {
		problems = append(problems, fmt.Sprintf("the folder has more than %d skills; the others are left out; name the needed ones in \"skills\" of their source", maxSkills))
	}
	into := cmp.Or(agentFolders[agent], otherAgentFolder)
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		if err := ctx.Err(); err != nil {
			return append(problems, fmt.Sprintf("skill %s: %v", name, err))
		}
		if err := s.copySkill(ctx, location{files: s.cfg.Folders.Files(), dir: cwd, name: path.Join(into, name)}, wanted[name], before); err != nil {
			problems = append(problems, fmt.Sprintf("skill %s: %v", name, err))
		}
	}
	if failed { // then it is not known which skills are configured
		return problems
	}
	for at := range before {
		if err := ctx.Err(); err != nil {
			return append(problems, fmt.Sprintf("skill %s: %v", at, err))
		}
		if _, ok := wanted[path.Base(at)]; ok {
			continue
		}
		err := s.cfg.Folders.Files().RemoveAll(ctx, cwd, at)
		if err == nil {
			err = s.cfg.Folders.SetPlaced(ctx, cwd, at, folders.Placement{})
		}
		if err != nil {
			problems = append(problems, fmt.Sprintf("skill %s: %v", at, err))
		}
	}
	return problems
}

// fetchAll fetches the sources of all entries, some concurrently. failed reports that some entries
// cannot be decoded.
func (s *Store) fetchAll(ctx context.Context, cwd string, entries map[string]json.RawMessage) (all []*fetchedSource, problems []string, failed bool) {
	var fetches errgroup.Group
	fetches.SetLimit(maxAtOnce)
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		var entry struct {
			Sources []source `json:"sources"`
		}
		if err := folders.Decode(entries[name], &entry); err != nil {
			problems, failed = append(problems, fmt.Sprintf("skills %s: %v", name, err)), true
			continue
		}
		for _, source := range entry.Sources {
			if len(all) == maxSources {
				problems, failed = append(problems, fmt.Sprintf("skills %s: the folder has more than %d sources; the others are left out", name, maxSources)), true
				break
			}
			f := &fetchedSource{entry: name, source: source}
			all = append(all, f)
			fetches.Go(func() error {
				f.at, f.stale, f.err = s.fetch(ctx, cwd, source)
				return nil
			})
		}
	}
	_ = fetches.Wait() // the sources have their errors
	return all, problems, failed
}

// entries returns the entries that count. problems names the others.
func (s *Store) entries(ctx context.Context, cwd string) (entries map[string]json.RawMessage, problems []string, err error) {
	found, err := s.cfg.Folders.Entries(ctx, cwd, folders.Skills)
	entries = map[string]json.RawMessage{}
	for _, name := range slices.Sorted(maps.Keys(found)) {
		if e := found[name]; e.Approved {
			entries[name] = e.Content
		} else {
			problems = append(problems, fmt.Sprintf("skills %s: %s", name, s.cfg.Folders.Refusal(cwd, folders.Skills, name, e)))
		}
	}
	return entries, problems, err
}

// copySkill copies a skill to its place, unless an unchanged copy is there.
func (s *Store) copySkill(ctx context.Context, to location, one skill, before map[string]folders.Placement) error {
	old, known := before[to.name]
	_, err := to.files.List(to.dir, to.name, 0, maxSkillFiles)
	there := !errors.Is(err, fs.ErrNotExist)
	switch {
	case there && !known && errors.Is(err, folder.ErrLink):
		return err
	case there && !known:
		return fmt.Errorf("%s is there already and is not from here; rename or remove it", filepath.Join(to.dir, to.name))
	}
	now := folders.Placement{Source: one.source}
	var files []folder.File
	err = one.from.use(ctx, func() error {
		entries, state, err := one.from.list()
		if now.State = state; err != nil || there && old == now {
			return err
		}
		files, err = one.from.read(entries)
		return err
	})
	if err != nil || there && old == now {
		return err
	}
	// The host owns the place also if the copy fails.
	if err := s.cfg.Folders.SetPlaced(ctx, to.dir, to.name, now); err != nil {
		return err
	}
	if err := to.files.WriteTree(ctx, to.dir, to.name, files); err != nil {
		now.State = "" // so that the next call copies it again
		return errors.Join(err, s.cfg.Folders.SetPlaced(context.WithoutCancel(ctx), to.dir, to.name, now))
	}
	return nil
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

// EntryName returns the name of the entry with a session's own skills in its folder's
// skills.json.
func EntryName(session string) string { return "session-" + session }

// dropWait bounds the wait for other writers of a folder's configuration.
const dropWait = 5 * time.Second

// Drop removes a session's own skills, unless the entry was changed. hash is the
// [folders.Hash] of the entry.
func (s *Store) Drop(session, cwd, hash string) error {
	ctx, cancel := context.WithTimeout(context.Background(), dropWait)
	defer cancel()
	return s.cfg.Folders.DeleteIf(ctx, cwd, folders.Skills, EntryName(session), hash)
}
