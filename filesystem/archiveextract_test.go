package filesystem_test

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/deskhand/deskhand/filesystem"
)

// openFS opens the whole file system, or only the given roots.
func openFS(tb testing.TB, roots ...string) *filesystem.FS {
	tb.Helper()
	config := filesystem.Config{Home: tb.TempDir()}
	for _, r := range roots {
		config.Roots = append(config.Roots, filesystem.Root{Path: r})
	}
	return open(tb, config)
}

// member is an entry of an archive to make.
type member struct {
	name, link, content string
	kind                byte // zero means a file, or a directory when the name ends in a slash
	mode                int64
	modified            time.Time
}

var someTime = time.Date(2024, 2, 29, 12, 34, 56, 123456789, time.UTC)

func dirEntry(name string) member        { return member{name: name, kind: tar.TypeDir, mode: 0o755} }
func fileEntry(name, text string) member { return member{name: name, content: text} }
func linkEntry(name, to string) member   { return member{name: name, link: to, kind: tar.TypeSymlink} }
func hardEntry(name, to string) member   { return member{name: name, link: to, kind: tar.TypeLink} }

// makeTar makes an archive of the members.
func makeTar(tb testing.TB, members ...member) []byte {
	tb.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, m := range members {
		h := &tar.Header{
			Typeflag: m.kind, Name: m.name, Linkname: m.link, Size: int64(len(m.content)), Mode: m.mode,
			ModTime: m.modified, Format: tar.FormatPAX,
		}
		if h.Typeflag == 0 {
			h.Typeflag = tar.TypeReg
		}
		if h.Mode == 0 {
			h.Mode = 0o644
		}
		if h.ModTime.IsZero() {
			h.ModTime = someTime
		}
		if err := w.WriteHeader(h); err != nil {
			tb.Fatalf("%q: %v", m.name, err)
		}
		if _, err := io.WriteString(w, m.content); err != nil {
			tb.Fatalf("%q: %v", m.name, err)
		}
	}
	if err := w.Close(); err != nil {
		tb.Fatal(err)
	}
	return b.Bytes()
}

func extract(f *filesystem.FS, dir string, archive []byte) (filesystem.Extracted, error) {
	return f.Extract(context.Background(), dir, bytes.NewReader(archive), filesystem.ExtractOptions{NoSync: true})
}

func mustExtract(tb testing.TB, f *filesystem.FS, dir string, archive []byte) filesystem.Extracted {
	tb.Helper()
	done, err := extract(f, dir, archive)
	if err != nil {
		tb.Fatalf("Extract: %v", err)
	}
	return done
}

// timedSnapshot is like snapshot, with the times of all entries below a directory.
func timedSnapshot(tb testing.TB, dir string) map[string]string {
	tb.Helper()
	all := snapshot(tb, dir)
	delete(all, "")
	for name, text := range all {
		info, err := os.Lstat(dir + name)
		must(tb, err)
		all[name] = fmt.Sprint(text, " ", info.ModTime().UnixNano())
	}
	return all
}

func symlink(tb testing.TB, target, name string) {
	tb.Helper()
	must(tb, os.Symlink(target, name))
}

func TestExtract(t *testing.T) {
	t.Parallel()
	f := openFS(t)
	dir := filepath.Join(t.TempDir(), "new", "directory")
	archive := makeTar(
		t, dirEntry("./"),
		member{name: "./bin/", kind: tar.TypeDir, mode: 0o2750},
		member{name: "./bin/run", content: "#!/bin/sh\n", mode: 0o4755},
		fileEntry("empty", ""),
		linkEntry("bin/sh", "run"),
		linkEntry("up", "bin/../empty"),
		hardEntry("bin/again", "bin/run"),
		fileEntry("implied/by/name", "x"),
		fileEntry("new\nline", "y"),
		fileEntry("bad\xff\xfeutf8", "z"),
		fileEntry(strings.Repeat("long/", 60)+strings.Repeat("n", 255), "long"),
		member{name: "locked/", kind: tar.TypeDir, mode: 0o500},
		fileEntry("locked/in", "in"),
	)
	done := mustExtract(t, f, dir, archive)
	if done.Entries != 12 || done.Bytes != int64(len("#!/bin/sh\nxyzlongin")) || done.Truncated {
		t.Errorf("Entries, Bytes, Truncated = %d, %d, %v", done.Entries, done.Bytes, done.Truncated)
	}
	if want := filepath.Join(dir, "bin"); done.Paths[0] != want || len(done.Paths) != 12 {
		t.Errorf("Paths = %q, want 12, the first one %q", done.Paths, want)
	}
	for name, want := range map[string]string{
		"bin/run": "#!/bin/sh\n", "bin/sh": "#!/bin/sh\n", "bin/again": "#!/bin/sh\n", "up": "", "implied/by/name": "x",
		"new\nline": "y", "bad\xff\xfeutf8": "z", strings.Repeat("long/", 60) + strings.Repeat("n", 255): "long",
	} {
		wantContent(t, filepath.Join(dir, name), want)
	}
	for name, want := range map[string]fs.FileMode{
		"bin": fs.ModeDir | 0o750, "bin/run": 0o755, "empty": 0o644, "locked": fs.ModeDir | 0o500,
	} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode() != want || !info.ModTime().Equal(someTime) {
			t.Errorf("%s: mode %v, time %v; want %v, %v", name, info.Mode(), info.ModTime(), want, someTime)
		}
	}
	if info, err := os.Lstat(filepath.Join(dir, "bin/sh")); err != nil || !info.ModTime().Equal(someTime) {
		t.Errorf("link: %v, %v", info.ModTime(), err)
	}
	noHidden(t, dir)
}

// noHidden fails if an extraction has left a hidden entry.
func noHidden(tb testing.TB, dir string) {
	tb.Helper()
	for _, name := range names(tb, dir) {
		if strings.HasPrefix(name, ".deskhand-") {
			tb.Errorf("%s was left behind", name)
		}
	}
}

func TestExtractEmpty(t *testing.T) {
	t.Parallel()
	f := openFS(t)
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	for name, archive := range map[string][]byte{"no bytes": nil, "no entries": makeTar(t), "gzip of no bytes": packed.Bytes()} {
		for _, compression := range []filesystem.Compression{"", filesystem.CompressionGzip} {
			if compression != "" && name == "no entries" {
				continue
			}
			dir := filepath.Join(t.TempDir(), "d")
			done, err := f.Extract(t.Context(), dir, bytes.NewReader(archive), filesystem.ExtractOptions{Compression: compression})
			if err != nil || done.Entries != 0 || len(done.Paths) != 0 {
				t.Errorf("%s, %q: %+v, %v", name, compression, done, err)
			}
			if len(names(t, dir)) != 0 {
				t.Errorf("%s: not empty", name)
			}
		}
	}
}

func TestExtractCompressed(t *testing.T) {
	t.Parallel()
	f := openFS(t)
	plain := makeTar(t, fileEntry("a", strings.Repeat("some text\n", 1000)), fileEntry("BZh is no archive", "x"))
	var gz, zs, skip bytes.Buffer
	z := gzip.NewWriter(&gz)
	s, err := zstd.NewWriter(&zs)
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range []io.WriteCloser{z, s} {
		if _, err := w.Write(plain); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
	skip.WriteString("\x50\x2a\x4d\x18\x03\x00\x00\x00abc") // a skippable frame, RFC 8878 section 3.1.2
	skip.Write(zs.Bytes())
	for name, archive := range map[string][]byte{"tar": plain, "gzip": gz.Bytes(), "zstd": zs.Bytes(), "zstd after a frame": skip.Bytes()} {
		dir := t.TempDir()
		if done := mustExtract(t, f, dir, archive); done.Entries != 2 || done.Bytes != 10001 {
			t.Errorf("%s: %+v", name, done)
		}
	}
	_, err = f.Extract(t.Context(), t.TempDir(), bytes.NewReader(plain), filesystem.ExtractOptions{Compression: filesystem.CompressionGzip})
	wantError(t, err, filesystem.ErrArchive, "damaged")
	_, err = f.Extract(t.Context(), t.TempDir(), bytes.NewReader(plain), filesystem.ExtractOptions{Compression: "rar"})
	wantError(t, err, filesystem.ErrArchive, `"rar" is unknown`)
	for name, first := range map[string]string{"xz": "\xfd7zXZ\x00\x00\x04", "bzip2": "BZh91AY&SY", "zip": "PK\x03\x04"} {
		_, err := extract(f, t.TempDir(), []byte(first+strings.Repeat("x", 2000)))
		wantError(t, err, filesystem.ErrArchive, name+" are not supported")
	}
}

// TestExtractRefuses checks archives that Extract must refuse. Each has good entries before and
// after the bad one, none of which may appear. The reference implementation leaves the entries
// before the bad one, and follows links (S5, S7).
func TestExtractRefuses(t *testing.T) {
	t.Parallel()
	outside := t.TempDir()
	put(t, filepath.Join(outside, "secret"), "secret")
	for name, test := range map[string]struct {
		members []member
		kind    error
		says    string
	}{
		"absolute":                  {[]member{fileEntry("/etc/passwd", "x")}, filesystem.ErrArchive, "invalid relative path: /etc/passwd"},
		"dotdot":                    {[]member{fileEntry("a/../../x", "x")}, filesystem.ErrArchive, "invalid relative path: a/../../x"},
		"dotdot that stays":         {[]member{fileEntry("a/../x", "x")}, filesystem.ErrArchive, "invalid relative path"},
		"file as destination":       {[]member{fileEntry(".", "x")}, filesystem.ErrArchive, "place of the destination"},
		"long name":                 {[]member{fileEntry(strings.Repeat("n", 256), "x")}, filesystem.ErrArchive, "255"},
		"long path":                 {[]member{fileEntry(strings.Repeat(strings.Repeat("n", 200)+"/", 25)+"x", "x")}, filesystem.ErrArchive, "4096"},
		"deep":                      {[]member{fileEntry(strings.Repeat("d/", 300)+"x", "x")}, filesystem.ErrTooLarge, "MaxDepth"},
		"absolute link":             {[]member{linkEntry("l", outside)}, filesystem.ErrArchive, "absolute symbolic link: l"},
		"climbing link":             {[]member{linkEntry("d/l", "../../x")}, filesystem.ErrArchive, "leads out of the destination: d/l"},
		"link to nothing":           {[]member{linkEntry("l", "")}, filesystem.ErrArchive, "link to nothing"},
		"writing through a link":    {[]member{linkEntry("l", "good"), fileEntry("l/x", "x")}, filesystem.ErrArchive, "entries below it: l"},
		"S5 link, then through it":  {[]member{linkEntry("lnk", outside), fileEntry("lnk/pwned.txt", "x")}, filesystem.ErrArchive, "lnk"},
		"S5 hard link":              {[]member{hardEntry("h", filepath.Join(outside, "secret"))}, filesystem.ErrArchive, "hard link"},
		"hard link that climbs":     {[]member{hardEntry("h", "../secret")}, filesystem.ErrArchive, "hard link"},
		"hard link forward":         {[]member{hardEntry("h", "later"), fileEntry("later", "x")}, filesystem.ErrArchive, "came before"},
		"hard link to a link":       {[]member{linkEntry("l", "x"), hardEntry("h", "l")}, filesystem.ErrArchive, "came before"},
		"hard link to a directory":  {[]member{dirEntry("d"), hardEntry("h", "d")}, filesystem.ErrArchive, "came before"},
		"hard link to an old file":  {[]member{hardEntry("h", "olddir/file")}, filesystem.ErrArchive, "came before"},
		"character device":          {[]member{{name: "n", kind: tar.TypeChar}}, filesystem.ErrArchive, "device or FIFO: n"},
		"block device":              {[]member{{name: "n", kind: tar.TypeBlock}}, filesystem.ErrArchive, "device or FIFO: n"},
		"FIFO":                      {[]member{{name: "n", kind: tar.TypeFifo}}, filesystem.ErrArchive, "device or FIFO: n"},
		"file, then directory":      {[]member{fileEntry("x", "x"), dirEntry("x")}, filesystem.ErrArchive, "file and a directory"},
		"directory, then file":      {[]member{dirEntry("x"), fileEntry("x", "x")}, filesystem.ErrArchive, "different kinds: x"},
		"link, then file":           {[]member{linkEntry("x", "y"), fileEntry("x", "x")}, filesystem.ErrArchive, "different kinds: x"},
		"file, then link":           {[]member{fileEntry("x", "x"), linkEntry("x", "y")}, filesystem.ErrArchive, "different kinds: x"},
		"link, then hard link":      {[]member{fileEntry("y", "y"), linkEntry("x", "y"), hardEntry("x", "y")}, filesystem.ErrArchive, "different kinds: x"},
		"file below a file":         {[]member{fileEntry("x", "x"), fileEntry("x/y", "y")}, filesystem.ErrArchive, "file and a directory"},
		"directory over a file":     {[]member{dirEntry("old")}, fs.ErrExist, "/old"},
		"file below a file there":   {[]member{fileEntry("old/x", "x")}, fs.ErrExist, "/old"},
		"file over a directory":     {[]member{fileEntry("olddir", "x")}, fs.ErrExist, "/olddir"},
		"link over a directory":     {[]member{linkEntry("olddir", "x")}, fs.ErrExist, "/olddir"},
		"existing link out":         {[]member{fileEntry("out/x", "x")}, filesystem.ErrOutside, "/out"},
		"existing link out, as dir": {[]member{dirEntry("out")}, filesystem.ErrOutside, "/out"},
		"existing link up":          {[]member{fileEntry("olddir/up/x", "x")}, filesystem.ErrOutside, "/olddir/up"},
		"existing dangling link":    {[]member{fileEntry("dangling/x", "x")}, fs.ErrExist, "/dangling"},
		"existing link to here":     {[]member{fileEntry("here/x", "x")}, fs.ErrExist, "/here"},

		// Links whose text stays inside, but that lead outside through other links.
		"chain out": {[]member{
			linkEntry("a/b/c/top", "../../.."), linkEntry("l", "a/b/c/top/.."),
		}, filesystem.ErrArchive, "leads out of the destination: l"},
		"chain out, other order": {[]member{
			linkEntry("l", "a/b/c/top/.."), linkEntry("a/b/c/top", "../../.."),
		}, filesystem.ErrArchive, "leads out of the destination: l"},
		"climbing from nowhere":      {[]member{linkEntry("l", "no/../x")}, filesystem.ErrArchive, "leads out of the destination: l"},
		"climbing from a file":       {[]member{linkEntry("l", "good/../x")}, filesystem.ErrArchive, "leads out of the destination: l"},
		"through an existing link":   {[]member{linkEntry("l", "out/secret")}, filesystem.ErrArchive, "leads out of the destination: l"},
		"through two existing links": {[]member{linkEntry("l", "olddir/up/x")}, filesystem.ErrArchive, "leads out of the destination: l"},
		"by way of an existing link": {[]member{linkEntry("l", "here/../x")}, filesystem.ErrArchive, "leads out of the destination: l"},
	} {
		for _, narrow := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/narrow=%v", name, narrow), func(t *testing.T) {
				t.Parallel()
				parent := t.TempDir()
				dir := filepath.Join(parent, "dir")
				put(t, filepath.Join(dir, "old"), "old")
				put(t, filepath.Join(dir, "olddir", "file"), "old")
				symlink(t, outside, filepath.Join(dir, "out"))
				symlink(t, "../..", filepath.Join(dir, "olddir", "up"))
				symlink(t, "nowhere", filepath.Join(dir, "dangling"))
				symlink(t, ".", filepath.Join(dir, "here"))
				f := openFS(t)
				if narrow {
					f = openFS(t, parent)
				}
				before, beforeOutside := timedSnapshot(t, parent), timedSnapshot(t, outside)
				members := append([]member{fileEntry("good", "x"), fileEntry("old", "new")}, test.members...)
				done, err := extract(f, dir, makeTar(t, append(members, fileEntry("last", "x"))...))
				wantError(t, err, test.kind, test.says)
				if done.Entries != 0 || done.Paths != nil {
					t.Errorf("Extract = %+v with an error", done)
				}
				after := timedSnapshot(t, parent)
				delete(before, "/dir") // its time changes
				delete(after, "/dir")
				if diff := cmp.Diff(before, after); diff != "" {
					t.Errorf("the destination changed:\n%s", diff)
				}
				if diff := cmp.Diff(beforeOutside, timedSnapshot(t, outside)); diff != "" {
					t.Errorf("outside of the destination changed:\n%s", diff)
				}
			})
		}
	}
}

// TestExtractMerges checks what happens to existing entries.
func TestExtractMerges(t *testing.T) {
	t.Parallel()
	f := openFS(t)
	dir := t.TempDir()
	put(t, filepath.Join(dir, "both", "kept"), "kept")
	put(t, filepath.Join(dir, "both", "replaced"), "old")
	put(t, filepath.Join(dir, "releases", "5", "kept"), "kept")
	put(t, filepath.Join(dir, "target"), "target")
	if err := os.Chmod(filepath.Join(dir, "both"), 0o700); err != nil {
		t.Fatal(err)
	}
	symlink(t, "releases/5", filepath.Join(dir, "current"))
	symlink(t, filepath.Join(dir, "releases"), filepath.Join(dir, "absolute"))
	symlink(t, "target", filepath.Join(dir, "link"))
	symlink(t, "releases", filepath.Join(dir, "linkdir"))
	if err := syscall.Mkfifo(filepath.Join(dir, "fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	open, err := os.Open(filepath.Join(dir, "both", "replaced"))
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	done := mustExtract(t, f, dir, makeTar(
		t, dirEntry("both/"), fileEntry("both/replaced", "new"), fileEntry("both/added", "added"),
		fileEntry("current/new", "5"), linkEntry("current/back", "../../target"), fileEntry("absolute/6/file", "6"),
		fileEntry("link", "no link any more"), linkEntry("linkdir", "both"), fileEntry("fifo", "no fifo any more"),
		fileEntry("twice", "first"), fileEntry("twice", "second"), linkEntry("circle", "circle"),
		fileEntry("same", "same"), hardEntry("same", "same"),
	))
	if want := filepath.Join(dir, "current/new"); !slices.Contains(done.Paths, want) {
		t.Errorf("Paths = %q, want %q among them", done.Paths, want)
	}
	for name, want := range map[string]string{
		"both/kept": "kept", "both/replaced": "new", "both/added": "added", "releases/5/kept": "kept", "releases/5/new": "5",
		"releases/5/back": "target", "releases/6/file": "6", "link": "no link any more", "target": "target",
		"linkdir/added": "added", "fifo": "no fifo any more", "twice": "second", "same": "same",
	} {
		wantContent(t, filepath.Join(dir, name), want)
	}
	if b, err := io.ReadAll(open); err != nil || string(b) != "old" {
		t.Errorf("the open replaced file has %q, %v; want the old content", b, err)
	}
	if info, err := os.Stat(filepath.Join(dir, "both")); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("existing directory: %v, %v; want its mode kept", info.Mode(), err)
	}
	noHidden(t, dir)
}

func TestExtractReturnsFirstPaths(t *testing.T) {
	t.Parallel()
	f := openFS(t)
	var members []member
	for i := range 1030 {
		members = append(members, fileEntry(strconv.Itoa(i), ""))
	}
	dir := t.TempDir()
	done := mustExtract(t, f, dir, makeTar(t, members...))
	if len(done.Paths) != 1024 || !done.Truncated || done.Entries != 1030 || done.Paths[1023] != filepath.Join(dir, "1023") {
		t.Errorf("%d paths, truncated %v, %d entries, last path %s", len(done.Paths), done.Truncated, done.Entries, done.Paths[1023])
	}
	done = mustExtract(t, f, t.TempDir(), makeTar(t, members[:1024]...))
	if len(done.Paths) != 1024 || done.Truncated {
		t.Errorf("of 1024: %d paths, truncated %v", len(done.Paths), done.Truncated)
	}
}

// TestExtractConcurrently unpacks several archives into one directory.
func TestExtractConcurrently(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	f := openFS(t)
	const archives = 20
	var wg sync.WaitGroup
	for i := range archives {
		text := strconv.Itoa(i)
		archive := makeTar(
			t, fileEntry("same/a", text), fileEntry("same/sub/b", text), fileEntry("same/sub/own"+text, text), fileEntry("c", text),
		)
		wg.Go(func() {
			if _, err := extract(f, filepath.Join(dir, "new"), archive); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	a, err := os.ReadFile(filepath.Join(dir, "new", "c"))
	must(t, err)
	for _, name := range []string{"same/a", "same/sub/b"} { // all of the same archive
		wantContent(t, filepath.Join(dir, "new", name), string(a))
	}
	if got := names(t, filepath.Join(dir, "new", "same", "sub")); len(got) != archives+1 {
		t.Errorf("%d files, want %d: %q", len(got), archives+1, got)
	}
	noHidden(t, filepath.Join(dir, "new"))
}
