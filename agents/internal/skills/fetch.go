package skills

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/deskhand/deskhand/internal/supervise"
)

const (
	fetchTime   = 2 * time.Minute
	refreshWait = 10 * time.Second // how long a session with an older copy waits
	retryWait   = time.Minute      // after a failure
	skillFile   = "SKILL.md"
	skillDepth  = 4 // levels of folders that are searched for skills
)

func shortHash(s string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(s)))[:32] }

// fetchedSource is a source of an entry, and the place of its files.
type fetchedSource struct {
	entry  string
	source source
	at     location
	stale  string // why the files are not up to date; empty: they are
	err    error  // there are no files
}

// find returns the selected skills of a source.
func (f *fetchedSource) find() ([]skill, error) {
	if f.err != nil {
		return nil, f.err
	}
	s, at := f.source, f.at
	name := path.Base(strings.TrimSuffix(strings.TrimRight(s.Source, "/"), ".git"))
	if s.Subpath != "" {
		if !filepath.IsLocal(s.Subpath) {
			return nil, fmt.Errorf("subpath %q leads out of the source", s.Subpath)
		}
		if slices.Contains(strings.Split(filepath.Clean(s.Subpath), "/"), ".git") {
			return nil, fmt.Errorf("subpath %q has git's own files", s.Subpath)
		}
		at, name = at.below(s.Subpath), path.Base(s.Subpath)
	}
	all, err := at.skills(name)
	if err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("it has no folder with a %s", skillFile)
	}
	var found []skill
	there := map[string]bool{} // by name of a selected skill
	for _, name := range s.Skills {
		there[name] = false
	}
	for _, one := range all {
		if _, selected := there[one.name]; selected || len(s.Skills) == 0 {
			there[one.name], one.source = true, s.String()
			found = append(found, one)
		}
	}
	for _, want := range s.Skills {
		if !there[want] {
			return found, fmt.Errorf("it has no skill %q", want)
		}
	}
	return found, nil
}

const maxListed = 100_000

// skills returns the skills below a place. name is the name of a skill at the place itself.
func (p location) skills(name string) (all []skill, err error) {
	entries, err := p.files.List(p.dir, p.name, skillDepth, maxListed)
	if err != nil {
		return nil, err
	}
	var found []string
	for _, e := range entries {
		if path.Base(e.Name) == skillFile {
			found = append(found, path.Dir(e.Name))
		}
	}
	if slices.Contains(found, ".") {
		found = []string{"."}
	}
	slices.Sort(found)
	have := map[string]bool{}
	for _, at := range found {
		have[at] = true
	}
	within := func(at string) bool {
		for at = path.Dir(at); at != "."; at = path.Dir(at) {
			if have[at] {
				return true
			}
		}
		return false
	}
	for _, at := range found {
		if within(at) {
			continue // it is a part of that skill
		}
		one := skill{name: path.Base(at), from: p.below(at)}
		if at == "." {
			one.name = name
		}
		if strings.HasPrefix(one.name, ".") || strings.Contains(one.name, "/") {
			return nil, fmt.Errorf("%q cannot be the name of a skill; it must not begin with a dot", one.name)
		}
		all = append(all, one)
	}
	return all, nil
}

var ownerAndRepository = regexp.MustCompile(`^[A-Za-z0-9_.-]+/[A-Za-z0-9_.-]+$`)

// fetch returns the place of a source's files. If they are not up to date, stale says why.
// Symbolic links in the session's folder are not followed.
func (s *Store) fetch(ctx context.Context, cwd string, from source) (at location, stale string, err error) {
	if from.Source == "" {
		return location{}, "", errors.New("source must not be empty")
	}
	url := from.Source
	switch from.Type {
	case "local":
		at, err := s.localSource(cwd, from.Source)
		return at, "", err
	case "git":
	case "github":
		if !ownerAndRepository.MatchString(from.Source) {
			return location{}, "", errors.New("source must be owner/repository")
		}
		url = "https://github.com/" + from.Source + ".git"
	default:
		return location{}, "", fmt.Errorf("type %q is not known; it must be github, git or local", from.Type)
	}
	dir, stale, err := s.fetchGit(ctx, url, from.Ref)
	return location{dir: dir, name: ".", copies: s.copies}, stale, err
}

// localSource returns the place of a local source. It is read with the rights of the agents'
// user.
func (s *Store) localSource(cwd, source string) (location, error) {
	files := s.cfg.Folders.Files()
	if rest, ok := strings.CutPrefix(source, "~/"); ok {
		home, err := s.cfg.User.Home, error(nil)
		if s.cfg.User.Credential == nil {
			home, err = os.UserHomeDir()
		}
		return location{files: files, dir: filepath.Join(home, rest), name: "."}, err
	}
	switch {
	case filepath.IsAbs(source):
		return location{files: files, dir: source, name: "."}, nil
	case filepath.IsLocal(source):
		return location{files: files, dir: cwd, name: filepath.Clean(source)}, nil
	}
	return location{files: files, dir: filepath.Join(cwd, source), name: "."}, nil
}

type failedFetch struct {
	at  time.Time
	err error
}

// commitID matches the id of a commit.
var commitID = regexp.MustCompile(`^([0-9a-f]{40}|[0-9a-f]{64})$`)

// fetchGit returns a copy of a repository. It fetches a copy that is old again, unless ref is
// the id of a commit. Concurrent callers wait for the same fetch. If the fetch fails or takes
// too long, fetchGit returns the old copy, and stale says why.
func (s *Store) fetchGit(ctx context.Context, url, ref string) (dir, stale string, err error) {
	if ref == "" {
		ref = "HEAD"
	}
	if strings.HasPrefix(url, "-") || strings.HasPrefix(ref, "-") {
		return "", "", errors.New("neither source nor ref may begin with a dash")
	}
	if strings.ContainsAny(ref, ":*^+ ") {
		return "", "", fmt.Errorf("ref %q must be the name of a branch, a tag or a commit", ref)
	}
	folder, err := s.folder()
	if err != nil {
		return "", "", err
	}
	key := shortHash(url + "\x00" + ref)
	target := filepath.Join(folder, key)
	var old fs.FileInfo
	var late <-chan time.Time
	if old, err = os.Stat(target); err == nil {
		if stale, ok := s.isFresh(key, ref, old, s.cfg.Age); ok {
			return target, stale, nil
		}
		t := time.NewTimer(s.patience)
		defer t.Stop()
		late = t.C
	}
	done := s.fetches.DoChan(key, func() (any, error) { return nil, s.renew(url, ref, target) })
	select {
	case r := <-done:
		if r.Err != nil && old != nil {
			return target, staleText(old, r.Err), nil
		}
		return target, "", r.Err
	case <-late:
		return target, staleText(old, fmt.Errorf("it takes longer than %v", s.patience)), nil
	case <-ctx.Done():
		return "", "", ctx.Err()
	}
}

// renew fetches a copy in a task of the host.
func (s *Store) renew(url, ref, target string) error {
	done := make(chan error, 1)
	err := s.cfg.Go(func(ctx context.Context) {
		if err := s.fetching.Acquire(ctx, 1); err != nil {
			done <- err
			return
		}
		defer s.fetching.Release(1)
		ctx, cancel := context.WithTimeout(ctx, fetchTime)
		defer cancel()
		err := s.clone(ctx, url, ref, target)
		s.recordAttempt(filepath.Base(target), err)
		done <- err
	})
	if err != nil {
		return err
	}
	return <-done
}

// staleText returns the remark that an old copy is used because of an error, or "".
func staleText(old fs.FileInfo, err error) string {
	if err == nil {
		return ""
	}
	return fmt.Sprintf("%v; what was fetched at %s is used", err, old.ModTime().UTC().Format(time.RFC3339))
}

// isFresh reports whether a copy need not be fetched again now, because it is young or the last
// attempt has failed recently (then stale says why). A copy with a time in the future is old.
func (s *Store) isFresh(key, ref string, old fs.FileInfo, age time.Duration) (stale string, ok bool) {
	since := time.Since(old.ModTime())
	if commitID.MatchString(ref) || age < 0 || 0 <= since && since < age {
		return "", true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.failed[key]
	return staleText(old, f.err), f.err != nil && time.Since(f.at) < min(age, retryWait)
}

// recordAttempt records the result of an attempt to fetch a copy.
func (s *Store) recordAttempt(key string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.failed, key)
	if err != nil {
		if s.failed == nil {
			s.failed = map[string]failedFetch{}
		}
		s.failed[key] = failedFetch{time.Now(), err}
	}
}

// stagingPrefix begins the names of folders of copies that are being fetched.
const stagingPrefix = "new-"

// clone fetches one commit and atomically replaces the folder target.
func (s *Store) clone(ctx context.Context, url, ref, target string) error {
	staging, err := os.MkdirTemp(filepath.Dir(target), stagingPrefix)
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(staging) }() // afterwards the old copy
	for _, args := range [][]string{
		{"init", "--quiet"},
		{"fetch", "--quiet", "--depth=1", "--no-tags", url, ref},
	} {
		if err := s.git(ctx, staging, nil, args...); err != nil {
			return err
		}
	}
	if err := s.checkTree(ctx, staging); err != nil {
		return err
	}
	if err := withoutFilters(staging); err != nil {
		return err
	}
	if err := s.git(ctx, staging, nil, "checkout", "--quiet", "--detach", "FETCH_HEAD"); err != nil {
		return err
	}
	now := time.Now() // the age counts from here
	if commit := commitOf(staging); commit != "" && commit == commitOf(target) {
		return os.Chtimes(target, now, now)
	}
	if err := os.Chtimes(staging, now, now); err != nil {
		return err
	}
	if err := s.copies.Acquire(ctx, maxReaders); err != nil {
		return err
	}
	defer s.copies.Release(maxReaders)
	if err := removeOldest(filepath.Dir(target), maxCopies-1, target); err != nil {
		return err
	}
	err = unix.Renameat2(unix.AT_FDCWD, staging, unix.AT_FDCWD, target, unix.RENAME_EXCHANGE)
	switch {
	case err == nil:
		return nil
	case err != unix.ENOENT: // the file system does not support it
		if err := os.RemoveAll(target); err != nil {
			return err
		}
	}
	return os.Rename(staging, target)
}

// removeOldest removes the oldest copies from dir, except the copy besides, until it has at most
// most others.
func removeOldest(dir string, most int, besides string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	var copies []fs.FileInfo
	for _, e := range entries {
		info, err := e.Info()
		if err == nil && !strings.HasPrefix(e.Name(), stagingPrefix) && e.Name() != filepath.Base(besides) {
			copies = append(copies, info)
		}
	}
	slices.SortFunc(copies, func(a, b fs.FileInfo) int { return a.ModTime().Compare(b.ModTime()) })
	for _, old := range copies[:max(0, len(copies)-most)] {
		if err := os.RemoveAll(filepath.Join(dir, old.Name())); err != nil {
			return err
		}
	}
	return nil
}

// Limits of a repository and of git.
const (
	maxCheckout = 1 << 30 // bytes of all files
	maxGitFile  = 1 << 30 // bytes of a file that git writes, such as a pack
	maxGitSpace = 1 << 30 // bytes of git's address space
)

// withoutFilters has git write the files of a repository as they are. Its .gitattributes
// could run filters of the user's configuration, such as git-lfs, whose output no limit
// bounds. info/attributes precedes it (gitattributes(5)).
func withoutFilters(repository string) error {
	info := filepath.Join(repository, ".git", "info")
	if err := os.MkdirAll(info, 0o700); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(info, "attributes"), []byte("* -filter -ident -text -working-tree-encoding\n"), 0o600)
}

// checkTree returns an error if the fetched commit has too many files or bytes. git
// lists them without holding them in memory, unlike a checkout.
func (s *Store) checkTree(ctx context.Context, dir string) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	err := s.git(ctx, dir, &treeSize{exceeded: cancel}, "ls-tree", "-r", "-t", "-l", "-z", "FETCH_HEAD")
	if cause := context.Cause(ctx); errors.Is(cause, errLargeTree) {
		return cause
	}
	return err
}

var errLargeTree = fmt.Errorf("the repository has more than %d files or %d bytes", maxListed, maxCheckout)

// treeSize reads what git ls-tree -l -z writes: "mode type id size\tpath\x00".
type treeSize struct {
	exceeded     context.CancelCauseFunc
	files, bytes int64
	entry        []byte // the beginning of one
}

func (s *treeSize) Write(p []byte) (int, error) {
	for _, c := range p {
		if c != 0 {
			if len(s.entry) < 128 { // the path may be longer
				s.entry = append(s.entry, c)
			}
			continue
		}
		if fields := strings.Fields(string(s.entry)); len(fields) > 3 {
			n, _ := strconv.ParseInt(fields[3], 10, 64) // "-": a submodule
			s.bytes += n
		}
		s.entry = s.entry[:0]
		if s.files++; s.files > maxListed || s.bytes > maxCheckout {
			s.exceeded(errLargeTree)
			return 0, errLargeTree
		}
	}
	return len(p), nil
}

// commitOf returns the commit that clone has checked out, or "".
func commitOf(dir string) string {
	b, err := os.ReadFile(filepath.Join(dir, ".git", "HEAD"))
	if id := strings.TrimSpace(string(b)); err == nil && commitID.MatchString(id) {
		return id
	}
	return ""
}

// gitSettings keep git's memory small, and what it fetches in one pack, which maxGitFile bounds, and
// have git run no hooks.
// git would write each object of a small pack into a file of its own.
var gitSettings = []string{
	"-c", "core.bigFileThreshold=16m", "-c", "core.packedGitWindowSize=64m", "-c", "core.hooksPath=/dev/null",
	"-c", "fetch.unpackLimit=1", "-c", "transfer.unpackLimit=1",
}

// git runs git without prompts, and without transports that run programs. stdout gets its
// output, unless it is nil.
func (s *Store) git(ctx context.Context, dir string, stdout io.Writer, args ...string) error {
	protocols := "https:http:ssh:git"
	if s.cfg.User.Credential == nil { // else it would read files that the agents' user may not
		protocols += ":file"
	}
	c, err := s.cfg.Group.Start(supervise.Spec{
		Path: "git", Dir: dir, Stdout: stdout,
		Args: slices.Concat(gitSettings, args),
		Env: supervise.Environ(s.cfg.Environ(), "GIT_TERMINAL_PROMPT=0", "GIT_ALLOW_PROTOCOL="+protocols,
			"GIT_HTTP_LOW_SPEED_LIMIT=1", "GIT_HTTP_LOW_SPEED_TIME=20", "GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"),
	})
	if errors.Is(err, supervise.ErrNotFound) {
		return errors.New("git is not installed")
	}
	if err != nil {
		return err
	}
	for resource, limit := range map[int]uint64{unix.RLIMIT_FSIZE: maxGitFile, unix.RLIMIT_AS: maxGitSpace} {
		if err := c.Limit(resource, limit); err != nil {
			return errors.Join(err, c.Stop(ctx))
		}
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
