package desktop

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/deskhand/deskhand/internal/supervise"
)

const (
	// soundCallers is how many programs can wait for PulseAudio to start.
	soundCallers = 64

	// soundBuffer is the size of the pipe, in bytes: more than a second.
	soundBuffer = 256 << 10

	// soundTrial is how long PulseAudio must live to count as started.
	soundTrial = time.Second
)

// sound is the sound of a desktop: a PulseAudio that plays into a pipe.
//
// This program opens the socket for programs, and starts PulseAudio with it when the
// first program connects (systemd's socket activation, sd_listen_fds(3)). It also makes
// the pipe, which remains if PulseAudio ends, so that listeners get a pause.
type sound struct {
	d    *Desktop
	work sync.WaitGroup // runServer and read

	mu        sync.Mutex // guards the fields below
	closed    bool
	socket    *os.File         // the socket for programs; nil: there is no sound
	child     *supervise.Child // the present PulseAudio, or the last one
	problem   string
	listeners []*Listener
	pipe      *os.File // nil without listeners
}

func (p *programs) soundDir() string { return filepath.Join(p.dirs.runtime, "pulse") }

// soundSocket is also where programs find PulseAudio by XDG_RUNTIME_DIR alone.
func (p *programs) soundSocket() string { return filepath.Join(p.soundDir(), "native") }

// soundConfig is not in soundDir, because the desktop's user could change it there and make
// PulseAudio load other modules.
func (p *programs) soundConfig() string { return filepath.Join(p.dirs.shared, "pulseaudio.conf") }

func (p *programs) soundPipe() string { return filepath.Join(p.soundDir(), "sound") }

// open prepares sound. A desktop without sound works as well.
func (s *sound) open() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.openLocked(); err != nil {
		s.d.log.Debug("no sound", "error", err)
	}
}

func (s *sound) openLocked() error {
	switch {
	case s.closed:
		return ErrClosed
	case s.socket != nil:
		return nil
	}
	err := s.d.user.Do(s.prepare)
	s.problem = ""
	if err != nil {
		s.problem = err.Error()
		if errors.Is(err, ErrMissingPrograms) {
			s.problem = "pulseaudio is not installed; install it for sound (deskhand install desktop)"
		}
		return err
	}
	s.work.Go(s.runServer)
	return nil
}

// prepare makes the socket and the pipe.
func (s *sound) prepare() error {
	if _, err := supervise.LookPath("pulseaudio", s.d.plainEnviron("DISPLAY")); err != nil {
		return &MissingError{Programs: []string{"pulseaudio"}}
	}
	if err := os.MkdirAll(s.d.soundDir(), 0o700); err != nil {
		return fmt.Errorf("directory for sound: %w", err)
	}
	for _, left := range []string{s.d.soundSocket(), s.d.soundPipe()} { // of a killed program
		if err := os.Remove(left); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("prepare sound: %w", err)
		}
	}
	if err := unix.Mkfifo(s.d.soundPipe(), 0o600); err != nil {
		return fmt.Errorf("pipe for sound: %w", err)
	}
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("socket for sound: %w", err)
	}
	socket := os.NewFile(uintptr(fd), "sound socket") //nolint:gosec // a descriptor is no negative number
	err = unix.Bind(fd, &unix.SockaddrUnix{Name: s.d.soundSocket()})
	if err == nil {
		err = unix.Listen(fd, soundCallers)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("socket for sound: %w", err), socket.Close())
	}
	s.socket = socket
	return nil
}

// writeConfig writes the configuration of PulseAudio. With flat volumes, the default, a
// program can change the volume of all others.
func (s *sound) writeConfig() error {
	path := s.d.soundConfig()
	if err := os.WriteFile(path, []byte("flat-volumes = no\n"), 0o644); err != nil { //nolint:gosec // PulseAudio may run as another user
		return err
	}
	return makeReadable(path)
}

// close ends sound. PulseAudio has ended before, because it would busy-wait after the
// shutdown of the socket.
func (s *sound) close() {
	s.mu.Lock()
	s.closed = true
	socket, pipe := s.socket, s.pipe
	s.pipe = nil
	s.mu.Unlock()
	if socket != nil {
		endAccepts(socket)
	}
	for _, f := range []*os.File{socket, pipe} {
		if f != nil {
			_ = f.Close()
		}
	}
	s.work.Wait()
}

// endAccepts makes a running accept of the socket return, and later ones fail. Close would
// wait for an accept that blocks: programs with a copy of the socket can make it blocking.
func endAccepts(socket *os.File) {
	if raw, err := socket.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { _ = unix.Shutdown(int(fd), unix.SHUT_RDWR) }) //nolint:gosec // descriptors are small
	}
}

func (s *sound) status() SoundStatus {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := SoundStatus{Available: s.socket != nil, Problem: s.problem}
	if s.child != nil {
		select {
		case <-s.child.Done():
		default:
			st.Running = true
		}
	}
	return st
}

// runServer starts PulseAudio when the first program connects, and again when it dies, until
// the desktop is closed.
func (s *sound) runServer() {
	var pause pauses
	var failure *Failure
	for wait := true; ; {
		if wait && s.awaitCaller() != nil || s.d.isClosing() { // close wakes awaitCaller
			return
		}
		if !pause.wait(s.d.closing) {
			return
		}
		begun := time.Now()
		child, err := s.start()
		if err == nil {
			if failure != nil {
				s.d.events.Emit(Event{Type: EventRestarted, Failure: failure})
			}
			select {
			case <-s.d.closing:
				return
			case <-child.Done():
			}
			if s.d.isClosing() {
				return
			}
			err = errors.New("pulseaudio exited" + exitText(child))
		}
		failure = s.fail(err)
		// Otherwise programs would wait forever for a PulseAudio that cannot start.
		s.rejectCallers()
		wait = child == nil || child.Exit().Signal == 0 && time.Since(begun) < soundTrial
	}
}

// fail records a failure of PulseAudio, which does not change the desktop's state.
func (s *sound) fail(err error) *Failure {
	f := &Failure{Code: "pulseaudio_exited", Message: err.Error(), At: time.Now()}
	s.mu.Lock()
	s.problem = f.Message
	s.mu.Unlock()
	s.d.mu.Lock()
	s.d.lastError = f
	s.d.mu.Unlock()
	s.d.log.Debug("sound failed", "error", err)
	s.d.events.Emit(Event{Type: EventFailed, Failure: f})
	return f
}

// awaitCaller waits until a program connects or the socket is closed.
func (s *sound) awaitCaller() error {
	raw, err := s.socket.SyscallConn()
	if err != nil {
		return err
	}
	return raw.Read(called)
}

// called reports whether a program waits for its connection to be accepted.
func called(fd uintptr) bool {
	set := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}} //nolint:gosec // descriptors are small
	n, err := unix.Poll(set, 0)
	return err == nil && n > 0
}

// rejectCallers closes the connections that were not accepted. If a program has made the
// socket blocking, it waits for more connections until close.
func (s *sound) rejectCallers() {
	raw, err := s.socket.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) {
		for range soundCallers {
			c, _, err := unix.Accept4(int(fd), unix.SOCK_CLOEXEC) //nolint:gosec // descriptors are small
			if err != nil {
				return
			}
			_ = unix.Close(c)
		}
	})
}

// start starts PulseAudio, which inherits the socket.
func (s *sound) start() (*supervise.Child, error) {
	if err := s.writeConfig(); err != nil {
		return nil, fmt.Errorf("start pulseaudio: %w", err)
	}
	socket, err := s.copySocket()
	if err != nil {
		return nil, fmt.Errorf("start pulseaudio: %w", err)
	}
	defer socket.Close()
	defer s.unblock()
	child, err := s.d.group.Start(supervise.Spec{
		Name: "pulseaudio", Path: "sh", Env: s.environ(), Dir: s.d.soundDir(), LogPath: s.d.dirs.log,
		Credential: s.d.user.Credential,
		// Only the new process knows its number.
		Args:       append([]string{"-c", `LISTEN_PID=$$ exec pulseaudio "$@"`, "pulseaudio"}, s.args()...),
		ExtraFiles: []*os.File{socket},
	})
	if err != nil {
		return nil, fmt.Errorf("start pulseaudio: %w", err)
	}
	s.mu.Lock()
	s.child, s.problem = child, ""
	s.mu.Unlock()
	return child, nil
}

// copySocket returns a copy of the socket for another process.
func (s *sound) copySocket() (*os.File, error) {
	raw, err := s.socket.SyscallConn()
	if err != nil {
		return nil, err
	}
	var fd int
	var failed error
	err = raw.Control(func(own uintptr) {
		fd, failed = unix.FcntlInt(own, unix.F_DUPFD_CLOEXEC, 0)
	})
	if err := errors.Join(err, failed); err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), "sound socket"), nil //nolint:gosec // a descriptor is no negative number
}

// unblock makes the socket non-blocking again. A copy for a child process is made blocking,
// and shares this flag with the socket.
func (s *sound) unblock() {
	if raw, err := s.socket.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { _ = unix.SetNonblock(int(fd), true) }) //nolint:gosec // descriptors are small
	}
}

// args make PulseAudio a server for this desktop alone, without the configuration of the
// system or the user and without hardware. The device keeps time by the system's clock,
// mixes only while a program plays, and drops samples if the pipe is full.
func (s *sound) args() []string {
	format := fmt.Sprintf("format=s16le rate=%d channels=%d", SoundRate, SoundChannels)
	return []string{
		"-n", "--daemonize=no", "--system=no", "--use-pid-file=no", "--fail=yes",
		"--exit-idle-time=-1", "--disallow-exit=yes", "--disallow-module-loading=yes",
		"--realtime=no", "--high-priority=no", "--disable-shm=yes", "--resample-method=speex-float-1",
		"--log-target=stderr", "--log-level=error",
		"-L", "module-pipe-sink sink_name=desktop sink_properties=device.description=Desktop " + format +
			" use_system_clock_for_timing=yes file=" + quoted(s.d.soundPipe()),
		"-L", "module-suspend-on-idle timeout=1",
		"-L", "module-native-protocol-unix auth-anonymous=yes auth-cookie-enabled=no socket=" + quoted(s.d.soundSocket()),
	}
}

// quoted quotes a module's argument.
func quoted(path string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(path) + `"`
}

func (s *sound) environ() []string {
	dir := s.d.soundDir()
	return supervise.Environ(s.d.plainEnviron("DISPLAY"), "HOME="+dir, "PULSE_RUNTIME_PATH="+dir, "PULSE_STATE_PATH="+dir,
		"PULSE_CONFIG="+s.d.soundConfig(), "DBUS_SESSION_BUS_ADDRESS=disabled:", "LISTEN_FDS=1")
}

// add adds a listener. The first one opens the pipe.
func (s *sound) add(l *Listener) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.openLocked(); err != nil {
		return err
	}
	if s.pipe == nil {
		// For reading and writing, so that PulseAudio need not have the pipe open.
		var pipe *os.File
		err := s.d.user.Do(func() (err error) {
			pipe, err = openPipe(s.d.soundPipe())
			return err
		})
		if err != nil {
			return fmt.Errorf("pipe for sound: %w", err)
		}
		s.pipe = pipe
		s.work.Go(func() { s.read(pipe) })
	}
	s.listeners = append(s.listeners, l)
	return nil
}

// openPipe opens a pipe. It refuses another file, which the desktop's user can put in its
// place: a device such as /dev/zero would never end.
func openPipe(path string) (*os.File, error) {
	pipe, err := os.OpenFile(path, os.O_RDWR|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	info, err := pipe.Stat()
	if err == nil && info.Mode().Type() != fs.ModeNamedPipe {
		err = fmt.Errorf("%s is not a pipe", path)
	}
	if err != nil {
		return nil, errors.Join(err, pipe.Close())
	}
	return pipe, nil
}

func (s *sound) remove(l *Listener) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.listeners = slices.DeleteFunc(s.listeners, func(o *Listener) bool { return o == l })
	if len(s.listeners) == 0 && s.pipe != nil {
		_ = s.pipe.Close() // ends read
		s.pipe = nil
	}
}

// read delivers what PulseAudio writes into the pipe, until the pipe is closed.
func (s *sound) read(pipe *os.File) {
	if err := empty(pipe); err != nil {
		s.d.log.Debug("sound", "error", err)
		return
	}
	c := newSoundCutter(func(samples []int16, at time.Time) { s.deliver(pipe, samples, at) })
	buf := make([]byte, soundBuffer) // each read must empty the pipe, as soundClock expects
	for {
		n, err := pipe.Read(buf)
		if err != nil {
			if !errors.Is(err, os.ErrClosed) {
				s.d.log.Debug("sound", "error", err)
			}
			return
		}
		c.write(buf[:n], time.Now())
	}
}

// empty sets the size of the pipe and discards what was written before there was a
// listener, at most that size, because a program may go on writing.
func empty(pipe *os.File) error {
	raw, err := pipe.SyscallConn()
	if err != nil {
		return err
	}
	return raw.Control(func(fd uintptr) {
		_, _ = unix.FcntlInt(fd, unix.F_SETPIPE_SZ, soundBuffer) // a smaller pipe mostly suffices
		size, _ := unix.FcntlInt(fd, unix.F_GETPIPE_SZ, 0)
		buf := make([]byte, 64<<10)
		for left := size; left > 0; left -= len(buf) {
			if n, err := unix.Read(int(fd), buf); n <= 0 || err != nil { //nolint:gosec // descriptors are small
				return
			}
		}
	})
}

// deliver adds a piece to all listeners, unless pipe is no longer in use.
func (s *sound) deliver(pipe *os.File, samples []int16, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pipe != pipe {
		return
	}
	for _, l := range s.listeners {
		l.put(samples, at)
	}
}
