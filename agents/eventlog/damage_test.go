package eventlog_test

import (
	"bytes"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"strings"
	"testing"

	"github.com/deskhand/deskhand/agents/eventlog"
	"github.com/deskhand/deskhand/internal/testlog"
)

// errorLog records the messages of a Logger at the level ERROR.
type errorLog struct{ testlog.Buffer }

func (e *errorLog) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(e, &slog.HandlerOptions{Level: slog.LevelError}))
}

// openDamaged opens a log and returns the errors that it logged, which must
// contain the given words.
func openDamaged(t *testing.T, path string, want ...string) (*eventlog.Log, string) {
	t.Helper()
	errs := &errorLog{}
	l := open(t, eventlog.Config{DSN: path, Logger: errs.logger()})
	for _, w := range want {
		if !strings.Contains(errs.String(), w) {
			t.Errorf("%q is not in %q", w, errs)
		}
	}
	return l, errs.String()
}

// sameFile checks that a copy of a file has this content, for its user only.
func sameFile(t *testing.T, path string, want []byte) {
	t.Helper()
	got, err := os.ReadFile(path)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s has %d bytes, want a copy of %d (%v)", path, len(got), len(want), err)
	}
	if info, err := os.Stat(path); err == nil && info.Mode().Perm() != 0o600 {
		t.Errorf("%s has mode %v", path, info.Mode())
	}
}

// copyFiles copies a database and its -wal file, as a crash would leave them.
func copyFiles(t testing.TB, from string) string {
	t.Helper()
	to := file(t)
	for _, suffix := range []string{"", "-wal"} {
		text, err := os.ReadFile(from + suffix)
		must(t, err)
		must(t, os.WriteFile(to+suffix, text, 0o600))
	}
	return to
}

// TestMissingDatabase checks that Open refuses and does not change a log with a -wal file but
// without its database.
func TestMissingDatabase(t *testing.T) {
	t.Parallel()
	path := file(t)
	l := open(t, eventlog.Config{DSN: path})
	put(t, l, "s", "1")
	for name, lose := range map[string]func(string) error{
		"absent": os.Remove,
		"empty":  func(path string) error { return os.Truncate(path, 0) },
	} {
		t.Run(name, func(t *testing.T) {
			whole := copyFiles(t, path)
			database, err := os.ReadFile(whole)
			must(t, err)
			must(t, lose(whole))
			for range 2 { // the first attempt must not make the second one succeed
				l, err := eventlog.Open(t.Context(), eventlog.Config{DSN: whole})
				if err == nil {
					closeLog(t, l)
				}
				damage := new(eventlog.CorruptError)
				if !errors.As(err, &damage) || damage.Path != whole || !errors.Is(err, fs.ErrNotExist) {
					t.Fatalf("got %v", err)
				}
				for _, want := range []string{whole + "-wal", "put it back", "move"} {
					if !strings.Contains(err.Error(), want) {
						t.Errorf("%q is not in %q", want, err)
					}
				}
			}
			must(t, os.WriteFile(whole, database, 0o600))
			if n := len(readAll(t, open(t, eventlog.Config{DSN: whole}), "s")); n != 1 {
				t.Errorf("%d events after the database was put back", n)
			}
		})
	}
	unused := file(t)
	must(t, os.WriteFile(unused+"-wal", nil, 0o600))
	open(t, eventlog.Config{DSN: unused}) // an empty file holds nothing
}

// TestDamagedJournal checks that transactions after damage in the -wal file are reported,
// with a copy of the file. An incomplete last transaction is not damage.
func TestDamagedJournal(t *testing.T) {
	t.Parallel()
	path := file(t)
	l := open(t, eventlog.Config{DSN: path})
	for range 60 {
		fill(t, l, "a", 1)
	}
	const frame = 24 + 2048
	journal, err := os.ReadFile(path + "-wal")
	must(t, err)
	frames := (len(journal) - 32) / frame
	for name, c := range map[string]struct {
		change func(b []byte)
		lost   bool
	}{
		"page":         {func(b []byte) { b[32+frames/2*frame+1000] ^= 1 }, true},
		"frame header": {func(b []byte) { clear(b[32+frames/2*frame:][:24]) }, true},
		"file header":  {func(b []byte) { b[16] ^= 1 }, true},
		"page size":    {func(b []byte) { b[8] ^= 0xff }, true},
		"last frame":   {func(b []byte) { b[32+(frames-1)*frame+1000] ^= 1 }, false},
		"nothing":      {func([]byte) {}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			to := copyFiles(t, path)
			b := bytes.Clone(journal)
			c.change(b)
			must(t, os.WriteFile(to+"-wal", b, 0o600))
			if !c.lost {
				if l, got := openDamaged(t, to); got != "" || len(readAll(t, l, "a")) < 59 {
					t.Errorf("logged %s", got)
				}
				return
			}
			if l, _ := openDamaged(t, to, "write-ahead log is damaged", "file="+to+"-wal", "transactions=", "backup", "copy="+to+"-wal.damaged"); len(readAll(t, l, "a")) > 40 {
				t.Error("nothing was lost")
			}
			sameFile(t, to+"-wal.damaged", b)
		})
	}
}
