package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/rand"
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// entry is a file of a tarball.
type entry struct {
	name string
	kind byte // of package tar; 0: a regular file
	text string
}

// pack returns a tarball.
func pack(t *testing.T, entries ...entry) []byte {
	t.Helper()
	var out bytes.Buffer
	zip := gzip.NewWriter(&out)
	archive := tar.NewWriter(zip)
	for _, e := range entries {
		h := &tar.Header{Name: e.name, Mode: 0o644, Size: int64(len(e.text)), Typeflag: e.kind}
		if e.kind == tar.TypeSymlink {
			h.Size, h.Linkname, e.text = 0, e.text, ""
		}
		if err := archive.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := archive.Write([]byte(e.text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := archive.Close(); err != nil {
		t.Fatal(err)
	}
	if err := zip.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// integrity returns the checksum of a tarball as npm writes it.
func integrity(tarball []byte) string {
	sum := sha512.Sum512(tarball)
	return "sha512-" + base64.StdEncoding.EncodeToString(sum[:])
}

// setup is a registry with one package, a lock file and folders.
type setup struct {
	from     source
	lock     string
	into     string
	requests atomic.Int32
}

// newSetup serves a tarball as the package @x/term 1.2.3, under a path, as mirrors do.
func newSetup(t *testing.T, tarball []byte, l library) *setup {
	t.Helper()
	s := &setup{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.requests.Add(1)
		if r.URL.Path != "/npm/@x/term/-/term-1.2.3.tgz" {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write(tarball)
	}))
	t.Cleanup(server.Close)
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	dir := t.TempDir()
	s.from = source{registry: server.URL + "/npm/", cache: filepath.Join(dir, "cache")}
	s.lock, s.into = filepath.Join(dir, "libs.lock"), filepath.Join(dir, "lib")
	l.Package, l.Version = "@x/term", "1.2.3"
	text, err := json.Marshal([]library{l})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(s.lock, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return s
}

// content returns all files of a folder by their paths.
func content(t *testing.T, folder string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(folder, func(name string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		text, err := os.ReadFile(name)
		files[strings.TrimPrefix(name, folder+"/")] = string(text)
		return err
	})
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return files
}

// TestRun writes the files that the lock file names, and no others, and fetches a package
// once.
func TestRun(t *testing.T) {
	t.Parallel()
	tarball := pack(t,
		entry{name: "package/lib/term.mjs", text: "export {};"}, entry{name: "package/LICENSE", text: "MIT"},
		entry{name: "package/evil.js", text: "alert()"}, entry{name: "../../outside.js", text: "alert()"},
	)
	s := newSetup(t, tarball, library{
		Integrity: integrity(tarball), Files: map[string]string{"lib/term.mjs": "term.js", "LICENSE": "LICENSE.txt"},
	})
	if err := os.MkdirAll(filepath.Join(s.into, "old"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"old/gone.js", "term.js"} {
		if err := os.WriteFile(filepath.Join(s.into, name), []byte("old"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		if err := run(t.Context(), s.lock, s.into, s.from); err != nil {
			t.Fatal(err)
		}
		got := content(t, s.into)
		if len(got) != 2 || got["term.js"] != "export {};" || got["LICENSE.txt"] != "MIT" {
			t.Fatalf("the folder has %v", got)
		}
		// The next run corrects what was changed here.
		if err := os.WriteFile(filepath.Join(s.into, "term.js"), []byte("changed"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if n := s.requests.Load(); n != 1 {
		t.Errorf("the package was fetched %d times", n)
	}
	// A package in the cache has the right checksum, or is fetched again.
	for name := range content(t, s.from.cache) {
		if err := os.WriteFile(filepath.Join(s.from.cache, name), []byte("broken"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := run(t.Context(), s.lock, s.into, s.from); err != nil || s.requests.Load() != 2 {
		t.Errorf("with a broken cache: %v, %d requests", err, s.requests.Load())
	}
}

// TestRefused: nothing is written of a package that is not as the lock file says.
func TestRefused(t *testing.T) {
	t.Parallel()
	good := pack(t, entry{name: "package/a.js", text: "1"})
	large := make([]byte, mostPacked+1)
	if _, err := rand.Read(large); err != nil {
		t.Fatal(err)
	}
	zeros := strings.Repeat("\x00", mostUnpacked)
	files := map[string]string{"a.js": "a.js"}
	for name, test := range map[string]struct {
		tarball []byte
		lock    library
		want    string
	}{
		"checksum":       {good, library{Integrity: integrity([]byte("other")), Files: files}, "the lock file has sha512-"},
		"weak checksum":  {good, library{Integrity: "sha1-x", Files: files}, "is not a SHA-512"},
		"file missing":   {pack(t, entry{name: "package/b.js"}), library{Files: files}, "does not have all of [a.js]"},
		"symbolic link":  {pack(t, entry{"package/a.js", tar.TypeSymlink, "/etc/passwd"}), library{Files: files}, "not a regular file"},
		"large package":  {large, library{Files: files}, "is larger than"},
		"bomb":           {pack(t, entry{name: "package/b", text: zeros}, entry{name: "package/a.js"}), library{Files: files}, "unpacks to more than"},
		"bomb in a file": {pack(t, entry{name: "package/a.js", text: zeros}), library{Files: files}, "unpacks to more than"},
		"not a tarball":  {[]byte("<html><body></body></html>"), library{Files: files}, "gzip"},
		"file outside":   {good, library{Files: map[string]string{"a.js": "../a.js"}}, `"../a.js" is not the name of a file`},
		"parent":         {good, library{Files: map[string]string{"a.js": ".."}}, `".." is not the name of a file`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if test.lock.Integrity == "" {
				test.lock.Integrity = integrity(test.tarball)
			}
			s := newSetup(t, test.tarball, test.lock)
			err := run(t.Context(), s.lock, s.into, s.from)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("run() = %v, want an error with %q", err, test.want)
			}
			if got := content(t, s.into); len(got) > 0 {
				t.Errorf("the folder has %v", got)
			}
		})
	}
	t.Run("no such package", func(t *testing.T) {
		t.Parallel()
		s := newSetup(t, good, library{Integrity: integrity(good), Files: files})
		s.from.registry += "nowhere"
		if err := run(t.Context(), s.lock, s.into, s.from); err == nil || !strings.Contains(err.Error(), "404") {
			t.Errorf("run() = %v", err)
		}
	})
}

// TestLockFile reads the lock file of the page.
func TestLockFile(t *testing.T) {
	t.Parallel()
	libraries, err := readLock("../../httpapi/libs.lock")
	if err != nil || len(libraries) == 0 {
		t.Fatalf("%v, %v", libraries, err)
	}
	for _, l := range libraries {
		if l.Files["LICENSE"] == "" {
			t.Errorf("the licence of %s is not among its files", l.Package)
		}
	}
}
