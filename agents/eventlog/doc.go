// Package eventlog keeps what happens in agents' sessions: numbered events that
// are never lost and never change, and what is known of sessions, processes and
// open questions. It is a file of SQLite's, or a Postgres database that several
// servers share.
//
// # Usage
//
//	log, err := eventlog.Open(ctx, eventlog.Config{DSN: "state/agents.db"})
//	defer log.Close()
//	err = log.Commit(ctx, func(tx *eventlog.Tx) error {
//		if _, err := tx.Append(eventlog.Event{Stream: "ses:1", Dir: eventlog.Client, Payload: prompt}); err != nil {
//			return err
//		}
//		return tx.PutSession(session)
//	})
//	for c := log.Follow("ses:1", 0); ; {
//		events, err := c.Next(ctx) // waits until there are some
//		...
//	}
//
// # Streams
//
// A stream is a sequence of events with a name, numbered from 1 on without a
// hole and without a number used twice, by whichever of the servers and
// whatever happened to them. An event may stand for several ([Tx.AppendMany]) and
// has the last of their numbers then. Everybody sees an event only after it was
// committed, so what somebody has seen is there after a crash.
//
// The order of events is that of their numbers. Times are by the clock, which
// may be set back, and are for people; but [Tx.StartLife] keeps those at which a
// server's processes started in their order.
//
// Payloads come back byte by byte as they went in. Large ones are compressed,
// and long runs of base64, which is what pictures come as, are stored once
// however often they occur.
//
// # Commits
//
// [Log.Commit] calls a function that appends events and writes records, and commits
// all that it did, or nothing. The functions of several callers are called one after
// the other. A caller that is alone commits in its own goroutine. Several callers
// share one transaction, and so the wait for the disk, in the goroutine of the writer.
//
// While Postgres is away a commit waits for it until the end of its context.
// [Log.TryCommit] returns an error immediately instead.
//
// # Followers
//
// A [Cursor] reads a stream at its own pace: from memory as long as it keeps up,
// else from the database. A follower that stalls loses nothing, holds nobody up
// and costs nothing. Memory has the newest events of the streams that are in
// use, whatever the length of the history.
//
// # Lifetime
//
// [Open] makes the database or brings its schema up to date, and checks a file
// for damage. What is lost with a damaged -wal file is logged as an error, and a
// copy of that file is kept with .damaged behind its name. Contexts bound the
// calls that they are given to and nothing else.
// [Log.Close] commits what waits for it and wakes all followers.
//
// # Concurrency
//
// Everything may be called from any goroutine, but a [Cursor] by one at a time,
// and a [Tx] only by the function that it was given to.
//
// # Errors
//
// [ErrClosed], [ErrNotFound], [ErrExists], [ErrAnswered] and [*InvalidError]
// tell of the call; [ErrInUse], [ErrBusy], [ErrFull],
// [ErrUnavailable], [ErrUncertain], [*UncertainError], [*CorruptError] and
// [*SchemaError] of the database. None of these harms what was committed before.
//
// # Requirements
//
// For files a local file system, since SQLite's locks need one. For Postgres
// version 13 or later, and a user who may create a schema.
package eventlog
