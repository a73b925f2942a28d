package httpapi

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/deskhand/deskhand/httpapi/internal/rest"
	"github.com/deskhand/deskhand/internal/testlog"
)

func TestWriteFile(t *testing.T) {
	t.Parallel()
	for way, start := range ways {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			s := start(t, Config{})
			dir := t.TempDir()
			file := filepath.Join(dir, "new/deep/file")
			put := func(body string, q ...string) answer {
				return s.do(t, call{method: "PUT", path: fsPath("file", append([]string{"path", file}, q...)...), body: body})
			}
			for _, body := range []string{"text ü\n", "", strings.Repeat("x", 3<<20), "short"} {
				want := map[string]any{"path": file, "bytesWritten": float64(len(body))}
				if diff := cmp.Diff(want, put(body).want(t, 200).json(t)); diff != "" {
					t.Errorf("answer (-want +got):\n%s", diff)
				}
				if got := content(t, file); got != body {
					t.Errorf("content = %.40q of %d bytes, want %.40q", got, len(got), body)
				}
			}
			if got := put("er", "append", "true").want(t, 200).json(t)["bytesWritten"]; got != 2.0 {
				t.Errorf("bytesWritten = %v", got)
			}
			put("!", "append", "true", "sync", "false").want(t, 200)
			if got := content(t, file); got != "shorter!" {
				t.Errorf("content = %q", got)
			}
			for _, kind := range []string{"-", "application/json", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "application/gzip"} {
				s.do(t, call{method: "PUT", path: fsPath("file", "path", file), body: "--x\r\n{\x00", kind: kind}).want(t, 200)
				if got := content(t, file); got != "--x\r\n{\x00" {
					t.Errorf("content of type %s = %q", kind, got)
				}
			}
			put("#!/bin/sh\n", "mode", "755").want(t, 200)
			put("#!/bin/bash\n", "sync", "false").want(t, 200)
			if info, err := os.Stat(file); err != nil || info.Mode() != 0o755 {
				t.Errorf("mode = %v, %v", info.Mode(), err)
			}
			if names, err := os.ReadDir(filepath.Dir(file)); err != nil || len(names) != 1 {
				t.Errorf("left beside the file: %v, %v", names, err)
			}
		})
	}
}

// TestWriteConditions lets several clients change one file without losing what
// another has written.
func TestWriteConditions(t *testing.T) {
	t.Parallel()
	s := serve(t, Config{})
	file := filepath.Join(t.TempDir(), "count")
	path := fsPath("file", "path", file, "sync", "false")
	put := func(body string, header map[string]string) answer {
		return s.try(t.Context(), call{method: "PUT", path: path, body: body, header: header})
	}
	put("0", map[string]string{"If-None-Match": "*"}).want(t, 200)
	put("x", map[string]string{"If-None-Match": "*"}).problem(t, 412, "conflict")
	var all sync.WaitGroup
	const clients, each = 8, 10
	for range clients {
		all.Go(func() {
			for done := 0; done < each; {
				old := s.try(t.Context(), call{path: path})
				if old.err != nil || old.StatusCode != 200 {
					t.Errorf("GET: %v", old.err)
					return
				}
				var n int
				if _, err := fmt.Sscan(string(old.body), &n); err != nil {
					t.Errorf("content %q: %v", old.body, err)
					return
				}
				switch a := put(fmt.Sprint(n+1), map[string]string{"If-Match": old.Header.Get("ETag")}); {
				case a.err != nil:
					t.Error(a.err)
					return
				case a.StatusCode == 200:
					done++
				case a.StatusCode != 412:
					t.Errorf("PUT = %d %s", a.StatusCode, a.body)
					return
				}
			}
		})
	}
	all.Wait()
	if got, want := content(t, file), fmt.Sprint(clients*each); got != want {
		t.Errorf("count = %s, want %s", got, want)
	}
}

// chunks is a body of unknown length.
type chunks struct{ io.Reader }

func TestWriteChunked(t *testing.T) {
	t.Parallel()
	for way, start := range ways {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			s := start(t, Config{})
			file := filepath.Join(t.TempDir(), "file")
			text := strings.Repeat("0123456789abcdef", 300_000)
			for range 2 { // the second one on the same connection
				req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, s.url+fsPath("file", "path", file), chunks{strings.NewReader(text)})
				if err != nil {
					t.Fatal(err)
				}
				req.Header.Set("Authorization", "Bearer "+s.Token())
				resp, err := s.client.Do(req)
				if err != nil {
					t.Fatal(err)
				}
				if got, _ := io.ReadAll(resp.Body); resp.StatusCode != 200 || resp.Close {
					t.Errorf("PUT = %s, close %v: %s", resp.Status, resp.Close, got)
				}
				resp.Body.Close()
				if got := content(t, file); got != text {
					t.Errorf("content has %d bytes, want %d", len(got), len(text))
				}
			}
		})
	}
}

func TestWriteExpectsContinue(t *testing.T) {
	t.Parallel()
	s := serve(t, Config{NoToken: true})
	file := filepath.Join(t.TempDir(), "file")
	c := dialServer(t, s)
	c.send("PUT %s HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n", fsPath("file", "path", file))
	if line, err := c.r.ReadString('\n'); err != nil || line != "HTTP/1.1 100 Continue\r\n" {
		t.Fatalf("first line = %q, %v", line, err)
	}
	_, _ = c.r.ReadString('\n')
	c.send("hello")
	if a := c.answer(); a.StatusCode != 200 || content(t, file) != "hello" {
		t.Errorf("PUT = %s", a.Status)
	}
}

func TestMaxUpload(t *testing.T) {
	t.Parallel()
	for way, start := range ways {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			s := start(t, Config{MaxUploadBytes: 1000})
			dir := t.TempDir()
			file := filepath.Join(dir, "file")
			send := func(body io.Reader) (*http.Response, error) {
				req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, s.url+fsPath("file", "path", file), body)
				if err != nil {
					t.Fatal(err)
				}
				req.Header.Set("Authorization", "Bearer "+s.Token())
				return s.client.Do(req)
			}
			put := func(body func(string) io.Reader, text string) (int, string) {
				resp, err := send(body(text))
				// net/http gives a client half a second to stop sending, and resets then.
				for try := 0; way == "Handler" && try < 5 && (errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)); try++ {
					resp, err = send(body(text))
				}
				if err != nil {
					t.Fatal(err)
				}
				defer resp.Body.Close()
				answer, err := io.ReadAll(resp.Body)
				if err != nil {
					t.Error(err)
				}
				return resp.StatusCode, string(answer)
			}
			right := strings.Repeat("x", 1000)
			for name, body := range map[string]func(string) io.Reader{
				"length":  func(text string) io.Reader { return strings.NewReader(text) },
				"chunked": func(text string) io.Reader { return chunks{strings.NewReader(text)} },
			} {
				if status, text := put(body, right); status != 200 {
					t.Errorf("%s: 1000 bytes: %d %s", name, status, text)
				}
				for _, large := range []string{right + "y", strings.Repeat(right, 20_000)} {
					if status, text := put(body, large); status != 413 || !strings.Contains(text, "at most 1000 bytes") {
						t.Errorf("%s: %d bytes: %d %s", name, len(large), status, text)
					}
				}
				if got := content(t, file); got != right {
					t.Errorf("%s: content = %d bytes", name, len(got))
				}
			}
			if names, err := os.ReadDir(dir); err != nil || len(names) != 1 {
				t.Errorf("left beside the file: %v, %v", names, err)
			}
		})
	}
}

// rawConn is a connection to a server, for requests that no client makes.
type rawConn struct {
	*net.TCPConn
	t *testing.T
	r *bufio.Reader
}

func dialServer(t *testing.T, s *testServer) *rawConn {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	return &rawConn{conn.(*net.TCPConn), t, bufio.NewReader(conn)}
}

func (c *rawConn) send(format string, args ...any) {
	c.t.Helper()
	if _, err := fmt.Fprintf(c, format, args...); err != nil {
		c.t.Fatal(err)
	}
}

// answer is the next one, read to its end.
func (c *rawConn) answer() answer {
	c.t.Helper()
	resp, err := http.ReadResponse(c.r, nil)
	if err != nil {
		c.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	resp.Request = &http.Request{}
	return answer{resp, text, err}
}

// TestBrokenUploads sends half of a body and then leaves, in every way. The old
// content stays, and nothing else does.
func TestBrokenUploads(t *testing.T) {
	t.Parallel()
	half := strings.Repeat("new", 100_000)
	for way, start := range ways {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			log := new(testlog.Buffer)
			s := start(t, Config{NoToken: true, AccessLog: true, Logger: slog.New(slog.NewTextHandler(log, nil))})
			for name, request := range map[string]string{
				"length":            "Content-Length: 600000\r\n\r\n" + half,
				"one byte less":     "Content-Length: 300001\r\n\r\n" + half,
				"chunk":             fmt.Sprintf("Transfer-Encoding: chunked\r\n\r\n%x\r\n%s", 600_000, half),
				"between chunks":    fmt.Sprintf("Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n", len(half), half),
				"in a chunk's size": fmt.Sprintf("Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n5", len(half), half),
				"bad chunk":         fmt.Sprintf("Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\nzz\r\n0\r\n\r\n", len(half), half),
			} {
				for i, leave := range []func(*rawConn){(*rawConn).leave, (*rawConn).reset, (*rawConn).endSending} {
					for _, add := range []string{"true", "false"} {
						id := fmt.Sprintf("%s-%d-%s", strings.ReplaceAll(strings.ReplaceAll(name, " ", "-"), "'", ""), i, add)
						dir := t.TempDir()
						file := filepath.Join(dir, "file")
						if err := os.WriteFile(file, []byte("old"), 0o644); err != nil {
							t.Fatal(err)
						}
						c := dialServer(t, s)
						c.send("PUT %s HTTP/1.1\r\nHost: localhost\r\nX-Request-Id: %s\r\n%s", fsPath("file", "path", file, "append", add), id, request)
						if name != "bad chunk" {
							eventually(t, "a file on the way", func() bool { return openBelow(t, dir) > 0 })
						}
						leave(c)
						eventually(t, "end of "+id, func() bool { return strings.Contains(log.String(), "request="+id+"\n") })
						if got := content(t, file); got != "old" || len(allFiles(t, dir)) != 1 || openBelow(t, dir) > 0 {
							t.Errorf("%s: content = %.40q of %d bytes, want the old one; files %q", id, got, len(got), allFiles(t, dir))
						}
					}
				}
			}
			if text := log.String(); strings.Contains(text, "status=200") {
				t.Errorf("a broken upload has succeeded:\n%s", text)
			}
		})
	}
}

// How a client leaves.
func (c *rawConn) leave() { _ = c.Close() }

func (c *rawConn) reset() {
	_ = c.SetLinger(0)
	_ = c.Close()
}

// endSending ends the request, but waits for the answer.
func (c *rawConn) endSending() {
	c.t.Helper()
	_ = c.CloseWrite()
	if a := c.answer(); a.StatusCode != 400 || a.Header.Get("Content-Type") != rest.ProblemType {
		c.t.Errorf("answer = %s %s", a.Status, a.body)
	}
}

// allFiles are the files of a directory, hidden ones too.
func allFiles(t *testing.T, dir string) []string {
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

// openBelow is how many files below a directory this program has open, those
// without a name too.
func openBelow(t *testing.T, dir string) int {
	t.Helper()
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, fd := range fds {
		if to, err := os.Readlink("/proc/self/fd/" + fd.Name()); err == nil && strings.HasPrefix(to, dir+"/") {
			n++
		}
	}
	return n
}

// TestStalledUpload: a client that sends nothing more is told so, and the old
// content stays.
func TestStalledUpload(t *testing.T) {
	t.Parallel()
	for way, start := range ways {
		for name, head := range map[string]string{
			"length":  "Content-Length: 600000\r\n\r\n" + strings.Repeat("x", 50_000),
			"chunked": "Transfer-Encoding: chunked\r\n\r\nc350\r\n" + strings.Repeat("x", 50_000) + "\r\n",
		} {
			t.Run(way+" "+name, func(t *testing.T) {
				t.Parallel()
				s := start(t, Config{NoToken: true, also: impatient(200 * time.Millisecond)})
				dir := t.TempDir()
				file := filepath.Join(dir, "file")
				if err := os.WriteFile(file, []byte("old"), 0o644); err != nil {
					t.Fatal(err)
				}
				c := dialServer(t, s)
				c.send("PUT %s HTTP/1.1\r\nHost: localhost\r\n%s", fsPath("file", "path", file), head)
				begun := time.Now()
				a := c.answer()
				if a.StatusCode != 408 || !strings.Contains(string(a.body), "after 50000 bytes") {
					t.Errorf("answer = %s %s", a.Status, a.body)
				}
				if took := time.Since(begun); took > 5*time.Second {
					t.Errorf("answered after %v", took)
				}
				if got := content(t, file); got != "old" {
					t.Errorf("content = %.40q", got)
				}
				if got := allFiles(t, dir); len(got) != 1 {
					t.Errorf("left: %q", got)
				}
			})
		}
	}
}

// TestSlowUpload takes longer than the server's patience in all, but always
// sends a little in time. In make soak it takes longer than a request may take
// to arrive.
func TestSlowUpload(t *testing.T) {
	t.Parallel()
	for way, start := range ways {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			parts, cfg := 12, Config{NoToken: true, also: impatient(2 * time.Second)}
			wait := 250 * time.Millisecond // a busy machine adds to that
			if soak() > 1 {
				parts, wait, cfg.also = 14, 5*time.Second, nil
			}
			s := start(t, cfg)
			file := filepath.Join(t.TempDir(), "file")
			c := dialServer(t, s)
			_ = c.SetDeadline(time.Now().Add(5 * time.Minute))
			c.send("PUT %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n", fsPath("file", "path", file), parts*10_000)
			for range parts {
				c.send("%s", strings.Repeat("x", 10_000))
				pause(t, wait)
			}
			if a := c.answer(); a.StatusCode != 200 {
				t.Errorf("answer = %s %s", a.Status, a.body)
			}
			if got := content(t, file); len(got) != parts*10_000 {
				t.Errorf("content has %d bytes", len(got))
			}
		})
	}
}

// TestEarlyAnswer: what is wrong with a path is told before 10 GiB have come,
// and so that the client, who is still sending, sees it.
func TestEarlyAnswer(t *testing.T) {
	t.Parallel()
	for way, start := range ways {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			s := start(t, Config{NoToken: true})
			dir := t.TempDir()
			for _, head := range []string{"Content-Length: 10737418240\r\n\r\n", "Transfer-Encoding: chunked\r\n\r\n280000000\r\n"} {
				c := dialServer(t, s)
				c.send("PUT %s HTTP/1.1\r\nHost: localhost\r\n%s", fsPath("file", "path", dir), head)
				var sent int64
				sending := make(chan struct{})
				go func() {
					defer close(sending)
					for buf := make([]byte, 64<<10); ; {
						n, err := c.Write(buf)
						sent += int64(n)
						if err != nil {
							return
						}
					}
				}()
				begun := time.Now()
				a := c.answer()
				if a.err != nil || a.StatusCode != 400 || !strings.Contains(string(a.body), "path is not a file") {
					t.Errorf("answer = %s %s, %v", a.Status, a.body, a.err)
				}
				if took := time.Since(begun); took > 4*time.Second {
					t.Errorf("answered after %v", took)
				}
				if !a.Close {
					t.Error("the answer does not say that the connection ends")
				}
				_ = c.Close()
				<-sending
				if sent > 8<<30 {
					t.Errorf("%d bytes were taken for nothing", sent)
				}
			}
		})
	}
}

// TestEarlyAnswerToClient does the same with a real client.
func TestEarlyAnswerToClient(t *testing.T) {
	t.Parallel()
	for way, start := range ways {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			s := start(t, Config{})
			for range 5 {
				req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, s.url+fsPath("file", "path", t.TempDir()), io.LimitReader(zeros{}, 10<<30))
				if err != nil {
					t.Fatal(err)
				}
				req.ContentLength = 10 << 30
				req.Header.Set("Authorization", "Bearer "+s.Token())
				resp, err := s.client.Do(req)
				if err != nil {
					t.Fatal(err)
				}
				text, err := io.ReadAll(resp.Body)
				resp.Body.Close()
				if resp.StatusCode != 400 || err != nil || !strings.Contains(string(text), "path is not a file") {
					t.Errorf("answer = %s %s, %v", resp.Status, text, err)
				}
			}
		})
	}
}

// zeros is an endless file.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// TestCloseEndsTransfers: clients that neither send nor accept anything do not
// keep the server from closing.
func TestCloseEndsTransfers(t *testing.T) {
	t.Parallel()
	for way, start := range ways {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			s := start(t, Config{NoToken: true})
			dir := t.TempDir()
			file := filepath.Join(dir, "file")
			if err := os.WriteFile(file, []byte("old"), 0o644); err != nil {
				t.Fatal(err)
			}
			writeTree(t, dir, "tree/")
			if err := os.WriteFile(filepath.Join(dir, "tree/large"), nil, 0o644); err != nil {
				t.Fatal(err)
			}
			if err := os.Truncate(filepath.Join(dir, "tree/large"), 1<<30); err != nil {
				t.Fatal(err)
			}
			up := dialServer(t, s)
			up.send("PUT %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: 600000\r\n\r\n%s", fsPath("file", "path", file), strings.Repeat("x", 300_000))
			down := dialServer(t, s)
			down.send("GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", fsPath("archive", "path", filepath.Join(dir, "tree")))
			if _, err := down.r.Peek(1); err != nil {
				t.Fatal(err)
			}
			eventually(t, "an upload", func() bool { return openBelow(t, dir) > 1 }) // the other one is read
			begun := time.Now()
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			if took := time.Since(begun); took > 10*time.Second {
				t.Errorf("Close took %v", took)
			}
			if got := content(t, file); got != "old" || len(allFiles(t, dir)) != 2 {
				t.Errorf("content = %.40q, files %q", got, allFiles(t, dir))
			}
			_ = up.Close()
			_ = down.Close()
		})
	}
}

// TestUploadsOfMany writes one file from many clients at once: it always is one
// of theirs as a whole.
func TestUploadsOfMany(t *testing.T) {
	t.Parallel()
	s := serve(t, Config{})
	dir := t.TempDir()
	path := fsPath("file", "path", filepath.Join(dir, "file"), "sync", "false")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var all sync.WaitGroup
	for i := range 32 {
		body := strings.Repeat(string(rune('a'+i%26)), 100_000+i)
		all.Go(func() {
			for range 5 {
				if a := s.try(ctx, call{method: "PUT", path: path, body: body}); a.err != nil || a.StatusCode != 200 {
					t.Errorf("PUT: %v %s", a.err, a.body)
				}
				got := s.try(ctx, call{path: path})
				if text := string(got.body); got.err != nil || len(text) < 100_000 || strings.Trim(text, text[:1]) != "" {
					t.Errorf("GET: %v, %d bytes, mixed", got.err, len(text))
				}
			}
		})
	}
	all.Wait()
	if got := allFiles(t, dir); len(got) != 1 {
		t.Errorf("left: %q", got)
	}
}
