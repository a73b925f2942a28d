//go:build !race

package eventlog_test

// The race detector makes SQLite ten times slower.

import (
	"fmt"
	"os"
	"slices"
	"testing"

	"github.com/deskhand/deskhand/agents/eventlog"
)

// bytesRead returns how many bytes this process has read.
func bytesRead(t *testing.T) (n int64) {
	t.Helper()
	text, err := os.ReadFile("/proc/self/io")
	must(t, err)
	if _, err := fmt.Sscanf(string(text), "rchar: %d", &n); err != nil {
		t.Fatal(err)
	}
	return n
}

// TestLargeRowsOfOthers checks that commits and reads of small events, small pictures and
// small requests do not read large ones of other sessions.
func TestLargeRowsOfOthers(t *testing.T) { //nolint:paralleltest // it counts what the process reads
	const size, rows = 40 << 20, 2
	l := open(t, eventlog.Config{DSN: file(t), Synchronous: eventlog.Normal, Memory: 1})
	put(t, l, "first", "small")
	text, base64 := []byte(noisyText(size)), picture(size/4*3)
	write := func(session string, i int, text, picture []byte) {
		must(t, l.Commit(t.Context(), func(tx *eventlog.Tx) error {
			for _, payload := range [][]byte{text, pictureMessage(picture)} {
				copy(payload[len(payload)/2:], fmt.Sprintf("%04d", i)) // makes it unlike the others
				if _, err := tx.Append(eventlog.Event{Stream: session, Payload: payload}); err != nil {
					return err
				}
			}
			key := eventlog.RequestKey{Process: session, RPC: fmt.Sprint(i)}
			return tx.PutRequest(eventlog.Request{RequestKey: key, Params: text})
		}))
	}
	for i := range rows {
		write("large", i, slices.Clone(text), base64)
	}
	before := bytesRead(t)
	for i := range 20 {
		session := []string{"first", "last"}[i%2]
		write(session, 1000+i, slices.Clone(text[:1000]), base64[:100_000])
		_, err := l.Request(t.Context(), eventlog.RequestKey{Process: session, RPC: fmt.Sprint(1000 + i)})
		must(t, err)
	}
	for session, n := range map[string]int{"first": 21, "last": 20} {
		if got := len(readAll(t, l, session)); got != n {
			t.Errorf("%s has %d events, want %d", session, got, n)
		}
	}
	if n := bytesRead(t) - before; n > 16<<20 {
		t.Errorf("20 small rows of each kind read %d MiB", n>>20)
	}
}
