package eventlog_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/deskhand/deskhand/agents/eventlog"
)

// copyFiles copies some of a database's files.
func copyFiles(t testing.TB, from, to string, suffixes ...string) {
	t.Helper()
	for _, suffix := range suffixes {
		text, err := os.ReadFile(from + suffix)
		must(t, err)
		must(t, os.WriteFile(to+suffix, text, 0o600))
	}
}

// whole checks that a log takes and has what it is given, also after it was
// opened again.
func whole(t testing.TB, dsn string, streams map[string]int) {
	t.Helper()
	for round := range 2 {
		l := open(t, eventlog.Config{DSN: dsn})
		for stream, want := range streams {
			if n := len(readAll(t, l, stream)); n != want+round {
				t.Errorf("round %d: stream %s has %d events, want %d", round, stream, n, want+round)
			}
			put(t, l, stream, "on")
		}
		put(t, l, fmt.Sprint("another ", round), "1", "2") // a new one shares its id with none
		settle(t, l)
		must(t, l.Close())
	}
}

// TestRestoredCopy: a redo log is nothing to an earlier copy of its database.
func TestRestoredCopy(t *testing.T) {
	t.Parallel()
	path, backup := file(t), file(t)
	l := open(t, eventlog.Config{DSN: path})
	put(t, l, "old", "1", "2", "3")
	must(t, l.Close())
	copyFiles(t, path, backup, "")
	l = open(t, eventlog.Config{DSN: path})
	put(t, l, "later", "1", "2", "3", "4")
	must(t, l.Close())
	copyFiles(t, backup, path, "")
	whole(t, path, map[string]int{"old": 3, "later": 0})
}

// TestLostTransaction: when the machine has lost a transaction, with Normal, the
// commits that came after it are not redone without it.
func TestLostTransaction(t *testing.T) {
	t.Parallel()
	path, cut := file(t), file(t)
	l := open(t, eventlog.Config{DSN: path, Synchronous: eventlog.Normal})
	put(t, l, "old", "1", "2", "3")
	settle(t, l)
	copyFiles(t, path, cut, "", "-wal") // so much reached the disk
	put(t, l, "new", "1", "2", "3")     // a new stream is a transaction
	copyFiles(t, path, cut, "-redo")    // and so much
	whole(t, cut, map[string]int{"old": 3, "new": 0})
}

// TestReadersOfALockedFile: none waits longer than his context lets him, or than
// the first one has.
func TestReadersOfALockedFile(t *testing.T) {
	t.Parallel()
	const patience = 300 * time.Millisecond
	path := file(t)
	l := open(t, eventlog.Config{DSN: path, BusyTimeout: patience})
	put(t, l, "s", "1")
	settle(t, l)
	other := raw(t, path)
	execute(t, other, "begin immediate")
	defer execute(t, other, "rollback")
	put(t, l, "s", "2") // in the redo log
	begin := time.Now()
	var wg sync.WaitGroup
	for range 30 {
		wg.Go(func() {
			if _, err := l.Session(t.Context(), "x"); !errors.Is(err, eventlog.ErrBusy) {
				t.Errorf("got %v", err)
			}
		})
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			defer cancel()
			if _, err := l.Session(ctx, "x"); !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, eventlog.ErrBusy) {
				t.Errorf("got %v", err)
			}
		})
	}
	wg.Wait()
	if took := time.Since(begin); took > 20*patience { // one after the other they would take 30 times
		t.Errorf("30 readers took %v", took)
	}
}

// TestCloseWhileRead: readers of a log that is being closed get an error.
func TestCloseWhileRead(t *testing.T) {
	t.Parallel()
	for i := range 50 {
		l := open(t, eventlog.Config{})
		var wg sync.WaitGroup
		for k, read := range []func() error{
			func() error { return second(l.Session(context.Background(), "x")) },
			func() error { return second(l.Requests(context.Background(), eventlog.RequestFilter{})) },
			func() error { return second(l.Read(context.Background(), fmt.Sprint("s", i), 0, 0)) },
			func() error { return l.Export(context.Background(), "x", io.Discard) },
		} {
			started := make(chan struct{})
			wg.Go(func() {
				close(started)
				for {
					if err := read(); errors.Is(err, eventlog.ErrClosed) {
						return
					}
				}
			})
			if k%2 == i%2 {
				<-started
			}
		}
		closeLog(t, l)
		wg.Wait()
	}
}

// exported is what an export of a session looks like that has events in a stream.
func exported(session, stream string, from, n int) string {
	now := time.Now().UTC().Format(time.RFC3339Nano)
	var b strings.Builder
	fmt.Fprintf(&b, `{"export":{"format":"deskhand session","version":1,"session":%q}}`+"\n", session)
	fmt.Fprintf(&b, `{"session":{"id":%q,"state":"idle","createdAt":%q,"updatedAt":%q}}`+"\n", session, now, now)
	for k := range n {
		fmt.Fprintf(&b, `{"event":{"stream":%q,"seq":%d,"id":"%s-%d","session":%q,"at":%q,"dir":"agent","payload":"x"}}`+"\n",
			stream, from+k, session, k, session, now)
	}
	fmt.Fprintf(&b, `{"end":{"events":%d}}`+"\n", n)
	return b.String()
}

// TestImportBesideCommits: what is imported into a stream is before what is
// appended next, whoever is quicker.
func TestImportBesideCommits(t *testing.T) {
	t.Parallel()
	path := file(t)
	l := open(t, eventlog.Config{DSN: path})
	put(t, l, "acp:srv", "first")
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if err := l.Commit(t.Context(), func(tx *eventlog.Tx) error {
					_, err := tx.Append(eventlog.Event{Stream: "acp:srv", Payload: []byte("live")})
					return err
				}); err != nil {
					t.Errorf("commit beside an import: %v", err)
					return
				}
			}
		})
	}
	imported := 0
	for i := range 100 {
		last, err := l.Last(t.Context(), "acp:srv")
		must(t, err)
		_, err = l.Import(t.Context(), strings.NewReader(exported(fmt.Sprint("session", i), "acp:srv", int(last)+1+i%20, 20)))
		switch {
		case err == nil:
			imported++
		case !errors.Is(err, eventlog.ErrExists):
			t.Fatal(err)
		}
	}
	close(stop)
	wg.Wait()
	settle(t, l)
	must(t, l.Close())
	l = open(t, eventlog.Config{DSN: path})
	put(t, l, "acp:srv", "last")
	if imported == 0 {
		t.Error("none of the imports was in time")
	}
}

// TestImportIntoALockedFile: that it is locked is what is said.
func TestImportIntoALockedFile(t *testing.T) {
	t.Parallel()
	path := file(t)
	l := open(t, eventlog.Config{DSN: path, BusyTimeout: 20 * time.Millisecond})
	put(t, l, "s", "1")
	settle(t, l)
	other := raw(t, path)
	execute(t, other, "begin immediate")
	_, err := l.Import(t.Context(), strings.NewReader(exported("new", "x", 1, 1)))
	if line := new(eventlog.LineError); !errors.Is(err, eventlog.ErrBusy) || errors.Is(err, eventlog.ErrExists) || errors.As(err, &line) {
		t.Errorf("got %v", err)
	}
	execute(t, other, "rollback")
}
