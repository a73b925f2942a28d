package supervise

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// ErrNoRoom says that the system allows no more processes, except for those that
// this program keeps for itself. The limit is the user's (RLIMIT_NPROC) or a control
// group's (pids.max).
var ErrNoRoom = errors.New("the limit of processes is reached; end some, or raise the limit")

const (
	reservedTasks = 64 // processes and threads that are reserved for this program
	spareThreads  = 32 // that ReserveThreads makes
)

// ReserveThreads makes threads that the Go runtime keeps for later use. Without them
// the runtime ends the program when it needs a thread and cannot make one.
func ReserveThreads() {
	var made, all sync.WaitGroup
	made.Add(spareThreads)
	for range spareThreads {
		all.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			made.Done()
			made.Wait()
		})
	}
	all.Wait()
}

// taskLimits bound the processes and threads of this program and its children.
type taskLimits struct {
	user   uint64   // RLIMIT_NPROC, or 0 if it does not apply to this user
	groups []string // folders of control groups that have a limit
}

var readTaskLimits = sync.OnceValue(func() (l taskLimits) {
	var limit unix.Rlimit
	// The kernel exempts root of the first user namespace, whatever its capabilities are.
	if os.Getuid() != 0 && unix.Prlimit(0, unix.RLIMIT_NPROC, nil, &limit) == nil && limit.Cur < math.MaxInt32 {
		l.user = limit.Cur
	}
	l.groups = controlGroups("pids")
	return l
})

// checkRoom returns ErrNoRoom if one more process would use the reserve of this
// program. If the limit is less than twice the reserve, the reserve is half of it.
func checkRoom() error {
	l := readTaskLimits()
	if l.user > 0 {
		if most := childTasks(l.user); tasksOfAll() >= most && tasksOf(os.Getuid()) >= most {
			return fmt.Errorf("%w (this user may have %d, and children %d of them)", ErrNoRoom, l.user, most)
		}
	}
	for _, dir := range l.groups {
		most, ok := readCount(dir, "pids.max")
		if !ok {
			continue
		}
		if now, ok := readCount(dir, "pids.current"); ok && now >= childTasks(most) {
			return fmt.Errorf("%w (the control group has %d of %d)", ErrNoRoom, now, most)
		}
	}
	return nil
}

// childTasks returns the part of a limit that children may use.
func childTasks(limit uint64) uint64 { return limit - min(reservedTasks, limit/2) }

// limitTasks lowers the limit of processes of a child, and of processes that it has
// started, below this program's.
func limitTasks(pid int) {
	l := readTaskLimits()
	if l.user == 0 {
		return
	}
	limit := unix.Rlimit{Cur: childTasks(l.user), Max: childTasks(l.user)}
	for _, pid := range withChildren(pid) {
		_ = unix.Prlimit(pid, unix.RLIMIT_NPROC, &limit, nil)
	}
}

// withChildren returns a process and its descendants.
func withChildren(pid int) []int {
	pids := []int{pid}
	for i := 0; i < len(pids); i++ {
		for field := range strings.FieldsSeq(procText(pids[i], "task/"+strconv.Itoa(pids[i])+"/children")) {
			if child, err := strconv.Atoi(field); err == nil {
				pids = append(pids, child)
			}
		}
	}
	return pids
}

// tasksOfAll returns the number of processes and threads of all users: the second number
// of the fourth field of proc_loadavg(5). It is cheap.
func tasksOfAll() uint64 {
	b, err := os.ReadFile("/proc/loadavg")
	fields := strings.Fields(string(b))
	if err != nil || len(fields) < 4 {
		return math.MaxUint64
	}
	_, text, _ := strings.Cut(fields[3], "/")
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return math.MaxUint64
	}
	return n
}

// tasksOf counts the processes and threads of a user.
func tasksOf(uid int) (n uint64) {
	all, _, err := processes()
	if err != nil {
		return 0
	}
	for pid, p := range all {
		if uids := readStatus(pid).words("Uid"); len(uids) > 0 && uids[0] == strconv.Itoa(uid) {
			n += uint64(max(1, p.threads))
		}
	}
	return n
}

// controlGroups returns the visible folders of the control groups of version 1 or 2 that
// this program is in and that have a controller.
func controlGroups(controller string) (folders []string) {
	mounts, err1 := Mounts()
	groups, err2 := os.ReadFile("/proc/self/cgroup")
	if err1 != nil || err2 != nil {
		return nil
	}
	return controllerFolders(mounts, string(groups), controller)
}

// controllerFiles names a file that groups with a controller have.
var controllerFiles = map[string][]string{
	"pids":   {"pids.current"},
	"memory": {"memory.max", "memory.limit_in_bytes"}, // versions 2 and 1
}

func controllerFolders(mounts []Mount, cgroup, controller string) (folders []string) {
	for line := range strings.Lines(cgroup) {
		part := strings.SplitN(strings.TrimSpace(line), ":", 3) // number, controllers, path
		if len(part) < 3 || part[0] != "0" && part[1] != controller {
			continue
		}
		for _, m := range mounts {
			if part[0] == "0" && m.Type != "cgroup2" ||
				part[0] != "0" && (m.Type != "cgroup" || !strings.Contains(m.Options+",", controller+",")) {
				continue
			}
			dir, ok := m.folder(part[2])
			if !ok {
				dir = m.Point
			}
			for ; ; dir = filepath.Dir(dir) {
				if slices.ContainsFunc(controllerFiles[controller], func(name string) bool { return isFile(filepath.Join(dir, name)) }) {
					folders = append(folders, dir)
				}
				if len(dir) <= len(m.Point) {
					break
				}
			}
		}
	}
	return folders
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// readCount reads a number of a control group. It reports false for "max".
func readCount(dir, name string) (uint64, bool) {
	b, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		return 0, false
	}
	n, err := strconv.ParseUint(strings.TrimSpace(string(b)), 10, 64)
	return n, err == nil
}
