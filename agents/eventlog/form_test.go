package eventlog_test

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/deskhand/deskhand/agents/eventlog"
)

// picture returns the base64 of n bytes of noise, which are always the same.
func picture(n int) []byte {
	data := make([]byte, n)
	random := rand.NewChaCha8([32]byte{1, 2, 3})
	_, _ = random.Read(data)
	return base64.StdEncoding.AppendEncode(nil, data)
}

// pictureMessage puts base64 into a message.
func pictureMessage(data []byte) []byte {
	return slices.Concat([]byte(`{"type":"image","data":"data:image/png;base64,`), data, []byte(`"}`))
}

// TestPayloadsAreExact: payloads are read exactly as they were appended.
func TestPayloadsAreExact(t *testing.T) {
	t.Parallel()
	for name, dsn := range databases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := eventlog.Config{DSN: dsn(t)}
			cfg.Memory = 1 // the newest event alone is in memory
			l := open(t, cfg)
			big := picture(300_000)
			unclean := slices.Clone(picture(100_001)) // ends with "=", and unused bits before it
			unclean[len(unclean)-2] = '/'
			urls := bytes.ReplaceAll(bytes.ReplaceAll(big, []byte("+"), []byte("-")), []byte("/"), []byte("_"))
			var payloads [][]byte
			for _, data := range [][]byte{
				big, big, big[1:], big[:len(big)-1], big[:len(big)-2], big[:len(big)-3], unclean, urls, picture(100_000), picture(100_001), picture(100_002),
				picture(65536 / 4 * 3), picture(65536/4*3 + 1), slices.Concat(big, []byte("="), big), slices.Concat(big, []byte("==="), big),
				bytes.Repeat([]byte("A"), 200_000), bytes.Repeat([]byte("A"), 65537), bytes.ReplaceAll(big, []byte("/"), []byte(`\/`)),
				bytes.Repeat([]byte("text without end. "), 20_000), bytes.Repeat([]byte{0}, 100_000), nil,
			} {
				payloads = append(payloads, pictureMessage(data))
			}
			payloads = append(payloads, big, unclean, slices.Concat(pictureMessage(unclean), pictureMessage(big), []byte("text"), pictureMessage(big[1:])))
			must(t, l.Commit(t.Context(), func(tx *eventlog.Tx) error {
				for _, p := range payloads {
					if _, err := tx.Append(eventlog.Event{Stream: "s", Payload: p}); err != nil {
						return err
					}
				}
				_, err := tx.Append(eventlog.Event{Stream: "s"})
				return err
			}))
			for i, e := range readAll(t, l, "s")[:len(payloads)] {
				if !bytes.Equal(e.Payload, payloads[i]) {
					t.Errorf("payload %d: %d bytes came back as %d others", i, len(payloads[i]), len(e.Payload))
				}
			}
		})
	}
}

// TestPicturesAreStoredOnce: equal pictures are stored once, and removed with the last event
// that has them.
func TestPicturesAreStoredOnce(t *testing.T) {
	t.Parallel()
	path := file(t)
	l := open(t, eventlog.Config{DSN: path, Retention: eventlog.Retention{Events: 5, Interval: 1e7}})
	shared, own := picture(500_000), picture(400_000)
	db := raw(t, path)
	blobs := func() (n, size int) {
		must(t, db.QueryRowContext(t.Context(), "select count(*), coalesce(sum(length(data)), 0) from blob").Scan(&n, &size))
		return n, size
	}
	put(t, l, "a", string(pictureMessage(own)))
	for i := range 4 {
		put(t, l, "a", string(pictureMessage(shared)), fmt.Sprint(i))
	}
	put(t, l, "b", string(pictureMessage(shared)))
	if n, size := blobs(); n > 2 || size > 900_000 {
		t.Errorf("%d blobs of %d bytes", n, size)
	}
	fill(t, l, "a", 10)
	poll(t, func() error {
		if n, size := blobs(); n != 1 || size != 500_000 {
			return fmt.Errorf("%d blobs of %d bytes remain", n, size)
		}
		return nil
	})
	fill(t, l, "b", 10)
	poll(t, func() error {
		if n, _ := blobs(); n != 0 {
			return fmt.Errorf("%d blobs remain", n)
		}
		return nil
	})
}

// TestBlobsAreFoundByIndex: SQLite finds a blob by an index of the hashes. In a table without
// rowid it would read each whole blob that it compares, so that large pictures would slow
// down the others.
func TestBlobsAreFoundByIndex(t *testing.T) {
	t.Parallel()
	path := file(t)
	closeLog(t, open(t, eventlog.Config{DSN: "sqlite:" + path}))
	var (
		n    int
		plan string
	)
	row := raw(t, path).QueryRowContext(t.Context(), "explain query plan select data from blob where hash = x'00'")
	if err := row.Scan(&n, &n, &n, &plan); err != nil || !strings.Contains(plan, "USING INDEX") {
		t.Errorf("%q, %v", plan, err)
	}
}

// TestTamperedPayload: an invalid row is a CorruptError.
func TestTamperedPayload(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]string{
		"blob is missing": "delete from blob",
		"blob is another": "update blob set data = x'00'",
		"size":            "update event set size = size + 1 where size > 1000",
		"negative size":   "update event set size = -1 where size > 1000",
		"form":            "update event set form = 64 where size > 1000",
		"not apart":       "update event set form = 4 where size < 1000",
		"no zstd":         "update event set form = 1 where size < 1000",
		"no pieces":       "update event set form = 2 where size < 1000",
		"empty pieces":    "update event set form = 2, payload = x'' where size < 1000",
		"endless piece":   "update event set form = 2, payload = x'ffffffffffffffff7f' where size < 1000",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := file(t)
			l := open(t, eventlog.Config{DSN: path, Memory: 1})
			put(t, l, "s", string(pictureMessage(picture(100_000))), strings.Repeat("short ", 20), "newest")
			execute(t, raw(t, path), change)
			_, err := l.Read(t.Context(), "s", 0, 0)
			wantCorrupt(t, err)
			wantCorrupt(t, errorOf(l.Follow("s", 0).Next(t.Context())))
		})
	}
}

// FuzzPayload: payloads are read as they were stored, with base64 at any place.
func FuzzPayload(f *testing.F) {
	f.Add([]byte(`{"data":"`), 65536, 0, []byte("=="), 65537, []byte(`"}`))
	f.Add([]byte("x"), 70000, 3, []byte(`"`), 200000, []byte("===="))
	f.Fuzz(func(t *testing.T, before []byte, n, skip int, between []byte, m int, after []byte) {
		some := func(n int) []byte { return picture(max(n, -n, 0) % 200_000) }
		first := some(n)
		payload := slices.Concat(before, first[min(len(first), max(skip, 0)):], between, some(m), after)
		l := open(t, eventlog.Config{Memory: 1})
		put(t, l, "s", string(payload), "newest")
		page, err := l.Read(t.Context(), "s", 0, 1)
		if err != nil || !bytes.Equal(page[0].Payload, payload) {
			t.Errorf("%d bytes came back as %d others, %v", len(payload), len(page[0].Payload), err)
		}
	})
}
