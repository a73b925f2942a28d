package httpapi

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/deskhand/deskhand/agents/registry"
	"github.com/deskhand/deskhand/internal/testx11"
)

// TestOpenCodeHostileRepository: looking at a repository runs none of the programs that its
// configuration names.
func TestOpenCodeHostileRepository(t *testing.T) {
	t.Parallel()
	o := serveOpenCode(t)
	ran := filepath.Join(t.TempDir(), "ran")
	program := `sh -c "echo $0 >>` + ran + `; cat"`
	git := func(args ...string) string {
		t.Helper()
		cmd := exec.Command("git", args...)
		cmd.Dir = o.dir
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("git %q: %v: %s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	same := []string{"same.txt", "same.bin"}
	for _, name := range append(same, "other.bin") {
		o.write(t, name, strings.Replace(name, "bin", "\x00", 1))
	}
	git("add", "same.txt", "same.bin", "other.bin")
	git("-c", "user.name=a", "-c", "user.email=a", "commit", "-q", "-m", "same")
	o.write(t, "other.bin", "other.\x01\x00")
	for _, name := range same {
		if err := os.Chtimes(filepath.Join(o.dir, name), time.Unix(1, 0), time.Unix(1, 0)); err != nil { // git has to read it
			t.Fatal(err)
		}
	}
	hook := filepath.Join(o.dir, ".git", "hooks", "post-index-change")
	if err := os.MkdirAll(filepath.Dir(hook), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(hook, []byte("#!/bin/sh\n"+program+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	o.write(t, ".gitattributes", "a.txt filter=a=b.c\nsub/* filter=long diff=d\n")
	o.write(t, "sub/main.go", "package main\n\nfunc helloThere() {}\n") // of the same length: git has to read it
	for name, value := range map[string]string{
		"filter.a=b.c.clean": program, "filter.a=b.c.required": "true", "filter.long.process": program, "filter.long.smudge": program,
		"core.fsmonitor": program, "diff.d.command": program, "diff.d.textconv": program, "diff.external": program, "core.pager": program,
		"core.hooksPath": filepath.Dir(hook), "core.sshCommand": program,
	} {
		git("config", "--replace-all", name, value)
	}
	look := func(changes int, refusal string) {
		t.Helper()
		for _, path := range []string{"/vcs/status", "/file/status"} {
			if refusal != "" {
				if _, text := o.refusal(t, "GET", path, "", 502); !strings.Contains(text, refusal) {
					t.Errorf("%s is refused with %s", path, text)
				}
				continue
			}
			var got []any
			if o.call(t, "GET", path, "", 200, &got); len(got) != changes {
				t.Errorf("%s: %v", path, got)
			}
		}
		for _, path := range []string{"/file", "/find/file?query=a"} {
			var got []any
			o.call(t, "GET", path, "", 200, &got)
		}
		var v any
		o.call(t, "GET", "/vcs", "", 200, &v)
		if text, err := os.ReadFile(ran); err == nil {
			t.Errorf("git ran programs of the repository: %s", text)
		}
	}
	look(5, "") // .gitattributes, a.txt, new.txt, other.bin and sub/main.go

	// The names of filters are more than deskhand reads.
	config, err := os.OpenFile(filepath.Join(o.dir, ".git", "config"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	whole, err := config.Stat()
	if err != nil {
		t.Fatal(err)
	}
	for i := range 1200 {
		fmt.Fprintf(config, "[filter \"%s%d\"]\n\tclean = cat\n", strings.Repeat("x", 1000), i)
	}
	look(0, "too much output")
	if err := errors.Join(config.Truncate(whole.Size()), config.Close()); err != nil {
		t.Fatal(err)
	}
	look(5, "")

	// git would fetch an object that is missing.
	object := git("rev-parse", "HEAD:a.txt")
	if err := os.Remove(filepath.Join(o.dir, ".git", "objects", object[:2], object[2:])); err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{
		"extensions.partialClone": "origin", "core.repositoryFormatVersion": "1", "remote.origin.promisor": "true", "remote.origin.url": o.dir,
		"remote.origin.uploadpack": "touch " + ran + "; git-upload-pack",
	} {
		git("config", name, value)
	}
	look(0, "unable to read "+object)
}

// TestOpenCodePartialClone: git fetches no missing object of a partial clone, also a git that does
// not know GIT_NO_LAZY_FETCH. A fetch would run the programs that the repository's configuration names.
func TestOpenCodePartialClone(t *testing.T) {
	testx11.Require(t, "git")
	scratch := t.TempDir()
	ran, trace := filepath.Join(scratch, "ran"), filepath.Join(scratch, "trace")
	config := `[core]
	repositoryFormatVersion = 1
[extensions]
	partialClone = origin
[remote "origin"]
	url = https://host.invalid/repository
	promisor = true
[fetch]
	bundleURI = https://host.invalid/bundle
[http]
	proxy = http://user@127.0.0.1:9
[credential]
	helper = "!touch ` + ran + `; false"
`
	const commit = "1111111111111111111111111111111111111111"
	serveClone := func(t *testing.T) openCode {
		t.Helper()
		o := openCode{serve(t, Config{Agents: registry.Config{Mock: []string{"true"}}}), t.TempDir()}
		o.write(t, ".git/HEAD", "ref: refs/heads/main\n")
		o.write(t, ".git/refs/heads/main", commit+"\n")
		o.write(t, ".git/objects/info/packs", "")
		o.write(t, ".git/config", config)
		return o
	}
	t.Setenv("GIT_TRACE", trace)
	t.Run("no fetch", func(t *testing.T) {
		o := serveClone(t)
		if _, text := o.refusal(t, "GET", "/vcs/status", "", 502); !strings.Contains(text, "HEAD") {
			t.Errorf("the clone is refused with %s", text)
		}
		text, err := os.ReadFile(trace)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), "diff-index") || strings.Contains(string(text), "fetch origin") {
			t.Errorf("git did this:\n%s", text)
		}
	})
	t.Run("old git", func(t *testing.T) {
		git, err := exec.LookPath("git")
		if err != nil {
			t.Fatal(err)
		}
		bin := t.TempDir()
		script := fmt.Sprintf("#!/bin/sh\nunset GIT_NO_LAZY_FETCH\nexec %s \"$@\"\n", git)
		if err := os.WriteFile(filepath.Join(bin, "git"), []byte(script), 0o700); err != nil { //nolint:gosec // it is a program
			t.Fatal(err)
		}
		t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
		o := serveClone(t)
		if _, text := o.refusal(t, "GET", "/vcs/status", "", 502); !strings.Contains(text, "fetch.parallel") {
			t.Errorf("the clone is refused with %s", text)
		}
	})
	if _, err := os.Stat(ran); err == nil {
		t.Error("git ran the repository's credential helper")
	}
}

// TestOpenCodeNoCommit: a directory without a commit has no changes. Other failures of git are
// errors.
func TestOpenCodeNoCommit(t *testing.T) {
	t.Parallel()
	testx11.Require(t, "git")
	o := openCode{serve(t, Config{Agents: registry.Config{Mock: []string{"true"}}}), t.TempDir()}
	var got []any
	status := func() {
		t.Helper()
		if o.call(t, "GET", "/vcs/status", "", 200, &got); len(got) != 0 {
			t.Errorf("changes = %v", got)
		}
	}
	o.write(t, ".git/junk", "")
	status()
	cmd := exec.Command("git", "init", "-q")
	cmd.Dir = o.dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("git init: %v: %s", err, out)
	}
	status()
	// A repository inside of the repository, without .git.
	for _, name := range []string{"HEAD", "config"} {
		text, err := os.ReadFile(filepath.Join(o.dir, ".git", name))
		if err != nil {
			t.Fatal(err)
		}
		o.write(t, "inner/"+name, string(text))
	}
	o.write(t, "inner/objects/x", "")
	o.write(t, "inner/refs/x", "")
	inner := openCode{o.testServer, filepath.Join(o.dir, "inner")}
	if _, text := inner.refusal(t, "GET", "/vcs/status", "", 502); !strings.Contains(text, "bare repository") {
		t.Errorf("a bare repository is refused with %s", text)
	}
	o.write(t, ".git/config", "[core\n")
	if _, text := o.refusal(t, "GET", "/vcs/status", "", 502); !strings.Contains(text, "bad config") {
		t.Errorf("a bad configuration is refused with %s", text)
	}
}
