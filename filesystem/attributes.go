package filesystem

import (
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// copyOld copies owner, attributes and mode of the old file, as far as the system permits.
func (w *writer) copyOld(file *os.File) {
	old := w.target.old
	if w.target.exists {
		if n, err := nodeOfFile(file); err == nil && (n.uid != old.uid || n.gid != old.gid) {
			copyOwner(file, old)
		}
		if source, err := w.target.dir.open(w.target.name, unix.O_RDONLY|unix.O_NONBLOCK, 0); err == nil {
			copyAttributes(file, source, describesContent)
			source.Close()
		}
	}
	if w.target.exists || w.options.Mode != 0 {
		_ = file.Chmod(w.mode())
	}
}

// copyOwner sets owner and group of a file, or the group alone.
func copyOwner(file *os.File, like node) {
	if file.Chown(int(like.uid), int(like.gid)) != nil {
		_ = file.Chown(-1, int(like.gid))
	}
}

// describesContent reports whether an extended attribute is about the content or its readers.
// Others, such as capabilities, grant rights that new content must not have.
func describesContent(name string) bool {
	return strings.HasPrefix(name, "user.") || name == "system.posix_acl_access"
}

// copyAttributes copies the wanted extended attributes, as far as the system permits.
func copyAttributes(to, from *os.File, wanted func(name string) bool) {
	names := make([]byte, 1<<10)
	n, err := unix.Flistxattr(int(from.Fd()), names)
	if err == unix.ERANGE {
		names = make([]byte, 64<<10) // the most that Linux lists
		n, err = unix.Flistxattr(int(from.Fd()), names)
	}
	if err != nil || n == 0 {
		return
	}
	value := make([]byte, 64<<10) // the longest that Linux has
	for name := range strings.SplitSeq(string(names[:n]), "\x00") {
		if name == "" || !wanted(name) {
			continue
		}
		if n, err := unix.Fgetxattr(int(from.Fd()), name, value); err == nil {
			_ = unix.Fsetxattr(int(to.Fd()), name, value[:n], 0)
		}
	}
}
