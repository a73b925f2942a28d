package eventlog

import (
	"bufio"
	"context"
	"io"
)

// part is what a stream has of a session.
type part struct {
	name string
	id   int64
	last int64
	own  bool // all of the stream, whatever session its events name
}

// Export writes a session, as it is at this moment, as lines of JSON: what is
// known of it, its processes, its requests and its events, those in "ses:",
// "uni:" and "oc:" and those that name the session in other streams. [Import]
// takes them. The lines are the same whenever they are written, as long as
// nothing was appended or dropped.
func (l *Log) Export(ctx context.Context, session string, to io.Writer) error {
	if err := l.open(); err != nil {
		return err
	}
	w := &lineWriter{to: bufio.NewWriterSize(to, 64<<10)}
	// Only what is short is read at one moment: a transaction that stays open as
	// long as the writer is slow would keep the database from tidying up.
	var parts []part
	err := l.db.snapshot(ctx, func(q querier) (err error) {
		if parts, err = sessionParts(ctx, q, session); err != nil {
			return err
		}
		return exportRecords(ctx, q, session, w)
	})
	if err != nil {
		return err
	}
	var n int64
	for _, p := range parts {
		if err := l.exportEvents(ctx, session, p, w, &n); err != nil {
			return err
		}
	}
	w.write(line{End: &endLine{n}})
	if w.err != nil {
		return w.err
	}
	return w.to.Flush()
}

// lineWriter writes lines until one fails.
type lineWriter struct {
	to  *bufio.Writer
	err error
}

func (w *lineWriter) write(l line) {
	text, err := marshal(l)
	if w.err == nil {
		w.err = err
	}
	if w.err == nil {
		_, w.err = w.to.Write(append(text, '\n'))
	}
}

func exportRecords(ctx context.Context, q querier, session string, w *lineWriter) error {
	s, err := findSession(ctx, q, session)
	if err != nil {
		return err
	}
	all, err := requests(ctx, q, RequestFilter{Session: session}, nil)
	if err != nil {
		return err
	}
	theirs, err := sessionLives(ctx, q, session)
	if err != nil {
		return err
	}
	w.write(line{Export: &exportLine{"deskhand session", lineVersion, session}})
	w.write(line{Session: lineOfSession(s)})
	for _, l := range theirs {
		w.write(line{Life: lineOfLife(l)})
	}
	for _, r := range all {
		w.write(line{Request: lineOfRequest(r)})
	}
	return nil
}

const (
	selectOwnStreams = "select name, id, coalesce((select max(seq) from event where stream = stream.id), 0) from stream " +
		"where name in ($1, $2, $3) order by name"

	// The second condition is what lets the index be used.
	selectOtherStreams = "select s.name, s.id, max(e.seq) from event e join stream s on s.id = e.stream " +
		"where e.session = $1 and e.session <> '' and s.name not in ($2, $3, $4) group by s.name, s.id order by s.name"
)

// sessionParts finds the streams that have events of a session.
func sessionParts(ctx context.Context, q querier, session string) (parts []part, err error) {
	own := map[string]bool{"ses:" + session: true, "uni:" + session: true, "oc:" + session: true}
	collect := func(scan func(...any) error) (bool, error) {
		var p part
		err := scan(&p.name, &p.id, &p.last)
		if p.own = own[p.name]; p.last > 0 {
			parts = append(parts, p)
		}
		return true, err
	}
	names := []any{"ses:" + session, "uni:" + session, "oc:" + session}
	err = q.query(ctx, statement{selectOwnStreams, names}, collect)
	if err == nil {
		err = q.query(ctx, statement{selectOtherStreams, append([]any{session}, names...)}, collect)
	}
	return parts, err
}

// sessionLives finds the processes that a session had.
func sessionLives(ctx context.Context, q querier, session string) (all []Life, err error) {
	s := statement{"select " + lifeColumns + " from life where id in (select life from event where session = $1 and session <> '' " +
		"union select life from request where session = $2) order by started_at, id", []any{session, session}}
	err = q.query(ctx, s, func(scan func(...any) error) (bool, error) {
		l, err := scanLife(scan)
		all = append(all, l)
		return true, err
	})
	return all, err
}

func (l *Log) exportEvents(ctx context.Context, session string, p part, w *lineWriter, n *int64) error {
	for after := int64(0); after < p.last; {
		c := new(condition)
		c.add("e.stream = %s and e.seq > %s and e.seq <= %s", p.id, after, p.last)
		if !p.own {
			c.add("e.session = %s", session)
		}
		s := c.statement("select "+eventColumns+" from event e", " order by e.seq limit 500")
		events, err := l.events(ctx, p.name, s)
		if err != nil || len(events) == 0 {
			return err
		}
		for i := range events {
			w.write(line{Event: lineOfEvent(events[i])})
			after = events[i].Seq
			*n++
		}
		if w.err != nil {
			return w.err
		}
	}
	return nil
}
