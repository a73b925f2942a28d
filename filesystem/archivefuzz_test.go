package filesystem_test

import (
	"archive/tar"
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/deskhand/deskhand/filesystem"
)

// scriptedTar makes an archive from a script with a line for each entry: its kind, a space, its
// name and, for a link, " -> " and the target. ok is false if package tar cannot write an
// entry.
func scriptedTar(script string) (archive []byte, ok bool) {
	kinds := map[string]byte{
		"f": tar.TypeReg, "d": tar.TypeDir, "l": tar.TypeSymlink, "h": tar.TypeLink, "p": tar.TypeFifo, "c": tar.TypeChar,
	}
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	lines := strings.Split(script, "\n")
	for _, line := range lines[:min(len(lines), 20)] {
		kind, rest, _ := strings.Cut(line, " ")
		name, target, _ := strings.Cut(rest, " -> ")
		h := &tar.Header{Typeflag: kinds[kind], Name: name, Linkname: target, Mode: 0o755, ModTime: someTime}
		if h.Typeflag == 0 {
			h.Typeflag = tar.TypeReg
		}
		if h.Typeflag == tar.TypeReg {
			h.Size = 3
		}
		if w.WriteHeader(h) != nil {
			return nil, false
		}
		if h.Typeflag == tar.TypeReg {
			if _, err := w.Write([]byte("new")); err != nil {
				return nil, false
			}
		}
	}
	return b.Bytes(), w.Close() == nil
}

// leadsOut follows a path name by name, independently of the tested code. It returns the first
// place outside of the directory, or "" if the path stays inside.
func leadsOut(dir, name string) string {
	todo := strings.Split(name, "/")
	at := dir
	for links := 0; len(todo) > 0; {
		part := todo[0]
		todo = todo[1:]
		switch part {
		case "", ".":
			continue
		case "..":
			if at == dir {
				return "../" + strings.Join(todo, "/")
			}
			at = filepath.Dir(at)
			continue
		}
		at = filepath.Join(at, part)
		target, err := os.Readlink(at)
		if err != nil {
			continue
		}
		if links++; links > 40 {
			return ""
		}
		at = filepath.Dir(at)
		if strings.HasPrefix(target, "/") {
			rest, ok := strings.CutPrefix(target+"/", dir+"/")
			if !ok {
				return target
			}
			at, target = dir, rest
		}
		todo = append(strings.Split(target, "/"), todo...)
	}
	return ""
}

// scripts are the seeds of both fuzz targets.
var scripts = []string{
	"f a/b\nd c/\nl c/l -> ../a/b\nh h -> a/b",
	"l lnk -> ../../outside\nf lnk/x",
	"f good\nf ../outside/pwned",
	"f good\nf /tmp/pwned",
	"h h -> ../outside/secret\nf h",
	"l a/b/c/top -> ../../..\nl l -> a/b/c/top/..",
	"l l -> a/b/c/top/..\nl a/b/c/top -> ../../..",
	"d x\nf x", "l x -> y\nf x", "f x\nf x/y", "f a\nf a\nl a -> b",
	"f out/x", "l l -> out/secret", "d out", "f in/x\nl in/l -> ../../x", "l in/l -> ../x",
	"f in/new\nl dir/sub -> ..\nl l -> in/../sub/..", "f dir", "d file", "f up/x", "l here2 -> here/..",
	"p fifo\nf x", "c device", "f ./././a//b", "d ./", "f .", "l .. -> x", "h a -> a", "f a\nh a -> a\nh b -> ./a",
	"l l1 -> l2\nl l2 -> l1", "f bad\xff\xfe\nl \x80 -> \x81", "l absolute/x -> ../../../x",
}

// FuzzExtract checks, for any names and targets in an archive, that
//   - nothing outside of the destination changes,
//   - the destination does not change if the archive is refused,
//   - no link of the archive leads out of the destination.
func FuzzExtract(f *testing.F) {
	for _, script := range scripts {
		f.Add(script)
	}
	bed := newExtractBed(f)
	f.Fuzz(func(t *testing.T, script string) {
		if archive, ok := scriptedTar(script); ok {
			bed.extract(t, archive)
		}
	})
}

// FuzzExtractBytes does the same with bytes that are not a valid archive.
func FuzzExtractBytes(f *testing.F) {
	for _, script := range scripts {
		if archive, ok := scriptedTar(script); ok {
			f.Add(bytes.TrimRight(archive, "\x00"))
			f.Add(gzipped(f, archive))
			f.Add(zstandard(f, archive))
		}
	}
	bed := newExtractBed(f)
	f.Fuzz(bed.extract)
}

// extractBed is a destination with files beside it. It is made again only after a change,
// because making it takes longer than unpacking.
type extractBed struct {
	f           *filesystem.FS
	top         string
	parent, dir string
	before      map[string]string
}

func newExtractBed(f *testing.F) *extractBed {
	f.Helper()
	return &extractBed{f: open(f, filesystem.Config{}), top: realTempDir(f)}
}

func (b *extractBed) make(t *testing.T) {
	t.Helper()
	parent := filepath.Join(b.top, "parent") // for longer than one test
	dir := filepath.Join(parent, "dir")
	put(t, filepath.Join(parent, "outside", "secret"), "secret")
	put(t, filepath.Join(dir, "file"), "old")
	put(t, filepath.Join(dir, "dir", "sub", "file"), "old")
	symlink(t, "../outside", filepath.Join(dir, "out"))
	symlink(t, "..", filepath.Join(dir, "up"))
	symlink(t, ".", filepath.Join(dir, "here"))
	symlink(t, "dir/sub", filepath.Join(dir, "in"))
	symlink(t, filepath.Join(dir, "dir"), filepath.Join(dir, "absolute"))
	b.parent, b.dir, b.before = parent, dir, snapshot(t, parent)
}

func (b *extractBed) extract(t *testing.T, archive []byte) {
	t.Helper()
	if b.parent == "" {
		b.make(t)
	}
	options := filesystem.ExtractOptions{NoSync: true, MaxBytes: 1 << 20, MaxEntries: 1000}
	done, err := b.f.Extract(t.Context(), b.dir, bytes.NewReader(archive), options)
	after := snapshot(t, b.parent)
	if err != nil {
		if diff := cmp.Diff(b.before, after); diff != "" {
			t.Fatalf("refused with %q, but something changed:\n%s", err, diff)
		}
		return
	}
	b.check(t, after)
	if done.Entries < len(done.Paths) ||
		slices.ContainsFunc(done.Paths, func(p string) bool { return !strings.HasPrefix(p, b.dir+"/") }) {
		t.Errorf("Extract = %+v", done)
	}
	must(t, os.RemoveAll(b.parent))
	b.parent = ""
}

func (b *extractBed) check(t *testing.T, after map[string]string) {
	t.Helper()
	for name, was := range b.before {
		if !strings.HasPrefix(name, "/dir") && after[name] != was {
			t.Errorf("%s was %q, is %q", name, was, after[name])
		}
	}
	for name, is := range after {
		target, link := strings.CutPrefix(is, "Lrwxrwxrwx ")
		switch {
		case b.before[name] == is:
		case !strings.HasPrefix(name, "/dir/"):
			t.Errorf("%s is %q, was %q", name, is, b.before[name])
		case strings.Contains(name, "/.deskhand-"):
			t.Errorf("%s was left", name)
		case link:
			if out := leadsOut(b.dir, filepath.Dir(strings.TrimPrefix(name, "/dir/"))+"/"+target); out != "" {
				t.Errorf("%s -> %q leads out, to %q", name, target, out)
			}
		}
	}
}
