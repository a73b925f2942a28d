package desktop

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/deskhand/deskhand/internal/supervise"
	"github.com/deskhand/deskhand/internal/x11"
)

const (
	// tries is how many display numbers are tried from Config.Display upward.
	tries = 200
	// firstTry is where the search begins if the X server has chosen a number that it cannot use.
	firstTry = 99
)

// startXServer runs Xvfb and returns its display number when it accepts connections.
func (l *lifecycle) startXServer(ctx context.Context, s *session) (int, error) {
	if err := secureSockets(socketDir); err != nil {
		l.log.Warn("another user can replace the sockets of X servers; remove the directory while no X server runs", "directory", socketDir, "error", err)
	}
	l.mu.Lock()
	first := l.display // other programs may know the number of the last session
	l.mu.Unlock()
	if first == 0 {
		number, err := l.tryXServer(ctx, s, 0)
		if !errors.Is(err, errDisplayTaken) {
			return number, err
		}
		first = firstTry
	}
	err := errDisplayTaken
	for n := first; n < first+tries && n <= maxDisplay; n++ {
		if displayTaken(ctx, n) {
			continue
		}
		var number int
		if number, err = l.tryXServer(ctx, s, n); err == nil {
			return number, nil
		}
		if ctx.Err() != nil || !errors.Is(err, errDisplayTaken) {
			return 0, err
		}
	}
	return 0, fmt.Errorf("no free display number from :%d to :%d: %w", first, first+tries-1, err)
}

var errDisplayTaken = errors.New("display number is taken")

// tryXServer runs Xvfb on one display number; 0 lets it choose.
func (p *programs) tryXServer(ctx context.Context, s *session, number int) (int, error) {
	args := []string{
		"-displayfd", "3",
		"-screen", "0", fmt.Sprintf("%dx%dx24", p.cfg.MaxSize.Width, p.cfg.MaxSize.Height),
		"-dpi", strconv.Itoa(p.cfg.DPI),
		"-auth", p.dirs.authority, "-nolisten", "tcp", "-noreset",
		// SECURITY separates clients with an untrusted cookie, of which there are
		// none. It hides the pointer's picture when the program that set it, such
		// as xsetroot, has ended.
		"-extension", "SECURITY",
	}
	if number > 0 {
		args = append([]string{displayName(number)}, args...)
	}
	child, line, err := p.startReady(ctx, supervise.Spec{
		Name: "Xvfb", Path: "Xvfb", Args: args, Env: p.serverEnviron(), Credential: p.serverCredential(),
	})
	if err == nil {
		s.xserver = child
		return strconv.Atoi(line)
	}
	if child != nil && ctx.Err() == nil {
		text := child.Tail()
		if strings.Contains(text, "already active") || strings.Contains(text, "already running") || p.keymapTaken(text) {
			return 0, fmt.Errorf("start Xvfb: :%d: %w%s", number, errDisplayTaken, tail(child))
		}
	}
	return 0, err
}

// keymapFile is the file through which an Xvfb of a user other than root gets its keymap.
var keymapFile = regexp.MustCompile(`server-[0-9]+\.xkm`)

// keymapTaken reports whether an Xvfb complains about its keymap, and another user has made the
// file.
func (p *programs) keymapTaken(complaint string) bool {
	uid := uint32(os.Geteuid()) //nolint:gosec // user ids have 32 bits
	if c := p.user.Credential; c != nil {
		uid = c.Uid
	}
	var st unix.Stat_t
	file := keymapFile.FindString(complaint)
	return file != "" && unix.Lstat(filepath.Join("/tmp", file), &st) == nil && st.Uid != uid
}

// startReady starts a program and returns the line that it writes to its file descriptor 3
// when it is ready. If the program is not ready before ctx ends, startReady stops it and
// returns the child with the error.
func (p *programs) startReady(ctx context.Context, spec supervise.Spec) (child *supervise.Child, line string, err error) {
	ready, w, err := os.Pipe()
	if err != nil {
		return nil, "", fmt.Errorf("start %s: %w", spec.Path, err)
	}
	defer ready.Close()
	spec.Dir, spec.LogPath, spec.ExtraFiles = p.dirs.home, p.dirs.log, []*os.File{w}
	child, err = p.group.Start(spec)
	w.Close()
	if err != nil {
		return nil, "", fmt.Errorf("start %s: %w", spec.Path, err)
	}
	if line, err = readLine(ctx, ready); err != nil {
		_ = child.Stop(context.Background())
		return child, "", fmt.Errorf("start %s: %w%s", spec.Path, err, tail(child))
	}
	return child, line, nil
}

// memberlessGroup is a group without members. It is below 65534 because containers of
// unprivileged users usually have groups below that number only.
const memberlessGroup = 65533

// serverCredential is the credential of the X server: another user, with a group without
// other members. The user's other programs have the user's group, so the kernel does not
// let them trace the X server or take its descriptors (ptrace(2)), and they cannot answer
// this program in its place. They can still end it.
func (p *programs) serverCredential() *syscall.Credential {
	c := p.user.Credential
	if c == nil {
		return nil
	}
	return &syscall.Credential{Uid: c.Uid, Gid: memberlessGroup, Groups: c.Groups}
}

// serverPeer describes the X server's process, so that a connection to another process, with
// which another user has replaced the socket, is refused. It is nil, which accepts every
// process, if the X server runs as the user of this program.
func (p *programs) serverPeer(s *session) *unix.Ucred {
	c := p.serverCredential()
	if c == nil || s.xserver == nil {
		return nil
	}
	return &unix.Ucred{Pid: int32(s.xserver.PID()), Uid: c.Uid, Gid: c.Gid} //nolint:gosec // process numbers have 22 bits
}

// displayTaken reports whether an X server listens on a display. It ignores lock files,
// which Xvfb does not use with -displayfd.
func displayTaken(ctx context.Context, number int) bool {
	var dialer net.Dialer
	c, err := dialer.DialContext(ctx, "unix", socketDir+"/X"+strconv.Itoa(number))
	if err != nil {
		c, err = dialer.DialContext(ctx, "unix", "@"+socketDir+"/X"+strconv.Itoa(number))
	}
	if err != nil {
		return false
	}
	c.Close()
	return true
}

// startBus runs the D-Bus session daemon and returns when it accepts connections. The
// programs that it starts need the display.
func (p *programs) startBus(ctx context.Context, s *session) (*supervise.Child, error) {
	_ = os.Remove(filepath.Join(p.dirs.runtime, "bus")) // of a killed daemon
	child, _, err := p.startReady(ctx, supervise.Spec{
		Name: "dbus", Path: "dbus-daemon",
		Args: []string{"--session", "--nofork", "--nopidfile", "--nosyslog", "--address=" + p.busAddress(), "--print-address=3"},
		Env:  s.env, Credential: p.user.Credential,
	})
	return child, err
}

// startWindowManager runs openbox and returns when it manages windows. It tries again
// because openbox sometimes fails to open a new display.
func (p *programs) startWindowManager(ctx context.Context, s *session) error {
	err := p.writeOpenboxConfig()
	if err != nil {
		return err
	}
	for range 3 {
		var child *supervise.Child
		child, err = p.group.Start(supervise.Spec{
			Name: "openbox", Path: "openbox", Args: []string{"--sm-disable"},
			Env: p.openboxEnviron(s.env), Dir: p.dirs.home, LogPath: p.dirs.log,
			Credential: p.user.Credential,
		})
		if err != nil {
			return fmt.Errorf("start openbox: %w", err)
		}
		s.wm = child
		if err = s.waitWindowManager(ctx); err == nil {
			return nil
		}
		_ = s.wm.Stop(context.Background())
		if ctx.Err() != nil || errors.Is(err, x11.ErrConnClosed) {
			break
		}
	}
	return fmt.Errorf("start openbox: %w%s", err, tail(s.wm))
}

func (s *session) waitWindowManager(ctx context.Context) error {
	ctx, cancel := endWith(ctx, s.wm.Done())
	defer cancel()
	err := s.windows.WaitReady(ctx)
	select {
	case <-s.wm.Done():
		return errors.New("it exited")
	default:
	}
	if cause := context.Cause(ctx); err != nil && cause != nil {
		return cause
	}
	return err
}

// runAutostart runs the user's autostart script of openbox, once per desktop.
func (p *programs) runAutostart(s *session) {
	config := cmp.Or(lookup(s.env, "XDG_CONFIG_HOME"), filepath.Join(p.dirs.home, ".config"))
	script := filepath.Join(config, "openbox", "autostart")
	find := func() error { // only what the user could find
		_, err := os.Stat(script)
		return err
	}
	if p.attached != "" || p.user.Do(find) != nil {
		return
	}
	_, err := p.apps.Start(supervise.Spec{
		Name: "autostart", Path: "sh", Args: []string{script}, Env: s.env, Dir: p.dirs.home, LogPath: p.dirs.log,
		Credential: p.user.Credential,
	})
	if err != nil {
		p.log.Debug("autostart", "error", err)
	}
}

// maxLine bounds a line of a child, in bytes.
const maxLine = 4096

// readLine reads one line from a pipe that a child writes when it is ready. Other programs of the
// desktop's user may have taken the child's end.
func readLine(ctx context.Context, r *os.File) (string, error) {
	stop := context.AfterFunc(ctx, func() { _ = r.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	line, err := bufio.NewReader(io.LimitReader(r, maxLine)).ReadString('\n')
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	if err != nil {
		return "", errors.New("it exited before it was ready")
	}
	return strings.TrimSpace(line), nil
}

// tail returns the end of a child's output, for an error message.
func tail(c *supervise.Child) string {
	text := strings.TrimSpace(c.Tail())
	if text == "" {
		return ""
	}
	if len(text) > 500 {
		text = "..." + text[len(text)-500:]
	}
	return ": " + text
}
