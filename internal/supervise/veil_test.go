package supervise

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
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
// beyond the mapped memory, or to 1 GiB. Then it waits to be killed.
func playVeil() error {
	mapped, length := 4096, uint64(8192)
	if os.Getenv("SUPERVISE_TEST_VEIL") == "huge" {
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

// TestHugeEnvironment reads the environment of a process that has set its length to
// 1 GiB.
func TestHugeEnvironment(t *testing.T) {
	cmd, ready := role(t, "veil", "SUPERVISE_TEST_VEIL=huge"), &output{}
	cmd.Stdout = ready
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	ready.await(t, "ready")
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if v, _, certain := lineage(cmd.Process.Pid); v != "" || !certain {
		t.Errorf("lineage = %q, certain: %v", v, certain)
	}
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > 100<<20 {
		t.Errorf("it took %d MiB", n>>20)
	}
}
