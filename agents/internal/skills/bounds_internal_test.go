package skills

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/deskhand/deskhand/internal/supervise"
)

// TestSkillIsBounded lists skills with too many files and too many bytes.
func TestSkillIsBounded(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		files int
		size  int64
		fits  bool
	}{
		"most files": {2000, 0, true},
		"files":      {2001, 0, false},
		"most bytes": {1, 64 << 20, true},
		"bytes":      {2, 32<<20 + 1, false},
	} {
		dir := t.TempDir()
		for i := range c.files {
			file := filepath.Join(dir, fmt.Sprint(i))
			if err := errors.Join(os.WriteFile(file, nil, 0o600), os.Truncate(file, c.size)); err != nil {
				t.Fatal(err)
			}
		}
		entries, _, err := location{dir: dir, name: "."}.list()
		if c.fits && (err != nil || len(entries) != c.files) || !c.fits && (err == nil || !strings.Contains(err.Error(), "more than 2000 files or 67108864 bytes")) {
			t.Errorf("%s: %d entries, %v", name, len(entries), err)
		}
	}
}

// TestTreeIsBounded reads lists of git with files that are too large together.
func TestTreeIsBounded(t *testing.T) {
	t.Parallel()
	const entry = "100644 blob 0123456789012345678901234567890123456789 %d\tfile\x00"
	var got error
	tree := &treeSize{exceeded: func(err error) { got = err }}
	if _, err := fmt.Fprintf(tree, entry+entry, 1<<29, 1<<29); err != nil || got != nil {
		t.Errorf("1 GiB: %v, %v", err, got)
	}
	if _, err := fmt.Fprintf(tree, entry, 1); !errors.Is(err, errLargeTree) || !errors.Is(got, errLargeTree) {
		t.Errorf("1 GiB and a byte: %v, %v", err, got)
	}
}

// storeWithGit returns a store whose git is a script in dir. Its copies are below dir.
func storeWithGit(t *testing.T, dir, script string) *Store {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, "git"), []byte(script), 0o755); err != nil { //nolint:gosec // it is a program
		t.Fatal(err)
	}
	group, err := supervise.NewGroup(supervise.GroupConfig{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := group.Close(); err != nil {
			t.Error(err)
		}
	})
	return New(Config{
		Dir: filepath.Join(dir, "copies"), Age: time.Minute, Group: group,
		Environ: func() []string { return []string{"PATH=" + dir + ":" + os.Getenv("PATH")} },
		Go: func(f func(context.Context)) error {
			go f(t.Context())
			return nil
		},
	})
}

// TestGitIsBounded runs a program in place of git that waits for its limits.
func TestGitIsBounded(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	script := `#!/bin/sh
for limit in 'Max file size' 'Max address space'; do
	until grep -q "^$limit  *1073741824  *1073741824" /proc/$$/limits; do sleep 0.05; done
done
`
	store := storeWithGit(t, dir, script)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := store.git(ctx, dir, nil, "version"); err != nil {
		t.Errorf("git runs without limits: %v", err)
	}
}

// TestSourcesAreBounded configures more repositories than a folder may have. A script in place of
// git notes when too many fetches run at the same time.
func TestSourcesAreBounded(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	script := fmt.Sprintf(`#!/bin/sh
case "$*" in *init*) exit;; esac
mkdir -p %[1]s/running/$$
[ "$(ls %[1]s/running | wc -l)" -le %[2]d ] || touch %[1]s/exceeded
sleep 0.3
rmdir %[1]s/running/$$
echo fetched >&2
exit 1
`, dir, maxAtOnce)
	store := storeWithGit(t, dir, script)
	var sources []string
	for i := range maxSources + 1 {
		sources = append(sources, fmt.Sprintf(`{"type":"git","source":"https://git.example/%d"}`, i))
	}
	entry := json.RawMessage(`{"sources":[` + strings.Join(sources, ",") + `]}`)
	all, problems, failed := store.fetchAll(t.Context(), dir, map[string]json.RawMessage{"many": entry})
	if len(all) != maxSources || !failed || len(problems) != 1 || !strings.Contains(problems[0], "more than 32 sources") {
		t.Errorf("%d sources, %v, %v", len(all), problems, failed)
	}
	for _, one := range all {
		if one.err == nil || !strings.Contains(one.err.Error(), "fetched") {
			t.Errorf("%s: %v", one.source, one.err)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "exceeded")); err == nil {
		t.Errorf("more than %d fetches ran at the same time", maxAtOnce)
	}
}

// TestFetchesArePacked fetches a small repository. Its objects are in one pack, whose size is bounded,
// and not in files of their own.
func TestFetchesArePacked(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	repo := filepath.Join(dir, "repo")
	for _, args := range [][]string{
		{"init", "--quiet", repo},
		{"-C", repo, "-c", "user.name=T", "-c", "user.email=t@git.example", "commit", "--quiet", "--allow-empty", "--message=one"},
	} {
		if out, err := exec.CommandContext(t.Context(), "git", args...).CombinedOutput(); err != nil {
			t.Fatalf("git %s: %v: %s", args, err, out)
		}
	}
	store := storeWithGit(t, dir, "#!/bin/sh\nPATH=${PATH#*:}\nexec git \"$@\"\n")
	at, _, err := store.fetchGit(t.Context(), repo, "")
	if err != nil {
		t.Fatal(err)
	}
	packs, err1 := filepath.Glob(filepath.Join(at, ".git/objects/pack/*.pack"))
	loose, err2 := filepath.Glob(filepath.Join(at, ".git/objects/[0-9a-f][0-9a-f]/*"))
	if err := errors.Join(err1, err2); err != nil || len(packs) != 1 || len(loose) > 0 {
		t.Errorf("packs %v, other objects %v, %v", packs, loose, err)
	}
}

// TestCopiesAreBounded removes the oldest copies of repositories.
func TestCopiesAreBounded(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for i, name := range []string{"target", "oldest", "old", "young", stagingPrefix + "1"} {
		at := filepath.Join(dir, name)
		when := time.Unix(int64(1000+i), 0)
		if err := errors.Join(os.MkdirAll(filepath.Join(at, "files"), 0o700), os.Chtimes(at, when, when)); err != nil {
			t.Fatal(err)
		}
	}
	if err := removeOldest(dir, 2, filepath.Join(dir, "target")); err != nil {
		t.Fatal(err)
	}
	left, err := os.ReadDir(dir)
	var names []string
	for _, e := range left {
		names = append(names, e.Name())
	}
	if want := []string{stagingPrefix + "1", "old", "target", "young"}; err != nil || !slices.Equal(names, want) {
		t.Errorf("left: %v, %v, want %v", names, err, want)
	}
}

// TestSourcesOfGit refuses what would give an agent git's own files.
func TestSourcesOfGit(t *testing.T) {
	t.Parallel()
	for _, subpath := range []string{".git", ".git/logs", "a/../.git/x", "./sub/.git"} {
		f := &fetchedSource{source: source{Type: "git", Source: "x", Subpath: subpath}, at: location{dir: t.TempDir(), name: "."}}
		if _, err := f.find(); err == nil || !strings.Contains(err.Error(), "git's own files") {
			t.Errorf("subpath %s: %v", subpath, err)
		}
	}
	store := New(Config{Dir: t.TempDir()})
	for _, ref := range []string{"HEAD:refs/heads/x", "+main", "refs/heads/*", "a b", "^main"} {
		if _, _, err := store.fetchGit(t.Context(), "https://git.example/x", ref); err == nil || !strings.Contains(err.Error(), "must be the name of a branch") {
			t.Errorf("ref %s: %v", ref, err)
		}
	}
}
