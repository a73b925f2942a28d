package filesystem

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"slices"
)

// ListOptions say which entries of a directory to list.
type ListOptions struct {
	// Recursive lists what is in directories below as well, right after each
	// directory. Symbolic links to directories are not entered.
	Recursive bool
	// Depth is how many levels a recursive listing goes down; one is what is
	// in the directory itself. Zero means Config.MaxDepth, which is also the
	// most.
	Depth int
	// Limit is how many entries there may be. Zero means Config.MaxEntries,
	// which is also the most.
	Limit int
	// After continues a listing: the Next of the page before. Empty means
	// from the beginning.
	After string
}

// Listing is one page of a directory.
type Listing struct {
	Entries []Entry // sorted by name, byte by byte; of links, the links themselves
	Next    string  // After of the next page; empty when this is the last
	Skipped int     // directories below that could not be read
}

// List lists a directory. An empty path is where relative paths begin. An entry
// that vanishes meanwhile is left out, and what appears may be.
//
// However many entries the directory has, memory is needed for those of one
// page only; each page reads all the names, though.
func (f *FS) List(ctx context.Context, name string, options ListOptions) (Listing, error) {
	const op = "list"
	if err := f.enter(); err != nil {
		return Listing{}, f.fail(op, name, err)
	}
	defer f.leave()
	p, err := f.locate(name)
	if err != nil {
		return Listing{}, f.fail(op, name, err)
	}
	dir, err := p.tree.Open(p.name)
	if err != nil {
		return Listing{}, f.fail(op, p.path, err)
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return Listing{}, f.fail(op, p.path, err)
	}
	slices.Sort(names)
	var l Listing
	for _, name := range names {
		if err := f.alive(ctx); err != nil {
			return Listing{}, f.fail(op, p.path, err)
		}
		info, err := p.tree.Lstat(path.Join(p.name, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return Listing{}, f.fail(op, p.path, err)
		}
		l.Entries = append(l.Entries, newEntry(path.Join(p.path, name), info))
	}
	return l, nil
}
