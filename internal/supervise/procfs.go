package supervise

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// process is the content of /proc/PID/stat (proc_pid_stat(5)).
type process struct {
	pid, parent, group, session int

	threads int
	start   uint64 // ticks of 10 ms since boot
	cpu     uint64 // ticks that it ran, and its children that were waited for
	pages   int64  // of resident memory
	state   byte
	exiting bool // the first thread has begun to end
}

// same reports whether two readings are of the same process. Two processes can have the
// same id one after the other.
func (p process) same(q process) bool { return p.pid == q.pid && p.start == q.start }

// gone reports whether the process is a zombie. A process whose first thread has ended
// has the same state, but runs on.
func (p process) gone() bool {
	return (p.state == 'Z' || p.state == 'X' || p.state == 'x') && p.threads <= 1
}

// errGone says that there is no process with an id.
var errGone = errors.New("no such process")

// readProcess reads the state of one process.
func readProcess(pid int) (process, error) {
	var path [32]byte
	var buf [1024]byte
	name := append(strconv.AppendInt(append(path[:0], "/proc/"...), int64(pid), 10), "/stat"...)
	fd, err := unix.Open(string(name), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return process{}, readError(name, err)
	}
	defer func() { _ = unix.Close(fd) }()
	n, err := unix.Read(fd, buf[:])
	if err != nil {
		return process{}, readError(name, err)
	}
	p, ok := parseStat(pid, buf[:n])
	if !ok {
		return process{}, fmt.Errorf("read %s: unknown format", name)
	}
	return p, nil
}

func readError(path []byte, err error) error {
	if err == unix.ENOENT || err == unix.ESRCH {
		return errGone
	}
	return fmt.Errorf("read %s: %w", path, err)
}

// exitingFlag is set before a process's files are closed (PF_EXITING,
// linux/sched.h).
const exitingFlag = 0x4

// parseStat reads the fields after the command name, which is in parentheses and may
// hold any character, including parentheses and spaces.
func parseStat(pid int, b []byte) (process, bool) {
	i := bytes.LastIndexByte(b, ')')
	if i < 0 {
		return process{}, false
	}
	var f [22]string // fields 3 (state) to 24 (rss)
	n := 0
	for field := range strings.FieldsSeq(string(b[i+1:])) {
		if n == len(f) {
			break
		}
		f[n] = field
		n++
	}
	if n < len(f) || len(f[0]) != 1 {
		return process{}, false
	}
	p := process{pid: pid, state: f[0][0]}
	var errs [7]error
	p.parent, errs[0] = strconv.Atoi(f[1])
	p.group, errs[1] = strconv.Atoi(f[2])
	p.session, errs[2] = strconv.Atoi(f[3])
	p.threads, errs[3] = strconv.Atoi(f[17])
	p.start, errs[4] = strconv.ParseUint(f[19], 10, 64)
	p.pages, errs[5] = strconv.ParseInt(f[21], 10, 64)
	flags, err := strconv.ParseUint(f[6], 10, 64)
	errs[6] = err
	p.exiting = flags&exitingFlag != 0 || p.gone()
	for _, field := range f[11:15] { // utime, stime, cutime, cstime
		n, err := strconv.ParseUint(field, 10, 64)
		p.cpu += n
		errs[4] = errors.Join(errs[4], err)
	}
	return p, errors.Join(errs[:]...) == nil
}

// processes reads all processes by id. missed are the ids of processes that were gone
// before they could be read.
func processes() (all map[int]process, missed []int, err error) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, nil, err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, nil, err
	}
	all = make(map[int]process, len(names))
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		p, err := readProcess(pid)
		switch {
		case err == nil:
			all[pid] = p
		case errors.Is(err, errGone):
			missed = append(missed, pid)
		}
	}
	return all, missed, nil
}

// ownedByUs reports whether a process's real or saved user id is this program's. These
// two decide whether it may be signalled (kill(2)). For root it reports true, because
// root's children may have become other users.
func ownedByUs(pid int) bool {
	if os.Geteuid() == 0 {
		return true
	}
	uids := readStatus(pid).words("Uid") // real, effective, saved, file system
	us := strconv.Itoa(os.Geteuid())
	return len(uids) == 4 && (uids[0] == us || uids[2] == us)
}

// status is the content of /proc/PID/status, or empty if there is no such process.
type status string

func readStatus(pid int) status { return status(procText(pid, "status")) }

// procText reads a file of /proc/PID. It returns "" if it cannot.
func procText(pid int, name string) string {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/" + name)
	if err != nil {
		return ""
	}
	return string(b)
}

// words returns the words of a line, or none if there is no such line.
func (s status) words(name string) []string {
	_, rest, _ := strings.Cut(string(s), "\n"+name+":")
	line, _, _ := strings.Cut(rest, "\n")
	return strings.Fields(line)
}

// ticks returns the time since boot in the unit of process.start, rounded down like it.
// USER_HZ is 100 on every Linux that Go supports.
func ticks() (uint64, error) {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		return 0, fmt.Errorf("read the boot clock: %w", err)
	}
	return uint64(ts.Sec)*100 + uint64(ts.Nsec)/10_000_000, nil
}

// bootID returns an identifier that changes with each boot, or "" if it is unknown.
func bootID() string {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}
