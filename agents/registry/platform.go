package registry

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sys/cpu"
)

// platform selects packages with native programs.
type platform struct {
	arch     string // npm's word: "x64"
	musl     bool   // the C library is musl, not glibc
	baseline bool   // the processor has no AVX2
}

func host() (platform, error) {
	p := platform{arch: map[string]string{"amd64": "x64", "arm64": "arm64"}[runtime.GOARCH]}
	if p.arch == "" || runtime.GOOS != "linux" {
		return p, fmt.Errorf("there are no agents for %s on %s, only for Linux on amd64 and arm64", runtime.GOOS, runtime.GOARCH)
	}
	p.musl = hasMusl("/")
	p.baseline = runtime.GOARCH == "amd64" && !cpu.X86.HasAVX2
	return p, nil
}

// hasMusl reports whether the system below root is built on musl. A glibc system may have
// musl's loader as well.
func hasMusl(root string) bool {
	exists := func(patterns ...string) bool {
		for _, p := range patterns {
			if found, _ := filepath.Glob(filepath.Join(root, p)); len(found) > 0 {
				return true
			}
		}
		return false
	}
	glibc := exists("lib64/ld-linux-*.so.*", "lib/ld-linux-*.so.*", "lib/*/ld-linux-*.so.*")
	return !glibc && exists("lib/ld-musl-*.so.1")
}

// fill replaces the placeholders in a package's name or program.
func (p platform) fill(s string) string {
	musl, baseline := "", ""
	if p.musl {
		musl = "-musl"
	}
	if p.baseline {
		baseline = "-baseline"
	}
	return strings.NewReplacer("{arch}", p.arch, "{musl}", musl, "{baseline}", baseline).Replace(s)
}

// fits reports whether a package with these words in its package.json is for this platform.
// A word that begins with ! excludes.
func (p platform) fits(system, cpus, libc []string) bool {
	name := "glibc"
	if p.musl {
		name = "musl"
	}
	return allows(system, "linux") && allows(cpus, p.arch) && allows(libc, name)
}

// allows reports whether words contain the name or, if all words are exclusions, do not
// exclude it.
func allows(words []string, name string) bool {
	only := slices.ContainsFunc(words, func(w string) bool { return !strings.HasPrefix(w, "!") })
	return slices.Contains(words, name) || !only && !slices.Contains(words, "!"+name)
}

// dataHome returns $XDG_DATA_HOME or its default, or "" for a user without a home.
func dataHome(env func(string) string) string {
	if dir := env("XDG_DATA_HOME"); filepath.IsAbs(dir) {
		return dir
	}
	if home := env("HOME"); home != "" {
		return filepath.Join(home, ".local", "share")
	}
	return ""
}

// SharedDirs returns the directories of agents that are installed for all users, as absolute paths,
// from the value of XDG_DATA_DIRS.
func SharedDirs(value string) []string {
	var dirs []string
	for _, dir := range filepath.SplitList(cmp.Or(value, "/usr/local/share:/usr/share")) {
		if filepath.IsAbs(dir) {
			dirs = append(dirs, filepath.Join(dir, "deskhand", "agents"))
		}
	}
	return dirs
}

func isProgram(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o111 != 0
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}
