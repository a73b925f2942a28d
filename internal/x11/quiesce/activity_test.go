package quiesce

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestSleepTime(t *testing.T) {
	t.Parallel()
	if runtime.GOARCH != "amd64" {
		t.Skip("the numbers of system calls are for amd64")
	}
	path := filepath.Join(t.TempDir(), "memory")
	var spec [24]byte
	binary.NativeEndian.PutUint64(spec[8:], 2)
	binary.NativeEndian.PutUint64(spec[16:], 5e8)
	if err := os.WriteFile(path, spec[:], 0o600); err != nil {
		t.Fatal(err)
	}
	memory, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer memory.Close()
	const none, rest = -1, " 0x0 0x0 0x7ffc9a7d0000 0x7f1200000000"
	for line, want := range map[string]struct {
		timeout   time.Duration
		waits, ok bool
	}{
		fmt.Sprintf("%d 0x55 0x3 0x5f 0x0", unix.SYS_POLL) + rest:                 {95 * time.Millisecond, true, true},
		fmt.Sprintf("%d 0x55 0x3 0xffffffff 0x0", unix.SYS_POLL) + rest:           {-time.Millisecond, true, true},
		fmt.Sprintf("%d 0x55 0x3 0x10 0x64", unix.SYS_EPOLL_WAIT) + rest:          {100 * time.Millisecond, true, true},
		fmt.Sprintf("%d 0x55 0x3 0x8 0x0", unix.SYS_PPOLL) + rest:                 {2500 * time.Millisecond, true, true},
		fmt.Sprintf("%d 0x55 0x3 0x0 0x0", unix.SYS_PPOLL) + rest:                 {none, true, true},
		fmt.Sprintf("%d 0x55 0x3 0x999999 0x0", unix.SYS_PPOLL) + rest:            {0, true, false},
		fmt.Sprintf("%d 0x55 0x0 0x0 0x0 0x8 0x0 0x7ffc 0x7f", unix.SYS_PSELECT6): {2500 * time.Millisecond, true, true},
		fmt.Sprintf("%d 0x55 0x80 0x0 0x0", unix.SYS_FUTEX) + rest:                {none, false, true},
		"running":              {none, false, true},
		"-1 0x7ffc9a7d 0x7f12": {none, false, true},
		"7 0x55":               {none, false, false},
		"":                     {none, false, false},
	} {
		timeout, waits, ok := sleepTime([]byte(line), memory)
		if timeout != want.timeout || waits != want.waits || ok != want.ok {
			t.Errorf("%q: %v, %v, %v, want %+v", line, timeout, waits, ok, want)
		}
	}
}

func TestProcessorTime(t *testing.T) {
	t.Parallel()
	before := processorTime(os.Getpid())
	for begin := time.Now(); processorTime(os.Getpid()) < before+5*time.Millisecond; {
		if time.Since(begin) > 10*time.Second {
			t.Fatalf("%v of processor time after 10 s of work", processorTime(os.Getpid())-before)
		}
	}
	if used := processorTime(1 << 22); used != 0 {
		t.Errorf("a process that does not exist has used %v", used)
	}
}

// TestActivity: a process that computes is busy and awake.
func TestActivity(t *testing.T) {
	t.Parallel()
	a := Activity{programs: []program{{pid: os.Getpid()}}}
	begin := time.Now()
	for a.Busy(begin); ; {
		since := time.Now()
		for time.Since(since) < 5*time.Millisecond {
		}
		if a.Busy(time.Now()) {
			break
		}
		if time.Since(begin) > 10*time.Second { // the machine runs others first
			t.Fatal("a process that computes is not busy")
		}
	}
	if !a.Awake() {
		t.Error("a process that computes is not awake")
	}
}

// TestManyProcesses: a program has more processes, and more threads, than are looked at.
func TestManyProcesses(t *testing.T) {
	t.Parallel()
	cmd := exec.Command("sh", "-c", fmt.Sprintf(`exec 3<&0; i=0; while [ $i -lt %d ]; do (read x <&3) & i=$((i+1)); done; echo; read x`, maxFamily+20))
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = in.Close(), cmd.Wait() }()
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	pid := cmd.Process.Pid
	until(t, "as many processes of the program as are looked at", func() bool { return len(helpers(pid)) >= maxFamily })
	if n := len(helpers(pid)); n > maxFamily {
		t.Errorf("the program has %d processes, want at most %d", n, maxFamily)
	}
	a := Activity{programs: []program{{pid: pid}}}
	if a.addDescendants(); len(a.programs) != maxFamily {
		t.Errorf("%d processes are looked at, want %d", len(a.programs), maxFamily)
	}
	until(t, "program that sleeps", func() bool { return !a.Awake() })
	a.programs = append(slices.Repeat([]program{{pid: pid}}, maxAwake), program{pid: os.Getpid()})
	if a.Awake() {
		t.Errorf("more than %d threads are looked at", maxAwake)
	}
	many := slices.Repeat([]int{pid}, maxAwake)
	if counts, err := sleeps(many...); err != nil || len(counts) != maxAwake {
		t.Errorf("sleeps of %d threads: %d, %v", maxAwake, len(counts), err)
	}
	if counts, err := sleeps(append(many, pid)...); err != nil || counts != nil {
		t.Errorf("sleeps of more than %d threads: %d, %v, want none", maxAwake, len(counts), err)
	}
	if all := runDelays(append(many, os.Getpid())); len(all) > 1 {
		t.Errorf("the delays of more than %d threads are read", maxAwake)
	}
}

// TestManyThreads checks that a program with many threads does not use the open files up.
func TestManyThreads(t *testing.T) {
	stop := make(chan struct{})
	var begun, ended sync.WaitGroup
	defer ended.Wait()
	defer close(stop)
	add := func(threads int) {
		for range threads {
			begun.Add(1)
			ended.Go(func() {
				runtime.LockOSThread()
				defer runtime.UnlockOSThread()
				begun.Done()
				<-stop
			})
		}
		begun.Wait()
	}
	files := func() int {
		entries, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(entries)
	}
	before := files()
	check := func(most int) {
		t.Helper()
		all := make([]Activity, 20)
		for i := range all {
			all[i].focus(os.Getpid())
		}
		if n := files() - before; n > most+2*len(all) {
			t.Errorf("%d files are open", n)
		}
		for i := range all {
			all[i].Close()
		}
		if n := files(); n > before+4 || inspected.Load() != 0 {
			t.Errorf("%d files and %d threads are left", n-before, inspected.Load())
		}
	}
	add(90)
	check(2 * maxInspected)
	add(2 * maxThreads)
	check(2 * 20)
}
