package supervise

import "golang.org/x/sys/unix"

// NoExec reports whether dir is on a file system that is mounted with noexec (mount(8)).
func NoExec(dir string) bool {
	var fs unix.Statfs_t
	return unix.Statfs(dir, &fs) == nil && fs.Flags&unix.ST_NOEXEC != 0
}
