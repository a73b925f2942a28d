package filesystem

import (
	"archive/tar"
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestExtractSweeps checks that Extract removes the staging directory that a killed program
// left.
func TestExtractSweeps(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	left := filepath.Join(dir, ".deskhand-LEFT.tmp")
	if err := os.MkdirAll(filepath.Join(left, "sub", "sub"), 0o700); err != nil {
		t.Fatal(err)
	}
	f, err := Open(Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}()
	var archive bytes.Buffer
	if err := tar.NewWriter(&archive).Close(); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		later time.Duration
		stays bool
	}{{23 * time.Hour, true}, {48 * time.Hour, false}} {
		f.now = func() time.Time { return time.Now().Add(step.later) }
		if _, err := f.Extract(t.Context(), dir, bytes.NewReader(archive.Bytes()), ExtractOptions{}); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(left); (err == nil) != step.stays {
			t.Errorf("after %v: %v, want it to be there: %v", step.later, err, step.stays)
		}
	}
}

// The owner of the destination exchanges directories after they were moved there. The final mode
// of a directory of the archive is for that directory only, and for nothing that a link names.
func TestExtractRestrictsItsOwnFolders(t *testing.T) {
	t.Parallel()
	outside, dir := t.TempDir(), t.TempDir()
	secret := filepath.Join(outside, "secret")
	if err := os.WriteFile(secret, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := Open(Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	x := &extraction{fs: f}
	for _, name := range []string{"kept", "linked", "exchanged", "above/below"} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
		x.folders = append(x.folders, stagedFolder{path: name, mode: 0o577})
	}
	opened, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer opened.Close()
	x.dest = newFolder(opened, dir)
	x.stage.folder = x.dest
	if err := x.setFolders(); err != nil {
		t.Fatal(err)
	}
	for name, target := range map[string]string{"linked": secret, "exchanged": "", "above": outside} {
		name = filepath.Join(dir, name)
		err := os.Rename(name, name+".old")
		switch {
		case err != nil:
		case target == "":
			err = os.Mkdir(name, 0o700)
		default:
			err = os.Symlink(target, name)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(outside, "below"), 0o700); err != nil {
		t.Fatal(err)
	}
	x.restrictFolders()
	for name, want := range map[string]os.FileMode{
		secret: 0o600, filepath.Join(outside, "below"): 0o700, filepath.Join(dir, "exchanged"): 0o700, filepath.Join(dir, "kept"): 0o577,
	} {
		if info, err := os.Stat(name); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v, want %v", name, info.Mode(), err, want)
		}
	}
}

// If another user has put a directory in the place of a new one, ownFolder takes it over if it
// is empty, and returns an error otherwise.
func TestOwnFolder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, inside := range map[string]string{"empty": "empty", "full": "full/file"} {
		if err := os.MkdirAll(filepath.Join(dir, inside), 0o777); err != nil {
			t.Fatal(err)
		}
		if os.Geteuid() == 0 {
			if err := os.Chown(filepath.Join(dir, name), 65534, 65534); err != nil {
				t.Fatal(err)
			}
		}
	}
	opened, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer opened.Close()
	d := newFolder(opened, dir)
	if own, err := d.ownFolder("full"); !errors.Is(err, ErrChanged) {
		own.close()
		t.Errorf("a directory with an entry: %v", err)
	}
	own, err := d.ownFolder("empty")
	if err != nil {
		t.Fatal(err)
	}
	defer own.close()
	if n, err := own.self(); err != nil || int(n.uid) != os.Geteuid() || n.mode.Perm() != 0o700 {
		t.Errorf("uid %d, mode %v, %v, want our own", n.uid, n.mode, err)
	}
}
