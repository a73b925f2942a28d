package filesystem

import (
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// maxPath is the longest path that is looked at, in bytes: Linux's PATH_MAX.
const maxPath = 4096

// place is where a path leads: a name in a tree.
type place struct {
	tree tree
	name string // relative to the tree's top, cleaned; "." is the top itself
	path string // absolute and cleaned, as the caller knows it

	followed bool // a symbolic link led here; name may hold ".." then
}

// locate finds the root that a path lies in, by its words alone; the tree takes
// care of symbolic links.
//
// Absolute paths are cleaned, and must lie in a root under the name that the
// root was given or under its resolved name. "~" and "~/x" are Home. All else
// is relative to the base, may not hold "..", and is the base itself when
// empty.
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

// Abs is the absolute path that a path names, cleaned; symbolic links are not
// looked at. An empty path is where relative paths begin. It fails for paths
// that are invalid or lie outside of the roots, whether anything is there or not.
func (f *FS) Abs(name string) (string, error) {
	p, err := f.locate(name)
	return p.path, f.fail("abs", name, err)
}

// locateEntry is locate for what may not be empty, because forgetting the path
// must not mean the whole home directory.
func (f *FS) locateEntry(name string) (place, error) {
	if name == "" {
		return place{}, &Error{Problem: "path is empty", Kind: ErrInvalidPath}
	}
	return f.locate(name)
}

func checkPath(name string) error {
	switch {
	case len(name) > maxPath:
		return &Error{
			Path: name[:64] + "...", Problem: "path too long", Remedy: "at most 4096 bytes",
			Kind: ErrInvalidPath,
		}
	case strings.IndexByte(name, 0) >= 0:
		return &Error{Path: name, Problem: "path holds a NUL byte", Kind: ErrInvalidPath}
	}
	return nil
}

// locateBelow finds rest below a directory that is known to be in a root. given
// is what the caller said.
func (f *FS) locateBelow(base, rest, given string) (place, error) {
	if slices.Contains(strings.Split(rest, "/"), "..") {
		return place{}, &Error{Path: given, Problem: "invalid relative path", Kind: ErrInvalidPath}
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
		return place{}, &Error{
			Path: name, Problem: "path is outside of the roots", Remedy: "the roots are " + f.rootNames(),
			Kind: ErrOutside,
		}
	}
	return found, nil
}

// below is what remains of name below the directory top; "." when it is top.
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
