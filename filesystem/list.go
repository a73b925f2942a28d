package filesystem

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"math"
	"slices"
	"strings"
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
// that vanishes meanwhile is left out, and what appears may be. One of which
// the system tells nothing, such as the mount point of a dead server, has the
// mode fs.ModeIrregular.
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
	dir, err := openFolder(p, folderRead)
	if err != nil {
		return Listing{}, f.fail(op, p.path, err)
	}
	defer dir.close()
	l := lister{
		alive: f.alive(ctx),
		top:   dir.path,
		limit: within(options.Limit, f.config.MaxEntries),
		batch: math.MaxInt,
	}
	depth := 1
	if options.Recursive {
		depth = within(options.Depth, f.config.MaxDepth)
		l.batch = recursiveBatch
	}
	if err := l.list(dir, options.After, depth); err != nil && !errors.Is(err, errFull) {
		return Listing{}, f.fail(op, p.path, err)
	}
	return l.listing, nil
}

// within is n if that is between one and most, else most.
func within(n, most int) int {
	if n < 1 || n > most {
		return most
	}
	return n
}

// recursiveBatch is how many names of a directory a recursive listing holds,
// for it holds those of each level.
const recursiveBatch = 4096

// errFull ends a listing at the end of its page.
var errFull = errors.New("page is full")

// lister collects one page.
type lister struct {
	alive   aliveFunc
	top     string
	limit   int
	batch   int
	listing Listing
}

// list adds the entries of a directory from the one after the given one, which
// may be a path below it, down to a number of levels.
func (l *lister) list(dir folder, after string, depth int) error {
	name, rest, _ := strings.Cut(after, "/")
	if name != "" && depth > 1 {
		// That entry was in an earlier page, what is below it follows.
		if err := l.enter(dir, name, rest, depth); err != nil {
			return err
		}
	}
	for more := true; more; {
		var names []string
		var err error
		room := min(l.limit-len(l.listing.Entries), l.batch-1) + 1
		if names, more, err = namesAfter(dir, name, room, l.alive); err != nil {
			return at(dir.path, err)
		}
		for _, name = range names {
			if err := l.add(dir, name, depth); err != nil {
				return err
			}
		}
	}
	return nil
}

// add adds one entry and what is below it.
func (l *lister) add(dir folder, name string, depth int) error {
	if err := l.alive(); err != nil {
		return err
	}
	e, err := describeIn(dir, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if len(l.listing.Entries) == l.limit {
		l.listing.Next, _ = below(l.top, l.listing.Entries[l.limit-1].Path)
		return errFull
	}
	l.listing.Entries = append(l.listing.Entries, e)
	if depth > 1 && e.Type == TypeDirectory {
		return l.enter(dir, name, "", depth)
	}
	return nil
}

// describeIn describes a name in a folder. It fails only for what is not there.
func describeIn(dir folder, name string) (Entry, error) {
	n, err := dir.stat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return Entry{}, err
	}
	if err != nil {
		n = node{mode: fs.ModeIrregular}
	}
	e := newEntry(dir.child(name), n)
	if n.isLink() {
		e.Link = true
		if e.Target, err = dir.readlink(name); errors.Is(err, fs.ErrNotExist) {
			return Entry{}, err
		}
	}
	return e, nil
}

// enter lists the directory called name, if it is one and may be read.
func (l *lister) enter(dir folder, name, after string, depth int) error {
	sub, err := dir.folder(name, folderRead)
	if err != nil {
		if n, err := dir.stat(name); err == nil && n.isDir() {
			l.listing.Skipped++
		}
		return nil
	}
	defer sub.close()
	err = l.list(sub, after, depth-1)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // it was removed
	}
	return err
}

// namesAfter reads the first names of a directory, in order, that come after a
// given one, and whether there are more. It holds no more than twice as many.
func namesAfter(dir folder, after string, count int, alive aliveFunc) (names []string, more bool, err error) {
	if _, err := dir.file.Seek(0, io.SeekStart); err != nil {
		return nil, false, err
	}
	last := "" // of those to keep, once there are enough
	for {
		chunk, err := dir.file.Readdirnames(1024)
		for _, name := range chunk {
			if name > after && (last == "" || name < last) {
				names = append(names, name)
			}
		}
		if len(names) >= 2*count {
			slices.Sort(names)
			clear(names[count:])
			names, more = names[:count], true
			last = names[count-1]
		}
		switch {
		case errors.Is(err, io.EOF):
			slices.Sort(names)
			if len(names) > count {
				names, more = names[:count], true
			}
			return names, more, nil
		case err != nil:
			return nil, false, err
		}
		if err := alive(); err != nil {
			return nil, false, err
		}
	}
}
