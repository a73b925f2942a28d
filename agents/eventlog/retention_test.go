package eventlog_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/deskhand/deskhand/agents/eventlog"
)

// poll calls f until it returns nil.
func poll(t testing.TB, f func() error) {
	t.Helper()
	deadline := time.After(limit)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		err := f()
		if err == nil {
			return
		}
		select {
		case <-deadline:
			t.Fatal(err)
		case <-tick.C:
		}
	}
}

func TestRetention(t *testing.T) {
	t.Parallel()
	for name, bounds := range map[string]eventlog.Retention{
		"events": {Events: 10},
		"bytes":  {Bytes: 1000},
		"age":    {Age: time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for name, dsn := range databases {
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					cfg := eventlog.Config{DSN: dsn(t)}
					bounds := bounds
					bounds.Interval = 20 * time.Millisecond
					cfg.Retention, cfg.Memory = bounds, 1 // so that events are read from the database
					l := open(t, cfg)
					must(t, l.Commit(t.Context(), func(tx *eventlog.Tx) error {
						for i := range 1200 {
							e := eventlog.Event{Stream: "s", At: time.Now(), Payload: fmt.Appendf(nil, "%0100d", i)}
							if i < 1190 {
								e.At = e.At.Add(-2 * time.Hour)
							}
							if _, err := tx.Append(e); err != nil {
								return err
							}
						}
						_, err := tx.Append(eventlog.Event{Stream: "old", At: time.Now().Add(-3 * time.Hour), Payload: make([]byte, 2000)})
						return err
					}))
					poll(t, func() error {
						page, err := l.Read(t.Context(), "s", 0, 0)
						must(t, err)
						if len(page) != 10 || page[0].Seq != 1191 {
							return fmt.Errorf("%d events from %d on", len(page), page[0].Seq)
						}
						return nil
					})
					// A follower gets the remaining events, and the newest event stays.
					if page, err := l.Follow("s", 5).Next(bounded(t)); err != nil || page[0].Seq != 1191 {
						t.Errorf("%v", err)
					}
					if n := len(readAll(t, l, "old")); n != 1 {
						t.Errorf("%d events of a stream with one", n)
					}
					if e := put(t, l, "s", "next"); e[0].Seq != 1201 {
						t.Errorf("continues with %d", e[0].Seq)
					}
				})
			}
		})
	}
}

// TestRetentionExcept: the stream that Except names keeps all events.
func TestRetentionExcept(t *testing.T) {
	t.Parallel()
	l := open(t, eventlog.Config{DSN: file(t), Memory: 1, Retention: eventlog.Retention{Events: 1, Interval: 10 * time.Millisecond, Except: "kept"}})
	for i := range 3 {
		put(t, l, "kept", fmt.Sprint(i))
		put(t, l, "bounded", fmt.Sprint(i))
	}
	poll(t, func() error {
		page, err := l.Read(t.Context(), "bounded", 0, 0)
		if err == nil && len(page) != 1 {
			err = fmt.Errorf("%d events remain", len(page))
		}
		return err
	})
	if n := len(readAll(t, l, "kept")); n != 3 {
		t.Errorf("%d events of 3 remain", n)
	}
}
