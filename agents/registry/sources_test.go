package registry

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/deskhand/deskhand/internal/testx11"
)

// repository makes a git repository with a package whose .npmrc names evil as the program
// that npm runs as git. evil makes the file mark.
func repository(t *testing.T, mark string) string {
	t.Helper()
	testx11.Require(t, "git")
	dir := t.TempDir()
	pkg, err := json.Marshal(map[string]any{
		"name": "evil", "version": "1.0.0", "scripts": map[string]string{"prepare": "./evil prepare"},
		"devDependencies": map[string]string{"helper": "git+file://" + dir},
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"package.json": string(pkg),
		".npmrc":       "git=./evil\nignore-scripts=false\nallow-git=all\n",
		"evil":         "#!/bin/sh\ntouch '" + mark + "'\nexit 1\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{{"init", "--quiet"}, {"add", "."}, {"commit", "--quiet", "--message=evil"}} {
		cmd := exec.CommandContext(t.Context(), "git", append([]string{"-c", "user.name=t", "-c", "user.email=t@example.com"}, args...)...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	return dir
}

// TestPackagesOfOtherSources: a package whose dependencies come from a git repository or a
// folder of this machine is refused, and no program of the repository runs.
func TestPackagesOfOtherSources(t *testing.T) {
	t.Parallel()
	mark := filepath.Join(t.TempDir(), "mark")
	repo := repository(t, mark)
	packages := codexPackages(t)
	acp := packages[0]
	acp.version, acp.dependencies = "98.0.0", map[string]string{"evil": "git+file://" + repo}
	local := acp
	local.version, local.dependencies = "98.0.1", map[string]string{"evil": "file:" + repo}
	_, env := serveNPM(t, append(packages, acp, local)...)
	r := newRegistry(t, Config{Env: env})
	for _, version := range []string{"98.0.0", "98.0.1"} {
		_, err := r.Install(t.Context(), "codex", InstallOptions{ProcessVersion: version})
		checkInstallError(t, version, err, StageResolve, "", "choose another version")
	}
	if _, err := os.Stat(mark); err == nil {
		t.Error("a program of the repository ran")
	}
}

// TestTempDir: npm and agents have a directory of their own for temporary files. In /tmp all users could
// put code that programs of node execute.
func TestTempDir(t *testing.T) {
	t.Parallel()
	testx11.Require(t, "node")
	bin, mark := t.TempDir(), filepath.Join(t.TempDir(), "mark")
	program := script(t, filepath.Join(bin, "npm"), `stat -c %a:%u:%n "$TMPDIR" >> '`+mark+`'; exit 1`)
	env := []string{"PATH=" + bin + ":" + os.Getenv("PATH"), "HOME=" + t.TempDir()}
	r := newRegistry(t, Config{Env: env, Custom: []Custom{{ID: "asked", Command: []string{program}}}})
	_, err := r.Install(t.Context(), "codex", InstallOptions{})
	checkInstallError(t, "npm", err, StageResolve, "", "npm install")
	if err := r.Ask(t.Context(), "asked"); err == nil {
		t.Error("an agent that ends was asked without an error")
	}
	want := fmt.Sprintf("700:%d:%s/deskhand-%[1]d-programs\n", os.Geteuid(), strings.TrimSuffix(os.TempDir(), "/"))
	if got, err := os.ReadFile(mark); err != nil || string(got) != want+want {
		t.Errorf("the temporary directories of npm and an agent are %q, %v", got, err)
	}
}
