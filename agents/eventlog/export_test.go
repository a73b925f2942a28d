package eventlog_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fsnotify/fsnotify"
	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/deskhand/deskhand/agents/eventlog"
	"github.com/deskhand/deskhand/internal/jsonlimit"
)

// conversation commits a session with events in several streams, among those of
// another session.
func conversation(t testing.TB, l *eventlog.Log, id string) {
	t.Helper()
	must(t, l.Commit(t.Context(), func(tx *eventlog.Tx) error {
		s := aSession(id)
		r := aRequest("life-"+id, "1")
		r.Session = id
		if err := errors.Join(tx.PutSession(s), tx.PutLife(aLife("life-"+id)), tx.PutRequest(r)); err != nil {
			return err
		}
		for i := range 12 {
			for _, e := range []eventlog.Event{
				{Stream: "acp:srv", Session: id, Life: "life-" + id, Kind: "session/update"},
				{Stream: "acp:srv", Session: "somebody else's"},
				{Stream: "ses:" + id, Dir: eventlog.Client},
				{Stream: "uni:" + id, Session: id, Dir: eventlog.Daemon},
			} {
				e.Payload = fmt.Appendf(nil, `{"n":%d,"s":"%s","t":"<&> \u2028`+"\u2028"+`"}`, i, e.Stream)
				switch i {
				case 1:
					e.Payload = []byte("\xff\x00")
				case 2:
					e.Payload = append([]byte(`{"image":"`), picture(100_000)...)
				}
				if _, err := tx.Append(e); err != nil {
					return err
				}
			}
		}
		return nil
	}))
}

func export(t testing.TB, l *eventlog.Log, id string) string {
	t.Helper()
	var b strings.Builder
	must(t, l.Export(t.Context(), id, &b))
	return b.String()
}

func TestExportAndImport(t *testing.T) {
	t.Parallel()
	for name, dsn := range databases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := eventlog.Config{DSN: dsn(t)}
			from, to := open(t, eventlog.Config{DSN: file(t)}), open(t, cfg)
			conversation(t, from, "a")
			conversation(t, from, "b")
			lines := export(t, from, "a") + export(t, from, "b")
			if n := strings.Count(lines, "\n"); n != 2*(5+36) {
				t.Errorf("%d lines", n)
			}
			waiting := to.Follow("uni:a", 0)
			ids, err := to.Import(t.Context(), strings.NewReader(lines))
			if err != nil || !cmp.Equal(ids, []string{"a", "b"}) {
				t.Fatal(ids, err)
			}
			if again := export(t, to, "a") + export(t, to, "b"); again != lines {
				t.Error("what was imported is exported differently")
			}
			for _, stream := range []string{"ses:a", "uni:b"} {
				sameEvents(t, stream, readAll(t, from, stream), readAll(t, to, stream))
			}
			if page, err := waiting.Next(bounded(t)); err != nil || len(page) != 12 {
				t.Errorf("a follower got %d events, %v", len(page), err)
			}
			if e := put(t, to, "ses:a", "on"); e[0].Seq != 13 {
				t.Errorf("goes on with %d", e[0].Seq)
			}
			if _, err := to.Import(t.Context(), strings.NewReader(lines)); !errors.Is(err, eventlog.ErrExists) || !strings.Contains(err.Error(), `session "a"`) {
				t.Errorf("import of what is there: %v", err)
			}
			other := open(t, eventlog.Config{})
			put(t, other, "acp:srv", "mine")
			if _, err := other.Import(t.Context(), strings.NewReader(lines)); !errors.Is(err, eventlog.ErrExists) || !strings.Contains(err.Error(), "acp:srv") {
				t.Errorf("import into a stream that is in use: %v", err)
			}
			if err := to.Export(t.Context(), "none", new(bytes.Buffer)); !errors.Is(err, eventlog.ErrNotFound) {
				t.Errorf("export of nothing: %v", err)
			}
		})
	}
}

func TestBadImports(t *testing.T) {
	t.Parallel()
	from, to := open(t, eventlog.Config{}), open(t, eventlog.Config{})
	conversation(t, from, "a")
	good := strings.SplitAfter(export(t, from, "a"), "\n")
	joined := func(lines ...string) string { return strings.Join(lines, "") }
	for name, c := range map[string]struct{ text, want string }{
		"nothing":         {"", "has no session"},
		"cut off":         {joined(good[:15]...), "cut off"},
		"an event less":   {joined(append(good[:15:15], good[16:]...)...), "something is missing"},
		"in disorder":     {joined(good[0], good[1], good[5], good[4]), "line 4 of the import: event 1 of stream"},
		"no header":       {good[1], `an "export" line must come first`},
		"no session":      {joined(good[0], `{"end":{"events":0}}`), "something is missing"},
		"another session": {joined(good[0], strings.Replace(good[1], `"id":"a"`, `"id":"x"`, 1)), `must be the one session "a"`},
		"not JSON":        {"hello", "line 1 of the import: invalid character"},
		"nested too deep": {`{"what":` + strings.Repeat("[", jsonlimit.MaxDepth) + strings.Repeat("]", jsonlimit.MaxDepth) + `}`, "nested too deep"},
		"unknown":         {`{"what":1}`, `unknown field "what"`},
		"empty object":    {`{}`, "must have one of"},
		"newer":           {strings.Replace(good[0], `"version":1`, `"version":2`, 1), "version 2 of the format is unknown"},
		"other format":    {`{"export":{"format":"x","version":1,"session":"s"}}`, `the format is "x"`},
		"bad state":       {joined(good[0], strings.Replace(good[1], `"running"`, `"sleeping"`, 1)), "session.state"},
		"bad direction":   {joined(good[0], good[1], strings.Replace(good[5], `"dir":"client"`, `"dir":"nobody"`, 1)), "dir must be"},
	} {
		t.Run(name, func(t *testing.T) {
			if ids, err := to.Import(t.Context(), strings.NewReader(c.text)); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, %v; want %q", ids, err, c.want)
			}
		})
	}
	if page, _, err := to.Sessions(t.Context(), eventlog.SessionFilter{}, "", 0); err != nil || len(page) != 0 {
		t.Errorf("left behind: %v, %v", page, err)
	}
	if n := len(readAll(t, to, "ses:a")); n != 0 {
		t.Errorf("%d events left behind", n)
	}
}

// The file in which an import lies meanwhile never has a name, so that a program
// that is killed leaves none.
func TestImportLeavesNoFile(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	probe, err := os.OpenFile(dir, unix.O_TMPFILE|os.O_RDWR, 0o600)
	if err != nil {
		t.Skipf("files have a name here: %v", err)
	}
	must(t, probe.Close())
	from, to := open(t, eventlog.Config{}), open(t, eventlog.Config{})
	conversation(t, from, "a")
	watch, err := fsnotify.NewBufferedWatcher(64)
	must(t, err)
	defer func() { must(t, watch.Close()) }()
	must(t, watch.Add(dir))
	_, err = to.Import(t.Context(), strings.NewReader(export(t, from, "a")))
	must(t, err)
	must(t, os.WriteFile(filepath.Join(dir, "end"), nil, 0o600))
	for {
		select {
		case e := <-watch.Events:
			switch {
			case filepath.Base(e.Name) == "end":
				return
			case e.Has(fsnotify.Create): // what is written to a file without a name is told, too
				t.Errorf("%v", e)
			}
		case err := <-watch.Errors:
			t.Fatal(err)
		}
	}
}

// FuzzImport: nothing breaks an import, and what it takes is exported and
// imported again the same.
func FuzzImport(f *testing.F) {
	l := open(f, eventlog.Config{})
	must(f, l.Commit(f.Context(), func(tx *eventlog.Tx) error {
		_, err := tx.Append(eventlog.Event{Stream: "acp:x", Session: "a", Life: "l", Kind: "k", Payload: []byte("\xff")})
		return errors.Join(err, tx.PutSession(aSession("a")), tx.PutLife(aLife("l")), tx.PutRequest(aRequest("l", "1")))
	}))
	f.Add([]byte(export(f, l, "a")))
	f.Add([]byte(`{"export":{"format":"deskhand session","version":1,"session":"s"}}
{"session":{"id":"s","state":"idle","init":{"base64":"/w=="},"createdAt":"2030-01-01T00:00:00Z","updatedAt":"2030-01-01T00:00:00Z"}}
{"event":{"stream":"ses:s","seq":1,"id":"e","at":"2030-01-01T00:00:00.000001Z","dir":"daemon","payload":"x"}}
{"end":{"events":1}}
`))
	f.Fuzz(func(t *testing.T, text []byte) {
		l := open(t, eventlog.Config{})
		ids, err := l.Import(t.Context(), bytes.NewReader(text))
		if err != nil {
			return
		}
		for _, id := range ids {
			lines := export(t, l, id)
			again := open(t, eventlog.Config{})
			if _, err := again.Import(t.Context(), strings.NewReader(lines)); err != nil {
				t.Fatalf("%v of\n%s", err, lines)
			}
			if diff := cmp.Diff(lines, export(t, again, id)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		}
	})
}
