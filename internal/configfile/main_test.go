package configfile_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/deskhand/deskhand/internal/configfile"
)

// actAs is the environment variable that makes this test binary another program.
const actAs = "DESKHAND_CONFIGFILE_TEST"

func TestMain(m *testing.M) {
	var err error
	switch os.Getenv(actAs) {
	case "":
		goleak.VerifyTestMain(m)
		return
	case "put":
		err = putMany(os.Args[1], os.Args[2], os.Args[3])
	case "small files":
		err = putSmall(os.Args[1])
	case "holder":
		err = hold(os.Args[1])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// other returns a command that runs this test binary as another program.
func other(t *testing.T, as string, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self, args...)
	cmd.Env = append(os.Environ(), actAs+"="+as)
	cmd.Stderr = new(bytes.Buffer)
	return cmd
}

// putMany sets count entries concurrently. A # in names stands for the number of the entry.
func putMany(file, names, count string) error {
	n, err := strconv.Atoi(count)
	if err != nil {
		return err
	}
	var store configfile.Store
	errs := make(chan error, n)
	for i := range n {
		go func() { errs <- store.Put(ctx(), file, strings.ReplaceAll(names, "#", strconv.Itoa(i)), entry(i)) }()
	}
	for range n {
		if e := <-errs; e != nil {
			err = e
		}
	}
	return err
}

// entry returns a value that differs for each i, and that shows whether two values were mixed.
func entry(i int) json.RawMessage {
	text := string(bytes.Repeat([]byte{byte('a' + i%26)}, 1+i%30))
	return fmt.Appendf(nil, `{"n":%d,"text":%q}`, i, text)
}

// putSmall sets an entry of 64 KiB while files may have 4 KiB. The write fails in the middle, as
// on a full disk.
func putSmall(file string) error {
	signal.Ignore(syscall.SIGXFSZ)
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: 4096, Max: 4096}); err != nil {
		return err
	}
	var store configfile.Store
	return store.Put(ctx(), file, "large", json.RawMessage(`"`+string(bytes.Repeat([]byte("x"), 64<<10))+`"`))
}

// hold locks a directory until its input ends.
func hold(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	if err := syscall.Flock(int(d.Fd()), syscall.LOCK_EX); err != nil {
		return err
	}
	fmt.Println("locked")
	_, err = os.Stdin.Read(make([]byte, 1))
	_ = err // the end of the input is expected
	return nil
}

// asUnprivileged runs f on a thread with the file system rights of an unprivileged user,
// when the tests run as root.
func asUnprivileged(t *testing.T, f func()) {
	t.Helper()
	if os.Geteuid() != 0 {
		f()
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		// Never unlocked, so that the thread ends with the goroutine.
		runtime.LockOSThread()
		for _, set := range []func(int) (int, error){unix.SetfsgidRetGid, unix.SetfsuidRetUid} {
			if _, err := set(65534); err != nil {
				t.Error(err)
				return
			}
		}
		f()
	}()
	<-done
}
