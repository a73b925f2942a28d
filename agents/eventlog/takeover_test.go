package eventlog_test

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/deskhand/deskhand/agents/eventlog"
)

// redoDatabase unpacks the files of a server of schema version 3 that was killed
// while its redo log had commits that the database lacks: events 2 to 4 of stream
// "s", and a session whose title is the number of the newest event.
func redoDatabase(t *testing.T) (path string) {
	t.Helper()
	return unpackDatabase(t, "redo.tar.gz")
}

// unpackDatabase unpacks the files of an earlier version from testdata and returns the
// path of the database.
func unpackDatabase(t *testing.T, archive string) (path string) {
	t.Helper()
	dir := t.TempDir()
	f, err := os.Open(filepath.Join("testdata", archive))
	must(t, err)
	defer f.Close()
	z, err := gzip.NewReader(f)
	must(t, err)
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return filepath.Join(dir, "events.db")
		}
		must(t, err)
		text, err := io.ReadAll(r)
		must(t, err)
		must(t, os.WriteFile(filepath.Join(dir, filepath.Base(h.Name)), text, 0o600))
	}
}

// TestTakeOverRedo checks that the commits in a redo log are taken over once and
// that the file is removed.
func TestTakeOverRedo(t *testing.T) {
	t.Parallel()
	path := redoDatabase(t)
	for round := range 2 {
		l, logged := openDamaged(t, path)
		if logged != "" {
			t.Errorf("round %d: logged %s", round, logged)
		}
		if events := readAll(t, l, "s"); len(events) != 4+round || string(events[3].Payload) != "4" {
			t.Errorf("round %d: %d events", round, len(events))
		}
		if s, err := l.Session(t.Context(), "session"); err != nil || s.Title != "4" {
			t.Errorf("round %d: %+v, %v", round, s, err)
		}
		if _, err := os.Stat(path + "-redo"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("round %d: the redo log is still there: %v", round, err)
		}
		put(t, l, "s", "more")
		must(t, l.Close())
	}
}

// TestTakeOverPartOfRedo checks which commits are taken over from a redo log that
// is damaged or missing.
func TestTakeOverPartOfRedo(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(b []byte) []byte
		events int
		want   []string // in the log
	}{
		"first record": {func(b []byte) []byte { b[262144+100] ^= 1; return b }, 1, []string{"commits=6", "redo.damaged"}},
		"third record": {func(b []byte) []byte { b[263263+100] ^= 1; return b }, 2, []string{"commits=4", "redo.damaged"}},
		"last record":  {func(b []byte) []byte { b[264602+100] ^= 1; return b }, 4, nil}, // was not acknowledged
		"cut off":      {func(b []byte) []byte { return b[:263263] }, 2, nil},
		"empty":        {func([]byte) []byte { return nil }, 1, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := redoDatabase(t)
			redo, err := os.ReadFile(path + "-redo")
			must(t, err)
			must(t, os.WriteFile(path+"-redo", c.change(redo), 0o600))
			l, logged := openDamaged(t, path, c.want...)
			if c.want == nil && logged != "" {
				t.Errorf("logged %s", logged)
			}
			if n := len(readAll(t, l, "s")); n != c.events {
				t.Errorf("%d events, want %d", n, c.events)
			}
			if e := put(t, l, "s", "on"); e[0].Seq != int64(c.events)+1 {
				t.Errorf("continues with %d", e[0].Seq)
			}
		})
	}
}

// TestTakeOverWithoutRedo checks that a database without its redo log opens.
func TestTakeOverWithoutRedo(t *testing.T) {
	t.Parallel()
	path := redoDatabase(t)
	must(t, os.Remove(path+"-redo"))
	if n := len(readAll(t, open(t, eventlog.Config{DSN: path}), "s")); n != 1 {
		t.Errorf("%d events", n)
	}
}
