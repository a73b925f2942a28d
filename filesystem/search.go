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

// SearchOptions configure Search. A limit of zero means its default.
type SearchOptions struct {
	// Glob matches the path below the directory. "*" matches anything except a slash,
	// "?" one character, "[a-z]" one of a range, "{go,mod}" one of the texts and "**",
	// between slashes, any number of directories: "**/*.go" matches all Go files. Empty
	// matches everything.
	Glob string
	// Text is a text that a line of the file must contain. Regexp is a regular expression
	// (RE2, as in package regexp) that a line must match. At most one of them can be set.
	// With neither, entries are found by name.
	Text, Regexp string
	IgnoreCase   bool // in Text or Regexp
	// Type finds only files or only directories. Empty means both. Symbolic links are
	// files.
	Type Type
	// Hidden includes names that begin with a dot. A Glob with such a name implies it.
	Hidden bool

	MaxDepth    int           // levels below the directory; default and maximum Config.MaxDepth
	MaxResults  int           // entries, or with Text or Regexp lines; default 1000
	MaxEntries  int           // entries that are examined; default 1,000,000
	MaxFileSize int64         // larger files are skipped; default 16 MiB
	MaxBytes    int64         // bytes that are read of all files; default 1 GiB
	Timeout     time.Duration // default 30 s
}

func (o SearchOptions) withDefaults(c Config) SearchOptions {
	o.MaxDepth = within(o.MaxDepth, c.MaxDepth)
	o.MaxResults = cmp.Or(o.MaxResults, 1000)
	o.MaxEntries = cmp.Or(o.MaxEntries, 1_000_000)
	o.MaxFileSize = cmp.Or(o.MaxFileSize, 16<<20)
	o.MaxBytes = cmp.Or(o.MaxBytes, 1<<30)
	o.Timeout = cmp.Or(o.Timeout, 30*time.Second)
	return o
}

// Limit is a limit of SearchOptions.
type Limit string

// The limits that can end a search.
const (
	LimitResults Limit = "results"
	LimitEntries Limit = "entries"
	LimitBytes   Limit = "bytes"
	LimitTime    Limit = "time"
)

// SearchResult is the result of Search.
type SearchResult struct {
	Matches   []Match // sorted by path, directory by directory
	Truncated bool    // a limit was reached, so there may be more matches
	Limit     Limit   // the limit that was reached

	Entries int   // number of entries that were examined
	Files   int   // number of files that were read
	Bytes   int64 // number of bytes that were read

	// Files that were not searched, and directories that could not be read.
	Binary, TooLarge, Unreadable int
}

// Match is an entry that was found.
type Match struct {
	Entry Entry
	Lines []Line // that match Text or Regexp
}

// Line is a line of a file.
type Line struct {
	Number int    // from 1
	Column int    // of the first match, in characters, from 1
	Text   string // without its end; of a long line the part around the match
	Cut    bool   // Text is a part of the line
	// Invalid reports that the line is not valid UTF-8. Invalid parts are U+FFFD in Text.
	Invalid bool
}

// Search finds entries below a directory by name and content. An empty name is where relative
// paths begin.
//
// Symbolic links are found but not followed. A file with a zero byte in its first 8 KiB counts
// as binary and is not searched. File systems such as /proc and /sys below the directory are
// left out, and their files are never read. Only the first match of a line counts. Lines of
// more than 64 KiB are searched in parts of that size.
//
// Memory does not depend on the size of files. The names of one directory of each level are
// held. A search ends with LimitResults if the names, paths, targets and lines of its matches
// would exceed 8 MiB.
//
// Reaching a limit is not an error: the result has the first matches. The error wraps an
// *InvalidError if a pattern is not valid, and ErrNotDirectory if the path is not a directory.
func (f *FS) Search(ctx context.Context, name string, options SearchOptions) (SearchResult, error) {
	options = options.withDefaults(f.config)
	s := &search{alive: f.alive(ctx), options: options, deadline: time.Now().Add(options.Timeout)}
	s.budget.Store(options.MaxBytes)
	var err error
	if s.finder, err = newFinder(options); err == nil {
		err = s.setGlob(options.Glob)
	}
	if err != nil {
		return SearchResult{}, f.fail("search", "", err)
	}
	err = f.call("search", name, f.locate, func(p place) error {
		top, err := openFolder(p, folderRead)
		if err != nil {
			return err
		}
		defer top.close()
		s.inSystem = pseudo(top.file)
		err = s.start(top)
		if limit, ok := errors.AsType[limitError](err); ok {
			s.result.Truncated, s.result.Limit = true, Limit(limit)
			return nil
		}
		return err
	})
	if err != nil {
		return SearchResult{}, err
	}
	return s.result, nil
}

func badPattern(field, reason string) error { return &InvalidError{field, reason} }

const (
	maxPattern      = 4096
	maxAlternatives = 1024
)

// setGlob checks a glob, and sets s.prefix to the directories with which all matches begin.
func (s *search) setGlob(glob string) error {
	glob = strings.TrimPrefix(glob, "./")
	names := strings.Split(glob, "/")
	switch {
	case len(glob) > maxPattern:
		return badPattern("glob", "longer than 4096 bytes")
	case !doublestar.ValidatePattern(glob):
		return badPattern("glob", "not well formed")
	case strings.HasPrefix(glob, "/") || slices.Contains(names, ".."):
		return badPattern("glob", "not relative to the directory")
	case alternatives(glob) > maxAlternatives:
		return badPattern("glob", "more than 1024 combinations of alternatives in braces")
	}
	s.options.Glob = glob
	if slices.ContainsFunc(names, func(name string) bool { return strings.HasPrefix(name, ".") }) {
		s.options.Hidden = true
	}
	s.prefix = literalNames(glob)
	if slices.ContainsFunc(s.prefix, func(name string) bool { return name == "" || name == "." || name == ".." }) {
		return badPattern("glob", "not relative to the directory")
	}
	return nil
}

// literalNames returns the names of directories at the beginning of a glob, without
// backslashes.
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

// alternatives returns an upper bound of the number of texts that the braces of a glob stand
// for. Matching tries all of them.
func alternatives(glob string) int {
	product := 1
	var open []int // the alternatives of each open brace
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

// search is one Search.
type search struct {
	alive    aliveFunc
	options  SearchOptions
	deadline time.Time
	prefix   []string
	inSystem bool         // the directory is in a file system such as /proc
	finder   *finder      // nil if only names matter
	budget   atomic.Int64 // bytes that may still be read
	results  int
	held     int // bytes of the names, paths, targets and lines in result
	result   SearchResult
}

// maxResultBytes bounds the bytes of the names, paths, targets and lines of a result.
const maxResultBytes = 8 << 20

// limitError ends a search that has reached a limit.
type limitError Limit

func (e limitError) Error() string { return "search has reached its limit of " + string(e) }

// start searches the directory with which the glob begins.
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
	if s.wants(rel, true) { // "sub/**" matches sub, too
		if err := s.add(top, rel, nil); err != nil {
			return err
		}
	}
	return s.folder(d, rel+"/", depth)
}

// folder searches a directory, down to a number of levels. rel is its path, empty or with a
// slash at the end.
func (s *search) folder(d folder, rel string, depth int) error {
	if depth <= 0 {
		return nil
	}
	var batch []*scan // files to scan before the next entry is added
	for e, err := range entriesOf(d, s.check) {
		if err != nil {
			if err := s.check(); err != nil {
				return cmp.Or(s.scan(d, batch), err)
			}
			s.result.Unreadable++
			break
		}
		if batch, err = s.entry(d, e, rel, depth, batch); err != nil {
			return err
		}
	}
	return s.scan(d, batch)
}

// entry examines an entry of a directory. It returns the files to scan before the next
// entry is added.
func (s *search) entry(d folder, e fs.DirEntry, rel string, depth int, batch []*scan) ([]*scan, error) {
	name := e.Name()
	if name[0] == '.' && !s.options.Hidden || isTemporary(name) {
		return batch, nil
	}
	if err := s.count(); err != nil {
		return nil, cmp.Or(s.scan(d, batch), err)
	}
	wanted := s.wants(rel+name, e.IsDir())
	if wanted && s.finder == nil {
		if err := s.add(d, name, nil); err != nil {
			return nil, err
		}
	}
	if wanted && s.finder != nil && e.Type().IsRegular() {
		batch = append(batch, &scan{search: s, name: name})
	}
	if len(batch) == maxBatch || e.IsDir() {
		if err := s.scan(d, batch); err != nil {
			return nil, err
		}
		batch = batch[:0]
	}
	if e.IsDir() && depth > 1 {
		if err := s.subfolder(d, name, rel+name+"/", depth-1); err != nil {
			return nil, err
		}
	}
	return batch, nil
}

func (s *search) count() error {
	if s.result.Entries >= s.options.MaxEntries {
		return limitError(LimitEntries)
	}
	s.result.Entries++
	return s.check()
}

// check returns an error if the search must end. Concurrent scans call it.
func (s *search) check() error {
	if time.Now().After(s.deadline) {
		return limitError(LimitTime)
	}
	return s.alive()
}

// wants reports whether the name and type of an entry match.
func (s *search) wants(rel string, directory bool) bool {
	switch {
	case directory && (s.options.Type == TypeFile || s.finder != nil), !directory && s.options.Type == TypeDirectory:
		return false
	}
	return s.options.Glob == "" || doublestar.MatchUnvalidated(s.options.Glob, rel)
}

func (s *search) subfolder(d folder, name, rel string, depth int) error {
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

// add adds a match, with as many of its lines as the limits permit.
func (s *search) add(d folder, name string, lines []Line) error {
	room := s.options.MaxResults - s.results
	if room <= 0 {
		return limitError(LimitResults)
	}
	e, err := describeIn(d, name)
	s.held += len(e.Name) + len(e.Path) + len(e.Target)
	if s.held > maxResultBytes {
		return limitError(LimitResults)
	}
	more := false
	for i, l := range lines {
		if s.held += len(l.Text); i == room || s.held > maxResultBytes {
			lines, more = lines[:i], true
			break
		}
	}
	s.results += max(len(lines), 1)
	if err == nil && (len(lines) > 0 || !more) { // otherwise it was removed
		s.result.Matches = append(s.result.Matches, Match{Entry: e, Lines: lines})
	}
	if more {
		return limitError(LimitResults)
	}
	return nil
}

// maxBatch bounds the files that are scanned concurrently.
const maxBatch = 64

// scan searches files of a directory, on all processors, and adds the matches in order. A file
// is not read if the lines of those before it exceed a limit.
func (s *search) scan(d folder, batch []*scan) error {
	var next atomic.Int64         // the index in batch of the next file to read
	var lines, bytes atomic.Int64 // that were found so far
	most, mostBytes := s.options.MaxResults-s.results, maxResultBytes-s.held
	var workers sync.WaitGroup
	for range min(len(batch), runtime.GOMAXPROCS(0)) {
		workers.Go(func() {
			for lines.Load() <= int64(most) && bytes.Load() <= int64(mostBytes) {
				i := next.Add(1) - 1
				if i >= int64(len(batch)) {
					return
				}
				c := batch[i]
				c.run(d, most+1, mostBytes)
				lines.Add(int64(len(c.lines)))
				bytes.Add(int64(c.held))
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
