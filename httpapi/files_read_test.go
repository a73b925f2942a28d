package httpapi

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestReadFile(t *testing.T) {
	t.Parallel()
	for way, start := range ways {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			s := start(t, Config{})
			file := filepath.Join(t.TempDir(), "a.html")
			if err := os.WriteFile(file, []byte("0123456789"), 0o644); err != nil {
				t.Fatal(err)
			}
			at := time.Date(2026, 1, 2, 3, 4, 5, 678, time.UTC)
			if err := os.Chtimes(file, at, at); err != nil {
				t.Fatal(err)
			}
			a := s.get(t, fsPath("file", "path", file)).want(t, 200)
			if string(a.body) != "0123456789" {
				t.Errorf("content = %q", a.body)
			}
			for name, want := range map[string]string{
				"Content-Type": "application/octet-stream", "Content-Length": "10", "Accept-Ranges": "bytes",
				"Last-Modified": "Fri, 02 Jan 2026 03:04:05 GMT", "X-Content-Type-Options": "nosniff",
				"Content-Disposition": "", "Content-Range": "", "Content-Encoding": "",
			} {
				if got := a.Header.Get(name); got != want {
					t.Errorf("%s = %q, want %q", name, got, want)
				}
			}
			if tag := a.Header.Get("ETag"); len(tag) < 10 || !strings.HasPrefix(tag, `"`) {
				t.Errorf("ETag = %q", tag)
			}
			head := s.do(t, call{method: "HEAD", path: fsPath("file", "path", file), header: map[string]string{"Range": "bytes=1-2"}}).want(t, 200)
			if head.ContentLength != 10 || head.Header.Get("ETag") != a.Header.Get("ETag") || len(head.body) != 0 {
				t.Errorf("HEAD: length %d, %v", head.ContentLength, head.Header)
			}
			s.do(t, call{method: "HEAD", path: fsPath("file", "path", file+"x")}).want(t, 404)
		})
	}
}

func TestReadRanges(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	large := strings.Repeat("0123456789abcdef", 100_000)
	for name, text := range map[string]string{"ten": "0123456789", "empty": "", "large": large} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for way, start := range ways {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			s := start(t, Config{})
			for _, tc := range []struct {
				file, header string
				status       int
				want         string // Content-Range, or the content if that is whole
			}{
				{"ten", "bytes=0-0", 206, "0-0/10"},
				{"ten", "bytes=2-4", 206, "2-4/10"},
				{"ten", "bytes=9-", 206, "9-9/10"},
				{"ten", "bytes=0-", 206, "0-9/10"},
				{"ten", "bytes=5-999", 206, "5-9/10"},
				{"ten", "bytes=5-99999999999999999999", 206, "5-9/10"},
				{"ten", "bytes=-3", 206, "7-9/10"},
				{"ten", "bytes=-99", 206, "0-9/10"},
				{"ten", "BYTES = 1-2", 206, "1-2/10"},
				{"ten", "bytes=10-", 416, "*/10"},
				{"ten", "bytes=99999999999999999999-", 416, "*/10"},
				{"ten", "bytes=-0", 416, "*/10"},
				{"empty", "bytes=0-", 416, "*/0"},
				{"empty", "bytes=-1", 416, "*/0"},
				{"ten", "bytes=4-2", 200, "0123456789"},
				{"ten", "bytes=0-1,3-4", 200, "0123456789"},
				{"ten", "bytes=a-b", 200, "0123456789"},
				{"ten", "bytes=-", 200, "0123456789"},
				{"ten", "bytes=+1-2", 200, "0123456789"},
				{"ten", "lines=1-2", 200, "0123456789"},
				{"ten", "bytes", 200, "0123456789"},
				{"large", "bytes=16-31", 206, "16-31/1600000"},
				{"large", "bytes=1-1599998", 206, "1-1599998/1600000"},
				{"large", "bytes=-600001", 206, "999999-1599999/1600000"},
			} {
				a := s.do(t, call{path: fsPath("file", "path", filepath.Join(dir, tc.file)), header: map[string]string{"Range": tc.header}}).want(t, tc.status)
				whole := map[string]string{"ten": "0123456789", "empty": "", "large": large}[tc.file]
				switch tc.status {
				case 200:
					if string(a.body) != tc.want {
						t.Errorf("%s: content = %q", tc.header, a.body)
					}
				case 206:
					var from, to, size int
					if _, err := fmt.Sscanf(tc.want, "%d-%d/%d", &from, &to, &size); err != nil {
						t.Fatal(err)
					}
					if got := string(a.body); got != whole[from:to+1] {
						t.Errorf("%s of %s: %d bytes, %.40q", tc.header, tc.file, len(got), got)
					}
				case 416:
					a.problem(t, 416, "invalid_request")
				}
				want := "bytes " + tc.want
				if tc.status == 200 {
					want = ""
				}
				if got := a.Header.Get("Content-Range"); got != want {
					t.Errorf("%s: Content-Range = %q, want %q", tc.header, got, want)
				}
				if a.ContentLength != int64(len(a.body)) {
					t.Errorf("%s: Content-Length = %d of %d bytes", tc.header, a.ContentLength, len(a.body))
				}
			}
		})
	}
}

// TestReadConditions has the rows of RFC 9110, sections 13.1 and 13.2.2.
func TestReadConditions(t *testing.T) {
	t.Parallel()
	s := serve(t, Config{})
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte("0123456789"), 0o644); err != nil {
		t.Fatal(err)
	}
	at := time.Date(2026, 1, 2, 3, 4, 5, 678, time.UTC)
	if err := os.Chtimes(file, at, at); err != nil {
		t.Fatal(err)
	}
	const same, before, after = "Fri, 02 Jan 2026 03:04:05 GMT", "Fri, 02 Jan 2026 03:04:04 GMT", "Fri, 02 Jan 2026 03:04:06 GMT"
	path := fsPath("file", "path", file)
	tag := s.get(t, path).want(t, 200).Header.Get("ETag")
	type h = map[string]string
	for _, tc := range []struct {
		header h
		status int
	}{
		{h{"If-None-Match": tag}, 304},
		{h{"If-None-Match": "W/" + tag}, 304},
		{h{"If-None-Match": `"x", ` + tag}, 304},
		{h{"If-None-Match": "*"}, 304},
		{h{"If-None-Match": `"x"`}, 200},
		{h{"If-None-Match": `"x"`, "If-Modified-Since": after}, 200},
		{h{"If-Modified-Since": same}, 304},
		{h{"If-Modified-Since": after}, 304},
		{h{"If-Modified-Since": before}, 200},
		{h{"If-Modified-Since": "yesterday"}, 200},
		{h{"If-Match": tag}, 200},
		{h{"If-Match": "*"}, 200},
		{h{"If-Match": "W/" + tag}, 412},
		{h{"If-Match": `"x"`}, 412},
		{h{"If-Unmodified-Since": same}, 200},
		{h{"If-Unmodified-Since": before}, 412},
		{h{"If-Match": tag, "If-Unmodified-Since": before}, 200},
		{h{"If-Match": tag, "If-None-Match": tag}, 304},
		{h{"Range": "bytes=1-2", "If-Range": tag}, 206},
		{h{"Range": "bytes=1-2", "If-Range": same}, 206},
		{h{"Range": "bytes=1-2", "If-Range": after}, 200},
		{h{"Range": "bytes=1-2", "If-Range": `"x"`}, 200},
		{h{"Range": "bytes=1-2", "If-Range": "W/" + tag}, 200},
		{h{"Range": "bytes=99-", "If-Range": `"x"`}, 200},
		{h{"Range": "bytes=1-2", "If-None-Match": tag}, 304},
	} {
		a := s.do(t, call{path: path, header: tc.header})
		if a.StatusCode != tc.status {
			t.Errorf("%v = %d, want %d", tc.header, a.StatusCode, tc.status)
		}
		if tc.status == 412 {
			a.problem(t, 412, "conflict")
		} else if a.Header.Get("ETag") != tag {
			t.Errorf("%v: ETag = %q, want %q", tc.header, a.Header.Get("ETag"), tag)
		}
		if tc.status == 304 && len(a.body) > 0 {
			t.Errorf("%v: 304 with a body", tc.header)
		}
	}
	// Any change of the file is another tag.
	if err := os.Chtimes(file, at, at.Add(time.Nanosecond)); err != nil {
		t.Fatal(err)
	}
	s.do(t, call{path: path, header: h{"If-None-Match": tag}}).want(t, 200)
}

func TestDownload(t *testing.T) {
	t.Parallel()
	s := serve(t, Config{})
	dir := t.TempDir()
	for name, want := range map[string]string{
		"plain.txt": `attachment; filename=plain.txt`,
		`a "b" c`:   `attachment; filename="a \"b\" c"`,
		"ü.txt":     `attachment; filename*=utf-8''%C3%BC.txt`,
		"a\r\nX: y": `attachment; filename*=utf-8''a%0D%0AX%3A%20y`,
		"a\xffb":    `attachment; filename*=utf-8''a%EF%BF%BDb`,
	} {
		writeTree(t, dir, name)
		a := s.get(t, fsPath("file", "path", filepath.Join(dir, name), "download", "true")).want(t, 200)
		if got := a.Header.Get("Content-Disposition"); got != want {
			t.Errorf("%q: Content-Disposition = %s, want %s", name, got, want)
		}
		if string(a.body) != name || a.Header.Get("X") != "" {
			t.Errorf("%q: %q, %v", name, a.body, a.Header)
		}
	}
}

// TestReadMadeFiles reads files whose size the system does not tell.
func TestReadMadeFiles(t *testing.T) {
	t.Parallel()
	s := serve(t, Config{})
	a := s.get(t, fsPath("file", "path", "/proc/self/status")).want(t, 200)
	if !strings.Contains(string(a.body), fmt.Sprintf("Pid:\t%d\n", os.Getpid())) || a.ContentLength != int64(len(a.body)) {
		t.Errorf("/proc/self/status = %d bytes of %d", len(a.body), a.ContentLength)
	}
	part := s.do(t, call{path: fsPath("file", "path", "/proc/version"), header: map[string]string{"Range": "bytes=0-4"}}).want(t, 206)
	if string(part.body) != "Linux" {
		t.Errorf("part = %q", part.body)
	}
}

// TestFileShrinksWhileItIsSent: the client must not take what came for all.
func TestFileShrinksWhileItIsSent(t *testing.T) {
	t.Parallel()
	for way, start := range ways {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			s := start(t, Config{})
			file := filepath.Join(t.TempDir(), "file")
			if err := os.WriteFile(file, nil, 0o644); err != nil {
				t.Fatal(err)
			}
			if err := os.Truncate(file, 256<<20); err != nil {
				t.Fatal(err)
			}
			resp := s.open(t, fsPath("file", "path", file))
			if _, err := resp.Read(make([]byte, 1000)); err != nil {
				t.Fatal(err)
			}
			if err := os.Truncate(file, 1000); err != nil {
				t.Fatal(err)
			}
			n, err := countBytes(resp)
			if err == nil {
				t.Errorf("%d bytes of %d without an error", n+1000, resp.length)
			}
			s.get(t, fsPath("stat", "path", file)).want(t, 200)
		})
	}
}

// TestSlowReader takes longer than the server's patience in all, but always a
// little in time; one that takes nothing is left.
func TestSlowReader(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	const size = 64 << 20
	if err := os.Truncate(file, size); err != nil {
		t.Fatal(err)
	}
	// As short a patience as a busy machine, which has both to do, still has.
	const patience = 2 * time.Second
	s := serve(t, Config{also: impatient(patience)})
	slow := s.open(t, fsPath("file", "path", file))
	begun, total := time.Now(), 0
	for buf := make([]byte, size/16); total < size; {
		n, err := readFull(slow, buf)
		if total += n; err != nil {
			t.Fatalf("after %d bytes, %v: %v", total, time.Since(begun), err)
		}
		pause(t, patience/8)
	}
	if took := time.Since(begun); took < 2*patience {
		t.Errorf("the slow reader took only %v", took)
	}
	stuck := s.open(t, fsPath("file", "path", file))
	pause(t, 3*patience)
	if n, err := countBytes(stuck); err == nil {
		t.Errorf("all %d bytes came, though nothing was taken for so long", n)
	}
}

// opened is an answer that has begun.
type opened struct {
	io.ReadCloser

	length int64 // that it told
}

// open begins a request and leaves its answer to be read.
func (s *testServer) open(t *testing.T, path string) opened {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+s.Token())
	resp, err := s.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = resp.Body.Close() })
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("GET %s = %s", path, resp.Status)
	}
	return opened{resp.Body, resp.ContentLength}
}
