// Package deploy_test tests what users install deskhand with.
package deploy_test

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"github.com/deskhand/deskhand/internal/testrelease"
	"github.com/deskhand/deskhand/internal/testx11"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const releaseVersion = "v0.2.0-rc.1"

// release is one version for amd64 and arm, by the paths of its files.
func release(tb testing.TB, version, script string) map[string]string {
	tb.Helper()
	files := map[string]string{"/latest/download/VERSION": version + "\n"}
	sums := ""
	for _, name := range []string{"deskhand-linux-amd64", "deskhand-linux-arm"} {
		archive := testrelease.Archive(tb, name, script)
		files["/download/"+version+"/"+name+".tar.gz"] = archive
		sums += fmt.Sprintf("%x  %s.tar.gz\n", sha256.Sum256([]byte(archive)), name)
	}
	files["/download/"+version+"/SHA256SUMS"] = sums
	return files
}

// tools makes a folder with the programs that install.sh needs, all but those
// left out. uname describes a machine.
func tools(tb testing.TB, machine string, without ...string) string {
	tb.Helper()
	dir := tb.TempDir()
	for name := range strings.FieldsSeq("cat chmod cp curl cut grep gzip head id ln mkdir mktemp mv readlink rm sed sh sha256sum tar tr wget") {
		if slices.Contains(without, name) {
			continue
		}
		path, err := exec.LookPath(name)
		if err != nil {
			tb.Fatal(err)
		}
		if err := os.Symlink(path, filepath.Join(dir, name)); err != nil {
			tb.Fatal(err)
		}
	}
	script := "#!/bin/sh\ncase $1 in -s) echo Linux ;; -m) echo " + machine + " ;; esac\n"
	if err := os.WriteFile(filepath.Join(dir, "uname"), []byte(script), 0o755); err != nil {
		tb.Fatal(err)
	}
	return dir
}

// install runs install.sh, from standard input as users do.
func install(tb testing.TB, shell, path, base string, user uint32, args ...string) (output string, err error) {
	tb.Helper()
	script, err := os.Open("install.sh")
	if err != nil {
		tb.Fatal(err)
	}
	defer script.Close()
	program, err := exec.LookPath(shell)
	if err != nil {
		tb.Fatal(err)
	}
	home := tb.TempDir()
	if err := os.Chmod(home, 0o777); err != nil {
		tb.Fatal(err)
	}
	cmd := exec.Command(program, append([]string{"-s", "--"}, args...)...)
	cmd.Stdin, cmd.Dir = script, home
	cmd.Env = []string{"PATH=" + path, "HOME=" + home, "TMPDIR=/tmp", "LC_ALL=C", "DESKHAND_BASE_URL=" + base}
	if os.Geteuid() == 0 && user != 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: user, Gid: user}}
	}
	out, err := cmd.CombinedOutput()
	return strings.ReplaceAll(string(out), home, "HOME"), err
}

func TestInstall(t *testing.T) {
	t.Parallel()
	testx11.Require(t, "dash", "bash", "curl", "wget")
	base := testrelease.Serve(t, release(t, releaseVersion, testrelease.Program(releaseVersion)))
	for _, c := range []struct{ shell, machine, without string }{
		{"sh", "x86_64", "wget"}, {"dash", "x86_64", "curl"}, {"bash", "armv7l", "wget"},
	} {
		t.Run(c.shell, func(t *testing.T) {
			t.Parallel()
			prefix := t.TempDir()
			path := tools(t, c.machine, c.without)
			out, err := install(t, c.shell, path, base+"/", 0, "--prefix="+prefix)
			if err != nil || !strings.Contains(out, "deskhand "+releaseVersion+" is installed: "+prefix+"/bin/deskhand\n") ||
				!strings.Contains(out, prefix+"/bin is not in your PATH") {
				t.Fatalf("%v: %s", err, out)
			}
			said, err := exec.Command(prefix + "/bin/sandbox-agent").Output()
			if err != nil || string(said) != "deskhand "+releaseVersion+"\n" {
				t.Errorf("sandbox-agent says %q (%v)", said, err)
			}
			var files []string
			_ = filepath.Walk(prefix, func(path string, info os.FileInfo, err error) error {
				if err == nil && !info.IsDir() {
					files = append(files, fmt.Sprintf("%v %s", info.Mode().Perm(), strings.TrimPrefix(path, prefix+"/")))
				}
				return err
			})
			want := []string{
				"-rwxr-xr-x bin/deskhand", "-rwxrwxrwx bin/sandbox-agent", "-rw-r--r-- share/bash-completion/completions/deskhand",
				"-rw-r--r-- share/doc/deskhand/LICENSE", "-rw-r--r-- share/doc/deskhand/THIRD_PARTY_NOTICES",
				"-rw-r--r-- share/fish/vendor_completions.d/deskhand.fish", "-rw-r--r-- share/man/man1/deskhand.1",
				"-rw-r--r-- share/zsh/site-functions/_deskhand",
			}
			if !slices.Equal(files, want) {
				t.Errorf("installed:\n%s\nwant:\n%s", strings.Join(files, "\n"), strings.Join(want, "\n"))
			}
		})
	}
}

// TestInstallAgain replaces an older deskhand, and leaves a sandbox-agent alone
// that is another program.
func TestInstallAgain(t *testing.T) {
	t.Parallel()
	files := release(t, "v0.3.0", testrelease.Program("v0.3.0"))
	for path, text := range release(t, releaseVersion, testrelease.Program(releaseVersion)) {
		if path != "/latest/download/VERSION" {
			files[path] = text
		}
	}
	base, prefix, path := testrelease.Serve(t, files), t.TempDir(), tools(t, "x86_64")
	if err := os.Mkdir(prefix+"/bin", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(prefix+"/bin/sandbox-agent", []byte("another"), 0o755); err != nil {
		t.Fatal(err)
	}
	for version, args := range map[string][]string{"v0.3.0": nil, releaseVersion: {"--version", strings.TrimPrefix(releaseVersion, "v")}} {
		out, err := install(t, "sh", path, base, 0, append(args, "--prefix", prefix)...)
		if err != nil || !strings.Contains(out, "sandbox-agent is another program, and stays") {
			t.Errorf("%v: %s", err, out)
		}
		if text, _ := os.ReadFile(prefix + "/bin/deskhand"); string(text) != testrelease.Program(version) {
			t.Errorf("installed is %q, not %s", text, version)
		}
	}
	if text, _ := os.ReadFile(prefix + "/bin/sandbox-agent"); string(text) != "another" {
		t.Errorf("sandbox-agent is %q", text)
	}
}

// TestInstallForUser installs below the home of a user who is not root.
func TestInstallForUser(t *testing.T) {
	t.Parallel()
	base := testrelease.Serve(t, release(t, releaseVersion, testrelease.Program(releaseVersion)))
	path := publicly(t, tools(t, "x86_64"))
	out, err := install(t, "sh", path, base, 65534)
	if err != nil || !strings.Contains(out, "This user is not root, so deskhand is installed for this user alone, below HOME/.local.") ||
		!strings.Contains(out, "is installed: HOME/.local/bin/deskhand") {
		t.Errorf("%v: %s", err, out)
	}
	closed := t.TempDir()
	if err := os.Chmod(closed, 0o555); err != nil {
		t.Fatal(err)
	}
	out, err = install(t, "sh", path, base, 65534, "--prefix", publicly(t, closed))
	if err == nil || !strings.Contains(out, "/bin: run this as root, or choose another --prefix that can be written to, such as ~/.local") {
		t.Errorf("without permission: %v: %s", err, out)
	}
}

// publicly opens the folders above a test's folder to other users.
func publicly(tb testing.TB, dir string) string {
	tb.Helper()
	for parent := filepath.Dir(dir); parent != os.TempDir() && parent != "/"; parent = filepath.Dir(parent) {
		if err := os.Chmod(parent, 0o755); err != nil {
			tb.Fatal(err)
		}
	}
	return dir
}

// TestInstallErrors wants a message that tells what to do, and nothing installed.
func TestInstallErrors(t *testing.T) {
	t.Parallel()
	const page = "\n<!DOCTYPE html><html>Please log in</html>"
	archive := "/download/" + releaseVersion + "/deskhand-linux-amd64.tar.gz"
	changed := func(path, text string) map[string]string {
		files := release(t, releaseVersion, testrelease.Program(releaseVersion))
		files[path] = text
		return files
	}
	good := release(t, releaseVersion, testrelease.Program(releaseVersion))
	for name, c := range map[string]struct {
		files   map[string]string
		machine string
		without []string
		args    []string
		want    string
	}{
		"machine":          {good, "riscv64", nil, nil, "there is no deskhand for riscv64; there is one for x86_64, aarch64, and arm"},
		"not in release":   {good, "aarch64", nil, nil, "release " + releaseVersion + " has no deskhand-linux-arm64.tar.gz in its SHA256SUMS"},
		"no downloader":    {good, "x86_64", []string{"curl", "wget"}, nil, "neither curl nor wget is installed"},
		"no tar":           {good, "x86_64", []string{"tar"}, nil, "tar or gzip is not installed"},
		"no sums":          {good, "x86_64", []string{"sha256sum"}, nil, "none of sha256sum, shasum and openssl is installed"},
		"other sum":        {changed(archive, testrelease.Archive(t, "deskhand-linux-amd64", "evil")), "x86_64", nil, nil, "and SHA256SUMS says"},
		"cut off":          {changed(archive, "CUT"+good[archive][:100]), "x86_64", nil, nil, "was cut off; try again"},
		"cut off, wget":    {changed(archive, "CUT"+good[archive][:100]), "x86_64", []string{"curl"}, nil, "cannot download"},
		"page, archive":    {changed(archive, page), "x86_64", nil, nil, ".tar.gz gave a web page"},
		"page, sums":       {changed("/download/"+releaseVersion+"/SHA256SUMS", page), "x86_64", nil, nil, "SHA256SUMS gave a web page"},
		"page, version":    {changed("/latest/download/VERSION", page), "x86_64", []string{"curl"}, nil, "VERSION gave a web page"},
		"odd version":      {changed("/latest/download/VERSION", "v1.2.3/../x"), "x86_64", nil, nil, "is no version"},
		"no such version":  {good, "x86_64", nil, []string{"--version", "9.9.9"}, "is the version right"},
		"no release":       {map[string]string{}, "x86_64", []string{"curl"}, nil, "is the version right"},
		"another program":  {release(t, releaseVersion, testrelease.Program("v0.0.1")), "x86_64", nil, nil, "says that it is deskhand v0.0.1, not deskhand " + releaseVersion},
		"does not run":     {release(t, releaseVersion, "#!/bin/sh\necho no such machine; exit 1\n"), "x86_64", nil, nil, "does not run on this machine, and nothing was installed: no such machine"},
		"unknown option":   {good, "x86_64", nil, []string{"--prefx", "/x"}, "there is no option --prefx"},
		"no value":         {good, "x86_64", nil, []string{"--version"}, "--version needs a value"},
		"unwritable place": {good, "x86_64", nil, []string{"--prefix", "/proc/deskhand"}, "cannot write to /proc/deskhand/bin: run this as root, or choose another --prefix"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			prefix := t.TempDir()
			out, err := install(t, "sh", tools(t, c.machine, c.without...), testrelease.Serve(t, c.files), 0, append([]string{"--prefix", prefix}, c.args...)...)
			if err == nil || !strings.Contains(out, "install.sh: ") || !strings.Contains(out, c.want) {
				t.Errorf("%v: %s\nwant: %s", err, out, c.want)
			}
			if entries, _ := os.ReadDir(prefix + "/bin"); len(entries) > 0 {
				t.Errorf("it left %v", entries)
			}
		})
	}
}

// TestInstallRedirect leads the script from https to http, where all would be right.
func TestInstallRedirect(t *testing.T) {
	t.Parallel()
	testx11.Require(t, "curl", "wget")
	plain := testrelease.Serve(t, release(t, releaseVersion, testrelease.Program(releaseVersion)))
	secure := httptest.NewTLSServer(http.RedirectHandler(plain+"/latest/download/VERSION", http.StatusFound))
	t.Cleanup(secure.Close)
	for fetcher, trust := range map[string]string{"curl": "-k", "wget": "--no-check-certificate"} {
		t.Run(fetcher, func(t *testing.T) {
			t.Parallel()
			path, err := exec.LookPath(fetcher)
			if err != nil {
				t.Fatal(err)
			}
			dir := tools(t, "x86_64", "curl", "wget")
			if err := os.WriteFile(filepath.Join(dir, fetcher), []byte("#!/bin/sh\nexec "+path+" "+trust+" \"$@\"\n"), 0o755); err != nil {
				t.Fatal(err)
			}
			out, err := install(t, "sh", dir, secure.URL, 0, "--prefix", t.TempDir())
			if want := map[string]string{"curl": "cannot download", "wget": "redirects to http"}[fetcher]; err == nil || !strings.Contains(out, want) || !strings.Contains(out, "/VERSION") {
				t.Errorf("%v: %s\nwant: %s", err, out, want)
			}
		})
	}
}

// TestInstallBusybox installs with the wget of busybox, for which install.sh allows redirects
// from HTTPS to HTTP. The sums keep another archive out.
func TestInstallBusybox(t *testing.T) {
	t.Parallel()
	testx11.Require(t, "busybox", "curl", "wget")
	busybox, err := exec.LookPath("busybox")
	if err != nil {
		t.Fatal(err)
	}
	// busybox and Go have no version of TLS in common, so HTTP stands for HTTPS.
	wget := "exec " + busybox + ` wget "$1" "$2" "http:${3#https:}"`
	files := release(t, releaseVersion, testrelease.Program(releaseVersion))
	const archive = "/download/" + releaseVersion + "/deskhand-linux-amd64.tar.gz"
	for name, c := range map[string]struct{ served, curl, want string }{
		"alone":     {files[archive], "", "is installed"},
		"other sum": {testrelease.Archive(t, "deskhand-linux-amd64", "evil"), "", "and SHA256SUMS says"},
		"curl":      {files[archive], "echo curl is used; exit 1", "curl is used"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			served := maps.Clone(files)
			served[archive] = c.served
			plain := testrelease.Serve(t, served)
			first := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				http.Redirect(w, r, plain+r.URL.Path, http.StatusFound)
			}))
			t.Cleanup(first.Close)
			dir := tools(t, "x86_64", "curl", "wget")
			for fetcher, line := range map[string]string{"wget": wget, "curl": c.curl} {
				if line == "" {
					continue
				}
				script := `#!/bin/sh
[ "$1" != --help ] || exec ` + busybox + " wget --help\n" + line
				if err := os.WriteFile(filepath.Join(dir, fetcher), []byte(script), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			prefix := t.TempDir()
			out, err := install(t, "sh", dir, strings.Replace(first.URL, "http:", "https:", 1), 0, "--prefix", prefix)
			installed, _ := os.ReadDir(prefix + "/bin")
			if good := c.want == "is installed"; !strings.Contains(out, c.want) || good != (err == nil) || good != (len(installed) > 0) {
				t.Errorf("%v, %v: %s\nwant: %s", err, installed, out, c.want)
			}
		})
	}
}

// TestInstallCutOff runs the beginnings of the script, as a download that breaks
// off leaves them. They must do nothing.
func TestInstallCutOff(t *testing.T) {
	t.Parallel()
	script, err := os.ReadFile("install.sh")
	if err != nil {
		t.Fatal(err)
	}
	whole := bytes.TrimSpace(script)
	if !bytes.HasSuffix(whole, []byte("\nmain \"$@\"")) {
		t.Fatal("install.sh does not end with its only call")
	}
	lines := bytes.SplitAfter(whole, []byte("\n"))
	dir := t.TempDir()
	for n := 0; n < len(lines); n += 7 {
		cmd := exec.Command("sh", "-s", "--", "--prefix", dir)
		cmd.Stdin = bytes.NewReader(bytes.Join(lines[:n], nil))
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "DESKHAND_BASE_URL=http://127.0.0.1:1"}
		out, _ := cmd.CombinedOutput()
		if strings.Contains(string(out), "127.0.0.1") {
			t.Errorf("%d lines of it download: %s", n, out)
		}
	}
	if entries, _ := os.ReadDir(dir); len(entries) > 0 {
		t.Errorf("it left %v", entries)
	}
}
