package filesystem_test

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"github.com/deskhand/deskhand/filesystem"
)

// chmod changes a mode until the test ends.
func chmod(t *testing.T, name string, mode fs.FileMode) {
	t.Helper()
	info, err := os.Stat(name)
	must(t, err)
	must(t, os.Chmod(name, mode))
	t.Cleanup(func() { _ = os.Chmod(name, info.Mode()) })
}

func TestWritePermissions(t *testing.T) {
	t.Parallel()
	if !unprivileged(t) {
		return
	}
	both(t, func(b bed) {
		t, f, dir := b.t, b.fs, b.dir
		put(t, dir+"/closed/open", "old")
		put(t, dir+"/closed/fixed", "old")
		put(t, dir+"/open/fixed", "old")
		chmod(t, dir+"/closed/open", 0o666)
		chmod(t, dir+"/closed/fixed", 0o444)
		chmod(t, dir+"/open/fixed", 0o444)
		chmod(t, dir+"/closed", 0o555)

		for _, options := range []filesystem.WriteOptions{{}, {Append: true}} {
			_, err := f.Write(t.Context(), "closed/open", io.MultiReader(strings.NewReader("x"), iotest.ErrReader(iotest.ErrTimeout)), options)
			wantError(t, err, iotest.ErrTimeout)
			// A write that cannot succeed does not read the content.
			untouched := strings.NewReader("x")
			for _, name := range []string{"closed/fixed", "closed/new", "closed/new/x"} {
				_, err = f.Write(t.Context(), name, untouched, options)
				wantError(t, err, fs.ErrPermission, "permission denied: "+dir+"/closed")
			}
			if untouched.Len() != 1 {
				t.Errorf("%+v: the content was read", options)
			}
		}
		wantContent(t, dir+"/closed/open", "old")
		write(t, f, "closed/open", "new", filesystem.WriteOptions{})
		write(t, f, "closed/open", "er", filesystem.WriteOptions{Append: true})
		write(t, f, "closed/open", strings.Repeat("x", 2<<20), filesystem.WriteOptions{Append: true})
		wantContent(t, dir+"/closed/open", "newer"+strings.Repeat("x", 2<<20))
		// Replacing a file needs no permission of the file, as with rename(2).
		write(t, f, "open/fixed", "new", filesystem.WriteOptions{})
		if e, err := f.Stat("open/fixed"); err != nil || e.Mode != 0o444 {
			t.Errorf("mode %v, %v", e.Mode, err)
		}
		if diff := cmp.Diff([]string{"fixed", "open"}, names(t, dir+"/closed")); diff != "" {
			t.Errorf("left behind (-want +got):\n%s", diff)
		}
	})
}

// A path may lead through a directory that is searchable but not readable.
func TestSearchOnly(t *testing.T) {
	t.Parallel()
	if !unprivileged(t) {
		return
	}
	dir := realTempDir(t)
	f := open(t, filesystem.Config{Home: dir})
	put(t, dir+"/blind/file", "old")
	chmod(t, dir+"/blind", 0o300)
	write(t, f, "blind/file", "new", filesystem.WriteOptions{})
	write(t, f, "blind/other", "new", filesystem.WriteOptions{})
	must(t, f.Move(t.Context(), "blind/other", "blind/third", filesystem.MoveOptions{}))
	must(t, f.Remove(t.Context(), "blind/third", false))
	file, err := f.OpenFile("blind/file")
	must(t, err)
	must(t, file.Close())
}

func TestMovePermissions(t *testing.T) {
	t.Parallel()
	if !unprivileged(t) {
		return
	}
	both(t, func(b bed) {
		t, f, dir := b.t, b.fs, b.dir
		put(t, dir+"/closed/tree/x", "x")
		put(t, dir+"/tree/y", "y")
		put(t, dir+"/file", "content")
		chmod(t, dir+"/closed", 0o555)
		before := snapshot(t, dir)
		for _, move := range [][2]string{{"closed/tree", "moved"}, {"tree", "closed/tree"}, {"closed/tree", "tree"}, {"file", "closed/x"}} {
			err := f.Move(t.Context(), move[0], move[1], filesystem.MoveOptions{Overwrite: true})
			wantError(t, err, fs.ErrPermission, "permission denied")
		}
		if diff := cmp.Diff(before, snapshot(t, dir)); diff != "" {
			t.Errorf("a move failed (-before +after):\n%s", diff)
		}
	})
}

// If only the removal of the replaced entry fails, the move is complete, and the error names
// the rest.
func TestMoveLeavesRest(t *testing.T) {
	t.Parallel()
	if !unprivileged(t) {
		return
	}
	both(t, func(b bed) {
		t, f, dir := b.t, b.fs, b.dir
		put(t, dir+"/old/closed/x", "x")
		chmodLater := func(name string) { t.Cleanup(func() { _ = os.Chmod(name, 0o700) }) }
		must(t, os.Chmod(dir+"/old/closed", 0o500))
		put(t, dir+"/new/y", "y")
		err := f.Move(t.Context(), "new", "old", filesystem.MoveOptions{Overwrite: true})
		wantError(t, err, fs.ErrPermission, "moved, but", "closed/x", "remove that")
		e := (*filesystem.Error)(nil)
		if !errors.As(err, &e) {
			t.Fatal(err)
		}
		chmodLater(strings.TrimSuffix(e.Path, "/x"))
		wantContent(t, e.Path, "x")
		wantContent(t, dir+"/old/y", "y")
		wantMissing(t, dir+"/new")
	})
}

func TestRemovePermissions(t *testing.T) {
	t.Parallel()
	if !unprivileged(t) {
		return
	}
	both(t, func(b bed) {
		t, f, dir := b.t, b.fs, b.dir
		put(t, dir+"/tree/closed/x", "x")
		must(t, os.MkdirAll(dir+"/tree2/blind", 0o777))
		chmod(t, dir+"/tree/closed", 0o500)
		chmod(t, dir+"/tree", 0o500)
		wantError(t, f.Remove(t.Context(), "tree", true), fs.ErrPermission, "permission denied: "+dir+"/tree/closed")
		wantError(t, f.Remove(t.Context(), "tree/closed/x", true), fs.ErrPermission, dir+"/tree/closed/x")
		wantContent(t, dir+"/tree/closed/x", "x")
		must(t, os.Chmod(dir+"/tree2/blind", 0)) // empty, but not readable
		must(t, f.Remove(t.Context(), "tree2", true))
	})
}

// If the source cannot be removed, it stays, and so does the old destination.
func TestMoveAcrossPermissions(t *testing.T) {
	t.Parallel()
	if !unprivileged(t) {
		return
	}
	dir := realTempDir(t)
	other, err := os.MkdirTemp("/dev/shm", "deskhand-test-") //nolint:usetesting // another file system is needed
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(other) })
	put(t, dir+"/closed/tree/x", "x")
	put(t, other+"/tree/y", "y")
	if err := os.Rename(dir+"/closed", other+"/closed"); err == nil {
		t.Skip("/dev/shm is the same file system")
	}
	f := open(t, filesystem.Config{Home: dir})
	chmod(t, dir+"/closed", 0o555)
	before, beforeOther := snapshot(t, dir), snapshot(t, other)
	for _, to := range []string{other + "/tree", other + "/new"} {
		err := f.Move(t.Context(), "closed/tree", to, filesystem.MoveOptions{Overwrite: true})
		wantError(t, err, fs.ErrPermission, "permission denied: "+dir+"/closed/tree")
	}
	chmod(t, dir+"/closed/tree/x", 0)
	before["/closed/tree/x"] = "----------"
	chmod(t, dir+"/closed", 0o755)
	err = f.Move(t.Context(), "closed/tree", other+"/tree", filesystem.MoveOptions{Overwrite: true})
	wantError(t, err, fs.ErrPermission, dir+"/closed/tree/x")
	must(t, os.Chmod(dir+"/closed/tree/x", 0o644))
	delete(before, "/closed/tree/x")
	after := snapshot(t, dir)
	delete(after, "/closed/tree/x")
	before["/closed"], after["/closed"] = "", ""
	if diff := cmp.Diff(before, after) + cmp.Diff(beforeOther, snapshot(t, other)); diff != "" {
		t.Errorf("a move failed (-before +after):\n%s", diff)
	}
	wantContent(t, dir+"/closed/tree/x", "x")
}
