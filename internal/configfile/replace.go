package configfile

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// newMode is the mode of a file that did not exist.
const newMode = 0o600

// replace puts a new file in the place of path, or leaves the old one. info is
// what the old one was, or nil. The directory must be locked.
func replace(path string, text []byte, info os.FileInfo) (err error) {
	dir, base := filepath.Dir(path), "."+filepath.Base(path)+"."
	sweep(dir, base)
	f, err := os.CreateTemp(dir, base+"*"+tempSuffix)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	if err := errors.Join(fill(f, text, info), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	syncDirectory(dir)
	return nil
}

// fill writes the new file and forces it to disk: a rename may reach the disk
// before the data does.
func fill(f *os.File, text []byte, info os.FileInfo) error {
	mode := os.FileMode(newMode)
	if info != nil {
		mode = info.Mode().Perm()
		if old, ok := info.Sys().(*syscall.Stat_t); ok && (int(old.Uid) != os.Geteuid() || int(old.Gid) != os.Getegid()) {
			_ = f.Chown(int(old.Uid), int(old.Gid)) // only root may give files away
		}
	}
	if err := f.Chmod(mode); err != nil {
		return err
	}
	if _, err := f.Write(text); err != nil {
		return err
	}
	return f.Sync()
}

// syncDirectory forces a rename to disk. That it fails is no reason to call the
// change undone: everybody sees it already.
func syncDirectory(dir string) {
	if d, err := os.Open(dir); err == nil {
		_ = d.Sync()
		_ = d.Close()
	}
}

const tempSuffix = ".tmp"

// sweep removes the new files of programs that were killed in the middle of a
// change. Nobody is in the middle of one while the directory is locked.
func sweep(dir, base string) {
	names, err := os.ReadDir(dir)
	if err != nil {
		return // the change itself will tell
	}
	for _, e := range names {
		if strings.HasPrefix(e.Name(), base) && strings.HasSuffix(e.Name(), tempSuffix) {
			_ = os.Remove(filepath.Join(dir, e.Name()))
		}
	}
}
