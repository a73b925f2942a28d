package quiesce

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jezek/xgb/res"
	"github.com/jezek/xgb/xproto"
	"golang.org/x/sys/unix"
)

const (
	// busyShare is the part of one processor that programs use which are busy. A caret, a
	// spinner of 16 pixels and GTK's frame clock need a fifth of it.
	busyShare = 4
	// shortTimer is the longest pause of a program that draws pictures at a steady rate.
	shortTimer = 30 * time.Millisecond

	// maxThreads bounds the inspected threads of one program, maxInspected the inspected threads
	// of all programs. Each thread needs two open files.
	maxThreads   = 128
	maxInspected = 1024
	// maxAwake bounds the threads that Awake, sleeps and runDelays look at.
	maxAwake = 4096
)

// inspected is how many threads are being inspected.
var inspected atomic.Int64

// Activity reports what the programs of a display do: the processes of all X clients, and
// their descendants, at most maxFamily. One goroutine uses it.
type Activity struct {
	display  *Display
	programs []program
	focused  focused
	sampled  time.Time
	buf      [4096]byte
}

type program struct {
	pid  int
	used time.Duration // of processors
}

// focused is the program with the focus.
type focused struct {
	pid     int // 0: there is none
	memory  *os.File
	threads []thread // that wait for events
}

// thread is a thread of the program with the focus. Its files are nil if it may not be
// inspected.
type thread struct {
	syscall, status *os.File
	counted         bool // in inspected
	sleeps          uint64
	due             time.Time // when its present sleep ends; zero: open
	short           bool      // that sleep is a short one
}

// NewActivity returns an Activity, which must be closed. Find finds the programs.
func NewActivity(d *Display) *Activity { return &Activity{display: d} }

// Close frees the files.
func (a *Activity) Close() {
	a.focused.close()
}

func (f *focused) close() {
	for _, t := range f.threads {
		if t.counted {
			inspected.Add(-1)
		}
		_, _ = t.syscall.Close(), t.status.Close() // nil is an error
	}
	_ = f.memory.Close()
	*f = focused{}
}

// Find looks for programs, and for those that have started since the last call. There are
// none if the X server does not report the processes of its clients.
func (a *Activity) Find() error {
	if !a.display.ClientPIDs {
		return nil
	}
	first := len(a.programs) == 0
	focus := xproto.GetInputFocus(a.display.X)
	// X-Resource 1.2, XResQueryClientIds of all clients.
	clients := res.QueryClientIds(a.display.X, 1, []res.ClientIdSpec{{Mask: res.ClientIdMaskLocalClientPID}})
	f, err := focus.Reply()
	if err != nil {
		return err
	}
	c, err := clients.Reply()
	if err != nil {
		return err
	}
	focused := uint32(f.Focus) &^ xproto.Setup(a.display.X).ResourceIdMask
	for _, id := range c.Ids {
		if id.Spec.Client == 0 || id.Spec.Mask&res.ClientIdMaskLocalClientPID == 0 || len(id.Value) == 0 || id.Value[0] == 0 {
			continue // 0 is the X server
		}
		a.add(int(id.Value[0]))
		if id.Spec.Client == focused {
			a.focus(int(id.Value[0]))
		}
	}
	a.addDescendants()
	if first {
		a.Busy(time.Now())
	}
	return nil
}

func (a *Activity) addDescendants() {
	for i := 0; i < len(a.programs) && len(a.programs) < maxFamily; i++ {
		for _, child := range childrenOf(a.programs[i].pid) {
			a.add(child)
		}
	}
}

func (a *Activity) add(pid int) {
	if len(a.programs) < maxFamily && pid != os.Getpid() && !slices.ContainsFunc(a.programs, func(p program) bool { return p.pid == pid }) {
		a.programs = append(a.programs, program{pid: pid})
	}
}

// focus selects the process whose timers count: the timers of its main thread or, if that does
// not wait for events, as in Java, the timers of all threads.
func (a *Activity) focus(pid int) {
	if a.focused.pid == pid {
		return
	}
	a.focused.close()
	dir := "/proc/" + strconv.Itoa(pid) + "/"
	memory, _ := os.Open(dir + "mem")
	a.focused = focused{pid: pid, memory: memory, threads: []thread{openThread(dir)}}
	if line, err := os.ReadFile(dir + "syscall"); err == nil {
		if _, waits, _ := sleepTime(line, memory); waits {
			return
		}
	}
	tasks, _ := firstNames(dir+"task", maxThreads+1)
	if len(tasks) > maxThreads {
		a.focused.threads = append(a.focused.threads, thread{}) // what the others wait for is not known
		return
	}
	for _, task := range tasks {
		if task != strconv.Itoa(pid) {
			a.focused.threads = append(a.focused.threads, openThread(dir+"task/"+task+"/"))
		}
	}
}

// firstNames returns the first names in a directory.
func firstNames(dir string, most int) ([]string, error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	names, err := d.Readdirnames(most)
	if errors.Is(err, io.EOF) { // there are none
		err = nil
	}
	return names, err
}

// openThread opens the files of a thread, unless too many threads are being inspected.
func openThread(dir string) (t thread) {
	t.counted = true
	if inspected.Add(1) > maxInspected {
		return t
	}
	t.syscall, _ = os.Open(dir + "syscall")
	t.status, _ = os.Open(dir + "status")
	return t
}

// processorTime returns how long the threads of a process have run (clock_getcpuclockid(3)),
// or zero if it has exited.
func processorTime(pid int) time.Duration {
	const wholeProcess = 2 // CPUCLOCK_SCHED in the kernel's posix-timers.h
	var t unix.Timespec
	if unix.ClockGettime(int32(^pid<<3|wholeProcess), &t) != nil {
		return 0
	}
	return time.Duration(t.Nano())
}

// Busy reports whether the programs have used much of a processor since the last call.
func (a *Activity) Busy(now time.Time) bool {
	var used time.Duration
	for i := range a.programs {
		p := &a.programs[i]
		t := processorTime(p.pid)
		used, p.used = used+max(t-p.used, 0), t
	}
	span := now.Sub(a.sampled)
	a.sampled = now
	return used*busyShare > span
}

// Awake reports whether a thread of a program runs, or waits for a processor or a disk. It looks at
// the first maxAwake threads.
func (a *Activity) Awake() bool {
	left := maxAwake
	for i := 0; i < len(a.programs) && left > 0; i++ {
		dir := "/proc/" + strconv.Itoa(a.programs[i].pid) + "/task/"
		threads, _ := firstNames(dir, left)
		left -= len(threads)
		for _, thread := range threads {
			status, err := os.ReadFile(dir + thread + "/status")
			if err != nil {
				continue // it has ended
			}
			if _, state := parseStatus(status); strings.IndexByte("SIZX", state) < 0 { // see sleeps
				return true
			}
		}
	}
	return false
}

// Timer reports whether the program with the focus sleeps until a time before by, or for a
// short time, as a program does that draws pictures at a steady rate. known is false if the
// process may not be inspected.
func (a *Activity) Timer(now, by time.Time) (pending, short, known bool) {
	known = len(a.programs) > 0
	for i := range a.focused.threads {
		t := &a.focused.threads[i]
		known = a.inspect(t, now) && known
		if !t.due.IsZero() && t.due.Before(by) {
			pending, short = pending || !t.short, short || t.short
		}
	}
	return pending, short, known
}

// inspect reads how long a thread sleeps (proc(5)). It returns false if the kernel does not
// report that.
func (a *Activity) inspect(t *thread, now time.Time) bool {
	if t.status == nil || t.syscall == nil || a.focused.memory == nil {
		return false
	}
	n, _ := t.status.ReadAt(a.buf[:], 0)
	switch count, state := parseStatus(a.buf[:n]); {
	case state == 'Z' || n == 0: // it has exited
		t.due = time.Time{}
		return true
	case count == t.sleeps:
		return true // the same sleep
	default:
		t.sleeps = count
	}
	n, _ = t.syscall.ReadAt(a.buf[:], 0)
	timeout, _, ok := sleepTime(a.buf[:n], a.focused.memory)
	if t.due = now.Add(timeout); timeout < 0 {
		t.due = time.Time{}
	}
	t.short = timeout < shortTimer
	return ok
}

// sleepTime returns the timeout in a line of /proc/PID/syscall, or a negative one if there is
// none, and whether the thread waits for events. ok is false if that cannot be read.
func sleepTime(line []byte, memory *os.File) (timeout time.Duration, waits, ok bool) {
	const none = -1
	var words [7]uint64 // the number of the call, and its arguments
	i := 0
	for word := range bytes.FieldsSeq(line) {
		v, err := strconv.ParseUint(string(word), 0, 64)
		if err != nil {
			return none, false, string(word) == "running" || string(word) == "-1" // not in a call
		}
		if words[i] = v; i == len(words)-1 {
			break
		}
		i++
	}
	if i < len(words)-1 || strconv.IntSize < 64 {
		return none, false, false
	}
	args, address := words[1:], uint64(0)
	switch words[0] {
	case callPoll:
		return time.Duration(int32(args[2])) * time.Millisecond, true, true
	case callEpollWait, unix.SYS_EPOLL_PWAIT:
		return time.Duration(int32(args[3])) * time.Millisecond, true, true
	case unix.SYS_PPOLL:
		address = args[2]
	case unix.SYS_PSELECT6:
		address = args[4]
	default:
		return none, false, true
	}
	if address == 0 {
		return none, true, true
	}
	timeout, ok = timespecAt(memory, address)
	return timeout, true, ok
}

// timespecAt reads a struct timespec of two 64-bit numbers.
func timespecAt(memory *os.File, address uint64) (time.Duration, bool) {
	var b [16]byte
	if _, err := memory.ReadAt(b[:], int64(address)); err != nil {
		return 0, false
	}
	order := binary.NativeEndian
	seconds := min(order.Uint64(b[:]), 1<<20)
	return time.Duration(seconds)*time.Second + time.Duration(order.Uint64(b[8:])), true
}
