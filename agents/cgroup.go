package agents

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// cgroup is a control group for one agent (cgroups(7), version 2), where this
// program may make some: whatever leaves the agent's process group, its session
// and its tree, and cleans its environment, stays in it. Nil is none, which is
// the usual case in containers and with version 1.
type cgroup struct{ dir string }

const (
	cgroupRoot   = "/sys/fs/cgroup"
	cgroupPrefix = "deskhand-"
	cgroupWait   = time.Second // for killed processes to be gone
)

// ownCgroup is the folder of the control group that this program is in, or "".
func ownCgroup() string {
	if _, err := os.Stat(filepath.Join(cgroupRoot, "cgroup.controllers")); err != nil {
		return "" // version 1, or none at all
	}
	b, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(b)) {
		if path, ok := strings.CutPrefix(strings.TrimSpace(line), "0::"); ok {
			return filepath.Join(cgroupRoot, path)
		}
	}
	return ""
}

// newCgroup makes a control group with a process in it, or returns nil. What the
// process has started before is found by other means (package supervise).
func newCgroup(name string, pid int) *cgroup {
	own := ownCgroup()
	if own == "" {
		return nil
	}
	g := &cgroup{filepath.Join(own, cgroupPrefix+strconv.Itoa(os.Getpid())+"-"+name)}
	if err := os.Mkdir(g.dir, 0o755); err != nil {
		return nil
	}
	if err := g.write("cgroup.procs", strconv.Itoa(pid)); err != nil {
		_ = os.Remove(g.dir)
		return nil
	}
	return g
}

func (g *cgroup) write(file, text string) error {
	return os.WriteFile(filepath.Join(g.dir, file), []byte(text), 0)
}

// end kills what is still in the group, and removes it.
func (g *cgroup) end() error {
	if g == nil {
		return nil
	}
	deadline := time.Now().Add(cgroupWait)
	for {
		err := os.Remove(g.dir) // fails while there is anything in it
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if time.Now().After(deadline) {
			return err
		}
		if err := g.write("cgroup.kill", "1"); err != nil {
			return err
		}
		<-time.After(time.Millisecond) // the kernel tells nobody
	}
}

// sweepCgroups ends what is in groups of programs that do not run any more.
func sweepCgroups() error {
	own := ownCgroup()
	if own == "" {
		return nil
	}
	left, err := filepath.Glob(filepath.Join(own, cgroupPrefix+"*"))
	if err != nil {
		return err
	}
	var errs []error
	for _, dir := range left {
		pid, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(dir), cgroupPrefix), "-")
		if _, err := os.Stat(filepath.Join("/proc", pid)); pid != "" && errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, (&cgroup{dir}).end())
		}
	}
	return errors.Join(errs...)
}
