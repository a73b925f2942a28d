package supervise

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
)

// usersPrefix begins the name of the control group of other users' children. The number of
// this program follows.
const usersPrefix = "deskhand_users-"

const cgroupEnd = time.Second // for killed processes to leave a control group

// allUsersCgroup returns a control group for children of other users, which only root can
// leave, and which is registered with the guardian. It returns nil where that is not possible.
var allUsersCgroup = sync.OnceValue(func() *os.File {
	return makeCgroup(fmt.Sprintf("%s%d-", usersPrefix, os.Getpid()), 0o755)
})

// usersCgroup returns the control group for the group's children of other users: one below
// allUsersCgroup, or that one if none can be made. It returns nil if nothing would remove them
// after this program: there is no guardian, and this program is not process 1.
func (g *Group) usersCgroup() *os.File {
	if program.guard.Load() == nil && os.Getpid() != 1 {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	all := allUsersCgroup()
	if g.users == nil && all != nil {
		dir := filepath.Join(all.Name(), g.token)
		if os.Mkdir(dir, 0o755) != nil {
			return all
		}
		f, err := os.Open(dir)
		if err != nil {
			_ = os.Remove(dir)
			return all
		}
		g.users = f
	}
	return g.users
}

// endUsersCgroup kills the processes in the group's control group, and removes it.
func (g *Group) endUsersCgroup() error {
	if g.users == nil {
		return nil
	}
	return errors.Join(g.users.Close(), endCgroup(g.users.Name()))
}

// makeCgroup makes a control group below this program's own, and registers it with the
// guardian. It returns nil where that is not possible.
func makeCgroup(prefix string, mode os.FileMode) *os.File {
	own := OwnCgroup()
	if own == "" {
		return nil
	}
	dir := filepath.Join(own, prefix+strings.ToLower(rand.Text()))
	if os.Mkdir(dir, mode) != nil {
		return nil
	}
	f, err := os.Open(dir)
	if err == nil {
		_, err = os.Stat(filepath.Join(dir, "cgroup.kill")) // Linux 5.14
	}
	if err != nil {
		_ = f.Close()
		_ = os.Remove(dir)
		return nil
	}
	GuardCgroup(dir)
	return f
}

// killCgroup kills all processes in a control group and in those below it.
func killCgroup(dir string) error {
	return os.WriteFile(filepath.Join(dir, "cgroup.kill"), []byte("1"), 0)
}

// OwnCgroup returns the folder of the control group of version 2 that this program is
// in, or "".
func OwnCgroup() string {
	mounts, err := Mounts()
	if err != nil {
		return ""
	}
	self, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return ""
	}
	for _, dir := range cgroupFolders(mounts, string(self)) {
		// The mount may be hidden by another one, or belong to another namespace, so
		// the group's list of processes decides.
		procs, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
		if err == nil && strings.Contains("\n"+string(procs), "\n"+strconv.Itoa(os.Getpid())+"\n") {
			return dir
		}
	}
	return ""
}

// cgroupFolders returns the possible folders of a process's group of version 2, by its
// mounts and its cgroup file (cgroups(7)). Usually there is one, below /sys/fs/cgroup or
// /sys/fs/cgroup/unified. In a container the mount may begin at the group.
func cgroupFolders(mounts []Mount, cgroup string) (folders []string) {
	own := ""
	for line := range strings.Lines(cgroup) {
		if path, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "0::"); ok {
			own = path
		}
	}
	if !filepath.IsAbs(own) {
		return nil
	}
	for _, m := range mounts {
		if dir, ok := m.folder(own); ok && m.Type == "cgroup2" {
			folders = append(folders, dir)
		}
	}
	return folders
}
