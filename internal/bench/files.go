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

// memoryDir is where the files are that should not wait for a disk. tmpfs(5)
const memoryDir = "/dev/shm"

// flat is how much a server's resident memory may grow while large files pass
// through it.
const flat = 8 << 20

var fileRows = []row{
	{key: "put-memory", title: "put 1 MiB, in memory", bytes: small, factor: parity, once: put(inMemory, small, "")},
	{key: "put-memory-unsynced", title: "put 1 MiB, in memory, sync=false", bytes: small, factor: parity, once: put(inMemory, small, "&sync=false")},
	{key: "put-disk", title: "put 1 MiB, on disk", bytes: small, once: put(onDisk, small, "")},
	{key: "put-disk-unsynced", title: "put 1 MiB, on disk, sync=false", bytes: small, once: put(onDisk, small, "&sync=false")},
	{key: "get-memory", title: "get 1 MiB, in memory", bytes: small, factor: parity, prepare: lay(inMemory, small), once: fetch(inMemory, small)},
	{key: "get-disk", title: "get 1 MiB, on disk", bytes: small, factor: parity, prepare: lay(onDisk, small), once: fetch(onDisk, small)},
	{
		key: "get-large", title: "get 64 MiB, in memory", bytes: large, factor: parity, growth: flat,
		prepare: lay(inMemory, large), once: fetch(inMemory, large), finish: remove(inMemory),
	},
	{
		key: "put-large", title: "put 64 MiB, in memory", bytes: large, rate: 400, growth: flat,
		impossible: "refuses more than 2 MiB", once: put(inMemory, large, ""), finish: remove(inMemory),
	},
}

// storage is where a bed's file is.
type storage func(*bed) string

func inMemory(b *bed) string { return filepath.Join(b.memory, "file") }
func onDisk(b *bed) string   { return filepath.Join(b.server.Home, "file") }

// noise is what the files contain: bytes that no part of the way could compress
// or share.
var noise = sync.OnceValue(func() []byte {
	data := make([]byte, large)
	_, _ = rand.NewChaCha8([32]byte{}).Read(data)
	return data
})

// put writes a file over HTTP. Its content is the same at every call.
func put(at storage, size int, query string) func(context.Context, *bed) (time.Duration, error) {
	return func(ctx context.Context, b *bed) (time.Duration, error) {
		path := at(b)
		took, err := b.send(ctx, "/v1/fs/file?path="+url.QueryEscape(path)+query, noise()[:size])
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

// send puts a body and returns how long it took until the answer was read.
func (b *bed) send(ctx context.Context, path string, body []byte) (time.Duration, error) {
	req, err := b.request(ctx, http.MethodPut, path, nil)
	if err != nil {
		return 0, err
	}
	req.Header.Set("Content-Type", "application/octet-stream")
	req.Body, req.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	begin := time.Now()
	err = do(b.http, req, io.Discard)
	return time.Since(begin), err
}

// lay makes the file that fetch reads, without the server.
func lay(at storage, size int) func(context.Context, *bed) error {
	return func(_ context.Context, b *bed) error { return os.WriteFile(at(b), noise()[:size], 0o600) }
}

func remove(at storage) func(context.Context, *bed) error {
	return func(_ context.Context, b *bed) error { return os.Remove(at(b)) }
}

// fetch reads a file over HTTP. Only the length of what comes is looked at: the
// tests compare contents.
func fetch(at storage, size int) func(context.Context, *bed) (time.Duration, error) {
	return func(ctx context.Context, b *bed) (time.Duration, error) {
		req, err := b.request(ctx, http.MethodGet, "/v1/fs/file?path="+url.QueryEscape(at(b)), nil)
		if err != nil {
			return 0, err
		}
		var got counter
		begin := time.Now()
		err = do(b.http, req, &got)
		took := time.Since(begin)
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

// kind names the file system that a directory is on.
func kind(dir string) string {
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
