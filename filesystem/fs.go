package filesystem

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Config configures an FS. The zero Config is the whole file system, with relative paths below
// the home directory.
type Config struct {
	// Roots are the directories that the FS can reach. Empty means the whole file system,
	// as a root "/" does.
	Roots []Root
	// Home is the directory of relative paths and "~". Empty means $HOME, or "/" if that is
	// not set. If Home is outside of the roots, the first root takes its place.
	Home string

	MaxEntries int    // limit of one Listing; zero means 100,000
	MaxDepth   int    // limit of levels in a recursive listing or a search; zero means 128
	TempDir    string // for content that Write cannot keep beside the file; empty means os.TempDir()

	// Logger receives debug messages. Nil means none.
	Logger *slog.Logger
}

// Root is a directory that an FS may not leave. It is held open as an *os.Root, and stays
// the same directory when it is renamed. Paths can begin with Path as given, even if that
// contains symbolic links, or with Path after its links are resolved.
//
// Symbolic links in a root are refused with ErrOutside if they are absolute or lead out of
// the root. File systems that are mounted below a root belong to it. So does a hard link:
// a file that has another name outside can be read, but it is never changed there, because
// a write gives the name in the root a new file.
type Root struct {
	Name string // empty means the last element of Path
	Path string // an existing directory; relative means below the working directory

	// NoLinks makes Open fail with ErrOutside if an element of Path is a symbolic link, also
	// while another program exchanges directories. It is for a Path whose directories may be
	// replaced by programs that must not reach more than the root. It needs Linux 5.6.
	NoLinks bool
}

func (c Config) withDefaults() Config {
	c.Roots = slices.Clone(c.Roots)
	if c.Home == "" {
		c.Home = cmp.Or(os.Getenv("HOME"), "/")
	}
	c.MaxEntries = cmp.Or(c.MaxEntries, 100_000)
	c.MaxDepth = cmp.Or(c.MaxDepth, 128)
	c.TempDir = cmp.Or(c.TempDir, os.TempDir())
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

// FS reaches files below its roots. Open makes one.
//
// An absolute path is cleaned lexically ("/a/../b" is "/b") and must be in a root. A relative
// path is below Config.Home, or below the root that In names, and must not contain "..". "~"
// and "~/x" are Home. A path has at most 4096 bytes without NUL. Names can contain line
// breaks and bytes that are not UTF-8. An empty path is ErrInvalidPath, so that a forgotten
// path does not remove everything, except where the comment of the method gives it a meaning.
type FS struct {
	*shared

	base string // directory of relative paths; absolute and in a root
}

// shared is the part that all results of In have in common.
type shared struct {
	config  Config
	logger  *slog.Logger
	roots   []root
	home    string // absolute and in a root
	escapes error  // the error of an os.Root for a path that leads out of it
	// nameless reports that files can be made without a name.
	nameless bool
	now      func() time.Time
	closing  chan struct{}

	// commit is locked for reading while a file gets its name. It is locked for writing if
	// that depends on the file that has the name, as with WriteOptions.IfMatch.
	commit sync.RWMutex

	mu       sync.Mutex
	closed   bool
	calls    sync.WaitGroup       // Add is called with mu
	swept    map[fileID]time.Time // the last sweep of directories
	contents map[fileID]*contentLock
}

// root is an open Root.
type root struct {
	name string
	path string // as given, made absolute
	real string // with its symbolic links resolved
	node node   // its top
	tree tree
}

// Open opens the roots, which stay open until Close. It returns fs.ErrNotExist if a root
// does not exist, and fs.ErrExist if two roots have the same name.
func Open(config Config) (*FS, error) {
	config = config.withDefaults()
	f := &FS{shared: &shared{
		config: config, logger: config.Logger, now: time.Now, closing: make(chan struct{}),
		swept: make(map[fileID]time.Time), contents: make(map[fileID]*contentLock),
	}}
	_, err := os.Stat(descriptors)
	f.nameless = err == nil
	if err := f.open(); err != nil {
		f.closeRoots()
		return nil, f.fail("open", "", err)
	}
	return f, nil
}

func (f *FS) open() (err error) {
	for _, r := range f.config.Roots {
		if err := f.openRoot(r); err != nil {
			return withPath(r.Path, err)
		}
	}
	if len(f.roots) == 0 {
		f.roots = []root{{path: "/", real: "/", tree: wholeTree{}}}
	}
	for i, r := range f.roots {
		info, err := r.tree.Stat(".")
		if err != nil {
			return withPath(r.path, err)
		}
		f.roots[i].node = nodeOfInfo(info)
	}
	f.home, err = f.findHome()
	f.base = f.home
	return withPath(f.config.Home, err)
}

func (f *FS) openRoot(r Root) error {
	path, err := filepath.Abs(r.Path)
	if err != nil {
		return err
	}
	name := cmp.Or(r.Name, filepath.Base(path))
	if slices.ContainsFunc(f.roots, func(other root) bool { return other.name == name }) {
		return &Error{Path: name, Reason: "two roots have the same name", Kind: fs.ErrExist}
	}
	open, resolved := f.openTree, path
	if r.NoLinks {
		open = f.openWithoutLinks
	} else if resolved, err = filepath.EvalSymlinks(path); err != nil {
		return err
	}
	tree, err := open(resolved)
	if err != nil {
		return err
	}
	f.roots = append(f.roots, root{name: name, path: path, real: resolved, tree: tree})
	return nil
}

func (f *FS) openTree(top string) (tree, error) {
	if top == "/" {
		return wholeTree{}, nil // nothing is outside
	}
	t, err := os.OpenRoot(top)
	if err != nil {
		return nil, err
	}
	f.escapes = cmp.Or(escapeOf(t), f.escapes)
	return t, nil
}

// openWithoutLinks is openTree for a path without symbolic links.
func (f *FS) openWithoutLinks(top string) (tree, error) {
	how := &unix.OpenHow{Flags: unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS}
	fd, err := unix.Openat2(unix.AT_FDCWD, top, how)
	for err == unix.EINTR || err == unix.EAGAIN {
		fd, err = unix.Openat2(unix.AT_FDCWD, top, how)
	}
	switch err {
	case nil:
	case unix.ELOOP:
		return nil, newError(ErrOutside, top, "a part of the path is a symbolic link", "name the directory itself")
	default:
		return nil, &fs.PathError{Op: "open", Path: top, Err: err}
	}
	defer unix.Close(fd)
	t, err := os.OpenRoot("/proc/self/fd/" + strconv.Itoa(fd))
	if err != nil {
		return nil, err
	}
	f.escapes = cmp.Or(escapeOf(t), f.escapes)
	return t, nil
}

// escapeOf returns the error of a path that leads out of an os.Root, or nil if it cannot be
// found. Package os does not export it.
func escapeOf(t *os.Root) error {
	_, err := t.Lstat("..")
	if e := (*fs.PathError)(nil); errors.As(err, &e) {
		return e.Err
	}
	return nil
}

// findHome returns the directory of relative paths.
func (f *FS) findHome() (string, error) {
	home, err := filepath.Abs(f.config.Home)
	if err != nil {
		return "", err
	}
	if _, err := f.locate(home); err == nil {
		return home, nil
	}
	if resolved, err := filepath.EvalSymlinks(home); err == nil {
		if _, err := f.locate(resolved); err == nil {
			return resolved, nil
		}
	}
	return f.roots[0].path, nil
}

// In returns an FS whose relative paths begin at the root with a name. "~" and absolute paths
// are unchanged. Closing either FS closes both. The error is ErrUnknownRoot if no root has
// the name.
func (f *FS) In(name string) (*FS, error) {
	for _, r := range f.roots {
		if r.name == name && name != "" {
			return &FS{shared: f.shared, base: r.path}, nil
		}
	}
	return nil, f.fail("open", name, &Error{Path: name, Reason: "no root of that name", Kind: ErrUnknownRoot})
}

// Roots returns the roots with name and absolute path, in the order of Config.Roots. The
// result is empty for the whole file system.
func (f *FS) Roots() []Root {
	var roots []Root
	for _, r := range f.roots {
		if r.name != "" {
			roots = append(roots, Root{Name: r.name, Path: r.path})
		}
	}
	return roots
}

// Home returns the directory of "~".
func (f *FS) Home() string { return f.home }

// Close ends running calls, waits for them and closes the roots. A running Write ends when
// the Read of its reader returns. Files that OpenFile returned stay open. Close may be called
// more than once; each call waits for the running calls. Close returns nil.
func (f *FS) Close() error {
	f.mu.Lock()
	if !f.closed {
		f.closed = true
		close(f.closing)
	}
	f.mu.Unlock()
	f.calls.Wait()
	f.closeRoots()
	return nil
}

func (f *FS) closeRoots() {
	for _, r := range f.roots {
		_ = r.tree.Close()
	}
}

// call finds a path with locate and calls do with it. It keeps the FS open meanwhile, and
// returns an *Error.
func (f *FS) call(op, name string, locate func(string) (place, error), do func(p place) error) error {
	if err := f.enter(); err != nil {
		return f.fail(op, name, err)
	}
	defer f.leave()
	p, err := locate(name)
	if err != nil {
		return f.fail(op, name, err)
	}
	return f.fail(op, p.path, do(p))
}

// enter begins a call, which must end with leave.
func (f *FS) enter() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return &Error{Reason: ErrClosed.Error(), Kind: ErrClosed}
	}
	f.calls.Add(1)
	return nil
}

func (f *FS) leave() { f.calls.Done() }

// aliveFunc returns an error if a long operation must end.
type aliveFunc func() error

// alive returns a function that returns ErrClosed after Close, and the error of the context
// after its end.
func (f *FS) alive(ctx context.Context) aliveFunc {
	return func() error {
		select {
		case <-f.closing:
			return &Error{Reason: ErrClosed.Error(), Kind: ErrClosed}
		default:
			return ctx.Err()
		}
	}
}

// uninterrupted is an aliveFunc for operations that must be completed.
func uninterrupted() error { return nil }
