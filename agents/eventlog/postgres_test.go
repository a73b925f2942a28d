package eventlog_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/deskhand/deskhand/agents/eventlog"
	"github.com/deskhand/deskhand/internal/testpostgres"
)

// follow reads a stream until it has n events, and checks that none is missing.
func follow(t testing.TB, l *eventlog.Log, stream string, n int64) (payloads []string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*limit)
	defer cancel()
	for c := l.Follow(stream, 0); c.Seq() < n; {
		page, err := c.Next(ctx)
		if err != nil {
			t.Errorf("after %d of %d events of %s: %v", c.Seq(), n, stream, err)
			return payloads
		}
		for _, e := range page {
			payloads = append(payloads, string(e.Payload))
			if e.Seq != int64(len(payloads)) {
				t.Errorf("%s has %d where %d belongs", stream, e.Seq, len(payloads))
				return payloads
			}
		}
	}
	return payloads
}

// TestSharedDatabase: two servers append to the same streams, and the followers of both
// get all events in the same order.
func TestSharedDatabase(t *testing.T) {
	t.Parallel()
	dsn := testpostgres.DSN(t)
	var arrivals, late atomic.Int32
	onArrival := func(lag time.Duration) {
		arrivals.Add(1)
		if lag < 0 || lag > time.Hour {
			late.Add(1)
		}
	}
	logs := []*eventlog.Log{open(t, eventlog.Config{DSN: dsn, OnArrival: onArrival}), open(t, eventlog.Config{DSN: dsn, Memory: 5000})}
	const each = 40
	var wg, readers sync.WaitGroup
	var got [4][]string
	for i := range got {
		readers.Go(func() { got[i] = follow(t, logs[i%2], "s", 2*2*each) })
	}
	for i, l := range logs {
		for w := range 2 {
			wg.Go(func() {
				for n := range each {
					// In different orders, so that the transactions conflict.
					streams := []string{"s", fmt.Sprint("t", n%5)}
					if i == 1 {
						streams[0], streams[1] = streams[1], streams[0]
					}
					err := l.Commit(t.Context(), func(tx *eventlog.Tx) error {
						for _, s := range streams {
							if _, err := tx.Append(eventlog.Event{Stream: s, Payload: fmt.Appendf(nil, "%d %d %d", i, w, n)}); err != nil {
								return err
							}
						}
						return nil
					})
					if err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
	wg.Wait()
	readers.Wait()
	for i := range got {
		if strings.Join(got[i], ",") != strings.Join(got[0], ",") {
			t.Errorf("follower %d got something else than the first", i)
		}
	}
	if arrivals.Load() == 0 || late.Load() > 0 {
		t.Errorf("%d arrivals, %d of them with a wrong lag", arrivals.Load(), late.Load())
	}
	total := 0
	for n := range 5 {
		total += len(readAll(t, logs[n%2], fmt.Sprint("t", n)))
	}
	if total != 2*2*each {
		t.Errorf("%d events", total)
	}
}

// TestGroupsOfServers: callers of two servers write to the same two streams in opposite
// orders. No transaction that has a lock waits for another, so there is no deadlock.
func TestGroupsOfServers(t *testing.T) {
	t.Parallel()
	dsn := testpostgres.DSN(t)
	for _, kind := range []string{"stream", "session"} {
		logs := []*eventlog.Log{open(t, eventlog.Config{DSN: dsn}), open(t, eventlog.Config{DSN: dsn})}
		names := []string{kind + "a", kind + "b"}
		write := func(tx *eventlog.Tx, name string) error {
			if kind == "session" { // which is locked without a stream
				_, err := tx.Session(name)
				return err
			}
			_, err := tx.Append(eventlog.Event{Stream: name})
			return err
		}
		for _, name := range names {
			err := logs[0].Commit(t.Context(), func(tx *eventlog.Tx) error {
				_, err := tx.Append(eventlog.Event{Stream: name})
				return errors.Join(err, tx.PutSession(eventlog.Session{ID: name, Agent: "any", State: eventlog.Idle}))
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		var inside, all sync.WaitGroup
		var calls atomic.Int32
		queued := make(chan struct{})
		inside.Add(len(logs))
		for i, l := range logs {
			all.Go(func() {
				err := l.Commit(t.Context(), func(tx *eventlog.Tx) error {
					err := write(tx, names[i])
					if calls.Add(1) <= int32(len(logs)) {
						inside.Done()
						<-queued
					}
					return err
				})
				if err != nil {
					t.Error(err)
				}
			})
		}
		inside.Wait()
		for i, l := range logs {
			all.Go(func() {
				if err := l.Commit(t.Context(), func(tx *eventlog.Tx) error { return write(tx, names[1-i]) }); err != nil {
					t.Error(err)
				}
			})
			poll(t, func() error {
				if l.Waiting() == 0 {
					return errors.New("no call waits")
				}
				return nil
			})
		}
		close(queued)
		all.Wait()
		if n := calls.Load(); n != int32(len(logs)) {
			t.Errorf("%s: the first functions were called %d times in %d servers", kind, n, len(logs))
		}
	}
}

func TestAlive(t *testing.T) {
	t.Parallel()
	dsn := testpostgres.DSN(t)
	a, b := open(t, eventlog.Config{DSN: dsn}), open(t, eventlog.Config{DSN: dsn})
	alive := func(l *eventlog.Log, instance string) bool {
		ok, err := l.Alive(t.Context(), instance)
		must(t, err)
		return ok
	}
	if !alive(a, a.Instance()) || !alive(a, b.Instance()) || !alive(b, a.Instance()) || alive(a, "absent") {
		t.Error("an open log is not alive, or a closed one is")
	}
	must(t, b.Close())
	poll(t, func() error {
		if alive(a, b.Instance()) {
			return errors.New("who is closed counts as alive")
		}
		return nil
	})
	l := open(t, eventlog.Config{})
	if !alive(l, l.Instance()) || alive(l, a.Instance()) {
		t.Error("in memory")
	}
}

func TestPostgresSchemas(t *testing.T) {
	t.Parallel()
	dsn := testpostgres.DSN(t)
	l := open(t, eventlog.Config{DSN: dsn})
	put(t, l, "s", "1")
	must(t, l.Close())
	must(t, testpostgres.Exec(dsn, "update schema_version set version = 99"))
	_, err := eventlog.Open(t.Context(), eventlog.Config{DSN: dsn})
	if newer := new(eventlog.SchemaError); !errors.As(err, &newer) || newer.Version != 99 {
		t.Errorf("newer: %v", err)
	}
	must(t, testpostgres.Exec(dsn, "drop table schema_version"))
	_, err = eventlog.Open(t.Context(), eventlog.Config{DSN: dsn})
	if other := new(eventlog.SchemaError); !errors.As(err, &other) || other.Version != 0 {
		t.Errorf("something else: %v", err)
	}
	_, err = eventlog.Open(t.Context(), eventlog.Config{DSN: "postgres://deskhand:secret@/none?host=/nowhere"})
	if !errors.Is(err, eventlog.ErrUnavailable) || strings.Contains(err.Error(), "secret") {
		t.Errorf("nowhere: %v", err)
	}
}

// TestPostgresGone: while Postgres cannot be reached, a commit fails when its context ends,
// and other commits wait. No event is lost or duplicated.
func TestPostgresGone(t *testing.T) {
	t.Parallel()
	c := testpostgres.Start(t)
	l, other := open(t, eventlog.Config{DSN: c.DSN()}), open(t, eventlog.Config{DSN: c.DSN()})
	put(t, l, "s", "before")
	var wg sync.WaitGroup
	var seen [2][]string
	for i, log := range []*eventlog.Log{l, other} {
		wg.Go(func() { seen[i] = follow(t, log, "s", 3) })
	}
	c.Stop()

	short, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	err := l.Commit(short, func(tx *eventlog.Tx) error {
		_, err := tx.Append(eventlog.Event{Stream: "s", Payload: []byte("never")})
		return err
	})
	if !errors.Is(err, eventlog.ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Commit while it is away: %v", err)
	}
	if _, err := l.Read(t.Context(), "s", 0, 0); !errors.Is(err, eventlog.ErrUnavailable) {
		t.Errorf("Read while it is away: %v", err)
	}
	late := make(chan error, 1)
	go func() {
		late <- l.Commit(t.Context(), func(tx *eventlog.Tx) error {
			_, err := tx.Append(eventlog.Event{Stream: "s", Payload: []byte("during")})
			return err
		})
	}()
	c.Restart(t)
	if err := <-late; err != nil {
		t.Errorf("Commit that waited: %v", err)
	}
	put(t, other, "s", "after")
	wg.Wait()
	for i := range seen {
		if strings.Join(seen[i], " ") != "before during after" {
			t.Errorf("follower %d saw %q", i, seen[i])
		}
	}
}

// TestPostgresCrashes: Postgres crashes and connections break while writers commit. The log
// has each acknowledged commit once, and no refused commit.
func TestPostgresCrashes(t *testing.T) {
	t.Parallel()
	c := testpostgres.Start(t)
	l := open(t, eventlog.Config{DSN: c.DSN()})
	var stop atomic.Bool
	var commits atomic.Int64
	var mu sync.Mutex
	outcomes := map[string]error{}
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for i := 0; !stop.Load(); i++ {
				payload := fmt.Sprintf("%d %d", w, i)
				err := l.Commit(t.Context(), func(tx *eventlog.Tx) error {
					_, err := tx.Append(eventlog.Event{Stream: "s", Payload: []byte(payload)})
					return err
				})
				mu.Lock()
				outcomes[payload] = err
				mu.Unlock()
				commits.Add(1)
			}
		})
	}
	// progress waits until commits succeed again.
	progress := func() {
		from := commits.Load()
		poll(t, func() error {
			if n := commits.Load() - from; n < 20 {
				return fmt.Errorf("%d commits only", n)
			}
			return nil
		})
	}
	for range 3 * soak() {
		for range 5 {
			progress()
			must(t, testpostgres.Exec(c.DSN(), "select pg_terminate_backend(pid) from pg_stat_activity where application_name like 'deskhand-%'"))
		}
		progress()
		c.Stop()
		c.Restart(t)
	}
	progress()
	stop.Store(true)
	wg.Wait()
	is := map[string]bool{}
	for _, e := range readAll(t, l, "s") {
		if is[string(e.Payload)] {
			t.Errorf("%s is there twice", e.Payload)
		}
		is[string(e.Payload)] = true
	}
	uncertain := 0
	for payload, err := range outcomes {
		switch {
		case errors.Is(err, eventlog.ErrUncertain):
			uncertain++
		case err == nil && !is[payload]:
			t.Errorf("%s was committed and is lost", payload)
		case err != nil && is[payload]:
			t.Errorf("%s failed with %v and is there", payload, err)
		case err != nil:
			t.Errorf("%s: %v; the call may wait", payload, err)
		}
	}
	t.Logf("%d commits, %d uncertain", len(outcomes), uncertain)
}
