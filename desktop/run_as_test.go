package desktop_test

import (
	"crypto/rand"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/internal/supervise"
	"github.com/deskhand/deskhand/internal/testlog"
	"github.com/deskhand/deskhand/internal/testx11"
)

// unprivilegedUser is a user without rights; only root may start programs as that.
func unprivilegedUser(t *testing.T) supervise.User {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root may run programs as another user")
	}
	u, err := supervise.LookupUser("www-data")
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// owner returns the user that owns a file or a process.
func owner(t *testing.T, path string) uint32 {
	t.Helper()
	info, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Sys().(*syscall.Stat_t).Uid //nolint:forcetypeassert // it is one
}

// rootOnly is a directory that only root can enter, with a file in it.
func rootOnly(t *testing.T) (dir, file string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "closed")
	file = filepath.Join(dir, "secret")
	if err := errors.Join(os.Mkdir(dir, 0o700), os.WriteFile(file, []byte("root's"), 0o600)); err != nil {
		t.Fatal(err)
	}
	return dir, file
}

// TestRunAsUmask has a server with a strict umask. If openbox could not read its
// configuration, it would use the distribution's, whose menu starts programs.
func TestRunAsUmask(t *testing.T) { //nolint:paralleltest // the umask is the program's
	testx11.Require(t)
	u := unprivilegedUser(t)
	defer syscall.Umask(syscall.Umask(0o077))
	d := start(t, desktop.Config{RunAs: u.Name, StateDir: t.TempDir()})
	shared := filepath.Dir(filepath.Dir(d.Status().Authority))
	for _, name := range []string{"rc.xml", "menu.xml"} {
		if err := u.Do(func() error {
			_, err := os.ReadFile(filepath.Join(shared, "xdg", "openbox", name))
			return err
		}); err != nil {
			t.Error(err)
		}
	}
}

// TestRunAs runs a desktop as another user, and checks the rights of its processes and of a
// terminal on it.
func TestRunAs(t *testing.T) {
	t.Parallel()
	testx11.Require(t, "xterm", "pulseaudio", "pactl")
	u := unprivilegedUser(t)
	_, secret := rootOnly(t)
	var log testlog.Buffer
	d := start(t, desktop.Config{RunAs: u.Name, StateDir: t.TempDir(), Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	st := d.Status()
	for _, path := range []string{st.Home, st.Authority} {
		if got := owner(t, path); got != u.Credential.Uid {
			t.Errorf("%s belongs to %d", path, got)
		}
	}
	if _, err := d.Launch(t.Context(), desktop.Launch{App: "xterm", Wait: true}); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(st.Home, "out")
	line := "{ id -u; id -G; cat " + secret + "; rm -rf " + secret + "; pactl info >/dev/null && echo sound; echo $USER $HOME; stat -c %a $TMPDIR; } > ~/new 2>/dev/null; mv ~/new ~/out\n"
	if err := d.Type(t.Context(), desktop.Type{Text: line}); err != nil {
		t.Fatal(err)
	}
	until(t, "the terminal's answer", func() bool { _, err := os.Stat(out); return err == nil })
	uid := strconv.Itoa(int(u.Credential.Uid))
	if got, want := readFile(t, out), uid+"\n"+uid+"\nsound\n"+u.Name+" "+st.Home+"\n700\n"; got != want {
		t.Errorf("the terminal wrote %q, want %q", got, want)
	}
	if got := readFile(t, secret); got != "root's" {
		t.Errorf("the file of root's is %q", got)
	}
	names := []string{}
	for _, p := range d.Status().Processes {
		if !p.Running { // the trial of Chromium's sandbox
			continue
		}
		names = append(names, p.Name)
		if got := owner(t, "/proc/"+strconv.Itoa(p.PID)); got != u.Credential.Uid {
			t.Errorf("%s runs as %d", p.Name, got)
		}
	}
	slices.Sort(names)
	if got := strings.Join(names, " "); got != "Xvfb dbus openbox pulseaudio xterm" {
		t.Errorf("processes: %s", got)
	}
	if _, err := d.Screenshot(t.Context(), desktop.ScreenshotOptions{}); err != nil {
		t.Error(err)
	}
	if text := log.String(); strings.Contains(text, "without shared memory") {
		t.Errorf("log:\n%s", text)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(st.Home); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the temporary home is there: %v", err)
	}
}

// TestRunAsServer: the desktop's other programs can neither trace the X server nor take its
// connections, such as the connection to this program.
func TestRunAsServer(t *testing.T) {
	t.Parallel()
	testx11.Require(t, "xterm")
	u := unprivilegedUser(t)
	d := start(t, desktop.Config{RunAs: u.Name, StateDir: t.TempDir()})
	var server, manager string
	for _, p := range d.Status().Processes {
		switch p.Name {
		case "Xvfb":
			server = strconv.Itoa(p.PID)
		case "openbox":
			manager = strconv.Itoa(p.PID)
		}
	}
	if got := readFile(t, "/proc/"+server+"/status"); !strings.Contains(got, "\nGid:\t65533\t65533\t65533\t65533\nFDSize") {
		t.Errorf("the X server is not in a group of its own:\n%s", got)
	}
	if _, err := d.Launch(t.Context(), desktop.Launch{App: "xterm", Wait: true}); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(d.Status().Home, "out")
	line := "for p in " + server + " " + manager + "; do cat /proc/$p/environ >/dev/null 2>&1 && echo yes || echo no; done > ~/new; mv ~/new ~/out\n"
	if err := d.Type(t.Context(), desktop.Type{Text: line}); err != nil {
		t.Fatal(err)
	}
	until(t, "the terminal's answer", func() bool { _, err := os.Stat(out); return err == nil })
	if got := readFile(t, out); got != "no\nyes\n" {
		t.Errorf("may look into the X server, and the window manager: %q", got)
	}
}

// TestRunAsWithLinks has the desktop's user put links to files of root's where
// this program writes and reads while the desktop runs.
func TestRunAsWithLinks(t *testing.T) {
	t.Parallel()
	testx11.Require(t, "pulseaudio")
	u := unprivilegedUser(t)
	dir, secret := rootOnly(t)
	d := start(t, desktop.Config{RunAs: u.Name})
	authority := d.Status().Authority
	runtime := filepath.Dir(authority)
	pipe := filepath.Join(dir, "pipe")
	err := errors.Join(syscall.Mkfifo(pipe, 0o600), u.Do(func() error {
		sound := filepath.Join(runtime, "pulse", "sound")
		return errors.Join(os.Remove(authority), os.Symlink(secret, authority), os.Remove(sound), os.Symlink(pipe, sound),
			os.Remove(filepath.Join(runtime, "bus")), os.Symlink(secret, filepath.Join(runtime, "bus")))
	}))
	if err != nil {
		t.Fatal(err)
	}
	if l, err := d.Listen(t.Context()); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("Listen by way of a link: %v, %v", l, err)
	}
	sound := filepath.Join(runtime, "pulse", "sound")
	if err := u.Do(func() error { return errors.Join(os.Remove(sound), os.Symlink("/dev/zero", sound)) }); err != nil {
		t.Fatal(err)
	}
	if l, err := d.Listen(t.Context()); err == nil {
		l.Close()
		t.Error("a device in place of the pipe is listened to")
	}
	sub := d.Subscribe(0)
	defer sub.Close()
	if err := syscall.Kill(pidOf(t, d, "Xvfb"), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	await(t, sub, "restart", ofType(desktop.EventRestarted))
	if got := readFile(t, secret); got != "root's" || owner(t, secret) != 0 {
		t.Errorf("the file of root's is %q", got)
	}
	if got := owner(t, authority); got != u.Credential.Uid {
		t.Errorf("the new authority file belongs to %d", got)
	}
}

// TestRunAsRefused refuses a home that the user cannot make, and unknown users.
func TestRunAsRefused(t *testing.T) {
	t.Parallel()
	u := unprivilegedUser(t)
	dir, _ := rootOnly(t)
	if _, err := desktop.Start(t.Context(), desktop.Config{RunAs: u.Name, Home: filepath.Join(dir, "home")}); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("home in a folder of root's: %v", err)
	}
	if _, err := os.Lstat(filepath.Join(dir, "home")); err == nil {
		t.Error("the home was made")
	}
	var invalid *desktop.InvalidError
	if _, err := desktop.Start(t.Context(), desktop.Config{RunAs: "no-such-user"}); !errors.As(err, &invalid) || invalid.Field != "RunAs" {
		t.Errorf("no such user: %v", err)
	}
	if _, err := desktop.Attach(t.Context(), ":0", desktop.Config{RunAs: u.Name}); !errors.As(err, &invalid) || invalid.Field != "RunAs" {
		t.Errorf("attached: %v", err)
	}
}

// TestRunAsAutostart: a script that only root could find is not started.
func TestRunAsAutostart(t *testing.T) {
	t.Parallel()
	testx11.Require(t)
	u := unprivilegedUser(t)
	_, secret := rootOnly(t)
	home := filepath.Join(os.TempDir(), "deskhand-autostart-"+rand.Text())
	defer os.RemoveAll(home)
	script := filepath.Join(home, ".config", "openbox", "autostart")
	if err := u.Do(func() error {
		return errors.Join(os.MkdirAll(filepath.Dir(script), 0o700), os.Symlink(secret, script))
	}); err != nil {
		t.Fatal(err)
	}
	d := start(t, desktop.Config{RunAs: u.Name, Home: home})
	for _, p := range d.Status().Processes {
		if p.Name == "autostart" {
			t.Errorf("%+v", p)
		}
	}
}
