package process_test

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"

	"github.com/deskhand/deskhand/process"
)

// Many short processes of all kinds leave no descriptors, goroutines or records. make soak
// starts 10000 of each. Not parallel: it counts the program's descriptors.
func TestManyShortProcesses(t *testing.T) {
	m := newManager(t, process.Config{MaxRecords: 10})
	round := func(i int) {
		r, err := m.Run(t.Context(), process.Spec{Command: "/bin/true"}, process.RunOptions{})
		if err != nil || code(r.Exit) != "0" {
			t.Fatalf("run %d: %+v, %v", i, r, err)
		}
		p := start(t, m, process.Spec{Command: "/bin/echo", Args: []string{"hello"}, Terminal: i%2 == 0})
		if text, gap := readAll(t, p.Log().Follow(0)); text != "hello\n" && text != "hello\r\n" || gap != (process.Gap{}) {
			t.Fatalf("process %d wrote %q, %+v", i, text, gap)
		}
		wait(t, p)
		if _, err := m.Start(process.Spec{Command: "/no/such/program", Terminal: i%2 == 0}); err == nil {
			t.Fatal("no error")
		}
	}
	for i := range 50 {
		round(i)
	}
	var files, goroutines int
	pollCounts := func(want func() error) {
		poll(t, func() error {
			files, goroutines = openFiles(t), runtime.NumGoroutine()
			return want()
		})
	}
	pollCounts(func() error { return nil })
	before, beforeGo := files, goroutines
	for i := range 1000 * soak() {
		round(i)
	}
	pollCounts(func() error {
		if files > before || goroutines > beforeGo {
			return fmt.Errorf("%d open files and %d goroutines, %d and %d before", files, goroutines, before, beforeGo)
		}
		return nil
	})
	if l := m.List(process.OwnerUser); len(l) != 10 {
		t.Errorf("%d records", len(l))
	}
}

// The memory for output is bounded, however much a process writes.
// Not parallel: it measures the program's memory.
func TestMemoryIsFlat(t *testing.T) {
	const size = 200_000_000
	m := newManager(t, process.Config{Limits: process.Limits{MaxLog: 1 << 20, MaxOutput: 1 << 20}})
	heap := func() int64 {
		runtime.GC()
		var s runtime.MemStats
		runtime.ReadMemStats(&s)
		return int64(s.HeapAlloc)
	}
	before := heap()
	writes := script(fmt.Sprintf("head -c %d /dev/zero", size*soak()))
	r, err := m.Run(t.Context(), writes, process.RunOptions{})
	if err != nil || len(r.Stdout) != 1<<20 || !r.StdoutTruncated {
		t.Fatalf("%d bytes, truncated %v, %v", len(r.Stdout), r.StdoutTruncated, err)
	}
	p := start(t, m, writes)
	reader := p.Log().Follow(0)
	first, _, err := reader.Next(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	wait(t, p)
	if grown := heap() - before; grown > 4<<20 {
		t.Errorf("the heap has grown by %d bytes", grown)
	}
	runtime.KeepAlive(r)
	runtime.KeepAlive(first)
	runtime.KeepAlive(p)
}

// Close runs concurrently with all other calls.
func TestCloseInTheMiddle(t *testing.T) {
	t.Parallel()
	for range 3 * soak() {
		m := newManager(t, process.Config{})
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Go(func() {
				for {
					s := script("echo text; sleep 0.01; exec sleep 1000")
					s.Terminal = i%2 == 0
					p, err := m.Start(s)
					if err != nil {
						if !errors.As(err, new(*process.LimitError)) {
							return // closed
						}
						continue
					}
					_, _ = p.Write(t.Context(), []byte("x"))
					_ = p.Resize(1, 1)
					m.List("")
					if i < 4 {
						p.Stop(t.Context(), 0)
					} else {
						p.Kill(t.Context(), -1)
					}
					_ = m.Remove(p.ID())
					_, _, _ = p.Log().Follow(0).Next(t.Context())
				}
			})
		}
		_, _ = m.Run(t.Context(), script("sleep 0.1"), process.RunOptions{})
		if err := m.Close(); err != nil {
			t.Error(err)
		}
		wg.Wait()
	}
}
