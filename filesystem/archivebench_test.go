package filesystem_test

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/deskhand/deskhand/filesystem"
)

// memoryDir returns a directory on a file system in memory, if there is one.
func memoryDir(tb testing.TB) string {
	tb.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "deskhand-test-") //nolint:usetesting // which is on a disk
	if err != nil {
		return tb.TempDir()
	}
	tb.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// zeroTar is an archive with one file of zeros, which is generated while it is read.
type zeroTar struct {
	io.Reader
}

func newZeroTar(tb testing.TB, size int64) zeroTar {
	tb.Helper()
	var header bytes.Buffer
	must(tb, tar.NewWriter(&header).WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "zeros", Mode: 0o644, Size: size}))
	return zeroTar{io.MultiReader(&header, io.LimitReader(zeroReader{}, (size+511)/512*512+1024))}
}

type zeroReader struct{}

func (zeroReader) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// TestArchiveMemory checks that memory does not depend on the size of files.
func TestArchiveMemory(t *testing.T) {
	// Not parallel, because it measures the memory of the whole process.
	f := openFS(t)
	dir := t.TempDir()
	size := int64(soak()) << 28
	usage := func() uint64 {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.TotalAlloc
	}
	before := usage()
	done, err := f.Extract(t.Context(), dir, newZeroTar(t, size), filesystem.ExtractOptions{NoSync: true})
	must(t, err)
	if used := usage() - before; done.Bytes != size || used > 4<<20 {
		t.Errorf("to extract %d bytes took %d bytes of memory", done.Bytes, used)
	}
	before = usage()
	packed, err := f.Archive(t.Context(), dir, io.Discard, filesystem.ArchiveOptions{})
	must(t, err)
	if used := usage() - before; packed.Bytes != size || used > 4<<20 {
		t.Errorf("to archive %d bytes took %d bytes of memory", packed.Bytes, used)
	}
}

// directoryTar is an archive of directories with paths of 3765 bytes, made while it is read.
type directoryTar struct {
	entries int    // that are still to be read
	names   int    // different directories
	heap    uint64 // after the last entry
	buffer  bytes.Buffer
}

func (d *directoryTar) Read(p []byte) (int, error) {
	if d.buffer.Len() > 0 {
		return d.buffer.Read(p)
	}
	w := tar.NewWriter(&d.buffer)
	if d.entries == 0 {
		d.heap = liveHeap()
		return copy(p, make([]byte, 1024)), io.EOF
	}
	d.entries--
	name := strings.Repeat(strings.Repeat("d", 250)+"/", 14) + fmt.Sprintf("%0250d/", d.entries%d.names)
	if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: name, Mode: 0o755}); err != nil {
		return 0, err
	}
	return d.buffer.Read(p)
}

// liveHeap returns the size of the objects that are reachable.
func liveHeap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func smallFiles(tb testing.TB) []byte {
	tb.Helper()
	var members []member
	for i := range 10_000 {
		if i%50 == 0 {
			members = append(members, dirEntry(fmt.Sprintf("package%03d/", i/50)))
		}
		members = append(members, fileEntry(fmt.Sprintf("package%03d/file%d.js", i/50, i), strings.Repeat("x", 1000)))
	}
	return makeTar(tb, members...)
}

func benchmarkExtract(b *testing.B, archive func() io.Reader, options filesystem.ExtractOptions) {
	f := openFS(b)
	dir := memoryDir(b)
	b.ReportAllocs()
	for b.Loop() {
		done, err := f.Extract(b.Context(), filepath.Join(dir, "x"), archive(), options)
		must(b, err)
		b.SetBytes(done.Bytes)
		b.StopTimer()
		must(b, os.RemoveAll(filepath.Join(dir, "x")))
		b.StartTimer()
	}
}

func BenchmarkExtractSmall(b *testing.B) {
	small := smallFiles(b)
	for name, packed := range map[string][]byte{"tar": small, "gzip": gzipped(b, small), "zstd": zstandard(b, small)} {
		b.Run(name, func(b *testing.B) {
			benchmarkExtract(b, func() io.Reader { return bytes.NewReader(packed) }, filesystem.ExtractOptions{NoSync: true, MaxRatio: -1})
		})
	}
	b.Run("program", func(b *testing.B) {
		dir := memoryDir(b)
		for b.Loop() {
			runTar(b, small, "-x", "-C", dir)
			b.StopTimer()
			must(b, os.RemoveAll(dir))
			must(b, os.Mkdir(dir, 0o755))
			b.StartTimer()
		}
	})
}

func BenchmarkExtractLarge(b *testing.B) {
	const size = 256 << 20
	b.Run("tar", func(b *testing.B) {
		benchmarkExtract(b, func() io.Reader { return newZeroTar(b, size) }, filesystem.ExtractOptions{NoSync: true})
	})
	b.Run("copy", func(b *testing.B) { // the speed of the file system
		name := filepath.Join(memoryDir(b), "x")
		buffer := make([]byte, 512<<10)
		b.SetBytes(size)
		for b.Loop() {
			fd, err := unix.Open(name, unix.O_CREAT|unix.O_WRONLY, 0o600)
			must(b, err)
			for range size / len(buffer) {
				clear(buffer)
				_, err := unix.Write(fd, buffer)
				must(b, err)
			}
			must(b, unix.Close(fd))
			b.StopTimer()
			must(b, os.Remove(name))
			b.StartTimer()
		}
	})
}

func BenchmarkArchive(b *testing.B) {
	f := openFS(b)
	small, large := memoryDir(b), memoryDir(b)
	mustExtract(b, f, small, smallFiles(b))
	_, err := f.Extract(b.Context(), large, newZeroTar(b, 256<<20), filesystem.ExtractOptions{NoSync: true})
	must(b, err)
	for name, dir := range map[string]string{"small": small, "large": large} {
		for _, compression := range []filesystem.Compression{"none", "gzip", "zstd"} {
			b.Run(name+"/"+string(compression), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					done, err := f.Archive(b.Context(), dir, io.Discard, filesystem.ArchiveOptions{Compression: compression})
					must(b, err)
					b.SetBytes(done.Bytes)
				}
			})
		}
	}
}
