package filesystem_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/deskhand/deskhand/filesystem"
)

func paths(l filesystem.Listing, dir string) []string {
	list := make([]string, 0, len(l.Entries))
	for _, e := range l.Entries {
		list = append(list, strings.TrimPrefix(e.Path, dir+"/"))
	}
	return list
}

func TestListEntries(t *testing.T) {
	t.Parallel()
	both(t, func(b bed) {
		t, f, dir := b.t, b.fs, b.dir
		put(t, filepath.Join(dir, "b"), "12345")
		must(t, os.Chmod(filepath.Join(dir, "b"), 0o640))
		at := time.Date(2001, 2, 3, 4, 5, 6, 789, time.UTC)
		must(t, os.Chtimes(filepath.Join(dir, "b"), at, at))
		must(t, os.Mkdir(filepath.Join(dir, "a\n"), 0o755))
		must(t, os.Chmod(filepath.Join(dir, "a\n"), 0o750|fs.ModeSetgid|fs.ModeSticky))
		must(t, os.Symlink("a\n", filepath.Join(dir, "link")))
		must(t, os.Symlink("none", filepath.Join(dir, "dangling")))
		must(t, unix.Mkfifo(filepath.Join(dir, "fifo"), 0o600))
		put(t, filepath.Join(dir, "B\xff\xfe"), "")
		l, err := f.List(t.Context(), "", filesystem.ListOptions{})
		must(t, err)
		var got []string
		for _, e := range l.Entries {
			got = append(got, fmt.Sprintf("%q %s %v %v %q", e.Name, e.Type, e.Mode, e.Link, e.Target))
			if e.Path != dir+"/"+e.Name {
				t.Errorf("path of %q: %q", e.Name, e.Path)
			}
			if e.Name == "b" && (e.Size != 5 || !e.Modified.Equal(at)) {
				t.Errorf("file: %+v", e)
			}
			if e.Link || e.Name == "fifo" {
				continue
			}
			if s, err := f.Stat(e.Path); err != nil || s.ETag() != e.ETag() || s.Mode != e.Mode || s.UID != e.UID {
				t.Errorf("Stat of %q: %+v, %v; the listing has %+v", e.Path, s, err, e)
			}
		}
		want := []string{
			`"B\xff\xfe" file -rw-r--r-- false ""`, `"a\n" directory dgtrwxr-x--- false ""`, `"b" file -rw-r----- false ""`,
			`"dangling" file Lrwxrwxrwx true "none"`, `"fifo" file prw------- false ""`, `"link" file Lrwxrwxrwx true "a\n"`,
		}
		if diff := cmp.Diff(want, got); diff != "" || l.Next != "" {
			t.Errorf("(-want +got), next %q:\n%s", l.Next, diff)
		}
		_, err = f.List(t.Context(), "b", filesystem.ListOptions{})
		wantError(t, err, filesystem.ErrNotDirectory, "path is not a directory: "+dir+"/b")
		_, err = f.List(t.Context(), "fifo", filesystem.ListOptions{})
		wantError(t, err, filesystem.ErrNotDirectory, dir+"/fifo")
		_, err = f.List(t.Context(), "none", filesystem.ListOptions{})
		wantError(t, err, fs.ErrNotExist, "path not found: "+dir+"/none")
		if l, err := f.List(t.Context(), "link", filesystem.ListOptions{}); err != nil || len(l.Entries) != 0 {
			t.Errorf("List through a link: %v, %v", l, err)
		}
	})
}

// TestListPages reads listings in pages of every size. Together they have the entries of one
// page.
func TestListPages(t *testing.T) {
	t.Parallel()
	both(t, func(b bed) {
		t, f, dir := b.t, b.fs, b.dir
		// "a-b" sorts before "a/b" as text, after it in a tree.
		for _, name := range []string{"a/b/c", "a/b/d", "a-b", "a/x", "a.", "a0/q", "c/d/e/f/g", "z", "c/d/e/a", "b/1", "b/2", "b/10"} {
			put(t, filepath.Join(dir, name), name)
		}
		must(t, os.Mkdir(filepath.Join(dir, "m"), 0o777))
		must(t, os.Symlink("..", filepath.Join(dir, "c/d/loop")))
		flat := []string{"a", "a-b", "a.", "a0", "b", "c", "m", "z"}
		deep := []string{
			"a", "a/b", "a/b/c", "a/b/d", "a/x", "a-b", "a.", "a0", "a0/q", "b", "b/1", "b/10", "b/2",
			"c", "c/d", "c/d/e", "c/d/e/a", "c/d/e/f", "c/d/e/f/g", "c/d/loop", "m", "z",
		}
		two := slices.DeleteFunc(slices.Clone(deep), func(s string) bool { return strings.Count(s, "/") > 1 })
		for _, test := range []struct {
			options filesystem.ListOptions
			want    []string
		}{
			{filesystem.ListOptions{}, flat},
			{filesystem.ListOptions{Recursive: true}, deep},
			{filesystem.ListOptions{Recursive: true, Depth: 1}, flat},
			{filesystem.ListOptions{Recursive: true, Depth: 2}, two},
		} {
			for limit := range len(test.want) + 2 {
				options := test.options
				options.Limit = limit
				var got []string
				for {
					l, err := f.List(t.Context(), "", options)
					must(t, err)
					if limit > 0 && len(l.Entries) > limit || l.Next != "" && len(l.Entries) != limit {
						t.Fatalf("%+v: a page of %d, then %q", options, len(l.Entries), l.Next)
					}
					got = append(got, paths(l, dir)...)
					if options.After = l.Next; l.Next == "" {
						break
					}
				}
				if diff := cmp.Diff(test.want, got); diff != "" {
					t.Errorf("%+v (-want +got):\n%s", options, diff)
				}
			}
		}
		// A page begins after an entry that was removed, or that has become a file.
		must(t, os.RemoveAll(filepath.Join(dir, "a/b")))
		put(t, filepath.Join(dir, "a/b"), "a file now")
		must(t, os.RemoveAll(filepath.Join(dir, "c")))
		for after, want := range map[string]string{"a/b/c": "a/x", "c/d/e": "m", "z": "", "zz/y": "", "a0": "a0/q"} {
			l, err := f.List(t.Context(), "", filesystem.ListOptions{Recursive: true, After: after, Limit: 1})
			if err != nil || strings.Join(paths(l, dir), " ") != want {
				t.Errorf("after %q: %v, %v, want %q", after, paths(l, dir), err, want)
			}
		}
	})
}

// TestListChanging lists a directory while files in it are made and removed.
func TestListChanging(t *testing.T) {
	t.Parallel()
	both(t, func(b bed) {
		t, f, dir := b.t, b.fs, b.dir
		put(t, filepath.Join(dir, "stays"), "")
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		var group sync.WaitGroup
		group.Go(func() {
			for ctx.Err() == nil {
				name := filepath.Join(dir, "d"+strconv.Itoa(rand.IntN(50)))
				if os.Mkdir(name, 0o777) != nil {
					_ = os.RemoveAll(name)
					continue
				}
				_ = os.WriteFile(filepath.Join(name, "x"), nil, 0o666)
			}
		})
		for ctx.Err() == nil {
			l, err := f.List(context.Background(), "", filesystem.ListOptions{Recursive: true})
			if err != nil || !slices.Contains(paths(l, dir), "stays") {
				t.Errorf("%v, %v", paths(l, dir), err)
				break
			}
		}
		group.Wait()
	})
}

// TestListLarge pages through a large directory with little memory.
// It is not parallel, because other tests use memory, too.
func TestListLarge(t *testing.T) {
	dir := memory(t)
	f := open(t, filesystem.Config{Home: dir})
	count := 20_000 * soak()
	for i := range count {
		must(t, os.Symlink("x", filepath.Join(dir, fmt.Sprintf("%07d", i*7919%count)))) // no inode of its own
	}
	for _, recursive := range []bool{false, true} {
		seen := 0
		options := filesystem.ListOptions{Limit: count/3 + 1, Recursive: recursive}
		for {
			l, err := f.List(t.Context(), "", options)
			must(t, err)
			for _, e := range l.Entries {
				if e.Name != fmt.Sprintf("%07d", seen) {
					t.Fatalf("entry %d is %s", seen, e.Name)
				}
				seen++
			}
			if options.After = l.Next; l.Next == "" {
				break
			}
		}
		if seen != count {
			t.Errorf("%d entries, want %d", seen, count)
		}
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	l, err := f.List(t.Context(), "", filesystem.ListOptions{Limit: 10, After: "0000004"})
	runtime.ReadMemStats(&after)
	if err != nil || l.Next != "0000014" {
		t.Errorf("next %q, %v", l.Next, err)
	}
	// Reading the names takes more memory, which is collected.
	if grown := int64(after.HeapInuse) - int64(before.HeapInuse); grown > 8<<20 {
		t.Errorf("a page of 10 entries needs %d bytes", grown)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = f.List(ctx, "", filesystem.ListOptions{})
	wantError(t, err, context.Canceled, dir)
}

// The options of a call cannot exceed the limits of the Config.
func TestListBounds(t *testing.T) {
	t.Parallel()
	dir := realTempDir(t)
	f := open(t, filesystem.Config{Home: dir, MaxEntries: 3, MaxDepth: 2})
	for _, name := range []string{"a/b/c/d", "e/f/g/h"} {
		put(t, filepath.Join(dir, name), "")
	}
	l, err := f.List(t.Context(), "", filesystem.ListOptions{Recursive: true, Limit: 1000, Depth: 1000})
	must(t, err)
	if diff := cmp.Diff([]string{"a", "a/b", "e"}, paths(l, dir)); diff != "" || l.Next != "e" {
		t.Errorf("next %q (-want +got):\n%s", l.Next, diff)
	}
}

func TestListUnreadable(t *testing.T) {
	t.Parallel()
	if !unprivileged(t) {
		return
	}
	both(t, func(b bed) {
		t, f, dir := b.t, b.fs, b.dir
		put(t, filepath.Join(dir, "no/x"), "")
		put(t, filepath.Join(dir, "names/x"), "")
		must(t, os.Chmod(filepath.Join(dir, "no"), 0))
		must(t, os.Chmod(filepath.Join(dir, "names"), 0o600))
		t.Cleanup(func() {
			_ = os.Chmod(filepath.Join(dir, "no"), 0o700)
			_ = os.Chmod(filepath.Join(dir, "names"), 0o700)
		})
		_, err := f.List(t.Context(), "no", filesystem.ListOptions{})
		wantError(t, err, fs.ErrPermission, "permission denied: "+dir+"/no")
		_, err = f.Stat("no/x")
		wantError(t, err, fs.ErrPermission, dir+"/no/x")
		l, err := f.List(t.Context(), "", filesystem.ListOptions{Recursive: true})
		must(t, err)
		if diff := cmp.Diff([]string{"names", "names/x", "no"}, paths(l, dir)); diff != "" || l.Skipped != 1 {
			t.Errorf("skipped %d (-want +got):\n%s", l.Skipped, diff)
		}
		if e := l.Entries[1]; e.Mode != fs.ModeIrregular || e.Type != filesystem.TypeFile {
			t.Errorf("entry without a description: %+v", e)
		}
	})
}

func TestStat(t *testing.T) {
	t.Parallel()
	both(t, func(b bed) {
		t, f, dir := b.t, b.fs, b.dir
		put(t, filepath.Join(dir, "file"), "123")
		must(t, os.Symlink("file", filepath.Join(dir, "link")))
		must(t, os.Symlink("loop", filepath.Join(dir, "loop")))
		must(t, os.Symlink("gone", filepath.Join(dir, "dangling")))
		must(t, unix.Mkfifo(filepath.Join(dir, "fifo"), 0o600))
		e, err := f.Stat("link")
		if err != nil || e.Name != "link" || e.Path != dir+"/link" || e.Size != 3 || !e.Link || e.Target != "file" || !e.Mode.IsRegular() {
			t.Errorf("Stat of a link: %+v, %v", e, err)
		}
		e, err = f.Stat("fifo")
		if err != nil || e.Type != filesystem.TypeFile || e.Mode.Type() != fs.ModeNamedPipe {
			t.Errorf("Stat of a FIFO: %+v, %v", e, err)
		}
		e, err = f.Stat("~")
		if err != nil || e.Type != filesystem.TypeDirectory || e.Name != filepath.Base(dir) || e.Path != dir {
			t.Errorf("Stat of the home directory: %+v, %v", e, err)
		}
		e, err = f.Lstat("dangling")
		if err != nil || e.Target != "gone" || !e.Link {
			t.Errorf("Lstat of a dangling link: %+v, %v", e, err)
		}
		_, err = f.Stat("dangling")
		wantError(t, err, fs.ErrNotExist, "path not found: "+dir+"/dangling")
		_, err = f.Stat("loop")
		wantError(t, err, filesystem.ErrInvalidPath, "too many symbolic links")
		_, err = f.Stat("file/x")
		wantError(t, err, filesystem.ErrNotDirectory, dir+"/file/x")
		_, err = f.Stat(strings.Repeat("n", 256))
		wantError(t, err, filesystem.ErrInvalidPath, "255 bytes")
		_, err = f.Stat("")
		wantError(t, err, filesystem.ErrInvalidPath, "empty")
		_, err = f.Stat("a/../file")
		wantError(t, err, filesystem.ErrInvalidPath, "invalid relative path: a/../file")
	})
}

// TestRootWithoutLinks refuses roots whose path has a symbolic link in any of its elements.
func TestRootWithoutLinks(t *testing.T) {
	t.Parallel()
	dir := realTempDir(t)
	put(t, filepath.Join(dir, "real", "top", "file"), "text")
	must(t, os.Symlink("real", filepath.Join(dir, "link")))
	must(t, os.Symlink("top", filepath.Join(dir, "real", "last")))
	open := func(path string) (*filesystem.FS, error) {
		return filesystem.Open(filesystem.Config{Roots: []filesystem.Root{{Path: filepath.Join(dir, path), NoLinks: true}}})
	}
	for _, path := range []string{"link/top", "real/last"} {
		_, err := open(path)
		wantError(t, err, filesystem.ErrOutside, "symbolic link")
	}
	_, err := open("real/none")
	wantError(t, err, fs.ErrNotExist, "none")
	_, err = open("real/top/file")
	wantError(t, err, filesystem.ErrNotDirectory, "file")
	f, err := open("real/top")
	must(t, err)
	must(t, os.Rename(filepath.Join(dir, "real", "top"), filepath.Join(dir, "real", "moved")))
	must(t, os.Symlink("/", filepath.Join(dir, "real", "top")))
	if e, err := f.Stat(filepath.Join(dir, "real", "top", "file")); err != nil || e.Size != 4 {
		t.Errorf("after the directory was exchanged: %+v, %v", e, err)
	}
	_, err = f.Stat(filepath.Join(dir, "real", "top", "etc"))
	wantError(t, err, fs.ErrNotExist, "etc")
	must(t, f.Close())
}

func TestOpenAndClose(t *testing.T) {
	t.Parallel()
	dir := realTempDir(t)
	put(t, filepath.Join(dir, "file"), "")
	for _, roots := range [][]filesystem.Root{
		{{Path: filepath.Join(dir, "none")}},
		{{Path: filepath.Join(dir, "file")}},
		{{Path: dir}, {Path: dir}},
	} {
		_, err := filesystem.Open(filesystem.Config{Roots: roots})
		e := (*filesystem.Error)(nil)
		if !errors.As(err, &e) {
			t.Errorf("Open with %v: %v", roots, err)
		}
	}
	f, err := filesystem.Open(filesystem.Config{Roots: []filesystem.Root{{Path: dir}, {Name: "x", Path: dir}}, Home: dir})
	must(t, err)
	if diff := cmp.Diff([]filesystem.Root{{Name: filepath.Base(dir), Path: dir}, {Name: "x", Path: dir}}, f.Roots()); diff != "" {
		t.Errorf("Roots (-want +got):\n%s", diff)
	}
	_, err = f.In("y")
	wantError(t, err, filesystem.ErrUnknownRoot, "y")
	x, err := f.In("x")
	must(t, err)
	must(t, x.Mkdir("sub"))
	must(t, f.Close())
	must(t, f.Close())
	for what, err := range map[string]error{
		"Stat":   func() error { _, err := x.Stat("file"); return err }(),
		"List":   func() error { _, err := f.List(t.Context(), "", filesystem.ListOptions{}); return err }(),
		"Open":   func() error { _, err := f.OpenFile("file"); return err }(),
		"Mkdir":  f.Mkdir("a"),
		"Remove": f.Remove(t.Context(), "file", true),
		"Move":   f.Move(t.Context(), "file", "b", filesystem.MoveOptions{}),
		"Write": func() error {
			_, err := f.Write(t.Context(), "file", nil, filesystem.WriteOptions{})
			return err
		}(),
	} {
		if wantError(t, err, filesystem.ErrClosed); t.Failed() {
			t.Fatal(what)
		}
	}
}
