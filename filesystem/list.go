package filesystem

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"iter"
	"math"
	"slices"
	"strings"
)

// ListOptions choose entries of a directory.
type ListOptions struct {
	// Recursive also lists the directories below, each after its own entry. Symbolic
	// links to directories are not followed.
	Recursive bool
	// Depth bounds the levels of a recursive listing. One is the directory itself. Zero
	// means Config.MaxDepth, which is also the maximum.
	Depth int
	// Limit bounds the entries. Zero means Config.MaxEntries, which is also the maximum.
	Limit int
	// After is Listing.Next of the previous page. Empty means from the beginning.
	After string
}

// Listing is one page of a directory.
type Listing struct {
	Entries []Entry // sorted by name, byte by byte; links are not followed
	Next    string  // After of the next page; empty on the last page
	Skipped int     // directories below that could not be read
}

// List lists a directory. An empty path is where relative paths begin. Entries that are made
// or removed during the call may be missing. An entry that the system does not describe, such
// as the mount point of a dead server, has the mode fs.ModeIrregular.
//
// The error is fs.ErrNotExist if the path does not exist, ErrNotDirectory if it is not a
// directory, ErrClosed after Close, or the error of ctx.
//
// Each page reads all names of the directory. It holds at most twice as many names as it may
// have entries. A page ends before its limit if the names, paths and targets of its entries
// would exceed 8 MiB.
func (f *FS) List(ctx context.Context, name string, options ListOptions) (page Listing, err error) {
	err = f.call("list", name, f.locate, func(p place) error {
		dir, err := openFolder(p, folderRead)
		if err != nil {
			return err
		}
		defer dir.close()
		l := lister{alive: f.alive(ctx), top: dir.path, limit: within(options.Limit, f.config.MaxEntries), batch: math.MaxInt}
		depth := 1
		if options.Recursive {
			depth = within(options.Depth, f.config.MaxDepth)
			l.batch = recursiveBatch
		}
		if err := l.list(dir, options.After, depth); err != nil && !errors.Is(err, errFull) {
			return err
		}
		page = l.listing
		return nil
	})
	return page, err
}

// within returns n if it is from 1 to most, else most.
func within(n, most int) int {
	if n < 1 || n > most {
		return most
	}
	return n
}

// recursiveBatch bounds the names of one level that a recursive listing holds.
const recursiveBatch = 4096

// maxListingBytes bounds the names, paths and targets of one page, because a path and a target
// can each have thousands of bytes.
const maxListingBytes = 8 << 20

// errFull ends a listing at the end of its page.
var errFull = errors.New("page is full")

// lister collects one page.
type lister struct {
	alive   aliveFunc
	top     string
	limit   int
	batch   int
	bytes   int // of the names, paths and targets in listing
	listing Listing
}

// list adds the entries of a directory that come after a path, down to a number of levels.
func (l *lister) list(dir folder, after string, depth int) error {
	name, rest, _ := strings.Cut(after, "/")
	if name != "" && depth > 1 {
		// The entry was in an earlier page. Entries below it follow.
		if err := l.enter(dir, name, rest, depth); err != nil {
			return err
		}
	}
	room := func() int { return min(l.limit-len(l.listing.Entries), l.batch-1) + 1 }
	for e, err := range entriesFrom(dir, name, room, l.alive) {
		if err != nil {
			return withPath(dir.path, err)
		}
		if err := l.add(dir, e.Name(), depth); err != nil {
			return err
		}
	}
	return nil
}

func (l *lister) add(dir folder, name string, depth int) error {
	if err := l.alive(); err != nil {
		return err
	}
	e, err := describeIn(dir, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	l.bytes += len(e.Name) + len(e.Path) + len(e.Target)
	if n := len(l.listing.Entries); n == l.limit || n > 0 && l.bytes > maxListingBytes {
		l.listing.Next, _ = below(l.top, l.listing.Entries[n-1].Path)
		return errFull
	}
	l.listing.Entries = append(l.listing.Entries, e)
	if depth > 1 && e.Type == TypeDirectory {
		return l.enter(dir, name, "", depth)
	}
	return nil
}

// describeIn describes an entry of a folder. It returns an error only if there is no such
// entry.
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

// enter lists a directory below, if it can be read.
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

// maxLevels bounds the levels of directories in an archive, a copy and a watch, which hold an open
// directory and its path for each level.
const maxLevels = 255

// pageSize is how many entries of a directory a search or an archive holds.
const pageSize = 8192

// entriesOf yields the entries of a directory in order. It ends with an error if there is one.
func entriesOf(dir folder, alive aliveFunc) iter.Seq2[fs.DirEntry, error] {
	return entriesFrom(dir, "", func() int { return pageSize }, alive)
}

// entriesFrom yields the entries of a directory after a name. It reads as many together as page
// returns.
func entriesFrom(dir folder, after string, page func() int, alive aliveFunc) iter.Seq2[fs.DirEntry, error] {
	return func(yield func(fs.DirEntry, error) bool) {
		for more := true; more; {
			var entries []fs.DirEntry
			var err error
			entries, more, err = entriesAfter(dir, after, page(), alive)
			for _, e := range entries {
				after = e.Name()
				if !yield(e, nil) {
					return
				}
			}
			if err != nil {
				yield(nil, err)
				return
			}
		}
	}
}

// entriesAfter returns the first count entries of a directory after a name, in order, and
// whether there are more. It holds at most twice as many.
func entriesAfter(dir folder, after string, count int, alive aliveFunc) (entries []fs.DirEntry, more bool, err error) {
	if _, err := dir.file.Seek(0, io.SeekStart); err != nil {
		return nil, false, err
	}
	byName := func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) }
	last := "" // the name of the last of count entries; empty while there are fewer
	for {
		chunk, err := dir.file.ReadDir(1024)
		for _, e := range chunk {
			if name := e.Name(); name > after && (last == "" || name < last) {
				entries = append(entries, e)
			}
		}
		if len(entries) >= 2*count {
			slices.SortFunc(entries, byName)
			clear(entries[count:])
			entries, more = entries[:count], true
			last = entries[count-1].Name()
		}
		switch {
		case errors.Is(err, io.EOF):
			slices.SortFunc(entries, byName)
			if len(entries) > count {
				entries, more = entries[:count], true
			}
			return entries, more, nil
		case err != nil:
			slices.SortFunc(entries, byName)
			return entries, false, err
		}
		if err := alive(); err != nil {
			return nil, false, err
		}
	}
}
