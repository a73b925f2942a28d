package events

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"
)

// TestSlowReader: a client that does not take an event for a while gets the reason as the last
// event, and the stream ends.
func TestSlowReader(t *testing.T) {
	t.Parallel()
	sent := 0
	f := newFeed(Positions{}, 30*time.Millisecond, []Source{func(_ context.Context, send func(Message) bool) error {
		for send(Message{Name: "n"}) {
			sent++
		}
		return nil
	}})
	defer f.close()
	if _, err := f.next(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.sources.Wait() // the source has given up
	batch, err := f.next(t.Context())
	if err != nil || len(batch) != 1 || batch[0].Name != "end" || batch[0].Data.(map[string]any)["reason"] != "slow" || sent == 0 {
		t.Errorf("after %d messages: %v, %v", sent, batch, err)
	}
	if _, err := f.next(t.Context()); !errors.Is(err, io.EOF) {
		t.Errorf("after the last event: %v", err)
	}
}

// TestFailedSource: a source that fails ends the stream with the reason.
func TestFailedSource(t *testing.T) {
	t.Parallel()
	f := newFeed(Positions{}, time.Minute, []Source{
		func(context.Context, func(Message) bool) error { return errors.New("disk is gone") },
		func(ctx context.Context, _ func(Message) bool) error { <-ctx.Done(); return ctx.Err() },
	})
	defer f.close()
	batch, err := f.next(t.Context())
	if err != nil || batch[0].Data.(map[string]any)["reason"] != "failed" {
		t.Errorf("%v, %v", batch, err)
	}
}

// TestHistoryIsBounded: a client that is further behind than the history gets a reset, and
// then the later changes.
func TestHistoryIsBounded(t *testing.T) {
	t.Parallel()
	h := NewHistory()
	h.Publish("processes", "created", nil)
	from := Positions{historyKey: PairOf(h.name, 1)}
	for range historySize + 1 {
		h.Publish("config", "updated", nil)
	}
	for topic, want := range map[string][]string{"processes": {"reset", "processes"}, "config": {"reset", "config"}} {
		f := newFeed(Positions{}, time.Minute, []Source{newHistorySource(h, from, []string{topic}).run})
		var got []string
		for len(got) < len(want) {
			batch, err := f.next(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range batch {
				if m.Name != "" {
					got = append(got, m.Name)
				}
			}
			if len(got) == 1 {
				h.Publish(topic, "created", nil)
			}
		}
		f.close()
		if got[0] != want[0] || got[1] != want[1] {
			t.Errorf("%s: %v, want %v", topic, got, want)
		}
	}
}

// TestHistoryBytes: large changes leave the history early, and the newest one stays, however large.
func TestHistoryBytes(t *testing.T) {
	t.Parallel()
	h := NewHistory()
	publish := func(size int) {
		h.Publish("processes", "created", map[string]any{"args": strings.Repeat("x", size)})
	}
	check := func(after uint64, wantLost bool) {
		t.Helper()
		if c, _, lost := h.next(after); lost != wantLost || (c.data == nil) != wantLost {
			t.Errorf("after %d of %d changes: lost = %v, want %v", after, h.newest(), lost, wantLost)
		}
	}
	for range 6 {
		publish(1 << 20)
	}
	check(2, true)
	check(3, false)
	check(5, false)
	publish(historyBytes)
	check(5, true)
	check(6, false)
	for range historySize {
		publish(1)
	}
	check(6, true)
	check(7, false)
}

// TestPositionEnds: a source removes its position, so that ids do not grow.
func TestPositionEnds(t *testing.T) {
	t.Parallel()
	f := newFeed(Positions{"a": "1"}, time.Minute, nil)
	defer f.close()
	if f.write(nil, []Message{{Key: "b", At: "2"}}); f.positions.String() != "a=1&b=2" {
		t.Errorf("positions: %s", f.positions)
	}
	if f.write(nil, []Message{{Key: "b"}}); f.positions.String() != "a=1" {
		t.Errorf("positions after the end of b: %s", f.positions)
	}
}

// TestPositions: the id of an event has every position, whatever is in it.
func TestPositions(t *testing.T) {
	t.Parallel()
	p := Positions{"session:a&b=c%\n": "5", "changes": "X-7", "desktop:main": "12-3"}
	got, ok := parsePositions(p.String())
	if n, is := got.Number("session:a&b=c%\n"); !ok || !is || n != 5 {
		t.Errorf("%q: %v", p, got)
	}
	if name, n, is := got.Pair("changes"); name != "X" || n != 7 || !is {
		t.Errorf("%q: %v", p, got)
	}
	for _, bad := range []string{"a=%zz", "a=1&a=2", "a"} {
		if got, ok := parsePositions(bad); ok {
			t.Errorf("%q: %v", bad, got)
		}
	}
}
