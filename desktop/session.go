package desktop

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/deskhand/deskhand/internal/picture"
	"github.com/deskhand/deskhand/internal/supervise"
	"github.com/deskhand/deskhand/internal/x11"
)

// session is one life of the X server and what hangs on it. A desktop gets a
// new one when its X server dies.
type session struct {
	epoch     string // tells observations of this session from others
	startedAt time.Time
	env       []string // of programs on this display

	xserver *supervise.Child // nil when attached
	bus     *supervise.Child // replaced by the recovery goroutine alone
	wm      *supervise.Child // likewise
	wmReady atomic.Bool

	conn      *x11.Conn
	capture   *x11.Capture
	input     *x11.Input
	clipboard *x11.Clipboard
	windows   *x11.Windows
	encoder   picture.Encoder
	unwatch   func()
}

// newSession starts the programs that the desktop consists of and connects to
// them. What it started is ended again when it fails.
func (d *Desktop) newSession(ctx context.Context) (_ *session, err error) {
	epoch := make([]byte, 4)
	_, _ = rand.Read(epoch) // never fails (crypto/rand)
	s := &session{epoch: hex.EncodeToString(epoch), startedAt: time.Now()}
	defer func() {
		if err != nil {
			s.close()
			s.stop()
		}
	}()
	display := d.attached
	if d.attached == "" {
		if display, err = d.startServers(ctx, s); err != nil {
			return nil, err
		}
	}
	s.env = d.environ(display)
	if s.conn, err = x11.Dial(ctx, x11.Config{Display: display, Cookie: d.cookie, Logger: d.log}); err != nil {
		return nil, err
	}
	if d.attached == "" {
		if err := d.prepareScreen(s); err != nil {
			return nil, err
		}
	}
	if s.windows, err = s.conn.NewWindows(); err != nil {
		return nil, err
	}
	if err := d.openParts(ctx, s); err != nil {
		return nil, err
	}
	s.wmReady.Store(true)
	d.follow(s)
	return s, nil
}

// startServers runs D-Bus and the X server, both at once, and returns the
// display.
func (d *Desktop) startServers(ctx context.Context, s *session) (string, error) {
	if err := x11.WriteAuthority(d.dirs.authority, d.cookie); err != nil {
		return "", err
	}
	var both errgroup.Group
	var number int
	both.Go(func() (err error) {
		s.bus, err = d.startBus(ctx)
		return err
	})
	both.Go(func() (err error) {
		number, err = d.startXServer(ctx, s)
		return err
	})
	err := both.Wait()
	return displayName(number), err
}

// prepareScreen brings the screen, which the X server started at the largest
// size that it will ever have, to the wanted one: it can shrink and grow back
// at run time, but never grow beyond the size it began with.
func (d *Desktop) prepareScreen(s *session) error {
	d.mu.Lock()
	size := d.size
	d.mu.Unlock()
	if size != d.cfg.MaxSize {
		if err := s.conn.SetSize(size.Width, size.Height); err != nil {
			return err
		}
	}
	return s.conn.FillRoot(d.cfg.Background)
}

// openParts opens what works on the display, while the window manager starts.
func (d *Desktop) openParts(ctx context.Context, s *session) error {
	var all errgroup.Group
	if d.attached == "" {
		all.Go(func() error { return d.startWindowManager(ctx, s) })
	}
	all.Go(func() (err error) {
		if s.capture, err = s.conn.NewCapture(); err != nil {
			return err
		}
		if s.input, err = s.conn.NewInput(); err != nil {
			return err
		}
		s.clipboard, err = s.conn.NewClipboard()
		return err
	})
	return all.Wait()
}

// follow turns what happens on the display into events.
func (d *Desktop) follow(s *session) {
	s.unwatch = s.windows.Watch(func(e x11.WindowEvent) { d.windowEvent(e) })
	s.clipboard.OnChange(func(sel x11.SelectionName) {
		d.events.emit(Event{Type: EventClipboardChanged, Selection: selectionOf(sel)})
	})
	s.conn.OnResize(func(w, h int) {
		d.mu.Lock()
		d.size = Size{w, h}
		d.mu.Unlock()
		d.events.emit(Event{Type: EventResized, Size: &Size{w, h}})
	})
}

// release lets go of all keys and buttons that this program holds down. The
// server may be hanging: then closing the connection lets go of them.
func (s *session) release() {
	done := make(chan struct{})
	go func() { _ = s.input.ReleaseAll(); close(done) }()
	select {
	case <-done:
	case <-s.conn.Done():
	case <-time.After(time.Second):
	}
}

// close ends the connection and what hangs on it.
func (s *session) close() {
	if s.conn == nil {
		return
	}
	if s.unwatch != nil {
		s.unwatch()
	}
	if s.input != nil && s.connected() {
		s.release()
	}
	_ = s.conn.Close()
	if s.clipboard != nil {
		_ = s.clipboard.Close()
	}
	if s.input != nil {
		_ = s.input.Close()
	}
	if s.capture != nil {
		_ = s.capture.Close()
	}
	s.encoder.Trim()
}

func (s *session) connected() bool {
	select {
	case <-s.conn.Done():
		return false
	default:
		return true
	}
}

// stop ends the programs of a session that is not to be used any more.
func (s *session) stop() {
	for _, c := range []*supervise.Child{s.wm, s.xserver, s.bus} {
		if c != nil {
			_ = c.Stop(context.Background())
		}
	}
}

// tries is how many display numbers are tried from Config.Display upward.
const tries = 200

// startXServer runs Xvfb and returns its display number when it takes
// connections.
func (d *Desktop) startXServer(ctx context.Context, s *session) (int, error) {
	d.mu.Lock()
	first, again := d.display, !d.startedAt.IsZero()
	d.mu.Unlock()
	if first == 0 || again {
		// After a crash the same number is wanted: programs outside know it.
		return d.tryXServer(ctx, s, first)
	}
	var err error
	for n := first; n < first+tries && n <= maxDisplay; n++ {
		if displayTaken(ctx, n) {
			continue
		}
		var number int
		if number, err = d.tryXServer(ctx, s, n); err == nil {
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
func (d *Desktop) tryXServer(ctx context.Context, s *session, number int) (int, error) {
	ready, w, err := os.Pipe()
	if err != nil {
		return 0, fmt.Errorf("start Xvfb: %w", err)
	}
	defer ready.Close()
	args := []string{
		"-displayfd", "3",
		"-screen", "0", fmt.Sprintf("%dx%dx24", d.cfg.MaxSize.Width, d.cfg.MaxSize.Height),
		"-dpi", strconv.Itoa(d.cfg.DPI),
		"-auth", d.dirs.authority, "-nolisten", "tcp", "-noreset",
	}
	if number > 0 {
		args = append([]string{displayName(number)}, args...)
	}
	child, err := d.group.Start(supervise.Spec{
		Name: "Xvfb", Path: "Xvfb", Args: args, Env: d.environ(""), Dir: d.dirs.home,
		LogPath: d.dirs.log, ExtraFiles: []*os.File{w},
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
	if ctx.Err() == nil && strings.Contains(child.Tail(), "already active") {
		return 0, fmt.Errorf("start Xvfb: :%d: %w", number, errDisplayTaken)
	}
	return 0, fmt.Errorf("start Xvfb: %w%s", err, tail(child))
}

// displayTaken tells quickly, for most numbers, what Xvfb would find out. A
// lock file alone says nothing: Xvfb removes stale ones.
func displayTaken(ctx context.Context, number int) bool {
	var dialer net.Dialer
	c, err := dialer.DialContext(ctx, "unix", "/tmp/.X11-unix/X"+strconv.Itoa(number))
	if err != nil {
		c, err = dialer.DialContext(ctx, "unix", "@/tmp/.X11-unix/X"+strconv.Itoa(number))
	}
	if err != nil {
		return false
	}
	c.Close()
	return true
}

// startBus runs the D-Bus session daemon and returns when it takes connections.
func (d *Desktop) startBus(ctx context.Context) (*supervise.Child, error) {
	ready, w, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("start dbus-daemon: %w", err)
	}
	defer ready.Close()
	_ = os.Remove(filepath.Join(d.dirs.runtime, "bus")) // of a killed one
	child, err := d.group.Start(supervise.Spec{
		Name: "dbus", Path: "dbus-daemon",
		Args: []string{"--session", "--nofork", "--nopidfile", "--nosyslog", "--address=" + d.busAddress(), "--print-address=3"},
		Env:  d.environ(d.displayHint()), Dir: d.dirs.home, LogPath: d.dirs.log, ExtraFiles: []*os.File{w},
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

// displayHint is the display for programs that D-Bus activates, when it is
// known before the X server runs.
func (d *Desktop) displayHint() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.display == 0 {
		return ""
	}
	return displayName(d.display)
}

// startWindowManager runs openbox and returns when it manages windows. openbox
// now and then fails to open a display that has just begun: it is tried again.
func (d *Desktop) startWindowManager(ctx context.Context, s *session) error {
	var err error
	for range 3 {
		s.wm, err = d.group.Start(supervise.Spec{
			Name: "openbox", Path: "openbox", Args: []string{"--sm-disable"},
			Env: s.env, Dir: d.dirs.home, LogPath: d.dirs.log,
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

// runAutostart runs the user's ~/.config/openbox/autostart, once per desktop.
func (d *Desktop) runAutostart(s *session) {
	script := filepath.Join(d.dirs.home, ".config", "openbox", "autostart")
	if _, err := os.Stat(script); err != nil || d.attached != "" {
		return
	}
	_, err := d.group.Start(supervise.Spec{
		Name: "autostart", Path: "sh", Args: []string{script}, Env: s.env, Dir: d.dirs.home, LogPath: d.dirs.log,
	})
	if err != nil {
		d.log.Debug("autostart", "error", err)
	}
}

// readLine reads one line from a pipe that a child writes when it is ready.
func readLine(ctx context.Context, r *os.File) (string, error) {
	stop := context.AfterFunc(ctx, func() { _ = r.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	line, err := bufio.NewReader(r).ReadString('\n')
	if ctx.Err() != nil {
		return "", ctx.Err()
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
