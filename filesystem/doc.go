// Package filesystem reads, writes, moves, watches, searches, packs and unpacks
// files below roots that it cannot leave.
//
// # Usage
//
//	f, err := filesystem.Open(filesystem.Config{Roots: []filesystem.Root{{Path: "/work"}}})
//	defer f.Close()
//	n, err := f.Write(ctx, "notes/today.txt", r, filesystem.WriteOptions{})
//	file, err := f.OpenFile("/work/notes/today.txt")
//
// # Paths
//
// An absolute path is cleaned by its words ("/a/../b" is "/b") and must lie in
// a root. A relative one is below Config.Home, or below the root that In names,
// and may not hold ".."; "~" and "~/x" are Home. A path has at most 4096 bytes,
// none of them NUL; names may hold line breaks and what is not UTF-8. What may
// not be empty is refused when it is, so that a forgotten path is no request to
// remove everything.
//
// # Roots
//
// Without Config.Roots, the whole file system is reached, with the rights of
// this process. With roots, nothing outside of them is: neither by "..", nor
// through symbolic links, nor by directories that others exchange for links
// while a call is under way. Each root is held open as an *os.Root, and stays
// the same directory when it is renamed. It may be named by the path that was
// given, also one with symbolic links, or by that path with its links resolved.
//
// Inside a root, symbolic links that are absolute are not followed, wherever
// they lead, nor are those that climb out of it: ErrOutside. What is mounted
// below a root belongs to it. A hard link is a file of the root like any other,
// so a file that has another name outside can be read; it is never changed
// there, for writing gives the root's name a file of its own.
//
// # What is never half done
//
// Write replaces a file whole or not at all. Move takes nothing away before its
// replacement is in place. Extract looks at an archive to its end before anything
// of it appears. Where the system forces an exception, the comments of
// the methods say so. A program that is killed leaves no half-written file under
// a name; where the file system cannot have files without a name (O_TMPFILE), a
// hidden ".deskhand-*.tmp" may stay, which the next write in that directory
// removes when it is a day old.
//
// # Lifetime
//
// Close ends calls under way and waits for them. Files from OpenFile stay open,
// and are their owner's to close.
//
// # Concurrency
//
// All methods may be called from any goroutine. Writes to one file replace one
// another; of those with the same WriteOptions.IfMatch, or with Exclusive, one
// succeeds. What is appended is never mixed. Other programs take no part in
// this: between the check of an ETag and the replacement, they have a moment.
//
// # Errors
//
// Every method returns an *Error, which wraps one of the Err variables,
// fs.ErrNotExist, fs.ErrExist or fs.ErrPermission, or a context's error, and
// the cause.
//
// # Requirements
//
// Linux. Where /proc is not mounted, files are written under hidden names, and
// neither Watch nor hard links in archives are possible. Watch takes one of the
// user's inotify instances (fs.inotify.max_user_instances) and, for each
// directory, one of the watches (fs.inotify.max_user_watches).
package filesystem
