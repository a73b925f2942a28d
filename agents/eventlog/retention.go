package eventlog

import (
	"context"
	"sync"
	"time"
)

// dropChunk is how many events are dropped in one transaction, so that commits do not
// wait for long.
const dropChunk = 1000

// keeper enforces Config.Retention.
type keeper struct {
	log    *Log
	bounds Retention

	mu    sync.Mutex
	grown map[string]bool // the streams that were appended to since the last look
}

// note remembers that a stream has grown. A nil keeper has nothing to do.
func (k *keeper) note(stream string) {
	if k != nil {
		k.mu.Lock()
		k.grown[stream] = true
		k.mu.Unlock()
	}
}

// run trims all streams at first and when some events may have become too old, and
// otherwise the streams that have grown. It tidies the records of processes less often.
func (k *keeper) run(ctx context.Context) {
	tick := time.NewTicker(k.bounds.Interval)
	defer tick.Stop()
	aging := max(k.bounds.Interval, k.bounds.Age/24)
	var all, tidied time.Time // when all streams were looked after, and the records of processes
	for {
		whole := all.IsZero() || k.bounds.Age > 0 && time.Since(all) >= aging
		err := k.look(ctx, whole)
		if err == nil && (whole || time.Since(tidied) >= tidyEvery) {
			err = k.tidy(ctx)
			tidied = time.Now()
		}
		if err != nil {
			k.log.cfg.Logger.Warn("event log keeps more than it should", "error", err)
		} else if whole {
			all = time.Now()
		}
		select {
		case <-tick.C:
		case <-k.log.closing:
			return
		case <-ctx.Done():
			return
		}
	}
}

func (k *keeper) look(ctx context.Context, whole bool) error {
	k.mu.Lock()
	grown := k.grown
	k.grown = map[string]bool{}
	k.mu.Unlock()
	if !whole {
		for name := range grown {
			p, err := k.log.ask(ctx, name)
			if err == nil && p.id != 0 {
				err = k.trim(ctx, p.id)
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
	for last := int64(0); ; {
		ids, err := column[int64](ctx, k.log.db.reader(), statement{"select id from stream where id > $1 order by id limit 500", []any{last}})
		if err != nil || len(ids) == 0 {
			return err
		}
		for _, id := range ids {
			if err := k.trim(ctx, id); err != nil {
				return err
			}
		}
		last = ids[len(ids)-1]
	}
}

// trim drops the events of a stream that exceed the bounds.
func (k *keeper) trim(ctx context.Context, stream int64) error {
	upTo, err := k.excess(ctx, stream)
	if err != nil || upTo == 0 {
		return err
	}
	for {
		var first int64
		found, err := one(ctx, k.log.db.reader(),
			statement{"select seq from event where stream = $1 order by seq limit 1", []any{stream}}, &first)
		if err != nil || !found || first > upTo {
			return err
		}
		chunk := min(upTo, first+dropChunk-1)
		err = k.log.submit(ctx, &job{impatient: true, alone: func(ctx context.Context, tx transaction) error {
			return drop(ctx, tx, stream, chunk)
		}})
		if err != nil {
			return err
		}
	}
}

// excess returns the sequence of the newest event that exceeds the bounds, or 0.
func (k *keeper) excess(ctx context.Context, stream int64) (upTo int64, err error) {
	q := k.log.db.reader()
	var last int64
	if _, err := one(ctx, q, statement{selectLast, []any{stream}}, &last); err != nil {
		return 0, err
	}
	if n := k.bounds.Events; n > 0 {
		upTo = max(last-int64(n), 0)
	}
	if k.bounds.Bytes > 0 {
		var total int64
		s := statement{"select seq, size from event where stream = $1 order by seq desc", []any{stream}}
		err := q.query(ctx, s, func(scan func(...any) error) (bool, error) {
			var seq, size int64
			err := scan(&seq, &size)
			if total += size; total > k.bounds.Bytes {
				upTo = max(upTo, seq)
			}
			return total <= k.bounds.Bytes, err
		})
		if err != nil {
			return 0, err
		}
	}
	if k.bounds.Age > 0 {
		young := time.Now().Add(-k.bounds.Age)
		s := statement{"select seq, at from event where stream = $1 order by seq", []any{stream}}
		err := q.query(ctx, s, func(scan func(...any) error) (bool, error) {
			var seq, at int64
			err := scan(&seq, &at)
			old := at < micros(young)
			if old {
				upTo = max(upTo, seq)
			}
			return old, err
		})
		if err != nil {
			return 0, err
		}
	}
	return min(upTo, last-1), nil
}

// drop deletes a stream's events up to a sequence, and the blobs that no other event
// needs.
func drop(ctx context.Context, tx transaction, stream, upTo int64) error {
	hashes, err := column[[]byte](ctx, tx, statement{"select distinct hash from event_blob where stream = $1 and seq <= $2", []any{stream, upTo}})
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
	return tx.exec(ctx, all)
}
