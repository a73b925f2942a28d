package supervise

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// mmMap is struct prctl_mm_map of linux/prctl.h.
type mmMap struct {
	startCode, endCode, startData, endData, startBrk, brk, startStack, argStart, argEnd, envStart, envEnd uint64
	auxv                                                                                                  uint64
	auxvSize, exe                                                                                         uint32
}

// playVeil moves the bounds of this process's environment (PR_SET_MM_MAP in prctl(2)):
// beyond the mapped memory, or to 1 GiB with as many forks as SUPERVISE_TEST_HUGE says. Then it
// waits to be killed.
func playVeil() error {
	mapped, length := 4096, uint64(8192)
	forks, err := strconv.Atoi(os.Getenv("SUPERVISE_TEST_HUGE"))
	if err == nil {
		mapped, length = 1<<30, 1<<30
	}
	region, err := unix.Mmap(-1, 0, mapped+1<<16, unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
	if err == nil {
		err = unix.Mprotect(region[:mapped], unix.PROT_READ)
	}
	stat, err2 := os.ReadFile("/proc/self/stat")
	brk, _, errno := unix.Syscall(unix.SYS_BRK, 0, 0, 0)
	if err != nil || err2 != nil || errno != 0 {
		return fmt.Errorf("%w, %w, %w", err, err2, errno)
	}
	fields := strings.Fields(string(stat[strings.LastIndex(string(stat), ")")+1:]))
	field := func(n int) uint64 {
		v, err := strconv.ParseUint(fields[n-3], 10, 64)
		if err != nil {
			panic(err)
		}
		return v
	}
	start := uint64(uintptr(unsafe.Pointer(&region[0])))
	m := mmMap{
		startCode: field(26), endCode: field(27), startData: field(45), endData: field(46), startBrk: field(47), brk: uint64(brk),
		startStack: field(28), argStart: field(48), argEnd: field(49), envStart: start, envEnd: start + length, exe: ^uint32(0),
	}
	if err := unix.Prctl(unix.PR_SET_MM, unix.PR_SET_MM_MAP, uintptr(unsafe.Pointer(&m)), unsafe.Sizeof(m), 0); err != nil {
		return fmt.Errorf("PR_SET_MM_MAP: %w", err)
	}
	for range forks {
		if pid, _, _ := unix.RawSyscall6(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0); pid == 0 {
			for { // the runtime does not work here
				unix.RawSyscall6(unix.SYS_PPOLL, 0, 0, 0, 0, 0, 0)
			}
		}
	}
	fmt.Println("ready")
	select {}
}

// TestVeiledEnvironment searches for processes while the environments of many other processes
// can be read in part only. Each of them may belong in the first search only.
func TestVeiledEnvironment(t *testing.T) {
	t.Parallel()
	g := newTestGroup(t, GroupConfig{})
	tree, out := shell(t, g, `echo "tree $$"; exec sleep 1000`)
	pid := number(t, out.await(t, "tree"))
	veiled := make(map[int]bool)
	for range 30 {
		cmd, ready := role(t, "veil"), &output{}
		cmd.Stdout = ready
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		})
		ready.await(t, "ready")
		veiled[cmd.Process.Pid] = true
	}
	r := &roundup{tags: []tag{tree.tag()}, found: make(map[int]*target)}
	defer r.close()
	for n := range 3 {
		if _, err := r.search(); err != nil {
			t.Fatal(err)
		}
		partial := 0
		for pid := range r.execs {
			if veiled[pid] {
				partial++
			}
		}
		if want := map[bool]int{true: len(veiled)}[n == 0]; partial != want {
			t.Errorf("search %d: %d processes may belong, want %d", n+1, partial, want)
		}
	}
	if err := tree.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantGone(t, pid)
}

// TestHugeEnvironments searches while 41 processes have set the length of their environments to
// 1 GiB. It is not parallel, because it counts what this program allocates and reads.
func TestHugeEnvironments(t *testing.T) {
	cmd, ready := role(t, "veil", "SUPERVISE_TEST_HUGE=40"), &output{}
	cmd.Stdout = ready
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = unix.Kill(-cmd.Process.Pid, unix.SIGKILL)
		_ = cmd.Wait()
	}()
	ready.await(t, "ready")
	if v, _, certain := lineage(cmd.Process.Pid); v != "" || !certain {
		t.Errorf("lineage = %q, certain: %v", v, certain)
	}
	r := &roundup{tags: []tag{{text: newToken()}}, found: make(map[int]*target)}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	read := bytesRead(t)
	if _, err := r.search(); err != nil {
		t.Fatal(err)
	}
	read = bytesRead(t) - read
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > 10<<20 || read > 10<<20 {
		t.Errorf("it read %d MiB and allocated %d MiB", read>>20, n>>20)
	}
}

// bytesRead returns how many bytes this program has read, from files of /proc too.
func bytesRead(t *testing.T) (n int) {
	t.Helper()
	if _, err := fmt.Sscanf(procText(os.Getpid(), "io"), "rchar: %d", &n); err != nil {
		t.Skip("this kernel does not count:", err)
	}
	return n
}

// A search finds a daemon by the token in its environment, even if that is longer than what a
// search reads.
func TestLongEnvironment(t *testing.T) {
	t.Parallel()
	g := newTestGroup(t, GroupConfig{})
	var env []string
	for i := range 1 + mostEnviron/100_000 {
		env = append(env, fmt.Sprintf("V%d=%s", i, strings.Repeat("x", 100_000)))
	}
	// The leader of a process group forks before it can become the leader of a session.
	c := start(t, g, Spec{Path: "setsid", Args: []string{"sleep", "1000"}, Env: append(env, os.Environ()...)})
	wait(t, c)
	daemon := c.Family()
	if len(daemon) != 1 {
		t.Fatalf("Family() = %v, want the daemon", daemon)
	}
	if err := c.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantGone(t, daemon...)
}

func TestValueIn(t *testing.T) {
	t.Parallel()
	const set = GroupVariable + "="
	most := strings.Repeat("t", mostLineage-1)
	for _, tt := range []struct {
		env, want string
		ok        bool
	}{
		{set + "t.1\x00A=1\x00", "t.1", true},
		{"A=1\x00" + set + "t.1\x00B=2\x00", "t.1", true},
		{"A=1\x00" + set + "\x00", "", true},
		{"A=1\x00" + set + "t.1\x00" + set + "u.1\x00", "t.1", true},
		{"\x00\x00\x00" + set + "t.1\x00", "t.1", true},
		{set + most + "\x00", most, true},
		{"A=1\x00" + set + most + "t\x00", "", false},
		{"A=1\x00" + set + "t.1", "", false},
		{"A" + set + "t.1\x00", "", false},
		{"A=1\x00A" + set + "t.1\x00", "", false},
		{"A=1\x00" + GroupVariable + "_=t.1\x00", "", false},
		{"A=1\x00" + GroupVariable, "", false},
		{strings.Repeat("\x00", 1000), "", false},
		{"", "", false},
	} {
		if got, ok := valueIn([]byte(tt.env)); ok != tt.ok || ok && got != tt.want {
			t.Errorf("valueIn(%.60q) = %.60q, %v, want %.60q, %v", tt.env, got, ok, tt.want, tt.ok)
		}
	}
}
