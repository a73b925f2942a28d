package registry

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/deskhand/deskhand/internal/folder"
	"github.com/deskhand/deskhand/internal/testx11"
)

// fakePackage is a package of a registry of the test.
type fakePackage struct {
	name, version string
	files         map[string]string // programs, by path
	dependencies  map[string]string
	optional      map[string]string
	more          map[string]any // members of package.json
	mode          int64          // of the files; 0: 0755
}

func (p fakePackage) manifest() map[string]any {
	m := map[string]any{"name": p.name, "version": p.version}
	if p.dependencies != nil {
		m["dependencies"] = p.dependencies
	}
	if p.optional != nil {
		m["optionalDependencies"] = p.optional
	}
	maps.Copy(m, p.more)
	return m
}

func (p fakePackage) tarball(t testing.TB) []byte {
	t.Helper()
	text, err := json.Marshal(p.manifest())
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	files := maps.Clone(p.files)
	if files == nil {
		files = map[string]string{}
	}
	files["package.json"] = string(text)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := w.WriteHeader(&tar.Header{Name: "package/" + name, Mode: cmp.Or(p.mode, 0o755), Size: int64(len(files[name]))}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(files[name])); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// npmRegistry serves packages to npm.
type npmRegistry struct {
	*httptest.Server
	packages []fakePackage
	tarballs map[string][]byte

	mu       sync.Mutex
	got      []string // the requested tarballs
	tampered map[string]bool
	hold     chan struct{} // tarballs wait until it is closed; nil: they do not
	only     string        // the tarball that waits; empty: all
	endless  bool          // tarballs have a file without an end
	held     chan struct{} // receives when a tarball begins to wait
}

// serveNPM returns a registry and an environment in which npm uses it. It skips the test if
// npm is not installed.
func serveNPM(t testing.TB, packages ...fakePackage) (*npmRegistry, []string) {
	t.Helper()
	testx11.Require(t, "node", "npm")
	r := &npmRegistry{packages: packages, tarballs: map[string][]byte{}, tampered: map[string]bool{}, held: make(chan struct{}, 64)}
	for _, p := range packages {
		r.tarballs[p.file()] = p.tarball(t)
	}
	r.Server = httptest.NewServer(http.HandlerFunc(r.answer))
	t.Cleanup(r.Close)
	home := t.TempDir()
	env := append(environment(t), "HOME="+home, "npm_config_registry="+r.URL+"/", "npm_config_userconfig="+path.Join(home, "npmrc"),
		"npm_config_fetch_retries=0", "no_proxy=*")
	return r, env
}

func (p fakePackage) file() string { return path.Base(p.name) + "-" + p.version + ".tgz" }

func (r *npmRegistry) answer(w http.ResponseWriter, req *http.Request) {
	name, err := url.PathUnescape(strings.TrimPrefix(req.URL.EscapedPath(), "/"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if strings.HasSuffix(name, ".tgz") {
		r.send(w, req, path.Base(name))
		return
	}
	versions := map[string]any{}
	latest := ""
	for _, p := range r.packages {
		if p.name != name {
			continue
		}
		sum := sha512.Sum512(r.tarballs[p.file()])
		m := p.manifest()
		m["dist"] = map[string]any{
			"tarball":   r.URL + "/" + p.name + "/-/" + p.file(),
			"integrity": "sha512-" + base64.StdEncoding.EncodeToString(sum[:]),
		}
		versions[p.version], latest = m, p.version
	}
	if latest == "" {
		http.Error(w, `{"error":"not found"}`, http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"name": name, "dist-tags": map[string]string{"latest": latest}, "versions": versions})
}

func (r *npmRegistry) send(w http.ResponseWriter, req *http.Request, file string) {
	r.mu.Lock()
	r.got = append(r.got, file)
	content, hold, only, tampered, endless := r.tarballs[file], r.hold, r.only, r.tampered[file], r.endless
	r.mu.Unlock()
	if hold != nil && (only == "" || only == file) {
		r.held <- struct{}{}
		select {
		case <-hold:
		case <-req.Context().Done():
			return
		}
	}
	if endless {
		z := gzip.NewWriter(w)
		archive := tar.NewWriter(z)
		err := archive.WriteHeader(&tar.Header{Name: "package/large", Mode: 0o644, Size: 1 << 40})
		for noise := rand.NewChaCha8([32]byte{}); err == nil; {
			_, err = io.CopyN(archive, noise, 64<<10)
		}
		return
	}
	if tampered {
		content = append(bytes.Clone(content), 0)
	}
	_, _ = w.Write(content)
}

// downloads returns the requested tarballs, sorted.
func (r *npmRegistry) downloads() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Sorted(slices.Values(r.got))
}

// forget clears the list of downloads.
func (r *npmRegistry) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.got = nil
}

func (r *npmRegistry) change(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f()
}

// TestOldNode wants to be told which version of Node.js an agent needs.
func TestOldNode(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	script(t, filepath.Join(dir, "node"), "echo v21.7.3")
	script(t, filepath.Join(dir, "npm"), "exit 1")
	r := newRegistry(t, Config{Env: []string{"HOME=" + dir, "PATH=" + dir + ":/bin:/usr/bin"}})
	_, err := r.Install(t.Context(), "pi", InstallOptions{})
	checkInstallError(t, "pi", err, StageResolve, "", "node is v21.7.3", "install Node.js 22 or newer")
}

// TestManySmallFiles installs a package with many empty files, and reads a large package.json.
func TestManySmallFiles(t *testing.T) {
	t.Parallel()
	packages := codexPackages(t)
	for i := range packages {
		files := map[string]string{}
		for n := range 3000 {
			files["empty/"+strconv.Itoa(n)] = ""
		}
		maps.Copy(files, packages[i].files)
		packages[i].files = files
	}
	_, env := serveNPM(t, packages...)
	r := newRegistry(t, Config{Env: env})
	r.maxBytes = 8 << 20
	_, err := r.Install(t.Context(), "codex", InstallOptions{})
	checkInstallError(t, "many files", err, StageDownload, "", "more than 8 MiB, with 4 KiB for each file")

	dir := t.TempDir()
	file := filepath.Join(dir, "package.json")
	if err := errors.Join(os.WriteFile(file, []byte(`{"version":"1"}`), 0o600), os.Truncate(file, 16<<20+1)); err != nil {
		t.Fatal(err)
	}
	if _, err := packageVersion(dir); !errors.Is(err, folder.ErrTooLarge) {
		t.Errorf("large package.json: %v", err)
	}
}
