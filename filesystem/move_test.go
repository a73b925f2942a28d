package filesystem_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/deskhand/deskhand/filesystem"
)

// shapes are the kinds of entries at the source and the destination of a move.
var shapes = []string{"file", "empty", "tree", "link", "dangling", "dirlink", "fifo"}

// shape makes an entry of a kind.
func shape(tb testing.TB, kind, name string) {
	tb.Helper()
	must(tb, os.MkdirAll(filepath.Dir(name), 0o777))
	switch kind {
	case "file":
		put(tb, name, "content of "+filepath.Base(name))
	case "empty":
		must(tb, os.Mkdir(name, 0o777))
	case "tree":
		put(tb, name+"/a/b", "b of "+filepath.Base(name))
		put(tb, name+"/c", "c of "+filepath.Base(name))
		must(tb, os.Symlink("a/b", name+"/l"))
	case "link":
		must(tb, os.Symlink("pointed-at", name))
	case "dangling":
		must(tb, os.Symlink("nothing", name))
	case "dirlink":
		must(tb, os.Symlink("pointed-at-dir", name))
	case "fifo":
		must(tb, unix.Mkfifo(name, 0o640))
	}
}

// testMoves moves each kind of entry onto each kind of destination. The two directories may be
// on different file systems.
func testMoves(t *testing.T, f *filesystem.FS, one, two string) {
	t.Helper()
	put(t, one+"/pointed-at", "untouched")
	put(t, two+"/pointed-at", "untouched")
	put(t, one+"/pointed-at-dir/x", "untouched")
	put(t, two+"/pointed-at-dir/x", "untouched")
	expected := t.TempDir()
	for _, from := range shapes {
		for _, to := range append(shapes, "") {
			for _, overwrite := range []bool{false, true} {
				what := fmt.Sprintf("%s to %q, overwrite %v", from, to, overwrite)
				shape(t, from, one+"/from")
				shape(t, to, two+"/to")
				before := snapshot(t, one)
				must(t, os.RemoveAll(expected+"/from"))
				shape(t, from, expected+"/from")
				err := f.Move(t.Context(), one+"/from", two+"/to", filesystem.MoveOptions{Overwrite: overwrite})
				if to != "" && !overwrite {
					wantError(t, err, fs.ErrExist, "destination already exists: "+two+"/to")
					if diff := cmp.Diff(before, snapshot(t, one)); diff != "" {
						t.Errorf("%s (-before +after):\n%s", what, diff)
					}
				} else {
					if err != nil {
						t.Errorf("%s: %v", what, err)
					}
					wantMissing(t, one+"/from")
					if diff := cmp.Diff(snapshot(t, expected+"/from"), snapshot(t, two+"/to")); diff != "" {
						t.Errorf("%s (-want +got):\n%s", what, diff)
					}
				}
				must(t, os.RemoveAll(one+"/from"))
				must(t, os.RemoveAll(two+"/to"))
			}
		}
	}
	for _, dir := range []string{one, two} {
		wantContent(t, dir+"/pointed-at", "untouched")
		wantContent(t, dir+"/pointed-at-dir/x", "untouched")
		if diff := cmp.Diff([]string{"pointed-at", "pointed-at-dir"}, names(t, dir)); diff != "" {
			t.Errorf("left behind (-want +got):\n%s", diff)
		}
	}
}

func TestMove(t *testing.T) {
	t.Parallel()
	both(t, func(b bed) {
		t, f, dir := b.t, b.fs, b.dir
		testMoves(t, f, dir+"/one", dir+"/two")
		put(t, dir+"/x", "x")
		must(t, f.Move(t.Context(), "x", "new/deep/y", filesystem.MoveOptions{}))
		wantContent(t, dir+"/new/deep/y", "x")
	})
}

// A move that cannot succeed changes nothing (B9).
func TestMoveDestroysNothing(t *testing.T) {
	t.Parallel()
	both(t, func(b bed) {
		t, f, dir := b.t, b.fs, b.dir
		put(t, dir+"/tree/a/b/file", "file")
		put(t, dir+"/file", "content")
		put(t, dir+"/other/file", "other")
		must(t, os.Symlink("tree", dir+"/alias"))
		before := snapshot(t, dir)
		overwrite := filesystem.MoveOptions{Overwrite: true}
		for _, test := range []struct {
			from, to string
			kind     error
		}{
			{"missing", "tree", fs.ErrNotExist},
			{"missing", "file", fs.ErrNotExist},
			{"missing", "missing", fs.ErrNotExist},
			{"missing", "new/dir/x", fs.ErrNotExist},
			{"missing/x", "file", fs.ErrNotExist},
			{"file/x", "tree", filesystem.ErrNotDirectory},
			{"file", "file/x", filesystem.ErrNotDirectory},
			{"tree", "tree/a/b", filesystem.ErrIntoItself},
			{"tree", "tree/new/x", filesystem.ErrIntoItself},
			{"tree", "alias/new/x", filesystem.ErrIntoItself},
			{"tree", "alias/a", filesystem.ErrIntoItself},
			{"tree/a/b", "tree", filesystem.ErrIntoItself},
			{"tree/a/b/file", "tree/a", filesystem.ErrIntoItself},
			{"alias/a/b/file", "tree", filesystem.ErrIntoItself},
			{"file", strings.Repeat("n", 256), filesystem.ErrInvalidPath},
			{"file", "../x", filesystem.ErrInvalidPath},
			{"file", "", filesystem.ErrInvalidPath},
			{"", "file", filesystem.ErrInvalidPath},
		} {
			err := f.Move(t.Context(), test.from, test.to, overwrite)
			wantError(t, err, test.kind)
			if diff := cmp.Diff(before, snapshot(t, dir)); diff != "" {
				t.Fatalf("%s to %s (-before +after):\n%s", test.from, test.to, diff)
			}
		}
		wantError(t, f.Move(t.Context(), "missing", "tree", overwrite), fs.ErrNotExist, "path not found: "+dir+"/missing")
		for _, same := range [][2]string{
			{"file", "file"}, {"tree", "tree"}, {"alias", "alias"}, {"tree/a", "alias/a"}, {"alias/a/b", "tree/a/b"},
		} {
			for _, options := range []filesystem.MoveOptions{{}, overwrite} {
				if err := f.Move(t.Context(), same[0], same[1], options); err != nil {
					t.Errorf("%s onto itself: %v", same, err)
				}
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		wantError(t, f.Move(ctx, "file", "tree", overwrite), context.Canceled)
		if diff := cmp.Diff(before, snapshot(t, dir)); diff != "" {
			t.Errorf("(-before +after):\n%s", diff)
		}
	})
}

// A move of one name of a file onto another name of it leaves one name.
func TestMoveNames(t *testing.T) {
	t.Parallel()
	both(t, func(b bed) {
		t, f, dir := b.t, b.fs, b.dir
		put(t, dir+"/a", "x")
		must(t, os.Link(dir+"/a", dir+"/b"))
		wantError(t, f.Move(t.Context(), "a", "b", filesystem.MoveOptions{}), fs.ErrExist)
		must(t, f.Move(t.Context(), "a", "b", filesystem.MoveOptions{Overwrite: true}))
		wantContent(t, dir+"/b", "x")
		wantMissing(t, dir+"/a")
	})
}

// Of many concurrent moves to the same new name, one succeeds.
func TestMoveRace(t *testing.T) {
	t.Parallel()
	both(t, func(b bed) {
		t, f, dir := b.t, b.fs, b.dir
		for round := range 20 {
			var group sync.WaitGroup
			var moved atomic.Int32
			for i := range 6 {
				from := fmt.Sprintf("%s/%d-%d", dir, round, i)
				shape(t, []string{"file", "empty"}[i%2], from)
				group.Go(func() {
					switch err := f.Move(t.Context(), from, fmt.Sprintf("to/%d", round), filesystem.MoveOptions{}); {
					case err == nil:
						moved.Add(1)
						wantMissing(t, from)
					case !errors.Is(err, fs.ErrExist):
						t.Error(err)
					}
				})
			}
			group.Wait()
			if moved.Load() != 1 {
				t.Errorf("%d moves succeeded", moved.Load())
			}
		}
		if left := names(t, dir); len(left) != 20*5+1 {
			t.Errorf("%d entries are left, want %d", len(left), 20*5+1)
		}
	})
}

// Roots cannot be moved. Files can be moved between roots.
func TestMoveRoots(t *testing.T) {
	t.Parallel()
	dir := realTempDir(t)
	put(t, dir+"/a/inner/file", "file")
	put(t, dir+"/b/x", "x")
	f := open(t, filesystem.Config{Roots: []filesystem.Root{
		{Name: "a", Path: dir + "/a"}, {Name: "inner", Path: dir + "/a/inner"}, {Name: "b", Path: dir + "/b"},
	}})
	must(t, os.Symlink("inner", dir+"/a/alias"))
	overwrite := filesystem.MoveOptions{Overwrite: true}
	for _, name := range []string{dir + "/a", dir + "/b", dir + "/a/inner", "~"} {
		wantError(t, f.Move(t.Context(), name, "elsewhere", filesystem.MoveOptions{}), filesystem.ErrRoot, "root")
		wantError(t, f.Move(t.Context(), dir+"/b/x", name, overwrite), filesystem.ErrRoot, "root")
		wantError(t, f.Remove(t.Context(), name, true), filesystem.ErrRoot, "root")
		_, err := f.Write(t.Context(), name, strings.NewReader("x"), filesystem.WriteOptions{})
		wantError(t, err, filesystem.ErrNotFile, "directory")
	}
	whole := open(t, filesystem.Config{})
	for _, name := range []string{"/", "//", "/usr/.."} {
		wantError(t, whole.Remove(t.Context(), name, true), filesystem.ErrRoot, "/")
		wantError(t, whole.Move(t.Context(), name, dir+"/x", filesystem.MoveOptions{}), filesystem.ErrRoot, "/")
		wantError(t, whole.Move(t.Context(), dir+"/b/x", name, overwrite), filesystem.ErrRoot, "/")
		must(t, whole.Mkdir(name))
	}
	must(t, f.Move(t.Context(), dir+"/b/x", "inner/x", filesystem.MoveOptions{}))
	must(t, f.Move(t.Context(), dir+"/a/inner/x", dir+"/b/y", filesystem.MoveOptions{}))
	wantContent(t, dir+"/b/y", "x")
	wantContent(t, dir+"/a/inner/file", "file")
}

func TestMkdir(t *testing.T) {
	t.Parallel()
	both(t, func(b bed) {
		t, f, dir := b.t, b.fs, b.dir
		for _, name := range []string{"a/b/c", "a/b/c", "a", ".", "~", "~/d", dir, dir + "/e/f"} {
			must(t, f.Mkdir(name))
		}
		put(t, dir+"/file", "")
		must(t, os.Symlink("a", dir+"/link"))
		must(t, os.Symlink("none", dir+"/dangling"))
		must(t, f.Mkdir("link"))
		must(t, f.Mkdir("link/new"))
		wantError(t, f.Mkdir("file"), filesystem.ErrNotDirectory, "path is not a directory: "+dir+"/file")
		wantError(t, f.Mkdir("file/x"), filesystem.ErrNotDirectory, dir+"/file")
		wantError(t, f.Mkdir("dangling"), fs.ErrExist, dir+"/dangling")
		wantError(t, f.Mkdir(""), filesystem.ErrInvalidPath)
		if diff := cmp.Diff([]string{"a", "d", "dangling", "e", "file", "link"}, names(t, dir)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

func TestRemove(t *testing.T) {
	t.Parallel()
	both(t, func(b bed) {
		t, f, dir := b.t, b.fs, b.dir
		ctx := t.Context()
		for _, kind := range shapes {
			for _, recursive := range []bool{false, true} {
				put(t, dir+"/pointed-at", "untouched")
				put(t, dir+"/pointed-at-dir/x", "untouched")
				shape(t, kind, dir+"/it")
				err := f.Remove(ctx, "it", recursive)
				if kind == "tree" && !recursive {
					wantError(t, err, filesystem.ErrNotEmpty, "directory not empty: "+dir+"/it", "recursive")
					must(t, f.Remove(ctx, "it", true))
				} else if err != nil {
					t.Errorf("%s, recursive %v: %v", kind, recursive, err)
				}
				wantMissing(t, dir+"/it")
			}
		}
		wantContent(t, dir+"/pointed-at", "untouched")
		wantContent(t, dir+"/pointed-at-dir/x", "untouched")
		wantError(t, f.Remove(ctx, "it", true), fs.ErrNotExist, "path not found: "+dir+"/it")
		wantError(t, f.Remove(ctx, "", true), filesystem.ErrInvalidPath)
		wantError(t, f.Remove(ctx, "pointed-at/x", true), filesystem.ErrNotDirectory)

		deep := dir + "/deep"
		put(t, deep+strings.Repeat("/d", 1000)+"/file", "")
		for i := range 3000 {
			put(t, fmt.Sprintf("%s/wide/%d", deep, i), "")
		}
		cancelled, cancel := context.WithCancel(ctx)
		cancel()
		wantError(t, f.Remove(cancelled, "deep", true), context.Canceled, "deep")
		must(t, f.Remove(ctx, "deep", true))
		wantMissing(t, deep)
	})
}

// TestRemoveDeep removes a tree with more levels than the process may have descriptors. It is not parallel, because it lowers that limit.
func TestRemoveDeep(t *testing.T) { //nolint:paralleltest // it lowers a limit of the process
	dir := t.TempDir()
	f := open(t, filesystem.Config{Home: dir})
	must(t, os.MkdirAll(dir+"/deep"+strings.Repeat("/d", 1500), 0o755))
	var before unix.Rlimit
	must(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &before))
	limit := before
	limit.Cur = 100
	must(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &limit))
	err := f.Remove(t.Context(), "deep", true)
	must(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &before))
	must(t, err)
	wantMissing(t, dir+"/deep")
}

// Concurrent calls of Remove for the same tree succeed.
func TestRemoveConcurrently(t *testing.T) {
	t.Parallel()
	both(t, func(b bed) {
		t, f, dir := b.t, b.fs, b.dir
		for i := range 400 {
			put(t, fmt.Sprintf("%s/tree/%d/%d/x", dir, i%7, i), "")
		}
		var group sync.WaitGroup
		for range 4 {
			group.Go(func() {
				if err := f.Remove(t.Context(), "tree", true); err != nil && !errors.Is(err, fs.ErrNotExist) {
					t.Error(err)
				}
			})
		}
		group.Wait()
		wantMissing(t, dir+"/tree")
	})
}
