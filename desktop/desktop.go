package desktop

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/deskhand/deskhand/internal/supervise"
	"github.com/deskhand/deskhand/internal/x11"
)

// Desktop is a running desktop. Its methods may be called from any goroutine.
type Desktop struct {
	inputs  // embeds lifecycle, which embeds programs; each uses only the layers below it
	sound   sound
	reading chan struct{} // holds one while a selection is read
}

// programs holds the processes of a desktop, with their user, files and environment.
type programs struct {
	cfg       Config // with defaults
	log       *slog.Logger
	user      supervise.User // the user of the desktop's programs
	temp      []string       // TMPDIR, if the user is another one than this program's
	dirs      dirs
	attached  string           // display given to Attach; empty after Start
	group     *supervise.Group // X server, window manager, D-Bus
	apps      *supervise.Group // launched programs, which end before group
	browsers  func() error     // prepareBrowsers, once
	chromium  []string         // flags that Launch adds for browsers; nil: none
	noSandbox bool             // the sandbox of Chromium does not work
	shared    *session         // its cookie is in the user's authority file; nil: none
}

// lifecycle is the state of a desktop, its present session, and the calls that use it.
type lifecycle struct {
	programs
	events    *EventLog
	suspicion chan struct{} // the X server may be hanging
	closing   chan struct{} // closed when Close begins
	done      chan struct{} // closed when Close has finished
	closeOnce sync.Once
	closeErr  error
	watch     sync.WaitGroup      // the recovery goroutine
	calls     sync.WaitGroup      // calls under way; added to only while not closing
	frames    *semaphore.Weighted // the bytes of screenshots' frames

	mu        sync.Mutex // guards the fields below
	state     State
	session   *session      // nil while there is no connection to an X server
	fresh     chan struct{} // closed when the next session begins
	display   int           // number, known since the first session
	size      Size          // last requested; a restarted X server gets it, too
	startedAt time.Time
	running   int       // calls under way
	usedAt    time.Time // when the session started, or a call began or ended
	restarts  int
	lastError *Failure
}

// Start runs a desktop and returns when its window manager is ready. ctx bounds only the
// start. The desktop lives until Close.
//
// It returns a *MissingError if Xvfb, openbox or dbus-daemon is not installed, an
// *InvalidError if cfg is invalid, the error of ctx if that ends first, and a
// *DeadlineError after 30 s. It also fails if another desktop uses Config.StateDir, or if
// a program of the desktop does not start: the error then has the end of its output. A Start
// that fails ends the programs that it has started, and waits for that.
func Start(ctx context.Context, cfg Config) (*Desktop, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	if missing := MissingPrograms(); len(missing) > 0 {
		return nil, &MissingError{Programs: missing}
	}
	d := &Desktop{}
	return d.start(ctx, cfg)
}

// Attach uses the X display of another program, such as ":0", instead of starting one.
// Close ends the programs that were launched through the Desktop, but not the X server
// and the window manager. Size, MaxSize, DPI, Display and Background of cfg are not used.
//
// It blocks as Start does. It returns an *InvalidError if cfg is invalid, and fails if it
// cannot connect to the display.
func Attach(ctx context.Context, display string, cfg Config) (*Desktop, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	if cfg.RunAs != "" {
		return nil, &InvalidError{"RunAs", "cannot be given for a display that another program runs"}
	}
	d := &Desktop{}
	d.attached = display
	return d.start(ctx, cfg)
}

func (d *Desktop) start(ctx context.Context, cfg Config) (_ *Desktop, err error) {
	d.cfg, d.log = cfg, cfg.Logger.With("desktop", cfg.ID)
	d.turns, d.reading = newTurns(), make(chan struct{}, 1)
	d.suspicion, d.frames = make(chan struct{}, 1), semaphore.NewWeighted(frameRoom)
	d.closing, d.done, d.fresh = make(chan struct{}), make(chan struct{}), make(chan struct{})
	d.events = NewEventLog(cfg.ID)
	d.control.idle = cfg.ControlIdle
	d.control.changed = func(c Control) { d.events.Emit(Event{Type: EventControl, Control: &c}) }
	d.state, d.size, d.display = StateStarting, cfg.Size, cfg.Display
	d.sound.d = d

	defer func() {
		if err != nil {
			_ = d.Close()
			err = fmt.Errorf("start desktop %s: %w", cfg.ID, err)
		}
	}()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if d.user, err = supervise.LookupUser(cfg.RunAs); err != nil {
		return nil, &InvalidError{"RunAs", err.Error()}
	}
	if d.user.Credential != nil {
		if d.temp, err = d.user.TempVariable(); err != nil {
			return nil, err
		}
	}
	if d.dirs, err = makeDirs(cfg, d.attached != "", d.user); err != nil {
		return nil, err
	}
	d.sweep()
	if d.group, err = d.newGroup(); err != nil {
		return nil, err
	}
	if d.apps, err = d.newGroup(); err != nil {
		return nil, err
	}
	if d.attached == "" {
		d.sound.open()
	}
	if err := d.begin(ctx); err != nil {
		return nil, err
	}
	return d, nil
}

// begin makes the first session and starts the goroutine that replaces it.
func (l *lifecycle) begin(ctx context.Context) error {
	ctx, cancel := limitStart(ctx)
	defer cancel()
	l.browsers = sync.OnceValue(func() error { return l.prepareBrowsers(ctx) })
	s, err := l.newSession(ctx)
	if err != nil {
		return err
	}
	l.install(s)
	l.runAutostart(s)
	l.watch.Go((&recovery{lifecycle: l}).run)
	return nil
}

// install makes s the session that calls use.
func (l *lifecycle) install(s *session) {
	l.share(s)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.session, l.display, l.startedAt, l.usedAt = s, s.conn.Number(), s.startedAt, time.Now()
	close(l.fresh)
	l.fresh = make(chan struct{})
	if l.state == StateStarting {
		l.state = StateActive
	}
}

// share adds the cookie to the user's X authority file if Config.ShareAuthority is set.
func (p *programs) share(s *session) {
	if p.attached != "" || !p.cfg.ShareAuthority {
		return
	}
	err := p.unshare()
	if err == nil {
		err = x11.MergeAuthority(x11.AuthorityPath(), s.conn.Number(), s.cookie)
	}
	if err != nil {
		p.log.Debug("X authority not shared", "error", err)
		return
	}
	p.shared = s
}

func (p *programs) unshare() error {
	s := p.shared
	if s == nil {
		return nil
	}
	p.shared = nil
	return x11.RemoveAuthority(x11.AuthorityPath(), s.conn.Number(), s.cookie)
}

// Close releases held keys and buttons, ends the desktop and all programs on it, and
// waits for that. Programs get SIGTERM, and SIGKILL after 2 s. Running calls return ErrClosed.
// Close may be called more than once and from any goroutine, but not from Config.Policy. Every
// call waits until the first one has finished and returns its error: programs that did not end
// within 5 s of SIGKILL, or files that were not removed.
func (d *Desktop) Close() error {
	d.closeOnce.Do(func() {
		d.closeErr = d.close()
		close(d.done)
	})
	<-d.done
	return d.closeErr
}

func (d *Desktop) close() error {
	d.mu.Lock()
	d.state = StateStopping
	d.mu.Unlock()
	close(d.closing)
	d.turns.skipWaits()
	d.control.stop()
	d.watch.Wait() // the recovery goroutine changes the session
	d.mu.Lock()
	s := d.session
	d.session = nil
	d.mu.Unlock()
	var errs []error
	if s != nil { // the X server does not release keys and buttons when the connection ends
		_ = s.probe(partingLimit, nil, s.input.Release)
	}
	if d.apps != nil { // before the display ends
		errs = append(errs, d.apps.Close())
	}
	if s != nil {
		s.close()
	}
	if d.group != nil {
		errs = append(errs, d.group.Close())
	}
	d.sound.close()
	d.awaitCalls()
	errs = append(errs, d.unshare(), d.dirs.remove())
	d.mu.Lock()
	d.state = StateInactive
	d.mu.Unlock()
	d.events.Close()
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("close desktop %s: %w", d.cfg.ID, err)
	}
	return nil
}

// awaitCalls waits for running calls. They end with the connection, except calls whose
// Policy ignores its context.
func (l *lifecycle) awaitCalls() {
	ended := make(chan struct{})
	go func() {
		l.calls.Wait()
		close(ended)
	}()
	limit := time.NewTimer(partingLimit)
	defer limit.Stop()
	select {
	case <-ended:
	case <-limit.C:
		l.log.Debug("a call outlives the desktop")
	}
}

func (l *lifecycle) isClosing() bool {
	select {
	case <-l.closing:
		return true
	default:
		return false
	}
}

// Done returns a channel that is closed when Close has ended the desktop.
func (d *Desktop) Done() <-chan struct{} { return d.done }

// Status describes the desktop. It never waits for the X server.
func (d *Desktop) Status() Status {
	d.mu.Lock()
	defer d.mu.Unlock()
	st := Status{
		ID: d.cfg.ID, State: d.state, Authority: d.dirs.authority, Home: d.dirs.home,
		Size: d.size, DPI: d.cfg.DPI, StartedAt: d.startedAt, Restarts: d.restarts,
		LastError: d.lastError, LogPath: d.dirs.log, Sound: d.sound.status(),
	}
	if d.attached != "" {
		st.Authority = x11.AuthorityPath()
	}
	if d.session != nil {
		st.Display = displayName(d.session.conn.Number())
		w, h, err := d.session.conn.Size()
		if err == nil {
			st.Size = Size{w, h}
		}
	} else if d.state == StateFailed {
		st.Display = displayName(d.display)
	}
	for _, g := range []*supervise.Group{d.group, d.apps} {
		for _, c := range g.Children() {
			st.Processes = append(st.Processes, Process{
				ID: c.ID, Name: c.Name, PID: c.PID, Running: c.Running, LogPath: c.LogPath, Launched: g == d.apps,
			})
		}
	}
	slices.SortFunc(st.Processes, func(a, b Process) int { // their numbers count up
		return cmp.Or(cmp.Compare(len(a.ID), len(b.ID)), cmp.Compare(a.ID, b.ID))
	})
	return st
}

// fail records a failure and emits it.
func (l *lifecycle) fail(code string, err error) *Failure {
	f := &Failure{Code: code, Message: err.Error(), At: time.Now()}
	l.mu.Lock()
	l.lastError = f
	l.setFailed()
	l.mu.Unlock()
	l.log.Warn("desktop failed", "code", code, "error", err)
	l.events.Emit(Event{Type: EventFailed, Failure: f})
	return f
}

// setFailed records that a part has died. The caller has mu.
func (l *lifecycle) setFailed() {
	if l.state == StateActive || l.state == StateStarting {
		l.state = StateFailed
	}
}

func (l *lifecycle) current() (*session, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.currentLocked()
}

func (l *lifecycle) currentLocked() (*session, error) {
	switch {
	case l.state == StateStopping || l.state == StateInactive:
		return nil, ErrClosed
	case l.session == nil:
		return nil, ErrRestarting
	}
	return l.session, nil
}

// MissingPrograms returns the programs that Start needs and that are not installed.
func MissingPrograms() []string {
	var missing []string
	for _, p := range []string{"Xvfb", "openbox", "dbus-daemon"} {
		if _, err := supervise.LookPath(p, os.Environ()); err != nil {
			missing = append(missing, p)
		}
	}
	return missing
}

// Sweep ends the processes that killed programs left running with that state directory,
// and returns their number. It ends no other processes. Start sweeps its own StateDir.
func Sweep(stateDir string, logger *slog.Logger) (int, error) {
	return supervise.Sweep(filepath.Join(stateDir, runDir), logger)
}
