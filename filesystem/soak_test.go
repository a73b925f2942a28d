//go:build !race

// The memory of the race detector would dominate the measurement.

package filesystem_test

import (
	"encoding/binary"
	"io"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/deskhand/deskhand/filesystem"
)

// numbers is content without repetition: ascending 64-bit numbers.
type numbers struct {
	next  uint64
	count uint64
	atEnd func() // called at the end of the content
}

func (n *numbers) Read(p []byte) (int, error) {
	if n.next == n.count {
		n.atEnd()
		return 0, io.EOF
	}
	size := 0
	for len(p)-size >= 8 && n.next < n.count {
		binary.LittleEndian.PutUint64(p[size:], n.next)
		n.next++
		size += 8
	}
	return size, nil
}

// Write checks that the content is the expected numbers.
func (n *numbers) Write(p []byte) (int, error) {
	for size := 0; size < len(p); size += 8 {
		if binary.LittleEndian.Uint64(p[size:]) != n.next {
			return size, io.ErrShortWrite
		}
		n.next++
	}
	return len(p), nil
}

// anonymous is the memory of this process that no file backs, in KiB.
func anonymous(t *testing.T) int {
	t.Helper()
	debug.FreeOSMemory()
	rollup, err := os.ReadFile("/proc/self/smaps_rollup")
	must(t, err)
	for line := range strings.Lines(string(rollup)) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == "Anonymous:" {
			n, err := strconv.Atoi(f[1])
			must(t, err)
			return n
		}
	}
	t.Fatal("no Anonymous in smaps_rollup")
	return 0
}

// TestLargeFile writes, appends, reads and moves a file of 1 GiB, or 10 GiB in a soak. The
// memory of the process does not grow.
func TestLargeFile(t *testing.T) {
	dir := t.TempDir()
	size := int64(soak()) << 30
	var disk unix.Statfs_t
	must(t, unix.Statfs(dir, &disk))
	if free := int64(disk.Bavail) * disk.Bsize; free < 4*size {
		t.Skipf("%d bytes are free", free)
	}
	f := open(t, filesystem.Config{Home: dir})
	write(t, f, "file", "warm", filesystem.WriteOptions{})
	before := anonymous(t)
	check := func() {
		if grown := anonymous(t) - before; grown > 8<<10 {
			t.Errorf("memory grew by %d KiB", grown)
		}
	}

	middle := size / 2
	n, err := f.Write(t.Context(), "file", &numbers{count: uint64(middle) / 8, atEnd: check},
		filesystem.WriteOptions{NoSync: true})
	if n != middle || err != nil {
		t.Fatalf("Write = %d, %v", n, err)
	}
	n, err = f.Write(t.Context(), "file", &numbers{next: uint64(middle) / 8, count: uint64(size) / 8, atEnd: check},
		filesystem.WriteOptions{NoSync: true, Append: true})
	if n != size-middle || err != nil {
		t.Fatalf("Append = %d, %v", n, err)
	}
	file, err := f.OpenFile("file")
	must(t, err)
	defer file.Close()
	n, err = io.CopyBuffer(&numbers{}, onlyReader{file}, make([]byte, 256<<10))
	if n != size || err != nil {
		t.Fatalf("the content differs after %d bytes: %v", n, err)
	}
	check()
	if other, err := os.MkdirTemp("/dev/shm", "deskhand-test-"); err == nil { //nolint:usetesting // another file system
		t.Cleanup(func() { _ = os.RemoveAll(other) })
		must(t, os.Truncate(dir+"/file", size/8))
		must(t, f.Move(t.Context(), "file", other+"/file", filesystem.MoveOptions{}))
		check()
	}
}
