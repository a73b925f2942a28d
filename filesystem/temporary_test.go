package filesystem

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"golang.org/x/sys/unix"
)

// openNamed opens an FS that cannot make files without a name, with a new home directory.
func openNamed(t *testing.T) (f *FS, dir string) {
	t.Helper()
	dir = t.TempDir()
	f, err := Open(Config{Home: dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	f.nameless = false
	return f, dir
}

func wantNames(t *testing.T, dir string, want ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range entries {
		got = append(got, e.Name())
	}
	if !slices.Equal(got, want) {
		t.Errorf("%s holds %q, want %q", dir, got, want)
	}
}

// TestNamedTemporaries writes with an FS that cannot make files without a name.
func TestNamedTemporaries(t *testing.T) {
	t.Parallel()
	f, dir := openNamed(t)
	ctx := t.Context()
	for _, options := range []WriteOptions{{}, {}, {Append: true}, {IfMatch: "*"}, {Mode: 0o600}} {
		if n, err := f.Write(ctx, "file", strings.NewReader("new"), options); n != 3 || err != nil {
			t.Fatalf("%+v: %d, %v", options, n, err)
		}
		wantNames(t, dir, "file")
	}
	large := strings.Repeat("x", 2*bufferSize)
	for _, options := range []WriteOptions{{}, {Append: true}, {IfMatch: "*"}} {
		_, err := f.Write(ctx, "file", io.MultiReader(strings.NewReader(large), iotest.ErrReader(iotest.ErrTimeout)), options)
		if !errors.Is(err, iotest.ErrTimeout) {
			t.Errorf("%+v: a broken write: %v", options, err)
		}
		wantNames(t, dir, "file")
	}
	if _, err := f.Write(ctx, "file", strings.NewReader("x"), WriteOptions{Exclusive: true}); !errors.Is(err, fs.ErrExist) {
		t.Errorf("exclusive write: %v", err)
	}
	if _, err := f.Write(ctx, "other", strings.NewReader("x"), WriteOptions{Exclusive: true}); err != nil {
		t.Error(err)
	}
	wantNames(t, dir, "file", "other")
}

type readerFunc func(p []byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// Before a file is complete, it has no name, or a hidden one that sweep recognizes and finds
// locked.
func TestHiddenWhileWritten(t *testing.T) {
	t.Parallel()
	for _, nameless := range []bool{true, false} {
		f, dir := openNamed(t)
		f.nameless = nameless
		sent := false
		_, err := f.Write(t.Context(), "file", readerFunc(func(p []byte) (int, error) {
			if sent {
				return 0, iotest.ErrTimeout
			}
			sent = true
			entries, err := os.ReadDir(dir)
			if err != nil || len(entries) > 1 || len(entries) == 1 && !isTemporary(entries[0].Name()) {
				t.Errorf("while it is written: %v, %v", entries, err)
			}
			if !nameless {
				f.now = tomorrow
				defer func() { f.now = time.Now }()
				hold, err := openFolder(place{tree: wholeTree{}, name: dir[1:], path: dir}, folderHold)
				if err != nil {
					t.Error(err)
					return 0, err
				}
				defer hold.close()
				f.sweep(hold, uninterrupted)
				wantNames(t, dir, entries[0].Name())
			}
			return 1, nil
		}), WriteOptions{})
		if !errors.Is(err, iotest.ErrTimeout) {
			t.Error(err)
		}
		wantNames(t, dir)
	}
}

func tomorrow() time.Time { return time.Now().Add(leftoverAge + time.Hour) }

// A write a day later removes the temporary files of killed programs, and no other file.
func TestSweep(t *testing.T) {
	t.Parallel()
	f, dir := openNamed(t)
	temp, aside := hiddenName(tempSuffix), hiddenName(asideSuffix)
	tree := hiddenName(tempSuffix)
	link := hiddenName(tempSuffix)
	for _, err := range []error{
		os.WriteFile(filepath.Join(dir, temp), []byte("half"), 0o666),
		os.WriteFile(filepath.Join(dir, aside), []byte("the user's"), 0o666),
		os.MkdirAll(filepath.Join(dir, tree, "a/b"), 0o777),
		os.Symlink("x", filepath.Join(dir, link)),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	write := func() {
		if _, err := f.Write(t.Context(), "x", strings.NewReader(""), WriteOptions{NoSync: true}); err != nil {
			t.Fatal(err)
		}
	}
	all := []string{temp, aside, tree, link, "x"}
	slices.Sort(all)
	write()
	wantNames(t, dir, all...)
	// A directory is swept once a day.
	f.now = tomorrow
	write()
	kept := []string{aside, link, "x"}
	slices.Sort(kept)
	wantNames(t, dir, kept...)
	for i := range 2 * sweptFolders {
		f.sweepIsDue(node{inode: uint64(i)})
	}
	if len(f.swept) > sweptFolders {
		t.Errorf("%d directories are remembered", len(f.swept))
	}
}

// TestRenameFallbacks tests the fallbacks for systems without renameat2(2) or its flags.
func TestRenameFallbacks(t *testing.T) {
	t.Parallel()
	_, dir := openNamed(t)
	hold, err := openFolder(place{tree: wholeTree{}, name: dir[1:], path: dir}, folderHold)
	if err != nil {
		t.Fatal(err)
	}
	defer hold.close()
	for _, err := range []error{
		os.WriteFile(filepath.Join(dir, "file"), []byte("f"), 0o666), os.MkdirAll(filepath.Join(dir, "dir/sub"), 0o777),
		os.MkdirAll(filepath.Join(dir, "full/sub2"), 0o777), os.Mkdir(filepath.Join(dir, "empty"), 0o777),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"dir", "file"} {
		for _, taken := range []string{"full", "empty", "file"} {
			if err := linkNew(hold, name, hold, taken); err != unix.EEXIST {
				t.Errorf("%s to %s: %v, want EEXIST", name, taken, err)
			}
		}
		if err := linkNew(hold, name, hold, "new "+name); err != nil {
			t.Error(err)
		}
	}
	wantNames(t, dir, "empty", "full", "new dir", "new file")

	if err := replaceAside(hold, "none", hold, "full"); err != unix.ENOENT {
		t.Errorf("replaced by nothing: %v", err)
	}
	wantNames(t, dir, "empty", "full", "new dir", "new file")
	wantNames(t, filepath.Join(dir, "full"), "sub2")
	if err := replaceAside(hold, "new dir", hold, "full"); err != nil {
		t.Error(err)
	}
	if err := replaceAside(hold, "new file", hold, "empty"); err != nil {
		t.Error(err)
	}
	wantNames(t, dir, "empty", "full")
	wantNames(t, filepath.Join(dir, "full"), "sub")
}

// TestLocksAreReleased checks that no lock is kept after changes of files.
func TestLocksAreReleased(t *testing.T) {
	t.Parallel()
	f, _ := openNamed(t)
	for range 3 {
		if _, err := f.Write(context.Background(), "x", strings.NewReader("x"), WriteOptions{Append: true}); err != nil {
			t.Fatal(err)
		}
	}
	if len(f.contents) != 0 {
		t.Errorf("%d locks are kept", len(f.contents))
	}
}
