package filesystem

import (
	"errors"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// maxName is the longest name of a file in bytes, Linux's NAME_MAX.
const maxName = 255

// entryParts splits the name of an entry into the names on its path from the destination.
// "./" has none: it is the destination.
func (x *extraction) entryParts(name string) ([]string, error) {
	if name == "" {
		return nil, refused(name, "archive has an entry without a name", "")
	}
	if strings.HasPrefix(name, "/") || strings.IndexByte(name, 0) >= 0 {
		return nil, refused(name, "invalid relative path", "")
	}
	var parts []string
	length := len(x.place.path)
	for part := range strings.SplitSeq(name, "/") {
		switch {
		case part == "" || part == ".":
			continue
		case part == "..":
			return nil, refused(name, "invalid relative path", "")
		case len(part) > maxName:
			return nil, refused(name[:64]+"...", "archive has a name of more than 255 bytes", "")
		}
		parts = append(parts, part)
		length += 1 + len(part)
	}
	switch {
	case length > maxPath:
		return nil, refused(name[:64]+"...", "archive has a path that is too long here", "at most 4096 bytes in all")
	case x.options.MaxDepth > 0 && len(parts) > x.options.MaxDepth:
		return nil, newError(ErrTooLarge, name, "archive has more than "+strconv.Itoa(x.options.MaxDepth)+" levels (MaxDepth)", "")
	}
	return parts, nil
}

func refused(entry, problem, remedy string) error {
	return newError(ErrArchive, entry, problem, remedy)
}

// conflict returns the error for an existing file in the place of an entry.
func conflict(path, problem, remedy string) error {
	return newError(fs.ErrExist, path, problem, remedy)
}

// checkTarget returns an error for a target that no symbolic link may have. checkLinks checks
// where links lead.
func checkTarget(entry, target string) error {
	switch {
	case target == "":
		return refused(entry, "archive has a symbolic link to nothing", "")
	case strings.HasPrefix(target, "/"):
		return refused(entry, "archive has an absolute symbolic link", "its target must be relative")
	case len(target) >= maxPath || strings.IndexByte(target, 0) >= 0:
		return refused(entry, "archive has a symbolic link with an invalid target", "")
	}
	return nil
}

func leavingLink(entry string) error {
	return refused(entry, "archive has a symbolic link that leads out of the destination", "")
}

// Why a path cannot be followed.
var (
	errLeaves  = errors.New("leads out of the destination")
	errCircle  = errors.New("leads in a circle")
	errNowhere = errors.New("continues after a file")
)

// maxSteps bounds the names on one path.
const maxSteps = 1024

// spot is the result of following a path.
type spot struct {
	parts   []string // from the destination, without symbolic links
	node    node
	missing bool
}

// follow resolves a path from the directory base like the kernel, with the destination as the
// top. Entries of the archive (the first view) hide existing ones (the second view).
//
// A path may continue with names after a name that does not exist, but not with "..", because
// a link may be made there later.
func (x *extraction) follow(base []string, path string, views ...folder) (spot, error) {
	s := spot{parts: slices.Clone(base), node: node{mode: fs.ModeDir}}
	todo := strings.Split(path, "/")
	links, steps := 0, 0
	for len(todo) > 0 {
		part := todo[0]
		todo = todo[1:]
		switch {
		case part == "" || part == ".":
			continue
		case part == ".." && !s.node.isDir(), part != ".." && !s.missing && !s.node.isDir():
			return s, errNowhere
		case part == ".." && len(s.parts) == 0:
			return s, errLeaves
		case part == "..":
			s.parts = s.parts[:len(s.parts)-1]
			continue
		}
		view, err := s.step(part, views)
		if steps++; steps > maxSteps {
			err = errCircle
		}
		if err != nil {
			return s, err
		}
		if !s.node.isLink() {
			continue
		}
		if links++; links > maxLinks {
			return s, errCircle
		}
		target, err := view.readlink(strings.Join(s.parts, "/"))
		if err != nil {
			return s, err
		}
		s.parts, s.node = s.parts[:len(s.parts)-1], node{mode: fs.ModeDir}
		if strings.HasPrefix(target, "/") {
			if target, err = x.inDestination(target); err != nil {
				return s, err
			}
			s.parts = s.parts[:0]
		}
		todo = append(strings.Split(target, "/"), todo...)
	}
	return s, nil
}

// step appends a name to the path, and returns the view that has the entry.
func (s *spot) step(name string, views []folder) (folder, error) {
	s.parts = append(s.parts, name)
	for _, view := range views {
		n, err := view.stat(strings.Join(s.parts, "/"))
		if err == nil {
			s.node, s.missing = n, false
			return view, nil
		}
		if err != unix.ENOENT && err != unix.ENOTDIR {
			return folder{}, err
		}
	}
	s.node, s.missing = node{mode: fs.ModeIrregular}, true
	return folder{}, nil
}

// inDestination makes an absolute target below the destination relative to it. Links of a root
// must not be absolute.
func (x *extraction) inDestination(target string) (string, error) {
	if _, whole := x.place.tree.(wholeTree); !whole {
		return "", errLeaves
	}
	if x.real == "" {
		real, err := os.Readlink(descriptorPath(x.dest.file))
		if err != nil {
			return "", err
		}
		x.real = real
	}
	rest, ok := below(x.real, strings.TrimRight(target, "/"))
	if !ok {
		return "", errLeaves
	}
	return rest, nil
}
