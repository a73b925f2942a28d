package filesystem

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bmatcuk/doublestar/v4"
	"golang.org/x/sys/unix"
)

// SearchOptions say what to look for. In each limit, zero is the default; all of
// them may be raised.
type SearchOptions struct {
	// Glob is matched with the path below the directory. "*" is anything but
	// a slash, "?" one character, "[a-z]" one of them, "{go,mod}" one of those
	// texts and "**", between slashes, any number of directories: "**/*.go" is
	// all Go files. Empty means everything.
	Glob string
	// Text is what a file has to contain. Regexp is the same as a regular
	// expression (RE2, as in package regexp) which is matched with each line.
	// Only one of them may be set. With neither, entries are found by name.
	Text, Regexp string
	// IgnoreCase takes no notice of upper and lower case in Text or Regexp.
	IgnoreCase bool
	// Type finds only files or only directories. Empty means both. Symbolic
	// links are files.
	Type Type
	// Hidden looks at names that begin with a dot, too. A Glob with such a
	// name in it does so by itself.
	Hidden bool
	// MaxDepth bounds how many levels below the directory are looked at. Zero
	// means Config.MaxDepth.
	MaxDepth int
	// MaxResults bounds the entries found, or with Text or Regexp the lines.
	// Zero means 1000.
	MaxResults int
	// MaxEntries bounds the entries that are looked at. Zero means 1,000,000.
	MaxEntries int
	// MaxFileSize is the largest file that is read. Larger ones are skipped.
	// Zero means 16 MiB.
	MaxFileSize int64
	// MaxBytes bounds what is read of all files. Zero means 1 GiB.
	MaxBytes int64
	// Timeout bounds the time. Zero means 30 s.
	Timeout time.Duration
}

func (o SearchOptions) withDefaults(c Config) SearchOptions {
	o.MaxDepth = cmp.Or(o.MaxDepth, c.MaxDepth)
	o.MaxResults = cmp.Or(o.MaxResults, 1000)
	o.MaxEntries = cmp.Or(o.MaxEntries, 1_000_000)
	o.MaxFileSize = cmp.Or(o.MaxFileSize, 16<<20)
	o.MaxBytes = cmp.Or(o.MaxBytes, 1<<30)
	o.Timeout = cmp.Or(o.Timeout, 30*time.Second)
	return o
}

// ErrPattern is returned by Search for a pattern that cannot be used. The text
// begins with the name of its field.
var ErrPattern = errors.New("bad pattern")

// Limit is a limit of SearchOptions.
type Limit string

// The limits that can end a search.
const (
	LimitResults Limit = "results"
	LimitEntries Limit = "entries"
	LimitBytes   Limit = "bytes"
	LimitTime    Limit = "time"
)

// SearchResult is what was found.
type SearchResult struct {
	Matches   []Match // sorted by path, directory by directory
	Truncated bool    // there may be more, as a limit was reached
	Limit     Limit   // which one

	Entries int   // that were looked at
	Files   int   // that were read
	Bytes   int64 // that were read of them

	// Files that were not searched, and directories that could not be read.
	Binary, TooLarge, Unreadable int
}

// Match is an entry that was found.
type Match struct {
	Entry Entry
	Lines []Line // those in which Text or Regexp was found
}

// Line is a line of a file.
type Line struct {
	Number int    // from 1
	Column int    // of the first match, in characters, from 1
	Text   string // without its end; of long lines the part around the match
	Cut    bool   // Text is only a part
	// Invalid tells that the line is not valid UTF-8; each piece that is not
	// is U+FFFD in Text.
	Invalid bool
}

// Search looks for entries below a directory by name and content. An empty name
// is where relative paths begin.
//
// Symbolic links are found and not followed. Files with a zero byte at their
// beginning are taken for binary, and not read. /proc, /sys and their like are
// left out where they lie below the directory, and their files are never read.
// Only the first match of a line counts; lines of more than 64 KiB are looked at
// in parts of that size.
//
// Memory does not depend on the size of files; the names of one directory of each
// level are held.
//
// A limit that is reached is no error: the result says so, and holds what comes
// first. Errors beside those of every method are ErrPattern and ErrNotDirectory.
func (f *FS) Search(ctx context.Context, name string, options SearchOptions) (SearchResult, error) {
	const op = "search"
	if err := f.enter(); err != nil {
		return SearchResult{}, f.fail(op, name, err)
	}
	defer f.leave()
	p, err := f.locate(name)
	if err != nil {
		return SearchResult{}, f.fail(op, name, err)
	}
	options = options.withDefaults(f.config)
	s := &search{alive: f.alive(ctx), options: options, deadline: time.Now().Add(options.Timeout)}
	s.budget.Store(options.MaxBytes)
	if s.finder, err = newFinder(options); err != nil {
		return SearchResult{}, f.fail(op, "", err)
	}
	if err = s.setGlob(options.Glob); err != nil {
		return SearchResult{}, f.fail(op, "", err)
	}
	top, err := openFolder(p, folderRead)
	if err != nil {
		return SearchResult{}, f.fail(op, p.path, err)
	}
	defer top.close()
	s.inSystem = pseudo(top.file)
	err = s.start(top)
	if limit := limitError(""); errors.As(err, &limit) {
		s.result.Truncated, s.result.Limit = true, Limit(limit)
	} else if err != nil {
		return SearchResult{}, f.fail(op, p.path, err)
	}
	return s.result, nil
}

func badPattern(problem string) error { return &Error{Problem: problem, Kind: ErrPattern} }

const (
	maxPattern      = 4096
	maxAlternatives = 1024
)

// setGlob refuses a glob that means nothing or costs too much, and finds the
// names that everything which matches begins with.
func (s *search) setGlob(glob string) error {
	glob = strings.TrimPrefix(glob, "./")
	names := strings.Split(glob, "/")
	switch {
	case len(glob) > maxPattern:
		return badPattern("glob: longer than 4096 bytes")
	case !doublestar.ValidatePattern(glob):
		return badPattern("glob: not well formed")
	case strings.HasPrefix(glob, "/") || slices.Contains(names, ".."):
		return badPattern("glob: not relative to the directory")
	case alternatives(glob) > maxAlternatives:
		return badPattern("glob: more than 1024 combinations of alternatives in braces")
	}
	s.options.Glob = glob
	if slices.ContainsFunc(names, func(name string) bool { return strings.HasPrefix(name, ".") }) {
		s.options.Hidden = true
	}
	s.prefix = literalNames(glob)
	if slices.ContainsFunc(s.prefix, func(name string) bool { return name == "" || name == "." || name == ".." }) {
		return badPattern("glob: not relative to the directory")
	}
	return nil
}

// literalNames are the names of directories that a glob begins with, without the
// backslashes that they may be written with.
func literalNames(glob string) []string {
	var names []string
	var name []byte
	for i := 0; i < len(glob); i++ {
		switch c := glob[i]; c {
		case '*', '?', '[', '{':
			return names
		case '/':
			names = append(names, string(name))
			name = name[:0]
		case '\\':
			i++
			name = append(name, glob[min(i, len(glob)-1)])
		default:
			name = append(name, c)
		}
	}
	return names
}

// alternatives is how many texts the braces of a pattern stand for, at most.
// Matching tries them all.
func alternatives(glob string) int {
	product := 1
	var open []int // of each brace that is not closed yet, its alternatives
	for i := 0; i < len(glob) && product <= maxAlternatives; i++ {
		switch last := len(open) - 1; glob[i] {
		case '\\':
			i++
		case '{':
			open = append(open, 1)
		case ',':
			if last >= 0 {
				open[last]++
			}
		case '}':
			if last >= 0 {
				product *= open[last]
				open = open[:last]
			}
		}
	}
	return product
}

// search is one search under way.
type search struct {
	alive    aliveFunc
	options  SearchOptions
	deadline time.Time
	prefix   []string
	inSystem bool         // what is searched is made by the system
	finder   *finder      // nil when only names matter
	budget   atomic.Int64 // bytes that may still be read
	results  int
	result   SearchResult
}

// limitError ends a search that has reached a limit.
type limitError Limit

func (e limitError) Error() string { return "search has reached its limit of " + string(e) }

// start goes to the directory that the glob begins with, and searches it.
func (s *search) start(top folder) error {
	d := top
	for i, name := range s.prefix {
		next, err := d.folder(name, folderRead)
		if i > 0 {
			d.close()
		}
		if err != nil {
			return nil // nothing can match
		}
		d = next
	}
	if len(s.prefix) == 0 {
		return s.folder(d, "", s.options.MaxDepth)
	}
	defer d.close()
	depth := s.options.MaxDepth - len(s.prefix)
	if depth < 0 {
		return nil
	}
	rel := strings.Join(s.prefix, "/")
	if s.wants(rel, true) { // "sub/**" is sub as well
		if err := s.add(top, rel, nil); err != nil {
			return err
		}
	}
	return s.folder(d, rel+"/", depth)
}

// folder searches a directory, down to a number of levels. rel is its path,
// empty or with a slash at its end.
func (s *search) folder(d folder, rel string, depth int) error {
	if depth <= 0 {
		return nil
	}
	entries, err := d.file.ReadDir(-1)
	if err != nil {
		s.result.Unreadable++
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	var batch []*scan // files whose content is to be looked at, before anything else is
	for _, e := range entries {
		name := e.Name()
		if name[0] == '.' && !s.options.Hidden || isTemporary(name) {
			continue
		}
		if err := s.look(); err != nil {
			return cmp.Or(s.scan(d, batch), err)
		}
		wanted := s.wants(rel+name, e.IsDir())
		if wanted && s.finder == nil {
			if err := s.add(d, name, nil); err != nil {
				return err
			}
		}
		if wanted && s.finder != nil && e.Type().IsRegular() {
			batch = append(batch, &scan{search: s, name: name})
		}
		if len(batch) == maxBatch || e.IsDir() {
			if err := s.scan(d, batch); err != nil {
				return err
			}
			batch = batch[:0]
		}
		if e.IsDir() && depth > 1 {
			if err := s.below(d, name, rel+name+"/", depth-1); err != nil {
				return err
			}
		}
	}
	return s.scan(d, batch)
}

// look counts an entry that is looked at.
func (s *search) look() error {
	if s.result.Entries >= s.options.MaxEntries {
		return limitError(LimitEntries)
	}
	s.result.Entries++
	return s.mayGoOn()
}

// mayGoOn ends the search when its time is over. All scans call it.
func (s *search) mayGoOn() error {
	if time.Now().After(s.deadline) {
		return limitError(LimitTime)
	}
	return s.alive()
}

// wants tells by name and kind whether an entry may be one to find.
func (s *search) wants(rel string, directory bool) bool {
	switch {
	case directory && (s.options.Type == TypeFile || s.finder != nil), !directory && s.options.Type == TypeDirectory:
		return false
	}
	return s.options.Glob == "" || doublestar.MatchUnvalidated(s.options.Glob, rel)
}

// below searches a directory in another one.
func (s *search) below(d folder, name, rel string, depth int) error {
	sub, err := d.folder(name, folderRead)
	if err != nil {
		if err != unix.ENOENT {
			s.result.Unreadable++
		}
		return nil
	}
	defer sub.close()
	if !s.inSystem && pseudo(sub.file) {
		return nil
	}
	return s.folder(sub, rel, depth)
}

// add adds an entry that fits, with as many of its lines as there is room for.
func (s *search) add(d folder, name string, lines []Line) error {
	room := s.options.MaxResults - s.results
	if room <= 0 {
		return limitError(LimitResults)
	}
	more := len(lines) > room
	if more {
		lines = lines[:room]
	}
	s.results += max(len(lines), 1)
	e, err := describeIn(d, name)
	if err == nil { // else it is gone
		s.result.Matches = append(s.result.Matches, Match{Entry: e, Lines: lines})
	}
	if more {
		return limitError(LimitResults)
	}
	return nil
}

// maxBatch is how many files are scanned together.
const maxBatch = 64

// scan looks at the content of files of a directory, on all processors, and
// adds those that match, in order.
func (s *search) scan(d folder, batch []*scan) error {
	var next atomic.Int64
	var workers sync.WaitGroup
	for range min(len(batch), runtime.GOMAXPROCS(0)) {
		workers.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(batch)); i = next.Add(1) - 1 {
				batch[i].run(d, s.options.MaxResults-s.results+1)
			}
		})
	}
	workers.Wait()
	for _, c := range batch {
		s.result.Bytes += c.bytes
		switch c.outcome {
		case scanned:
			s.result.Files++
		case scannedBinary:
			s.result.Binary++
		case scannedTooLarge:
			s.result.TooLarge++
		case scannedUnreadable:
			s.result.Unreadable++
		case scannedGone:
		}
		if len(c.lines) > 0 {
			if err := s.add(d, c.name, c.lines); err != nil {
				return err
			}
		}
		if c.err != nil {
			return c.err
		}
	}
	return nil
}
