package eventlog

import (
	"context"
	"sync"
	"time"
)

// dropChunk is how many events are dropped in one transaction, so that commits do not
// wait for long.
const dropChunk = 1000

// retainer enforces Config.Retention.
type retainer struct {
	log    *Log
	bounds Retention

	mu       sync.Mutex
	appended map[string]bool // the streams that were appended to since the last trim
}

// onAppend marks a stream for the next trim. r may be nil.
func (r *retainer) onAppend(stream string) {
	if r != nil && stream != r.bounds.Except {
		r.mu.Lock()
		r.appended[stream] = true
		r.mu.Unlock()
	}
}

// run trims all streams at first and when some events may have become too old, and
// otherwise the streams that were appended to. It removes the records of processes less
// often.
func (r *retainer) run(ctx context.Context) {
	tick := time.NewTicker(r.bounds.Interval)
	defer tick.Stop()
	aging := max(r.bounds.Interval, r.bounds.Age/24)
	var trimmed, removed time.Time // all streams, and the records of processes
	for {
		all := trimmed.IsZero() || r.bounds.Age > 0 && time.Since(trimmed) >= aging
		err := r.trimStreams(ctx, all)
		if err == nil && (all || time.Since(removed) >= removeEvery) {
			err = r.removeProcesses(ctx)
			removed = time.Now()
		}
		if err != nil {
			r.log.cfg.Logger.Warn("event log could not enforce its retention", "error", err)
		} else if all {
			trimmed = time.Now()
		}
		select {
		case <-tick.C:
		case <-r.log.closing:
			return
		case <-ctx.Done():
			return
		}
	}
}

// trimStreams trims all streams, or the streams that were appended to.
func (r *retainer) trimStreams(ctx context.Context, all bool) error {
	r.mu.Lock()
	appended := r.appended
	r.appended = map[string]bool{}
	r.mu.Unlock()
	if !all {
		for name := range appended {
			p, err := r.log.readPosition(ctx, name)
			if err == nil && p.id != 0 {
				err = r.trim(ctx, p.id)
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
	for last := int64(0); ; {
		ids, err := queryColumn[int64](ctx, r.log.db.reader(), statement{
			"select id from stream where id > $1 and name <> $2 order by id limit 500", []any{last, r.bounds.Except},
		})
		if err != nil || len(ids) == 0 {
			return err
		}
		for _, id := range ids {
			if err := r.trim(ctx, id); err != nil {
				return err
			}
		}
		last = ids[len(ids)-1]
	}
}

// trim drops the events of a stream that exceed the bounds.
func (r *retainer) trim(ctx context.Context, stream int64) error {
	upTo, err := r.lastExcess(ctx, stream)
	if err != nil || upTo == 0 {
		return err
	}
	for {
		var first int64
		found, err := queryRow(ctx, r.log.db.reader(),
			statement{"select seq from event where stream = $1 order by seq limit 1", []any{stream}}, &first)
		if err != nil || !found || first > upTo {
			return err
		}
		chunk := min(upTo, first+dropChunk-1)
		err = r.log.submit(ctx, &job{impatient: true, alone: func(ctx context.Context, tx transaction) error {
			return drop(ctx, tx, stream, chunk)
		}})
		if err != nil {
			return err
		}
	}
}

// lastExcess returns the sequence of the newest event that exceeds the bounds, or 0.
func (r *retainer) lastExcess(ctx context.Context, stream int64) (upTo int64, err error) {
	q := r.log.db.reader()
	var last int64
	if _, err := queryRow(ctx, q, statement{selectLast, []any{stream}}, &last); err != nil {
		return 0, err
	}
	if n := r.bounds.Events; n > 0 {
		upTo = max(last-int64(n), 0)
	}
	if r.bounds.Bytes > 0 {
		var total int64
		s := statement{"select seq, size from event where stream = $1 order by seq desc", []any{stream}}
		err := q.query(ctx, s, func(scan func(...any) error) (bool, error) {
			var seq, size int64
			err := scan(&seq, &size)
			if total += size; total > r.bounds.Bytes {
				upTo = max(upTo, seq)
			}
			return total <= r.bounds.Bytes, err
		})
		if err != nil {
			return 0, err
		}
	}
	if r.bounds.Age > 0 {
		young := last // the first event that is not too old
		s := statement{"select seq from event where stream = $1 and at >= $2 order by seq limit 1", []any{stream, micros(time.Now().Add(-r.bounds.Age))}}
		if _, err := queryRow(ctx, q, s, &young); err != nil {
			return 0, err
		}
		upTo = max(upTo, young-1)
	}
	return min(upTo, last-1), nil
}

// drop deletes a stream's events up to a sequence, and the blobs that no other event
// needs.
func drop(ctx context.Context, tx transaction, stream, upTo int64) error {
	hashes, err := queryColumn[[]byte](ctx, tx, statement{"select distinct hash from event_blob where stream = $1 and seq <= $2", []any{stream, upTo}})
	if err != nil {
		return err
	}
	all := []statement{
		{"delete from event_blob where stream = $1 and seq <= $2", []any{stream, upTo}},
		{"delete from event where stream = $1 and seq <= $2", []any{stream, upTo}},
	}
	for _, h := range hashes {
		all = append(all, statement{
			"delete from blob where hash = $1 and not exists (select 1 from event_blob where event_blob.hash = blob.hash)",
			[]any{h},
		})
	}
	return tx.exec(ctx, all, nil)
}
