package x11

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jezek/xgb"
	xdamage "github.com/jezek/xgb/damage"
	"github.com/jezek/xgb/randr"
	"github.com/jezek/xgb/xfixes"
	"github.com/jezek/xgb/xproto"
	"github.com/jezek/xgb/xtest"
	"golang.org/x/sys/unix"

	"github.com/deskhand/deskhand/internal/x11/quiesce"
	"github.com/deskhand/deskhand/internal/x11/request"
)

// ErrConnClosed is returned after the connection to the X server has ended.
var ErrConnClosed = request.ErrConnClosed

var errImpostor = errors.New("another program has taken the X server's socket")

// Window is the number of an X window.
type Window = xproto.Window

// Config says which X server to connect to.
type Config struct {
	// Display is a local display, such as ":7" or ":7.0".
	Display string
	// Cookie is the MIT-MAGIC-COOKIE-1. Nil: the one in Authority, if there is one.
	Cookie []byte
	// Authority is an Xauthority file. Empty: the one that XAUTHORITY names, or
	// ~/.Xauthority.
	Authority string
	// Server is the process id, user and group of the X server. Nothing, not even the
	// cookie, is sent to another process. The id alone does not suffice: a socket keeps
	// the id of the process that listened first, and the kernel may have reused that id for
	// the X server. Nil: any process.
	Server *unix.Ucred
	// Logger receives debug messages. Nil: none.
	Logger *slog.Logger
}

// Conn is a connection to an X server.
type Conn struct {
	x      *xgb.Conn
	wire   *wire
	root   xproto.Window
	screen *xproto.ScreenInfo
	number int
	log    *slog.Logger
	ext    extensions
	done   chan struct{} // closed when the event loop has ended
	size   screenSize

	handlers atomic.Pointer[[]*handler]
	masks    eventMasks

	mu sync.Mutex // held while handlers changes
}

// extensions holds the first event numbers of extensions, and whether optional ones exist.
type extensions struct {
	damage, xfixes, randr, input byte
	shm, res                     bool
}

// handler is a function of handle. It is identified by its address.
type handler struct{ f func(xgb.Event) }

// Dial connects to an X server. ctx bounds the connecting.
func Dial(ctx context.Context, cfg Config) (_ *Conn, err error) {
	prepareXgb()
	number, err := displayNumber(cfg.Display)
	if err != nil {
		return nil, err
	}
	cookie := cfg.Cookie
	if cookie == nil {
		cookie, _ = readCookie(cmp.Or(cfg.Authority, AuthorityPath()), number) // a server may ask for none
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("connect to display :%d: %w", number, err)
		}
	}()
	sock, err := (&net.Dialer{}).DialContext(ctx, "unix", "/tmp/.X11-unix/X"+strconv.Itoa(number))
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = sock.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	w := &wire{Conn: sock, cookie: cookie}
	if peer, ok := w.peer(); cfg.Server != nil && (!ok || *peer != *cfg.Server) {
		return nil, errors.Join(errImpostor, sock.Close())
	}
	x, err := xgb.NewConnNet(w)
	if err != nil {
		_ = sock.Close()
		return nil, err
	}
	c := &Conn{x: x, wire: w, number: number, log: cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler)), done: make(chan struct{})}
	c.handlers.Store(&[]*handler{})
	c.screen = xproto.Setup(x).DefaultScreen(x)
	c.root = c.screen.Root
	w.own.Store(xproto.Setup(x))
	go c.readEvents()
	if err = c.openExtensions(); err == nil {
		err = c.watchSize()
	}
	if err == nil && !stop() {
		err = ctx.Err()
	}
	if err != nil {
		_ = c.Close()
		return nil, err
	}
	return c, nil
}

// Close ends the connection and waits for its goroutines. It may be called
// more than once, but not from an event handler.
func (c *Conn) Close() error {
	_ = c.wire.Conn.Close() // xgb may wait for a server that hangs
	c.x.Close()
	<-c.done
	c.size.following.Wait()
	return nil
}

// Done returns a channel that is closed when the connection ends.
func (c *Conn) Done() <-chan struct{} { return c.done }

// Number returns the display's number.
func (c *Conn) Number() int { return c.number }

// Sync waits until the server has handled every request sent before.
func (c *Conn) Sync() error { return request.Sync(c.x) }

// quiescence returns the connection in the form that package quiesce uses.
func (c *Conn) quiescence() *quiesce.Display {
	return &quiesce.Display{
		X: c.x, Root: c.root, Number: c.number, ClientPIDs: c.ext.res, Done: c.done, Log: c.log,
		Batch: func(send func()) {
			c.wire.cork()
			send()
			_ = c.wire.uncork() // the replies have the error
		},
	}
}

// handle calls f with every event, on the connection's event goroutine. f must return soon
// and must not wait for a reply. After remove, f is called at most for the present event.
func (c *Conn) handle(f func(xgb.Event)) (remove func()) {
	h := &handler{f}
	c.mu.Lock()
	defer c.mu.Unlock()
	list := append(slices.Clone(*c.handlers.Load()), h)
	c.handlers.Store(&list)
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		rest := slices.DeleteFunc(slices.Clone(*c.handlers.Load()), func(o *handler) bool { return o == h })
		c.handlers.Store(&rest)
	}
}

// readEvents passes events to the handlers. It must never wait: xgb stops reading replies
// after 5000 unread events.
func (c *Conn) readEvents() {
	defer close(c.done)
	for {
		ev, xerr := c.x.WaitForEvent()
		if ev == nil && xerr == nil {
			return
		}
		if xerr != nil {
			c.log.Debug("X error without a waiting request", "error", xerr.Error())
			continue
		}
		for _, h := range *c.handlers.Load() {
			h.f(ev)
		}
	}
}

// atom interns a name.
func (c *Conn) atom(name string) (a xproto.Atom, err error) {
	return a, request.Atoms(c.x, map[string]*xproto.Atom{name: &a})
}

// openExtensions is like the Init functions of xgb's packages, but does not write to xgb's
// global tables (see prepareXgb).
func (c *Conn) openExtensions() error {
	for _, e := range []struct {
		name     string
		event    *byte
		present  *bool
		required bool
	}{
		{"XTEST", nil, nil, true},
		{"DAMAGE", &c.ext.damage, nil, true},
		{"XFIXES", &c.ext.xfixes, nil, true},
		{"RANDR", &c.ext.randr, nil, true},
		{"MIT-SHM", nil, &c.ext.shm, false},
		{"X-Resource", nil, &c.ext.res, false},
		{inputExtension, &c.ext.input, nil, false},
	} {
		r, err := xproto.QueryExtension(c.x, uint16(len(e.name)), e.name).Reply()
		if err != nil {
			return request.Wrap("query extension "+e.name, err)
		}
		if !r.Present {
			if e.required {
				return fmt.Errorf("the X server lacks the extension %s", e.name)
			}
			continue
		}
		c.x.ExtLock.Lock()
		c.x.Extensions[e.name] = r.MajorOpcode
		c.x.ExtLock.Unlock()
		if e.event != nil {
			*e.event = r.FirstEvent
		}
		if e.present != nil {
			*e.present = true
		}
	}
	// Each extension requires that its version is negotiated first.
	if _, err := xfixes.QueryVersion(c.x, 5, 0).Reply(); err != nil {
		return request.Wrap("XFIXES version", err)
	}
	if _, err := xdamage.QueryVersion(c.x, 1, 1).Reply(); err != nil {
		return request.Wrap("DAMAGE version", err)
	}
	if _, err := xtest.GetVersion(c.x, 2, 2).Reply(); err != nil {
		return request.Wrap("XTEST version", err)
	}
	if _, err := randr.QueryVersion(c.x, 1, 4).Reply(); err != nil {
		return request.Wrap("RANDR version", err)
	}
	return nil
}

// RawEvent is an undecoded event of an extension.
type RawEvent []byte

// Bytes returns e.
func (e RawEvent) Bytes() []byte { return e }

func (e RawEvent) String() string { return fmt.Sprintf("event %d", e[0]&127) }

// rawError is an undecoded error of an extension.
type rawError []byte

func (e rawError) SequenceId() uint16 { return xgb.Get16(e[2:]) }
func (e rawError) BadId() uint32      { return xgb.Get32(e[4:]) }
func (e rawError) Error() string {
	return fmt.Sprintf("X error %d of request %d.%d, value %d", e[1], e[10], xgb.Get16(e[8:]), xgb.Get32(e[4:]))
}

// prepareXgb fills xgb's global tables of events and errors, for every number that an
// extension can have. xgb would fill them while connecting, under a lock of the
// connection, so that two connections would race. It hangs on unknown error numbers.
var prepareXgb = sync.OnceFunc(func() {
	xgb.Logger = log.New(io.Discard, "", 0)
	for n := 64; n < 128; n++ {
		xgb.NewEventFuncs[n] = func(b []byte) xgb.Event { return RawEvent(b) }
	}
	for n := 1; n < 256; n++ {
		if _, ok := xgb.NewErrorFuncs[n]; !ok {
			xgb.NewErrorFuncs[n] = func(b []byte) xgb.Error { return rawError(b) }
		}
	}
})

// displayNumber parses ":7", ":7.0" or "unix:7".
func displayNumber(display string) (int, error) {
	host, rest, ok := strings.Cut(display, ":")
	if !ok || (host != "" && host != "unix") {
		return 0, fmt.Errorf("display %q: want a local display such as :1", display)
	}
	number, _, _ := strings.Cut(rest, ".")
	n, err := strconv.Atoi(number)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("display %q: want a local display such as :1", display)
	}
	return n, nil
}

// AuthorityPath returns the file in which Xlib looks for cookies (Xsecurity(7)), or "" if
// there is none.
func AuthorityPath() string {
	if p := os.Getenv("XAUTHORITY"); p != "" {
		return p
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return ""
	}
	return filepath.Join(home, ".Xauthority")
}
