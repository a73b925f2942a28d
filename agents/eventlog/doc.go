// Package eventlog stores what happens in sessions of agents: numbered events, which are
// never changed, and records of sessions, processes and open questions. A log is a file of
// SQLite, or a Postgres database that several servers share.
//
// # Usage
//
// Open returns a [Log]. Commit appends events and writes records, and Follow reads a stream
// from any point and waits for new events. See the example.
//
// # Streams
//
// A stream is a sequence of events with a name. They are numbered from 1 without gaps and
// without repetition, also if several servers append to it or one crashes. An event can stand
// for several ([Tx.AppendMany]), and then has the last of their numbers. Readers see an event
// after it was committed, so what a reader has seen is there after a crash.
//
// Events are in the order of their numbers. Times come from the clock, which may be set back, and
// are for people. Only [Tx.StartProcess] keeps the start times of a server's processes
// in order.
//
// Payloads are returned byte by byte as they were appended. Large payloads are compressed, and
// long runs of base64, such as pictures, are stored once however often they occur.
//
// # Commits
//
// [Log.Commit] calls a function that appends events and writes records. All its changes are
// committed, or none. Functions of several callers run one after the other, and share a
// transaction and so the wait for the disk.
//
// While Postgres cannot be reached, Commit waits until its context ends. [Log.TryCommit]
// returns an error immediately instead.
//
// A [Cursor] reads a stream at its own pace: the newest events of streams in use from memory,
// older ones from the database. A slow reader loses nothing and delays nothing.
//
// # Lifetime
//
// [Open] makes the database, or updates its schema, and checks a file for damage. What is lost
// with a damaged -wal file is logged as an error, and a copy of the file is kept with .damaged
// after its name. A context bounds only its call. [Log.Close] completes waiting commits and wakes
// all readers.
//
// # Concurrency
//
// All methods may be called from any goroutine, except the methods of a [Cursor], which is for one
// goroutine at a time, and of a [Tx], which is only for the function that got it.
//
// # Errors
//
// [ErrClosed], [ErrNotFound], [ErrExists], [ErrAnswered] and [*InvalidError] are about the call.
// [ErrInUse], [ErrBusy], [ErrFull], [ErrUnavailable], [ErrUncertain], [*UncertainError],
// [*CorruptError] and [*SchemaError] are about the database. What was committed stays.
//
// # Requirements
//
// A file needs a local file system, for SQLite's locks. Postgres must be version 13 or later, and
// its user must be able to create a schema.
package eventlog
