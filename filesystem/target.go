package filesystem

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"
)

// target is the file of a Write, after symbolic links.
type target struct {
	dir      folder // its owner closes it
	name     string
	old      node // zero if the file does not exist
	exists   bool
	confined bool // in a root
}

// maxLinks bounds the symbolic links of a path, as in Linux.
const maxLinks = 40

// resolve follows a path. It makes missing directories, unless a symbolic link leads there. If
// noFollow is set, the last element may be a link.
func (f *FS) resolve(p place, noFollow bool) (target, error) {
	for range maxLinks {
		dir, name, err := f.makeParent(p)
		if err != nil {
			return target{}, err
		}
		_, whole := p.tree.(wholeTree)
		t := target{dir: dir, name: name, confined: !whole}
		t.old, err = dir.stat(name)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return t, nil
		case err != nil:
			dir.close()
			return target{}, err
		case !t.old.isLink() || noFollow:
			t.exists = true
			return t, nil
		}
		text, err := dir.readlink(name)
		dir.close()
		if err != nil {
			return target{}, err
		}
		if p, err = p.follow(text); err != nil {
			return target{}, err
		}
	}
	return target{}, unix.ELOOP
}

// follow returns the place to which a symbolic link at p leads. Its name is not cleaned,
// because ".." after a symbolic link is the directory above the link's target.
func (p place) follow(link string) (place, error) {
	to := place{tree: p.tree, path: p.path, followed: true} // messages name the path of the caller
	if path.IsAbs(link) {
		if _, whole := p.tree.(wholeTree); !whole {
			return place{}, newError(ErrOutside, "", "path leads out of its root", "symbolic links that are absolute or climb out of the root are not followed")
		}
		to.name = strings.TrimLeft(link, "/")
	} else {
		to.name = p.dir() + "/" + link
	}
	switch to.name[strings.LastIndexByte(to.name, '/')+1:] {
	case "", ".", "..":
		return place{}, unix.EISDIR
	}
	if len(to.name) > maxPath {
		return place{}, unix.ENAMETOOLONG
	}
	return to, nil
}

// dir returns the part of the name before the last element.
func (p place) dir() string {
	i := strings.LastIndexByte(p.name, '/')
	if i < 0 {
		return "."
	}
	return p.name[:i]
}

// makeParent opens the directory of a place, and makes it if it does not exist.
func (f *FS) makeParent(p place) (folder, string, error) {
	dir, name, err := openParent(p)
	if !errors.Is(err, fs.ErrNotExist) || p.followed {
		return dir, name, err
	}
	parent := p.parent()
	existing := parent.nearest()
	if err := parent.tree.MkdirAll(parent.name, 0o777); err != nil {
		return folder{}, "", withPath(parent.path, err)
	}
	// A new directory is on the disk when the directory above it is synced.
	for at := parent; at.name != existing.name; {
		at = at.parent()
		if d, err := openFolder(at, folderRead); err == nil {
			d.sync()
			d.close()
		}
	}
	return openParent(p)
}

// nearest returns the place, or the nearest directory above it that exists.
func (p place) nearest() place {
	for p.name != "." {
		if _, err := p.tree.Stat(p.name); err == nil {
			break
		}
		p = p.parent()
	}
	return p
}

// isBelow reports whether the folder is a directory or below it. It may look above a root.
func (d folder) isBelow(top node) bool {
	for dir := d; ; {
		self, err := dir.self()
		if err != nil || self.is(top) {
			return err == nil
		}
		above, err := dir.folder("..", folderHold)
		if err != nil {
			return false
		}
		defer above.close()
		if n, err := above.self(); err != nil || n.is(self) {
			return false // "/", which is its own parent
		}
		dir = above
	}
}

// sync syncs the entries of a directory, if the directory is readable.
func (d folder) sync() {
	file, err := d.open(".", folderRead, 0)
	if err != nil {
		return
	}
	defer file.Close()
	_ = file.Sync()
}

// newSpool makes a file without a name in Config.TempDir.
func (f *FS) newSpool() (*temporary, error) {
	file, err := os.OpenFile(f.config.TempDir, folderHold, 0)
	if err != nil {
		return nil, err
	}
	dir := newFolder(file, f.config.TempDir)
	defer dir.close()
	temp, err := f.newTemporary(dir, 0o600)
	if err != nil {
		return nil, withPath(dir.path, err)
	}
	if temp.name != "" {
		if err := dir.unlink(temp.name); err != nil {
			temp.file.Close()
			return nil, withPath(dir.path, err)
		}
		temp.name = ""
	}
	return temp, nil
}
