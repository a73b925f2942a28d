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
// A file is one JSON object from names to entries, indented and sorted by name.
// Entries are kept as they are, whatever they hold: a change of one entry leaves
// the text of all others alone, but for white space. What is no such object is
// never overwritten.
//
// A change writes a new file beside the old one, forces it to disk and renames
// it, so that a reader sees the old file or the new one, and a full disk or a
// crash leaves the old one. The mode of a file is kept; a new one, which may get
// keys and passwords, can be read by its owner only.
//
// The directory that is given to [Path] may be reached through symbolic links. Below
// it no link is followed, and a file that is a link is refused: the directory may
// be an untrusted repository. Text that is nested deeper than jsonlimit.MaxDepth is
// refused before it is decoded.
//
// # Concurrency
//
// All methods of a [Store] may be called from any goroutine. Changes exclude
// each other between goroutines, Stores and programs, through an advisory lock
// (flock) on the directory of the file. On file systems that have no such locks
// they do so within a Store only.
//
// # Errors
//
// [ErrNotFound], [ErrTooLarge], [ErrLocked] and [InvalidFileError]; others are
// those of the operating system and name the path.
//
// # Requirements
//
// Linux.
package configfile
