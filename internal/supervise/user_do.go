package supervise

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Do runs f with the user's rights to files. The kernel checks each file that f
// opens, makes, changes or removes as if the user did it, and new files belong to
// the user. It returns f's error, or an error without calling f if the rights cannot
// be changed. For the zero User, Do just calls f.
//
// f must do its work in the goroutine that calls it and start no child process:
// other goroutines keep the rights of this program. File descriptors that f
// opens keep the user's rights.
//
// Do changes the rights of one thread (setfsuid(2)), which ends with the call and
// runs nothing else. The thread's real user stays, so the other user can neither
// signal nor trace this program.
func (u User) Do(f func() error) error {
	if u.Credential == nil {
		return f()
	}
	done := make(chan struct{})
	err := errors.New("supervise: the work as another user did not return")
	var panicked any
	go func() {
		defer close(done)
		defer func() { panicked = recover() }()
		// The thread is never unlocked, so the runtime ends it with the goroutine, and
		// starts no other thread from it.
		runtime.LockOSThread()
		if unix.Gettid() == unix.Getpid() {
			// The first thread cannot end. While this goroutine holds it, the next
			// goroutine gets another one.
			defer runtime.UnlockOSThread()
			err = u.Do(f)
			return
		}
		result := KeepConcealed(u.assume)
		if result == nil {
			result = f()
		}
		err = result
	}()
	<-done
	if panicked != nil {
		panic(panicked)
	}
	return err
}

// concealing is held while threads change their rights.
var concealing sync.Mutex

// KeepConcealed calls f, which changes the rights of a thread. If the memory of this program was
// closed to other processes (PR_SET_DUMPABLE 0), it is closed afterwards: a change of rights sets
// the flag to fs.suid_dumpable, which may let the kernel write core dumps.
func KeepConcealed(f func() error) error {
	concealing.Lock()
	defer concealing.Unlock()
	dumpable, err := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0)
	if err != nil {
		return os.NewSyscallError("prctl", err)
	}
	err = f()
	if dumpable == 0 {
		err = errors.Join(err, os.NewSyscallError("prctl", unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0)))
	}
	return err
}

// assume gives the calling thread the user's rights to files. It makes the system
// calls directly, because the functions of package syscall change all threads.
func (u User) assume() error {
	c := u.Credential
	groups := c.Groups
	if len(groups) == 0 {
		groups = []uint32{c.Gid}
	}
	if _, _, e := unix.RawSyscall(unix.SYS_SETGROUPS, uintptr(len(groups)), uintptr(unsafe.Pointer(&groups[0])), 0); e != 0 {
		return fmt.Errorf("rights of user %.40q: %w", u.Name, os.NewSyscallError("setgroups", e))
	}
	for _, set := range []struct {
		call   uintptr
		wanted uint32
		name   string
	}{{unix.SYS_SETFSGID, c.Gid, "setfsgid"}, {unix.SYS_SETFSUID, c.Uid, "setfsuid"}} {
		_, _, _ = unix.RawSyscall(set.call, uintptr(set.wanted), 0, 0)
		// The call reports no error. With an invalid id it returns the present id.
		if now, _, _ := unix.RawSyscall(set.call, ^uintptr(0), 0, 0); uint32(now) != set.wanted {
			return fmt.Errorf("rights of user %.40q: %w", u.Name, os.NewSyscallError(set.name, unix.EPERM))
		}
	}
	return u.dropCapabilities()
}

// dropCapabilities drops the thread's effective capabilities. setfsuid drops only
// capabilities about files, and leaves others, such as reading other processes'
// folders in /proc.
func (u User) dropCapabilities() error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3} // of this thread
	var none [2]unix.CapUserData
	if _, _, e := unix.RawSyscall(unix.SYS_CAPSET, uintptr(unsafe.Pointer(&header)), uintptr(unsafe.Pointer(&none[0])), 0); e != 0 {
		return fmt.Errorf("rights of user %.40q: %w", u.Name, os.NewSyscallError("capset", e))
	}
	return nil
}
