package eventlog

import (
	"context"
	"slices"
	"time"
)

const (
	removeEvery = 24 * time.Hour // between two runs of removeProcesses, which reads all events
	removeChunk = 200            // processes that are removed in one transaction
)

// The newest process of a server records whether the server was deleted. If it were removed
// first, an older process would become the newest.
const (
	selectUnneeded = "select id from life where exited_at <> 0 and (reason = '" + ReasonDeleted + "' or " + hasLater +
		") and id not in (select life from event where session <> '') order by started_at, id"

	deleteProcess = "delete from life where id = $1 and exited_at <> 0 and (" + hasLater +
		" or reason = '" + ReasonDeleted + "' and not exists (select 1 from life older where older.server = life.server and older.id <> life.id))"

	deleteRequests = "delete from request where life = $1 and not exists (select 1 from life where id = $1)"
)

// removeProcesses removes the records of processes, with their requests, that are no longer
// needed: the process has ended, its server was deleted or has a newer process, and no
// session has an event of the process.
func (r *retainer) removeProcesses(ctx context.Context) error {
	ids, err := queryColumn[string](ctx, r.log.db.reader(), statement{sql: selectUnneeded})
	if err != nil {
		return err
	}
	for chunk := range slices.Chunk(ids, removeChunk) { // the oldest first: the newest of a server goes last
		var all []statement
		for _, id := range chunk {
			all = append(all, statement{deleteProcess, []any{id}}, statement{deleteRequests, []any{id}})
		}
		err := r.log.submit(ctx, &job{impatient: true, alone: func(ctx context.Context, tx transaction) error { return tx.exec(ctx, all, nil) }})
		if err != nil {
			return err
		}
	}
	return nil
}
