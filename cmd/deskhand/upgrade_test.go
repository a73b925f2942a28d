package main

import (
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/deskhand/deskhand/internal/testrelease"
)

// archiveName is the archive of this machine.
const archiveName = "deskhand-linux-" + runtime.GOARCH + ".tar.gz"

// packed makes this machine's archive of a release.
func packed(tb testing.TB, script string) string {
	tb.Helper()
	return testrelease.Archive(tb, "deskhand-linux", script)
}

// mirror serves releases.
func mirror(tb testing.TB, files map[string]string) string {
	tb.Helper()
	return testrelease.Serve(tb, files) + "/releases"
}

// release is one version on a mirror.
func release(version string, archive string) map[string]string {
	return map[string]string{
		"/releases/latest/download/VERSION":                       version + "\n",
		"/releases/download/" + version + "/SHA256SUMS":           fmt.Sprintf("%x  %s\n", sha256.Sum256([]byte(archive)), archiveName),
		"/releases/download/" + version + "/" + archiveName:       archive,
		"/releases/download/" + version + "/deskhand-linux-x.deb": "not this one",
	}
}

// installed copies the program under test to where it can be replaced.
func installed(tb testing.TB) string {
	tb.Helper()
	dir, err := os.MkdirTemp(filepath.Dir(binary), "upgrade-") //nolint:usetesting // another user runs it
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = os.RemoveAll(dir) })
	path := filepath.Join(dir, "deskhand")
	if err := os.Link(binary, path); err != nil {
		tb.Fatal(err)
	}
	return path
}

// upgradeWith runs deskhand upgrade of an installed program.
func upgradeWith(tb testing.TB, path, base string, args ...string) result {
	tb.Helper()
	cmd := exec.Command(path, append([]string{"upgrade"}, args...)...)
	cmd.Env = environ(tb, "DESKHAND_BASE_URL="+base)
	return finish(tb, cmd)
}

func TestUpgrade(t *testing.T) {
	t.Parallel()
	path := installed(t)
	program := testrelease.Program("v9.9.9") + "echo $DESKHAND_BASE_URL\n" // the program does not get this variable
	base := mirror(t, release("v9.9.9", packed(t, program)))
	if got := upgradeWith(t, path, base, "--check"); got.status != exitOK || !strings.Contains(got.stdout, "deskhand v9.9.9 is available, and this is v1.2.3-test") {
		t.Errorf("--check: %+v", got)
	}
	if got := upgradeWith(t, path, base, "--version", "1.2.3-test"); got != (result{exitOK, "This is already deskhand v1.2.3-test.\n", ""}) {
		t.Errorf("its own version: %+v", got)
	}
	old, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	got := upgradeWith(t, path, base)
	if got.status != exitOK || got.stderr != "" || !strings.HasPrefix(got.stdout, path+" is now deskhand v9.9.9 instead of v1.2.3-test.") {
		t.Errorf("upgrade: %+v", got)
	}
	text, err := os.ReadFile(path)
	if err != nil || string(text) != program {
		t.Errorf("the program is %.40q (%v)", text, err)
	}
	now, err := os.Stat(path)
	if err != nil || now.Mode() != old.Mode() || now.Sys().(*syscall.Stat_t).Uid != old.Sys().(*syscall.Stat_t).Uid {
		t.Errorf("its mode and owner were %v and are %v (%v)", old, now, err)
	}
	if entries, err := os.ReadDir(filepath.Dir(path)); err != nil || len(entries) != 1 {
		t.Errorf("it left %v (%v)", entries, err)
	}
}

// TestUpgradeErrors wants the program to stay unchanged, and an error.
func TestUpgradeErrors(t *testing.T) {
	t.Parallel()
	good := packed(t, testrelease.Program("v9.9.9"))
	changed := func(name, text string) map[string]string {
		files := release("v9.9.9", good)
		files["/releases/"+name] = text
		return files
	}
	const page = "<!DOCTYPE html><html>Please log in</html>"
	for name, c := range map[string]struct {
		files map[string]string
		args  []string
		want  string
	}{
		"another sum":     {changed("download/v9.9.9/"+archiveName, packed(t, testrelease.Program("v6.6.6"))), nil, "and SHA256SUMS says"},
		"cut off":         {changed("download/v9.9.9/"+archiveName, "CUT"+good[:40]), nil, "the download was cut off; try again"},
		"page for file":   {changed("download/v9.9.9/"+archiveName, page), nil, "the answer is a web page"},
		"page for latest": {changed("latest/download/VERSION", page), nil, "the answer is a web page"},
		"no version":      {changed("latest/download/VERSION", "../../etc"), nil, "which is not a version"},
		"no such version": {changed("x", ""), []string{"--version", "v7.7.7"}, "there is no such release (status 404)"},
		"other machines":  {changed("download/v9.9.9/SHA256SUMS", "00  deskhand-linux-vax.tar.gz\n"), nil, "release v9.9.9 has no " + archiveName},
		"wrong program":   {release("v9.9.9", packed(t, testrelease.Program("v9.9.8"))), nil, "does not run here, so nothing was replaced"},
		"broken program":  {release("v9.9.9", packed(t, "\x7fELF")), nil, "does not run here, so nothing was replaced"},
		"no archive":      {release("v9.9.9", "this is no gzip"), nil, "gzip: invalid header"},
	} {
		path := installed(t)
		before, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		got := upgradeWith(t, path, mirror(t, c.files), c.args...)
		if got.status != exitFailure || got.stdout != "" || !strings.Contains(got.stderr, c.want) {
			t.Errorf("%s: %+v, want %q", name, got, c.want)
		}
		after, err := os.Stat(path)
		if err != nil || !os.SameFile(before, after) {
			t.Errorf("%s: the program was replaced (%v)", name, err)
		}
		if entries, err := os.ReadDir(filepath.Dir(path)); err != nil || len(entries) != 1 {
			t.Errorf("%s: it left %v (%v)", name, entries, err)
		}
	}
}

// TestUpgradeRefused leaves alone programs that belong to a package.
func TestUpgradeRefused(t *testing.T) {
	t.Parallel()
	base := mirror(t, release("v9.9.9", packed(t, testrelease.Program("v9.9.9"))))
	for _, manager := range []string{"dpkg-query", "rpm"} {
		path := installed(t)
		dir := t.TempDir()
		script := `#!/bin/sh
[ "$2" = "` + path + `" ] && [ "$1" = "` + map[string]string{"dpkg-query": "-S", "rpm": "-qf"}[manager] + `" ]
`
		if err := os.WriteFile(filepath.Join(dir, manager), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(path, "upgrade")
		cmd.Env = environ(t, "DESKHAND_BASE_URL="+base)
		cmd.Env = append(cmd.Env, "PATH="+dir+":/bin:/usr/bin")
		if got := finish(t, cmd); got.status != exitFailure || !strings.Contains(got.stderr, path+" belongs to a package of this system") {
			t.Errorf("%s: %+v", manager, got)
		}
	}
	path := installed(t)
	if err := os.Chmod(filepath.Dir(path), 0o555); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, "upgrade")
	cmd.Env = environ(t, "DESKHAND_BASE_URL="+base)
	if os.Geteuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	}
	if got := finish(t, cmd); got.status != exitFailure || !strings.Contains(got.stderr, "this user may not replace "+path+"; run the command as root, or install") {
		t.Errorf("another user: %+v", got)
	}
	if got := upgradeWith(t, path, "ftp://x"); got.status != exitUsage || !strings.Contains(got.stderr, "DESKHAND_BASE_URL must be a URL") {
		t.Errorf("a wrong URL: %+v", got)
	}
}
