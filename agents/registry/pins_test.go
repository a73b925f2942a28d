package registry

import (
	"bytes"
	"encoding/json"
	"flag"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/deskhand/deskhand/internal/testx11"
)

var update = flag.Bool("update", false, "write the lock files of the agents anew, from npm's registry")

// platforms are the platforms for which agents are installed.
var platforms = []platform{
	{arch: "x64"},
	{arch: "x64", musl: true},
	{arch: "x64", baseline: true},
	{arch: "x64", musl: true, baseline: true},
	{arch: "arm64"},
	{arch: "arm64", musl: true},
}

// unlocked are the packages of the table that were not in the registry when the
// locks were made. npm finds them itself, at the version of the table.
var unlocked = []string{
	"opencode-linux-x64-musl", "opencode-linux-x64-baseline-musl", "opencode-linux-arm64", "opencode-linux-arm64-musl",
}

// makeLock lets npm resolve all packages of a source, for all platforms, from the registry
// that env names.
func makeLock(t testing.TB, env []string, packages []npmPackage) []byte {
	t.Helper()
	testx11.Require(t, "node", "npm")
	dir := t.TempDir()
	needed, optional := map[string]string{}, map[string]string{} // optional: on one platform
	for _, p := range packages {
		for _, h := range platforms {
			if name := h.fill(p.name); name == p.name {
				needed[name] = p.version
			} else {
				optional[name] = p.version
			}
		}
	}
	text, err := json.Marshal(map[string]any{"private": true, "dependencies": needed, "optionalDependencies": optional})
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "package.json"), string(text), 0o644)
	npm := exec.CommandContext(t.Context(), "npm", "install", "--package-lock-only", "--ignore-scripts", "--omit=dev", "--no-audit",
		"--no-fund", "--no-update-notifier", "--omit-lockfile-registry-resolved", "--logs-max=0", "--cache", filepath.Join(dir, "cache"))
	npm.Dir, npm.Env = dir, env
	if out, err := npm.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if text, err = os.ReadFile(filepath.Join(dir, "package-lock.json")); err != nil {
		t.Fatal(err)
	}
	var lock packageLock
	if err := json.Unmarshal(text, &lock); err != nil {
		t.Fatal(err)
	}
	for _, p := range lock.Packages {
		for _, name := range []string{"resolved", "funding", "license", "deprecated", "engines"} {
			delete(p, name) // addresses and descriptions
		}
	}
	if text, err = json.MarshalIndent(lock, "", " "); err != nil {
		t.Fatal(err)
	}
	return append(text, '\n')
}

// TestLocks wants a lock for every agent of the table, with its versions, with a
// checksum for every package, and without the address of a registry. With -update
// it writes them.
func TestLocks(t *testing.T) {
	var want []string
	for _, a := range agents {
		if a.Installable() {
			name := lockPath(a.ID)
			want = append(want, name)
			if *update {
				write(t, name, string(makeLock(t, os.Environ(), a.packages)), 0o644)
			}
			text, err := os.ReadFile(name)
			if err != nil {
				t.Error(err)
				continue
			}
			checkLock(t, name, text, a.packages)
		}
	}
	slices.Sort(want)
	if got, err := filepath.Glob("locks/*"); err != nil || !slices.Equal(got, want) {
		t.Errorf("locks: %q, %v, want %q", got, err, want)
	}
}

func checkLock(t *testing.T, name string, text []byte, packages []npmPackage) {
	t.Helper()
	var lock packageLock
	if err := json.Unmarshal(text, &lock); err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(text, []byte("://")) || lock.Version != 3 {
		t.Errorf("%s has an address, or is of version %d", name, lock.Version)
	}
	for folder, p := range lock.Packages {
		sum, _ := p["integrity"].(string)
		if folder != "" && p["inBundle"] != true && !strings.HasPrefix(sum, "sha512-") || p["resolved"] != nil || p["link"] != nil {
			t.Errorf("%s: %s: %v", name, folder, p)
		}
		// npm ci ignores a missing program for another platform.
		others, _ := p["optionalDependencies"].(map[string]any)
		for other := range others {
			if !lock.has(other) && !slices.Contains(unlocked, other) {
				t.Errorf("%s: %s, which %q may need, is missing", name, other, folder)
			}
		}
	}
	for _, p := range packages {
		for _, h := range platforms {
			filled := h.fill(p.name)
			got := lock.Packages["node_modules/"+filled]
			if missing := got == nil; missing != slices.Contains(unlocked, filled) {
				t.Errorf("%s: %s is missing: %v", name, filled, missing)
			} else if !missing && got["version"] != p.version {
				t.Errorf("%s: %s is %v, in the table %s", name, filled, got["version"], p.version)
			}
		}
	}
}

// has reports whether a lock has a package, in any folder.
func (l packageLock) has(name string) bool {
	for folder := range l.Packages {
		if strings.HasSuffix("/"+folder, "/node_modules/"+name) {
			return true
		}
	}
	return false
}

// locked returns a registry of agents whose lock files hold the packages that an npm
// registry has now.
func locked(t testing.TB, env []string, agent string) *Registry {
	t.Helper()
	r := newRegistry(t, Config{Env: env})
	a, err := r.find(agent)
	if err != nil {
		t.Fatal(err)
	}
	r.locks = fstest.MapFS{lockPath(agent): {Data: makeLock(t, env, a.packages)}}
	return r
}

// A package that was published after the lock was made is not installed. A package
// with another checksum is refused, even if the registry names that checksum, too.
func TestInstallFromLock(t *testing.T) {
	t.Parallel()
	npm, env := serveNPM(t, codexPackages(t)...)
	r := locked(t, env, "codex")
	newer := fakePackage{name: "helper", version: "1.9.0"}
	npm.change(func() {
		npm.packages = append(npm.packages, newer)
		npm.tarballs[newer.file()] = newer.tarball(t)
	})
	got := install(t, r, "codex", InstallOptions{})
	if files := npm.downloads(); !slices.Contains(files, "helper-1.2.3.tgz") || slices.Contains(files, newer.file()) || len(files) != 4 {
		t.Errorf("downloads: %q", files)
	}
	if len(got.Artifacts) != 2 || got.Artifacts[1].Version != pinned(t, "codex", KindProcess) {
		t.Errorf("artifacts: %+v", got.Artifacts)
	}

	// The lock does not have the requested versions.
	npm.forget()
	install(t, r, "codex", InstallOptions{ProcessVersion: "99.0.0"})
	if files := npm.downloads(); !slices.Contains(files, newer.file()) {
		t.Errorf("downloads of another version: %q", files)
	}

	npm.change(func() {
		changed := fakePackage{name: "helper", version: "1.2.3", files: map[string]string{"more.js": "evil()\n"}}
		npm.tarballs[changed.file()] = changed.tarball(t)
	})
	_, err := r.Install(t.Context(), "codex", InstallOptions{Reinstall: true})
	checkInstallError(t, "another checksum", err, StageDownload, "wanted sha512-", "EINTEGRITY")
}

// The program for this platform comes from the lock, and not those for others. npm
// must not succeed without it.
func TestPlatformFromLock(t *testing.T) {
	t.Parallel()
	here, err := host()
	if err != nil {
		t.Skip(err)
	}
	p := agents[2].packages[0]
	var all []fakePackage
	for _, h := range platforms {
		all = append(all, fakePackage{
			name: h.fill(p.name), version: p.version, files: map[string]string{p.program: "#!/bin/sh\necho " + p.version + "\n"},
			more: map[string]any{"os": []string{"linux"}, "cpu": []string{h.arch}},
		})
	}
	npm, env := serveNPM(t, all...)
	r := locked(t, env, "opencode")
	file := fakePackage{name: here.fill(p.name), version: p.version}.file()
	install(t, r, "opencode", InstallOptions{})
	if files := npm.downloads(); !slices.Equal(files, []string{file}) {
		t.Errorf("downloads: %q, want %s", files, file)
	}
	npm.change(func() { npm.tampered[file] = true })
	_, err = r.Install(t.Context(), "opencode", InstallOptions{Reinstall: true})
	checkInstallError(t, "tampered", err, StageDownload, here.fill(p.name), "EINTEGRITY")
}

// TestRealLock installs the smallest agent from npm's registry through its lock,
// and fails if a checksum differs. It runs with make test-agents.
func TestRealLock(t *testing.T) {
	if os.Getenv("DESKHAND_AGENTS") == "" {
		t.Skip("make test-agents runs it: it downloads")
	}
	testx11.Require(t, "node", "npm")
	r := newRegistry(t, Config{Env: append(os.Environ(), "npm_config_cache="+t.TempDir())})
	r.locks = embeddedLocks
	got := install(t, r, "pi", InstallOptions{})
	if len(got.Artifacts) != 2 || got.Artifacts[0].Version != pinned(t, "pi", KindNative) {
		t.Errorf("artifacts: %+v", got.Artifacts)
	}
	name := lockPath("pi")
	text, err := fs.ReadFile(embeddedLocks, name)
	if err != nil {
		t.Fatal(err)
	}
	var lock packageLock
	if err := json.Unmarshal(text, &lock); err != nil {
		t.Fatal(err)
	}
	sums := lock.Packages["node_modules/pi-acp"]
	sums["integrity"] = lock.Packages["node_modules/zod"]["integrity"]
	if text, err = json.Marshal(lock); err != nil {
		t.Fatal(err)
	}
	r.locks = fstest.MapFS{name: {Data: text}}
	_, err = r.Install(t.Context(), "pi", InstallOptions{Reinstall: true})
	checkInstallError(t, "another checksum", err, StageDownload, "wanted sha512-", "EINTEGRITY")
}
