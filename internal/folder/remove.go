package folder

import (
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// maxOpen is how many levels of a tree Remove holds open.
const maxOpen = 32

// Remove removes a file, or a directory with all that is in it, like
// [os.RemoveAll]. It holds a bounded number of directories open however deep the
// tree is: it moves deeper directories to the top of the tree before it removes
// them. It follows no link.
func Remove(path string) error {
	err := os.Remove(path)
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	info, statErr := os.Lstat(path)
	if statErr != nil || !info.IsDir() {
		return err
	}
	top, err := os.OpenRoot(path)
	if err != nil {
		return err
	}
	defer top.Close()
	r := &remover{top: top}
	for {
		before := r.changes
		if err := r.empty(".", 0); err != nil {
			return err
		}
		err := os.Remove(path)
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if r.changes == before {
			return err
		}
	}
}

type remover struct {
	top     *os.Root
	changes int // entries removed or moved
}

// empty removes what is in a directory of the tree, whose depth is below maxOpen.
func (r *remover) empty(name string, depth int) error {
	dir, err := r.top.Open(name)
	if err != nil {
		return err
	}
	defer dir.Close()
	for {
		entries, err := dir.ReadDir(1024)
		for _, e := range entries {
			if err := r.remove(filepath.Join(name, e.Name()), e.IsDir(), depth); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// remove removes an entry of a directory with this depth.
func (r *remover) remove(name string, isDir bool, depth int) error {
	err := r.top.Remove(name)
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		r.changes++
		return nil
	}
	if !isDir {
		return err
	}
	if depth >= maxOpen {
		r.changes++
		return r.top.Rename(name, ".deskhand-"+rand.Text())
	}
	if err := r.empty(name, depth+1); err != nil {
		return err
	}
	return r.top.Remove(name)
}
