package removetree_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/deskhand/deskhand/internal/removetree"
	"github.com/deskhand/deskhand/internal/supervise"
	"github.com/deskhand/deskhand/internal/testspace"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
		t.Fatal(err)
	}
}

func remove(path string) error { return removetree.Remove(path, time.Now().Add(time.Minute)) }

// nest makes directories below dir, each in the previous one, with a file in the last.
func nest(t *testing.T, dir string, levels int) {
	t.Helper()
	fd, err := unix.Open(dir, unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	for range levels {
		if err := unix.Mkdirat(fd, "d", 0o755); err != nil {
			t.Fatal(err)
		}
		next, err := unix.Openat(fd, "d", unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		unix.Close(fd)
		fd = next
	}
	file, err := unix.Openat(fd, "file", unix.O_CREAT|unix.O_WRONLY|unix.O_CLOEXEC, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	unix.Close(file)
	unix.Close(fd)
}

// TestRemove removes a tree with more levels than the process may have descriptors, a directory
// with many entries, and a link that leads out.
func TestRemove(t *testing.T) {
	var before syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &before); err != nil {
		t.Fatal(err)
	}
	away, dir := t.TempDir(), filepath.Join(t.TempDir(), "tree")
	write(t, filepath.Join(away, "keep"), "kept")
	write(t, filepath.Join(dir, ".deskhand-removed-1", "x"), "x")
	for i := range 3000 {
		write(t, filepath.Join(dir, "wide", fmt.Sprint(i)), "")
	}
	if err := os.Symlink(away, filepath.Join(dir, "wide", "link")); err != nil {
		t.Fatal(err)
	}
	nest(t, dir, 2000)
	nest(t, filepath.Join(dir, "wide"), 2000)
	limit := before
	limit.Cur = 100
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	err := remove(dir)
	if e := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &before); e != nil {
		t.Fatal(e)
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the tree is still there: %v", err)
	}
	if _, err := os.Stat(filepath.Join(away, "keep")); err != nil {
		t.Error(err)
	}
	file := filepath.Join(t.TempDir(), "file")
	write(t, file, "x")
	for range 2 { // the second time it is absent
		if err := remove(file); err != nil {
			t.Error(err)
		}
	}
}

// Remove does not remove mounted files.
func TestRemoveWithMount(t *testing.T) {
	t.Parallel()
	disk := testspace.Disk(t, "1m")
	if disk == "" {
		return // the test has run
	}
	file, tree := filepath.Join(disk, "remote"), filepath.Join(t.TempDir(), "tree")
	point := filepath.Join(tree, "runtime", "gvfs")
	write(t, file, "x")
	if err := errors.Join(os.MkdirAll(point, 0o755), unix.Mount(disk, point, "", unix.MS_BIND, "")); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Unmount(point, unix.MNT_DETACH) }()
	err := remove(tree)
	if failed, ok := errors.AsType[*fs.PathError](err); !ok || failed.Path != point || failed.Err != unix.EBUSY {
		t.Errorf("%v, want EBUSY of %s", err, point)
	}
	if _, err := os.Stat(file); err != nil {
		t.Error(err)
	}
}

// TestRemoveOfAnotherUser removes a tree into which its owner has moved a directory with files of
// this user's.
func TestRemoveOfAnotherUser(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can remove another user's files")
	}
	const user = 65534
	deep := strings.Repeat("a/", 40)
	for name, at := range map[string]struct{ above, below string }{
		"theirs": {}, "in ours": {above: "ours"}, "deep in ours": {above: deep}, "deep in theirs": {below: deep},
	} {
		dir := t.TempDir()
		top := filepath.Join(dir, "top")
		theirs := filepath.Join(top, at.above, "theirs")
		moved, unread := filepath.Join(theirs, at.below, "moved"), filepath.Join(theirs, "unread")
		write(t, filepath.Join(moved, "empty", "file"), "of theirs")
		write(t, filepath.Join(unread, "file"), "of theirs")
		file := filepath.Join(moved, "private", "file")
		if err := filepath.WalkDir(theirs, func(path string, _ fs.DirEntry, err error) error {
			return errors.Join(err, os.Lchown(path, user, user))
		}); err != nil {
			t.Fatal(err)
		}
		write(t, file, "of ours")
		if err := errors.Join(os.Chmod(filepath.Dir(file), 0o700), os.Chmod(unread, 0)); err != nil {
			t.Fatal(err)
		}
		if err := remove(top); !errors.Is(err, fs.ErrPermission) {
			t.Errorf("%s: %v", name, err)
		}
		var left string
		if err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
			if err == nil && e.Name() == "private" {
				left = filepath.Join(path, "file")
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
		if text, err := os.ReadFile(left); err != nil || string(text) != "of ours" {
			t.Errorf("%s: the file is gone: %v", name, err)
		}
		if err := errors.Join(os.Lchown(filepath.Dir(left), user, user), remove(top)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := os.Lstat(top); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: it is there: %v", name, err)
		}
	}
}

// TestRemoveWhileOwnerAdds removes a directory in which a program of its owner makes files for ever.
func TestRemoveWhileOwnerAdds(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can take another user's directory")
	}
	const user = 65534
	theirs := filepath.Join(t.TempDir(), "top", "theirs")
	write(t, filepath.Join(theirs, "file"), "")
	if err := os.Lchown(theirs, user, user); err != nil {
		t.Fatal(err)
	}
	dir, err := os.Open(theirs)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	added, ended := make(chan struct{}), make(chan error)
	as := supervise.User{Name: "other", Credential: &syscall.Credential{Uid: user, Gid: user}}
	go func() {
		ended <- as.Do(func() error {
			for i := range 1 << 20 {
				if err := unix.Mkdirat(int(dir.Fd()), fmt.Sprint(i), 0o700); err != nil {
					return err
				}
				if i == 2000 {
					close(added)
				}
			}
			return nil
		})
	}()
	<-added
	if err := remove(filepath.Dir(theirs)); err != nil {
		t.Error(err)
	}
	if err := <-ended; err != unix.EACCES {
		t.Errorf("the owner could add entries until %v", err)
	}
}

// TestRemoveUntilDeadline leaves what is there at the deadline.
func TestRemoveUntilDeadline(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "tree", "file"), "")
	if err := removetree.Remove(filepath.Join(dir, "tree"), time.Now()); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "tree", "file")); err != nil {
		t.Error(err)
	}
}

// TestRemoveGoesOn removes everything but the files of this user's in a directory of another user, and
// names them.
func TestRemoveGoesOn(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can remove another user's files")
	}
	const user = 65534
	top := filepath.Join(t.TempDir(), "top")
	theirs := filepath.Join(top, "theirs")
	for i := range 50 {
		write(t, filepath.Join(theirs, "some", fmt.Sprint(i), "file"), "")
	}
	nest(t, filepath.Join(theirs, "some"), 100)
	if err := filepath.WalkDir(theirs, func(path string, _ fs.DirEntry, err error) error {
		return errors.Join(err, os.Lchown(path, user, user))
	}); err != nil {
		t.Fatal(err)
	}
	kept := []string{filepath.Join(theirs, "a"), filepath.Join(theirs, "some", "25", "b"), filepath.Join(theirs, "some", "c")}
	for _, dir := range kept {
		write(t, filepath.Join(dir, "file"), "of ours")
	}
	if err := os.Mkdir(filepath.Join(theirs, "empty"), 0o700); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		err := remove(top)
		for _, dir := range kept {
			if err == nil || strings.Count(err.Error(), dir+": operation not permitted") != 1 {
				t.Errorf("%v does not name %s once", err, dir)
			}
		}
		var files int
		if err := filepath.WalkDir(theirs, func(_ string, e fs.DirEntry, err error) error {
			files++
			return err
		}); err != nil || files != 2*len(kept)+3 {
			t.Errorf("%d entries are left: %v", files, err)
		}
	}
}
