package filesystem_test

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/deskhand/deskhand/filesystem"
)

// On a full disk the old content stays, and no other file is left.
func TestDiskFull(t *testing.T) {
	t.Parallel()
	if !inNamespace(t) {
		return
	}
	for _, whole := range []bool{true, false} {
		dir := realTempDir(t)
		mount(t, "tmpfs", dir, "tmpfs", 0, "size=1m")
		config := filesystem.Config{Home: dir}
		if !whole {
			config.Roots = []filesystem.Root{{Path: dir}}
		}
		f := open(t, config)
		put(t, dir+"/file", "old")
		for _, options := range []filesystem.WriteOptions{{}, {NoSync: true}, {Append: true}, {Append: true, NoSync: true}} {
			for _, name := range []string{"file", "new"} {
				_, err := f.Write(t.Context(), name, io.LimitReader(zeros{}, 2<<20), options)
				wantError(t, err, filesystem.ErrNoSpace, "no space left", dir+"/"+name)
			}
		}
		// Content that is collected in memory fails only when it is appended.
		put(t, dir+"/most", strings.Repeat("m", 900<<10))
		_, err := f.Write(t.Context(), "file", io.LimitReader(zeros{}, 300<<10), filesystem.WriteOptions{Append: true})
		wantError(t, err, filesystem.ErrNoSpace)
		wantContent(t, dir+"/file", "old")
		if diff := cmp.Diff([]string{"file", "most"}, names(t, dir)); diff != "" {
			t.Errorf("left behind (-want +got):\n%s", diff)
		}
		must(t, os.Remove(dir+"/most"))
		write(t, f, "file", strings.Repeat("n", 900<<10), filesystem.WriteOptions{}) // the space is free again

		outside := realTempDir(t)
		put(t, outside+"/tree/file", strings.Repeat("x", 600<<10))
		g := open(t, filesystem.Config{})
		before, beforeDisk := snapshot(t, outside), snapshot(t, dir)
		for _, options := range []filesystem.MoveOptions{{}, {Overwrite: true}} {
			err = g.Move(t.Context(), outside+"/tree", dir+"/moved", options)
			wantError(t, err, filesystem.ErrNoSpace)
			err = g.Move(t.Context(), outside+"/tree", dir+"/file", filesystem.MoveOptions{Overwrite: true})
			wantError(t, err, filesystem.ErrNoSpace)
		}
		if diff := cmp.Diff(before, snapshot(t, outside)) + cmp.Diff(beforeDisk, snapshot(t, dir)); diff != "" {
			t.Errorf("a move failed (-before +after):\n%s", diff)
		}
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// A file that is a mount point cannot be replaced, so Write replaces its content.
func TestMountedFile(t *testing.T) {
	t.Parallel()
	if !inNamespace(t) {
		return
	}
	top := realTempDir(t)
	dir, small := top+"/dir", top+"/small"
	must(t, os.MkdirAll(small, 0o777))
	mount(t, "tmpfs", small, "tmpfs", 0, "size=1m")
	put(t, small+"/hosts", "old content")
	must(t, os.Chmod(small+"/hosts", 0o640))
	put(t, dir+"/hosts", "")
	bind(t, small+"/hosts", dir+"/hosts")
	for _, config := range []filesystem.Config{{Home: dir}, {Roots: []filesystem.Root{{Path: dir}}}} {
		f := open(t, config)
		for _, options := range []filesystem.WriteOptions{{}, {NoSync: true}, {Mode: 0o600}, {IfMatch: "*"}} {
			_, err := f.Write(t.Context(), "hosts", io.MultiReader(strings.NewReader("x"), iotest.ErrReader(iotest.ErrTimeout)), options)
			wantError(t, err, iotest.ErrTimeout)
			_, err = f.Write(t.Context(), "hosts", io.LimitReader(zeros{}, 2<<20), options) // fits into dir, not there
			wantError(t, err, filesystem.ErrNoSpace)
			wantContent(t, small+"/hosts", "old content")
			write(t, f, "hosts", "longer than the old content", options)
			wantContent(t, small+"/hosts", "longer than the old content")
			write(t, f, "hosts", "new", options)
			wantContent(t, small+"/hosts", "new")
			write(t, f, "hosts", "er", filesystem.WriteOptions{Append: true})
			wantContent(t, small+"/hosts", "newer")
			must(t, os.WriteFile(small+"/hosts", []byte("old content"), 0o666))
		}
		e, err := f.Stat("hosts")
		must(t, err)
		if e.Mode != 0o600 {
			t.Errorf("mode %v, want the mode of the previous write", e.Mode)
		}
		must(t, os.Chmod(small+"/hosts", 0o640))
		write(t, f, "hosts", "matched", filesystem.WriteOptions{IfMatch: "*"})
		_, err = f.Write(t.Context(), "hosts", strings.NewReader("x"), filesystem.WriteOptions{IfMatch: e.ETag()})
		wantError(t, err, filesystem.ErrChanged)
		wantError(t, f.Remove(t.Context(), "hosts", false), filesystem.ErrBusy, "mount point")
		put(t, dir+"/x", "x")
		wantError(t, f.Move(t.Context(), "x", "hosts", filesystem.MoveOptions{Overwrite: true}), filesystem.ErrBusy)
		must(t, os.Remove(dir+"/x"))
		must(t, os.WriteFile(small+"/hosts", []byte("old content"), 0o666))
		if diff := cmp.Diff([]string{"hosts"}, names(t, dir)); diff != "" {
			t.Errorf("left behind (-want +got):\n%s", diff)
		}
	}
	// In a root, the content of a file with several names is not changed.
	must(t, os.Link(small+"/hosts", small+"/again"))
	f := open(t, filesystem.Config{Roots: []filesystem.Root{{Path: dir}}})
	_, err := f.Write(t.Context(), "hosts", strings.NewReader("x"), filesystem.WriteOptions{})
	wantError(t, err, fs.ErrPermission, "hard links")
	wantContent(t, small+"/hosts", "old content")
}

// A file system that is mounted below a directory is neither removed with it nor moved to
// another file system.
func TestMounted(t *testing.T) {
	t.Parallel()
	if !inNamespace(t) {
		return
	}
	dir, disk := realTempDir(t), realTempDir(t)
	put(t, disk+"/data", "precious")
	must(t, os.MkdirAll(dir+"/tree/sub/mounted", 0o777))
	bind(t, disk, dir+"/tree/sub/mounted")
	f := open(t, filesystem.Config{Home: dir})
	for _, name := range []string{"tree", "tree/sub/mounted"} {
		wantError(t, f.Remove(t.Context(), name, true), filesystem.ErrBusy, dir+"/tree/sub/mounted")
		wantContent(t, disk+"/data", "precious")
	}
	other := realTempDir(t)
	mount(t, "tmpfs", other, "tmpfs", 0, "")
	put(t, dir+"/tree/a", "")
	before := snapshot(t, dir)
	wantError(t, f.Move(t.Context(), "tree", other+"/tree", filesystem.MoveOptions{}), filesystem.ErrBusy, "mounted", "mount point")
	if diff := cmp.Diff(before, snapshot(t, dir)); diff != "" || len(names(t, other)) != 0 {
		t.Errorf("a move failed, %v is there (-before +after):\n%s", names(t, other), diff)
	}
}

// TestReadOnlyDirectory writes to a writable file in a directory that is not writable. The
// content is received in TempDir.
func TestReadOnlyDirectory(t *testing.T) {
	t.Parallel()
	if !inNamespace(t) {
		return
	}
	dir, elsewhere, spool := realTempDir(t), realTempDir(t), realTempDir(t)
	put(t, elsewhere+"/file", "old")
	put(t, dir+"/file", "")
	put(t, dir+"/sub/other", "")
	bind(t, dir, dir)
	bind(t, elsewhere+"/file", dir+"/file")
	if err := unix.Mount("", dir, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
		t.Skip(err)
	}
	f := open(t, filesystem.Config{Home: dir, TempDir: spool})
	_, err := f.Write(t.Context(), "file", io.MultiReader(strings.NewReader("x"), iotest.ErrReader(iotest.ErrTimeout)),
		filesystem.WriteOptions{})
	wantError(t, err, iotest.ErrTimeout)
	wantContent(t, elsewhere+"/file", "old")
	large := strings.Repeat("x", 2<<20)
	write(t, f, "file", large, filesystem.WriteOptions{})
	write(t, f, "file", large, filesystem.WriteOptions{Append: true})
	wantContent(t, elsewhere+"/file", large+large)
	for _, name := range []string{"another", "new/x", "sub/other"} {
		_, err := f.Write(t.Context(), name, strings.NewReader("x"), filesystem.WriteOptions{})
		wantError(t, err, fs.ErrPermission, "read-only file system: "+dir+"/"+name[:3])
	}
	wantError(t, f.Remove(t.Context(), "sub", true), fs.ErrPermission, "read-only")
	wantError(t, f.Move(t.Context(), "sub", "moved", filesystem.MoveOptions{}), fs.ErrPermission, "read-only")
	wantError(t, f.Move(t.Context(), "sub", elsewhere+"/moved", filesystem.MoveOptions{}), fs.ErrPermission, "read-only")
	if left := append(names(t, spool), names(t, elsewhere)...); len(left) != 1 {
		t.Errorf("left behind: %v", left)
	}
}

// Without /proc, files cannot be made without a name.
func TestNoProc(t *testing.T) {
	t.Parallel()
	if !inNamespace(t) {
		return
	}
	dir := realTempDir(t)
	mount(t, "tmpfs", "/proc", "tmpfs", 0, "")
	f := open(t, filesystem.Config{Home: dir})
	write(t, f, "file", "one", filesystem.WriteOptions{})
	write(t, f, "file", "two", filesystem.WriteOptions{})
	wantContent(t, dir+"/file", "two")
	if diff := cmp.Diff([]string{"file"}, names(t, dir)); diff != "" {
		t.Errorf("left behind (-want +got):\n%s", diff)
	}
}

// A file that would exceed the process's limit is an error like a full disk.
func TestFileSizeLimit(t *testing.T) {
	t.Parallel()
	if !inNamespace(t) { // there the limit applies to this process only
		return
	}
	dir := realTempDir(t)
	f := open(t, filesystem.Config{Home: dir})
	put(t, dir+"/file", "old")
	must(t, unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: 1 << 20, Max: unix.RLIM_INFINITY}))
	for _, options := range []filesystem.WriteOptions{{}, {Append: true}} {
		_, err := f.Write(t.Context(), "file", io.LimitReader(zeros{}, 2<<20), options)
		wantError(t, err, filesystem.ErrNoSpace, "too large")
	}
	must(t, unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: unix.RLIM_INFINITY, Max: unix.RLIM_INFINITY}))
	wantContent(t, dir+"/file", "old")
	if diff := cmp.Diff([]string{"file"}, names(t, dir)); diff != "" {
		t.Errorf("left behind (-want +got):\n%s", diff)
	}
}

// TestMoveAcross moves between two file systems.
func TestMoveAcross(t *testing.T) {
	t.Parallel()
	if !inNamespace(t) {
		return
	}
	dir := realTempDir(t)
	for _, name := range []string{dir + "/this", dir + "/other"} { // in memory, where syncing is quick
		must(t, os.Mkdir(name, 0o777))
		mount(t, "tmpfs", name, "tmpfs", 0, "")
	}
	for _, f := range []*filesystem.FS{
		open(t, filesystem.Config{}),
		open(t, filesystem.Config{Roots: []filesystem.Root{{Path: dir}}}),
		open(t, filesystem.Config{Roots: []filesystem.Root{{Path: dir + "/this"}, {Path: dir + "/other"}}}),
	} {
		testMoves(t, f, dir+"/this", dir+"/other")
		testMoves(t, f, dir+"/other", dir+"/this")
	}
	testMoveAcrossDetails(t, dir)
}

// testMoveAcrossDetails checks what a copy keeps, and what ends it.
func testMoveAcrossDetails(t *testing.T, dir string) {
	t.Helper()
	f := open(t, filesystem.Config{Home: dir})
	tree := dir + "/this/tree"
	put(t, tree+"/file", "content")
	put(t, tree+"/sub/deeper/x", strings.Repeat("x", 3<<20))
	must(t, os.Symlink("sub", tree+"/link"))
	must(t, os.Truncate(tree+"/file", 8<<20)) // all but the first block is a hole
	then := time.Date(2001, 2, 3, 4, 5, 6, 123456789, time.UTC)
	must(t, os.Chmod(tree+"/file", 0o640|fs.ModeSetuid))
	must(t, os.Chmod(tree+"/sub/deeper", 0o500))
	attributes := unix.Setxattr(tree+"/file", "user.deskhand", []byte("kept"), 0) == nil
	if os.Geteuid() == 0 && os.Chown(tree+"/file", 0, 0) == nil {
		must(t, os.Chmod(tree+"/file", 0o640|fs.ModeSetuid))
	}
	for _, name := range []string{tree + "/file", tree + "/sub/deeper", tree + "/sub", tree} {
		must(t, os.Chtimes(name, then, then))
	}

	// If the context ends during the copy, source and destination are unchanged.
	put(t, dir+"/other/target/old", "old")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	before := snapshot(t, dir)
	wantError(t, f.Move(ctx, "this/tree", "other/target", filesystem.MoveOptions{Overwrite: true}), context.Canceled)
	wantError(t, f.Move(t.Context(), "this", "this/tree/sub/x", filesystem.MoveOptions{}), filesystem.ErrIntoItself)
	wantError(t, f.Move(t.Context(), dir, "other/sub/x", filesystem.MoveOptions{}), filesystem.ErrIntoItself)
	if !cmp.Equal(before, snapshot(t, dir)) {
		t.Error("a move failed and changed something")
	}

	must(t, f.Move(t.Context(), "this/tree", "other/target", filesystem.MoveOptions{Overwrite: true}))
	moved := dir + "/other/target"
	wantMissing(t, tree)
	wantMissing(t, moved+"/old")
	e, err := f.Stat("other/target/file")
	if err != nil || e.Size != 8<<20 || e.Mode != 0o640|fs.ModeSetuid {
		t.Errorf("file: %+v, %v", e, err)
	}
	var st unix.Stat_t
	if err := unix.Stat(moved+"/file", &st); err != nil || st.Blocks > 2048 {
		t.Errorf("the copy of a file that is a hole takes %d blocks, %v", st.Blocks, err)
	}
	if got := attribute(moved+"/file", "user.deskhand"); attributes && got != "kept" && got != "" { // tmpfs may have none
		t.Errorf("attribute %q", got)
	}
	for _, name := range []string{"file", "sub/deeper", "sub", ""} {
		if e, err := f.Stat("other/target/" + name); err != nil || !e.Modified.Equal(then) {
			t.Errorf("%q is of %v, %v, want %v", name, e.Modified, err, then)
		}
	}
	if e, err := f.Stat("other/target/sub/deeper"); err != nil || e.Mode.Perm() != 0o500 {
		t.Errorf("directory: %v, %v", e.Mode, err)
	}
	if target, err := os.Readlink(moved + "/link"); target != "sub" || err != nil {
		t.Errorf("link to %q, %v", target, err)
	}
	must(t, os.Chmod(moved+"/sub/deeper", 0o700))
	content, err := os.ReadFile(moved + "/file")
	if err != nil || !strings.HasPrefix(string(content), "content\x00") || len(content) != 8<<20 {
		t.Errorf("content of %d bytes, %v", len(content), err)
	}
}

// TestMoveOverlay moves directories of the lower layer of an overlay, as in container images.
// The system cannot rename them.
func TestMoveOverlay(t *testing.T) {
	t.Parallel()
	if !inNamespace(t) {
		return
	}
	disk := realTempDir(t)
	mount(t, "tmpfs", disk, "tmpfs", 0, "") // an overlay cannot lie on every file system
	lower, upper, work, dir := disk+"/lower", disk+"/upper", disk+"/work", disk+"/merged"
	for _, name := range []string{lower, upper, work, dir} {
		must(t, os.Mkdir(name, 0o777))
	}
	put(t, lower+"/tree/a/b", "lower")
	put(t, lower+"/taken/c", "taken")
	put(t, lower+"/file", "file")
	mount(t, "overlay", dir, "overlay", 0, "redirect_dir=off,lowerdir="+lower+",upperdir="+upper+",workdir="+work)
	if err := os.Rename(dir+"/tree", dir+"/renamed"); !errors.Is(err, unix.EXDEV) {
		t.Skipf("this overlay renames: %v", err)
	}
	f := open(t, filesystem.Config{Roots: []filesystem.Root{{Path: dir}}})
	must(t, f.Move(t.Context(), "tree", "moved", filesystem.MoveOptions{}))
	wantContent(t, dir+"/moved/a/b", "lower")
	wantMissing(t, dir+"/tree")
	must(t, f.Move(t.Context(), "moved", "taken", filesystem.MoveOptions{Overwrite: true}))
	wantContent(t, dir+"/taken/a/b", "lower")
	wantMissing(t, dir+"/taken/c")
	write(t, f, "file", "written", filesystem.WriteOptions{})
	write(t, f, "file", "!", filesystem.WriteOptions{Append: true})
	wantContent(t, dir+"/file", "written!")
	must(t, f.Remove(t.Context(), "taken", true))
	if diff := cmp.Diff([]string{"file"}, names(t, dir)); diff != "" {
		t.Errorf("left behind (-want +got):\n%s", diff)
	}
	wantContent(t, filepath.Join(lower, "file"), "file")
}

// A write whose process is killed leaves no file.
func TestKilled(t *testing.T) {
	t.Parallel()
	if dir := os.Getenv("FILESYSTEM_TEST_DIR"); isChild() {
		f := open(t, filesystem.Config{Home: dir})
		_, err := f.Write(t.Context(), "file", io.MultiReader(io.LimitReader(zeros{}, 2<<20), readerFunc(func([]byte) (int, error) {
			return 0, unix.Kill(os.Getpid(), unix.SIGKILL)
		})), filesystem.WriteOptions{})
		t.Fatal(err)
	}
	dir := t.TempDir()
	probe, err := os.OpenFile(dir, unix.O_TMPFILE|os.O_WRONLY, 0o600)
	if err != nil {
		t.Skipf("files have a name here: %v", err)
	}
	probe.Close()
	put(t, dir+"/file", "old")
	cmd := exec.Command("/proc/self/exe", "-test.run=^TestKilled$")
	cmd.Env = append(os.Environ(), childVariable+"=1", "FILESYSTEM_TEST_DIR="+dir)
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil || cmd.ProcessState.Sys().(syscall.WaitStatus).Signal() != unix.SIGKILL {
		t.Fatalf("%v\n%s", err, out)
	}
	wantContent(t, dir+"/file", "old")
	if diff := cmp.Diff([]string{"file"}, names(t, dir)); diff != "" {
		t.Errorf("left behind (-want +got):\n%s", diff)
	}
}
