package eventlog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
)

const (
	pageEvents = 1000    // of one page
	pageBytes  = 4 << 20 // of the payloads or sessions of a page; the last one may exceed it
)

const (
	selectLast = "select coalesce(max(seq), 0) from event where stream = $1"

	insertEventSQL = "insert into event (stream, seq, id, at, life, session, dir, kind, form, size, payload) " +
		"values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)"

	insertBlobSQL = "insert into blob (hash, size, data) values ($1, $2, $3) on conflict (hash) do nothing"

	insertLinkSQL = "insert into event_blob (stream, seq, hash) values ($1, $2, $3) on conflict (stream, seq, hash) do nothing"

	eventColumns = "e.seq, e.id, e.at, e.life, e.session, e.dir, e.kind, e.form, e.size, " +
		"case when (e.form & 4) = 0 then e.payload else (select data from blob where hash = e.payload) end" // 4 is formApart

	selectPage = "select " + eventColumns + " from event e where e.stream = (select id from stream where name = $1) " +
		"and e.seq > $2 order by e.seq limit $3"

	selectBounded = "select " + eventColumns + " from event e where e.stream = (select id from stream where name = $1) " +
		"and e.seq = $2 and e.size <= $3"

	selectExists = "select seq from event where stream = (select id from stream where name = $1) and seq = $2"
)

// packer makes the statements for the events of a transaction. Events with the same payload,
// such as one message in two streams, are encoded once, and a blob is inserted once.
type packer struct {
	codec    *codec
	payload  []byte // of the previous event
	stored   stored // payload
	inserted map[hash]bool
}

// insertEvent returns the statements that write an event, its blobs first.
func (p *packer) insertEvent(stream int64, e *Event) []statement {
	if len(e.Payload) == 0 || len(e.Payload) != len(p.payload) || &e.Payload[0] != &p.payload[0] {
		p.payload, p.stored = e.Payload, p.codec.encode(e.Payload)
	}
	s := p.stored
	all := make([]statement, 0, 1+2*len(s.blobs))
	for i := range s.blobs {
		b := &s.blobs[i]
		if !p.inserted[b.hash] {
			p.inserted[b.hash] = true
			all = append(all, statement{insertBlobSQL, []any{b.hash[:], int64(len(b.data)), b.data}})
		}
		all = append(all, statement{insertLinkSQL, []any{stream, e.Seq, b.hash[:]}})
	}
	return append(all, statement{insertEventSQL, []any{
		stream, e.Seq, e.ID, micros(e.At), e.Process, e.Session, int64(e.Dir), e.Kind, int64(s.form), int64(len(e.Payload)), s.data,
	}})
}

// row is an event as it is stored.
type row struct {
	event Event
	size  int
	stored
}

func scanRow(stream string, scan func(...any) error) (r row, err error) {
	var at int64
	r.event.Stream = stream
	err = scan(&r.event.Seq, &r.event.ID, &at, &r.event.Process, &r.event.Session, (*int)(&r.event.Dir), &r.event.Kind,
		&r.form, &r.size, &r.data)
	r.event.At = fromMicros(at)
	return r, err
}

// unpack decodes the payload.
func (l *Log) unpack(ctx context.Context, q querier, r *row) (Event, error) {
	payload, err := l.codec.decode(r.stored, r.size, func(h hash) (data []byte, err error) {
		found, err := queryRow(ctx, q, statement{"select data from blob where hash = $1", []any{h[:]}}, &data)
		if err == nil && !found {
			err = errNoBlob
		}
		return data, err
	})
	if errors.Is(err, errDamaged) {
		err = l.db.corrupt(fmt.Errorf("event %d of stream %.100q: %w", r.event.Seq, r.event.Stream, err))
	}
	r.event.Payload = payload
	return r.event, err
}

// errNoBlob reports that a blob is missing.
var errNoBlob = errors.New("a part of a payload is missing")

// page reads a stream's events from the database. It skips events that retention drops
// meanwhile.
func (l *Log) page(ctx context.Context, stream string, after int64, limit int) ([]Event, error) {
	events, dropped, err := l.selected(ctx, stream, statement{selectPage, []any{stream, after, int64(limit)}})
	if dropped > 0 { // and all events before it
		return l.page(ctx, stream, dropped, limit)
	}
	return events, err
}

// selected returns the events of a stream that a statement selects, until they have pageBytes. It
// stops at an event that retention drops meanwhile, and returns its sequence.
func (l *Log) selected(ctx context.Context, stream string, s statement) (events []Event, dropped int64, err error) {
	q := l.db.reader()
	var rows []row
	bytes := 0
	err = q.query(ctx, s, func(scan func(...any) error) (bool, error) {
		r, err := scanRow(stream, scan)
		rows = append(rows, r)
		bytes += r.size
		return bytes < pageBytes, err
	})
	if err != nil {
		return nil, 0, err
	}
	events = make([]Event, 0, len(rows))
	for i := range rows {
		e, err := l.unpack(ctx, q, &rows[i])
		if errors.Is(err, errNoBlob) {
			is, err := l.explainMissing(ctx, q, &e, err)
			if is {
				return events, e.Seq, nil
			}
			return nil, 0, err
		}
		if err != nil {
			return nil, 0, err
		}
		events = append(events, e)
	}
	return events, 0, nil
}

// explainMissing returns the error for an event without its blobs, or whether retention has
// dropped the event.
func (l *Log) explainMissing(ctx context.Context, q querier, e *Event, missing error) (dropped bool, err error) {
	found, err := queryRow(ctx, q, statement{selectExists, []any{e.Stream, e.Seq}}, new(int64))
	if err == nil && !found {
		return true, nil
	}
	return false, cmp.Or(err, l.db.corrupt(missing))
}

// Payload returns the payload of an event. It returns nil if the payload has more than most
// bytes, which it does not load, and if the log does not have the event. It does not wait for
// Postgres: it returns [ErrUnavailable] if Postgres cannot be reached.
func (l *Log) Payload(ctx context.Context, stream string, seq int64, most int) ([]byte, error) {
	if err := l.open(); err != nil {
		return nil, err
	}
	events, ok, err := l.recent(ctx, stream, seq-1, 1)
	if err != nil {
		return nil, err
	}
	if ok {
		if len(events) == 1 && events[0].Seq == seq && len(events[0].Payload) <= most {
			return events[0].Payload, nil
		}
		return nil, nil
	}
	q := l.db.reader()
	var r row
	found := false
	err = q.query(ctx, statement{selectBounded, []any{stream, seq, int64(most)}}, func(scan func(...any) error) (_ bool, err error) {
		r, err = scanRow(stream, scan)
		found = true
		return false, err
	})
	if err != nil || !found {
		return nil, err
	}
	e, err := l.unpack(ctx, q, &r)
	if errors.Is(err, errNoBlob) {
		_, err = l.explainMissing(ctx, q, &e, err)
	}
	return e.Payload, err
}

// Read returns the events of a stream after a sequence, the oldest first: at most limit
// (0: 1000; at most 1000), and fewer if their payloads are large. It returns none only if
// there are no more. It skips events that retention has dropped. It does not wait for
// events or for Postgres: it returns [ErrUnavailable] if Postgres cannot be reached.
func (l *Log) Read(ctx context.Context, stream string, after int64, limit int) ([]Event, error) {
	if err := l.open(); err != nil {
		return nil, err
	}
	if limit <= 0 || limit > pageEvents {
		limit = pageEvents
	}
	if events, ok, err := l.recent(ctx, stream, after, limit); ok || err != nil {
		return events, err
	}
	return l.page(ctx, stream, after, limit)
}

// Selection selects the events of a sender and a kind whose payload has at most MaxBytes.
type Selection struct {
	Dir      Direction
	Kind     string
	MaxBytes int
}

// ReadBack returns the selected events of a stream before a sequence, the newest first: at most
// 1000, and fewer if their payloads are large. It returns none only if there are no more. It does
// not wait for Postgres: it returns [ErrUnavailable] if Postgres cannot be reached.
func (l *Log) ReadBack(ctx context.Context, stream string, before int64, selected ...Selection) ([]Event, error) {
	if err := l.open(); err != nil {
		return nil, err
	}
	var args []any
	parts := []string{"false"}
	for _, s := range selected {
		parts, args = append(parts, "e.dir = %s and e.kind = %s and e.size <= %s"), append(args, int64(s.Dir), s.Kind, int64(s.MaxBytes))
	}
	c := new(condition)
	c.add("e.stream = (select id from stream where name = %s) and e.seq < %s", stream, before)
	c.add("("+strings.Join(parts, " or ")+")", args...)
	rest := fmt.Sprintf(" order by e.seq desc limit %d", pageEvents)
	events, _, err := l.selected(ctx, stream, c.statement("select "+eventColumns+" from event e", rest))
	return events, err
}

// recent returns the events of a stream after a sequence if they are in memory.
func (l *Log) recent(ctx context.Context, stream string, after int64, limit int) (events []Event, ok bool, err error) {
	if l.db.shared() {
		return nil, false, nil
	}
	s := l.streams.acquire(stream)
	defer l.streams.release(s)
	if err := l.load(ctx, s); err != nil {
		return nil, false, err
	}
	events, behind, _ := s.after(after, limit)
	return events, !behind, nil
}

// Last returns the sequence of a stream's newest event, or 0 if it has none.
func (l *Log) Last(ctx context.Context, stream string) (int64, error) {
	if err := l.open(); err != nil {
		return 0, err
	}
	if !l.db.shared() {
		if p, ok := l.streams.position(stream); ok {
			return p.last, nil
		}
	}
	p, err := l.readPosition(ctx, stream)
	return p.last, err
}

// readPosition reads the position of a stream from the database.
func (l *Log) readPosition(ctx context.Context, stream string) (p position, err error) {
	found, err := queryRow(ctx, l.db.reader(), statement{"select id from stream where name = $1", []any{stream}}, &p.id)
	if err != nil || !found {
		return p, err
	}
	_, err = queryRow(ctx, l.db.reader(), statement{selectLast, []any{p.id}}, &p.last)
	return p, err
}

// load reads the position of a stream unless it is in memory.
func (l *Log) load(ctx context.Context, s *stream) error {
	for {
		s.mu.Lock()
		known, changes := s.known, s.changes
		s.mu.Unlock()
		if known {
			return nil
		}
		p, err := l.readPosition(ctx, s.name)
		if err != nil {
			return err
		}
		s.mu.Lock()
		// A position that was published meanwhile is newer.
		if !s.known && s.changes == changes {
			s.known, s.pos = true, p
		}
		s.mu.Unlock()
	}
}
