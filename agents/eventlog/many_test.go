package eventlog_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/deskhand/deskhand/agents/eventlog"
)

// appendMany appends events that take 1, 2, 3... numbers, each in its own commit, and
// returns the last number.
func appendMany(t testing.TB, l *eventlog.Log, stream string, n int) (last int64) {
	t.Helper()
	for i := range n {
		must(t, l.Commit(t.Context(), func(tx *eventlog.Tx) error {
			e, err := tx.AppendMany(eventlog.Event{Stream: stream, Session: "a", Payload: fmt.Append(nil, i+1)}, i+1)
			last = e.Seq
			return err
		}))
	}
	return last
}

// checkNumbers checks that a read after each number returns the event with the next number.
func checkNumbers(t testing.TB, l *eventlog.Log, stream string, n int, from int64) {
	t.Helper()
	end := int64(0)
	for i := range n {
		first := end + 1
		end += int64(i + 1)
		for at := max(first, from); at <= end; at++ {
			page, err := l.Read(t.Context(), stream, at-1, 1)
			if err != nil || len(page) != 1 || page[0].Seq != end {
				t.Fatalf("after %d: %v, %v; want %d", at-1, page, err, end)
			}
		}
	}
	if last, err := l.Last(t.Context(), stream); err != nil || last != end {
		t.Errorf("the last number is %d, %v; want %d", last, err, end)
	}
}

// TestAppendMany: an event with several numbers is found by each of them, in memory and in
// the database.
func TestAppendMany(t *testing.T) {
	t.Parallel()
	const n = 40
	for name, dsn := range databases {
		for memory, bytes := range map[string]int{"memory": 0, "database": 1} {
			t.Run(name+" "+memory, func(t *testing.T) {
				t.Parallel()
				l := open(t, eventlog.Config{DSN: dsn(t), Memory: bytes})
				follower := l.Follow("uni:a", 2) // in the middle of the second
				put(t, l, "other", "x")
				if last := appendMany(t, l, "uni:a", n); last != n*(n+1)/2 {
					t.Fatal(last)
				}
				checkNumbers(t, l, "uni:a", n, 1)
				for next := 1; next < n; {
					page, err := follower.Next(bounded(t))
					must(t, err)
					for _, e := range page {
						if next++; string(e.Payload) != fmt.Sprint(next) {
							t.Fatalf("%s follows instead of %d", e.Payload, next)
						}
					}
				}
			})
		}
	}
}

// TestAppendManyRefuses: an event must take at least one number.
func TestAppendManyRefuses(t *testing.T) {
	t.Parallel()
	l := open(t, eventlog.Config{})
	err := l.Commit(t.Context(), func(tx *eventlog.Tx) error {
		_, err := tx.AppendMany(eventlog.Event{Stream: "s"}, 0)
		return err
	})
	if err == nil || !strings.Contains(err.Error(), "event.seq") {
		t.Error(err)
	}
}

// TestRetentionOfMany: retention counts all numbers of an event.
func TestRetentionOfMany(t *testing.T) {
	t.Parallel()
	const n = 40
	for name, dsn := range databases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := open(t, eventlog.Config{DSN: dsn(t), Memory: 1, Retention: eventlog.Retention{Events: 100, Interval: 20 * time.Millisecond}})
			last := appendMany(t, l, "s", n)
			poll(t, func() error {
				page, err := l.Read(t.Context(), "s", 0, 1)
				must(t, err)
				if string(page[0].Payload) != "38" { // has 704 to 741 of 820
					return fmt.Errorf("%s is the first of those that are left", page[0].Payload)
				}
				return nil
			})
			checkNumbers(t, l, "s", n, last-100+1)
		})
	}
}

// TestOnAppend: Config.OnAppend gets each stream that was appended to, with both positions.
func TestOnAppend(t *testing.T) {
	t.Parallel()
	for name, dsn := range databases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var calls []string
			l := open(t, eventlog.Config{DSN: dsn(t), OnAppend: func(stream string, before, last int64) {
				calls = append(calls, fmt.Sprint(stream, " ", before, " ", last))
			}})
			put(t, l, "s", "a", "b")
			must(t, l.Commit(t.Context(), func(tx *eventlog.Tx) error {
				for range 3 {
					if _, err := tx.AppendMany(eventlog.Event{Stream: "s"}, 2); err != nil {
						return err
					}
				}
				return nil
			}))
			if got := strings.Join(calls, ", "); got != "s 0 1, s 1 2, s 2 8" {
				t.Error(got)
			}
		})
	}
}
