// Package configfile keeps named entries in JSON files that several programs,
// and people with an editor, share: the MCP servers and skills of a directory.
//
// # Usage
//
//	var store configfile.Store
//	file := configfile.Path("/home/user/project", "mcp")
//	err := store.Put(ctx, file, "search", json.RawMessage(`{"type":"remote","url":"https://example.com"}`))
//	entry, err := store.Get(file, "search")
//
// # Files
//
// A file is one JSON object from names to entries, indented and sorted by name. An entry
// can be any JSON. A change of one entry does not change the text of the others, except for
// white space. A file that is not such an object is never overwritten.
//
// A change writes a new file beside the old one, syncs it and renames it. So a reader sees
// the old file or the new one, and the old one remains after a crash or on a full disk. The
// mode of a file is kept. A new file, which may get keys and passwords, is readable by its
// owner only.
//
// The directory that is given to [Path] may be reached through symbolic links. Below
// it no link is followed, and a file that is a link is refused: the directory may
// be an untrusted repository. Text that is nested deeper than jsonlimit.MaxDepth is
// refused before it is decoded.
//
// # Concurrency
//
// All methods of a [Store] may be called from any goroutine. Changes of a file exclude each
// other, also between Stores and programs, by an advisory lock (flock) on the directory of
// the file. On file systems without such locks they exclude each other within a Store only.
//
// # Errors
//
// [ErrNotFound], [ErrTooLarge], [ErrLocked] and [InvalidFileError], and an
// error for an entry that is not valid JSON. All other errors come from the operating
// system. Every error names the path.
//
// # Requirements
//
// Linux.
package configfile
