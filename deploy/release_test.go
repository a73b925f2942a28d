package deploy_test

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/deskhand/deskhand/internal/testx11"
)

// run runs a command and returns what it prints.
func run(tb testing.TB, dir string, env []string, name string, args ...string) string {
	tb.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		tb.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// built builds a release of a copy of this repository, for make test-release.
func built(tb testing.TB, archs string) (dist string) {
	tb.Helper()
	source, dist := tb.TempDir(), tb.TempDir()
	run(tb, "..", nil, "sh", "-c", `git ls-files -co --exclude-standard -z | tar --null -T - --ignore-failed-read -cf - | tar -xf - -C "$0"`, source)
	epoch := strings.TrimSpace(run(tb, "..", nil, "git", "log", "-1", "--format=%ct"))
	tb.Log(run(tb, source, []string{"DIST=" + dist, "ARCHS=" + archs, "SOURCE_DATE_EPOCH=" + epoch, "COSIGN_KEY="}, ".ci/release", releaseVersion))
	return dist
}

// TestRelease builds a release, again in another folder, and uses what it made:
// the packages in a fresh Debian, install.sh, deskhand upgrade.
func TestRelease(t *testing.T) {
	if os.Getenv("DESKHAND_RELEASE") == "" {
		t.Skip("minutes long: make test-release")
	}
	testx11.Require(t, "debootstrap", "unshare", "rpm", "systemd-analyze", "shellcheck", "tar", "curl")
	dist := built(t, "amd64 arm64 arm")
	run(t, dist, nil, "sha256sum", "--check", "--strict", "SHA256SUMS")
	t.Run("reproducible", func(t *testing.T) {
		again := built(t, runtime.GOARCH)
		files, err := filepath.Glob(again + "/deskhand-linux-*")
		if err != nil || len(files) != 3 {
			t.Fatalf("%v, %q", err, files)
		}
		for _, file := range files {
			first, err1 := os.ReadFile(filepath.Join(dist, filepath.Base(file)))
			second, err2 := os.ReadFile(file)
			if err1 != nil || err2 != nil || !bytes.Equal(first, second) {
				t.Errorf("two builds of %s differ (%v, %v)", filepath.Base(file), err1, err2)
			}
		}
	})
	t.Run("rpm", func(t *testing.T) {
		for arch, want := range map[string]string{"amd64": "x86_64", "arm64": "aarch64", "arm": "armv7hl"} {
			file := filepath.Join(dist, "deskhand-linux-"+arch+".rpm")
			run(t, "", nil, "rpm", "-K", "--nosignature", file)
			if got := run(t, "", nil, "rpm", "-qp", "--nosignature", "--qf", "%{NAME} %{VERSION} %{ARCH}", file); got != "deskhand 0.2.0~rc.1 "+want {
				t.Errorf("%s is %q", file, got)
			}
			if files := run(t, "", nil, "rpm", "-qpl", "--nosignature", file); !strings.Contains(files, "/usr/lib/systemd/system/deskhand.socket\n") {
				t.Errorf("%s has:\n%s", file, files)
			}
		}
	})
	t.Run("deb", func(t *testing.T) { testDeb(t, dist) })
	t.Run("install.sh", func(t *testing.T) { testInstalled(t, dist) })
	t.Run("shellcheck", func(t *testing.T) {
		run(t, "", nil, "sh", "-c", "shellcheck install.sh package/*.sh ../.ci/release")
	})
}

// testDeb installs the package in a fresh Debian, and removes it.
func testDeb(t *testing.T, dist string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("debootstrap needs root")
	}
	root := t.TempDir()
	run(t, "", nil, "debootstrap", "--variant=minbase", "--include=systemd", "trixie", root, "http://deb.debian.org/debian")
	run(t, "", nil, "cp", filepath.Join(dist, "deskhand-linux-"+runtime.GOARCH+".deb"), root+"/root/deskhand.deb")
	inside := func(script string) string {
		return run(t, "", []string{"LC_ALL=C"}, "unshare", "--mount", "sh", "-ec",
			`mount -t proc proc "$0/proc"; exec chroot "$0" sh -ec "$1"`, root, script)
	}
	inside("dpkg -i /root/deskhand.deb")
	for script, want := range map[string]string{
		"deskhand version; sandbox-agent --version":                                                    "deskhand " + releaseVersion + "\ndeskhand " + releaseVersion + "\n",
		"stat -c '%a %U' /etc/deskhand/token /etc/deskhand/deskhand.env; wc -c </etc/deskhand/token":   "600 root\n600 root\n65\n",
		"getent passwd deskhand | cut -d : -f 6,7":                                                     "/var/lib/deskhand:/bin/bash\n",
		"cp /etc/deskhand/token /t; dpkg -i /root/deskhand.deb >/dev/null; cmp /t /etc/deskhand/token": "",
	} {
		if got := inside(script); got != want {
			t.Errorf("%s: %q, want %q", script, got, want)
		}
	}
	if out := inside("deskhand upgrade --version v9.9.9 2>&1 || true"); !strings.Contains(out, "/usr/bin/deskhand belongs to a package of this system") {
		t.Errorf("upgrade of a package's program: %s", out)
	}
	units := "/usr/lib/systemd/system/deskhand.service /usr/lib/systemd/system/deskhand.socket"
	if out := inside("systemd-analyze verify --man=no " + units + " 2>&1"); strings.Contains(out, "deskhand") {
		t.Errorf("systemd-analyze verify: %s", out)
	}
	inside("systemd-analyze security --offline=yes --threshold=35 deskhand.service")
	inside("mkdir /var/lib/deskhand; dpkg --purge deskhand")
	if left := inside("find /etc /usr /var/lib/deskhand -path '*deskhand*' 2>/dev/null || true; getent passwd deskhand || true"); left != "" {
		t.Errorf("after the purge there are:\n%s", left)
	}
}

// testInstalled installs an older version, by hand, and lets it and install.sh
// install the one of dist.
func testInstalled(t *testing.T, dist string) {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for _, prefix := range []string{"/latest/download/", "/download/" + releaseVersion + "/"} {
			if name, ok := strings.CutPrefix(r.URL.Path, prefix); ok && !strings.Contains(name, "/") {
				http.ServeFile(w, r, filepath.Join(dist, name))
				return
			}
		}
		http.NotFound(w, r)
	}))
	defer s.Close()
	prefix, env := t.TempDir(), []string{"DESKHAND_BASE_URL=" + s.URL}
	old := filepath.Join(prefix, "bin", "deskhand")
	run(t, "..", []string{"CGO_ENABLED=0"}, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags", "-X main.version=v0.1.0", "-o", old, "./cmd/deskhand")
	if out := run(t, "", env, old, "upgrade"); !strings.Contains(out, old+" is now deskhand "+releaseVersion+" instead of v0.1.0.") {
		t.Errorf("upgrade: %s", out)
	}
	if out := run(t, "", env, old, "upgrade", "--check"); out != "This is already deskhand "+releaseVersion+".\n" {
		t.Errorf("upgrade --check: %s", out)
	}
	run(t, "", env, "sh", filepath.Join(dist, "install.sh"), "--prefix", prefix)
	if out := run(t, "", nil, filepath.Join(prefix, "bin", "sandbox-agent"), "--version"); out != "deskhand "+releaseVersion+"\n" {
		t.Errorf("after install.sh: %s", out)
	}
	page, err := os.ReadFile(filepath.Join(prefix, "share/man/man1/deskhand.1"))
	if err != nil || !bytes.Contains(page, []byte("deskhand 0.2.0\\-rc.1")) {
		t.Errorf("the manual page: %v, %.80s", err, page)
	}
}

// TestGoInstall installs the program as go install does from a proxy, and asks
// for its version.
func TestGoInstall(t *testing.T) {
	if os.Getenv("DESKHAND_RELEASE") == "" {
		t.Skip("minutes long: make test-release")
	}
	testx11.Require(t, "git")
	const module = "github.com/deskhand/deskhand"
	proxy := t.TempDir()
	versions := filepath.Join(proxy, module, "@v")
	if err := os.MkdirAll(versions, 0o755); err != nil {
		t.Fatal(err)
	}
	// A module does not contain the modules below it.
	run(t, "..", nil, "sh", "-ec", `git archive --format=zip --prefix="$1" -o "$0" HEAD . $(git ls-files '*/go.mod' | sed 's|^|:!|; s|/go.mod$||')`,
		filepath.Join(versions, releaseVersion+".zip"), module+"@"+releaseVersion+"/")
	run(t, "..", nil, "cp", "go.mod", filepath.Join(versions, releaseVersion+".mod"))
	for name, text := range map[string]string{releaseVersion + ".info": `{"Version":"` + releaseVersion + `"}`, "list": releaseVersion + "\n"} {
		if err := os.WriteFile(filepath.Join(versions, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	cache := strings.TrimSpace(run(t, "", nil, "go", "env", "GOMODCACHE"))
	clean := func() { // one that is in the cache is not fetched
		left, err := filepath.Glob(filepath.Join(cache, "cache/download", module, "@v", releaseVersion+".*"))
		if err != nil {
			t.Error(err)
		}
		for _, path := range append(left, filepath.Join(cache, module+"@"+releaseVersion)) {
			if err := os.RemoveAll(path); err != nil {
				t.Error(err)
			}
		}
	}
	clean()
	t.Cleanup(clean)
	bin := t.TempDir()
	upstream := strings.TrimSpace(run(t, "", nil, "go", "env", "GOPROXY"))
	run(t, bin, []string{
		"GODEBUG=goindex=0", // go has no index of this version from an earlier test
		"GOPROXY=file://" + proxy + "," + upstream, "GONOSUMDB=" + module, "GOFLAGS=-modcacherw", "GOBIN=" + bin, "CGO_ENABLED=0",
	}, "go", "install", module+"/cmd/deskhand@"+releaseVersion)
	if out := run(t, "", nil, filepath.Join(bin, "deskhand"), "version"); out != "deskhand "+releaseVersion+"\n" {
		t.Errorf("go install gives %q", out)
	}
}
