package browser

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/internal/supervise"
)

// Deadlines of Start and Close.
const (
	startLimit = 45 * time.Second
	closeLimit = 5 * time.Second  // for the browser to end after Browser.close
	stopLimit  = 10 * time.Second // for its processes to be ended
)

// Browser is a running Chromium or Chrome. Its methods may be called from any goroutine.
type Browser struct {
	elements // embeds clients, which embeds tabs, which embeds process; each uses only the layers below it

	id        string // in URLs
	version   Version
	work      sync.WaitGroup // goroutines
	closeOnce sync.Once
	closeErr  error
}

// process is the program, and the connection to it.
type process struct {
	cfg     Config
	home    string
	profile string // its directory
	ext     desktop.Extension
	app     desktop.App
	conn    *conn
}

// tabs follows the tabs of the browser and their downloads.
type tabs struct {
	process
	posted chan struct{} // wakes sendPosts

	mu       sync.Mutex // guards the fields below, and fields of clients and elements
	closing  bool
	sessions map[string]*session // of clients

	all       []*tab
	followed  map[string]*tab // by session of this package
	uses      uint64          // of tabs
	downloads []*Download
	changed   chan struct{}   // closed when something of the above changes; nil: no caller waits
	outbox    []postedCommand // see post
	outboxed  int             // bytes of outbox
	added     int             // see recorded
	ended     []string        // sessions whose commands are to be answered; see route
	second    time.Time       // of emitted
	emitted   int             // events in that second
}

// clients serves the clients of the DevTools protocol.
type clients struct {
	tabs
	broker    string           // the session from which clients get theirs
	serving   sync.WaitGroup   // calls of ServeClient
	queued    atomic.Int64     // bytes that wait for clients
	connected map[*client]bool // guarded by mu
}

// elements finds elements of pages, and keeps the references to them.
type elements struct {
	clients
	refs atomic.Int64

	// mu guards the fields below.
	references map[Ref]reference
	refsByKey  map[refKey]Ref
	refOrder   []Ref // the oldest first
	refText    int   // bytes of the texts of references
}

// Version describes a browser, as GET json/version of the DevTools protocol does.
type Version struct {
	Product    string `json:"product"` // "Chrome/148.0.7778.167"
	Protocol   string `json:"protocolVersion"`
	Revision   string `json:"revision"`
	UserAgent  string `json:"userAgent"`
	JavaScript string `json:"jsVersion"`
}

// limited returns v with at most maxText characters of its texts.
func (v Version) limited() Version {
	return Version{limited(v.Product), limited(v.Protocol), limited(v.Revision), limited(v.UserAgent), limited(v.JavaScript)}
}

// Start starts a browser on a desktop, as the desktop's user, and returns when it answers. It
// blocks for at most 45 s. ctx bounds only the start. The browser lives until Close or the end of
// the desktop, or until a person closes its last window.
//
// It returns ErrNotInstalled, an *InvalidError, a *ProfileError if a process uses the profile,
// the error of ctx, a *desktop.DeadlineError after the 45 s, and the errors of
// desktop.Desktop.Launch: starting a browser is input.
func Start(ctx context.Context, cfg Config) (*Browser, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, startLimit, &desktop.DeadlineError{Op: "start browser", After: startLimit})
	defer cancel()
	home := cfg.Desktop.Status().Home
	b := newBrowser()
	b.cfg, b.home, b.ext = cfg, home, desktop.Extend(cfg.Desktop)
	b.profile = filepath.Join(home, ".config", "deskhand", "browser", cfg.Profile)
	if err := b.checkProfile(); err != nil {
		return nil, err
	}
	if err := b.launch(ctx); err != nil {
		return nil, err
	}
	if err := b.prepare(ctx); err != nil {
		// The browser ends immediately if another browser uses the profile.
		select {
		case <-b.app.Done():
			if used := b.checkProfile(); used != nil {
				err = used
			} else if out := strings.TrimSpace(b.app.Output()); out != "" {
				err = fmt.Errorf("%w: %s", err, out)
			}
		default:
		}
		_ = b.Close()
		if cause := context.Cause(ctx); cause != nil && errors.Is(err, ctx.Err()) {
			err = cause
		}
		return nil, fmt.Errorf("start browser: %w", err)
	}
	b.ext.Emit(desktop.Event{Type: desktop.EventBrowser, Browser: &desktop.BrowserEvent{Kind: desktop.BrowserStarted}})
	return b, nil
}

func newBrowser() *Browser {
	b := &Browser{id: strings.ToLower(rand.Text())}
	b.posted, b.sessions, b.followed = make(chan struct{}, 1), map[string]*session{}, map[string]*tab{}
	b.connected = map[*client]bool{}
	b.references, b.refsByKey = map[Ref]reference{}, map[refKey]Ref{}
	return b
}

// checkProfile returns a *ProfileError if a process uses the profile. Chromium's lock is a
// symbolic link to the name of the machine and the process.
func (b *process) checkProfile() error {
	lock := filepath.Join(b.profile, "SingletonLock")
	var target string
	err := b.ext.AsUser(func() (err error) { // the answer must not tell what only this program's user may know
		target, err = os.Readlink(lock)
		return err
	})
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return fmt.Errorf("profile %s: %w", b.cfg.Profile, err)
	}
	i := strings.LastIndexByte(target, '-')
	pid, err := strconv.Atoi(target[i+1:])
	if i < 0 || err != nil {
		return nil //nolint:nilerr // the browser replaces it
	}
	host, err := os.Hostname()
	if err != nil {
		return fmt.Errorf("profile %s: %w", b.cfg.Profile, err)
	}
	used := &ProfileError{Profile: b.cfg.Profile, PID: pid, Lock: lock}
	if target[:i] != host {
		used.Host = target[:i]
		return used
	}
	if err := syscall.Kill(pid, 0); errors.Is(err, syscall.ESRCH) {
		return nil
	}
	return used
}

// programs are the names of browsers.
var programs = []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable"}

// launch starts the program with pipes as its file descriptors 3 and 4.
func (b *Browser) launch(ctx context.Context) error {
	in, theirIn, err := supervise.Pipe(supervise.WriteEnd)
	if err != nil {
		return fmt.Errorf("start browser: %w", err)
	}
	defer theirIn.Close()
	out, theirOut, err := supervise.Pipe(supervise.ReadEnd)
	if err != nil {
		_ = in.Close()
		return fmt.Errorf("start browser: %w", err)
	}
	defer theirOut.Close()
	names := programs
	if b.cfg.Program != "" {
		names = []string{b.cfg.Program}
	}
	for _, name := range names {
		b.app, err = b.cfg.Desktop.Launch(ctx, desktop.Launch{
			App: name, Args: b.cfg.args(b.profile), Files: []*os.File{theirIn, theirOut},
		})
		if !errors.Is(err, desktop.ErrAppNotFound) {
			break
		}
		err = fmt.Errorf("%w (%w)", ErrNotInstalled, err)
	}
	if err != nil {
		_ = in.Close()
		_ = out.Close()
		return err
	}
	b.conn = newConn(in, out, b.route)
	b.work.Go(b.conn.read)
	b.work.Go(b.conn.write)
	b.work.Go(b.sendPosts)
	b.work.Go(b.watch)
	control := b.cfg.Desktop.Subscribe(0)
	b.work.Go(func() { b.watchControl(control) })
	return nil
}

// watch closes the connection when the browser has ended, and emits its end.
func (b *tabs) watch() {
	select {
	case <-b.conn.done:
	case <-b.app.Done():
		b.conn.end(ErrEnded)
		<-b.conn.done
	}
	b.mu.Lock()
	closing := b.closing
	b.mu.Unlock()
	e := &desktop.BrowserEvent{Kind: desktop.BrowserEnded}
	if !closing {
		e.Message = "the browser was closed, or it crashed"
	}
	b.ext.Emit(desktop.Event{Type: desktop.EventBrowser, Browser: e})
}

// prepare waits until the browser answers and opens the first page.
func (b *Browser) prepare(ctx context.Context) error {
	if err := b.call(ctx, "", "Browser.getVersion", nil, &b.version); err != nil {
		return err
	}
	b.version = b.version.limited()
	var broker attachment
	if err := b.call(ctx, "", "Target.attachToBrowserTarget", nil, &broker); err != nil {
		return err
	}
	if len(broker.SessionID) > maxID {
		return errLongID
	}
	b.mu.Lock()
	b.broker = broker.SessionID
	b.mu.Unlock()
	if err := b.follow(ctx); err != nil {
		return err
	}
	b.resize(ctx, b.cfg.Viewport)
	if b.cfg.URL == "" {
		return nil
	}
	return b.act(ctx, "navigate", withoutSecrets(b.cfg.URL), func(context.Context) error {
		b.mu.Lock()
		defer b.mu.Unlock()
		if len(b.all) == 0 {
			return errClosed
		}
		b.post(b.all[0].session, "Page.navigate", map[string]any{"url": b.cfg.URL}) // the start does not wait for the page
		return nil
	})
}

// resize gives the window the size at which its pages have the wanted size. Browsers that do
// not know how keep the window that they have.
func (b *tabs) resize(ctx context.Context, pages desktop.Size) {
	if pages == (desktop.Size{}) {
		return
	}
	var v struct {
		WindowID int `json:"windowId"`
	}
	var target string
	b.mu.Lock()
	if len(b.all) > 0 {
		target = b.all[0].id
	}
	b.mu.Unlock()
	err := b.call(ctx, "", "Browser.getWindowForTarget", map[string]any{"targetId": target}, &v)
	if err == nil {
		err = b.call(ctx, "", "Browser.setContentsSize", map[string]any{"windowId": v.WindowID, "width": pages.Width, "height": pages.Height}, nil)
	}
	if err != nil {
		b.cfg.Logger.Debug("set the size of pages", "error", err)
	}
}

// call sends a command of this package. An empty session is the browser's own.
func (b *process) call(ctx context.Context, session, method string, params, result any) error {
	return b.conn.call(ctx, session, method, params, result)
}

// ID returns the id of the browser in the URLs of the DevTools protocol.
func (b *Browser) ID() string { return b.id }

// Version returns the version of the browser.
func (b *Browser) Version() Version { return b.version }

// Done returns a channel that is closed when the browser has ended.
func (b *Browser) Done() <-chan struct{} { return b.conn.done }

// Close ends the browser with its clients, and waits for that: for 5 s so that it saves its
// profile, and for 10 s more at most. Running calls return ErrEnded. Close returns an error if the
// browser does not end. It may be called more than once.
func (b *Browser) Close() error {
	b.closeOnce.Do(func() { b.closeErr = b.close() })
	return b.closeErr
}

// Stop is an input that ends the browser as Close does. It returns a *desktop.ControlHeldError
// if another actor than the one of ctx has exclusive control, the error of
// desktop.Config.Policy, or the error of Close.
func (b *Browser) Stop(ctx context.Context) error {
	if err := b.admit(ctx, "stop", ""); err != nil {
		return err
	}
	return b.Close()
}

func (b *Browser) close() error {
	b.mu.Lock()
	b.closing = true
	b.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), closeLimit)
	defer cancel()
	if b.call(ctx, "", "Browser.close", nil, nil) == nil {
		select {
		case <-b.app.Done(): // it has saved its profile
		case <-ctx.Done():
		}
	}
	b.conn.end(ErrEnded)
	ctx, cancel = context.WithTimeout(context.Background(), stopLimit)
	defer cancel()
	err := b.app.Stop(ctx)
	b.serving.Wait()
	b.work.Wait()
	if err != nil {
		return fmt.Errorf("close browser: %w", err)
	}
	return nil
}

// Profile returns the name of the profile.
func (b *Browser) Profile() string { return b.cfg.Profile }

// Clients returns the number of clients of the DevTools protocol.
func (b *Browser) Clients() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.connected)
}

// HasTab reports whether the browser has a tab with an id.
func (b *Browser) HasTab(id string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.find(id) != nil
}
