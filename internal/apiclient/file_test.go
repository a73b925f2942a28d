package apiclient

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// content serves a file as a server does that knows ranges.
func content(etag string, data []byte) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", octetStream)
		if etag != "" {
			w.Header().Set("ETag", etag)
		}
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(data))
	}
}

// files are the names in a directory.
func files(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestDownload(t *testing.T) {
	t.Parallel()
	data := make([]byte, 3<<20)
	_, _ = rand.Read(data)
	at := serve(t, content("", data))
	dir := t.TempDir()
	want := func(file string, mode fs.FileMode) {
		t.Helper()
		info, err := os.Lstat(file)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode() != mode || read(t, file) != string(data) {
			t.Errorf("%s: mode %v, want %v; %d bytes", file, info.Mode(), mode, info.Size())
		}
	}
	get := func(file string) {
		t.Helper()
		if out := do(t, at, "GET", "/x", "-o", file); out != (result{}) {
			t.Fatalf("%+v", out)
		}
	}
	umask := unix.Umask(0)
	unix.Umask(umask)

	fresh := filepath.Join(dir, "fresh")
	get(fresh)
	want(fresh, 0o666&^fs.FileMode(umask))

	old := filepath.Join(dir, "old")
	if err := os.WriteFile(old, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(old, 0o750); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink("old", link); err != nil {
		t.Fatal(err)
	}
	get(link)
	want(old, 0o750)
	if target, err := os.Readlink(link); err != nil || target != "old" {
		t.Errorf("the link: %q, %v", target, err)
	}
	get("/dev/null")
	if info, err := os.Stat("/dev/null"); err != nil || info.Mode().IsRegular() {
		t.Errorf("/dev/null: %v, %v", info, err)
	}
	if names := files(t, dir); !slices.Equal(names, []string{"fresh", "link", "old"}) {
		t.Errorf("left over: %q", names)
	}
	out := do(t, at, "GET", "/x", "-o", filepath.Join(dir, "none", "x"))
	if out.err == nil || !strings.Contains(out.err.Error(), "there is no directory "+filepath.Join(dir, "none")) {
		t.Errorf("no directory: %v", out.err)
	}
	out = do(t, at, "GET", "/x", "-o", filepath.Join(old, "x"))
	if out.err == nil || !strings.Contains(out.err.Error(), "not a directory") {
		t.Errorf("below a file: %v", out.err)
	}
}

// TestRefusedDownload leaves the file alone.
func TestRefusedDownload(t *testing.T) {
	t.Parallel()
	at := serve(t, func(w http.ResponseWriter, r *http.Request) { http.Error(w, "no", http.StatusForbidden) })
	dir := t.TempDir()
	file := filepath.Join(dir, "f")
	if err := os.WriteFile(file, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, flags := range [][]string{nil, {"--resume"}} {
		out := do(t, at, append([]string{"GET", "/x", "-o", file}, flags...)...)
		if !errors.As(out.err, new(*ProblemError)) || read(t, file) != "old" || len(files(t, dir)) != 1 {
			t.Errorf("%v, files %q", out.err, files(t, dir))
		}
	}
}

// half sends half of the data and then breaks, unless a range is asked for.
func half(etag string, data []byte) http.HandlerFunc {
	whole := content(etag, data)
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Range") != "" {
			whole(w, r)
			return
		}
		w.Header().Set("Content-Type", octetStream)
		w.Header().Set("Content-Length", fmt.Sprint(len(data)))
		if etag != "" {
			w.Header().Set("ETag", etag)
		}
		_, _ = w.Write(data[:len(data)/2])
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
}

func TestBrokenDownload(t *testing.T) {
	t.Parallel()
	data := make([]byte, 1<<20)
	_, _ = rand.Read(data)
	for name, c := range map[string]struct {
		etag  string
		flags []string
		want  string
	}{
		"plain":     {`"a"`, nil, "is as it was before; with --resume the received part would be kept"},
		"no ETag":   {"", []string{"--resume"}, "is as it was before; nothing is kept"},
		"weak ETag": {`W/"a"`, []string{"--resume"}, "is as it was before; nothing is kept"},
		"long ETag": {`"` + strings.Repeat("x", 300) + `"`, []string{"--resume"}, "is as it was before; nothing is kept"},
	} {
		dir := t.TempDir()
		file := filepath.Join(dir, "f")
		if err := os.WriteFile(file, []byte("old"), 0o600); err != nil {
			t.Fatal(err)
		}
		out := do(t, serve(t, half(c.etag, data)), append([]string{"GET", "/x", "-o", file}, c.flags...)...)
		if !errors.Is(out.err, io.ErrUnexpectedEOF) || !strings.Contains(out.err.Error(), c.want) || read(t, file) != "old" || len(files(t, dir)) != 1 {
			t.Errorf("%s: %v, files %q", name, out.err, files(t, dir))
		}
	}
}

func TestResume(t *testing.T) {
	t.Parallel()
	data, other := make([]byte, 1<<20), make([]byte, 1<<20)
	_, _ = rand.Read(data)
	_, _ = rand.Read(other)
	for name, c := range map[string]struct {
		second  http.HandlerFunc
		ranged  bool // the second request gets a part
		want    []byte
		problem string // of the second; the third then gets all
	}{
		"same":        {content(`"a/b"`, data), true, data, ""},
		"changed":     {content(`"c"`, other), false, other, ""},
		"no ranges":   {func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(data) }, false, data, ""},
		"shorter now": {func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusRequestedRangeNotSatisfiable) }, false, data, "was removed; run this again"},
		"other part": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Range", "bytes 5-9/10")
			w.WriteHeader(http.StatusPartialContent)
		}, false, data, "another part than was asked for"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			requests, ranged := 0, false
			at := serve(t, func(w http.ResponseWriter, r *http.Request) {
				requests++
				switch {
				case requests == 1:
					half(`"a/b"`, data)(w, r)
				case requests == 2:
					ranged = r.Header.Get("Range") == fmt.Sprintf("bytes=%d-", len(data)/2) && r.Header.Get("If-Range") == `"a/b"`
					c.second(w, r)
				default:
					content(`"a/b"`, data)(w, r)
				}
			})
			dir := t.TempDir()
			file := filepath.Join(dir, "f")
			args := []string{"GET", "/x", "--resume", "-o", file}
			out := do(t, at, args...)
			if out.err == nil || !strings.Contains(out.err.Error(), "512.0 KiB are kept, and the same command continues from there") || len(files(t, dir)) != 1 {
				t.Fatalf("the first: %v, files %q", out.err, files(t, dir))
			}
			out = do(t, at, args...)
			if !ranged {
				t.Error("the second did not ask for the rest")
			}
			if c.problem != "" {
				if out.err == nil || !strings.Contains(out.err.Error(), c.problem) {
					t.Fatalf("the second: %v", out.err)
				}
				out = do(t, at, args...)
			}
			if out != (result{}) || read(t, file) != string(c.want) || len(files(t, dir)) != 1 {
				t.Errorf("%+v, files %q", out, files(t, dir))
			}
		})
	}
}

// TestInterruptedDownload ends one with the context, half way.
func TestInterruptedDownload(t *testing.T) {
	t.Parallel()
	for _, resume := range []bool{false, true} {
		at := serve(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("ETag", `"a"`)
			w.Header().Set("Content-Length", "10")
			_, _ = io.WriteString(w, "12345")
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		})
		dir := t.TempDir()
		file := filepath.Join(dir, "f")
		args := []string{"GET", "/x", "-o", file}
		if resume {
			args = append(args, "--resume")
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- doWith(ctx, at, "", args...).err }()
		poll(t, "the first bytes", func() string {
			for _, name := range files(t, dir) {
				if info, err := os.Stat(filepath.Join(dir, name)); err == nil && info.Size() == 5 {
					return ""
				}
			}
			return fmt.Sprint(files(t, dir))
		})
		if resume { // two must not write the same
			if out := do(t, at, args...); out.err == nil || !strings.Contains(out.err.Error(), "another download writes") {
				t.Errorf("a second one beside the first: %v", out.err)
			}
		}
		cancel()
		err := <-done
		interrupted, ok := errors.AsType[*InterruptedError](err)
		if !ok || !strings.Contains(interrupted.Text, file+" is as it was before") || len(files(t, dir)) != map[bool]int{false: 0, true: 1}[resume] {
			t.Errorf("%v, files %q", err, files(t, dir))
		}
	}
}

// TestFullDisk wants no half file when there is no more space.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip("no /dev/full here")
	}
	at := serve(t, content("", []byte("abc")))
	if out := do(t, at, "GET", "/x", "-o", "/dev/full"); !errors.Is(out.err, unix.ENOSPC) {
		t.Errorf("%+v", out)
	}
}

// TestLargeTransfers sends and receives more than one buffer.
func TestLargeTransfers(t *testing.T) {
	t.Parallel()
	const size = 64 << 20
	file := filepath.Join(t.TempDir(), "f")
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(f.Truncate(size), f.Close()); err != nil {
		t.Fatal(err)
	}
	var received, length int64
	at := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			w.Header().Set("Content-Type", octetStream)
			w.Header().Set("Content-Length", fmt.Sprint(size))
			_, _ = io.CopyN(w, endless(0), size)
			return
		}
		length = r.ContentLength
		received, _ = io.Copy(io.Discard, r.Body)
		w.WriteHeader(http.StatusNoContent)
	})
	if out := do(t, at, "PUT", "/x", "--data", "@"+file); out != (result{}) || received != size || length != size {
		t.Errorf("%+v: %d bytes of %d", out, received, length)
	}
	if out := do(t, at, "GET", "/x", "-o", file+"2"); out != (result{}) {
		t.Errorf("%+v", out)
	}
	if info, err := os.Stat(file + "2"); err != nil || info.Size() != size {
		t.Errorf("%v, %v", info, err)
	}
}

// TestRefusedUpload wants the reason, not that the connection broke, when the
// server refuses before it has read all.
func TestRefusedUpload(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "f")
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(f.Truncate(256<<20), f.Close()); err != nil {
		t.Fatal(err)
	}
	at := serve(t, func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusForbidden) })
	for range 20 {
		out := do(t, at, "PUT", "/x", "--data", "@"+file)
		if problem, ok := errors.AsType[*ProblemError](out.err); !ok || problem.Status != http.StatusForbidden {
			t.Fatalf("%v", out.err)
		}
	}
}
