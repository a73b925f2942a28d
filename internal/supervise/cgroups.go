package supervise

import (
	"cmp"
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
)

// Cgroups makes control groups (cgroups(7), version 2) for children of one host, if this
// program may. A process cannot leave its group, even if it leaves its parent's process group,
// session and tree and clears its environment.
//
// The groups are in a group of the host, below this program's group. The name of the host's
// group identifies the state directory. The host holds a lock on it, which the kernel releases
// at the end of the program. Other hosts end the processes in groups that are not locked.
type Cgroups struct {
	state string // the state directory, or ""
	own   string // this program's group; "": no groups can be made

	mu     sync.Mutex // guards the fields below
	opened bool
	lock   *os.File // on the host's group, or nil
	made   int
}

// NewCgroups returns the control groups of a host with a state directory, which may be empty.
func NewCgroups(state string) *Cgroups { return &Cgroups{state: state, own: OwnCgroup()} }

const (
	cgroupPrefix = "deskhand-"

	// cgroupMode lets children read the limits of their group, and prevents that other users
	// open the directory, which flock(2) needs.
	cgroupMode = 0o711
)

// prefix returns the beginning of the names of groups of hosts with this state directory, or
// "" without one.
func (c *Cgroups) prefix() string {
	var st unix.Stat_t
	if c.state == "" || unix.Stat(c.state, &st) != nil {
		return ""
	}
	// In another container, the path may be another directory.
	return fmt.Sprintf("%s%x.%x-", cgroupPrefix, st.Dev, st.Ino)
}

// Cgroup is the control group of a child. All methods accept nil.
type Cgroup struct {
	dir  string
	file *os.File // for a process to be started in it
}

// Add makes a group, or returns nil if that fails.
func (c *Cgroups) Add() *Cgroup {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.opened {
		c.opened, c.lock = true, c.makeHostGroup()
	}
	if c.lock == nil {
		return nil
	}
	c.made++
	g := &Cgroup{dir: filepath.Join(c.lock.Name(), strconv.Itoa(c.made))}
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

// makeHostGroup makes the host's group, when the first child starts.
func (c *Cgroups) makeHostGroup() *os.File {
	for range 3 { // another host may remove it before it is locked
		f := makeCgroup(cmp.Or(c.prefix(), cgroupPrefix), cgroupMode)
		if f == nil || lockCgroup(f) == nil {
			return f
		}
	}
	return nil
}

// lockCgroup locks a host's group. It closes the file and returns an error if another program
// has locked or removed the group.
func lockCgroup(f *os.File) error {
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return errors.Join(os.NewSyscallError("flock", err), f.Close())
	}
	a, err1 := f.Stat()
	b, err2 := os.Stat(f.Name())
	if err1 != nil || err2 != nil || !os.SameFile(a, b) {
		return errors.Join(fs.ErrNotExist, f.Close())
	}
	return nil
}

// Close removes the host's group, after its children have ended.
func (c *Cgroups) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lock == nil {
		return nil
	}
	err := errors.Join(endCgroup(c.lock.Name()), c.lock.Close())
	c.lock = nil
	return err
}

// Sweep ends the processes in groups of ended hosts with this state directory, and removes the
// groups. Of hosts with other state directories, it removes empty groups only.
func (c *Cgroups) Sweep() error {
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
		f, err := os.Open(dir)
		if err != nil || lockCgroup(f) != nil {
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

// File returns the file for [Spec].Cgroup, or nil.
func (g *Cgroup) File() *os.File {
	if g == nil {
		return nil
	}
	return g.file
}

// Started closes the file after the start of a process.
func (g *Cgroup) Started() error {
	if g == nil {
		return nil
	}
	return g.file.Close()
}

// End kills the processes in the group, and removes it.
func (g *Cgroup) End() error {
	if g == nil {
		return nil
	}
	return endCgroup(g.dir)
}

// endCgroup kills the processes in a group and the groups below it, and removes the groups.
func endCgroup(dir string) error {
	deadline := time.Now().Add(cgroupEnd)
	for {
		err := removeCgroup(dir)
		if err == nil {
			return nil
		}
		if time.Now().After(deadline) {
			return err
		}
		err = killCgroup(dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		<-time.After(time.Millisecond) // the processes end soon; a notification would need a thread
	}
}

// removeCgroup removes a group and the groups below it, which children may have made. It fails
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
