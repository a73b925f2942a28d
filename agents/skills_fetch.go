package agents

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/deskhand/deskhand/internal/supervise"
)

const (
	fetchTime  = 2 * time.Minute
	skillFile  = "SKILL.md"
	skillDepth = 4 // folders below a source in which skills are looked for
)

func digest(s string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(s)))[:32] }

// findSkills lists the skills of a source, which it fetches if need be.
func (h *Host) findSkills(ctx context.Context, cwd string, s skillSource) ([]skill, error) {
	dir, err := h.fetch(ctx, cwd, s)
	if err != nil {
		return nil, err
	}
	name := strings.TrimSuffix(filepath.Base(strings.TrimRight(s.Source, "/")), ".git")
	if s.Subpath != "" {
		if !filepath.IsLocal(s.Subpath) {
			return nil, fmt.Errorf("subpath %q leads out of the source", s.Subpath)
		}
		dir, name = filepath.Join(dir, s.Subpath), filepath.Base(s.Subpath)
	}
	all, err := skillsIn(dir, name)
	if err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("it has no folder with a %s", skillFile)
	}
	var found []skill
	for _, one := range all {
		if len(s.Skills) == 0 || slices.Contains(s.Skills, one.name) {
			one.source = s.String()
			found = append(found, one)
		}
	}
	for _, want := range s.Skills {
		if !slices.ContainsFunc(found, func(one skill) bool { return one.name == want }) {
			return found, fmt.Errorf("it has no skill %q", want)
		}
	}
	return found, nil
}

// skillsIn finds the folders that are skills.
func skillsIn(dir, name string) (all []skill, err error) {
	err = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.IsDir() {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		if e.Name() == ".git" || strings.Count(rel, string(filepath.Separator)) >= skillDepth {
			return filepath.SkipDir
		}
		if _, err := os.Stat(filepath.Join(path, skillFile)); err != nil {
			return nil //nolint:nilerr // it is none
		}
		one := skill{name: e.Name(), from: path}
		if rel == "." {
			one.name = name
		}
		all = append(all, one)
		return filepath.SkipDir
	})
	return all, err
}

var ownerAndRepository = regexp.MustCompile(`^[A-Za-z0-9_.-]+/[A-Za-z0-9_.-]+$`)

// fetch returns the folder of a source.
func (h *Host) fetch(ctx context.Context, cwd string, s skillSource) (string, error) {
	if s.Source == "" {
		return "", errors.New("source must not be empty")
	}
	switch s.Type {
	case "local":
		dir := s.Source
		if rest, ok := strings.CutPrefix(dir, "~/"); ok {
			home, err := os.UserHomeDir()
			if err != nil {
				return "", err
			}
			dir = filepath.Join(home, rest)
		}
		if !filepath.IsAbs(dir) {
			dir = filepath.Join(cwd, dir)
		}
		return dir, nil
	case "github":
		if !ownerAndRepository.MatchString(s.Source) {
			return "", errors.New("source must be owner/repository")
		}
		return h.fetchGit(ctx, "https://github.com/"+s.Source+".git", s.Ref)
	case "git":
		return h.fetchGit(ctx, s.Source, s.Ref)
	default:
		return "", fmt.Errorf("type %q is not known; it must be github, git or local", s.Type)
	}
}

// fetchGit returns the files of a commit. Each is fetched once; several who need
// it at once wait for the same.
func (h *Host) fetchGit(ctx context.Context, url, ref string) (string, error) {
	if ref == "" {
		ref = "HEAD"
	}
	if strings.HasPrefix(url, "-") || strings.HasPrefix(ref, "-") {
		return "", errors.New("neither source nor ref may begin with a dash")
	}
	key := digest(url + "\x00" + ref)
	target := filepath.Join(h.skills.dir, key)
	if _, err := os.Stat(target); err == nil {
		return target, nil
	}
	done := h.skills.fetches.DoChan(key, func() (any, error) {
		ctx, cancel := context.WithTimeout(h.ctx, fetchTime)
		defer cancel()
		return nil, h.clone(ctx, url, ref, target)
	})
	select {
	case r := <-done:
		return target, r.Err
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// clone fetches one commit into a folder, which is there whole or not at all.
func (h *Host) clone(ctx context.Context, url, ref, target string) error {
	if err := os.MkdirAll(h.skills.dir, 0o755); err != nil {
		return err
	}
	staging, err := os.MkdirTemp(h.skills.dir, "new-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(staging)
	for _, args := range [][]string{
		{"init", "--quiet"},
		{"fetch", "--quiet", "--depth=1", "--no-tags", url, ref},
		{"checkout", "--quiet", "--detach", "FETCH_HEAD"},
	} {
		if err := h.git(ctx, staging, args...); err != nil {
			return err
		}
	}
	return os.Rename(staging, target)
}

// git runs git, which may ask nobody anything and use no program of a URL's
// choice.
func (h *Host) git(ctx context.Context, dir string, args ...string) error {
	c, err := h.group.Start(supervise.Spec{
		Path: "git", Args: args, Dir: dir,
		Env: supervise.Environ(h.cfg.environ(), "GIT_TERMINAL_PROMPT=0", "GIT_ALLOW_PROTOCOL=https:http:ssh:git:file", "GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"),
	})
	if errors.Is(err, supervise.ErrNotFound) {
		return errors.New("git is not installed")
	}
	if err != nil {
		return err
	}
	select {
	case <-c.Done():
	case <-ctx.Done():
		return errors.Join(fmt.Errorf("git %s: %w", args[0], ctx.Err()), c.Stop(ctx))
	}
	defer c.Forget()
	if e := c.Exit(); e.Code != 0 {
		return fmt.Errorf("git %s: %v: %s", args[0], e, strings.TrimSpace(c.Tail()))
	}
	return nil
}
