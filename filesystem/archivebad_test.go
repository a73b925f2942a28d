package filesystem_test

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"golang.org/x/sys/unix"

	"github.com/deskhand/deskhand/filesystem"
)

// gzipped and zstandard compress a text.
func gzipped(tb testing.TB, b []byte) []byte {
	tb.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, err := w.Write(b)
	must(tb, errors.Join(err, w.Close()))
	return out.Bytes()
}

func zstandard(tb testing.TB, b []byte, options ...zstd.EOption) []byte {
	tb.Helper()
	var out bytes.Buffer
	w, err := zstd.NewWriter(&out, options...)
	must(tb, err)
	_, err = w.Write(b)
	must(tb, errors.Join(err, w.Close()))
	return out.Bytes()
}

func TestExtractCutOff(t *testing.T) {
	t.Parallel()
	f := openFS(t)
	text := make([]byte, 2000)
	for i := range text {
		text[i] = byte(rand.Uint32())
	}
	plain := makeTar(t, fileEntry("first", string(text)), dirEntry("d"), fileEntry("d/last", string(text)))
	for name, archive := range map[string][]byte{"tar": plain, "gzip": gzipped(t, plain), "zstd": zstandard(t, plain)} {
		end := len(archive)
		if name == "tar" {
			end -= 1024 // one of the two blocks at the end is enough
		}
		dir := t.TempDir()
		for n := 1; n < end; n += 13 {
			_, err := extract(f, dir, archive[:n])
			if !errors.Is(err, filesystem.ErrArchive) || !strings.Contains(err.Error(), "archive ends early") {
				t.Errorf("%s cut off after %d of %d bytes: %v", name, n, len(archive), err)
			}
		}
		if got := names(t, dir); len(got) != 0 {
			t.Errorf("%s: left %q", name, got)
		}
	}
	_, err := extract(f, t.TempDir(), plain[:len(plain)-2048])
	wantError(t, err, filesystem.ErrArchive, "in or after the entry", "d/last")
}

func TestExtractDamaged(t *testing.T) {
	t.Parallel()
	f := openFS(t)
	text := strings.Repeat("some text", 500)
	plain := makeTar(t, fileEntry("first", text), fileEntry("last", text))
	spoil := func(b []byte, at int) []byte {
		b = bytes.Clone(b)
		b[at] ^= 0x55
		return b
	}
	second := bytes.LastIndex(plain, []byte("last")) // the name in the second header
	gz, zs := gzipped(t, plain), zstandard(t, plain)
	for name, archive := range map[string][]byte{
		"tar header": spoil(plain, second), "gzip": spoil(gz, len(gz)/2), "gzip checksum": spoil(gz, len(gz)-6),
		"zstd": spoil(zs, len(zs)/2), "zstd checksum": spoil(zs, len(zs)-1), "text": []byte(strings.Repeat("no archive\n", 100)),
		"two archives": append(bytes.Clone(plain), plain...),
	} {
		dir := t.TempDir()
		_, err := extract(f, dir, archive)
		if !errors.Is(err, filesystem.ErrArchive) {
			t.Errorf("%s: error %v", name, err)
		}
		if got := names(t, dir); len(got) != 0 {
			t.Errorf("%s: left %q", name, got)
		}
	}
	// An archive on a tape is padded with zeros.
	if _, err := extract(f, t.TempDir(), append(bytes.Clone(plain), make([]byte, 20000)...)); err != nil {
		t.Errorf("filled up: %v", err)
	}
	window := zstandard(t, append(makeTar(t, fileEntry("a", "a")), make([]byte, 1<<20)...), zstd.WithWindowSize(64<<20), zstd.WithSingleSegment(false))
	_, err := extract(f, t.TempDir(), window)
	wantError(t, err, filesystem.ErrTooLarge, "too much memory")
}

func TestExtractLimits(t *testing.T) {
	t.Parallel()
	f := openFS(t)
	var many []member
	for i := range 50 {
		many = append(many, fileEntry(strconv.Itoa(i), "0123456789"))
	}
	archive := makeTar(t, many...)
	for name, test := range map[string]struct {
		options filesystem.ExtractOptions
		says    string
	}{
		"entries": {filesystem.ExtractOptions{MaxEntries: 49}, "more than 49 entries (MaxEntries)"},
		"bytes":   {filesystem.ExtractOptions{MaxBytes: 499}, "more than 499 bytes (MaxBytes)"},
	} {
		dir := t.TempDir()
		_, err := f.Extract(t.Context(), dir, bytes.NewReader(archive), test.options)
		wantError(t, err, filesystem.ErrTooLarge, test.says)
		if got := names(t, dir); len(got) != 0 {
			t.Errorf("%s: left %q", name, got)
		}
	}
	for name, options := range map[string]filesystem.ExtractOptions{
		"just enough": {MaxEntries: 50, MaxBytes: 500, MaxDepth: 1},
		"none":        {MaxEntries: -1, MaxBytes: -1, MaxRatio: -1, MaxDepth: -1},
	} {
		if done, err := f.Extract(t.Context(), t.TempDir(), bytes.NewReader(archive), options); err != nil || done.Entries != 50 {
			t.Errorf("%s: %+v, %v", name, done, err)
		}
	}
}

// TestExtractImpliedDirectories checks that directories that the names of files imply count.
func TestExtractImpliedDirectories(t *testing.T) {
	t.Parallel()
	f := openFS(t)
	var many []member
	for i := range 600 {
		many = append(many, fileEntry(strconv.Itoa(i)+strings.Repeat("/a", 200), ""))
	}
	for name, test := range map[string]struct {
		members []member
		options filesystem.ExtractOptions
		says    string
	}{
		"number": {many[:1], filesystem.ExtractOptions{MaxEntries: 199}, "more than 199 directories (MaxEntries)"},
		"ratio":  {many, filesystem.ExtractOptions{}, "(MaxRatio)"},
	} {
		dir := t.TempDir()
		_, err := f.Extract(t.Context(), dir, bytes.NewReader(gzipped(t, makeTar(t, test.members...))), test.options)
		wantError(t, err, filesystem.ErrTooLarge, test.says)
		if got := names(t, dir); len(got) != 0 {
			t.Errorf("%s: left %q", name, got)
		}
	}
	one := filesystem.ExtractOptions{MaxEntries: 200}
	if _, err := f.Extract(t.Context(), t.TempDir(), bytes.NewReader(makeTar(t, many[:1]...)), one); err != nil {
		t.Errorf("200 directories: %v", err)
	}
}

// TestExtractBombs checks that an archive that expands without end is refused early.
func TestExtractBombs(t *testing.T) {
	t.Parallel()
	f := openFS(t)
	const size = 1 << 40
	var header bytes.Buffer
	must(t, tar.NewWriter(&header).WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "zeros", Mode: 0o644, Size: size}))
	zeros := make([]byte, 1<<20)
	for name, pack := range map[string]func([]byte) []byte{
		"gzip": func(b []byte) []byte { return gzipped(t, b) }, "zstd": func(b []byte) []byte { return zstandard(t, b) },
	} {
		dir := t.TempDir()
		bomb := &repeated{first: pack(header.Bytes()), rest: pack(zeros)}
		_, err := f.Extract(t.Context(), dir, bomb, filesystem.ExtractOptions{})
		wantError(t, err, filesystem.ErrTooLarge, "more than 500 times its size (MaxRatio)")
		if bomb.n > 1<<20 {
			t.Errorf("%s: %d bytes were read of it", name, bomb.n)
		}
		if got := names(t, dir); len(got) != 0 {
			t.Errorf("%s: left %q", name, got)
		}
	}
	// A sparse file expands without compression.
	dir := t.TempDir()
	_, err := extract(f, dir, sparseTar(t, 1<<40))
	wantError(t, err, filesystem.ErrTooLarge, "MaxRatio")
	_, err = extract(f, dir, sparseTar(t, 1<<62))
	wantError(t, err, filesystem.ErrTooLarge, "MaxBytes")
	if got := names(t, dir); len(got) != 0 {
		t.Errorf("sparse: left %q", got)
	}
}

// repeated is a compressed stream of many parts, which both formats allow.
type repeated struct {
	first, rest []byte
	at, n       int
}

func (r *repeated) Read(p []byte) (int, error) {
	if r.at == len(r.first) {
		r.first, r.at = r.rest, 0
	}
	n := copy(p, r.first[r.at:])
	r.at += n
	r.n += n
	return n, nil
}

// sparseTar makes an archive with a file that has one byte at its beginning,
// and then a hole up to its size: format 0.1 of GNU tar.
func sparseTar(tb testing.TB, size int64) []byte {
	tb.Helper()
	// Package tar does not write these records, so they get their names late.
	records := map[string]string{
		"GNX.sparse.major": "0", "GNX.sparse.minor": "1", "GNX.sparse.size": strconv.FormatInt(size, 10),
		"GNX.sparse.map": "0,1", "GNX.sparse.numblocks": "1",
	}
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	must(tb, w.WriteHeader(&tar.Header{
		Typeflag: tar.TypeReg, Name: "sparse", Mode: 0o644, Size: 1, Format: tar.FormatPAX, PAXRecords: records,
	}))
	_, err := w.Write([]byte("x"))
	must(tb, errors.Join(err, w.Close()))
	return bytes.ReplaceAll(b.Bytes(), []byte("GNX."), []byte("GNU."))
}

func TestExtractSparse(t *testing.T) {
	t.Parallel()
	f := openFS(t)
	const size = 40<<20 + 5
	dir := t.TempDir()
	done := mustExtract(t, f, dir, sparseTar(t, size))
	if done.Bytes != size {
		t.Errorf("Bytes = %d, want %d", done.Bytes, size)
	}
	var st unix.Stat_t
	must(t, unix.Stat(filepath.Join(dir, "sparse"), &st))
	if st.Size != size || st.Blocks > 64 {
		t.Errorf("file has %d bytes in %d blocks, want %d in a few", st.Size, st.Blocks, size)
	}
	got, err := os.ReadFile(filepath.Join(dir, "sparse"))
	must(t, err)
	if got[0] != 'x' || len(bytes.TrimLeft(got[1:], "\x00")) != 0 {
		t.Error("wrong content")
	}
}

// endingReader returns the beginning of an archive, and then an error.
type endingReader struct {
	reader io.Reader
	end    func() error
}

func (r endingReader) Read(p []byte) (int, error) {
	n, err := r.reader.Read(p)
	if errors.Is(err, io.EOF) {
		err = r.end()
	}
	return n, err
}

func TestExtractBrokenOff(t *testing.T) {
	t.Parallel()
	archive := makeTar(t, fileEntry("a", "a"), fileEntry("b", strings.Repeat("b", 100_000)))
	half := bytes.NewReader(archive[:len(archive)/2])
	dir := t.TempDir()

	f := openFS(t)
	broken := errors.New("connection reset")
	_, err := f.Extract(t.Context(), dir, endingReader{half, func() error { return broken }}, filesystem.ExtractOptions{})
	wantError(t, err, broken, "not sent to its end", "connection reset")
	if errors.Is(err, filesystem.ErrArchive) {
		t.Error("the error for a broken connection is ErrArchive")
	}

	ctx, cancel := context.WithCancel(t.Context())
	half.Reset(archive[:len(archive)/2])
	_, err = f.Extract(ctx, dir, endingReader{half, func() error { cancel(); return nil }}, filesystem.ExtractOptions{})
	wantError(t, err, context.Canceled)

	closing, err := filesystem.Open(filesystem.Config{})
	must(t, err)
	done := make(chan error, 1)
	half.Reset(archive[:len(archive)/2])
	var once bool
	_, err = closing.Extract(t.Context(), dir, endingReader{half, func() error {
		if !once {
			once = true
			go func() { done <- closing.Close() }()
		}
		return nil
	}}, filesystem.ExtractOptions{})
	wantError(t, err, filesystem.ErrClosed)
	must(t, <-done)
	if got := names(t, dir); len(got) != 0 {
		t.Errorf("left %q", got)
	}
}

func TestExtractDiskFull(t *testing.T) {
	t.Parallel()
	if !inNamespace(t) {
		return
	}
	dir := t.TempDir()
	mount(t, "tmpfs", dir, "tmpfs", 0, "size=1m")
	put(t, filepath.Join(dir, "old"), "old")
	before := snapshot(t, dir)
	f := openFS(t)
	_, err := extract(f, dir, makeTar(t, fileEntry("old", "new"), fileEntry("large", strings.Repeat("x", 2<<20))))
	wantError(t, err, filesystem.ErrNoSpace, "no space left", "/large")
	if diff := cmp.Diff(before, snapshot(t, dir)); diff != "" {
		t.Errorf("the destination changed:\n%s", diff)
	}
	var st unix.Statfs_t
	must(t, unix.Statfs(dir, &st))
	if used := int64(st.Blocks-st.Bfree) * st.Bsize; used > 64<<10 {
		t.Errorf("%d bytes are still in use", used)
	}
}

// TestExtractMountPoints checks that an entry that cannot be moved to its place is an error
// before any entry is moved.
func TestExtractMountPoints(t *testing.T) {
	t.Parallel()
	if !inNamespace(t) {
		return
	}
	dir, other := t.TempDir(), t.TempDir()
	for _, name := range []string{"tmpfs", "bind"} {
		must(t, os.Mkdir(filepath.Join(dir, name), 0o755))
	}
	put(t, filepath.Join(dir, "file"), "file")
	put(t, filepath.Join(other, "file"), "other")
	mount(t, "tmpfs", filepath.Join(dir, "tmpfs"), "tmpfs", 0, "")
	bind(t, other, filepath.Join(dir, "bind"))
	bind(t, filepath.Join(other, "file"), filepath.Join(dir, "file"))
	before := snapshot(t, dir)
	f := openFS(t)
	for name, test := range map[string]struct {
		member member
		kind   error
	}{
		"/tmpfs": {fileEntry("tmpfs/x", "x"), fs.ErrExist}, "/bind": {fileEntry("bind/x", "x"), fs.ErrExist},
		"/file": {fileEntry("file", "x"), filesystem.ErrBusy},
	} {
		_, err := extract(f, dir, makeTar(t, fileEntry("aaa", "x"), test.member))
		wantError(t, err, test.kind, dir+name)
	}
	if diff := cmp.Diff(before, snapshot(t, dir)); diff != "" {
		t.Errorf("the destination changed:\n%s", diff)
	}
	mustExtract(t, f, filepath.Join(dir, "bind"), makeTar(t, fileEntry("x", "x")))
	wantContent(t, filepath.Join(other, "x"), "x")
}

// TestExtractWithoutRights has directories without write permission, in the archive and in the
// destination.
func TestExtractWithoutRights(t *testing.T) {
	t.Parallel()
	if !unprivileged(t) {
		return
	}
	f := openFS(t)
	dir := t.TempDir()
	t.Cleanup(func() {
		for _, name := range []string{"locked", "locked/sub", "closed"} {
			_ = os.Chmod(filepath.Join(dir, name), 0o700) // for TempDir
		}
	})
	archive := makeTar(
		t, member{name: "locked/", kind: tar.TypeDir, mode: 0o500}, member{name: "locked/sub/", kind: tar.TypeDir, mode: 0o040},
		fileEntry("locked/sub/file", "x"), fileEntry("locked/file", "x"), member{name: "none", mode: 0o040, content: "x"},
	)
	mustExtract(t, f, dir, archive)
	for name, want := range map[string]fs.FileMode{"locked": fs.ModeDir | 0o500, "locked/sub": fs.ModeDir | 0o040, "none": 0o040} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Mode() != want || !info.ModTime().Equal(someTime) {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
	must(t, os.Mkdir(filepath.Join(dir, "closed"), 0o555))
	_, err := extract(f, dir, makeTar(t, fileEntry("aaa", "x"), fileEntry("closed/x", "x")))
	wantError(t, err, fs.ErrPermission, dir+"/closed")
	wantMissing(t, filepath.Join(dir, "aaa"))
	_, err = extract(f, filepath.Join(dir, "closed"), makeTar(t, fileEntry("x", "x")))
	wantError(t, err, fs.ErrPermission, dir+"/closed")
	noHidden(t, dir)
}

func TestExtractDestination(t *testing.T) {
	t.Parallel()
	f := openFS(t)
	parent := t.TempDir()
	put(t, filepath.Join(parent, "file"), "file")
	one := makeTar(t, fileEntry("x", "x"))
	bad := makeTar(t, fileEntry("x", "x"), fileEntry("../y", "x"))
	_, err := extract(f, filepath.Join(parent, "file"), one)
	wantError(t, err, filesystem.ErrNotDirectory, parent+"/file")
	_, err = extract(f, filepath.Join(parent, "file", "below"), one)
	wantError(t, err, filesystem.ErrNotDirectory)
	_, err = extract(f, filepath.Join(parent, "a", "b", "c"), bad)
	wantError(t, err, filesystem.ErrArchive)
	wantMissing(t, filepath.Join(parent, "a"))
	must(t, os.Mkdir(filepath.Join(parent, "a"), 0o755))
	_, err = extract(f, filepath.Join(parent, "a", "b", "c"), bad)
	wantError(t, err, filesystem.ErrArchive)
	if got := names(t, filepath.Join(parent, "a")); len(got) != 0 {
		t.Errorf("left %q", got)
	}
	_, err = extract(f, "../x", one)
	wantError(t, err, filesystem.ErrInvalidPath, "invalid relative path: ../x")
	done := mustExtract(t, f, "", one)
	wantContent(t, filepath.Join(f.Home(), "x"), "x")
	if done.Paths[0] != filepath.Join(f.Home(), "x") {
		t.Errorf("Paths = %q", done.Paths)
	}
	symlink(t, "a", filepath.Join(parent, "link"))
	mustExtract(t, f, filepath.Join(parent, "link", "new"), one)
	wantContent(t, filepath.Join(parent, "a", "new", "x"), "x")
	narrow := openFS(t, filepath.Join(parent, "a"))
	symlink(t, "..", filepath.Join(parent, "a", "up"))
	_, err = extract(narrow, filepath.Join(parent, "a", "up"), one)
	wantError(t, err, filesystem.ErrOutside)
	wantMissing(t, filepath.Join(parent, "x"))
}

// TestExtractStages checks where entries are while an archive is read, and that the staging
// directory is locked against sweep.
func TestExtractStages(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	archive := makeTar(t, fileEntry("x", strings.Repeat("x", 200_000)), fileEntry("y", "y"))
	checked := false
	_, err := openFS(t).Extract(t.Context(), dir, endingReader{bytes.NewReader(archive), func() error {
		checked = true
		staged := names(t, dir)
		if len(staged) != 1 || !strings.HasPrefix(staged[0], ".deskhand-") || !strings.HasSuffix(staged[0], ".tmp") {
			t.Errorf("while unpacking, the destination holds %q", staged)
			return io.EOF
		}
		wantContent(t, filepath.Join(dir, staged[0], "y"), "y")
		lock, err := os.Open(filepath.Join(dir, staged[0]))
		must(t, err)
		defer lock.Close()
		if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != syscall.EWOULDBLOCK {
			t.Errorf("lock: %v, want it held", err)
		}
		return io.EOF
	}}, filesystem.ExtractOptions{})
	must(t, err)
	if got := names(t, dir); !checked || len(got) != 2 {
		t.Errorf("checked %v, then the destination holds %q", checked, got)
	}
}
