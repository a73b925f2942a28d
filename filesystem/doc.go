// Package filesystem reads, writes, moves, watches, searches, packs and unpacks files below
// roots that it cannot leave.
//
// # Usage
//
// Open returns an [FS]. Its methods take paths, which may be absolute, or relative to
// Config.Home. See the examples: the first writes, moves and lists files below a root, the
// second replaces a file only if no other writer has replaced it.
//
// # Roots
//
// Without Config.Roots, an FS reaches the whole file system, with the rights of this
// process. With roots, it reaches nothing outside of them: not by "..", not through symbolic
// links, and not if another program replaces a directory by a link during a call. A path
// outside of the roots is refused with ErrOutside. See [Root] and [Config.Home].
//
// # Atomicity
//
// Write replaces a file as a whole or not at all. Move removes nothing before its
// replacement is in place. Extract checks an archive to its end before any of its files
// appears. Where the system forces an exception, the comment of the method says so.
//
// A program that is killed leaves no half-written file under a name. On a file system that
// cannot have files without a name (O_TMPFILE), a hidden ".deskhand-*.tmp" can remain. The
// next write in that directory removes it when it is a day old.
//
// # Lifetime
//
// Open opens the roots. Close ends calls that run and waits for them. Files that OpenFile
// returned stay open until their owner closes them.
//
// # Concurrency
//
// All methods may be called from any goroutine. Writes to one file replace each other. Of
// several writes with the same WriteOptions.IfMatch, or with Exclusive, one succeeds.
// Appended data of several writes is not mixed. Other programs can change a file between
// the check of its ETag and its replacement.
//
// # Errors
//
// Every method returns an [*Error]. It wraps one of the Err variables, fs.ErrNotExist,
// fs.ErrExist, fs.ErrPermission or the error of a context, and the cause.
//
// # Requirements
//
// Linux. Without /proc, files are written under hidden names, and Watch and hard links in
// archives do not work. Watch needs an inotify instance (fs.inotify.max_user_instances) and
// a watch for each directory (fs.inotify.max_user_watches).
package filesystem
