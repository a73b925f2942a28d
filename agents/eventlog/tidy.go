package eventlog

import (
	"context"
	"time"
)

const (
	// tidyEvery is how often records of processes are looked through when
	// nothing else makes the keeper look at everything. It reads all events.
	tidyEvery = 24 * time.Hour

	tidyChunk = 200 // processes that are removed in one transaction
)

const (
	// The newest process of a server tells how it goes on, or that it is no more, and
	// an older one would speak for the server without it.
	selectOver = "select id from life where exited_at <> 0 and (reason = '" + ReasonDeleted + "' or exists (select 1 from life later " +
		"where later.server = life.server and (later.started_at, later.id) > (life.started_at, life.id))) order by started_at, id"

	selectUsed = "select distinct life from event where session <> ''"

	deleteProcess = "delete from life where id = $1 and exited_at <> 0 and (exists (select 1 from life later " +
		"where later.server = life.server and (later.started_at, later.id) > (life.started_at, life.id)) " +
		"or reason = '" + ReasonDeleted + "' and not exists (select 1 from life older where older.server = life.server and older.id <> life.id))"

	deleteRequests = "delete from request where life = $1 and not exists (select 1 from life where id = $1)"
)

// tidy removes the records of processes, and of their questions, that are not needed any
// more: the process has ended, its server was deleted or has a newer process, and no
// session has an event of the process.
func (k *keeper) tidy(ctx context.Context) error {
	over, err := k.processes(ctx, selectOver)
	if err != nil || len(over) == 0 {
		return err
	}
	list, err := k.processes(ctx, selectUsed)
	if err != nil {
		return err
	}
	used := make(map[string]bool, len(list))
	for _, id := range list {
		used[id] = true
	}
	var all []statement
	for _, id := range over { // the oldest first, so that the one that says it is no more goes last
		if !used[id] {
			all = append(all, statement{deleteProcess, []any{id}}, statement{deleteRequests, []any{id}})
		}
	}
	for len(all) > 0 {
		chunk := all[:min(len(all), 2*tidyChunk)]
		err := k.log.submit(ctx, &job{impatient: true, alone: func(ctx context.Context, tx transaction) error { return tx.exec(ctx, chunk) }})
		if err != nil {
			return err
		}
		all = all[len(chunk):]
	}
	return nil
}

// processes returns the ids that a statement selects.
func (k *keeper) processes(ctx context.Context, sql string) (ids []string, err error) {
	err = k.log.db.reader().query(ctx, statement{sql: sql}, func(scan func(...any) error) (bool, error) {
		var id string
		err := scan(&id)
		ids = append(ids, id)
		return true, err
	})
	return ids, err
}
