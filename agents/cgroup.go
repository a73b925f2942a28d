package agents

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/deskhand/deskhand/internal/supervise"
)

// cgroups makes a control group (cgroups(7), version 2) for each of a host's agents, if this
// program may. A process cannot leave the group, also if it leaves the agent's process group,
// session and tree and cleans its environment.
//
// The groups are in a group of the host, below this program's group. Its name has the state
// directory. The host holds a lock on it, which the kernel releases at the end of the program.
// Other hosts end the processes in groups that are not locked.
type cgroups struct {
	state string // the state directory, or ""
	own   string // this program's group; "": no groups can be made

	mu    sync.Mutex // guards what follows
	begun bool
	lock  *os.File // on the host's group, or nil
	made  int
}

const (
	cgroupPrefix = "deskhand-"
	cgroupWait   = time.Second // bounds the wait for killed processes

	// cgroupMode lets agents read the limits of their group, and prevents that other users
	// open the directory, which flock(2) needs.
	cgroupMode = 0o711
)

// prefix returns the beginning of the names of groups of hosts with this state directory, or
// "" without one.
func (c *cgroups) prefix() string {
	var st unix.Stat_t
	if c.state == "" || unix.Stat(c.state, &st) != nil {
		return ""
	}
	// In another container, the path may be another directory.
	return fmt.Sprintf("%s%x.%x-", cgroupPrefix, st.Dev, st.Ino)
}

// cgroup is the control group of an agent. All methods accept nil.
type cgroup struct {
	dir  string
	file *os.File // for a process to be started in it
}

// add makes a group, or returns nil if that fails.
func (c *cgroups) add() *cgroup {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.begun {
		c.begun, c.lock = true, c.begin()
	}
	if c.lock == nil {
		return nil
	}
	c.made++
	g := &cgroup{dir: filepath.Join(c.lock.Name(), strconv.Itoa(c.made))}
	if err := os.Mkdir(g.dir, cgroupMode); err != nil {
		return nil
	}
	var err error
	if g.file, err = os.Open(g.dir); err != nil {
		_ = os.Remove(g.dir)
		return nil
	}
	return g
}

// begin makes the host's group, when the first agent starts.
func (c *cgroups) begin() *os.File {
	if c.own == "" {
		return nil
	}
	for range 3 { // another host may remove it before it is locked
		dir := filepath.Join(c.own, cmp.Or(c.prefix(), cgroupPrefix)+strings.ToLower(rand.Text()))
		if os.Mkdir(dir, cgroupMode) != nil {
			return nil
		}
		if _, err := os.Stat(filepath.Join(dir, "cgroup.kill")); err != nil { // before Linux 5.14
			_ = os.Remove(dir)
			return nil
		}
		if f, err := lockCgroup(dir, unix.LOCK_EX|unix.LOCK_NB); err == nil {
			supervise.GuardCgroup(dir)
			return f
		}
	}
	return nil
}

// lockCgroup locks a host's group. It returns an error if the group was removed meanwhile.
func lockCgroup(dir string, how int) (*os.File, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), how); err != nil {
		return nil, errors.Join(os.NewSyscallError("flock", err), f.Close())
	}
	a, err1 := f.Stat()
	b, err2 := os.Stat(dir)
	if err1 != nil || err2 != nil || !os.SameFile(a, b) {
		return nil, errors.Join(fs.ErrNotExist, f.Close())
	}
	return f, nil
}

// close removes the host's group, after its agents have ended.
func (c *cgroups) close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lock == nil {
		return nil
	}
	err := errors.Join(endCgroup(c.lock.Name()), c.lock.Close())
	c.lock = nil
	return err
}

// sweep ends the processes in groups of ended hosts with this state directory, and removes the
// groups. Of hosts with other state directories, it removes empty groups only.
func (c *cgroups) sweep() error {
	if c.own == "" {
		return nil
	}
	entries, err := os.ReadDir(c.own)
	if err != nil {
		return err
	}
	prefix := c.prefix()
	var errs []error
	for _, e := range entries {
		if !e.IsDir() || !strings.HasPrefix(e.Name(), cgroupPrefix) {
			continue
		}
		dir := filepath.Join(c.own, e.Name())
		f, err := lockCgroup(dir, unix.LOCK_EX|unix.LOCK_NB)
		if err != nil {
			continue // its host runs, or it was removed
		}
		if prefix != "" && strings.HasPrefix(e.Name(), prefix) {
			errs = append(errs, endCgroup(dir))
		} else if isEmptyCgroup(dir) {
			_ = removeCgroup(dir)
		}
		errs = append(errs, f.Close())
	}
	return errors.Join(errs...)
}

// fd returns the file for the start of a process in the group.
func (g *cgroup) fd() *os.File {
	if g == nil {
		return nil
	}
	return g.file
}

// begun closes fd after the start of a process.
func (g *cgroup) begun() error {
	if g == nil {
		return nil
	}
	return g.file.Close()
}

// end kills the processes in the group, and removes it.
func (g *cgroup) end() error {
	if g == nil {
		return nil
	}
	return endCgroup(g.dir)
}

// endCgroup kills the processes in a group and the groups below it, and removes the groups.
func endCgroup(dir string) error {
	deadline := time.Now().Add(cgroupWait)
	for {
		err := removeCgroup(dir)
		if err == nil {
			return nil
		}
		if time.Now().After(deadline) {
			return err
		}
		err = os.WriteFile(filepath.Join(dir, "cgroup.kill"), []byte("1"), 0)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		<-time.After(time.Millisecond) // they end soon; a notification would take a thread
	}
}

// removeCgroup removes a group and the groups below it, which agents may have made. It fails
// while there is a process in one.
func removeCgroup(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.IsDir() {
			if err := removeCgroup(filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	if err := os.Remove(dir); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// isEmptyCgroup reports whether there is no process in a group and the groups below it.
func isEmptyCgroup(dir string) bool {
	b, err := os.ReadFile(filepath.Join(dir, "cgroup.events"))
	return err == nil && strings.Contains("\n"+string(b), "\npopulated 0\n")
}
