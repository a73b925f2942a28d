package httpapi

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"
)

// tarOf packs entries; one that has no type is a file that holds its name.
func tarOf(t *testing.T, entries ...tar.Header) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range entries {
		content := ""
		if h.Typeflag == 0 {
			content, h.Typeflag, h.Size = h.Name, tar.TypeReg, int64(len(h.Name))
		}
		if h.Mode == 0 {
			h.Mode = 0o755
		}
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, content); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func gzipped(t *testing.T, data []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func zstdOf(t *testing.T, data []byte) []byte {
	t.Helper()
	w, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = w.Close() }()
	return w.EncodeAll(data, nil)
}

func (s *testServer) unpack(t *testing.T, dir, kind string, archive []byte) answer {
	t.Helper()
	return s.do(t, call{method: "POST", path: fsPath("upload-batch", "path", dir), body: string(archive), kind: kind})
}

// tree is what a directory holds: names, and what the files do.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	got := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		rel, _ := filepath.Rel(dir, path)
		switch {
		case err != nil || rel == ".":
			return err
		case e.IsDir():
			got[rel+"/"] = ""
		case e.Type()&os.ModeSymlink != 0:
			got[rel], _ = os.Readlink(path)
		default:
			got[rel] = content(t, path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func TestUploadBatch(t *testing.T) {
	t.Parallel()
	plain := tarOf(t, tar.Header{Name: "dir/", Typeflag: tar.TypeDir}, tar.Header{Name: "dir/a", Mode: 0o640}, tar.Header{Name: "deep/er/b"},
		tar.Header{Name: "link", Typeflag: tar.TypeSymlink, Linkname: "dir/a"})
	for way, start := range ways {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			s := start(t, Config{})
			for kind, archive := range map[string][]byte{
				"application/x-tar": plain, "application/x-tar; charset=binary": gzipped(t, plain), "application/gzip": gzipped(t, plain),
				"application/x-gtar-compressed": gzipped(t, plain), "application/zstd": zstdOf(t, plain), "application/x-gzip": plain,
			} {
				dir := filepath.Join(t.TempDir(), "new/dir")
				p := s.unpack(t, dir, kind, archive).want(t, 200).json(t)
				var paths []string
				for _, path := range p["paths"].([]any) {
					if name := path.(string); !strings.HasSuffix(name, "/dir") && !strings.HasSuffix(name, "/dir/") {
						paths = append(paths, name)
					}
				}
				want := []string{filepath.Join(dir, "dir/a"), filepath.Join(dir, "deep/er/b"), filepath.Join(dir, "link")}
				if diff := cmp.Diff(want, paths); diff != "" || p["truncated"] != false {
					t.Errorf("%s: truncated %v, paths (-want +got):\n%s", kind, p["truncated"], diff)
				}
				if diff := cmp.Diff(map[string]string{"dir/": "", "dir/a": "dir/a", "deep/": "", "deep/er/": "", "deep/er/b": "deep/er/b", "link": "dir/a"}, tree(t, dir)); diff != "" {
					t.Errorf("%s: tree (-want +got):\n%s", kind, diff)
				}
				if info, err := os.Stat(filepath.Join(dir, "dir/a")); err != nil || info.Mode() != 0o640 {
					t.Errorf("%s: mode = %v, %v", kind, info.Mode(), err)
				}
			}
			for _, empty := range [][]byte{nil, tarOf(t)} {
				a := s.unpack(t, filepath.Join(t.TempDir(), "x"), "application/x-tar", empty).want(t, 200)
				if got := strings.TrimSpace(string(a.body)); got != `{"paths":[],"truncated":false}` {
					t.Errorf("empty archive of %d bytes: %s", len(empty), got)
				}
			}
		})
	}
}

func TestUploadBatchOfMany(t *testing.T) {
	t.Parallel()
	s := serve(t, Config{})
	var entries []tar.Header
	for i := range 1100 {
		entries = append(entries, tar.Header{Name: fmt.Sprintf("many/%04d", i)})
	}
	dir := t.TempDir()
	p := s.unpack(t, dir, "application/x-tar", tarOf(t, entries...)).want(t, 200).json(t)
	if paths := p["paths"].([]any); len(paths) != 1024 || p["truncated"] != true || paths[1023] != filepath.Join(dir, "many/1023") {
		t.Errorf("%d paths, truncated %v", len(paths), p["truncated"])
	}
	if got := allFiles(t, filepath.Join(dir, "many")); len(got) != 1100 {
		t.Errorf("%d files", len(got))
	}
}

// TestRefusedArchives: what an archive must not hold changes nothing, neither in
// the directory (fault S7: the entries before stay) nor outside of it (S5).
func TestRefusedArchives(t *testing.T) {
	t.Parallel()
	s := serve(t, Config{MaxUploadBytes: 1 << 20})
	outside := t.TempDir()
	writeTree(t, outside, "secret")
	before := tar.Header{Name: "before"}
	file := func(name string) tar.Header { return tar.Header{Name: name} }
	link := func(name, to string) tar.Header {
		return tar.Header{Name: name, Typeflag: tar.TypeSymlink, Linkname: to}
	}
	good := tarOf(t, before, tar.Header{Name: "large" + strings.Repeat("x", 80)})
	random := bytes.Repeat([]byte("no archive "), 1000)
	for name, tc := range map[string]struct {
		archive []byte
		status  int
		code    string
		detail  string
	}{
		"dots":                   {tarOf(t, before, file("../out")), 400, "invalid_request", "../out"},
		"dots within":            {tarOf(t, before, file("a/../../out")), 400, "invalid_request", "a/../../out"},
		"absolute":               {tarOf(t, before, file(outside+"/out")), 400, "invalid_request", outside + "/out"},
		"absolute link":          {tarOf(t, before, link("lnk", outside), file("lnk/out")), 400, "invalid_request", "lnk"},
		"link up":                {tarOf(t, before, link("lnk", "../.."), file("lnk/out")), 400, "invalid_request", "lnk"},
		"hard link out":          {tarOf(t, before, tar.Header{Name: "hard", Typeflag: tar.TypeLink, Linkname: outside + "/secret"}), 400, "invalid_request", "hard"},
		"device":                 {tarOf(t, before, tar.Header{Name: "null", Typeflag: tar.TypeChar, Devmajor: 1, Devminor: 3}), 400, "invalid_request", "null"},
		"FIFO":                   {tarOf(t, before, tar.Header{Name: "pipe", Typeflag: tar.TypeFifo}), 400, "invalid_request", "pipe"},
		"no archive":             {random, 400, "invalid_request", "archive"},
		"cut":                    {good[:1200], 400, "invalid_request", "archive"},
		"cut gzip":               {gzipped(t, good)[:50], 400, "invalid_request", "archive"},
		"damaged gzip":           {slices.Concat(gzipped(t, good)[:30], []byte("xxxx"), gzipped(t, good)[34:]), 400, "invalid_request", "archive"},
		"bomb":                   {zstdOf(t, tarZeros(t, 72<<20)), 413, "invalid_request", "times"},
		"large":                  {tarOf(t, append([]tar.Header{before}, manyFiles(2000)...)...), 413, "invalid_request", "1048576 bytes"},
		"a file over directory":  {tarOf(t, before, file("full")), 409, "conflict", "full"},
		"a directory over files": {tarOf(t, before, file("full/inside/x")), 409, "conflict", "inside"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			writeTree(t, dir, "full/inside")
			p := s.unpack(t, dir, "application/x-tar", tc.archive).problem(t, tc.status, tc.code)
			if detail := p["detail"].(string); !strings.Contains(detail, tc.detail) {
				t.Errorf("detail = %q, want it to have %q", detail, tc.detail)
			}
			if diff := cmp.Diff(map[string]string{"full/": "", "full/inside": "full/inside"}, tree(t, dir)); diff != "" {
				t.Errorf("the directory was changed (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(map[string]string{"secret": "secret"}, tree(t, outside)); diff != "" {
				t.Errorf("something outside was changed (-want +got):\n%s", diff)
			}
		})
	}
	for _, kind := range []string{"-", "application/json", "text/plain", "application/x-tarx", "application/zip"} {
		p := s.unpack(t, t.TempDir(), kind, good).problem(t, 400, "invalid_request")
		if !strings.Contains(p["detail"].(string), "content-type must be application/x-tar") {
			t.Errorf("%s: %v", kind, p["detail"])
		}
	}
}

func manyFiles(n int) (all []tar.Header) {
	for i := range n {
		all = append(all, tar.Header{Name: fmt.Sprint("file", i)})
	}
	return all
}

// tarZeros is an archive of a file that holds nothing but zeros.
func tarZeros(t *testing.T, size int64) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	if err := w.WriteHeader(&tar.Header{Name: "zeros", Typeflag: tar.TypeReg, Size: size, Mode: 0o644}); err != nil {
		t.Fatal(err)
	}
	if _, err := io.CopyN(w, zeros{}, size); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestBrokenArchiveUpload leaves in the middle of an archive.
func TestBrokenArchiveUpload(t *testing.T) {
	t.Parallel()
	archive := tarOf(t, manyFiles(200)...)
	for way, start := range ways {
		for name, head := range map[string]string{
			"length":  fmt.Sprintf("Content-Length: %d\r\n\r\n", len(archive)),
			"chunked": fmt.Sprintf("Transfer-Encoding: chunked\r\n\r\n%x\r\n", len(archive)/2),
		} {
			t.Run(way+" "+name, func(t *testing.T) {
				t.Parallel()
				s := start(t, Config{NoToken: true})
				dir := t.TempDir()
				writeTree(t, dir, "old")
				c := dialServer(t, s)
				c.send("POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-tar\r\n%s%s\r\n", fsPath("upload-batch", "path", dir), head, archive[:len(archive)/2])
				eventually(t, "a file on the way", func() bool { return len(allFiles(t, dir)) > 1 })
				_ = c.Close()
				eventually(t, "end of the upload", func() bool { return len(allFiles(t, dir)) == 1 })
			})
		}
	}
}

func TestDownloadArchive(t *testing.T) {
	t.Parallel()
	for way, start := range ways {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			s := start(t, Config{})
			dir := filepath.Join(t.TempDir(), "my ü")
			writeTree(t, dir, "a", "sub/b", "sub/empty/", "name\xff\n")
			if err := os.Symlink("../a", filepath.Join(dir, "sub/link")); err != nil {
				t.Fatal(err)
			}
			large := strings.Repeat("0123456789abcdef", 200_000)
			if err := os.WriteFile(filepath.Join(dir, "large"), []byte(large), 0o644); err != nil {
				t.Fatal(err)
			}
			want := tree(t, dir)
			for format, kind := range map[string]string{"": "application/x-tar", "tar": "application/x-tar", "tar.gz": "application/gzip", "tar.zst": "application/zstd"} {
				q := []string{"path", dir, "access_token", s.Token()}
				if format != "" {
					q = append(q, "format", format)
				}
				a := s.do(t, call{path: fsPath("archive", q...), anon: true}).want(t, 200)
				name := "my%20%C3%BC." + format
				if format == "" {
					name += "tar"
				}
				if got := a.Header.Get("Content-Disposition"); got != "attachment; filename*=utf-8''"+name {
					t.Errorf("%s: Content-Disposition = %s", format, got)
				}
				if got := a.Header.Get("Content-Type"); got != kind {
					t.Errorf("%s: Content-Type = %s, want %s", format, got, kind)
				}
				if len(a.TransferEncoding) != 1 {
					t.Errorf("%s: not streamed: %v", format, a.TransferEncoding)
				}
				to := t.TempDir()
				s.unpack(t, to, kind, a.body).want(t, 200)
				if diff := cmp.Diff(want, tree(t, to)); diff != "" {
					t.Errorf("%s: unpacked (-want +got):\n%s", format, diff)
				}
			}
			one := s.get(t, fsPath("archive", "path", filepath.Join(dir, "a"))).want(t, 200)
			if h, err := tar.NewReader(bytes.NewReader(one.body)).Next(); err != nil || h.Name != "a" || h.Size != 1 {
				t.Errorf("archive of a file: %v, %v", h, err)
			}
			head := s.do(t, call{method: "HEAD", path: fsPath("archive", "path", dir)}).want(t, 200)
			if head.Header.Get("Content-Type") != "application/x-tar" || len(head.body) > 0 {
				t.Errorf("HEAD: %v", head.Header)
			}
			s.do(t, call{method: "HEAD", path: fsPath("archive", "path", dir+"x")}).want(t, 404)
			s.get(t, fsPath("archive", "path", dir+"x")).problem(t, 404, "not_found")
			s.get(t, fsPath("archive", "path", "/dev/zero")).problem(t, 400, "invalid_request")
			s.get(t, fsPath("archive", "path", dir, "format", "zip")).problem(t, 400, "invalid_request")
		})
	}
}

// TestArchiveEndsWithItsReader: packing ends when the client leaves.
func TestArchiveEndsWithItsReader(t *testing.T) {
	t.Parallel()
	for way, start := range ways {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			s := start(t, Config{})
			dir := t.TempDir()
			writeTree(t, dir, "large")
			if err := os.Truncate(filepath.Join(dir, "large"), 1<<40); err != nil {
				t.Fatal(err)
			}
			resp := s.open(t, fsPath("archive", "path", dir))
			if _, err := io.CopyN(io.Discard, resp, 10<<20); err != nil {
				t.Fatal(err)
			}
			_ = resp.Close()
			eventually(t, "end of the packing", func() bool { return openBelow(t, filepath.Dir(dir)) == 0 })
		})
	}
}

// TestArchiveBreaks: an archive that could not be finished must not look whole.
func TestArchiveBreaks(t *testing.T) {
	t.Parallel()
	s := serve(t, Config{})
	dir := t.TempDir()
	writeTree(t, dir, "large")
	if err := os.Truncate(filepath.Join(dir, "large"), 1<<40); err != nil {
		t.Fatal(err)
	}
	resp := s.open(t, fsPath("archive", "path", dir))
	if _, err := io.CopyN(io.Discard, resp, 10<<20); err != nil {
		t.Fatal(err)
	}
	if err := s.files.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := countBytes(resp); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("the archive ended with %v, want %v", err, io.ErrUnexpectedEOF)
	}
	s.get(t, fsPath("stat", "path", dir)).problem(t, 503, "stream_error")
}
