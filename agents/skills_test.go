package agents_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/deskhand/deskhand/agents"
	"github.com/deskhand/deskhand/agents/folders"
	"github.com/deskhand/deskhand/internal/testx11"
)

// skillUser is a session's folder that is configured with a skill of a repository.
type skillUser struct {
	h   *agents.Host
	cwd string
}

func useSkill(t *testing.T, h *agents.Host, repo, ref string) skillUser {
	t.Helper()
	u := skillUser{h, t.TempDir()}
	configure(t, h, u.cwd, folders.Skills, "it", fmt.Sprintf(`{"sources":[{"type":"git","source":%q,"ref":%q,"skills":["one"]}]}`, repo, ref))
	return u
}

// begin makes a session, checks the text of its skill, and returns the session's problems.
func (u skillUser) begin(t *testing.T, want string) []string {
	t.Helper()
	id := sessionIn(t, u.h, u.cwd, "[]")
	if b, err := os.ReadFile(filepath.Join(u.cwd, ".agents/skills/one/SKILL.md")); err != nil || string(b) != want {
		t.Errorf("the skill says %q, %v; want %q", b, err, want)
	}
	s, err := u.h.Session(within(t), id)
	if err != nil {
		t.Fatal(err)
	}
	if told := strings.Count(payloads(stream(t, u.h, id)), `"method":"session/problem"`); told != len(s.Problems) {
		t.Errorf("%d problems were told, and there are %q", told, s.Problems)
	}
	return s.Problems
}

// fine is like begin but fails the test if there is a problem.
func (u skillUser) fine(t *testing.T, want string) {
	t.Helper()
	if problems := u.begin(t, want); len(problems) > 0 {
		t.Errorf("problems = %q", problems)
	}
}

// change commits a change to a repository.
func change(t *testing.T, repo, text string) {
	t.Helper()
	write(t, filepath.Join(repo, "skills", "one", "SKILL.md"), text)
	commit(t, repo)
}

// A copy that may be out of date is renewed when a session starts. If that fails, the old copy
// is used.
func TestSkillsRenewed(t *testing.T) {
	t.Parallel()
	testx11.Require(t, "git")
	h := host(t, agents.Config{StateDir: t.TempDir(), SkillsAge: time.Nanosecond})
	post(t, h, "srv", initialize)
	repo := repository(t)
	pinned := git(t, repo, "rev-parse", "HEAD")
	branch, commit := useSkill(t, h, repo, "main"), useSkill(t, h, repo, pinned)
	branch.fine(t, "first")
	commit.fine(t, "first")
	change(t, repo, "changed")
	branch.fine(t, "changed")
	commit.fine(t, "first")
	if err := os.Rename(repo, repo+".away"); err != nil {
		t.Fatal(err)
	}
	problems := branch.begin(t, "changed")
	if len(problems) != 1 || !strings.HasPrefix(problems[0], "skills it: git "+repo+": git fetch") || !strings.Contains(problems[0], "; what was fetched at 20") {
		t.Errorf("problems without the repository: %q", problems)
	}
	commit.fine(t, "first")
	if err := os.Rename(repo+".away", repo); err != nil {
		t.Fatal(err)
	}
	change(t, repo, "back")
	branch.fine(t, "back")
}

// TestSkillsOfLargeTrees fetches a repository of some kilobytes with a million files.
func TestSkillsOfLargeTrees(t *testing.T) {
	t.Parallel()
	testx11.Require(t, "git")
	h := host(t, agents.Config{StateDir: t.TempDir(), SkillsAge: time.Nanosecond})
	post(t, h, "srv", initialize)
	repo := repository(t)
	u := useSkill(t, h, repo, "main")
	u.fine(t, "first")
	for _, entry := range []string{
		"100644 blob " + git(t, repo, "rev-parse", "HEAD:skills/one/SKILL.md"),
		"040000 tree " + git(t, repo, "hash-object", "-t", "tree", "-w", "/dev/null"), // without files
	} {
		large := largeTree(t, repo, entry)
		git(t, repo, "update-ref", "refs/heads/main", git(t, repo, "-c", "user.name=T", "-c", "user.email=t@example.com", "commit-tree", "-m", "x", large))
		problems := u.begin(t, "first")
		for try := 0; try < 10 && len(problems) == 1 && strings.Contains(problems[0], "it takes longer than"); try++ {
			problems = u.begin(t, "first") // git is slow on a busy machine, and a session does not wait for long
		}
		if len(problems) != 1 || !strings.Contains(problems[0], "the repository has more than 100000 files") {
			t.Errorf("%s: problems = %q", entry, problems)
		}
	}
}

// TestSkillsWithoutFilters: filters that a repository names, such as git-lfs, do not run.
func TestSkillsWithoutFilters(t *testing.T) {
	testx11.Require(t, "git")
	home := t.TempDir()
	t.Setenv("HOME", home)
	ran := filepath.Join(home, "ran")
	write(t, filepath.Join(home, ".gitconfig"), fmt.Sprintf("[filter \"big\"]\n\tsmudge = \"touch %s; echo filtered\"\n\tclean = cat\n\trequired = true\n", ran))
	h := host(t, agents.Config{StateDir: t.TempDir()})
	post(t, h, "srv", initialize)
	repo := repository(t)
	write(t, filepath.Join(repo, ".gitattributes"), "* filter=big ident\n")
	change(t, repo, "as it is")
	useSkill(t, h, repo, "main").fine(t, "as it is")
	if _, err := os.Stat(ran); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the filter ran: %v", err)
	}
}

// largeTree makes a tree that has an entry a million times.
func largeTree(t *testing.T, repo, entry string) (id string) {
	t.Helper()
	for range 6 {
		var tree strings.Builder
		for n := range 10 {
			fmt.Fprintf(&tree, "%s\t%d\n", entry, n)
		}
		cmd := exec.CommandContext(t.Context(), "git", "mktree")
		cmd.Dir, cmd.Stdin = repo, strings.NewReader(tree.String())
		made, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		id = strings.TrimSpace(string(made))
		entry = "040000 tree " + id
	}
	return id
}

// A source that was fetched recently, or whose fetch has failed recently, is not fetched
// again.
func TestSkillsKept(t *testing.T) {
	t.Parallel()
	testx11.Require(t, "git")
	state := t.TempDir()
	h := host(t, agents.Config{StateDir: state})
	post(t, h, "srv", initialize)
	repo := repository(t)
	u := useSkill(t, h, repo, "")
	u.fine(t, "first")
	change(t, repo, "changed")
	u.fine(t, "first")
	aged(t, state)
	u.fine(t, "changed")
	change(t, repo, "again")
	if err := os.Rename(repo, repo+".away"); err != nil {
		t.Fatal(err)
	}
	u.fine(t, "changed")
	aged(t, state)
	first := u.begin(t, "changed")
	if err := os.Rename(repo+".away", repo); err != nil {
		t.Fatal(err)
	}
	if next := u.begin(t, "changed"); len(first) != 1 || !slices.Equal(first, next) {
		t.Errorf("problems = %q, then %q", first, next)
	}
	never := host(t, agents.Config{StateDir: state, SkillsAge: -1})
	post(t, never, "srv", initialize)
	skillUser{never, u.cwd}.fine(t, "changed")
}

// aged makes all copies of a host older than they may be.
func aged(t *testing.T, state string) {
	t.Helper()
	copies, err := filepath.Glob(filepath.Join(state, "skills", "*"))
	if err != nil || len(copies) == 0 {
		t.Fatalf("copies = %q, %v", copies, err)
	}
	at := time.Now().Add(-agents.DefaultSkillsAge - time.Second)
	for _, dir := range copies {
		if err := os.Chtimes(dir, at, at); err != nil {
			t.Fatal(err)
		}
	}
}

// Without a state directory, the copies are in a folder that Close removes.
func TestSkillsTemporary(t *testing.T) {
	testx11.Require(t, "git")
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	repo := repository(t)
	h, err := agents.Start(t.Context(), agents.Config{Log: openLog(t, ""), Launch: agentOf()})
	if err != nil {
		t.Fatal(err)
	}
	post(t, h, "srv", initialize)
	useSkill(t, h, repo, "").fine(t, "first")
	folders := func() []string {
		all, _ := filepath.Glob(filepath.Join(temp, "deskhand-skills-*"))
		return all
	}
	if got := folders(); len(got) != 1 {
		t.Errorf("folders = %q", got)
	}
	if err := h.Close(); err != nil {
		t.Error(err)
	}
	if got := folders(); len(got) > 0 {
		t.Errorf("left behind: %q", got)
	}
}

// TestCloseEndsSkills: Close does not wait until all skills are copied.
func TestCloseEndsSkills(t *testing.T) {
	t.Parallel()
	state, source, cwd := t.TempDir(), t.TempDir(), t.TempDir()
	h := host(t, agents.Config{StateDir: state})
	post(t, h, "srv", initialize)
	for i := range 30 {
		write(t, filepath.Join(source, fmt.Sprint(i), "SKILL.md"), "")
	}
	configureSkill(t, h, cwd, source)
	read, err := unix.InotifyInit1(unix.IN_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(read)
	if _, err := unix.InotifyAddWatch(read, filepath.Join(source, "0", "SKILL.md"), unix.IN_OPEN); err != nil {
		t.Fatal(err)
	}
	// Each record of a skill waits ten seconds for the lock of this directory.
	records, err := filepath.Glob(filepath.Join(state, "folders"))
	if err != nil || len(records) != 1 {
		t.Fatalf("records %q, %v", records, err)
	}
	lock, err := os.Open(records[0])
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	made, closed := make(chan error, 1), make(chan error, 1)
	go func() {
		_, err := h.Post(context.Background(), "srv", agents.PostOptions{}, fmt.Appendf(nil, `{"jsonrpc":"2.0","id":1,"method":"session/new","params":{"cwd":%q,"mcpServers":[]}}`, cwd))
		made <- err
	}()
	if _, err := unix.Read(read, make([]byte, 4096)); err != nil {
		t.Fatal(err)
	}
	go func() { closed <- h.Close() }()
	select {
	case err := <-closed:
		if made := <-made; err != nil || made == nil {
			t.Errorf("closed: %v, session: %v", err, made)
		}
	case <-time.After(limit):
		t.Error("Close waits")
	}
}
