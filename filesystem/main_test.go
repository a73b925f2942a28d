package filesystem_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/deskhand/deskhand/filesystem"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// open opens a file system until the test ends.
func open(tb testing.TB, config filesystem.Config) *filesystem.FS {
	tb.Helper()
	f, err := filesystem.Open(config)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := f.Close(); err != nil {
			tb.Error(err)
		}
	})
	return f
}

// bed is the file system and the directory of a test that runs for both kinds of FS.
type bed struct {
	t   *testing.T
	fs  *filesystem.FS
	dir string
}

// both runs a test on the whole file system and on a narrow root, with a
// directory that is the home of the first and the root of the second.
func both(t *testing.T, test func(b bed)) {
	t.Helper()
	t.Run("whole", func(t *testing.T) {
		t.Parallel()
		dir := realTempDir(t)
		test(bed{t, open(t, filesystem.Config{Home: dir}), dir})
	})
	t.Run("root", func(t *testing.T) {
		t.Parallel()
		dir := realTempDir(t)
		test(bed{t, open(t, filesystem.Config{Roots: []filesystem.Root{{Path: dir}}}), dir})
	})
}

func realTempDir(tb testing.TB) string {
	tb.Helper()
	dir, err := filepath.EvalSymlinks(tb.TempDir())
	if err != nil {
		tb.Fatal(err)
	}
	return dir
}

// must fails the test with an error.
func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// put makes a file and the directories above it, without the FS.
func put(tb testing.TB, name, content string) {
	tb.Helper()
	must(tb, os.MkdirAll(filepath.Dir(name), 0o777))
	must(tb, os.WriteFile(name, []byte(content), 0o666))
}

func wantContent(tb testing.TB, name, want string) {
	tb.Helper()
	got, err := os.ReadFile(name)
	if err != nil {
		tb.Error(err)
	} else if string(got) != want {
		tb.Errorf("%s holds %q, want %q", name, shorten(string(got)), shorten(want))
	}
}

func shorten(s string) string {
	if len(s) > 100 {
		return fmt.Sprintf("%s... (%d bytes)", s[:100], len(s))
	}
	return s
}

func wantMissing(tb testing.TB, name string) {
	tb.Helper()
	if _, err := os.Lstat(name); !errors.Is(err, fs.ErrNotExist) {
		tb.Errorf("%s is there (%v)", name, err)
	}
}

// wantError checks that an error is an *Error of a kind, and that its text contains the words.
func wantError(tb testing.TB, err, kind error, words ...string) {
	tb.Helper()
	if !errors.Is(err, kind) {
		tb.Errorf("error %v, want %v", err, kind)
		return
	}
	e := (*filesystem.Error)(nil)
	if !errors.As(err, &e) {
		tb.Errorf("error is a %T, want *filesystem.Error", err)
		return
	}
	if e.Op == "" || e.Reason == "" {
		tb.Errorf("incomplete error %#v", e)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			tb.Errorf("error %q does not contain %q", err, w)
		}
	}
}

// names lists a directory without the FS.
func names(tb testing.TB, dir string) []string {
	tb.Helper()
	entries, err := os.ReadDir(dir)
	must(tb, err)
	list := make([]string, 0, len(entries))
	for _, e := range entries {
		list = append(list, e.Name())
	}
	return list
}

// snapshot describes all entries below a directory: modes, content, links.
func snapshot(tb testing.TB, dir string) map[string]string {
	tb.Helper()
	all := make(map[string]string)
	must(tb, filepath.WalkDir(dir, func(name string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		text := info.Mode().String()
		switch info.Mode().Type() {
		case 0:
			content, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			text += " " + string(content)
		case fs.ModeSymlink:
			target, err := os.Readlink(name)
			if err != nil {
				return err
			}
			text += " " + target
		default:
		}
		all[strings.TrimPrefix(name, dir)] = text
		return nil
	}))
	return all
}

// childVariable is set in a child process that runs a test again: see again.
const childVariable = "FILESYSTEM_TEST_CHILD"

func isChild() bool { return os.Getenv(childVariable) != "" }

// again runs the test in a child process with the attributes, and fails if the child fails. It
// skips the test if the system does not allow such a child.
func again(t *testing.T, attributes *syscall.SysProcAttr, env ...string) {
	t.Helper()
	// A child of any user can execute this path.
	cmd := exec.Command("/proc/self/exe", "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(append(os.Environ(), childVariable+"=1", "GORACE=atexit_sleep_ms=0"), env...)
	cmd.SysProcAttr = attributes
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	out, err := cmd.CombinedOutput()
	text := string(out)
	switch {
	case errors.Is(err, syscall.EPERM), errors.Is(err, syscall.EINVAL), errors.Is(err, syscall.ENOSPC):
		t.Skipf("not permitted here: %v", err)
	case err != nil:
		t.Fatalf("%v\n%s", err, text)
	case strings.Contains(text, "--- SKIP"):
		t.Skip(text)
	case !strings.Contains(text, "--- PASS: "+t.Name()):
		t.Fatalf("the test did not run in the child:\n%s", text)
	}
}

// inNamespace reports whether the test runs in its own mount namespace. If not, it runs the
// test again in one.
func inNamespace(t *testing.T) bool {
	t.Helper()
	if isChild() {
		must(t, unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""))
		return true
	}
	attributes := &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
	if os.Geteuid() != 0 {
		attributes.Cloneflags |= syscall.CLONE_NEWUSER
		attributes.UidMappings = []syscall.SysProcIDMap{{HostID: os.Geteuid(), Size: 1}}
		attributes.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getegid(), Size: 1}}
	}
	again(t, attributes)
	return false
}

// mount mounts a file system in a child of inNamespace until the test ends.
func mount(t *testing.T, source, target, kind string, flags uintptr, data string) {
	t.Helper()
	if err := unix.Mount(source, target, kind, flags, data); err != nil {
		t.Skipf("mount %s: %v", kind, err)
	}
	t.Cleanup(func() { _ = unix.Unmount(target, unix.MNT_DETACH) })
}

// bind mounts a file or directory on another, as in inNamespace.
func bind(t *testing.T, source, target string) {
	t.Helper()
	mount(t, source, target, "", unix.MS_BIND, "")
}

// noRights is the id of a user without rights.
const noRights = 65534

// unprivileged reports whether the test runs as an unprivileged user. If it runs as root, it
// runs the test again as noRights.
func unprivileged(t *testing.T) bool {
	t.Helper()
	if os.Geteuid() != 0 {
		return true
	}
	dir := t.TempDir()
	must(t, os.Chown(dir, noRights, noRights))
	must(t, os.Chmod(filepath.Dir(dir), 0o755))
	again(t, &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: noRights, Gid: noRights}}, "TMPDIR="+dir)
	return false
}

// soak returns the factor by which the long tests run longer than usual: DESKHAND_SOAK, which
// make soak sets to 10.
func soak() int {
	n, err := strconv.Atoi(os.Getenv("DESKHAND_SOAK"))
	if err != nil || n < 1 {
		return 1
	}
	return n
}
