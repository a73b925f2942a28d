package process_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/deskhand/deskhand/process"
)

func TestStart(t *testing.T) {
	t.Parallel()
	m := newManager(t, process.Config{})
	dir := t.TempDir()
	p := start(t, m, process.Spec{
		Command: "sh", Args: []string{"-c", "pwd; echo err >&2; read line; echo got $line; exit 3"}, Dir: dir, Interactive: true,
	})
	i := p.Info()
	if i.ID != p.ID() || !strings.HasPrefix(i.ID, "proc_") || i.Command != "sh" || len(i.Args) != 2 || i.Dir != dir || i.Terminal ||
		!i.Interactive || i.Owner != process.OwnerUser || !i.Running || !alive(i.PID) || i.Exit != nil || i.Started.IsZero() || !i.Ended.IsZero() {
		t.Errorf("while it runs: %+v", i)
	}
	if n, err := p.Write(t.Context(), []byte("a b\n")); n != 4 || err != nil {
		t.Errorf("Write: %d, %v", n, err)
	}
	i = wait(t, p)
	if i.Running || i.PID != 0 || i.Exit == nil || code(*i.Exit) != "3" || i.Ended.Before(i.Started) {
		t.Errorf("after its end: %+v", i)
	}
	var out, errs bytes.Buffer
	for n, e := range p.Log().Entries(process.Query{}) {
		if e.Sequence != uint64(n+1) || e.Time.Before(i.Started) || e.Time.After(i.Ended.Add(limit)) {
			t.Errorf("entry %d: %+v", n, e)
		}
		map[process.Stream]*bytes.Buffer{process.Stdout: &out, process.Stderr: &errs}[e.Stream].Write(e.Data)
	}
	if want := dir + "\ngot a b\n"; out.String() != want || errs.String() != "err\n" {
		t.Errorf("stdout %q, want %q; stderr %q", &out, want, &errs)
	}
	if found, err := m.Find(p.ID()); found != p || err != nil {
		t.Errorf("Find: %v, %v", found, err)
	}
}

func TestExitBySignal(t *testing.T) {
	t.Parallel()
	m := newManager(t, process.Config{})
	i := wait(t, start(t, m, script("kill -TERM $$")))
	if diff := cmp.Diff(&process.Exit{Signal: "SIGTERM"}, i.Exit); diff != "" {
		t.Error(diff)
	}
}

// When Done is closed, all output is in the log, even if another process holds the pipe.
func TestDoneIsComplete(t *testing.T) {
	t.Parallel()
	m := newManager(t, process.Config{})
	for range 20 {
		p := start(t, m, script("sleep 1000 & head -c 60000 /dev/zero; echo end"))
		wait(t, p)
		if s := text(p); len(s) != 60004 || !strings.HasSuffix(s, "end\n") {
			t.Fatalf("%d bytes when it was done", len(s))
		}
		p.Kill(t.Context(), 0)
	}
}

func TestSpecErrors(t *testing.T) {
	t.Parallel()
	m := newManager(t, process.Config{})
	for _, tt := range []struct {
		spec  process.Spec
		field string
	}{
		{process.Spec{}, "Command"},
		{process.Spec{Command: " \t"}, "Command"},
		{process.Spec{Command: "true", Env: map[string]string{"": "x"}}, "Env"},
		{process.Spec{Command: "true", Env: map[string]string{"a=b": "x"}}, "Env"},
		{process.Spec{Command: "true", Env: map[string]string{"a\x00": "x"}}, "Env"},
		{process.Spec{Command: "true", Env: map[string]string{"a": "x\x00y"}}, "Env"},
		{process.Spec{Command: "true", Owner: "desktop"}, "Owner"},
		{process.Spec{Command: "true", User: "no-such-user"}, "User"},
		{process.Spec{Command: "true", User: "4294967290"}, "User"},
	} {
		_, err := m.Start(tt.spec)
		_, runErr := m.Run(t.Context(), tt.spec, process.RunOptions{})
		if !isInvalid(err, tt.field) || !isInvalid(runErr, tt.field) {
			t.Errorf("%+v: %v and %v, want an InvalidError of %s", tt.spec, err, runErr, tt.field)
		}
	}
}

func TestStartErrors(t *testing.T) {
	t.Parallel()
	m := newManager(t, process.Config{})
	dir := t.TempDir()
	write := func(name, content string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	plain := write("plain", "#!/bin/sh\n", 0o600)
	lost := filepath.Join(dir, "lost")
	if err := os.Mkdir(lost, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(lost); err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("x", 1<<20)
	for _, tt := range []struct {
		spec process.Spec
		want error
		text string
	}{
		{process.Spec{Command: "no-such-program"}, fs.ErrNotExist, "PATH"},
		{process.Spec{Command: "/no/such/program"}, fs.ErrNotExist, "/no/such/program"},
		{process.Spec{Command: "true", Env: map[string]string{"PATH": dir}}, fs.ErrNotExist, "PATH"},
		{process.Spec{Command: plain}, fs.ErrPermission, "permission denied"},
		{process.Spec{Command: "./plain", Dir: dir}, fs.ErrPermission, "permission denied"},
		{process.Spec{Command: dir}, fs.ErrPermission, "permission denied"},
		{process.Spec{Command: write("binary", "\x7fELFnot really", 0o700)}, syscall.ENOEXEC, "exec format error"},
		{process.Spec{Command: write("script", "#!/no/such/interpreter\n", 0o700)}, fs.ErrNotExist, "interpreter"},
		{process.Spec{Command: "true", Dir: lost}, fs.ErrNotExist, lost},
		{process.Spec{Command: "true", Dir: plain}, syscall.ENOTDIR, plain},
		{process.Spec{Command: "true", Args: []string{"a\x00b"}}, syscall.EINVAL, "NUL"},
		{process.Spec{Command: "tr\x00ue"}, syscall.EINVAL, "NUL"},
		{process.Spec{Command: "true", Dir: "\x00"}, syscall.EINVAL, "NUL"},
		{process.Spec{Command: "true", Args: []string{long}}, syscall.E2BIG, "131071"},
		{process.Spec{Command: "true", Args: slices.Repeat([]string{long[:100_000]}, 100)}, syscall.E2BIG, "argument list too long"},
	} {
		for _, terminal := range []bool{false, true} {
			tt.spec.Terminal = terminal
			_, err := m.Start(tt.spec)
			_, runErr := m.Run(t.Context(), tt.spec, process.RunOptions{})
			for _, err := range []error{err, runErr} {
				var failed *process.StartError
				if !errors.As(err, &failed) || failed.Command != tt.spec.Command || !errors.Is(err, tt.want) || !strings.Contains(err.Error(), tt.text) {
					t.Errorf("%.60q in %q: %.300v, want %v with %q", tt.spec.Command, tt.spec.Dir, err, tt.want, tt.text)
				}
				if err != nil && len(err.Error()) > 500 {
					t.Errorf("an error of %d bytes", len(err.Error()))
				}
			}
		}
	}
	if infos := m.List(""); len(infos) != 0 {
		t.Errorf("failed starts are listed: %+v", infos)
	}
}

func TestLongArguments(t *testing.T) {
	t.Parallel()
	m := newManager(t, process.Config{})
	args := slices.Repeat([]string{strings.Repeat("x", 131071)}, 8) // 1 MiB
	r, err := m.Run(t.Context(), process.Spec{Command: "sh", Args: append([]string{"-c", "echo ${#8}", "sh"}, args...)}, process.RunOptions{})
	if err != nil || string(r.Stdout) != "131071\n" {
		t.Errorf("%+v, %v", r, err)
	}
}

// env runs a program that prints its environment.
func env(t *testing.T, m *process.Manager, s process.Spec) map[string]string {
	t.Helper()
	s.Command, s.Args = "env", []string{"-0"}
	r, err := m.Run(t.Context(), s, process.RunOptions{})
	if err != nil {
		t.Fatal(err)
	}
	vars := make(map[string]string)
	for entry := range strings.SplitSeq(strings.TrimSuffix(string(r.Stdout), "\x00"), "\x00") {
		name, value, _ := strings.Cut(entry, "=")
		vars[name] = value
	}
	if vars["DESKHAND_GROUP"] == "" {
		t.Errorf("no token in the environment %v", vars)
	}
	delete(vars, "DESKHAND_GROUP")
	return vars
}

// Not parallel: it changes the environment.
func TestEnvironment(t *testing.T) {
	t.Setenv("DESKHAND_TOKEN", "secret")
	t.Setenv("SANDBOX_AGENT_TOKEN", "secret")
	t.Setenv("PROCESS_TEST", "inherited")
	path := "PATH=" + os.Getenv("PATH")

	m := newManager(t, process.Config{})
	got := env(t, m, process.Spec{Env: map[string]string{"ADDED": "a=b", "PROCESS_TEST_2": ""}})
	if _, leaks := got["DESKHAND_TOKEN"]; leaks || got["SANDBOX_AGENT_TOKEN"] != "" {
		t.Errorf("our token leaks: %v", got)
	}
	if empty, ok := got["PROCESS_TEST_2"]; got["PROCESS_TEST"] != "inherited" || got["ADDED"] != "a=b" || !ok || empty != "" {
		t.Errorf("environment %v", got)
	}

	m = newManager(t, process.Config{Environ: []string{path, "A=1", "B=2"}})
	want := map[string]string{"PATH": os.Getenv("PATH"), "A": "1", "B": "3", "PWD": "/"}
	if diff := cmp.Diff(want, env(t, m, process.Spec{Dir: "/", Env: map[string]string{"B": "3"}})); diff != "" {
		t.Error("with Config.Environ:", diff)
	}
	want = map[string]string{"PATH": os.Getenv("PATH"), "C": "4", "B": "3"}
	if diff := cmp.Diff(want, env(t, m, process.Spec{Environ: []string{path, "C=4"}, Env: map[string]string{"B": "3"}})); diff != "" {
		t.Error("with Spec.Environ:", diff)
	}
}

func TestUser(t *testing.T) {
	t.Parallel()
	m := newManager(t, process.Config{})
	self, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{self.Username, self.Uid} { // needs no privileges
		if got := env(t, m, process.Spec{User: name}); got["USER"] != self.Username || got["HOME"] != self.HomeDir || got["PWD"] != self.HomeDir {
			t.Errorf("as %s: %v", name, got)
		}
	}
	other, err := user.LookupId("65534")
	if err != nil {
		t.Skip("there is no user 65534")
	}
	if os.Geteuid() != 0 {
		if _, err := m.Start(process.Spec{Command: "true", User: other.Username}); !isInvalid(err, "User") || !strings.Contains(err.Error(), "root") {
			t.Errorf("as another user: %v", err)
		}
		t.Skip("only root can change users")
	}
	home := other.HomeDir
	if _, err := os.Stat(home); err != nil {
		home = "/"
	}
	groups, err := other.GroupIds()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{other.Username, other.Uid} {
		r, err := m.Run(t.Context(), process.Spec{
			Command: "sh", Args: []string{"-c", "id -u; id -g; id -G; echo $HOME $USER $LOGNAME $SHELL; pwd"}, User: name,
		}, process.RunOptions{})
		if err != nil {
			t.Fatal(err)
		}
		want := strings.Join([]string{
			other.Uid, other.Gid, strings.Join(groups, " "), other.HomeDir + " " + other.Username + " " + other.Username + " " + shell(t, other.Username), home, "",
		}, "\n")
		if diff := cmp.Diff(want, string(r.Stdout)); diff != "" {
			t.Errorf("as %s: %s\n%s", name, diff, r.Stderr)
		}
	}
	// The terminal belongs to the user, who may open it again.
	p := start(t, m, process.Spec{
		Command: "sh", Args: []string{"-c", "echo again >$(tty); setsid sleep 1000 & echo pids $$ $!; wait"}, Dir: "/", User: other.Username, Terminal: true,
	})
	await(t, p, "again")
	pids := numbers(t, await(t, p, "pids"))
	if i := p.Kill(t.Context(), limit); i.Running {
		t.Error("the process runs after Kill")
	}
	gone(t, pids...)
}

func shell(t *testing.T, name string) string {
	t.Helper()
	passwd, err := os.ReadFile("/etc/passwd")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(passwd)) {
		if f := strings.Split(strings.TrimSpace(line), ":"); f[0] == name {
			return f[6]
		}
	}
	t.Fatalf("%s is not in /etc/passwd", name)
	return ""
}
