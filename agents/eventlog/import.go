package eventlog

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// maxLine is how long a line of an import may be: that of the largest payload,
// of which each byte may have to be escaped.
const maxLine = 6*maxPayload + 1<<20

// importChunk is how many bytes of payloads an import holds in memory.
const importChunk = 4 << 20

// LineError says what is wrong with a line of an import.
type LineError struct {
	Line int // from 1 on
	Err  error
}

// Error implements error.
func (e *LineError) Error() string { return fmt.Sprintf("line %d of the import: %v", e.Line, e.Err) }

// Unwrap returns Err.
func (e *LineError) Unwrap() error { return e.Err }

// Import takes what [Log.Export] wrote, of one session or several one after the
// other, and returns their ids: all of them or, with an error, nothing. A
// session that is there already, and an event whose stream has another one of
// that number, are [ErrExists]; lines that make no sense are a [*LineError], and
// too few of them an [*InvalidError].
//
// The lines are checked before the first one is written; meanwhile they lie in
// a temporary file without a name. Others who commit wait until the import is written.
func (l *Log) Import(ctx context.Context, from io.Reader) (sessions []string, err error) {
	if err := l.open(); err != nil {
		return nil, err
	}
	spool, err := nameless()
	if err != nil {
		return nil, err
	}
	defer spool.Close()
	check := new(checker)
	w := bufio.NewWriter(spool)
	err = eachLine(from, func(text []byte, one *line) error {
		if err := check.line(one); err != nil {
			return err
		}
		_, err := w.Write(append(text, '\n'))
		return errors.Join(err, ctx.Err())
	})
	if err = errors.Join(err, w.Flush()); err == nil {
		err = check.end()
	}
	if err != nil {
		return nil, err
	}
	var streams map[string]int64
	err = l.do(ctx, &job{alone: func(ctx context.Context, tx transaction) error {
		if _, err := spool.Seek(0, io.SeekStart); err != nil {
			return err
		}
		i := &importer{log: l, tx: tx, streams: map[string]int64{}}
		err := eachLine(spool, func(_ []byte, one *line) error { return i.line(ctx, one) })
		if err == nil {
			err = i.flush(ctx)
		}
		if err == nil {
			err = tx.finish(ctx, nil, slices.Collect(maps.Keys(i.streams)))
		}
		streams = i.streams
		return err
	}, after: func() { // before anybody appends to them
		for name := range streams {
			l.streams.forget(name)
		}
	}})
	if err != nil {
		return nil, err
	}
	return check.sessions, nil
}

// nameless is a temporary file that is gone with this program, however that ends.
// Where the file system cannot have files without a name (O_TMPFILE), it has one
// for a moment; which error says so depends on the file system.
func nameless() (f *os.File, err error) {
	if f, err = os.OpenFile(os.TempDir(), unix.O_TMPFILE|os.O_RDWR, 0o600); err == nil {
		return f, nil
	}
	if f, err = os.CreateTemp("", "deskhand-import-"); err != nil {
		return nil, err
	}
	if err = os.Remove(f.Name()); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// eachLine calls f with each line that is not empty.
func eachLine(from io.Reader, f func(text []byte, one *line) error) error {
	r := bufio.NewReaderSize(from, 64<<10)
	for n := 1; ; n++ {
		text, err := readLine(r)
		if err != nil && !errors.Is(err, io.EOF) {
			return &LineError{n, err}
		}
		if text = bytes.TrimSpace(text); len(text) > 0 {
			one := new(line)
			if err := strict(text, one); err != nil {
				return &LineError{n, err}
			}
			if err := f(text, one); hopeless(err) {
				return err // not the line's fault
			} else if err != nil {
				return &LineError{n, err}
			}
		}
		if err != nil {
			return nil //nolint:nilerr // it was the last line
		}
	}
}

func readLine(r *bufio.Reader) (text []byte, err error) {
	for {
		some, err := r.ReadSlice('\n')
		if len(text)+len(some) > maxLine {
			return nil, fmt.Errorf("it is longer than %d MiB", maxLine>>20)
		}
		text = append(text, some...)
		if !errors.Is(err, bufio.ErrBufferFull) {
			return text, err
		}
	}
}

// checker checks lines before anything is written.
type checker struct {
	sessions []string
	current  string           // the session whose lines come
	has      bool             // its session line came
	events   int64            // of the current one
	last     map[string]int64 // of each stream
	inside   bool
}

func (c *checker) line(l *line) error {
	now := time.Now()
	if count(l) != 1 {
		return errors.New(`it must have one of "export", "session", "life", "request", "event" and "end"`)
	}
	if l.Export != nil {
		return c.begin(l.Export)
	}
	if !c.inside {
		return errors.New(`an "export" line must come first`)
	}
	switch {
	case l.Session != nil:
		s := l.Session.session()
		if c.has || s.ID != c.current {
			return fmt.Errorf("it must be the one session %s", quote(c.current))
		}
		c.has = true
		return s.check(now)
	case l.Life != nil:
		one := l.Life.life()
		return one.check(now)
	case l.Request != nil:
		one := l.Request.request()
		return one.check(now)
	case l.Event != nil:
		e := l.Event.event()
		c.events++
		if e.Seq <= c.last[e.Stream] {
			return fmt.Errorf("event %d of stream %s follows %d", e.Seq, quote(e.Stream), c.last[e.Stream])
		}
		if e.ID == "" || e.At.IsZero() {
			return errors.New("the event must have an id and a time")
		}
		c.last[e.Stream] = e.Seq
		return e.check(now)
	default:
		if c.events != l.End.Events || !c.has {
			return fmt.Errorf("%d events came and %d were written: something is missing", c.events, l.End.Events)
		}
		c.inside = false
		return nil
	}
}

func count(l *line) (n int) {
	for _, is := range []bool{l.Export != nil, l.Session != nil, l.Life != nil, l.Request != nil, l.Event != nil, l.End != nil} {
		if is {
			n++
		}
	}
	return n
}

func (c *checker) begin(e *exportLine) error {
	switch {
	case c.inside:
		return fmt.Errorf("session %s has not ended", quote(c.current))
	case e.Format != "deskhand session":
		return fmt.Errorf("the format is %s, not %q", quote(e.Format), "deskhand session")
	case e.Version != lineVersion:
		return fmt.Errorf("version %d of the format is unknown; this program knows %d", e.Version, lineVersion)
	}
	c.inside, c.current, c.has, c.events, c.last = true, e.Session, false, 0, map[string]int64{}
	c.sessions = append(c.sessions, e.Session)
	return nil
}

func (c *checker) end() error {
	if c.inside {
		return &InvalidError{"import", fmt.Sprintf(`is cut off: the "end" line of session %s is missing`, quote(c.current))}
	}
	if len(c.sessions) == 0 {
		return &InvalidError{"import", "has no session"}
	}
	return nil
}

// importer writes lines that were checked.
type importer struct {
	log     *Log
	tx      transaction
	streams map[string]int64 // their ids
	wait    []statement
	bytes   int
}

func (i *importer) line(ctx context.Context, l *line) error {
	now := time.Now()
	switch {
	case l.Session != nil:
		s := l.Session.session()
		if err := i.tx.lock(ctx, "session", s.ID, true); err != nil {
			return err
		}
		_, err := findSession(ctx, i.tx, s.ID)
		if err := absent(err, "session "+quote(s.ID)); err != nil {
			return err
		}
		if err := s.check(now); err != nil {
			return err
		}
		return i.put(ctx, 0, putSession(s))
	case l.Life != nil:
		one := l.Life.life()
		_, err := findLife(ctx, i.tx, one.ID)
		if err == nil {
			return nil // another session of the same process has brought it
		}
		if !errors.Is(err, ErrNotFound) {
			return err
		}
		if err := one.check(now); err != nil {
			return err
		}
		return i.put(ctx, 0, putLife(one))
	case l.Request != nil:
		r := l.Request.request()
		_, err := findRequest(ctx, i.tx, r.RequestKey)
		if err := absent(err, "request "+quote(r.RPC)+" of "+quote(r.Life)); err != nil {
			return err
		}
		if err := r.check(now); err != nil {
			return err
		}
		return i.put(ctx, 0, putRequest(r))
	case l.Event != nil:
		return i.event(ctx, l.Event.event())
	}
	return nil
}

// absent makes ErrExists of the result of a search that has found something.
func absent(err error, what string) error {
	switch {
	case err == nil:
		return fmt.Errorf("%s: %w", what, ErrExists)
	case errors.Is(err, ErrNotFound):
		return nil
	}
	return err
}

func (i *importer) event(ctx context.Context, e Event) error {
	id, ok := i.streams[e.Stream]
	if !ok {
		p, err := i.tx.position(ctx, e.Stream, true)
		if err != nil {
			return err
		}
		id = p.id
		i.streams[e.Stream] = id
	}
	var there int64
	found, err := one(ctx, i.tx, statement{"select seq from event where stream = $1 and seq = $2", []any{id, e.Seq}}, &there)
	if err != nil {
		return err
	}
	if found {
		return fmt.Errorf("event %d of stream %s: %w", e.Seq, quote(e.Stream), ErrExists)
	}
	if err := e.check(time.Now()); err != nil {
		return err
	}
	return i.put(ctx, len(e.Payload), insertEvent(id, &e, i.log.codec.encode(e.Payload))...)
}

// put lets statements wait until there are enough to send them.
func (i *importer) put(ctx context.Context, bytes int, all ...statement) error {
	i.wait = append(i.wait, all...)
	if i.bytes += bytes; len(i.wait) < 500 && i.bytes < importChunk {
		return nil
	}
	return i.flush(ctx)
}

func (i *importer) flush(ctx context.Context) error {
	if len(i.wait) == 0 {
		return nil
	}
	err := i.tx.exec(ctx, i.wait)
	i.wait, i.bytes = nil, 0
	return err
}
