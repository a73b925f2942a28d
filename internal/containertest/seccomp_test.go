package containertest

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write deploy/seccomp.json")

// denied are the system calls that deploy/seccomp.json forbids: those that reach
// beyond the container, or that need a capability which containers do not have.
// Docker's own profile forbids them as well. What it forbids and Chromium's sandbox
// needs is not here: clone, clone3, unshare and setns for namespaces, and chroot.
var denied = strings.Fields(`
	acct add_key afs_syscall bdflush bpf break clock_adjtime clock_adjtime64 clock_settime clock_settime64
	create_module delete_module fanotify_init finit_module fsconfig fsmount fsopen fspick ftime get_kernel_syms
	get_mempolicy getpmsg gtty idle init_module io_uring_enter io_uring_register io_uring_setup ioperm iopl kcmp
	kexec_file_load kexec_load keyctl lock lookup_dcookie mbind migrate_pages mount mount_setattr move_mount
	move_pages mpx nfsservctl open_by_handle_at open_tree open_tree_attr pciconfig_iobase pciconfig_read
	pciconfig_write perf_event_open pidfd_getfd pivot_root process_madvise process_vm_readv process_vm_writev
	prof profil putpmsg query_module quotactl quotactl_fd reboot request_key security set_mempolicy
	set_mempolicy_home_node setdomainname sethostname settimeofday ssetmask sgetmask stime stty swapoff swapon
	sysfs syslog _sysctl tuxcall ulimit umount umount2 uselib userfaultfd ustat vhangup vm86 vm86old vserver`)

type profile struct {
	DefaultAction string       `json:"defaultAction"`
	ArchMap       []archNames  `json:"archMap"`
	Syscalls      []syscallSet `json:"syscalls"`
}

type archNames struct {
	Architecture string   `json:"architecture"`
	Others       []string `json:"subArchitectures"`
}

type syscallSet struct {
	Names  []string    `json:"names"`
	Action string      `json:"action"`
	Args   []condition `json:"args"`
}

type condition struct {
	Index int    `json:"index"`
	Value uint64 `json:"value"`
	Op    string `json:"op"`
}

var syscallNumber = regexp.MustCompile(`(?m)^\s+SYS_([A-Z0-9_]+)\s+=`)

// newProfile allows all system calls that golang.org/x/sys knows of, but the denied.
func newProfile(t *testing.T) profile {
	t.Helper()
	dir, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "golang.org/x/sys").Output()
	if err != nil {
		t.Fatal(err)
	}
	conditional := []string{"personality", "socket"}
	var names []string
	for _, arch := range []string{"386", "amd64", "arm", "arm64"} {
		text, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), "unix", "zsysnum_linux_"+arch+".go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range syscallNumber.FindAllSubmatch(text, -1) {
			name := strings.ToLower(string(m[1]))
			if !slices.Contains(denied, name) && !slices.Contains(denied, "_"+name) && !slices.Contains(conditional, name) {
				names = append(names, name)
			}
		}
	}
	// What x/sys leaves out, being specific to ARM.
	names = append(names, "breakpoint", "cacheflush", "set_tls", "get_tls")
	slices.Sort(names)
	allow := func(names []string, args ...condition) syscallSet {
		return syscallSet{Names: names, Action: "SCMP_ACT_ALLOW", Args: append([]condition{}, args...)}
	}
	const vsock = 40 // address family of connections to the hypervisor
	p := profile{
		DefaultAction: "SCMP_ACT_ERRNO",
		ArchMap: []archNames{
			{"SCMP_ARCH_X86_64", []string{"SCMP_ARCH_X86", "SCMP_ARCH_X32"}},
			{"SCMP_ARCH_AARCH64", []string{"SCMP_ARCH_ARM"}},
		},
		Syscalls: []syscallSet{
			allow(slices.Compact(names)),
			allow([]string{"socket"}, condition{0, vsock, "SCMP_CMP_NE"}),
		},
	}
	// Linux, 32 bits of it, both with the layout of uname26, and what asks for the present one.
	for _, persona := range []uint64{0, 8, 0x20000, 0x20008, 0xffffffff} {
		p.Syscalls = append(p.Syscalls, allow([]string{"personality"}, condition{0, persona, "SCMP_CMP_EQ"}))
	}
	return p
}

// TestSeccompProfile compares deploy/seccomp.json with what newProfile makes.
func TestSeccompProfile(t *testing.T) {
	t.Parallel()
	want, err := json.MarshalIndent(newProfile(t), "", "\t")
	if err != nil {
		t.Fatal(err)
	}
	want = append(want, '\n')
	file := filepath.Join("..", "..", "deploy", "seccomp.json")
	if *update {
		if err := os.WriteFile(file, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(file)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("deploy/seccomp.json is not what this test makes (%v); go test ./internal/containertest -run TestSeccompProfile -update writes it", err)
	}
	for _, name := range []string{"clone", "clone3", "unshare", "setns", "chroot", "seccomp", "execve"} {
		if !bytes.Contains(got, []byte(`"`+name+`"`)) {
			t.Errorf("%s is forbidden", name)
		}
	}
}
