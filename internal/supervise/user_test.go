package supervise

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// otherUser returns another user. It skips the test unless this program is root.
func otherUser(t *testing.T) User {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root may")
	}
	u, err := LookupUser("65534")
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// openTempDir returns a folder that all users may enter, unlike t.TempDir.
func openTempDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "user") //nolint:usetesting // see above
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// Reach and CanStart agree with the kernel.
func TestReach(t *testing.T) {
	t.Parallel()
	u := otherUser(t)
	dir := openTempDir(t)
	file := func(path string, folder, mode fs.FileMode) string {
		path = filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(os.WriteFile(path, []byte("#!/bin/sh\n"), 0o600), os.Chmod(path, mode), os.Chmod(filepath.Dir(path), folder)); err != nil {
			t.Fatal(err)
		}
		return path
	}
	open, unread, closed := file("open/run", 0o755, 0o755), file("unread/run", 0o755, 0o700), file("closed/run", 0o700, 0o755)
	theirs, group := file("theirs/run", 0o700, 0o500), file("group/run", 0o750, 0o750)
	for path, owner := range map[string][2]int{theirs: {65534, 0}, group: {0, int(u.Credential.Gid)}} {
		if err := errors.Join(os.Chown(path, owner[0], owner[1]), os.Chown(filepath.Dir(path), owner[0], owner[1])); err != nil {
			t.Fatal(err)
		}
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink(closed, link); err != nil {
		t.Fatal(err)
	}
	g := newTestGroup(t, GroupConfig{})
	for path, want := range map[string]string{
		open: "", theirs: "", group: "",
		unread: "may not read " + unread,
		closed: "may not enter " + filepath.Dir(closed),
		link:   "so not use " + closed,
	} {
		err := u.CanStart(path, nil)
		if (err == nil) != (want == "") || err != nil && (!strings.Contains(err.Error(), want) || !errors.Is(err, fs.ErrPermission)) {
			t.Errorf("%s: %v, want %q", path, err, want)
		}
		c, started := g.Start(Spec{Path: path, Dir: "/", Credential: u.Credential})
		if (started == nil) != (want == "") {
			t.Errorf("%s: started with %v", path, started)
		}
		if started == nil {
			wait(t, c)
		}
	}
	if err := u.CanStart("/bin/sh", []string{closed}); err == nil {
		t.Error("CanStart did not check the script of an interpreter")
	}
	if err := errors.Join(u.CanStart("/bin/sh", []string{"-c", closed}), u.Reach(filepath.Join(dir, "absent")), User{}.Reach(closed)); err != nil {
		t.Error(err)
	}
}

// TestCheckNotReplaceable checks a file and links in directories that the user can change, and
// in directories that the user cannot change.
func TestCheckNotReplaceable(t *testing.T) {
	t.Parallel()
	u := otherUser(t)
	for name, made := range map[string]struct {
		owner   uint32
		mode    os.FileMode
		refused bool // what is there
		missing bool // what is not there yet is refused
	}{
		"root's":      {0, 0o755, false, false},
		"the user's":  {u.Credential.Uid, 0o755, true, true},
		"everybody's": {0, 0o777, true, true},
		"as /tmp":     {0, 0o777 | os.ModeSticky, false, true},
	} {
		above := t.TempDir()
		below, link := filepath.Join(above, "below"), filepath.Join(t.TempDir(), "link")
		err := errors.Join(os.Chown(above, int(made.owner), 0), os.Chmod(above, made.mode), os.Symlink(below, link), os.Mkdir(below, 0o755))
		if err != nil {
			t.Fatal(err)
		}
		check := func(path string, refused bool) {
			t.Helper()
			err := CheckNotReplaceable(path, User{}, u)
			if (err != nil) != refused || refused && !strings.Contains(err.Error(), `can be changed by user "`+u.Name+`"`) {
				t.Errorf("%s: %s: %v", name, path, err)
			}
		}
		check(above, made.missing) // the sticky bit does not keep the user from making files in it
		check(filepath.Join(above, "a", "state"), made.missing)
		check(filepath.Join(link, "a"), made.refused)
		check(link, made.refused)
		if err := os.Chown(below, int(u.Credential.Uid), 0); err != nil {
			t.Fatal(err)
		}
		check(below, true)
		if err := os.Chmod(below, 0o755|os.ModeSticky); err != nil {
			t.Fatal(err)
		}
		check(below, true)
	}
}

// TestCheckNotReplaceableLinks checks links that lead to nothing yet, and links to links.
func TestCheckNotReplaceableLinks(t *testing.T) {
	t.Parallel()
	u := otherUser(t)
	own, users := t.TempDir(), t.TempDir()
	if err := os.Chown(users, int(u.Credential.Uid), 0); err != nil {
		t.Fatal(err)
	}
	links := 0
	link := func(dir, target string) string {
		links++
		name := filepath.Join(dir, "link"+strconv.Itoa(links))
		if err := os.Symlink(target, name); err != nil {
			t.Fatal(err)
		}
		return name
	}
	missing := filepath.Join(own, "missing")
	loop := filepath.Join(own, "loop")
	if err := os.Symlink(loop, loop); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		path    string
		refused bool
	}{
		"to a missing directory of root's":       {link(own, missing), false},
		"to one by a relative target":            {link(own, "../"+filepath.Base(own)+"/missing"), false},
		"to a missing directory of the user's":   {link(own, filepath.Join(users, "missing")), true},
		"to that by a relative target":           {link(own, "../"+filepath.Base(users)+"/missing"), true},
		"below a link to a missing directory":    {filepath.Join(link(own, filepath.Join(users, "missing")), "a", "b"), true},
		"to a link in a directory of the user's": {link(own, link(users, own)), true},
		"to such a link to a missing directory":  {link(own, link(users, missing)), true},
		"to a link of root's":                    {link(own, link(own, own)), false},
		"to itself":                              {loop, true},
	} {
		if err := CheckNotReplaceable(c.path, u); (err != nil) != c.refused {
			t.Errorf("a link %s: %v", name, err)
		}
	}
}

// A child of another user leads a new session. Its /dev/tty is not the terminal of this
// program, into which it could type.
// TestTempVariable: another user neither enters the directory nor keeps it from its user by making one first.
func TestTempVariable(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can make another user's directory")
	}
	tmp := t.TempDir()
	if err := errors.Join(os.Chmod(filepath.Dir(tmp), 0o711), os.Chmod(tmp, os.ModeSticky|0o777)); err != nil { // as /tmp
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", tmp)
	u := User{Credential: &syscall.Credential{Uid: 65533, Gid: 65533}}
	want := filepath.Join(tmp, "deskhand-65533-programs")
	for _, plant := range []func() error{
		func() error { return nil },
		func() error { return nil }, // it is there
		func() error { return os.Chown(want, 65534, 65534) },
		func() error { return os.Chmod(want, 0o777) },
		func() error {
			return errors.Join(os.Remove(want), os.Symlink("/", want), os.Lchown(want, 65534, 65534))
		},
	} {
		if err := plant(); err != nil {
			t.Fatal(err)
		}
		set, err := u.TempVariable()
		info, statErr := os.Lstat(want)
		if err != nil || !slices.Equal(set, []string{"TMPDIR=" + want}) || statErr != nil {
			t.Fatal(set, err, statErr)
		}
		if st := info.Sys().(*syscall.Stat_t); info.Mode() != os.ModeDir|0o700 || st.Uid != 65533 || st.Gid != 65533 {
			t.Errorf("mode %v of user %d", info.Mode(), st.Uid)
		}
	}
	if info, err := os.Stat("/"); err != nil || info.Mode().Perm() == 0o700 {
		t.Errorf("mode of /: %v, %v", info.Mode(), err)
	}
}

func TestUserTerminal(t *testing.T) {
	t.Parallel()
	u := otherUser(t)
	g := newTestGroup(t, GroupConfig{})
	c := start(t, g, Spec{Path: "sleep", Args: []string{"60"}, Dir: "/", Credential: u.Credential})
	if sid, err := unix.Getsid(c.PID()); err != nil || sid != c.PID() {
		t.Errorf("session %d of process %d, %v", sid, c.PID(), err)
	}
}

func TestLookupUser(t *testing.T) {
	t.Parallel()
	if _, err := LookupUser("no-such-user"); err == nil || !strings.Contains(err.Error(), `user "no-such-user" does not exist here`) {
		t.Errorf("a user that does not exist: %v", err)
	}
	u := otherUser(t)
	env := u.Environ([]string{"HOME=/mine", "XDG_DATA_HOME=/mine/data", "A=1"}, "B=2")
	want := []string{"HOME=" + u.Home, "A=1", "USER=" + u.Name, "LOGNAME=" + u.Name, "B=2"}
	if !slices.Equal(env, want) || u.Root() {
		t.Errorf("environment %q, want %q", env, want)
	}
	for _, name := range []string{"", "root", "0"} {
		if u, err := LookupUser(name); err != nil || u.Credential != nil || !u.Root() {
			t.Errorf("%q: %+v, %v", name, u, err)
		}
	}
}
