package eventlog

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// TestIdleStreamsLeaveMemory: idle streams are dropped, and the timer stops with the last.
func TestIdleStreamsLeaveMemory(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newStreams(1 << 20)
		for i := range 10 {
			m.publish(fmt.Sprint(i), 1, 0, []Event{{Seq: 1, Payload: make([]byte, 100)}})
		}
		followed := m.acquire("3")
		time.Sleep(idleAfter * 3 / 2) //nolint:forbidigo // the bubble's time
		m.publish("4", 1, 1, []Event{{Seq: 2}})
		time.Sleep(idleAfter/2 + time.Second) //nolint:forbidigo // the bubble's time
		synctest.Wait()
		if len(m.all) != 2 || m.all["3"] != followed || m.all["4"] == nil {
			t.Errorf("%d streams are left", len(m.all))
		}
		m.release(followed)
		time.Sleep(3 * idleAfter) //nolint:forbidigo // the bubble's time
		synctest.Wait()
		if len(m.all) != 0 || m.bytes.Load() != 0 || m.timer != nil {
			t.Errorf("%d streams with %d bytes are left, timer %v", len(m.all), m.bytes.Load(), m.timer)
		}
		m.publish("5", 1, 0, []Event{{Seq: 1}})
		m.close()
	})
}

// TestMemoryIsBounded: memory is bounded for any number and size of streams.
func TestMemoryIsBounded(t *testing.T) {
	t.Parallel()
	m := newStreams(1 << 20)
	defer m.close()
	for i := range 20_000 {
		name := fmt.Sprint(i % 100)
		m.publish(name, 1, int64(i/100), []Event{{Stream: name, Seq: int64(i/100 + 1), Payload: make([]byte, 1000)}})
		if n := m.bytes.Load(); n > 1<<20 {
			t.Fatalf("%d bytes after %d events", n, i)
		}
	}
	total := 0
	for _, s := range m.all {
		total += s.size
	}
	if int64(total) != m.bytes.Load() || total < 1<<19 {
		t.Errorf("%d bytes, %d are counted", total, m.bytes.Load())
	}
	// One stream alone, and an event that is larger than the limit.
	for i := range 2 * tailEvents {
		m.publish("one", 1, int64(i), []Event{{Seq: int64(i + 1), Payload: []byte("x")}})
	}
	if s := m.all["one"]; len(s.tail) > tailEvents || s.tail[len(s.tail)-1].Seq != 2*tailEvents {
		t.Errorf("%d events", len(s.tail))
	}
	m.publish("one", 1, 2*tailEvents, []Event{{Seq: 2*tailEvents + 1, Payload: make([]byte, 2<<20)}})
	if events, behind, _ := m.all["one"].after(2*tailEvents, 10); m.bytes.Load() > 1<<20 || len(events) == 0 && !behind {
		t.Errorf("%d bytes, %d events, behind %v", m.bytes.Load(), len(events), behind)
	}
}

// TestTailOfMany: events that take several numbers are found in memory.
func TestTailOfMany(t *testing.T) {
	t.Parallel()
	m := newStreams(64 << 20)
	defer m.close()
	const each = 3
	for i := range int64(tailEvents + 10) {
		m.publish("s", 1, i*each, []Event{{Seq: (i + 1) * each}})
	}
	s := m.all["s"]
	if len(s.tail) != tailEvents || s.before != 10*each {
		t.Fatalf("%d events after %d", len(s.tail), s.before)
	}
	for _, seq := range []int64{10 * each, 10*each + 1, 100*each - 1, 100 * each} {
		events, behind, _ := s.after(seq, 1)
		if want := (seq/each + 1) * each; behind || len(events) != 1 || events[0].Seq != want {
			t.Errorf("after %d: %v, behind %v; want %d", seq, events, behind, want)
		}
	}
	if _, behind, _ := s.after(10*each-1, 1); !behind {
		t.Error("after does not report that an event is only in the database")
	}
	m.publish("s", 1, (tailEvents+20)*each, []Event{{Seq: (tailEvents + 21) * each}})
	if _, behind, _ := s.after(100*each, 1); !behind || len(s.tail) != 1 {
		t.Error("after does not report that events are missing before the newest one")
	}
}
