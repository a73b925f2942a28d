package filesystem_test

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/deskhand/deskhand/filesystem"
)

// memory returns a directory on a file system in memory if there is one, else another one.
func memory(tb testing.TB) string {
	tb.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "deskhand-test-") //nolint:usetesting // that is where memory is
	if err != nil {
		return tb.TempDir()
	}
	tb.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func BenchmarkWrite(b *testing.B) {
	for _, place := range []struct {
		name string
		dir  func(testing.TB) string
		sync bool
	}{
		{"memory", memory, false},
		{"disk", func(tb testing.TB) string { return tb.TempDir() }, false},
		{"disk synced", func(tb testing.TB) string { return tb.TempDir() }, true},
	} {
		for _, size := range []int64{1 << 10, 1 << 20, 64 << 20} {
			for _, narrow := range []bool{false, true} {
				b.Run(fmt.Sprintf("%s/%dKiB/root=%v", place.name, size>>10, narrow), func(b *testing.B) {
					config := filesystem.Config{Home: place.dir(b)}
					if narrow {
						config.Roots = []filesystem.Root{{Path: config.Home}}
					}
					f := open(b, config)
					content := bytes.NewReader(make([]byte, size))
					b.SetBytes(size)
					b.ReportAllocs()
					for b.Loop() {
						_, _ = content.Seek(0, io.SeekStart)
						if _, err := f.Write(b.Context(), "file", onlyReader{content}, filesystem.WriteOptions{NoSync: !place.sync}); err != nil {
							b.Fatal(err)
						}
					}
				})
			}
		}
	}
}

type onlyReader struct{ io.Reader }

func BenchmarkRead(b *testing.B) {
	for _, size := range []int64{1 << 10, 64 << 20} {
		b.Run(fmt.Sprintf("%dKiB", size>>10), func(b *testing.B) {
			f := open(b, filesystem.Config{Home: memory(b)})
			write(b, f, "file", string(make([]byte, size)), filesystem.WriteOptions{NoSync: true})
			buffer := make([]byte, 256<<10)
			b.SetBytes(size)
			b.ReportAllocs()
			for b.Loop() {
				file, err := f.OpenFile("file")
				if err != nil {
					b.Fatal(err)
				}
				if n, err := io.CopyBuffer(onlyWriter{io.Discard}, file, buffer); n != size || err != nil {
					b.Fatal(n, err)
				}
				_ = file.Close()
			}
		})
	}
}

type onlyWriter struct{ io.Writer }

func BenchmarkStat(b *testing.B) {
	for _, narrow := range []bool{false, true} {
		b.Run(fmt.Sprintf("root=%v", narrow), func(b *testing.B) {
			config := filesystem.Config{Home: memory(b)}
			if narrow {
				config.Roots = []filesystem.Root{{Path: config.Home}}
			}
			f := open(b, config)
			put(b, filepath.Join(config.Home, "a/b/c/file"), "")
			b.ReportAllocs()
			for b.Loop() {
				if _, err := f.Stat("a/b/c/file"); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkList(b *testing.B) {
	for _, count := range []int{100, 10_000} {
		b.Run(fmt.Sprint(count), func(b *testing.B) {
			dir := memory(b)
			f := open(b, filesystem.Config{Home: dir})
			for i := range count {
				put(b, fmt.Sprintf("%s/file%06d", dir, i), "")
			}
			b.ReportAllocs()
			for b.Loop() {
				l, err := f.List(b.Context(), "", filesystem.ListOptions{})
				if err != nil || len(l.Entries) != count {
					b.Fatal(len(l.Entries), err)
				}
			}
		})
	}
}
