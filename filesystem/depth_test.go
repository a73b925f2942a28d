package filesystem_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/deskhand/deskhand/filesystem"
)

// deepDir makes directories in one another. It returns the path of the first, of the one so many
// levels below it, and of the one below that.
func deepDir(tb testing.TB, levels int) (dir, last, beyond string) {
	tb.Helper()
	dir = realTempDir(tb)
	last = filepath.Join(dir, strings.Repeat("d/", levels))
	beyond = filepath.Join(last, "d")
	must(tb, os.MkdirAll(beyond, 0o777))
	return dir, last, beyond
}

func TestSearchDepth(t *testing.T) {
	t.Parallel()
	f := openFS(t)
	dir, last, _ := deepDir(t, 128)
	for _, depth := range []int{0, 200, 4096} {
		matches := search(t, f, dir, filesystem.SearchOptions{MaxDepth: depth}).Matches
		if n := len(matches); n != 128 || matches[n-1].Entry.Path != last {
			t.Errorf("depth %d: %d directories were found", depth, n)
		}
	}
}

func TestArchiveDepth(t *testing.T) {
	t.Parallel()
	f := openFS(t)
	dir, last, _ := deepDir(t, 255)
	put(t, filepath.Join(last, "file"), "")
	put(t, filepath.Join(last, "..", "file"), "")
	var packed bytes.Buffer
	done, err := f.Archive(t.Context(), dir, &packed, filesystem.ArchiveOptions{})
	must(t, err)
	if done.Entries != 256 || done.Skipped != 2 {
		t.Errorf("%+v", done)
	}
	r := tar.NewReader(bytes.NewReader(packed.Bytes()))
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		must(t, err)
		if n := strings.Count(strings.TrimSuffix(h.Name, "/"), "/") + 1; n > 255 {
			t.Errorf("an entry has %d levels", n)
		}
	}
	_, err = f.Extract(t.Context(), realTempDir(t), &packed, filesystem.ExtractOptions{NoSync: true})
	must(t, err)
}

func TestMoveDepth(t *testing.T) {
	t.Parallel()
	if !inNamespace(t) {
		return
	}
	f := openFS(t)
	dir, _, beyond := deepDir(t, 256)
	other := realTempDir(t)
	mount(t, "tmpfs", other, "tmpfs", 0, "")
	err := f.Move(t.Context(), filepath.Join(dir, "d"), filepath.Join(other, "d"), filesystem.MoveOptions{})
	wantError(t, err, filesystem.ErrTooLarge, "more than 255 levels of directories")
	if left := names(t, other); len(left) != 0 {
		t.Errorf("left %q", left)
	}
	must(t, os.Remove(beyond))
	must(t, f.Move(t.Context(), filepath.Join(dir, "d"), filepath.Join(other, "d"), filesystem.MoveOptions{}))
}

func TestWatchDepth(t *testing.T) {
	t.Parallel()
	f := openFS(t)
	dir, last, beyond := deepDir(t, 255)
	long := strings.Repeat("/"+strings.Repeat("n", 250), 9) // two of them are longer than a path may be
	other := realTempDir(t)
	must(t, errors.Join(os.MkdirAll(dir+long, 0o777), os.MkdirAll(other+long, 0o777)))
	must(t, os.Rename(other+long[:251], dir+long+"/n"))
	r := watch(t, f, dir, dir, filesystem.WatchOptions{Recursive: true})
	put(t, filepath.Join(beyond, "file"), "") // has no event
	must(t, os.RemoveAll(beyond))
	name := strings.TrimPrefix(last, dir+"/")
	r.want("removed " + name + "/d")
	must(t, os.Mkdir(beyond, 0o777))
	put(t, filepath.Join(beyond, "file"), "")
	put(t, filepath.Join(last, "file"), "")
	r.want("created "+name+"/d/", "created "+name+"/file")
}

// TestWatchBytes watches directories whose paths have more than 8 MiB together, and some that
// have not. It removes and makes those again, which gives the bytes of removed ones back.
func TestWatchBytes(t *testing.T) {
	t.Parallel()
	f := openFS(t)
	dir := realTempDir(t)
	below := strings.Repeat(strings.Repeat("d", 250)+"/", 14)
	many := func(n int) {
		for i := range n {
			must(t, os.MkdirAll(filepath.Join(dir, below, fmt.Sprint(i)), 0o777))
		}
	}
	many(2600)
	recursive := filesystem.WatchOptions{Recursive: true, Queue: 10_000}
	_, err := f.Watch(dir, recursive)
	wantError(t, err, filesystem.ErrTooLarge, "more than 8 MiB of paths")
	top := filepath.Join(dir, strings.Repeat("d", 250))
	must(t, os.RemoveAll(top))
	many(1500)
	r := watch(t, f, dir, dir, recursive)
	must(t, os.Rename(top, filepath.Join(realTempDir(t), "away")))
	r.until("renamed " + filepath.Base(top) + "/")
	many(1500)
	put(t, filepath.Join(dir, "end"), "")
	for _, e := range r.until("created end") {
		if strings.HasPrefix(e, "overflow") {
			t.Fatalf("%.20s ... %s", e, e[max(0, len(e)-60):])
		}
	}
}
