package filesystem_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/deskhand/deskhand/filesystem"
)

func write(tb testing.TB, f *filesystem.FS, name, content string, options filesystem.WriteOptions) {
	tb.Helper()
	n, err := f.Write(tb.Context(), name, strings.NewReader(content), options)
	if err != nil || n != int64(len(content)) {
		tb.Fatalf("Write %s = %d, %v, want %d", name, n, err, len(content))
	}
}

func TestWrite(t *testing.T) {
	t.Parallel()
	both(t, func(b bed) {
		t, f, dir := b.t, b.fs, b.dir
		write(t, f, "a/b/c", "new", filesystem.WriteOptions{})
		wantContent(t, dir+"/a/b/c", "new")
		write(t, f, "~/a/b/c", "replaced", filesystem.WriteOptions{NoSync: true})
		wantContent(t, dir+"/a/b/c", "replaced")
		write(t, f, dir+"/a/b/c", "", filesystem.WriteOptions{})
		wantContent(t, dir+"/a/b/c", "")
		large := strings.Repeat("0123456789abcdef", 3<<20/16)
		write(t, f, "a/b/c", large, filesystem.WriteOptions{Append: true})
		write(t, f, "a/b/c", "!", filesystem.WriteOptions{Append: true, NoSync: true})
		wantContent(t, dir+"/a/b/c", large+"!")
		write(t, f, "x/y", "made by appending", filesystem.WriteOptions{Append: true})
		wantContent(t, dir+"/x/y", "made by appending")
		for _, name := range []string{"new\nline", "not \xff\xfe UTF-8", strings.Repeat("n", 255), "-", " ", `\`, "a*?[", "~x"} {
			write(t, f, "odd/"+name, name, filesystem.WriteOptions{})
			wantContent(t, dir+"/odd/"+name, name)
			write(t, f, "odd/"+name, name, filesystem.WriteOptions{Append: true})
			must(t, f.Move(t.Context(), "odd/"+name, "odd2/"+name, filesystem.MoveOptions{}))
			wantContent(t, dir+"/odd2/"+name, name+name)
			must(t, f.Remove(t.Context(), "odd2/"+name, false))
		}
		for _, name := range []string{strings.Repeat("n", 256), strings.Repeat("p/", 2500), "a\x00"} {
			_, err := f.Write(t.Context(), name, strings.NewReader("x"), filesystem.WriteOptions{})
			wantError(t, err, filesystem.ErrInvalidPath)
		}
		_, err := f.Write(t.Context(), "x/y/z", strings.NewReader("x"), filesystem.WriteOptions{})
		wantError(t, err, filesystem.ErrNotDirectory, "path is not a directory: "+dir+"/x/y")
		if got := append(append(names(t, dir+"/a/b"), names(t, dir+"/odd2")...), names(t, dir+"/x")...); len(got) != 2 {
			t.Errorf("there are %q", got)
		}
	})
}

// broken returns some content and then fails.
func broken(content string, err error) io.Reader {
	return io.MultiReader(strings.NewReader(content), iotest.ErrReader(err))
}

// A failed write leaves the old content and no other file.
func TestWriteFails(t *testing.T) {
	t.Parallel()
	both(t, func(b bed) {
		t, f, dir := b.t, b.fs, b.dir
		name := filepath.Join(dir, "file")
		put(t, name, "old")
		long := strings.Repeat("x", 2<<20)
		for _, options := range []filesystem.WriteOptions{{}, {NoSync: true}, {Append: true}} {
			for _, content := range []string{"", "some", long} {
				// io.ErrUnexpectedEOF is the error of an interrupted upload.
				for _, cause := range []error{errors.New("line cut"), io.ErrUnexpectedEOF, fmt.Errorf("wrapped: %w", io.EOF)} {
					_, err := f.Write(t.Context(), name, broken(content, cause), options)
					wantError(t, err, cause, "content ended after", name)
					_, err = f.Write(t.Context(), "new", broken(content, cause), options)
					wantError(t, err, cause, "content ended after", dir+"/new")
				}
				ctx, cancel := context.WithCancel(t.Context())
				_, err := f.Write(ctx, name, io.MultiReader(strings.NewReader(content), readerFunc(func(p []byte) (int, error) {
					cancel()
					return copy(p, "more"), nil
				})), options)
				wantError(t, err, context.Canceled, name)
			}
		}
		wantContent(t, name, "old")
		if diff := cmp.Diff([]string{"file"}, names(t, dir)); diff != "" {
			t.Errorf("left behind (-want +got):\n%s", diff)
		}
	})
}

type readerFunc func(p []byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// A reader of a file that is being replaced sees the old or the new content. No temporary file
// is visible meanwhile.
func TestWriteAtomic(t *testing.T) {
	t.Parallel()
	both(t, func(b bed) {
		t, f, dir := b.t, b.fs, b.dir
		name := filepath.Join(dir, "file")
		contents := []string{strings.Repeat("a", 300_000), strings.Repeat("b", 700_000)}
		put(t, name, contents[0])
		var writers, readers sync.WaitGroup
		var stop atomic.Bool
		for i, content := range contents {
			writers.Go(func() {
				for range 40 {
					write(t, f, "file", contents[i], filesystem.WriteOptions{NoSync: true})
					_ = content
				}
			})
		}
		readers.Go(func() {
			for !stop.Load() {
				got, err := os.ReadFile(name)
				if err != nil || string(got) != contents[0] && string(got) != contents[1] {
					t.Errorf("read %s, %v", shorten(string(got)), err)
					return
				}
			}
		})
		writers.Wait()
		stop.Store(true)
		readers.Wait()
		if diff := cmp.Diff([]string{"file"}, names(t, dir)); diff != "" {
			t.Errorf("left behind (-want +got):\n%s", diff)
		}
	})
}

// Close ends a write between two reads, and waits for it.
func TestCloseEndsWrite(t *testing.T) {
	t.Parallel()
	dir := realTempDir(t)
	f, err := filesystem.Open(filesystem.Config{Home: dir})
	must(t, err)
	started, failed := make(chan struct{}), make(chan error, 1)
	var once sync.Once
	go func() {
		_, err := f.Write(context.Background(), "x", readerFunc(func(p []byte) (int, error) {
			once.Do(func() { close(started) })
			return len(p), nil
		}), filesystem.WriteOptions{NoSync: true})
		failed <- err
	}()
	<-started
	must(t, f.Close())
	wantError(t, <-failed, filesystem.ErrClosed)
	if left := names(t, dir); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

// Write without Mode keeps the permission bits of a file, without setuid and setgid.
func TestWriteMode(t *testing.T) {
	t.Parallel()
	both(t, func(b bed) {
		t, f, dir := b.t, b.fs, b.dir
		name := filepath.Join(dir, "file")
		umask := currentUmask(t)
		tests := []struct {
			before  fs.FileMode
			options filesystem.WriteOptions
			want    fs.FileMode
		}{
			{0o600, filesystem.WriteOptions{}, 0o600},
			{0o755, filesystem.WriteOptions{}, 0o755},
			{0o777 | fs.ModeSetuid | fs.ModeSetgid, filesystem.WriteOptions{}, 0o777},
			{0o444, filesystem.WriteOptions{}, 0o444},
			{0o644, filesystem.WriteOptions{Mode: 0o700}, 0o700},
			{0o644, filesystem.WriteOptions{Mode: 0o700, Append: true}, 0o700},
			{0, filesystem.WriteOptions{}, 0o666 &^ umask},
			{0, filesystem.WriteOptions{Append: true}, 0o666 &^ umask},
			{0, filesystem.WriteOptions{Exclusive: true}, 0o666 &^ umask},
			{0, filesystem.WriteOptions{Mode: 0o777}, 0o777},
			{0, filesystem.WriteOptions{Mode: 0o640 | fs.ModeSetuid}, 0o640},
		}
		for _, test := range tests {
			_ = os.Remove(name)
			if test.before != 0 {
				put(t, name, "old")
				must(t, os.Chmod(name, test.before))
			}
			write(t, f, "file", "new", test.options)
			info, err := os.Stat(name)
			if err != nil || info.Mode() != test.want {
				t.Errorf("%+v: %v, %v, want %v", test, info.Mode(), err, test.want)
			}
		}
	})
}

func currentUmask(t *testing.T) fs.FileMode {
	t.Helper()
	name := filepath.Join(t.TempDir(), "x")
	file, err := os.OpenFile(name, os.O_CREATE, 0o777)
	must(t, err)
	defer file.Close()
	info, err := file.Stat()
	must(t, err)
	return 0o777 &^ info.Mode()
}

func TestWriteKeepsOwnerAndAttributes(t *testing.T) {
	t.Parallel()
	both(t, func(b bed) {
		t, f, dir := b.t, b.fs, b.dir
		name := filepath.Join(dir, "file")
		put(t, name, "old")
		if err := unix.Setxattr(name, "user.deskhand", []byte("kept"), 0); err != nil {
			t.Skipf("no extended attributes here: %v", err)
		}
		if os.Geteuid() == 0 {
			must(t, os.Chown(name, 1234, 2345))
			// An access control list with an additional user: version 2, then
			// entries of tag, permissions and id.
			must(t, unix.Setxattr(name, "system.posix_acl_access", []byte("\x02\x00\x00\x00"+
				"\x01\x00\x06\x00\xff\xff\xff\xff"+"\x02\x00\x04\x00\x29\x09\x00\x00"+"\x04\x00\x04\x00\xff\xff\xff\xff"+
				"\x10\x00\x04\x00\xff\xff\xff\xff"+"\x20\x00\x00\x00\xff\xff\xff\xff"), 0))
			// A capability must not go to new content: magic with version 2, masks.
			must(t, unix.Setxattr(name, "security.capability", append([]byte{0, 0, 0, 2, 1}, make([]byte, 15)...), 0))
		}
		before, acl := attribute(name, "user.deskhand"), attribute(name, "system.posix_acl_access")
		write(t, f, "file", "new", filesystem.WriteOptions{})
		if got := attribute(name, "user.deskhand"); got != before || got != "kept" {
			t.Errorf("attribute %q, want %q", got, before)
		}
		if got := attribute(name, "system.posix_acl_access"); got != acl {
			t.Errorf("access control list %q, want %q", got, acl)
		}
		if got := attribute(name, "security.capability"); got != "" {
			t.Errorf("capability %q was kept", got)
		}
		if e, err := f.Stat("file"); os.Geteuid() == 0 && (err != nil || e.UID != 1234 || e.GID != 2345) {
			t.Errorf("owner %d:%d, %v", e.UID, e.GID, err)
		}
	})
}

func attribute(name, key string) string {
	b := make([]byte, 1000)
	n, err := unix.Getxattr(name, key, b)
	if err != nil {
		return ""
	}
	return string(b[:n])
}

func TestWriteThroughLinks(t *testing.T) {
	t.Parallel()
	both(t, func(b bed) {
		t, f, dir := b.t, b.fs, b.dir
		put(t, dir+"/real/sub/file", "old")
		put(t, dir+"/real/x", "the x of real")
		for name, target := range map[string]string{
			"file": "real/sub/file", "dangling": "real/fresh", "one": "two", "two": "real/sub/file",
			"nowhere": "missing/fresh", "loop": "loop2", "loop2": "loop", "dir": "real/sub", "real/sub/up": "../x",
			"todir": "real/", "dotdot": "real/..", "totop": "..",
		} {
			must(t, os.Symlink(target, filepath.Join(dir, name)))
		}
		write(t, f, "file", "new", filesystem.WriteOptions{})
		wantContent(t, dir+"/real/sub/file", "new")
		write(t, f, "one", "newer", filesystem.WriteOptions{})
		wantContent(t, dir+"/real/sub/file", "newer")
		write(t, f, "two", "!", filesystem.WriteOptions{Append: true})
		wantContent(t, dir+"/real/sub/file", "newer!")
		write(t, f, "dangling", "made", filesystem.WriteOptions{})
		wantContent(t, dir+"/real/fresh", "made")
		write(t, f, "dir/up", "through two", filesystem.WriteOptions{}) // ".." is the directory above real/sub
		wantContent(t, dir+"/real/x", "through two")
		wantMissing(t, dir+"/x")
		for _, name := range []string{"file", "dangling", "one", "two", "dir"} {
			if info, err := os.Lstat(filepath.Join(dir, name)); err != nil || info.Mode().Type() != fs.ModeSymlink {
				t.Errorf("%s is no longer a link: %v, %v", name, info, err)
			}
		}
		for name, kind := range map[string]error{
			"nowhere": fs.ErrNotExist, "loop": filesystem.ErrInvalidPath, "dir": filesystem.ErrNotFile,
			"todir": filesystem.ErrNotFile, "dotdot": filesystem.ErrNotFile,
		} {
			_, err := f.Write(t.Context(), name, strings.NewReader("x"), filesystem.WriteOptions{})
			wantError(t, err, kind, dir+"/"+name)
		}
		for _, name := range []string{"file", "nowhere"} {
			_, err := f.Write(t.Context(), name, strings.NewReader("x"), filesystem.WriteOptions{Exclusive: true})
			wantError(t, err, fs.ErrExist, dir+"/"+name)
		}
	})
}

func TestWriteConditions(t *testing.T) {
	t.Parallel()
	both(t, func(b bed) {
		t, f, dir := b.t, b.fs, b.dir
		_, err := f.Write(t.Context(), "file", strings.NewReader("x"), filesystem.WriteOptions{IfMatch: "*"})
		wantError(t, err, filesystem.ErrChanged, dir+"/file")
		write(t, f, "file", "one", filesystem.WriteOptions{Exclusive: true})
		_, err = f.Write(t.Context(), "file", strings.NewReader("x"), filesystem.WriteOptions{Exclusive: true})
		wantError(t, err, fs.ErrExist, dir+"/file")
		e, err := f.Stat("file")
		must(t, err)
		write(t, f, "file", "two", filesystem.WriteOptions{IfMatch: e.ETag()})
		for _, options := range []filesystem.WriteOptions{{IfMatch: e.ETag()}, {IfMatch: e.ETag(), Append: true}, {IfMatch: "x"}} {
			_, err = f.Write(t.Context(), "file", strings.NewReader("x"), options)
			wantError(t, err, filesystem.ErrChanged, "read it again")
		}
		write(t, f, "file", "three", filesystem.WriteOptions{IfMatch: "*"})

		// The condition is checked before and after the content is received.
		e, err = f.Stat("file")
		must(t, err)
		_, err = f.Write(t.Context(), "file", readerFunc(func(p []byte) (int, error) {
			return 0, cmpErr(os.WriteFile(dir+"/file", []byte("theirs"), 0o666), io.EOF)
		}), filesystem.WriteOptions{IfMatch: e.ETag()})
		wantError(t, err, filesystem.ErrChanged)
		wantContent(t, dir+"/file", "theirs")
		_, err = f.Write(t.Context(), "late", readerFunc(func(p []byte) (int, error) {
			return 0, cmpErr(os.WriteFile(dir+"/late", []byte("theirs"), 0o666), io.EOF)
		}), filesystem.WriteOptions{Exclusive: true})
		wantError(t, err, fs.ErrExist)
		wantContent(t, dir+"/late", "theirs")
		// Without a condition the last write wins. Appended content comes after it.
		for _, options := range []filesystem.WriteOptions{{}, {Append: true}} {
			must(t, os.Remove(dir+"/late"))
			_, err = f.Write(t.Context(), "late", io.MultiReader(readerFunc(func(p []byte) (int, error) {
				return 0, cmpErr(os.WriteFile(dir+"/late", []byte("theirs"), 0o666), io.EOF)
			}), strings.NewReader(", ours")), options)
			must(t, err)
			want := ", ours"
			if options.Append {
				want = "theirs, ours"
			}
			wantContent(t, dir+"/late", want)
		}
		if diff := cmp.Diff([]string{"file", "late"}, names(t, dir)); diff != "" {
			t.Errorf("left behind (-want +got):\n%s", diff)
		}
	})
}

func cmpErr(err, otherwise error) error {
	if err != nil {
		return err
	}
	return otherwise
}

// Of many concurrent writes with the same condition, one succeeds.
func TestConditionsCount(t *testing.T) {
	t.Parallel()
	both(t, func(b bed) {
		t, f := b.t, b.fs
		write(t, f, "file", "", filesystem.WriteOptions{NoSync: true})
		for range 20 {
			e, err := f.Stat("file")
			must(t, err)
			var group sync.WaitGroup
			var matched, made atomic.Int32
			for i := range 8 {
				group.Go(func() {
					if _, err := f.Write(t.Context(), "file", strings.NewReader(strings.Repeat("x", i)),
						filesystem.WriteOptions{IfMatch: e.ETag(), NoSync: true}); err == nil {
						matched.Add(1)
					}
					if _, err := f.Write(t.Context(), "new", strings.NewReader("x"),
						filesystem.WriteOptions{Exclusive: true, NoSync: true}); err == nil {
						made.Add(1)
					}
				})
			}
			group.Wait()
			if matched.Load() != 1 || made.Load() != 1 {
				t.Errorf("%d replaced the file, %d made another one; want one each", matched.Load(), made.Load())
			}
			must(t, f.Remove(t.Context(), "new", false))
		}
	})
}

// The content of concurrent appends is complete and not mixed.
func TestAppendConcurrently(t *testing.T) {
	t.Parallel()
	both(t, func(b bed) {
		t, f, dir := b.t, b.fs, b.dir
		var group sync.WaitGroup
		want := make(map[string]int)
		for i := range 8 {
			size := 1000 + i*200_000 // some in memory, some on the disk
			line := strings.Repeat(string(rune('a'+i)), size) + "\n"
			want[line] = 5
			group.Go(func() {
				for range 5 {
					write(t, f, "log", line, filesystem.WriteOptions{Append: true, NoSync: true})
					_, err := f.Write(t.Context(), "log", broken(line, io.ErrUnexpectedEOF), filesystem.WriteOptions{Append: true})
					if err == nil {
						t.Error("a broken append succeeded")
					}
				}
			})
		}
		group.Wait()
		content, err := os.ReadFile(dir + "/log")
		must(t, err)
		got := make(map[string]int)
		for line := range bytes.Lines(content) {
			got[string(line)]++
		}
		if !cmp.Equal(want, got) {
			t.Errorf("%d different lines of %d bytes in all, want 8 five times each", len(got), len(content))
		}
	})
}
