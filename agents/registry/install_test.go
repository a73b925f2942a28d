package registry

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// limit bounds the wait for anything that is fast.
const limit = 60 * time.Second

// pinned is the version of a package in the table.
func pinned(t testing.TB, agent string, k Kind) string {
	t.Helper()
	for _, a := range agents {
		for _, p := range a.packages {
			if a.ID == agent && slices.Contains(p.kinds, k) {
				return p.version
			}
		}
	}
	t.Fatalf("%s has no %s", agent, k)
	return ""
}

// codexPackages are the packages of codex with the names of the table, and one for another
// platform. A test would notice that their scripts were run.
func codexPackages(t testing.TB) []fakePackage {
	h, err := host()
	if err != nil {
		t.Skip(err)
	}
	process, native := pinned(t, "codex", KindProcess), pinned(t, "codex", KindNative)
	acp := fakePackage{
		name: "@agentclientprotocol/codex-acp", version: process,
		files:        map[string]string{"dist/index.js": "console.log('codex-acp', process.env.CODEX_PATH)\n"},
		dependencies: map[string]string{"helper": "^1.0.0", "@openai/codex": "^" + native},
		more:         map[string]any{"scripts": map[string]string{"postinstall": "touch script-was-run", "install": "exit 1"}},
	}
	newer := acp
	newer.version = "99.0.0"
	newer.dependencies = map[string]string{"helper": "^1.0.0"}
	return []fakePackage{
		acp, newer,
		{
			name: "@openai/codex", version: native,
			files:    map[string]string{"bin/codex.js": "#!/usr/bin/env node\nconsole.log('codex-cli " + native + "')\n"},
			optional: map[string]string{"codex-here": "1.0.0", "codex-elsewhere": "1.0.0"},
			more:     map[string]any{"bin": map[string]string{"codex": "bin/codex.js"}},
		},
		{name: "@openai/codex", version: "0.99.1", files: map[string]string{"bin/codex.js": "#!/bin/sh\necho 0.99.1\n"}},
		{name: "@openai/codex", version: "0.99.2", files: map[string]string{"bin/codex.js": "#!/bin/sh\necho segmentation fault in $(pwd -P) >&2\nexit 3\n"}},
		{name: "codex-here", version: "1.0.0", more: map[string]any{"os": []string{"linux"}, "cpu": []string{h.arch}}},
		{name: "codex-elsewhere", version: "1.0.0", more: map[string]any{"os": []string{"darwin"}}},
		{name: "helper", version: "1.2.3"},
	}
}

func install(t testing.TB, r *Registry, id string, o InstallOptions) Installed {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	got, err := r.Install(ctx, id, o)
	if err != nil {
		if failed, ok := errors.AsType[*InstallError](err); ok {
			t.Fatalf("%v\n%s", err, failed.Stderr)
		}
		t.Fatal(err)
	}
	return got
}

func TestInstall(t *testing.T) {
	t.Parallel()
	packages := codexPackages(t)
	for i := range packages {
		packages[i].mode = 0o6777 // as a package has them that wants programs to run as root
	}
	npm, env := serveNPM(t, packages...)
	r := newRegistry(t, Config{Env: env})
	process, native := pinned(t, "codex", KindProcess), pinned(t, "codex", KindNative)
	if _, err := r.Command("codex"); !errors.Is(err, ErrNotInstalled) {
		t.Fatalf("before: %v", err)
	}

	var reports []Progress
	got := install(t, r, "codex", InstallOptions{Progress: func(p Progress) { reports = append(reports, p) }})
	dir := filepath.Join(r.cfg.Dir, "codex", process)
	adapter := filepath.Join(dir, "node_modules/@agentclientprotocol/codex-acp/dist/index.js")
	codex := filepath.Join(dir, "node_modules/@openai/codex/bin/codex.js")
	want := Installed{Artifacts: []Artifact{
		{KindNative, codex, SourceRegistry, native},
		{KindProcess, adapter, SourceRegistry, process},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("artifacts (-want +got):\n%s", diff)
	}
	checkProgress(t, reports)
	if _, err := os.Stat(filepath.Join(dir, "node_modules/@agentclientprotocol/codex-acp/script-was-run")); err == nil {
		t.Error("a script of a package was run")
	}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.Type()&fs.ModeSymlink != 0 {
			return err
		}
		if info, err := e.Info(); err != nil || info.Mode()&(fs.ModeSetuid|fs.ModeSetgid|0o022) != 0 {
			t.Errorf("%s: %v, %v", path, info.Mode(), err)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	wantFiles := []string{
		"codex-" + native + ".tgz", "codex-acp-" + process + ".tgz", "codex-here-1.0.0.tgz", "helper-1.2.3.tgz",
	}
	slices.Sort(wantFiles)
	if diff := cmp.Diff(wantFiles, npm.downloads()); diff != "" {
		t.Errorf("downloads (-want +got):\n%s", diff)
	}

	c, err := r.Command("codex")
	if err != nil {
		t.Fatal(err)
	}
	if c.Args[0] != adapter || c.Program != adapter || filepath.Base(c.Path) != "node" || c.Version != native || c.Source != SourceRegistry ||
		!slices.Contains(c.Env, "CODEX_PATH="+codex) {
		t.Errorf("command: %+v", c)
	}
	if out, err := r.output(t.Context(), specOf(r, c)); err != nil || strings.TrimSpace(out) != "codex-acp "+codex {
		t.Errorf("it prints %q, %v", out, err)
	}
	if again := install(t, r, "codex", InstallOptions{}); !again.Already || again.Artifacts != nil {
		t.Errorf("again: %+v", again)
	}
	if names := folders(t, r, "codex"); !slices.Equal(names, []string{".lock", process, "current"}) {
		t.Errorf("left in the folder: %q", names)
	}
}

// The folder of agents may be reached through a link.
func TestInstallThroughLink(t *testing.T) {
	t.Parallel()
	_, env := serveNPM(t, codexPackages(t)...)
	home := t.TempDir()
	disk, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(disk, filepath.Join(home, "data")); err != nil {
		t.Fatal(err)
	}
	r := newRegistry(t, Config{Env: env, Dir: filepath.Join(home, "data", "agents")})
	got := install(t, r, "codex", InstallOptions{})
	process := pinned(t, "codex", KindProcess)
	adapter := filepath.Join(disk, "agents/codex", process, "node_modules/@agentclientprotocol/codex-acp/dist/index.js")
	if len(got.Artifacts) != 2 || got.Artifacts[1].Path != adapter {
		t.Errorf("artifacts: %+v, want %s", got.Artifacts, adapter)
	}
	c, err := r.Command("codex")
	if err != nil || c.Program != adapter {
		t.Fatalf("command: %+v, %v", c, err)
	}
	if out, err := r.output(t.Context(), specOf(r, c)); err != nil || !strings.HasPrefix(out, "codex-acp ") {
		t.Errorf("it prints %q, %v", out, err)
	}
}

func checkProgress(t *testing.T, reports []Progress) {
	t.Helper()
	var stages []Stage
	done := 0
	for _, p := range reports {
		if len(stages) == 0 || stages[len(stages)-1] != p.Stage {
			stages = append(stages, p.Stage)
		}
		if p.Stage == StageDownload && (p.Total != 4 || p.Done < done || p.Done > p.Total) {
			t.Errorf("%+v after %d", p, done)
		}
		done = max(done, p.Done)
		if p.Agent != "codex" || p.Message == "" {
			t.Errorf("%+v", p)
		}
	}
	if want := []Stage{StageResolve, StageDownload, StageCheck, StageDone}; !slices.Equal(stages, want) || done != 4 {
		t.Errorf("stages %q, %d done", stages, done)
	}
}

// folders returns the names in an agent's folder, sorted.
func folders(t testing.TB, r *Registry, id string) []string {
	t.Helper()
	entries, err := os.ReadDir(r.dirOf(id))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func TestReinstallKeepsWhatRuns(t *testing.T) {
	t.Parallel()
	_, env := serveNPM(t, codexPackages(t)...)
	r := newRegistry(t, Config{Env: env})
	process := pinned(t, "codex", KindProcess)
	var paths []string
	for range 3 {
		got := install(t, r, "codex", InstallOptions{Reinstall: true})
		if got.Already || len(got.Artifacts) != 2 {
			t.Fatalf("%+v", got)
		}
		paths = append(paths, got.Artifacts[1].Path)
	}
	for i, want := range []bool{false, true, true} {
		if isFile(paths[i]) != want {
			t.Errorf("install %d, %s: there is %v", i+1, paths[i], !want)
		}
	}
	// Each version gets its own folder and becomes the current one.
	o := InstallOptions{AgentVersion: "0.99.1", ProcessVersion: "99.0.0"}
	got := install(t, r, "codex", o)
	if name := got.Artifacts[0].Path; !strings.Contains(name, "/99.0.0_0.99.1/") {
		t.Errorf("installed %s", name)
	}
	if c, err := r.Command("codex"); err != nil || c.Version != "0.99.1" {
		t.Errorf("command: %+v, %v", c, err)
	}
	if again := install(t, r, "codex", o); !again.Already {
		t.Errorf("again: %+v", again)
	}
	if back := install(t, r, "codex", InstallOptions{ProcessVersion: process}); back.Already {
		t.Errorf("back: %+v", back)
	}
	if c, err := r.Command("codex"); err != nil || c.Version != pinned(t, "codex", KindNative) {
		t.Errorf("command: %+v, %v", c, err)
	}
}

// TestInstallFails: every failure names the stage and the remedy, and does not change the
// installed agent.
func TestInstallFails(t *testing.T) {
	t.Parallel()
	npm, env := serveNPM(t, codexPackages(t)...)
	r := newRegistry(t, Config{Env: env})
	install(t, r, "codex", InstallOptions{})
	before := folders(t, r, "codex")
	bare := newRegistry(t, Config{Env: []string{"PATH=" + t.TempDir(), "HOME=" + t.TempDir()}})
	homeless := newRegistry(t, Config{Dir: "-", Env: []string{"PATH=" + os.Getenv("PATH")}})
	homeless.cfg.Dir = ""
	npm.change(func() { npm.tampered["helper-1.2.3.tgz"] = true })
	for name, tc := range map[string]struct {
		r      *Registry
		id     string
		o      InstallOptions
		stage  Stage
		texts  []string // in the error
		stderr string
	}{
		"no such version": {r, "codex", InstallOptions{AgentVersion: "1.1.1"}, StageResolve, []string{"ETARGET", "no such version"}, "1.1.1"},
		"does not run":    {r, "codex", InstallOptions{AgentVersion: "0.99.2"}, StageCheck, []string{"exit status 3", "@openai/codex --version"}, "segmentation fault"},
		"changed on the way": {
			r, "codex", InstallOptions{Reinstall: true}, StageDownload, []string{"EINTEGRITY", "not what its registry promised"}, "helper",
		},
		"no such package": {r, "gemini", InstallOptions{}, StageResolve, []string{"E404", "no such package"}, "gemini-cli"},
		"no npm":          {bare, "codex", InstallOptions{}, StageResolve, []string{"npm is not installed", "install Node.js"}, ""},
		"no home":         {homeless, "codex", InstallOptions{}, StageResolve, []string{"no home directory", "XDG_DATA_HOME"}, ""},
		"not on npm":      {r, "amp", InstallOptions{}, StageResolve, []string{"npm has no package of it", "put amp-acp on PATH"}, ""},
	} {
		if name == "does not run" {
			continue // it needs npm, which the next case breaks
		}
		_, err := tc.r.Install(t.Context(), tc.id, tc.o)
		checkInstallError(t, name, err, tc.stage, tc.stderr, tc.texts...)
	}
	npm.change(func() { npm.tampered = map[string]bool{} })
	_, err := r.Install(t.Context(), "codex", InstallOptions{AgentVersion: "0.99.2"})
	checkInstallError(t, "does not run", err, StageCheck, "segmentation fault in "+r.variable("HOME"), "exit status 3", "@openai/codex --version")

	if after := slices.DeleteFunc(folders(t, r, "codex"), func(n string) bool { return n == cacheName }); !slices.Equal(before, after) {
		t.Errorf("folder: %q, was %q", after, before)
	}
	if _, err := r.Command("codex"); err != nil {
		t.Error(err)
	}
	for field, o := range map[string]InstallOptions{
		"agentVersion":        {AgentVersion: "https://evil.example/x.tgz"},
		"agentProcessVersion": {ProcessVersion: "--registry=x"},
	} {
		_, err := r.Install(t.Context(), "codex", o)
		if invalid, ok := errors.AsType[*InvalidError](err); !ok || invalid.Field != field {
			t.Errorf("%+v: %v", o, err)
		}
	}
	for _, o := range []InstallOptions{{AgentVersion: "1.0.0"}, {ProcessVersion: "1.0.0"}} {
		if _, err := r.Install(t.Context(), "amp", o); !isInvalid(err) {
			t.Errorf("amp %+v: %v", o, err)
		}
	}
	if _, err := r.Install(t.Context(), "gemini", InstallOptions{AgentVersion: "1.0.0", ProcessVersion: "2.0.0"}); !isInvalid(err) {
		t.Errorf("two versions of one package: %v", err)
	}
	if _, err := r.Install(t.Context(), "nope", InstallOptions{}); !errors.Is(err, ErrUnknownAgent) {
		t.Errorf("nope: %v", err)
	}
}

func isInvalid(err error) bool {
	_, ok := errors.AsType[*InvalidError](err)
	return ok
}

func checkInstallError(t *testing.T, name string, err error, stage Stage, stderr string, texts ...string) {
	t.Helper()
	failed, ok := errors.AsType[*InstallError](err)
	if !ok || failed.Stage != stage || !strings.Contains(failed.Stderr, stderr) {
		t.Errorf("%s: %#v", name, err)
		return
	}
	for _, text := range texts {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("%s: %q is not in: %v", name, text, err)
		}
	}
	if strings.Contains(failed.Stderr, "npm http") {
		t.Errorf("%s: stderr has npm's requests: %s", name, failed.Stderr)
	}
}

// TestConcurrentInstalls: several callers of two registries install one agent.
func TestConcurrentInstalls(t *testing.T) {
	t.Parallel()
	npm, env := serveNPM(t, codexPackages(t)...)
	hold := make(chan struct{})
	npm.change(func() { npm.hold = hold })
	one := newRegistry(t, Config{Env: env})
	two := newRegistry(t, Config{Env: env, Dir: one.cfg.Dir})
	type result struct {
		Installed
		err error
	}
	results, waits := make(chan result), make(chan struct{}, 8)
	var once [4]sync.Once
	for i := range 4 {
		r := []*Registry{one, two}[i%2]
		go func() {
			got, err := r.Install(t.Context(), "codex", InstallOptions{Progress: func(p Progress) {
				if p.Stage == StageWait {
					once[i].Do(func() { waits <- struct{}{} })
				}
			}})
			results <- result{got, err}
		}()
	}
	for range 3 {
		<-waits
	}
	close(hold)
	fresh := 0
	for range 4 {
		got := <-results
		if got.err != nil {
			t.Error(got.err)
		}
		if !got.Already {
			fresh++
		}
	}
	if fresh != 1 || len(npm.downloads()) != 4 {
		t.Errorf("%d installed it, with %d downloads", fresh, len(npm.downloads()))
	}
}

// TestInterruptedInstall: an install after a cancelled one reuses its downloads.
func TestInterruptedInstall(t *testing.T) {
	t.Parallel()
	npm, env := serveNPM(t, codexPackages(t)...)
	r := newRegistry(t, Config{Env: env})
	// One package is held.
	last := "codex-" + pinned(t, "codex", KindNative) + ".tgz"
	npm.change(func() { npm.hold, npm.only = make(chan struct{}), last })
	ctx, cancel := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	_, err := r.Install(ctx, "codex", InstallOptions{Progress: func(p Progress) {
		if p.Stage == StageDownload && p.Done == 3 {
			cancel(enough)
		}
	}})
	if !errors.Is(err, enough) {
		t.Fatalf("%v", err)
	}
	if _, err := r.Command("codex"); !errors.Is(err, ErrNotInstalled) {
		t.Errorf("after: %v", err)
	}
	for _, name := range folders(t, r, "codex") {
		if name != lockName && name != cacheName {
			t.Errorf("%s is left", name)
		}
	}
	npm.forget()
	npm.change(func() { npm.hold = nil })
	if err := os.Mkdir(filepath.Join(r.dirOf("codex"), stagingPrefix+"of-one-that-was-killed"), 0o755); err != nil {
		t.Fatal(err)
	}
	install(t, r, "codex", InstallOptions{})
	if got := npm.downloads(); len(got) > 3 || !slices.Contains(got, last) {
		t.Errorf("downloaded again: %q", got)
	}
	if names := folders(t, r, "codex"); slices.ContainsFunc(names, func(n string) bool { return strings.HasPrefix(n, stagingPrefix) || n == cacheName }) {
		t.Errorf("left: %q", names)
	}
}

// TestInstallIsBounded installs from a registry that does not answer, and from one that sends
// a file without an end.
func TestInstallIsBounded(t *testing.T) {
	t.Parallel()
	npm, env := serveNPM(t, codexPackages(t)...)
	silent := newRegistry(t, Config{Env: env})
	silent.maxTime = 3 * time.Second
	npm.change(func() { npm.hold = make(chan struct{}) })
	_, err := silent.Install(t.Context(), "codex", InstallOptions{})
	if failed, ok := errors.AsType[*InstallError](err); !ok || !strings.Contains(err.Error(), "not installed it after 3s") || !strings.Contains(err.Error(), "npm config get registry") {
		t.Errorf("silent registry: %v, %v", failed, err)
	}

	large := newRegistry(t, Config{Env: env})
	large.maxBytes = 8 << 20
	npm.change(func() { npm.hold, npm.endless = nil, true })
	_, err = large.Install(t.Context(), "codex", InstallOptions{})
	checkInstallError(t, "endless file", err, StageDownload, "", "more than 8 MiB", "npm config get registry")
	if size, _ := sizeOf(large.cfg.Dir); size > large.maxBytes {
		t.Errorf("%d bytes are left", size)
	}
	npm.change(func() { npm.endless = false })
	install(t, large, "codex", InstallOptions{})
}

func TestCloseEndsInstalls(t *testing.T) {
	t.Parallel()
	npm, env := serveNPM(t, codexPackages(t)...)
	npm.change(func() { npm.hold = make(chan struct{}) })
	r := newRegistry(t, Config{Env: env})
	done := make(chan error, 1)
	go func() {
		_, err := r.Install(t.Context(), "codex", InstallOptions{})
		done <- err
	}()
	<-npm.held
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	if err := <-done; !errors.Is(err, ErrClosed) {
		t.Errorf("install: %v", err)
	}
	if _, err := r.Install(t.Context(), "codex", InstallOptions{}); !errors.Is(err, ErrClosed) {
		t.Errorf("after: %v", err)
	}
}
