package opencode

import (
	"bytes"
	"context"
	"errors"
	"os"
	"strconv"
	"strings"

	"github.com/deskhand/deskhand/agents"
	"github.com/deskhand/deskhand/agents/eventlog"
	"github.com/deskhand/deskhand/internal/userhome"
)

// projectInfo describes a project.
type projectInfo struct {
	ID        string      `json:"id"`
	Worktree  string      `json:"worktree"`
	VCS       string      `json:"vcs,omitempty"`
	Time      projectTime `json:"time"`
	Sandboxes []string    `json:"sandboxes"`
}

type projectTime struct {
	Created int64 `json:"created"`
	Updated int64 `json:"updated"`
}

// paths is the answer of GET /path.
type paths struct {
	Home      string `json:"home"`
	State     string `json:"state"`
	Config    string `json:"config"`
	Worktree  string `json:"worktree"`
	Directory string `json:"directory"`
}

// vcsInfo is the answer of GET /vcs.
type vcsInfo struct {
	Branch        string `json:"branch,omitempty"`
	DefaultBranch string `json:"default_branch,omitempty"`
}

// changedFile is a file that differs from the last commit. Two routes have it, with other names.
type changedFile struct {
	File      string `json:"file"`
	Path      string `json:"path"`
	Additions int    `json:"additions"`
	Added     int    `json:"added"`
	Deletions int    `json:"deletions"`
	Removed   int    `json:"removed"`
	Status    string `json:"status"`
}

func (m *machine) projectRoutes() []route {
	changed := func(c *call) (any, error) { return m.changedFiles(c.ctx, c.directory) }
	return []route{
		get("/path", func(c *call) (any, error) {
			settings, err := m.SettingsDir(false)
			return paths{userhome.Dir(), settings, settings, projectOf(c.directory).worktree, c.directory}, err
		}),
		get("/project/current", func(c *call) (any, error) { return describeProject(projectOf(c.directory)), nil }),
		get("/project", func(c *call) (any, error) { return m.projects(c.ctx, c.directory) }),
		get("/vcs", func(c *call) (any, error) { return m.vcs(c.ctx, c.directory), nil }),
		get("/vcs/status", changed),
		get("/file/status", changed),
	}
}

func describeProject(p project) projectInfo {
	info := projectInfo{ID: p.id, Worktree: p.worktree, Sandboxes: []string{}}
	if p.id != globalProject {
		info.VCS = "git"
	}
	if e, err := os.Stat(p.worktree); err == nil {
		info.Time = projectTime{e.ModTime().UnixMilli(), e.ModTime().UnixMilli()}
	}
	return info
}

// projects returns the project of a directory, and the projects of the newest sessions.
func (m *machine) projects(ctx context.Context, dir string) ([]projectInfo, error) {
	host, err := m.Host.Get(ctx)
	if err != nil {
		return nil, err
	}
	const newest = 1000
	all, dirs, known := []projectInfo{}, map[string]bool{}, map[string]bool{}
	add := func(dir string) {
		if dirs[dir] {
			return
		}
		dirs[dir] = true
		if p := projectOf(dir); !known[p.id] {
			known[p.id] = true
			all = append(all, describeProject(p))
		}
	}
	add(dir)
	err = eachSession(ctx, host, eventlog.SessionFilter{Newest: true}, newest, func(s agents.Session) {
		if s.Cwd != "" {
			add(s.Cwd)
		}
	})
	return all, err
}

func (m *machine) vcs(ctx context.Context, dir string) (v vcsInfo) {
	line := func(args ...string) string {
		out, _ := m.git(ctx, dir, nil, args...) // no git repository: no branch
		return strings.TrimSpace(string(out))
	}
	if projectOf(dir).id == globalProject {
		return v
	}
	if v.Branch = line("symbolic-ref", "--short", "-q", "HEAD"); v.Branch == "" {
		return v
	}
	if _, v.DefaultBranch, _ = strings.Cut(line("symbolic-ref", "--short", "-q", "refs/remotes/origin/HEAD"), "/"); v.DefaultBranch != "" {
		return v
	}
	for _, name := range []string{"main", "master"} {
		if line("rev-parse", "--verify", "-q", "refs/heads/"+name) != "" {
			v.DefaultBranch = name
			break
		}
	}
	return v
}

// changedFiles returns the files that differ from the last commit.
func (m *machine) changedFiles(ctx context.Context, dir string) ([]changedFile, error) {
	all := []changedFile{}
	head, err := m.git(ctx, dir, nil, "rev-parse", "--verify", "-q", "HEAD")
	if errors.Is(err, errNoRepository) || err == nil && len(head) == 0 {
		return all, nil // a directory without a commit has no changes
	}
	if err != nil {
		return nil, err
	}
	env, err := m.noFilters(ctx, dir)
	if err != nil {
		return nil, err
	}
	out, err := m.git(ctx, dir, env, "diff-index", "--ignore-submodules=dirty", "--no-ext-diff", "--no-textconv", "--no-renames", "--relative", "--numstat", "-z", "HEAD")
	if err != nil {
		return nil, err
	}
	var binary map[string]bool // those that have changed
	for entry := range strings.SplitSeq(string(out), "\x00") {
		parts := strings.SplitN(entry, "\t", 3)
		if len(parts) < 3 {
			continue
		}
		if parts[0] == "-" { // a binary file of which perhaps only the time differs
			if binary == nil {
				binary = m.changedContents(ctx, dir, env)
			}
			if !binary[parts[2]] {
				continue
			}
		}
		added, _ := strconv.Atoi(parts[0])
		removed, _ := strconv.Atoi(parts[1])
		status := "modified"
		if _, err := m.Files.Lstat(below(dir, parts[2])); err != nil {
			status = "deleted"
		}
		all = append(all, newChangedFile(parts[2], status, added, removed))
	}
	if out, err = m.git(ctx, dir, nil, "ls-files", "--others", "--exclude-standard", "-z"); err != nil {
		return nil, err
	}
	room := int64(mostCounted)
	for name := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if name != "" {
			all = append(all, newChangedFile(name, "added", m.countLines(below(dir, name), &room), 0))
		}
	}
	return all, nil
}

func newChangedFile(name, status string, added, removed int) changedFile {
	return changedFile{name, name, added, added, removed, removed, status}
}

// mostCounted is how many bytes of new files are read to count their lines. Of further files no
// lines are counted.
const mostCounted = 64 << 20

// countLines returns the number of lines of a text, or 0 if the file is not text, or has more than
// room bytes. It takes the file's bytes from room.
func (m *machine) countLines(path string, room *int64) int {
	e, err := m.Files.Stat(path)
	if err != nil || e.Size > *room {
		return 0
	}
	*room -= e.Size
	text, err := m.read(path)
	if err != nil || bytes.IndexByte(text, 0) >= 0 || len(text) == 0 {
		return 0
	}
	n := bytes.Count(text, []byte("\n"))
	if text[len(text)-1] != '\n' {
		n++
	}
	return n
}
