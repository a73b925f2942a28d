package filesystem_test

import (
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/deskhand/deskhand/filesystem"
)

func TestOpenFile(t *testing.T) {
	t.Parallel()
	both(t, func(b bed) {
		t, f, dir := b.t, b.fs, b.dir
		put(t, filepath.Join(dir, "file"), "0123456789")
		must(t, os.Symlink("file", filepath.Join(dir, "link")))
		file, err := f.OpenFile("link")
		must(t, err)
		defer file.Close()
		_, err = file.Seek(4, io.SeekStart)
		must(t, err)
		rest, err := io.ReadAll(file)
		if string(rest) != "456789" || err != nil {
			t.Errorf("read %q, %v", rest, err)
		}
		some := make([]byte, 3)
		if _, err := file.ReadAt(some, 2); string(some) != "234" || err != nil {
			t.Errorf("ReadAt: %q, %v", some, err)
		}
		if e := file.Entry(); e.Size != 10 || e.Path != dir+"/link" || file.File() == nil {
			t.Errorf("entry %+v, file %v", e, file.File())
		}
		if s, err := f.Stat("file"); err != nil || s.ETag() != file.ETag() {
			t.Errorf("ETag %s, ETag of Stat %s, %v", file.ETag(), s.ETag(), err)
		}
		put(t, filepath.Join(dir, "empty"), "")
		empty, err := f.OpenFile("empty")
		must(t, err)
		defer empty.Close()
		if n, err := empty.Read(some); n != 0 || !errors.Is(err, io.EOF) || empty.File() == nil {
			t.Errorf("empty file: %d, %v", n, err)
		}
		_, err = f.OpenFile("none")
		wantError(t, err, fs.ErrNotExist, "path not found: "+dir+"/none")
	})
}

// Each change of a file changes its ETag.
func TestETag(t *testing.T) {
	t.Parallel()
	both(t, func(b bed) {
		t, f, dir := b.t, b.fs, b.dir
		name := filepath.Join(dir, "file")
		put(t, name, "one")
		old := time.Unix(1_000_000_000, 0)
		seen := make(map[string]bool)
		for _, change := range []func() error{
			func() error { return nil },
			func() error { return os.WriteFile(name, []byte("three"), 0o666) },
			func() error { return os.Chtimes(name, old, old) },
			func() error { return os.Chmod(name, 0o600) },
			func() error {
				_, err := f.Write(t.Context(), name, strings.NewReader("three"), filesystem.WriteOptions{})
				return err
			},
			func() error { return os.Chtimes(name, old, old) },
		} {
			must(t, change())
			e, err := f.Stat(name)
			must(t, err)
			tag := e.ETag()
			if seen[tag] || !strings.HasPrefix(tag, `"`) || !strings.HasSuffix(tag, `"`) {
				t.Errorf("ETag %s, before there were %v", tag, seen)
			}
			seen[tag] = true
			if again, err := f.Stat(name); err != nil || again.ETag() != tag {
				t.Errorf("ETag changed without a change of the file: %s, %s, %v", tag, again.ETag(), err)
			}
		}
	})
}

// TestOpenSpecial opens files that are not regular, which fails immediately and does not touch them.
func TestOpenSpecial(t *testing.T) {
	t.Parallel()
	both(t, func(b bed) {
		t, f, dir := b.t, b.fs, b.dir
		must(t, unix.Mkfifo(filepath.Join(dir, "fifo"), 0o600))
		must(t, os.Mkdir(filepath.Join(dir, "dir"), 0o777))
		must(t, os.Symlink("fifo", filepath.Join(dir, "link")))
		listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, "socket")})
		if err == nil { // else the path is too long for a socket
			defer func() { _ = listener.Close() }()
		}
		for name, words := range map[string]string{
			"fifo": "a FIFO", "link": "a FIFO", "dir": "a directory", "socket": "a socket", "~": "a directory",
		} {
			if name == "socket" && listener == nil {
				continue
			}
			_, err := f.OpenFile(name)
			wantError(t, err, filesystem.ErrNotFile, "path is not a file: "+dir, words)
			_, err = f.Write(t.Context(), name, strings.NewReader("x"), filesystem.WriteOptions{})
			wantError(t, err, filesystem.ErrNotFile, "path is not a file: "+dir, words)
			_, err = f.Write(t.Context(), name, strings.NewReader("x"), filesystem.WriteOptions{Append: true})
			wantError(t, err, filesystem.ErrNotFile, "path is not a file: "+dir, words)
		}
	})
	whole := open(t, filesystem.Config{})
	for _, name := range []string{"/dev/zero", "/dev/null", "/dev/full", "/dev/tty"} {
		_, err := whole.OpenFile(name)
		wantError(t, err, filesystem.ErrNotFile, name, "a device")
		_, err = whole.Write(t.Context(), name, strings.NewReader("x"), filesystem.WriteOptions{})
		wantError(t, err, filesystem.ErrNotFile, name, "a device")
	}
}

// TestPseudoFiles reads files whose size the system does not report.
func TestPseudoFiles(t *testing.T) {
	t.Parallel()
	whole := open(t, filesystem.Config{})
	narrow := open(t, filesystem.Config{Roots: []filesystem.Root{{Path: "/proc"}, {Path: "/sys"}}})
	for _, f := range []*filesystem.FS{whole, narrow} {
		for _, name := range []string{"/proc/self/status", "/proc/sys/kernel/ostype", "/sys/kernel/mm/transparent_hugepage/enabled"} {
			want, err := os.ReadFile(name)
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			must(t, err)
			file, err := f.OpenFile(name)
			if err != nil {
				t.Errorf("%v", err)
				continue
			}
			got, err := io.ReadAll(file)
			if err != nil || len(got) == 0 || strings.Fields(string(got))[0] != strings.Fields(string(want))[0] {
				t.Errorf("%s: %q, %v, want %q", name, got, err, want)
			}
			if file.Entry().Size != int64(len(got)) || file.File() != nil {
				t.Errorf("%s: size %d of %d, file %v", name, file.Entry().Size, len(got), file.File())
			}
			must(t, file.Close())
		}
	}
	one, err := whole.OpenFile("/proc/sys/kernel/ostype")
	must(t, err)
	two, err := whole.OpenFile("/proc/sys/kernel/ostype")
	must(t, err)
	if one.ETag() != two.ETag() || len(one.ETag()) != 34 {
		t.Errorf("ETags of the same content: %s, %s", one.ETag(), two.ETag())
	}
}

// Write can write settings of the system.
func TestWritePseudoFile(t *testing.T) {
	t.Parallel()
	if !inNamespace(t) { // in a process with its own settings
		return
	}
	for _, config := range []filesystem.Config{{}, {Roots: []filesystem.Root{{Path: "/proc"}}}, {Roots: []filesystem.Root{{Path: "/"}}}} {
		f := open(t, config)
		for i, options := range []filesystem.WriteOptions{{}, {NoSync: true}, {Append: true}} {
			want := strconv.Itoa(500 + i)
			write(t, f, "/proc/thread-self/oom_score_adj", want, options)
			wantContent(t, "/proc/self/oom_score_adj", want+"\n")
		}
		_, err := f.Write(t.Context(), "/proc/self/oom_score_adj", strings.NewReader("no number"), filesystem.WriteOptions{})
		wantError(t, err, unix.EINVAL, "invalid argument")
		wantContent(t, "/proc/self/oom_score_adj", "502\n")
	}
}

// Files that wait for events, or have no end, are refused in time.
func TestEndlessFiles(t *testing.T) {
	t.Parallel()
	if !inNamespace(t) {
		return
	}
	traces := t.TempDir()
	mount(t, "tracefs", traces, "tracefs", 0, "")
	f := open(t, filesystem.Config{})
	for name, kind := range map[string]error{
		filepath.Join(traces, "trace_pipe"): filesystem.ErrEndless,  // waits
		"/proc/self/pagemap":                filesystem.ErrTooLarge, // eight bytes for each of 2^35 pages
	} {
		start := time.Now()
		_, err := f.OpenFile(name)
		wantError(t, err, kind, name, "read it with a process")
		if took := time.Since(start); took > 20*time.Second {
			t.Errorf("%s: took %v", name, took)
		}
	}
}
