package supervise

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Do works as another user while the other threads of this program remain root.
func TestDo(t *testing.T) {
	t.Parallel()
	u := otherUser(t)
	dir := openTempDir(t)
	secret, theirs := filepath.Join(dir, "secret"), filepath.Join(dir, "theirs")
	closed := filepath.Join(dir, "closed")
	err := errors.Join(os.WriteFile(secret, []byte("root's"), 0o600), os.Mkdir(closed, 0o700), os.Mkdir(theirs, 0o700),
		os.Chown(theirs, int(u.Credential.Uid), int(u.Credential.Gid)), os.WriteFile(filepath.Join(closed, "file"), nil, 0o666))
	if err != nil {
		t.Fatal(err)
	}
	var others sync.WaitGroup
	stop := make(chan struct{})
	for range 4 { // the runtime may run these goroutines on any of its threads
		others.Go(func() {
			for {
				if _, err := os.ReadFile(secret); err != nil {
					t.Errorf("another goroutine: %v", err)
					return
				}
				select {
				case <-stop:
					return
				default:
					runtime.Gosched()
				}
			}
		})
	}
	for n := range 50 {
		made := filepath.Join(theirs, strconv.Itoa(n))
		err := u.Do(func() error {
			for what, err := range map[string]error{
				"read":   func() error { _, err := os.ReadFile(secret); return err }(),
				"enter":  func() error { _, err := os.ReadFile(filepath.Join(closed, "file")); return err }(),
				"write":  os.WriteFile(filepath.Join(dir, "new"), nil, 0o600),
				"remove": os.RemoveAll(secret),
				"chown":  os.Chown(theirs, 0, 0),
				"init":   func() error { _, err := os.ReadFile("/proc/1/environ"); return err }(),
			} {
				if !errors.Is(err, fs.ErrPermission) {
					t.Errorf("%s: %v", what, err)
				}
			}
			return os.WriteFile(made, nil, 0o600)
		})
		if err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(made)
		if err != nil {
			t.Fatal(err)
		}
		if owner := info.Sys().(*syscall.Stat_t); owner.Uid != u.Credential.Uid || owner.Gid != u.Credential.Gid { //nolint:forcetypeassert // it is one
			t.Errorf("%s belongs to %d:%d", made, owner.Uid, owner.Gid)
		}
	}
	close(stop)
	others.Wait()
	if err := (User{}).Do(func() error { _, err := os.ReadFile(secret); return err }); err != nil {
		t.Error(err)
	}
}

// Do returns the error and repeats the panic of its function, and keeps no thread with the
// rights of the user.
func TestDoEnds(t *testing.T) {
	t.Parallel()
	u := otherUser(t)
	want := errors.New("of f")
	if err := u.Do(func() error { return want }); !errors.Is(err, want) {
		t.Errorf("error: %v", err)
	}
	if err := u.Do(func() error { runtime.Goexit(); return nil }); err == nil {
		t.Error("no error of a function that did not return")
	}
	func() {
		defer func() {
			if v := recover(); v != "of f" {
				t.Errorf("panic: %v", v)
			}
		}()
		_ = u.Do(func() error { panic("of f") })
	}()
	deadline := time.Now().Add(20 * time.Second)
	for left(t, u) {
		if time.Now().After(deadline) {
			t.Fatal("a thread keeps the user's rights")
		}
		<-time.After(5 * time.Millisecond)
	}
}

// Do ends no thread: at the limit of processes the runtime could not make another one, and would
// end the program. The threads get all their rights back.
func TestDoKeepsThreads(t *testing.T) { //nolint:paralleltest // other calls of Do change rights meanwhile
	u := otherUser(t)
	want := rightsOf(t, os.Getpid())
	threads := make(map[int]bool)
	for n := range 200 {
		err := u.Do(func() error {
			threads[unix.Gettid()] = true
			if n%2 == 0 {
				return fs.ErrInvalid
			}
			return nil
		})
		if (n%2 == 0) != errors.Is(err, fs.ErrInvalid) {
			t.Fatal(err)
		}
	}
	for id := range threads {
		if got := rightsOf(t, id); got != want {
			t.Errorf("thread %d has the rights\n%s, want\n%s", id, got, want)
		}
	}
}

// rightsOf returns the ids and capabilities of a thread of this program, "" if it has ended.
func rightsOf(t *testing.T, id int) (rights string) {
	t.Helper()
	status, err := os.ReadFile("/proc/self/task/" + strconv.Itoa(id) + "/status")
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) {
		return ""
	}
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		switch name, _, _ := strings.Cut(line, ":"); name {
		case "Uid", "Gid", "Groups", "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb":
			rights += line
		}
	}
	return rights
}

// left reports whether a thread of this program has the user's rights.
func left(t *testing.T, u User) bool {
	t.Helper()
	tasks, err := filepath.Glob("/proc/self/task/*/status")
	if err != nil || len(tasks) == 0 {
		t.Fatal(tasks, err)
	}
	for _, task := range tasks {
		status, err := os.ReadFile(task)
		if err == nil && strings.Contains(string(status), "\t"+strconv.Itoa(int(u.Credential.Uid))+"\n") {
			return true
		}
	}
	return false
}

// TestDoKeepsConcealed closes this program's memory to other processes (PR_SET_DUMPABLE). It
// stays closed, whatever fs.suid_dumpable is.
func TestDoKeepsConcealed(t *testing.T) { //nolint:paralleltest // the flag is the program's
	u := otherUser(t)
	before, err := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0)
	if err == nil {
		err = unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	if before == 1 {
		defer func() { _ = unix.Prctl(unix.PR_SET_DUMPABLE, 1, 0, 0, 0) }()
	}
	var calls sync.WaitGroup
	for range 20 {
		calls.Go(func() {
			if err := u.Do(func() error { return nil }); err != nil {
				t.Error(err)
			}
		})
	}
	calls.Wait()
	if now, err := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0); now != 0 || err != nil {
		t.Errorf("the memory is open: %d, %v", now, err)
	}
}
