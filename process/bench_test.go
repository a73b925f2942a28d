package process_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/deskhand/deskhand/process"
)

// BenchmarkRun runs a program that does nothing.
func BenchmarkRun(b *testing.B) {
	m := newManager(b, process.Config{})
	b.ReportAllocs()
	for b.Loop() {
		if _, err := m.Run(b.Context(), process.Spec{Command: "/bin/true"}, process.RunOptions{}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkStart starts a program and waits for its end.
func BenchmarkStart(b *testing.B) {
	m := newManager(b, process.Config{})
	for _, terminal := range []bool{false, true} {
		b.Run(kind(terminal), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				wait(b, start(b, m, process.Spec{Command: "/bin/true", Terminal: terminal}))
			}
		})
	}
}

func kind(terminal bool) string {
	if terminal {
		return "terminal"
	}
	return "pipe"
}

// BenchmarkFollow reads 50 MB that cat writes.
func BenchmarkFollow(b *testing.B) {
	m := newManager(b, process.Config{})
	line := []byte("0123456789 0123456789 0123456789 0123456789 0123456789 0123456789 0123456789 x\n")
	path := filepath.Join(b.TempDir(), "text")
	if err := os.WriteFile(path, bytes.Repeat(line, 50_000_000/len(line)), 0o600); err != nil {
		b.Fatal(err)
	}
	for _, terminal := range []bool{false, true} {
		for _, followers := range []int{1, 64} {
			b.Run(fmt.Sprintf("%s/%d", kind(terminal), followers), func(b *testing.B) {
				b.SetBytes(50_000_000)
				var lost int64
				for b.Loop() {
					p := start(b, m, process.Spec{Command: "cat", Args: []string{path}, Terminal: terminal})
					var wg sync.WaitGroup
					var mu sync.Mutex
					for range followers {
						r := p.Log().Follow(0)
						wg.Go(func() {
							n := consume(b, r)
							mu.Lock()
							lost += n
							mu.Unlock()
						})
					}
					wg.Wait()
				}
				b.ReportMetric(float64(lost)/float64(b.N), "lost-B/op")
			})
		}
	}
}

// consume reads to the end and returns the number of dropped bytes.
func consume(b *testing.B, r *process.Reader) (lost int64) {
	for {
		_, gap, err := r.Next(b.Context())
		lost += gap.Bytes
		if errors.Is(err, io.EOF) {
			return lost
		}
		if err != nil {
			b.Error(err)
			return lost
		}
	}
}

// BenchmarkEcho measures the time from a key press to its echo in a terminal.
func BenchmarkEcho(b *testing.B) {
	m := newManager(b, process.Config{})
	p := start(b, m, inTerminal("stty raw -echo; echo ready; exec cat"))
	await(b, p, "ready")
	r := p.Log().FollowBytes(0)
	key := []byte("x")
	for b.Loop() {
		if _, err := p.Write(b.Context(), key); err != nil {
			b.Fatal(err)
		}
		if _, _, err := r.Next(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkList lists 500 running processes.
func BenchmarkList(b *testing.B) {
	m := newManager(b, process.Config{Limits: process.Limits{MaxProcesses: 500}})
	for range 500 {
		start(b, m, process.Spec{Command: "sleep", Args: []string{"1000"}})
	}
	for b.Loop() {
		if l := m.List(""); len(l) != 500 {
			b.Fatal(len(l))
		}
	}
}
