package filesystem

import (
	"crypto/rand"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// A temporary entry is named ".deskhand-", random letters, and a suffix.
const (
	hiddenPrefix = ".deskhand-"
	// tempSuffix marks content that is being written. It is useless without its writer.
	tempSuffix = ".tmp"
	// asideSuffix marks an entry that a Move replaces. The Move removes it at its end.
	// After a crash it is the user's.
	asideSuffix = ".old"
)

// isTemporary reports whether a name belongs to content that is being written.
func isTemporary(name string) bool {
	return strings.HasPrefix(name, hiddenPrefix) && strings.HasSuffix(name, tempSuffix)
}

func hiddenName(suffix string) string { return hiddenPrefix + rand.Text() + suffix }

// temporary is a new file in a folder, which gets its name when it is complete. Before that it
// has no name (O_TMPFILE), so that nothing is left after a crash, or a hidden one if the file
// system needs one.
type temporary struct {
	dir  folder // its owner closes it
	file *os.File
	name string // empty if it has none
}

// newTemporary makes a file with permission bits, less the umask.
func (f *FS) newTemporary(dir folder, perm uint32) (*temporary, error) {
	if f.nameless {
		file, err := dir.open(".", unix.O_TMPFILE|unix.O_RDWR, perm)
		switch err {
		case nil:
			return &temporary{dir: dir, file: file}, nil
		case unix.EOPNOTSUPP, unix.EISDIR, unix.EINVAL, unix.ENOENT, unix.ENOSYS: // depending on the file system
		default:
			return nil, err
		}
	}
	name := hiddenName(tempSuffix)
	file, err := dir.open(name, unix.O_CREAT|unix.O_EXCL|unix.O_RDWR, perm)
	if err != nil {
		return nil, err
	}
	// The lock shows sweep, also in other programs, that the file is in use.
	_ = unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	return &temporary{dir: dir, file: file, name: name}, nil
}

// discard closes the file, and removes it if it was not published.
func (t *temporary) discard() {
	if t.name != "" {
		_ = t.dir.unlink(t.name)
	}
	t.file.Close()
}

// publish gives the file its name. If the name exists, publish replaces the entry if replace
// is set, and returns EEXIST otherwise.
func (t *temporary) publish(name string, replace bool) error {
	if t.name == "" {
		err := t.link(name)
		if err != unix.EEXIST || !replace {
			return err
		}
		hidden := hiddenName(tempSuffix)
		if err := t.link(hidden); err != nil {
			return err
		}
		t.name = hidden
	}
	var err error
	if replace {
		err = t.dir.rename(t.name, t.dir, name, 0)
	} else {
		err = renameNew(t.dir, t.name, t.dir, name)
	}
	if err == nil {
		t.name = ""
	}
	return err
}

// link gives a nameless file a name through /proc, as open(2) describes. linkat(2) with
// AT_EMPTY_PATH would need a capability.
func (t *temporary) link(name string) error {
	return unix.Linkat(unix.AT_FDCWD, descriptorPath(t.file), t.dir.fd, name, unix.AT_SYMLINK_FOLLOW)
}

const descriptors = "/proc/self/fd"

func descriptorPath(file *os.File) string {
	return descriptors + "/" + strconv.Itoa(int(file.Fd()))
}

// Leftovers are removed after a day, and a directory is swept once a day at most.
const (
	leftoverAge  = 24 * time.Hour
	sweepNames   = 10_000 // of one directory
	sweptFolders = 1024
)

// sweep removes temporary files of killed programs from a directory.
func (f *FS) sweep(dir folder, alive aliveFunc) {
	n, err := dir.self()
	if err != nil || !f.sweepIsDue(n) {
		return
	}
	all, err := dir.folder(".", folderRead)
	if err != nil {
		return
	}
	defer all.close()
	names, _ := all.file.Readdirnames(sweepNames) // the rest can wait
	for _, name := range names {
		if isTemporary(name) {
			f.sweepEntry(all, name, alive)
		}
	}
}

func (f *FS) sweepIsDue(n node) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	key, now := n.id(), f.now()
	if last, ok := f.swept[key]; ok && now.Sub(last) < leftoverAge {
		return false
	}
	if len(f.swept) >= sweptFolders {
		clear(f.swept)
	}
	f.swept[key] = now
	return true
}

// sweepEntry removes one leftover if it is old, belongs to this user and is not locked.
func (f *FS) sweepEntry(dir folder, name string, alive aliveFunc) {
	n, err := dir.stat(name)
	if err != nil || int(n.uid) != os.Geteuid() || f.now().Sub(n.changed) < leftoverAge ||
		n.mode.Type()&^fs.ModeDir != 0 {
		return
	}
	file, err := dir.open(name, unix.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return
	}
	defer file.Close()
	if unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil {
		return
	}
	err = removeEntry(dir, name, alive)
	f.logger.Debug("removed a leftover", "path", dir.child(name), "changed", n.changed, "err", err)
}
