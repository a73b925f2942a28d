package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Sizes of the files that are moved.
const (
	small = 1 << 20
	large = 64 << 20
)

// memoryDir holds the files that should not wait for a disk (tmpfs(5)).
const memoryDir = "/dev/shm"

// flat is how much a server's resident memory may grow while large files pass
// through it.
const flat = 8 << 20

// hostRows are the rows that need no desktop.
var hostRows = []row{
	{key: "put-memory", title: "put 1 MiB, in memory", bytes: small, factor: parity, call: put(inMemory, small, "")},
	{key: "put-disk", title: "put 1 MiB, on disk", bytes: small, call: put(onDisk, small, "")},
	{key: "put-disk-unsynced", title: "put 1 MiB, on disk, sync=false", bytes: small, call: put(onDisk, small, "&sync=false")},
	{key: "get-memory", title: "get 1 MiB, in memory", bytes: small, factor: parity, prepare: writeNoise(small), call: get(small)},
	{
		key: "get-large", title: "get 64 MiB, in memory", bytes: large, factor: parity, growth: flat,
		prepare: writeNoise(large), call: get(large), finish: removeFile,
	},
	{
		key: "put-large", title: "put 64 MiB, in memory", bytes: large, rate: 400, growth: flat,
		impossible: "refuses more than 2 MiB", call: put(inMemory, large, ""), finish: removeFile,
	},
	{key: "run", title: "run /bin/true", factor: parity, often: true, call: runTrue},
	{
		key: "list", title: fmt.Sprintf("list of %d running processes", crowd), below: 5 * time.Millisecond,
		prepare: startCrowd, call: listCrowd, finish: endProcesses,
	},
	{
		key: "followers", title: fmt.Sprintf("%d lines to %d followers of a log", logLines, followers), bytes: int64(followers * len(logText)),
		whole: true, rounds: true, call: follow,
	},
	{
		key: "echo", title: "terminal: a key and its echo", below: time.Millisecond, often: true,
		prepare: openEcho, call: echo, finish: closeEcho,
	},
	{
		key: "flood", title: "terminal: cat of 50 MB", bytes: flood, rate: 50, whole: true, rounds: true,
		prepare: writeNoise(flood), call: showFlood, finish: removeFile,
	},
}

func inMemory(b *bed) string { return filepath.Join(b.memory, "file") }
func onDisk(b *bed) string   { return filepath.Join(b.server.Home, "file") }

// noise is what the files contain: bytes that nothing on the way could compress
// or share.
var noise = sync.OnceValue(func() []byte {
	data := make([]byte, large)
	_, _ = rand.NewChaCha8([32]byte{}).Read(data)
	return data
})

// put writes a file over HTTP. Its content is the same at every call.
func put(file func(*bed) string, size int, query string) call {
	return func(ctx context.Context, b *bed) (time.Duration, error) {
		path := file(b)
		req, err := b.server.Request(ctx, http.MethodPut, "/v1/fs/file?path="+url.QueryEscape(path)+query, nil)
		if err != nil {
			return 0, err
		}
		req.Header.Set("Content-Type", "application/octet-stream")
		req.Body, req.ContentLength = io.NopCloser(bytes.NewReader(noise()[:size])), int64(size)
		took, err := b.timed(req, io.Discard)
		if err != nil {
			return 0, err
		}
		info, err := os.Stat(path)
		if err == nil && info.Size() != int64(size) {
			err = fmt.Errorf("%s: put wrote %d bytes, want %d", b.name, info.Size(), size)
		}
		return took, err
	}
}

// writeNoise makes the file in memory, without the server.
func writeNoise(size int) func(context.Context, *bed) error {
	return func(_ context.Context, b *bed) error { return os.WriteFile(inMemory(b), noise()[:size], 0o600) }
}

func removeFile(_ context.Context, b *bed) error { return os.Remove(inMemory(b)) }

// get reads the file in memory over HTTP and checks its length. The tests compare
// contents.
func get(size int) call {
	return func(ctx context.Context, b *bed) (time.Duration, error) {
		req, err := b.server.Request(ctx, http.MethodGet, "/v1/fs/file?path="+url.QueryEscape(inMemory(b)), nil)
		if err != nil {
			return 0, err
		}
		var got counter
		took, err := b.timed(req, &got)
		if err == nil && int(got) != size {
			err = fmt.Errorf("%s: get read %d bytes, want %d", b.name, got, size)
		}
		return took, err
	}
}

// counter counts what is written to it.
type counter int

func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}

// fileSystem names the file system of a directory.
func fileSystem(dir string) string {
	var info unix.Statfs_t
	if err := unix.Statfs(dir, &info); err != nil {
		return "unknown"
	}
	names := map[int64]string{
		unix.EXT4_SUPER_MAGIC: "ext4", unix.XFS_SUPER_MAGIC: "xfs", unix.BTRFS_SUPER_MAGIC: "btrfs",
		unix.OVERLAYFS_SUPER_MAGIC: "overlay", unix.TMPFS_MAGIC: "tmpfs",
	}
	if name, ok := names[int64(info.Type)]; ok { //nolint:unconvert // an int32 on arm
		return name
	}
	return fmt.Sprintf("type %#x", info.Type)
}
