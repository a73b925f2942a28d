package supervise

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
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
// Do changes the rights of one thread (setfsuid(2)), which runs nothing else until Do has
// restored them. The thread's real user stays, so the other user can neither signal nor
// trace this program.
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
		// While the thread is locked, the runtime starts no other thread from it.
		runtime.LockOSThread()
		if unix.Gettid() == unix.Getpid() {
			// The first thread cannot end. While this goroutine holds it, the next
			// goroutine gets another one.
			defer runtime.UnlockOSThread()
			err = u.Do(f)
			return
		}
		before, unread := readRights()
		if unread != nil {
			runtime.UnlockOSThread()
			err = unread
			return
		}
		defer func() {
			// The runtime ends a thread that is still locked with its goroutine. At the limit
			// of processes no other thread could replace it, so threads with all their rights
			// are kept.
			if KeepConcealed(before.restore) == nil {
				runtime.UnlockOSThread()
			}
		}()
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

// rights are what [User.Do] changes of a thread. The calls below are made directly, because the
// functions of package syscall change all threads.
type rights struct {
	groups   []uint32
	uid, gid uint32 // for files
	caps     [2]unix.CapUserData
}

// readRights returns the rights of the calling thread.
func readRights() (r rights, err error) {
	groups, err := unix.Getgroups()
	if err != nil {
		return r, os.NewSyscallError("getgroups", err)
	}
	for _, id := range groups {
		r.groups = append(r.groups, uint32(id)) //nolint:gosec // ids have 32 bits
	}
	r.uid, r.gid = fileID(unix.SYS_SETFSUID), fileID(unix.SYS_SETFSGID)
	header := capHeader()
	return r, os.NewSyscallError("capget", unix.Capget(&header, &r.caps[0]))
}

// fileID returns an id of the calling thread for files. The call with an invalid id returns the
// present one.
func fileID(call uintptr) uint32 {
	now, _, _ := unix.RawSyscall(call, ^uintptr(0), 0, 0)
	return uint32(now) //nolint:gosec // ids have 32 bits
}

func capHeader() unix.CapUserHeader {
	return unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3} // of this thread
}

// restore gives the calling thread the rights, and returns an error unless it then has exactly
// these. The ids of files come first: as root's, they raise capabilities. The groups need one.
func (r rights) restore() error {
	_, _, _ = unix.RawSyscall(unix.SYS_SETFSUID, uintptr(r.uid), 0, 0)
	_, _, _ = unix.RawSyscall(unix.SYS_SETFSGID, uintptr(r.gid), 0, 0)
	header := capHeader()
	_ = unix.Capset(&header, &r.caps[0])
	_ = setThreadGroups(r.groups)
	now, err := readRights()
	if err != nil {
		return err
	}
	if !slices.Equal(now.groups, r.groups) || now.uid != r.uid || now.gid != r.gid || now.caps != r.caps {
		return errors.New("supervise: the rights of a thread could not be restored")
	}
	return nil
}

func setThreadGroups(groups []uint32) error {
	_, _, e := unix.RawSyscall(unix.SYS_SETGROUPS, uintptr(len(groups)), uintptr(unsafe.Pointer(unsafe.SliceData(groups))), 0)
	if e != 0 {
		return os.NewSyscallError("setgroups", e)
	}
	return nil
}

// assume gives the calling thread the user's rights to files.
func (u User) assume() error {
	c := u.Credential
	groups := c.Groups
	if len(groups) == 0 {
		groups = []uint32{c.Gid}
	}
	if err := setThreadGroups(groups); err != nil {
		return fmt.Errorf("rights of user %.40q: %w", u.Name, err)
	}
	for _, set := range []struct {
		call   uintptr
		wanted uint32
		name   string
	}{{unix.SYS_SETFSGID, c.Gid, "setfsgid"}, {unix.SYS_SETFSUID, c.Uid, "setfsuid"}} {
		_, _, _ = unix.RawSyscall(set.call, uintptr(set.wanted), 0, 0) // reports no error
		if fileID(set.call) != set.wanted {
			return fmt.Errorf("rights of user %.40q: %w", u.Name, os.NewSyscallError(set.name, unix.EPERM))
		}
	}
	if err := dropCapabilities(); err != nil {
		return fmt.Errorf("rights of user %.40q: %w", u.Name, err)
	}
	return nil
}

// dropCapabilities drops the thread's effective capabilities, which alone count for files.
// setfsuid drops only capabilities about files, and leaves others, such as reading other
// processes' folders in /proc. The permitted ones stay for restore.
func dropCapabilities() error {
	header := capHeader()
	var caps [2]unix.CapUserData
	if err := unix.Capget(&header, &caps[0]); err != nil {
		return os.NewSyscallError("capget", err)
	}
	caps[0].Effective, caps[1].Effective = 0, 0
	return os.NewSyscallError("capset", unix.Capset(&header, &caps[0]))
}
