package eventlog_test

import (
	"bytes"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/deskhand/deskhand/agents/eventlog"
)

// noisyText returns n characters that can hardly be compressed and are not base64.
func noisyText(n int) string {
	text := make([]byte, n)
	random := rand.New(rand.NewChaCha8([32]byte{4, 5, 6}))
	for i := range text {
		text[i] = byte(' ' + random.IntN(95))
	}
	return string(text)
}

// versionFour unpacks a database of schema version 4. Both of its streams have the payloads.
func versionFour(t *testing.T) (path string, payloads []string) {
	t.Helper()
	noise := noisyText(20_000)
	picture := `{"type":"image",` + strings.Repeat("A", 128<<10) + `"data":"data:image/png;base64,"}`
	return unpackDatabase(t, "version4.tar.gz"), []string{
		"small", noise, picture, picture + noise, strings.Repeat("much text ", 10_000), "", "newest",
	}
}

// TestMigrateLargeRows checks that a database of schema version 4 keeps what it has and that its
// tables without rowid have no large rows afterwards.
func TestMigrateLargeRows(t *testing.T) {
	t.Parallel()
	path, payloads := versionFour(t)
	for round := range 2 {
		l := open(t, eventlog.Config{DSN: path, Memory: 1})
		for _, stream := range []string{"acp:s", "ses:s"} {
			events := readAll(t, l, stream)
			if len(events) != len(payloads)+round {
				t.Fatalf("%s has %d events in round %d", stream, len(events), round)
			}
			for i, want := range payloads {
				if got := events[i]; string(got.Payload) != want || got.At.Unix() != 1e9 || !strings.HasPrefix(got.ID, stream) {
					t.Errorf("%s: event %d has %d bytes, want %d", stream, got.Seq, len(got.Payload), len(want))
				}
			}
			put(t, l, stream, noisyText(20_000))
		}
		all, err := l.Requests(t.Context(), eventlog.RequestFilter{Session: "ses"})
		if err != nil || len(all) != 3 || string(all[0].Answer) != `"yes"` || string(all[2].Params) != noisyText(3000) {
			t.Errorf("requests %d, %v", len(all), err)
		}
		open, err := l.Requests(t.Context(), eventlog.RequestFilter{Pending: true})
		if err != nil || len(open) != 2 {
			t.Errorf("%d open requests, %v", len(open), err)
		}
		closeLog(t, l)
	}
	var largest, unused int
	db := raw(t, path)
	must(t, db.QueryRowContext(t.Context(), "select max(length(payload)) from event").Scan(&largest))
	must(t, db.QueryRowContext(t.Context(), "select count(*) from blob where hash not in (select hash from event_blob)").Scan(&unused))
	if largest > 16<<10 || unused > 0 {
		t.Errorf("a row of event has a payload of %d bytes, and %d blobs have no event", largest, unused)
	}
}

// TestMigrateDropsBlobs checks that retention deletes the payloads of migrated events.
func TestMigrateDropsBlobs(t *testing.T) {
	t.Parallel()
	path, _ := versionFour(t)
	l := open(t, eventlog.Config{DSN: path, Retention: eventlog.Retention{Events: 1, Interval: 1e7}})
	db := raw(t, path)
	poll(t, func() error {
		var blobs, links int
		must(t, db.QueryRowContext(t.Context(), "select (select count(*) from blob), (select count(*) from event_blob)").Scan(&blobs, &links))
		if blobs > 0 || links > 0 {
			return fmt.Errorf("%d blobs and %d links remain", blobs, links)
		}
		return nil
	})
	closeLog(t, l)
}

// TestMigrateKill checks that a process that is killed in the middle of the migration loses
// nothing.
func TestMigrateKill(t *testing.T) {
	t.Parallel()
	path, payloads := versionFour(t)
	const more, rounds = 300, 4
	db := raw(t, path)
	execute(t, db, "pragma journal_mode = wal")
	execute(t, db, fmt.Sprintf(`with recursive n(i) as (select 1 union all select i + 1 from n where i < %d)
		insert into event (stream, seq, id, at, life, session, dir, kind, form, size, payload)
		select 1, %d + i, 'more' || i, 0, '', '', 0, '', 0, 100000, cast(printf('%%0100000d', i) as blob) from n`, more, len(payloads)))
	want := rawPayloads(t, db, len(payloads))
	must(t, db.Close())
	midway := 0
	for round := range rounds {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), victimVariable+"="+path)
		must(t, cmd.Start())
		enough := int64(round+1) * 5 << 20
		poll(t, func() error {
			info, err := os.Stat(path + "-wal")
			if err == nil && info.Size() < enough {
				err = fmt.Errorf("the -wal file has %d bytes", info.Size())
			}
			return err
		})
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if round < rounds-1 && version(t, path) == 4 { // the last -wal file is for openDamaged
			midway++
		}
	}
	if midway == 0 {
		t.Error("no process was killed in the middle of the migration")
	}
	l, logged := openDamaged(t, path)
	if logged != "" {
		t.Errorf("logged %s", logged)
	}
	events := readAll(t, l, "acp:s")
	if len(events) != len(payloads)+more {
		t.Fatalf("%d events", len(events))
	}
	for i, e := range events[len(payloads):] {
		if !bytes.Equal(e.Payload, want[i]) {
			t.Errorf("event %d has changed", e.Seq)
		}
	}
}

func rawPayloads(t *testing.T, db *sql.DB, after int) (all [][]byte) {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), "select payload from event where stream = 1 and seq > ? order by seq", after)
	must(t, err)
	defer rows.Close()
	for rows.Next() {
		var payload []byte
		must(t, rows.Scan(&payload))
		all = append(all, payload)
	}
	must(t, rows.Err())
	return all
}

// version returns the schema version of a database that no process has open.
func version(t *testing.T, path string) (n int) {
	t.Helper()
	db := raw(t, path)
	defer db.Close()
	must(t, db.QueryRowContext(t.Context(), "select version from schema_version").Scan(&n))
	return n
}
