package desktop

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/deskhand/deskhand/internal/supervise"
	"github.com/deskhand/deskhand/internal/x11"
)

// Desktop is a running desktop. Its methods may be called from any goroutine.
type Desktop struct {
	cfg       Config // with defaults
	log       *slog.Logger
	dirs      dirs
	cookie    []byte // nil when attached
	attached  string // display given to Attach; empty when we run the X server
	group     *supervise.Group
	events    *eventLog
	input     chan struct{} // holds one token: who has it may send input
	suspicion chan struct{} // the X server may be hanging
	closing   chan struct{} // closed when Close begins
	done      chan struct{} // closed when Close is through
	closeOnce sync.Once
	closeErr  error
	watch     sync.WaitGroup // the recovery goroutine

	mu        sync.Mutex // guards what follows
	state     State
	session   *session // nil while there is no X server to talk to
	display   int      // number, known since the first session
	size      Size     // wanted; a restarted X server gets it too
	startedAt time.Time
	restarts  int
	lastError *Failure
}

// Start runs a desktop and returns when its window manager is ready. ctx bounds
// the start alone; the desktop lives until Close.
//
// It returns a *MissingError when Xvfb, openbox or dbus-daemon is not
// installed, and an *InvalidError for a Config that cannot be.
func Start(ctx context.Context, cfg Config) (*Desktop, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	if missing := MissingPrograms(); len(missing) > 0 {
		return nil, &MissingError{Programs: missing}
	}
	d := &Desktop{cookie: x11.NewCookie()}
	return d.start(ctx, cfg)
}

// Attach uses an X display that somebody else runs, such as ":0", instead of
// starting one. Its X server and window manager stay when the Desktop is
// closed; what was launched through it ends. Size, MaxSize, DPI, Display and
// Background of the Config are not used.
func Attach(ctx context.Context, display string, cfg Config) (*Desktop, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	return (&Desktop{attached: display}).start(ctx, cfg)
}

func (d *Desktop) start(ctx context.Context, cfg Config) (*Desktop, error) {
	d.cfg, d.log = cfg, cfg.Logger.With("desktop", cfg.ID)
	d.input = make(chan struct{}, 1)
	d.input <- struct{}{}
	d.suspicion = make(chan struct{}, 1)
	d.closing, d.done = make(chan struct{}), make(chan struct{})
	d.events = newEventLog(cfg.ID)
	d.state, d.size, d.display = StateStarting, cfg.Size, cfg.Display

	var err error
	if d.dirs, err = makeDirs(cfg); err != nil {
		return nil, fmt.Errorf("start desktop %s: %w", cfg.ID, err)
	}
	if d.group, err = newGroup(d.dirs, d.log); err == nil {
		err = d.begin(ctx)
	}
	if err != nil {
		_ = d.Close()
		return nil, fmt.Errorf("start desktop %s: %w", cfg.ID, err)
	}
	return d, nil
}

// begin makes the first session and the goroutine that replaces it when it dies.
func (d *Desktop) begin(ctx context.Context) error {
	if err := d.prepareBrowsers(ctx); err != nil {
		return err
	}
	s, err := d.newSession(ctx)
	if err != nil {
		return err
	}
	if d.attached == "" && d.cfg.ShareAuthority {
		if err := x11.MergeAuthority(x11.AuthorityPath(), s.conn.Number(), d.cookie); err != nil {
			d.log.Debug("X authority not shared", "error", err)
		}
	}
	d.install(s)
	d.runAutostart(s)
	d.watch.Go(d.recover)
	return nil
}

// install makes s the session that calls use.
func (d *Desktop) install(s *session) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.session, d.display = s, s.conn.Number()
	d.state, d.startedAt = StateActive, s.startedAt
}

// Close ends the desktop and everything that runs on it, and waits for that.
// Held keys and buttons are released first. It may be called more than once and
// from any goroutine.
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
	s, number := d.session, d.display
	d.session = nil
	d.mu.Unlock()
	close(d.closing)
	d.watch.Wait()
	var errs []error
	if s != nil {
		s.release()
	}
	if d.group != nil {
		errs = append(errs, d.group.Close())
	}
	if s != nil {
		s.close()
		if d.attached == "" && d.cfg.ShareAuthority {
			errs = append(errs, x11.RemoveAuthority(x11.AuthorityPath(), number, d.cookie))
		}
	}
	errs = append(errs, d.dirs.remove())
	d.mu.Lock()
	d.state = StateInactive
	d.mu.Unlock()
	d.events.close()
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("close desktop %s: %w", d.cfg.ID, err)
	}
	return nil
}

// Done is closed when Close is through.
func (d *Desktop) Done() <-chan struct{} { return d.done }

// Status tells how the desktop is. It never waits for the X server.
func (d *Desktop) Status() Status {
	d.mu.Lock()
	defer d.mu.Unlock()
	st := Status{
		ID: d.cfg.ID, State: d.state, Authority: d.dirs.authority, Home: d.dirs.home,
		Size: d.size, DPI: d.cfg.DPI, StartedAt: d.startedAt, Restarts: d.restarts,
		LastError: d.lastError, LogPath: d.dirs.log,
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
	}
	for _, c := range d.group.Children() {
		st.Processes = append(st.Processes, Process{ID: c.ID, Name: c.Name, PID: c.PID, Running: c.Running, LogPath: c.LogPath})
	}
	return st
}

// fail notes a failure and tells subscribers.
func (d *Desktop) fail(code string, err error) *Failure {
	f := &Failure{Code: code, Message: err.Error(), At: time.Now()}
	d.mu.Lock()
	d.lastError = f
	if d.state == StateActive || d.state == StateStarting {
		d.state = StateFailed
	}
	d.mu.Unlock()
	d.log.Debug("desktop failed", "code", code, "error", err)
	d.events.emit(Event{Type: EventFailed, Failure: f})
	return f
}

// current returns the session to use, or why there is none.
func (d *Desktop) current() (*session, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.state == StateStopping || d.state == StateInactive:
		return nil, ErrClosed
	case d.session == nil:
		return nil, ErrRestarting
	}
	return d.session, nil
}

// MissingPrograms names those of the programs that Start needs that are not
// installed.
func MissingPrograms() []string {
	var missing []string
	for _, p := range []string{"Xvfb", "openbox", "dbus-daemon"} {
		if _, err := supervise.LookPath(p, os.Environ()); err != nil {
			missing = append(missing, p)
		}
	}
	return missing
}

// Sweep ends what programs that were killed left running with that state
// directory, and returns how many processes it ended. It never touches a
// process that such a program did not start. Start sweeps its own StateDir.
func Sweep(stateDir string, logger *slog.Logger) (int, error) {
	return supervise.Sweep(filepath.Join(stateDir, runDir), logger)
}

func displayName(number int) string { return fmt.Sprintf(":%d", number) }

func (c Config) withDefaults() Config {
	def := func(p *int, v int) {
		if *p == 0 {
			*p = v
		}
	}
	if c.ID == "" {
		c.ID = "main"
	}
	def(&c.Size.Width, DefaultWidth)
	def(&c.Size.Height, DefaultHeight)
	def(&c.MaxSize.Width, max(3840, c.Size.Width))
	def(&c.MaxSize.Height, max(2160, c.Size.Height))
	def(&c.DPI, DefaultDPI)
	if c.Background == 0 {
		c.Background = 0x2e3440
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	c.Env, c.Secrets = slices.Clone(c.Env), slices.Clone(c.Secrets)
	return c
}

func (c Config) validate() error {
	if err := checkSize("size", c.Size, Size{MaxWidth, MaxHeight}); err != nil {
		return err
	}
	if err := checkSize("maxSize", c.MaxSize, Size{MaxWidth, MaxHeight}); err != nil {
		return err
	}
	switch {
	case c.Size.Width > c.MaxSize.Width || c.Size.Height > c.MaxSize.Height:
		return &InvalidError{"size", "must not be larger than maxSize"}
	case c.DPI < 0 || c.DPI > 1000:
		return &InvalidError{"dpi", "must be between 1 and 1000"}
	case c.Display < 0 || c.Display > maxDisplay:
		return &InvalidError{"display", fmt.Sprintf("must be between 1 and %d, or 0 to let the X server choose", maxDisplay)}
	case c.Background > 0xffffff:
		return &InvalidError{"background", "must be a colour 0xRRGGBB"}
	}
	return nil
}

// checkSize refuses sizes that no screen can have, or that would not fit.
func checkSize(field string, s, most Size) error {
	if s.Width <= 0 || s.Height <= 0 {
		return &InvalidError{field, "width and height must be greater than 0"}
	}
	if s.Width > most.Width || s.Height > most.Height {
		return &InvalidError{field, fmt.Sprintf("must be at most %dx%d", most.Width, most.Height)}
	}
	if s.Width*s.Height > maxPixels {
		return &InvalidError{field, fmt.Sprintf("must have at most %d pixels", maxPixels)}
	}
	return nil
}

const (
	// maxDisplay keeps 6000+number, the port of X over TCP, a port number.
	maxDisplay = 59535
	// maxPixels is 8192x8192: 256 MiB per frame.
	maxPixels = 1 << 26
)
