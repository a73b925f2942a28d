package supervise

import "golang.org/x/sys/unix"

// NoExec returns true if dir is on a file system that is mounted so that no program
// on it can be executed (noexec of mount(8)).
func NoExec(dir string) bool {
	var fs unix.Statfs_t
	return unix.Statfs(dir, &fs) == nil && fs.Flags&unix.ST_NOEXEC != 0
}
