package filesystem_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/deskhand/deskhand/filesystem"
)

// makeTree makes a directory with all kinds of entries that an archive can hold.
func makeTree(tb testing.TB) string {
	tb.Helper()
	dir := tb.TempDir()
	put(tb, filepath.Join(dir, "file"), "file")
	put(tb, filepath.Join(dir, "empty"), "")
	put(tb, filepath.Join(dir, "sub", "large"), strings.Repeat("0123456789", 200_000))
	put(tb, filepath.Join(dir, "sub", "deep", strings.Repeat("long/", 40), strings.Repeat("n", 200)), "long")
	put(tb, filepath.Join(dir, "new\nline"), "newline")
	put(tb, filepath.Join(dir, "bad\xff\xfe", "utf8\x80"), "bytes")
	put(tb, filepath.Join(dir, "für 漢字"), "utf-8")
	put(tb, filepath.Join(dir, "sub.b"), "between sub and sub/")
	must(tb, os.Mkdir(filepath.Join(dir, "emptydir"), 0o700))
	must(tb, os.Chmod(filepath.Join(dir, "file"), 0o751))
	symlink(tb, "sub/large", filepath.Join(dir, "link"))
	symlink(tb, "../bad\xff\xfe", filepath.Join(dir, "sub", "baddir"))
	symlink(tb, strings.Repeat("x/", 100), filepath.Join(dir, "longlink"))
	must(tb, os.Link(filepath.Join(dir, "file"), filepath.Join(dir, "second name")))
	stamp(tb, dir)
	return dir
}

// stamp gives each entry below a directory a different time.
func stamp(tb testing.TB, dir string) {
	tb.Helper()
	all := slices.Sorted(maps.Keys(snapshot(tb, dir)))
	slices.Reverse(all) // the content of a directory before the directory
	for i, name := range all {
		at := unix.NsecToTimespec(someTime.Add(time.Duration(i) * 1_000_000_007).UnixNano())
		must(tb, unix.UtimesNanoAt(unix.AT_FDCWD, dir+name, []unix.Timespec{at, at}, unix.AT_SYMLINK_NOFOLLOW))
	}
}

func archive(tb testing.TB, f *filesystem.FS, name string, options filesystem.ArchiveOptions) ([]byte, filesystem.Archived) {
	tb.Helper()
	var b bytes.Buffer
	done, err := f.Archive(tb.Context(), name, &b, options)
	must(tb, err)
	return b.Bytes(), done
}

// TestArchiveRoundTrip checks that packing and unpacking changes nothing.
func TestArchiveRoundTrip(t *testing.T) {
	t.Parallel()
	source := makeTree(t)
	want := timedSnapshot(t, source)
	for name := range want { // GNU headers, which these need, have whole seconds
		if strings.Contains(name+want[name], "\xff") {
			want[name] = want[name][:len(want[name])-9] + "000000000"
		}
	}
	for _, compression := range []filesystem.Compression{"", "none", "gzip", "zstd"} {
		t.Run("compression="+string(compression), func(t *testing.T) {
			t.Parallel()
			for _, f := range []*filesystem.FS{openFS(t), openFS(t, source)} {
				packed, done := archive(t, f, source, filesystem.ArchiveOptions{Compression: compression})
				dir := t.TempDir()
				back := mustExtract(t, openFS(t), dir, packed)
				if diff := cmp.Diff(want, timedSnapshot(t, dir)); diff != "" {
					t.Errorf("changed on the way:\n%s", diff)
				}
				if done.Entries != len(want) || done.Entries != back.Entries || done.Bytes != back.Bytes || done.Skipped+done.Changed > 0 {
					t.Errorf("%d entries, packed %+v, unpacked %d entries, %d bytes", len(want), done, back.Entries, back.Bytes)
				}
			}
		})
	}
}

func TestArchiveIsSorted(t *testing.T) {
	t.Parallel()
	f := openFS(t)
	source := makeTree(t)
	first, _ := archive(t, f, source, filesystem.ArchiveOptions{})
	second, _ := archive(t, f, source, filesystem.ArchiveOptions{})
	if !bytes.Equal(first, second) {
		t.Error("two archives of the same directory differ")
	}
	var got []string
	for r := tar.NewReader(bytes.NewReader(first)); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		must(t, err)
		if !strings.HasPrefix(h.Name, "sub/deep") {
			got = append(got, h.Name)
		}
	}
	want := []string{
		"bad\xff\xfe/", "bad\xff\xfe/utf8\x80", "empty", "emptydir/", "file", "für 漢字", "link", "longlink", "new\nline",
		"second name", "sub/", "sub/baddir", "sub/large", "sub.b",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("entries:\n%s", diff)
	}
}

// runTar runs the system's tar.
func runTar(tb testing.TB, stdin []byte, args ...string) []byte {
	tb.Helper()
	cmd := exec.Command("tar", args...)
	cmd.Stdin, cmd.Env = bytes.NewReader(stdin), append(os.Environ(), "LC_ALL=C.UTF-8")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		tb.Fatalf("tar %q: %v\n%s", args, err, stderr.String())
	}
	return out
}

// needProgram skips the test if a program is missing, or fails it if REQUIRE_TOOLS is set.
func needProgram(tb testing.TB, name string) {
	tb.Helper()
	if _, err := exec.LookPath(name); err == nil {
		return
	}
	if os.Getenv("REQUIRE_TOOLS") != "" {
		tb.Fatalf("%s is not installed", name)
	}
	tb.Skipf("%s is not installed", name)
}

// TestArchiveWithTar packs and unpacks with the tar program on the other side.
func TestArchiveWithTar(t *testing.T) {
	t.Parallel()
	needProgram(t, "tar")
	f := openFS(t)
	source := makeTree(t)
	want := snapshot(t, source)
	t.Run("to tar", func(t *testing.T) {
		t.Parallel()
		for _, way := range []struct {
			compression filesystem.Compression
			flag        string
		}{{"", "-x"}, {"gzip", "-xz"}, {"zstd", "-x"}} {
			packed, _ := archive(t, f, source, filesystem.ArchiveOptions{Compression: way.compression})
			if way.compression == "zstd" {
				needProgram(t, "zstd")
				way.flag = "-xIzstd"
			}
			dir := t.TempDir()
			runTar(t, packed, way.flag, "-p", "-C", dir)
			if diff := cmp.Diff(want, snapshot(t, dir)); diff != "" {
				t.Errorf("%s: changed on the way:\n%s", way.compression, diff)
			}
		}
	})
	for _, format := range []string{"gnu", "posix", "oldgnu"} {
		t.Run("from tar "+format, func(t *testing.T) {
			t.Parallel()
			packed := runTar(t, nil, "-c", "--format="+format, "-C", source, ".")
			dir := t.TempDir()
			mustExtract(t, f, dir, packed)
			if diff := cmp.Diff(want, snapshot(t, dir)); diff != "" {
				t.Errorf("changed on the way:\n%s", diff)
			}
			var a, b unix.Stat_t
			must(t, errors.Join(unix.Stat(filepath.Join(dir, "file"), &a), unix.Stat(filepath.Join(dir, "second name"), &b)))
			if a.Ino != b.Ino {
				t.Error("two names of one file became two files")
			}
		})
	}
}

// TestExtractTarSparse unpacks the formats that GNU tar has for sparse files.
func TestExtractTarSparse(t *testing.T) {
	t.Parallel()
	needProgram(t, "tar")
	source := t.TempDir()
	file, err := os.Create(filepath.Join(source, "sparse"))
	must(t, err)
	for at := int64(0); at < 20<<20; at += 3 << 20 {
		_, err := file.WriteAt([]byte("here"), at)
		must(t, err)
	}
	must(t, errors.Join(file.Truncate(21<<20), file.Close()))
	want, err := os.ReadFile(filepath.Join(source, "sparse"))
	must(t, err)
	for _, format := range []string{"--format=gnu", "--sparse-version=0.0", "--sparse-version=0.1", "--sparse-version=1.0"} {
		args := []string{"-cS", format, "-C", source, "sparse"}
		if strings.HasPrefix(format, "--sparse") {
			args = append([]string{"--format=posix"}, args...)
		}
		packed := runTar(t, nil, args...)
		dir := t.TempDir()
		done := mustExtract(t, openFS(t), dir, packed)
		got, err := os.ReadFile(filepath.Join(dir, "sparse"))
		must(t, err)
		var st unix.Stat_t
		must(t, unix.Stat(filepath.Join(dir, "sparse"), &st))
		if !bytes.Equal(got, want) || st.Blocks*512 > 1<<20 || done.Bytes != 21<<20 || len(packed) > 1<<20 {
			t.Errorf("%s: same content %v, %d bytes on the disk, Bytes = %d", format, bytes.Equal(got, want), st.Blocks*512, done.Bytes)
		}
	}
}

func TestArchiveSkips(t *testing.T) {
	t.Parallel()
	f := openFS(t)
	dir := t.TempDir()
	must(t, syscall.Mkfifo(filepath.Join(dir, "fifo"), 0o600))
	must(t, unix.Mknod(filepath.Join(dir, "socket"), unix.S_IFSOCK|0o600, 0))
	put(t, filepath.Join(dir, ".deskhand-X.tmp", "staged"), "x")
	put(t, filepath.Join(dir, ".deskhand-Y.tmp2"), "x")
	put(t, filepath.Join(dir, "file"), "x")
	packed, done := archive(t, f, dir, filesystem.ArchiveOptions{})
	if done.Skipped != 2 || done.Entries != 2 {
		t.Errorf("Archive of a directory with a FIFO, a socket and two files = %+v, want 2 entries, 2 skipped", done)
	}
	into := t.TempDir()
	mustExtract(t, f, into, packed)
	if diff := cmp.Diff([]string{".deskhand-Y.tmp2", "file"}, names(t, into)); diff != "" {
		t.Error(diff)
	}
}

func TestArchiveUnreadable(t *testing.T) {
	t.Parallel()
	if !unprivileged(t) {
		return
	}
	f := openFS(t)
	dir := t.TempDir()
	put(t, filepath.Join(dir, "file"), "x")
	put(t, filepath.Join(dir, "secret"), "x")
	must(t, os.Mkdir(filepath.Join(dir, "closed"), 0o000))
	must(t, os.Chmod(filepath.Join(dir, "secret"), 0o000))
	_, done := archive(t, f, dir, filesystem.ArchiveOptions{})
	if done.Skipped != 2 || done.Entries != 1 {
		t.Errorf("Archive of one readable and two unreadable entries = %+v, want 1 entry, 2 skipped", done)
	}
	for _, name := range []string{"closed", "secret"} {
		var b bytes.Buffer
		_, err := f.Archive(t.Context(), filepath.Join(dir, name), &b, filesystem.ArchiveOptions{Compression: "gzip"})
		wantError(t, err, os.ErrPermission, dir+"/"+name)
		if b.Len() != 0 {
			t.Errorf("%s: %d bytes were written before the error", name, b.Len())
		}
	}
}

func TestArchiveOne(t *testing.T) {
	t.Parallel()
	dir := realTempDir(t)
	outside := filepath.Join(realTempDir(t), "outside")
	put(t, filepath.Join(dir, "sub", "file"), "file")
	put(t, outside, "outside")
	symlink(t, "sub/file", filepath.Join(dir, "to file"))
	symlink(t, "sub", filepath.Join(dir, "to dir"))
	symlink(t, outside, filepath.Join(dir, "out"))
	must(t, syscall.Mkfifo(filepath.Join(dir, "fifo"), 0o600))
	f := openFS(t, dir)
	for name, want := range map[string]string{"sub/file": "file", "to file": "to file", "sub": "file", "to dir": "file"} {
		packed, done := archive(t, f, filepath.Join(dir, name), filesystem.ArchiveOptions{})
		h, err := tar.NewReader(bytes.NewReader(packed)).Next()
		must(t, err)
		if h.Name != want || h.Typeflag != tar.TypeReg || done.Entries != 1 || done.Bytes != 4 {
			t.Errorf("%s: %q, kind %c, %+v", name, h.Name, h.Typeflag, done)
		}
	}
	for name, kind := range map[string]error{
		"fifo": filesystem.ErrNotFile, "missing": os.ErrNotExist, "out": filesystem.ErrOutside, "../x": filesystem.ErrOutside,
	} {
		var b bytes.Buffer
		_, err := f.Archive(t.Context(), dir+"/"+name, &b, filesystem.ArchiveOptions{})
		wantError(t, err, kind)
		if b.Len() != 0 {
			t.Errorf("%s: %d bytes were written before the error", name, b.Len())
		}
	}
	packed, _ := archive(t, f, dir, filesystem.ArchiveOptions{})
	r := tar.NewReader(bytes.NewReader(packed))
	for h, err := r.Next(); ; h, err = r.Next() {
		must(t, err)
		if h.Name == "out" {
			if h.Typeflag != tar.TypeSymlink || h.Linkname != outside || h.Size != 0 {
				t.Errorf("link out of the root: %+v", h)
			}
			break
		}
	}
	_, err := f.Archive(t.Context(), dir, io.Discard, filesystem.ArchiveOptions{Compression: "rar"})
	wantError(t, err, filesystem.ErrArchive, `"rar" is unknown`)
}

// changingWriter changes a file after its header was written.
type changingWriter struct {
	bytes.Buffer
	change func()
}

func (w *changingWriter) Write(p []byte) (int, error) {
	if w.change != nil {
		w.change()
		w.change = nil
	}
	return w.Buffer.Write(p)
}

// TestArchiveOfChangingFiles checks that an archive is valid when files change
// while they are read.
func TestArchiveOfChangingFiles(t *testing.T) {
	t.Parallel()
	f := openFS(t)
	const size = 3 << 20
	for name, to := range map[string]int64{"shorter": 1 << 20, "longer": size + 10, "empty": 0} {
		dir := t.TempDir()
		file := filepath.Join(dir, "file")
		put(t, file, strings.Repeat("x", size))
		put(t, filepath.Join(dir, "next"), "next")
		w := &changingWriter{change: func() { must(t, os.Truncate(file, to)) }}
		done, err := f.Archive(t.Context(), dir, w, filesystem.ArchiveOptions{})
		must(t, err)
		if done.Changed != 1 || done.Skipped != 0 {
			t.Errorf("%s: Archive = %+v, want 1 changed", name, done)
		}
		into := t.TempDir()
		mustExtract(t, f, into, w.Bytes())
		wantContent(t, filepath.Join(into, "next"), "next")
		if b, err := os.ReadFile(filepath.Join(into, "file")); err != nil || len(b) != size || len(bytes.Trim(b, "x\x00")) > 0 {
			t.Errorf("%s: the file has %d bytes, %v, want %d of x and zeros", name, len(b), err, size)
		}
	}
}

// failingWriter is a client that disconnects.
type failingWriter struct{ left int }

func (w *failingWriter) Write(p []byte) (int, error) {
	if w.left -= len(p); w.left < 0 {
		return 0, syscall.EPIPE
	}
	return len(p), nil
}

func TestArchiveBrokenOff(t *testing.T) {
	t.Parallel()
	f := openFS(t)
	dir := makeTree(t)
	for _, compression := range []filesystem.Compression{"", "gzip", "zstd"} {
		_, err := f.Archive(t.Context(), dir, &failingWriter{10}, filesystem.ArchiveOptions{Compression: compression})
		wantError(t, err, syscall.EPIPE)
	}
}

func TestArchiveProc(t *testing.T) {
	t.Parallel()
	f := openFS(t)
	packed, done := archive(t, f, "/proc/self/net", filesystem.ArchiveOptions{})
	into := t.TempDir()
	mustExtract(t, f, into, packed)
	if b, err := os.ReadFile(filepath.Join(into, "dev")); err != nil || !bytes.Contains(b, []byte("Receive")) {
		t.Errorf("/proc/self/net/dev = %.100q, %v; Archive = %+v", b, err, done)
	}
}
