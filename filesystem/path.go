package filesystem

import (
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// maxPath is the longest path in bytes, Linux's PATH_MAX.
const maxPath = 4096

// place is a name in a tree.
type place struct {
	tree tree
	name string // relative to the tree's top, cleaned; "." is the top itself
	path string // absolute and cleaned, for the caller

	followed bool // a symbolic link led here, and name can contain ".."
}

// locate finds the root of a path, without symbolic links, which are left to the tree. See
// [FS] for the forms of a path. An empty path is the base.
func (f *FS) locate(name string) (place, error) {
	if err := checkPath(name); err != nil {
		return place{}, err
	}
	rest, fromHome := strings.CutPrefix(name, "~")
	switch {
	case strings.HasPrefix(name, "/"):
		return f.locateAbsolute(name)
	case fromHome && (rest == "" || rest[0] == '/'):
		return f.locateBelow(f.home, rest, name)
	default:
		return f.locateBelow(f.base, name, name)
	}
}

// Abs returns a path as an absolute, cleaned path, without following symbolic links. An empty
// path is where relative paths begin. The path need not exist. It is an error if the path is
// invalid or outside of the roots.
func (f *FS) Abs(name string) (string, error) {
	p, err := f.locate(name)
	return p.path, f.fail("abs", name, err)
}

// locateEntry is like locate, but an empty path is an error: a forgotten path must not mean
// the whole home directory.
func (f *FS) locateEntry(name string) (place, error) {
	if name == "" {
		return place{}, &Error{Reason: "path is empty", Kind: ErrInvalidPath}
	}
	return f.locate(name)
}

func checkPath(name string) error {
	switch {
	case len(name) > maxPath:
		return newError(ErrInvalidPath, name[:64]+"...", "path too long", "at most 4096 bytes")
	case strings.IndexByte(name, 0) >= 0:
		return &Error{Path: name, Reason: "path holds a NUL byte", Kind: ErrInvalidPath}
	}
	return nil
}

// locateBelow finds rest below a directory in a root. given is the path of the caller.
func (f *FS) locateBelow(base, rest, given string) (place, error) {
	if slices.Contains(strings.Split(rest, "/"), "..") {
		return place{}, &Error{Path: given, Reason: "invalid relative path", Kind: ErrInvalidPath}
	}
	return f.locateAbsolute(path.Join(base, rest))
}

func (f *FS) locateAbsolute(name string) (place, error) {
	name = filepath.Clean(name)
	var found place
	longest := -1
	for _, r := range f.roots {
		for _, top := range []string{r.path, r.real} {
			if rel, ok := below(top, name); ok && len(top) > longest {
				longest = len(top)
				found = place{tree: r.tree, name: rel, path: name}
			}
		}
	}
	if longest < 0 {
		return place{}, newError(ErrOutside, name, "path is outside of the roots", "the roots are "+f.rootNames())
	}
	return found, nil
}

// below returns name relative to the directory top, and whether it is top or below it.
func below(top, name string) (string, bool) {
	if name == top {
		return ".", true
	}
	if !strings.HasSuffix(top, "/") {
		top += "/"
	}
	return strings.CutPrefix(name, top)
}

func (f *FS) rootNames() string {
	names := make([]string, 0, len(f.roots))
	for _, r := range f.roots {
		names = append(names, r.path)
	}
	return strings.Join(names, ", ")
}
