package eventlog_test

import (
	"bytes"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/deskhand/deskhand/agents/eventlog"
	"github.com/deskhand/deskhand/internal/testpostgres"
)

// message is like most messages of agents.
var message = bytes.Repeat([]byte(`{"jsonrpc":"2.0","method":"session/update"}`), 7)[:280]

var modes = []struct {
	name string
	mode eventlog.Mode
}{{"full", eventlog.Full}, {"normal", eventlog.Normal}}

// BenchmarkCommit measures a commit of one event by one writer.
func BenchmarkCommit(b *testing.B) {
	for _, m := range modes {
		b.Run(m.name, func(b *testing.B) {
			l := open(b, eventlog.Config{DSN: file(b), Synchronous: m.mode})
			took := make([]time.Duration, 0, 1<<16)
			for b.Loop() {
				start := time.Now()
				commit(b, l, "acp:1", 1)
				took = append(took, time.Since(start))
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
		})
	}
}

// BenchmarkTenSessions measures ten concurrent writers.
func BenchmarkTenSessions(b *testing.B) {
	for _, m := range modes {
		b.Run(m.name, func(b *testing.B) {
			tenSessions(b, open(b, eventlog.Config{DSN: file(b), Synchronous: m.mode}))
		})
	}
}

func tenSessions(b *testing.B, l *eventlog.Log) {
	var left atomic.Int64
	left.Store(int64(b.N))
	var wg sync.WaitGroup
	b.ResetTimer()
	for s := range 10 {
		wg.Go(func() {
			stream := fmt.Sprintf("acp:%d", s)
			for left.Add(-1) >= 0 {
				commit(b, l, stream, 1)
			}
		})
	}
	wg.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
}

func commit(b *testing.B, l *eventlog.Log, stream string, n int) {
	err := l.Commit(b.Context(), func(tx *eventlog.Tx) error {
		for range n {
			e := eventlog.Event{Stream: stream, Session: "s", Process: "life", Kind: "session/update", Payload: message}
			if _, err := tx.Append(e); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		b.Error(err)
	}
}

// BenchmarkPostgres is like BenchmarkTenSessions with Postgres on this machine.
func BenchmarkPostgres(b *testing.B) {
	for _, m := range modes {
		b.Run(m.name, func(b *testing.B) {
			c := testpostgres.Start(b, "fsync=on")
			tenSessions(b, open(b, eventlog.Config{DSN: c.DSN(), Synchronous: m.mode}))
		})
	}
}

// BenchmarkMemory measures how much the heap grows with many events. Config.Memory bounds it.
func BenchmarkMemory(b *testing.B) {
	l := open(b, eventlog.Config{DSN: file(b), Synchronous: eventlog.Normal, Memory: 4 << 20})
	heap := func() float64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return float64(m.HeapAlloc) / (1 << 20)
	}
	before := heap()
	for n := range b.N {
		commit(b, l, fmt.Sprint(n%1000), 100)
	}
	b.ReportMetric(heap()-before, "MiB-more")
	b.ReportMetric(float64(100*b.N), "events")
}

// BenchmarkFollowers measures the time from a commit until the last of 99 followers has its
// event. Another follower has stalled.
func BenchmarkFollowers(b *testing.B) {
	l := open(b, eventlog.Config{DSN: file(b)})
	acknowledged := make([]int64, b.N+1) // by sequence
	got := make([][]int64, 99)
	stalled := l.Follow("s", 0)
	var wg sync.WaitGroup
	for i := range got {
		got[i] = make([]int64, b.N+1)
		wg.Go(func() {
			for c := l.Follow("s", 0); c.Seq() < int64(b.N); {
				page, err := c.Next(b.Context())
				if err != nil {
					b.Error(err)
					return
				}
				for now := time.Now().UnixNano(); len(page) > 0; page = page[1:] {
					got[i][page[0].Seq] = now
				}
			}
		})
	}
	b.ResetTimer()
	for n := range b.N {
		commit(b, l, "s", 1)
		acknowledged[n+1] = time.Now().UnixNano()
	}
	wg.Wait()
	b.StopTimer()
	worst := int64(0)
	for _, times := range got {
		for seq := 1; seq <= b.N; seq++ {
			worst = max(worst, times[seq]-acknowledged[seq])
		}
	}
	b.ReportMetric(float64(worst)/1e6, "worst-lag-ms")
	if page, err := stalled.Next(b.Context()); err != nil || page[0].Seq != 1 {
		b.Error("the stalled follower has lost something", err)
	}
}

// BenchmarkFirstPage reads 100 events, from the beginning and the middle of a
// million, and opens the log.
func BenchmarkFirstPage(b *testing.B) {
	cfg := eventlog.Config{DSN: file(b), Synchronous: eventlog.Normal}
	l := open(b, cfg)
	for range 1_000_000 / 500 {
		commit(b, l, "s", 500)
	}
	var page []eventlog.Event
	for _, from := range []int64{0, 500_000} {
		b.Run(fmt.Sprint(from), func(b *testing.B) {
			for b.Loop() {
				var err error
				if page, err = l.Read(b.Context(), "s", from, 100); err != nil || len(page) != 100 || page[0].Seq != from+1 {
					b.Fatal(len(page), err)
				}
			}
		})
	}
	b.Run("open", func(b *testing.B) {
		for b.Loop() {
			closeLog(b, l)
			l = open(b, cfg)
			if _, err := l.Read(b.Context(), "s", 0, 100); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkPicture commits messages with different screenshots of 3 MB.
func BenchmarkPicture(b *testing.B) {
	l := open(b, eventlog.Config{DSN: file(b)})
	payload := append([]byte(`{"data":"`), picture(3<<20)...)
	payload = append(payload, `"}`...)
	b.SetBytes(int64(len(payload)))
	for n := 0; b.Loop(); n++ {
		own := slices.Clone(payload)
		copy(own[9:], fmt.Sprintf("%08d", n))
		err := l.Commit(b.Context(), func(tx *eventlog.Tx) error {
			_, err := tx.Append(eventlog.Event{Stream: "s", Payload: own})
			return err
		})
		if err != nil {
			b.Fatal(err)
		}
	}
}
