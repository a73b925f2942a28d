package eventlog_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/deskhand/deskhand/agents/eventlog"
	"github.com/deskhand/deskhand/internal/testpostgres"
)

// databases has the DSNs of the databases with which most tests run.
var databases = map[string]func(testing.TB) string{
	"memory":   func(testing.TB) string { return "" },
	"sqlite":   file,
	"postgres": testpostgres.DSN,
}

func TestAppendAndRead(t *testing.T) {
	t.Parallel()
	for name, dsn := range databases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := eventlog.Config{DSN: dsn(t)}
			l := open(t, cfg)
			at := time.Date(2031, 2, 3, 4, 5, 6, 789_000, time.UTC)
			given := []eventlog.Event{
				{Stream: "ses:a", ID: "mine", At: at, Process: "l", Session: "a", Dir: eventlog.Client, Kind: "session/prompt", Payload: []byte(`{"a": 1 }`)},
				{Stream: "ses:a", Payload: []byte{}},
				{Stream: "ses:b", Dir: eventlog.Daemon, Payload: []byte("\x00\xff no JSON at all")},
				{Stream: "ses:a", At: at.Add(-time.Hour), Payload: bytes.Repeat([]byte("long "), 10_000)},
			}
			var want []eventlog.Event
			must(t, l.Commit(t.Context(), func(tx *eventlog.Tx) error {
				for _, e := range given {
					e, err := tx.Append(e)
					if err != nil {
						return err
					}
					want = append(want, e)
				}
				return nil
			}))
			if want[0].ID != "mine" || !want[0].At.Equal(at) || want[1].ID == "" || want[1].At.IsZero() || want[1].ID == want[2].ID {
				t.Errorf("appended %+v", want)
			}
			check := func(from string) {
				t.Helper()
				got := append(readAll(t, l, "ses:a"), readAll(t, l, "ses:b")...)
				sameEvents(t, from, []eventlog.Event{want[0], want[1], want[3], want[2]}, got)
				for stream, n := range map[string]int64{"ses:a": 3, "ses:b": 1, "ses:none": 0} {
					if last, err := l.Last(t.Context(), stream); err != nil || last != n {
						t.Errorf("%s: Last(%s) = %d, %v", from, stream, last, err)
					}
				}
			}
			check("from memory")
			if cfg.DSN == "" {
				return
			}
			must(t, l.Close())
			l = open(t, cfg)
			check("from the database")
			if e := put(t, l, "ses:a", "on"); e[0].Seq != 4 {
				t.Errorf("continues with %d, not 4", e[0].Seq)
			}
		})
	}
}

func TestCommitIsAtomic(t *testing.T) {
	t.Parallel()
	for name, dsn := range databases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := eventlog.Config{DSN: dsn(t)}
			l := open(t, cfg)
			put(t, l, "s", "1")
			mine := errors.New("mine")
			err := l.Commit(t.Context(), func(tx *eventlog.Tx) error {
				if _, err := tx.Append(eventlog.Event{Stream: "s"}); err != nil {
					return err
				}
				if err := tx.PutSession(eventlog.Session{ID: "x", State: eventlog.Idle}); err != nil {
					return err
				}
				if s, err := tx.Session("x"); err != nil || s.ID != "x" {
					t.Errorf("within: %+v, %v", s, err)
				}
				if last, err := tx.Last("s"); err != nil || last != 2 {
					t.Errorf("within: last = %d, %v", last, err)
				}
				return mine
			})
			if !errors.Is(err, mine) {
				t.Errorf("got %v", err)
			}
			if e := put(t, l, "s", "2"); e[0].Seq != 2 {
				t.Errorf("after a failure the next is %d", e[0].Seq)
			}
			if _, err := l.Session(t.Context(), "x"); !errors.Is(err, eventlog.ErrNotFound) {
				t.Errorf("a session is left of what failed: %v", err)
			}
			func() {
				defer func() {
					if v := recover(); v != "ouch" {
						t.Errorf("recovered %v", v)
					}
				}()
				_ = l.Commit(t.Context(), func(*eventlog.Tx) error { panic("ouch") })
			}()
			put(t, l, "s", "3")
		})
	}
}

func TestConcurrentCommits(t *testing.T) {
	t.Parallel()
	for name, dsn := range databases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := eventlog.Config{DSN: dsn(t)}
			l := open(t, cfg)
			const writers, each = 100, 20
			var wg sync.WaitGroup
			for w := range writers {
				wg.Go(func() {
					own := fmt.Sprintf("own:%d", w)
					for i := range each {
						err := l.Commit(t.Context(), func(tx *eventlog.Tx) error {
							for _, stream := range []string{"all", own} {
								if _, err := tx.Append(eventlog.Event{Stream: stream, Payload: fmt.Appendf(nil, "%d %d", w, i)}); err != nil {
									return err
								}
							}
							if i%7 == 3 {
								return context.Canceled // none of its events may be visible
							}
							return nil
						})
						if (i%7 == 3) != errors.Is(err, context.Canceled) {
							t.Errorf("writer %d: %v", w, err)
						}
					}
				})
			}
			wg.Wait()
			next := map[string]int{}
			for _, e := range readAll(t, l, "all") {
				var w, i int
				if _, err := fmt.Sscan(string(e.Payload), &w, &i); err != nil {
					t.Fatal(err)
				}
				own := fmt.Sprintf("own:%d", w)
				if next[own]%7 == 3 {
					next[own]++
				}
				if i != next[own] {
					t.Fatalf("%s: %d where %d belongs", own, i, next[own])
				}
				next[own]++
			}
			for w := range writers {
				if n := len(readAll(t, l, fmt.Sprintf("own:%d", w))); n != 17 {
					t.Errorf("writer %d has %d events", w, n)
				}
			}
			if len(next) != writers {
				t.Errorf("%d writers", len(next))
			}
		})
	}
}

func TestFollow(t *testing.T) {
	t.Parallel()
	for name, dsn := range databases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := eventlog.Config{DSN: dsn(t)}
			cfg.Memory = 20_000 // less than the events need
			l := open(t, cfg)
			const events, followers = 900, 6
			var wg sync.WaitGroup
			for i := range followers {
				wg.Go(func() {
					c := l.Follow("s", 0)
					for n := int64(0); n < events; {
						page, err := c.Next(bounded(t))
						if err != nil {
							t.Errorf("follower %d after %d: %v", i, n, err)
							return
						}
						for _, e := range page {
							if n++; e.Seq != n || string(e.Payload) != fmt.Sprint(n) {
								t.Errorf("follower %d got %d %q instead of %d", i, e.Seq, e.Payload, n)
								return
							}
						}
					}
				})
			}
			for n := 1; n <= events; {
				must(t, l.Commit(t.Context(), func(tx *eventlog.Tx) error {
					for range 30 {
						if _, err := tx.Append(eventlog.Event{Stream: "s", Payload: fmt.Append(nil, n)}); err != nil {
							return err
						}
						n++
					}
					return nil
				}))
			}
			wg.Wait()

			c := l.Follow("s", events+1) // not reached yet
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			if _, err := c.Next(ctx); !errors.Is(err, context.Canceled) {
				t.Errorf("got %v", err)
			}
			put(t, l, "s", "skipped", "seen")
			if page, err := c.Next(bounded(t)); err != nil || len(page) != 1 || page[0].Seq != events+2 || c.Seq() != events+2 {
				t.Errorf("got %v, %v", page, err)
			}
			waits := make(chan error, 1)
			go func() {
				_, err := c.Next(t.Context())
				waits <- err
			}()
			must(t, l.Close())
			if err := <-waits; !errors.Is(err, eventlog.ErrClosed) {
				t.Errorf("Next of a closed log: %v", err)
			}
			if err := l.Commit(t.Context(), func(*eventlog.Tx) error { return nil }); !errors.Is(err, eventlog.ErrClosed) {
				t.Errorf("Commit to a closed log: %v", err)
			}
			if _, err := l.Read(t.Context(), "s", 0, 0); !errors.Is(err, eventlog.ErrClosed) {
				t.Errorf("Read of a closed log: %v", err)
			}
		})
	}
}

func TestInvalidEvents(t *testing.T) {
	t.Parallel()
	l := open(t, eventlog.Config{})
	for field, e := range map[string]eventlog.Event{
		"event.stream":  {},
		"event.payload": {Stream: "s", Payload: make([]byte, 256<<20+1)},
		"event.session": {Stream: "s", Session: "a\x00b"},
		"event.process": {Stream: "s", Process: strings.Repeat("x", 2000)},
		"event.dir":     {Stream: "s", Dir: 3},
	} {
		err := l.Commit(t.Context(), func(tx *eventlog.Tx) error {
			_, err := tx.Append(e)
			return err
		})
		invalid := new(eventlog.InvalidError)
		if !errors.As(err, &invalid) || invalid.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
	must(t, l.Commit(t.Context(), func(tx *eventlog.Tx) error {
		e, err := tx.Append(eventlog.Event{Stream: "s", At: time.Date(123456, 1, 1, 0, 0, 0, 0, time.UTC)})
		if text, fails := e.At.MarshalJSON(); fails != nil {
			t.Errorf("time %s, %v", text, fails)
		}
		return err
	}))
	must(t, l.Commit(t.Context(), func(tx *eventlog.Tx) error {
		e, err := tx.Append(eventlog.Event{Stream: "s", Kind: "a\x00b\xffc" + strings.Repeat("é", 1000)})
		if !strings.HasPrefix(e.Kind, "abcéé") || len(e.Kind) > 1024 || !utf8.ValidString(e.Kind) {
			t.Errorf("kind %q", e.Kind)
		}
		return err
	}))
}

// TestCloseDuringCommits: a call that runs during Close returns its result or ErrClosed, and the
// log has all earlier commits.
func TestCloseDuringCommits(t *testing.T) {
	t.Parallel()
	for name, dsn := range databases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := eventlog.Config{DSN: dsn(t), Memory: 1}
			l := open(t, cfg)
			fill(t, l, "s", 100)
			var committed atomic.Int64
			var wg sync.WaitGroup
			running := make(chan struct{}, 8)
			for i := range cap(running) {
				wg.Go(func() {
					for first := true; ; first = false {
						var err error
						if i%2 == 0 {
							_, err = l.Read(t.Context(), "s", 0, 10)
						} else if err = l.Commit(t.Context(), func(tx *eventlog.Tx) error {
							_, err := tx.Append(eventlog.Event{Stream: "s"})
							return err
						}); err == nil {
							committed.Add(1)
						}
						if err != nil {
							if !errors.Is(err, eventlog.ErrClosed) {
								t.Error(err)
							}
							return
						}
						if first {
							running <- struct{}{}
						}
					}
				})
			}
			for range cap(running) {
				<-running
			}
			must(t, l.Close())
			wg.Wait()
			if cfg.DSN == "" {
				return
			}
			if n := int64(len(readAll(t, open(t, cfg), "s"))); n != 100+committed.Load() {
				t.Errorf("%d events, %d were committed", n, committed.Load())
			}
		})
	}
}

// TestEndedInCommit: a function that ends its caller's goroutine, like t.Fatal, commits
// nothing and blocks no other commit.
func TestEndedInCommit(t *testing.T) {
	t.Parallel()
	l := open(t, eventlog.Config{DSN: file(t)})
	var wg sync.WaitGroup
	wg.Go(func() {
		_ = l.Commit(t.Context(), func(tx *eventlog.Tx) error {
			if _, err := tx.Append(eventlog.Event{Stream: "s"}); err != nil {
				return err
			}
			runtime.Goexit()
			return nil
		})
	})
	wg.Wait()
	if e := put(t, l, "s", "1"); e[0].Seq != 1 {
		t.Errorf("continues with %d", e[0].Seq)
	}
}
