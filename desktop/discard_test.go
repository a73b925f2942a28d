package desktop

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/deskhand/deskhand/internal/supervise"
	"github.com/deskhand/deskhand/internal/testspace"
)

// createFile makes a file, and its folders.
func createFile(t *testing.T, parts ...string) string {
	t.Helper()
	path := filepath.Join(parts...)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

func TestDiscard(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	state, outside := filepath.Join(base, "state"), createFile(t, base, "outside", "file")
	kept := createFile(t, state, "recordings", "rec_1", "video.mp4")
	gone := []string{createFile(t, state, "home", ".cache", "big"), createFile(t, state, LogName), createFile(t, state, stateLock)}
	for _, name := range []string{"link", "home/link", "runtime"} {
		if err := os.Symlink(filepath.Dir(outside), filepath.Join(state, name)); err != nil {
			t.Fatal(err)
		}
		gone = append(gone, filepath.Join(state, name))
	}
	if err := Discard(state, nil, "recordings"); err != nil {
		t.Fatal(err)
	}
	for _, path := range gone {
		if exists(path) {
			t.Errorf("%s is there still", path)
		}
	}
	if !exists(kept) || !exists(outside) {
		t.Errorf("kept: %v, outside: %v, want both there", exists(kept), exists(outside))
	}
	for range 2 { // the second time there is none
		if err := Discard(state, nil); err != nil || exists(state) {
			t.Errorf("with nothing to keep: %v, there: %v", err, exists(state))
		}
	}
}

// TestDiscardRefuses: a Discard that fails removes nothing.
func TestDiscardRefuses(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	used := filepath.Join(base, "used")
	file := createFile(t, used, "home", "file")
	d := dirs{state: used, home: used, log: used + "/log", run: used + "/run", runtime: used}
	if err := d.create(supervise.User{}); err != nil {
		t.Fatal(err)
	}
	if err := Discard(used, nil); !errors.Is(err, errInUse) || !exists(file) {
		t.Errorf("in use: %v, there: %v", err, exists(file))
	}
	if err := d.remove(); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(base, "link")
	if err := os.Symlink(used, link); err != nil {
		t.Fatal(err)
	}
	if err := Discard(link, nil); err == nil || !exists(file) || !exists(link) {
		t.Errorf("a link: %v, there: %v, %v", err, exists(file), exists(link))
	}
	// If the lock is a link, Discard makes no file at its target.
	away := filepath.Join(base, "away")
	if err := errors.Join(os.Remove(filepath.Join(used, stateLock)), os.Symlink(away, filepath.Join(used, stateLock))); err != nil {
		t.Fatal(err)
	}
	if err := Discard(used, nil); err == nil || exists(away) || !exists(file) {
		t.Errorf("a lock that is a link: %v, made: %v, there: %v", err, exists(away), exists(file))
	}
}

// TestDiscardDeepHome: Discard needs a bounded number of open files for nested directories.
func TestDiscardDeepHome(t *testing.T) { //nolint:paralleltest // it lowers a limit of the process
	dir := filepath.Join(t.TempDir(), "state")
	home := filepath.Join(dir, "home")
	if err := os.MkdirAll(home, 0o700); err != nil {
		t.Fatal(err)
	}
	at, err := os.Open(home)
	if err != nil {
		t.Fatal(err)
	}
	for range 2000 {
		if err := unix.Mkdirat(int(at.Fd()), "d", 0o700); err != nil {
			t.Fatal(err)
		}
		fd, err := unix.Openat(int(at.Fd()), "d", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		_ = at.Close()
		at = os.NewFile(uintptr(fd), "d")
	}
	_ = at.Close()
	var before unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &before); err != nil {
		t.Fatal(err)
	}
	low := before
	low.Cur = 256
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &low); err != nil {
		t.Fatal(err)
	}
	err = Discard(dir, nil)
	if e := unix.Setrlimit(unix.RLIMIT_NOFILE, &before); e != nil {
		t.Fatal(e)
	}
	if err != nil {
		t.Error(err)
	}
	if exists(dir) {
		t.Error("the directory is still there")
	}
}

// TestDiscardWithMount: Discard keeps files that are mounted below the directory.
func TestDiscardWithMount(t *testing.T) {
	t.Parallel()
	disk := testspace.Disk(t, "1m")
	if disk == "" {
		return // the test has run
	}
	file := createFile(t, disk, "remote")
	if err := Discard(filepath.Dir(disk), nil); err == nil || !strings.Contains(err.Error(), disk) || !exists(file) {
		t.Errorf("Discard: %v, there: %v", err, exists(file))
	}
}
