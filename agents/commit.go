package agents

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"time"

	"github.com/deskhand/deskhand/agents/eventlog"
)

// committer writes the batches of a process to the log. It is the one place that retries and
// refuses. agentProcess.run owns it. After silenced is set it writes nothing more, and
// effects that are not written are not delivered.
type committer struct {
	host      *Host
	log       *slog.Logger
	server    string
	record    *processRecord
	intake    *intake
	inbox     *inbox
	lifecycle *lifecycle
	lose      func(error) // ends the process, whose server another host has
	silenced  bool        // the log was away at the host's end, or another host has the server
}

// processRecord is the record of a process in the log.
type processRecord struct {
	eventlog.Process
	changed bool // since it was written
}

const (
	retryFirst = 20 * time.Millisecond
	retryMost  = time.Second
	retryEnd   = 2 * time.Second // how long the end of a closed host waits for the log
)

// commit writes a batch, and reports whether it can be delivered. If the log returns errors:
//
//   - Commands of clients are undone and removed from the batch. Clients get the error.
//   - The agent's messages stay in the batch. commit tries again until the log accepts them,
//     or the host has been closed for retryEnd.
//   - Effects that the log reports as invalid are dropped.
func (c *committer) commit(b *commitBatch) bool {
	wait := retryFirst
	var since time.Time
	for !c.silenced {
		err := c.write(b)
		if err == nil {
			c.lifecycle.setLogError(nil)
			return true
		}
		if overtaken, is := errors.AsType[overtakenError](err); is {
			c.silenced = true
			c.lose(overtaken.error)
			break
		}
		if since.IsZero() {
			since = time.Now()
			c.log.Error("write to the event log", "error", err)
		}
		if errors.Is(err, eventlog.ErrUncertain) { // of awaitOutcome: the host ends first
			c.lifecycle.setLogError(err)
			c.silenced = true
			break
		}
		c.refuse(b, err)
		if refused, is := errors.AsType[*refusedError](err); is {
			refused.drop()
			continue
		}
		if c.host.tasks.isClosed() && time.Since(since) > retryEnd {
			c.silenced = true
			break
		}
		if !b.hasChanges() {
			return true
		}
		c.inbox.refuse(err)
		time.Sleep(wait) //nolint:forbidigo // the log is tried again after it
		wait = min(2*wait, retryMost)
	}
	if why := c.lifecycle.lostError(); why != nil {
		c.refuse(b, why)
		c.lifecycle.setLogError(why)
	}
	return false
}

// refuse undoes the commands of clients in a batch, and reports that to the clients.
func (c *committer) refuse(b *commitBatch, err error) {
	undone := b.undo()
	if b.hasChanges() {
		c.lifecycle.setLogError(err)
	} else {
		c.lifecycle.setLogError(nil) // nothing waits for the log, so the next message tries it again
	}
	for _, fx := range undone {
		fx.refuse(err)
	}
}

// write writes a batch in one transaction. If another host took this one for gone and has completed
// the record of the process, write keeps what hosts have changed since. When it writes the record,
// which the process then has again, it also writes the turns and the open questions.
func (c *committer) write(b *commitBatch) error {
	if !b.hasChanges() && !c.record.changed {
		return nil
	}
	err := c.transact(b)
	if errors.Is(err, errCompleted) {
		b.completed = true
		if c.record.changed {
			c.intake.markTurns(b)
		}
		err = c.transact(b)
	}
	return err
}

func (c *committer) transact(b *commitBatch) error {
	// The transaction may still run after awaitOutcome has given up.
	record, all, completed := *c.record, b.effects, b.completed
	opened, changed := maps.Clone(b.opened), maps.Clone(b.changed)
	sessions := map[*attachedSession]attachedSession{}
	for s := range changed {
		s.refreshState()
		sessions[s] = *s
	}
	var questions []eventlog.Request
	if completed && record.changed && !b.exit {
		for _, s := range c.intake.sessions.byID {
			sessions[s] = *s
		}
		for _, q := range c.intake.questions.open {
			questions = append(questions, q.row)
		}
	}
	var adopted map[*attachedSession]*attachedSession
	err := c.host.cfg.Log.TryCommit(context.Background(), func(tx *eventlog.Tx) (err error) {
		if err := c.checkOwner(tx, completed); err != nil {
			return err
		}
		if record.changed {
			if err := tx.PutProcess(record.Process); err != nil {
				return err
			}
		}
		if adopted, err = adoptChanges(tx, sessions, opened, completed); err != nil {
			return err
		}
		rows, ended := map[*attachedSession]eventlog.Session{}, map[string]bool{}
		for s, now := range adopted {
			if _, is := changed[s]; is {
				rows[s] = now.row
			}
			ended[now.row.ID] = now.row.State == eventlog.Ended
		}
		for _, q := range questions {
			if !ended[q.Session] {
				_ = tx.PutRequest(q) // an invalid one was not in the log before
			}
		}
		return b.write(tx, all, rows)
	})
	if doubt, open := errors.AsType[*eventlog.UncertainError](err); open {
		err = c.awaitOutcome(b, doubt)
	}
	if err != nil {
		return err
	}
	c.record.changed = false
	for s, now := range adopted {
		s.row, s.data = now.row, now.data
		s.logged = s.settings()
		if completed && s.row.State == eventlog.Ended {
			c.inbox.backlog = append(c.inbox.backlog, command{handle: func(fx *effects) { c.intake.leave(fx, s) }})
		}
	}
	return nil
}

// adoptChanges returns the sessions with what other hosts have changed in their rows. With this
// commit the process becomes the owner of the opened sessions, whose rows were read earlier. If the
// record of the process was completed, other hosts may have changed all sessions.
func adoptChanges(
	tx *eventlog.Tx, sessions map[*attachedSession]attachedSession, opened map[*attachedSession]struct{}, completed bool,
) (map[*attachedSession]*attachedSession, error) {
	adopted := map[*attachedSession]*attachedSession{}
	for s, now := range sessions {
		if _, opens := opened[s]; opens || completed {
			stored, err := tx.Session(now.row.ID)
			if err == nil {
				now.adopt(stored, opens)
			} else if !errors.Is(err, eventlog.ErrNotFound) {
				return nil, err
			}
		}
		adopted[s] = &now
	}
	return adopted, nil
}

// awaitOutcome waits for the outcome of a commit during which the connection to Postgres
// broke. After retryEnd callers get ErrUncertain, and a closed host gives up.
func (c *committer) awaitOutcome(b *commitBatch, doubt *eventlog.UncertainError) error {
	away := fmt.Errorf("%w: the outcome of a commit is not known yet", eventlog.ErrUnavailable)
	c.lifecycle.setLogError(away)
	begun := time.Now()
	for {
		ctx, cancel := context.WithTimeout(context.Background(), retryFirst)
		err := doubt.Wait(ctx)
		cancel()
		if !errors.Is(err, eventlog.ErrUncertain) {
			return err
		}
		c.inbox.refuse(away)
		if time.Since(begun) < retryEnd {
			continue
		}
		if c.host.tasks.isClosed() {
			return err
		}
		for _, fx := range b.effects {
			if fx.report != nil {
				fx.report(err)
			}
		}
	}
}

// commitNow is like eventlog's Commit but returns an error immediately if Postgres is away.
func commitNow(ctx context.Context, log *eventlog.Log, f func(*eventlog.Tx) error) error {
	err := log.TryCommit(ctx, f)
	if doubt, open := errors.AsType[*eventlog.UncertainError](err); open {
		return doubt.Wait(ctx)
	}
	return err
}

// overtakenError reports that the server has another process. A host that loses Postgres
// counts as gone, so another host may start its servers, or delete them. It wraps the error
// for clients: an [ElsewhereError] or [ErrServerNotFound].
type overtakenError struct{ error }

func (e overtakenError) Unwrap() error { return e.error }

// errCompleted reports that another host has completed the record of the process.
var errCompleted = errors.New("the record of the process is completed")

// checkOwner returns an overtakenError if another host has started or deleted the server.
// Until the end of the transaction no other host can: claim waits for it. It returns
// errCompleted if another host has completed the record, unless that is known.
func (c *committer) checkOwner(tx *eventlog.Tx, completed bool) error {
	if !c.host.cfg.Log.Shared() {
		return nil
	}
	newest, err := tx.NewestProcess(serverStream(c.server), c.server)
	switch {
	case errors.Is(err, eventlog.ErrNotFound):
		return overtakenError{ErrServerNotFound}
	case err != nil:
		return err
	case newest.Reason == endedDeleted && !newest.ExitedAt.IsZero():
		return overtakenError{ErrServerNotFound}
	case newest.ID != c.record.ID:
		return overtakenError{&ElsewhereError{c.server, dataOf(newest).Address}}
	case !completed && !newest.ExitedAt.IsZero():
		return errCompleted
	}
	return nil
}
