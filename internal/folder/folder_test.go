package folder_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/deskhand/deskhand/internal/folder"
)

var local folder.Files

// write makes a file and the directories above it.
func write(t *testing.T, path, text string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
		t.Fatal(err)
	}
}

func link(t *testing.T, to, path string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.Symlink(to, path)); err != nil {
		t.Fatal(err)
	}
}

// all calls every method with a name, and returns the errors by method.
func all(t *testing.T, dir, name string) map[string]error {
	t.Helper()
	_, read := local.Read(dir, name, 100)
	_, list := local.List(dir, name, 3, 100)
	return map[string]error{
		"Read": read, "List": list,
		"Update":    local.Update(t.Context(), dir, name, 100, func([]byte) ([]byte, error) { return []byte("changed"), nil }),
		"WriteTree": local.WriteTree(t.Context(), dir, name, []folder.File{{Name: "planted", Mode: 0o644}}),
		"RemoveAll": local.RemoveAll(t.Context(), dir, name),
	}
}

// No method follows a link in a directory of a name.
func TestLinksInPath(t *testing.T) {
	t.Parallel()
	for name, to := range map[string]string{"outside": "", "inside": "real", "upwards": "..", "round": "link"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			top := t.TempDir()
			dir, away := filepath.Join(top, "dir"), filepath.Join(top, "away")
			for _, at := range []string{filepath.Join(away, "keep"), filepath.Join(dir, "real", "keep"), filepath.Join(top, "keep")} {
				write(t, filepath.Join(at, "file"), "kept")
			}
			if to == "" {
				to = away
			}
			link(t, to, filepath.Join(dir, "link"))
			for what, err := range all(t, dir, "link/keep") {
				if !errors.Is(err, folder.ErrLink) || !strings.Contains(err.Error(), filepath.Join(dir, "link")) {
					t.Errorf("%s = %v", what, err)
				}
			}
			for _, at := range []string{filepath.Join(away, "keep"), filepath.Join(dir, "real", "keep"), filepath.Join(top, "keep")} {
				entries, err := local.List(at, ".", 1, 10)
				if err != nil || len(entries) != 1 || entries[0].Name != "file" || entries[0].Size != 4 {
					t.Errorf("%s has %v, %v", at, entries, err)
				}
			}
		})
	}
}

// A link as the last component of a name may be replaced and removed.
func TestLinkAsLastComponent(t *testing.T) {
	t.Parallel()
	dir, away := t.TempDir(), t.TempDir()
	write(t, filepath.Join(away, "file"), "kept")
	at := filepath.Join(dir, "link")
	link(t, away, at)
	if _, err := local.List(dir, "link", 1, 10); !errors.Is(err, folder.ErrLink) {
		t.Errorf("List = %v", err)
	}
	if err := local.WriteTree(t.Context(), dir, "link", []folder.File{{Name: "a/b", Mode: 0o755, Content: []byte("x")}}); err != nil {
		t.Error(err)
	}
	if info, err := os.Lstat(filepath.Join(at, "a", "b")); err != nil || info.Mode() != 0o755 {
		t.Errorf("a/b = %v, %v", info, err)
	}
	link(t, filepath.Join(away, "file"), filepath.Join(dir, "other"))
	if _, err := local.Read(dir, "other", 10); !errors.Is(err, folder.ErrLink) {
		t.Errorf("Read = %v", err)
	}
	link(t, away, filepath.Join(dir, "third"))
	link(t, away, filepath.Join(at, "inner"))
	for _, name := range []string{"third", "link", "not there", "not/there"} {
		if err := local.RemoveAll(t.Context(), dir, name); err != nil {
			t.Errorf("RemoveAll(%s) = %v", name, err)
		}
	}
	if b, err := os.ReadFile(filepath.Join(away, "file")); err != nil || string(b) != "kept" {
		t.Errorf("the target of the links: %q, %v", b, err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("left: %v, %v", left, err)
	}
}

func TestNames(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "dir")
	write(t, filepath.Join(dir, "..", "file"), "kept")
	for _, name := range []string{"", "/etc", "..", "../file", "a/../../file", "a//b", "./a", "a/"} {
		for what, err := range all(t, dir, name) {
			if what != "List" && !errors.Is(err, folder.ErrName) {
				t.Errorf("%s(%q) = %v", what, name, err)
			}
		}
	}
	if err := local.WriteTree(t.Context(), dir, "tree", []folder.File{{Name: "../../file", Mode: 0o644}}); !errors.Is(err, folder.ErrName) {
		t.Errorf("WriteTree = %v", err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

func TestList(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{"a", "b/c", "b/d/e", "b/d/f/g", ".git/config"} {
		write(t, filepath.Join(dir, name), "x")
	}
	link(t, "a", filepath.Join(dir, "link"))
	link(t, ".", filepath.Join(dir, "b", "round"))
	if err := syscall.Mkfifo(filepath.Join(dir, "fifo"), 0o644); err != nil {
		t.Fatal(err)
	}
	entries, err := local.List(dir, ".", 2, 100)
	if err != nil {
		t.Fatal(err)
	}
	names := make([]string, 0, len(entries))
	for _, e := range entries {
		names = append(names, e.Name)
	}
	slices.Sort(names)
	if diff := cmp.Diff([]string{"a", "b/c", "b/d/e"}, names); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
	if _, err := local.List(dir, ".", 2, 3); !errors.Is(err, folder.ErrTooMany) {
		t.Errorf("List = %v", err)
	}
	if _, err := local.List(dir, "none", 2, 3); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("List = %v", err)
	}
	if _, err := local.Read(dir, "fifo", 10); !errors.Is(err, folder.ErrNotRegular) {
		t.Errorf("Read = %v", err)
	}
	if _, err := local.Read(dir, "b/c", 0); !errors.Is(err, folder.ErrTooLarge) {
		t.Errorf("Read = %v", err)
	}
}

// TestDeepFolders removes a folder with more levels than may be open concurrently.
func TestDeepFolders(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "tree", strings.Repeat("d/", 40), "file"), "x")
	if err := local.RemoveAll(t.Context(), dir, "tree"); err != nil {
		t.Errorf("RemoveAll = %v", err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// endingContext ends after its error was read left times.
type endingContext struct {
	context.Context //nolint:containedctx // it is one
	left            int
}

func (c *endingContext) Err() error {
	if c.left--; c.left < 0 {
		return context.Canceled
	}
	return nil
}

// TestTreesEnd ends a removal and the writing of a tree after some entries. What was written of the new
// tree is removed.
func TestTreesEnd(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var files []folder.File
	for i := range 100 {
		files = append(files, folder.File{Name: strconv.Itoa(i), Mode: 0o644})
	}
	if err := local.WriteTree(t.Context(), dir, "tree", files); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		what string
		err  error
	}{
		{"write", local.WriteTree(&endingContext{t.Context(), 50}, dir, "tree", files)},
		{"replace", local.WriteTree(&endingContext{t.Context(), 110}, dir, "tree", files)},
		{"remove", local.RemoveAll(&endingContext{t.Context(), 10}, dir, "tree")},
	} {
		if !errors.Is(c.err, context.Canceled) {
			t.Errorf("%s: %v", c.what, c.err)
		}
	}
	left, err1 := os.ReadDir(filepath.Join(dir, "tree"))
	all, err2 := os.ReadDir(dir)
	if err := errors.Join(err1, err2); err != nil || len(left) != 80 || len(all) != 1 {
		t.Errorf("left: %d of the tree, %v, %v", len(left), all, err)
	}
}

// TestExchangedFolders has another goroutine exchange a folder and a link continuously.
// Nothing is written or removed where the link leads.
func TestExchangedFolders(t *testing.T) {
	t.Parallel()
	dir, away := t.TempDir(), t.TempDir()
	write(t, filepath.Join(away, "keep", "file"), "kept")
	write(t, filepath.Join(dir, "folder", "x"), "x")
	done := make(chan struct{})
	var swap sync.WaitGroup
	swap.Go(func() {
		at, aside := filepath.Join(dir, "folder"), filepath.Join(dir, "aside")
		for {
			select {
			case <-done:
				return
			default:
			}
			_ = os.Rename(at, aside)
			_ = os.Symlink(away, at)
			_ = os.Remove(at)
			_ = os.Rename(aside, at)
		}
	})
	for range 300 {
		_ = local.RemoveAll(t.Context(), dir, "folder/keep")
		_ = local.WriteTree(t.Context(), dir, "folder/keep", []folder.File{{Name: "planted", Mode: 0o644}})
		_ = local.Update(t.Context(), dir, "folder/new", 100, func([]byte) ([]byte, error) { return []byte("x"), nil })
		if text, err := local.Read(dir, "folder/keep/file", 100); err == nil {
			t.Fatalf("read %q through a link", text)
		}
	}
	close(done)
	swap.Wait()
	entries, err := local.List(away, ".", 3, 100)
	if err != nil || len(entries) != 1 || entries[0].Name != "keep/file" {
		t.Errorf("the target of the link has %v, %v", entries, err)
	}
}

// TestExchangedFolderErrors has another goroutine exchange a folder and a link in one step. The
// error of a call that meets the link says so.
func TestExchangedFolderErrors(t *testing.T) {
	t.Parallel()
	dir, away := t.TempDir(), t.TempDir()
	at, trap := filepath.Join(dir, "folder"), filepath.Join(dir, "trap")
	write(t, filepath.Join(at, "keep", "file"), "kept")
	link(t, away, trap)
	done := make(chan struct{})
	var swap sync.WaitGroup
	swap.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
				_ = unix.Renameat2(unix.AT_FDCWD, at, unix.AT_FDCWD, trap, unix.RENAME_EXCHANGE)
			}
		}
	})
	for range 20_000 {
		if _, err := local.Read(dir, "folder/keep/file", 100); err != nil && !errors.Is(err, folder.ErrLink) {
			t.Errorf("Read = %v", err)
			break
		}
	}
	close(done)
	swap.Wait()
}

// TestUpdateSweepsBounded: a change inspects a bounded number of the names in the directory, and
// the next change goes on.
func TestUpdateSweepsBounded(t *testing.T) {
	t.Parallel()
	const made, swept = 4200, 4096
	dir := t.TempDir()
	for i := range made {
		write(t, filepath.Join(dir, fmt.Sprintf(".file.%d.tmp", i)), "")
	}
	for _, want := range []int{made - swept, 0} {
		if err := local.Update(t.Context(), dir, "file", 100, func([]byte) ([]byte, error) { return []byte("changed"), nil }); err != nil {
			t.Fatal(err)
		}
		left, err := filepath.Glob(filepath.Join(dir, ".file.*.tmp"))
		if err != nil || len(left) != want {
			t.Errorf("%d temporary files are left, want %d: %v", len(left), want, err)
		}
	}
}
