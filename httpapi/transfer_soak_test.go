//go:build !race

// The race detector's own memory hides ours.

package httpapi

import (
	"bytes"
	"context"
	le "encoding/binary"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
	"time"
)

// pattern is a file of that many bytes, each eight of which tell their place.
type pattern struct{ at, size int64 }

func (p *pattern) Read(b []byte) (int, error) {
	if p.at == p.size {
		return 0, io.EOF
	}
	n := int(min(int64(len(b)), p.size-p.at)) &^ 7
	for i := 0; i < n; i += 8 {
		le.LittleEndian.PutUint64(b[i:], uint64(p.at+int64(i)))
	}
	p.at += int64(n)
	return n, nil
}

// Write checks what a pattern should be.
func (p *pattern) Write(b []byte) (int, error) {
	for i := range b {
		if want := byte(uint64((p.at+int64(i))&^7) >> (8 * uint((p.at+int64(i))&7))); b[i] != want {
			return i, fmt.Errorf("byte %d is %d, want %d", p.at+int64(i), b[i], want)
		}
	}
	p.at += int64(len(b))
	return len(b), nil
}

// anonymous is the memory that this program really uses, in bytes: what it maps
// of files, such as its own code, is left out.
func anonymous(t *testing.T) int64 {
	t.Helper()
	rollup, err := os.ReadFile("/proc/self/smaps_rollup")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(rollup)) {
		var kib int64
		if n, _ := fmt.Sscanf(line, "Anonymous: %d kB", &kib); n == 1 {
			return kib << 10
		}
	}
	t.Fatal("smaps_rollup has no line Anonymous")
	return 0
}

// growth calls f and tells how much more memory was used at its worst moment.
func growth(t *testing.T, f func()) int64 {
	t.Helper()
	debug.FreeOSMemory()
	before, most := anonymous(t), int64(0)
	done := make(chan struct{})
	var watcher sync.WaitGroup
	watcher.Go(func() {
		ticker := time.NewTicker(10 * time.Millisecond)
		defer ticker.Stop()
		for {
			most = max(most, anonymous(t)-before)
			select {
			case <-done:
				return
			case <-ticker.C:
			}
		}
	})
	f()
	close(done)
	watcher.Wait()
	return most
}

// transfer puts a pattern into a file and gets it again.
func (s *testServer) transfer(ctx context.Context, path string, size int64) (put, get time.Duration, err error) {
	begun := time.Now()
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, s.url+path, &pattern{size: size})
	if err != nil {
		return 0, 0, err
	}
	req.ContentLength = size
	req.Header.Set("Authorization", "Bearer "+s.Token())
	resp, err := s.client.Do(req)
	if err != nil {
		return 0, 0, err
	}
	text, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	if err != nil || resp.StatusCode != 200 || !bytes.Contains(text, fmt.Appendf(nil, `"bytesWritten":%d`, size)) {
		return 0, 0, fmt.Errorf("PUT = %s %s, %w", resp.Status, text, err)
	}
	put = time.Since(begun)
	begun = time.Now()
	if req, err = http.NewRequestWithContext(ctx, http.MethodGet, s.url+path, nil); err != nil {
		return 0, 0, err
	}
	req.Header.Set("Authorization", "Bearer "+s.Token())
	if resp, err = s.client.Do(req); err != nil {
		return 0, 0, err
	}
	defer resp.Body.Close()
	check := &pattern{}
	if _, err = io.Copy(check, resp.Body); err == nil && check.at != size {
		err = fmt.Errorf("got %d bytes of %d", check.at, size)
	}
	return put, time.Since(begun), err
}

// TestTransferMemory sends 64 MiB up and down, by every way: the reference holds
// them in memory (fault S11), or refuses them (B3).
func TestTransferMemory(t *testing.T) {
	const size = 64 << 20
	for way, start := range ways {
		t.Run(way, func(t *testing.T) {
			s := start(t, Config{})
			path := fsPath("file", "path", filepath.Join(t.TempDir(), "file"), "sync", "false")
			transfer := func() (put, get time.Duration) {
				put, get, err := s.transfer(t.Context(), path, size)
				if err != nil {
					t.Fatal(err)
				}
				return put, get
			}
			transfer() // what is needed once
			var put, get time.Duration
			if grown := growth(t, func() { put, get = transfer() }); grown > 8<<20 {
				t.Errorf("memory grew by %d KiB", grown>>10)
			} else {
				t.Logf("64 MiB: put %v, get %v, memory grew by %d KiB", put, get, grown>>10)
			}
		})
	}
}

// TestManyTransfers has 16 clients send and get 16 MiB each at once.
func TestManyTransfers(t *testing.T) {
	s := serve(t, Config{})
	dir := t.TempDir()
	clients := func() {
		var all sync.WaitGroup
		for i := range 16 {
			all.Go(func() {
				path := fsPath("file", "path", filepath.Join(dir, fmt.Sprint(i)), "sync", "false")
				if _, _, err := s.transfer(t.Context(), path, 16<<20); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
	}
	clients()
	// Each has its buffers here and in the client.
	if grown := growth(t, clients); grown > 48<<20 {
		t.Errorf("memory grew by %d KiB", grown>>10)
	}
}

// TestHugeTransfer passes 1 GiB through, and 10 GiB in make soak. What is sent
// down comes from a sparse file, too.
func TestHugeTransfer(t *testing.T) {
	s := serve(t, Config{})
	s.client.Timeout = 30 * time.Minute
	dir := t.TempDir()
	size := int64(soak()) << 30
	file := filepath.Join(dir, "file")
	grown := growth(t, func() {
		put, get, err := s.transfer(t.Context(), fsPath("file", "path", file, "sync", "false"), size)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%d GiB: put %v, get %v", size>>30, put, get)
	})
	if grown > 16<<20 {
		t.Errorf("memory grew by %d KiB", grown>>10)
	}
	if info, err := os.Stat(file); err != nil || info.Size() != size {
		t.Fatalf("%v, %v", info, err)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	sparse := filepath.Join(dir, "sparse")
	if err := os.WriteFile(sparse, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(sparse, 10<<30); err != nil {
		t.Fatal(err)
	}
	resp := s.open(t, fsPath("file", "path", sparse))
	if n, err := countBytes(resp); err != nil || n != 10<<30 || resp.length != n {
		t.Errorf("%d bytes of %d, %v", n, resp.length, err)
	}
	tail := s.do(t, call{path: fsPath("file", "path", sparse), header: map[string]string{"Range": "bytes=-5"}}).want(t, 206)
	if got := tail.Header.Get("Content-Range"); got != "bytes 10737418235-10737418239/10737418240" {
		t.Errorf("Content-Range = %s", got)
	}
}
