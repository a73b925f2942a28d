package eventlog_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/deskhand/deskhand/agents/eventlog"
	"github.com/deskhand/deskhand/internal/testpostgres"
)

// limit bounds the wait for anything that is fast.
const limit = 30 * time.Second

func TestMain(m *testing.M) {
	if dsn := os.Getenv(victimVariable); dsn != "" {
		victim(dsn)
	}
	code := m.Run()
	testpostgres.Remove()
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

func open(t testing.TB, cfg eventlog.Config) *eventlog.Log {
	t.Helper()
	l, err := eventlog.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeLog(t, l) })
	return l
}

func closeLog(t testing.TB, l *eventlog.Log) {
	t.Helper()
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}

func file(t testing.TB) string {
	t.Helper()
	return filepath.Join(t.TempDir(), "log.db")
}

// soak is how many times longer than usual the long tests run: DESKHAND_SOAK,
// which make soak sets to 10.
func soak() int {
	n, err := strconv.Atoi(os.Getenv("DESKHAND_SOAK"))
	if err != nil || n < 1 {
		return 1
	}
	return n
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// put appends events with these payloads to a stream, each in its own commit.
func put(t testing.TB, l *eventlog.Log, stream string, payloads ...string) (events []eventlog.Event) {
	t.Helper()
	for _, p := range payloads {
		must(t, l.Commit(t.Context(), func(tx *eventlog.Tx) error {
			e, err := tx.Append(eventlog.Event{Stream: stream, Payload: []byte(p)})
			events = append(events, e)
			return err
		}))
	}
	return events
}

// fill appends n events in one commit.
func fill(t testing.TB, l *eventlog.Log, stream string, n int) {
	t.Helper()
	must(t, l.Commit(t.Context(), func(tx *eventlog.Tx) error {
		for i := range n {
			if _, err := tx.Append(eventlog.Event{Stream: stream, Payload: fmt.Appendf(nil, "%d", i)}); err != nil {
				return err
			}
		}
		return nil
	}))
}

// readAll reads a stream to its end, and checks that nothing is missing.
func readAll(t testing.TB, l *eventlog.Log, stream string) (all []eventlog.Event) {
	t.Helper()
	for {
		page, err := l.Read(t.Context(), stream, int64(len(all)), 0)
		must(t, err)
		if len(page) == 0 {
			return all
		}
		for _, e := range page {
			all = append(all, e)
			if e.Seq != int64(len(all)) {
				t.Fatalf("stream %s has %d where %d belongs", stream, e.Seq, len(all))
			}
		}
	}
}

// sameEvents compares events. Comparing payloads with cmp byte by byte is slow.
func sameEvents(t testing.TB, what string, want, got []eventlog.Event) {
	t.Helper()
	if len(want) != len(got) {
		t.Fatalf("%s: %d events, want %d", what, len(got), len(want))
	}
	for i := range want {
		if !reflect.DeepEqual(want[i], got[i]) {
			t.Fatalf("%s:\n%.500s\nwant\n%.500s", what, fmt.Sprintf("%+v", got[i]), fmt.Sprintf("%+v", want[i]))
		}
	}
}

func bounded(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	t.Cleanup(cancel)
	return ctx
}

func wantCorrupt(t testing.TB, err error) {
	t.Helper()
	if damage := new(eventlog.CorruptError); !errors.As(err, &damage) {
		t.Errorf("got %v, want a CorruptError", err)
	}
}
