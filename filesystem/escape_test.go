package filesystem_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/deskhand/deskhand/filesystem"
)

// besideRoot makes a root with a secret beside it, and opens the root.
func besideRoot(t *testing.T) (f *filesystem.FS, root, outside string) {
	t.Helper()
	top := realTempDir(t)
	root, outside = filepath.Join(top, "root"), filepath.Join(top, "outside")
	must(t, os.Mkdir(root, 0o777))
	put(t, filepath.Join(outside, "secret"), "not to be seen")
	put(t, filepath.Join(outside, "dir/file"), "not to be touched")
	return open(t, filesystem.Config{Roots: []filesystem.Root{{Name: "r", Path: root}}}), root, outside
}

// No method follows a symbolic link out of a root (S5, S6 for the paths of every method).
func TestLinksOutside(t *testing.T) {
	t.Parallel()
	f, root, outside := besideRoot(t)
	for name, target := range map[string]string{
		"absolute": outside, "climbing": "../outside", "file": "../outside/secret", "absfile": outside + "/secret",
		"dangling": "../outside/new", "hop": "climbing", "deep/up": "../../outside", "inside": root,
	} {
		must(t, os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o777))
		must(t, os.Symlink(target, filepath.Join(root, name)))
	}
	put(t, filepath.Join(root, "mine"), "mine")
	before := snapshot(t, outside)
	ctx := t.Context()
	calls := map[string]func(name string) error{
		"Stat":   func(name string) error { _, err := f.Stat(name); return err },
		"List":   func(name string) error { _, err := f.List(ctx, name, filesystem.ListOptions{}); return err },
		"Open":   func(name string) error { _, err := f.OpenFile(name); return err },
		"Mkdir":  func(name string) error { return f.Mkdir(name + "/sub") },
		"Remove": func(name string) error { return f.Remove(ctx, name+"/dir", true) },
		"Move from": func(name string) error {
			return f.Move(ctx, name+"/dir", "stolen", filesystem.MoveOptions{})
		},
		"Move to": func(name string) error {
			return f.Move(ctx, "mine", name+"/dir/file", filesystem.MoveOptions{Overwrite: true})
		},
		"Write": func(name string) error {
			_, err := f.Write(ctx, name, strings.NewReader("x"), filesystem.WriteOptions{})
			return err
		},
		"Write below": func(name string) error {
			_, err := f.Write(ctx, name+"/new/x", strings.NewReader("x"), filesystem.WriteOptions{})
			return err
		},
		"Append": func(name string) error {
			_, err := f.Write(ctx, name, strings.NewReader("x"), filesystem.WriteOptions{Append: true})
			return err
		},
	}
	for what, call := range calls {
		for _, name := range []string{
			"absolute", "climbing", "file", "absfile", "dangling", "hop", "deep/up", root + "/climbing",
		} {
			wantError(t, call(name), filesystem.ErrOutside, name)
			if t.Failed() {
				t.Fatalf("%s through %s", what, name)
			}
		}
	}
	// An absolute link is refused even when it leads into the root.
	_, err := f.Stat("inside/mine")
	wantError(t, err, filesystem.ErrOutside, "absolute")
	if diff := cmp.Diff(before, snapshot(t, outside)); diff != "" {
		t.Errorf("outside of the root (-before +after):\n%s", diff)
	}
	// The links themselves belong to the root.
	if e, err := f.Lstat("climbing"); err != nil || e.Target != "../outside" || !e.Link {
		t.Errorf("Lstat of a link: %+v, %v", e, err)
	}
	must(t, f.Move(ctx, "climbing", "moved", filesystem.MoveOptions{}))
	must(t, f.Remove(ctx, "moved", true))
	must(t, f.Remove(ctx, "dangling", false))
	wantContent(t, filepath.Join(outside, "dir/file"), "not to be touched")
}

// A file in the root that has another name outside of it is replaced, never changed.
func TestHardLinkOutside(t *testing.T) {
	t.Parallel()
	f, root, outside := besideRoot(t)
	secret := filepath.Join(outside, "secret")
	for _, options := range []filesystem.WriteOptions{{}, {Append: true}, {Append: true, NoSync: true}, {IfMatch: "*"}} {
		must(t, os.Link(secret, filepath.Join(root, "link")))
		n, err := f.Write(t.Context(), "link", strings.NewReader("more"), options)
		if err != nil || n != 4 {
			t.Fatalf("Write %+v = %d, %v", options, n, err)
		}
		want := "more"
		if options.Append {
			want = "not to be seenmore"
		}
		wantContent(t, filepath.Join(root, "link"), want)
		wantContent(t, secret, "not to be seen")
		must(t, f.Remove(t.Context(), "link", false))
	}
}

// TestRaces exchanges a directory of the root with a link that leads out of it continuously,
// while other goroutines call all methods below it.
func TestRaces(t *testing.T) {
	t.Parallel()
	f, root, outside := besideRoot(t)
	put(t, filepath.Join(root, "dir/file"), "inside")
	must(t, os.Symlink("../outside", filepath.Join(root, "trap")))
	before := snapshot(t, outside)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second+time.Duration(soak())*time.Second)
	defer cancel()
	var group sync.WaitGroup
	var exchanges atomic.Int64
	group.Go(func() {
		for ctx.Err() == nil {
			if err := unix.Renameat2(unix.AT_FDCWD, filepath.Join(root, "dir"), unix.AT_FDCWD, filepath.Join(root, "trap"),
				unix.RENAME_EXCHANGE); err != nil && !errors.Is(err, fs.ErrNotExist) {
				t.Error(err)
				return
			}
			exchanges.Add(1)
		}
	})
	done := make([]atomic.Int64, 8)
	calls := []func() error{
		func() error {
			_, err := f.Write(ctx, "dir/secret", strings.NewReader("x"), filesystem.WriteOptions{NoSync: true})
			return err
		},
		func() error {
			_, err := f.Write(ctx, "dir/secret", strings.NewReader("x"), filesystem.WriteOptions{NoSync: true, Append: true})
			return err
		},
		func() error {
			file, err := f.OpenFile("dir/secret")
			if err != nil {
				return err
			}
			defer file.Close()
			b := make([]byte, 100)
			if n, _ := file.Read(b); strings.Contains(string(b[:n]), "seen") {
				t.Error("the secret was read")
			}
			return nil
		},
		func() error {
			l, err := f.List(ctx, "", filesystem.ListOptions{Recursive: true})
			for _, e := range l.Entries {
				if e.Name == "only-outside" {
					t.Error("the directory outside was listed")
				}
			}
			return err
		},
		func() error { _, err := f.Stat("dir/only-outside"); return unlessFound(t, err) },
		func() error { return f.Remove(ctx, "dir/secret", true) },
		func() error { return f.Mkdir("dir/made/below") },
		func() error {
			return f.Move(ctx, "dir/secret", "dir/dir/file", filesystem.MoveOptions{Overwrite: true})
		},
	}
	put(t, filepath.Join(outside, "only-outside"), "")
	for i, call := range calls {
		group.Go(func() {
			for ctx.Err() == nil && !t.Failed() {
				if call() == nil {
					done[i].Add(1)
				}
			}
		})
	}
	// The test runs for a while, and until there were enough calls of each kind.
	least := time.After(time.Duration(soak()) * 400 * time.Millisecond)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for enough := false; !enough && ctx.Err() == nil && !t.Failed(); {
		select {
		case <-least:
			least = nil
		case <-tick.C:
		}
		enough = least == nil && exchanges.Load() > 100 && done[0].Load() > 10 && done[2].Load() > 10
	}
	timedOut := ctx.Err() != nil
	cancel()
	group.Wait()
	must(t, os.Remove(filepath.Join(outside, "only-outside")))
	if diff := cmp.Diff(before, snapshot(t, outside)); diff != "" {
		t.Errorf("outside of the root (-before +after):\n%s", diff)
	}
	if timedOut {
		t.Errorf("%d exchanges, %d writes and %d reads are too few", exchanges.Load(), done[0].Load(), done[2].Load())
	}
}

// TestExchangedLinks exchanges a link and a file continuously. Every call finds one of them, or
// says that the link was replaced.
func TestExchangedLinks(t *testing.T) {
	t.Parallel()
	f, root, _ := besideRoot(t)
	put(t, filepath.Join(root, "file"), "inside")
	must(t, os.Symlink("dangling", filepath.Join(root, "link")))
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	var group sync.WaitGroup
	group.Go(func() {
		for ctx.Err() == nil {
			must(t, unix.Renameat2(unix.AT_FDCWD, filepath.Join(root, "file"), unix.AT_FDCWD, filepath.Join(root, "link"), unix.RENAME_EXCHANGE))
		}
	})
	for _, call := range []func() error{
		func() error { _, err := f.Stat("file"); return err },
		func() error {
			_, err := f.Write(ctx, "file", strings.NewReader("x"), filesystem.WriteOptions{NoSync: true, Append: true})
			return err
		},
	} {
		group.Go(func() {
			for ctx.Err() == nil {
				err := call()
				e := (*filesystem.Error)(nil)
				if errors.As(err, &e) && ctx.Err() == nil && !errors.Is(err, fs.ErrNotExist) && e.Kind == nil {
					t.Error(err)
					return
				}
			}
		})
	}
	group.Wait()
}

func unlessFound(t *testing.T, err error) error {
	t.Helper()
	if err == nil {
		t.Error("a file outside of the root was found")
	}
	return err
}

// A root stays the same directory when it is renamed.
func TestRootMoves(t *testing.T) {
	t.Parallel()
	f, root, outside := besideRoot(t)
	put(t, filepath.Join(root, "a"), "mine")
	must(t, os.Rename(root, root+"2"))
	must(t, os.Symlink(outside, root))
	_, err := f.Stat("secret")
	wantError(t, err, fs.ErrNotExist)
	_, err = f.Write(t.Context(), "a", strings.NewReader("new"), filesystem.WriteOptions{})
	must(t, err)
	wantContent(t, root+"2/a", "new")
}
