//go:build !race

// The memory of the race detector would dominate the measurement.

package jsonlines_test

import (
	"runtime"
	"strings"
	"testing"

	"github.com/deskhand/deskhand/internal/jsonlines"
)

// heap returns how many bytes are in use.
func heap() int {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

// Of lines that are mostly white space, the lines alone stay in memory, however small they are.
func TestPaddedLines(t *testing.T) { //nolint:paralleltest // it measures the heap
	const lines, text = 64, "{\"jsonrpc\":\"2.0\",\"method\":\"m\"}"
	for _, padding := range []int{1 << 10, jsonlines.Large - 100} {
		in := strings.Repeat(text+strings.Repeat(" ", padding)+"\n", lines)
		r := jsonlines.NewReader(strings.NewReader(in), jsonlines.Large, nil)
		var kept [][]byte
		before := heap()
		for range lines {
			line, _, err := r.Next()
			if err != nil || string(line) != text {
				t.Fatalf("%d bytes, %v", len(line), err)
			}
			kept = append(kept, line)
		}
		if got := heap() - before; got > lines*512 {
			t.Errorf("%d lines of %d bytes with %d bytes of white space keep %d bytes", lines, len(text), padding, got)
		}
		runtime.KeepAlive(kept)
		runtime.KeepAlive(in)
		runtime.KeepAlive(r)
	}
}

// A large line takes at most twice its size in memory, and the white space around a line does
// not stay in memory.
func TestGarbage(t *testing.T) { //nolint:paralleltest // it counts allocations
	const size = 32 << 20
	in := strings.Repeat("x", size) + "\n{}" + strings.Repeat(" ", size)
	var before, after runtime.MemStats
	r := jsonlines.NewReader(strings.NewReader(in), 2*size, nil)
	runtime.ReadMemStats(&before)
	line, _, err := r.Next()
	runtime.ReadMemStats(&after)
	if err != nil || len(line) != size {
		t.Fatalf("%d bytes, %v", len(line), err)
	}
	if got := after.TotalAlloc - before.TotalAlloc; got > 2*size+size/8 {
		t.Errorf("a line of %d MiB took %d MiB", size>>20, got>>20)
	}
	if line, _, err = r.Next(); err != nil || cap(line) > 1<<10 {
		t.Errorf("a line of %d bytes with room for %d, %v", len(line), cap(line), err)
	}
}
