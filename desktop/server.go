package desktop

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/deskhand/deskhand/internal/supervise"
	"github.com/deskhand/deskhand/internal/x11"
)

// tries is how many display numbers are tried from Config.Display upward.
const tries = 200

// startXServer runs Xvfb and returns its display number when it takes
// connections.
func (l *lifecycle) startXServer(ctx context.Context, s *session) (int, error) {
	if err := secureSockets(socketDir); err != nil {
		l.log.Warn("another user can replace the sockets of X servers; remove the directory while no X server runs", "directory", socketDir, "error", err)
	}
	l.mu.Lock()
	first, again := l.display, !l.startedAt.IsZero()
	l.mu.Unlock()
	if first == 0 {
		return l.tryXServer(ctx, s, 0)
	}
	if again {
		// Programs outside know the number. If somebody took it meanwhile,
		// another one is better than none.
		number, err := l.tryXServer(ctx, s, first)
		if errors.Is(err, errDisplayTaken) {
			return l.tryXServer(ctx, s, 0)
		}
		return number, err
	}
	var err error
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
	ready, w, err := os.Pipe()
	if err != nil {
		return 0, fmt.Errorf("start Xvfb: %w", err)
	}
	defer ready.Close()
	args := []string{
		"-displayfd", "3",
		"-screen", "0", fmt.Sprintf("%dx%dx24", p.cfg.MaxSize.Width, p.cfg.MaxSize.Height),
		"-dpi", strconv.Itoa(p.cfg.DPI),
		"-auth", p.dirs.authority, "-nolisten", "tcp", "-noreset",
		// It keeps clients with an untrusted cookie apart, of which there are
		// none here, and takes the pointer's picture for somebody else's once
		// the program that set it has ended, as xsetroot does at once.
		"-extension", "SECURITY",
	}
	if number > 0 {
		args = append([]string{displayName(number)}, args...)
	}
	child, err := p.group.Start(supervise.Spec{
		Name: "Xvfb", Path: "Xvfb", Args: args, Env: p.serverEnviron(), Dir: p.dirs.home,
		LogPath: p.dirs.log, Credential: p.serverCredential(), ExtraFiles: []*os.File{w},
	})
	w.Close()
	if err != nil {
		return 0, fmt.Errorf("start Xvfb: %w", err)
	}
	line, err := readLine(ctx, ready)
	if err == nil {
		if number, err = strconv.Atoi(line); err == nil {
			s.xserver = child
			return number, nil
		}
	}
	_ = child.Stop(context.Background())
	text := child.Tail()
	if ctx.Err() == nil && (strings.Contains(text, "already active") || strings.Contains(text, "already running")) {
		return 0, fmt.Errorf("start Xvfb: :%d: %w", number, errDisplayTaken)
	}
	return 0, fmt.Errorf("start Xvfb: %w%s", err, tail(child))
}

// lonelyGroup is a group without members. It is below 65534 because containers of
// unprivileged users usually have groups up to there.
const lonelyGroup = 65533

// serverCredential is the credential of the X server: another user, with a group of
// its own. That user's other programs have the user's group, so the kernel does not
// let them trace the X server or take its descriptors (ptrace(2)), and they cannot
// speak to this program in its place. They can still end it.
func (p *programs) serverCredential() *syscall.Credential {
	c := p.user.Credential
	if c == nil {
		return nil
	}
	return &syscall.Credential{Uid: c.Uid, Gid: lonelyGroup, Groups: c.Groups}
}

// serverPeer describes the process with which this program speaks X: the user can
// replace the socket by one of another process. It is nil, which allows any process,
// if there is no other user.
func (p *programs) serverPeer(s *session) *unix.Ucred {
	c := p.serverCredential()
	if c == nil || s.xserver == nil {
		return nil
	}
	return &unix.Ucred{Pid: int32(s.xserver.PID()), Uid: c.Uid, Gid: c.Gid} //nolint:gosec // process numbers have 22 bits
}

// displayTaken tells quickly, for most numbers, what Xvfb would find out. A
// lock file alone says nothing: Xvfb removes stale ones.
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

// startBus runs the D-Bus session daemon and returns when it takes connections.
// It starts after the X server, whose display the programs need that it starts.
func (p *programs) startBus(ctx context.Context, s *session) (*supervise.Child, error) {
	ready, w, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("start dbus-daemon: %w", err)
	}
	defer ready.Close()
	_ = os.Remove(filepath.Join(p.dirs.runtime, "bus")) // of a killed one
	child, err := p.group.Start(supervise.Spec{
		Name: "dbus", Path: "dbus-daemon",
		Args: []string{"--session", "--nofork", "--nopidfile", "--nosyslog", "--address=" + p.busAddress(), "--print-address=3"},
		Env:  s.env, Dir: p.dirs.home, LogPath: p.dirs.log, Credential: p.user.Credential, ExtraFiles: []*os.File{w},
	})
	w.Close()
	if err != nil {
		return nil, fmt.Errorf("start dbus-daemon: %w", err)
	}
	if _, err := readLine(ctx, ready); err != nil {
		_ = child.Stop(context.Background())
		return nil, fmt.Errorf("start dbus-daemon: %w%s", err, tail(child))
	}
	return child, nil
}

// startWindowManager runs openbox and returns when it manages windows. openbox
// now and then fails to open a display that has just begun: it is tried again.
func (p *programs) startWindowManager(ctx context.Context, s *session) error {
	err := p.writeOpenboxConfig()
	if err != nil {
		return err
	}
	for range 3 {
		s.wm, err = p.group.Start(supervise.Spec{
			Name: "openbox", Path: "openbox", Args: []string{"--sm-disable"},
			Env: p.openboxEnviron(s.env), Dir: p.dirs.home, LogPath: p.dirs.log,
			Credential: p.user.Credential,
		})
		if err != nil {
			return fmt.Errorf("start openbox: %w", err)
		}
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
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	over, exited := make(chan struct{}), s.wm.Done()
	defer close(over)
	go func() {
		select {
		case <-exited:
			cancel(errors.New("it exited"))
		case <-over:
		}
	}()
	if err := s.windows.WaitReady(ctx); err != nil {
		if cause := context.Cause(ctx); cause != nil {
			return cause
		}
		return err
	}
	return nil
}

// runAutostart runs the user's autostart script of openbox, once per desktop.
func (p *programs) runAutostart(s *session) {
	config := lookup(s.env, "XDG_CONFIG_HOME")
	if config == "" {
		config = filepath.Join(p.dirs.home, ".config")
	}
	script := filepath.Join(config, "openbox", "autostart")
	if _, err := os.Stat(script); err != nil || p.attached != "" {
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

// readLine reads one line from a pipe that a child writes when it is ready.
func readLine(ctx context.Context, r *os.File) (string, error) {
	stop := context.AfterFunc(ctx, func() { _ = r.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	line, err := bufio.NewReader(r).ReadString('\n')
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	if err != nil {
		return "", errors.New("it exited before it was ready")
	}
	return strings.TrimSpace(line), nil
}

// tail is the end of what a child printed, for an error message.
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
