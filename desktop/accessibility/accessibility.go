package accessibility

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/godbus/dbus/v5"

	"github.com/deskhand/deskhand/desktop"
)

// Config describes a Tree. Desktop is required.
type Config struct {
	Desktop *desktop.Desktop

	// NextRef returns the number of the next reference, so that several packages number the
	// elements of one desktop without conflict. Nil: the Tree counts from 1.
	NextRef func() int

	// Logger receives panics and debug messages. Nil: nothing is logged.
	Logger *slog.Logger
}

// Tree is the elements of the programs on a desktop. Its methods may be called from any
// goroutine.
type Tree struct {
	cfg  Config
	refs refs

	connecting chan struct{}   // holds one token; the goroutine that receives it connects
	ended      context.Context // ends with Close
	end        context.CancelFunc
	failed     failure // guarded by the token of connecting

	mu  sync.Mutex // guards bus
	bus *bus       // nil: not connected
}

// failure is why the latest connection was not made, and when that was.
type failure struct {
	err error
	at  time.Time
}

// Start connects to the accessibility bus of a desktop, and starts the bus if it does not run.
// It sets the status by which programs offer their elements. It blocks for at most 10 s, and ctx
// bounds the call only. The Tree lives until Close.
//
// It returns an *InvalidError if cfg is invalid, ErrUnavailable if there is no accessibility
// bus, the error of ctx, context.DeadlineExceeded after the 10 s, the error of Desktop.Environ, or
// an error of D-Bus.
func Start(ctx context.Context, cfg Config) (*Tree, error) {
	if cfg.Desktop == nil {
		return nil, &InvalidError{"Desktop", "must be set"}
	}
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	t := &Tree{cfg: cfg, connecting: make(chan struct{}, 1)}
	t.connecting <- struct{}{}
	t.ended, t.end = context.WithCancel(context.Background())
	t.refs.next = cfg.NextRef
	if _, err := t.connect(ctx); err != nil {
		t.end()
		return nil, err
	}
	return t, nil
}

// Close disconnects from the bus. Running calls return an error, and later ones ErrClosed. It may
// be called more than once.
func (t *Tree) Close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.end()
	if t.bus == nil {
		return nil
	}
	err := t.bus.close()
	t.bus = nil
	return err
}

// startLimit bounds the start of the accessibility bus.
const startLimit = 10 * time.Second

// connect returns the connection to the accessibility bus. It makes a new one if there is none,
// or if the bus has ended. Calls that wait for a connection that is being made share its error.
func (t *Tree) connect(ctx context.Context) (*bus, error) {
	if b, err := t.connected(); b != nil || err != nil {
		return b, err
	}
	asked := time.Now()
	select {
	case <-t.connecting:
		defer func() { t.connecting <- struct{}{} }()
	case <-t.ended.Done():
		return nil, ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if b, err := t.connected(); b != nil || err != nil {
		return b, err
	}
	if t.failed.at.After(asked) {
		return nil, t.failed.err
	}
	limited, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	stop := context.AfterFunc(t.ended, cancel)
	defer stop()
	b, err := t.open(limited)
	if err != nil && ctx.Err() == nil {
		t.failed = failure{err, time.Now()}
	}
	return b, err
}

// connected returns the connection to a bus that has not ended, or nil. It returns ErrClosed
// after Close.
func (t *Tree) connected() (*bus, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.ended.Err() != nil:
		return nil, ErrClosed
	case t.bus != nil && t.bus.conn.Connected():
		return t.bus, nil
	case t.bus != nil:
		_ = t.bus.close()
		t.bus = nil
	}
	return nil, nil //nolint:nilnil // documented
}

// open connects to the accessibility bus.
func (t *Tree) open(ctx context.Context) (*bus, error) {
	environ, err := t.cfg.Desktop.Environ()
	if err != nil {
		return nil, err
	}
	b, err := openBus(ctx, environ, desktop.Extend(t.cfg.Desktop).UID())
	if err != nil {
		return nil, fmt.Errorf("connect to the accessibility bus: %w", err)
	}
	t.refs.forget() // names on the former bus mean nothing on this one
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended.Err() != nil {
		_ = b.close()
		return nil, ErrClosed
	}
	t.bus = b
	return b, nil
}

// openBus asks the session bus of a user for the accessibility bus and connects to it.
func openBus(ctx context.Context, environ []string, uid int) (*bus, error) {
	address := ""
	for _, kv := range environ {
		if v, ok := strings.CutPrefix(kv, "DBUS_SESSION_BUS_ADDRESS="); ok {
			address = v
		}
	}
	if address == "" {
		return nil, fmt.Errorf("%w: the desktop has no session bus", ErrUnavailable)
	}
	session, _, err := dial(ctx, address, uid, new(budget), func() {})
	if err != nil {
		return nil, err
	}
	defer session.Close()
	launcher := session.Object("org.a11y.Bus", "/org/a11y/bus")
	err = launcher.CallWithContext(ctx, "org.a11y.Bus.GetAddress", 0).Store(&address)
	var refused dbus.Error
	switch {
	case !errors.As(err, &refused):
	case refused.Name == "org.freedesktop.DBus.Error.ServiceUnknown":
		return nil, fmt.Errorf("%w: install the package at-spi2-core", ErrUnavailable)
	case strings.HasPrefix(refused.Name, "org.freedesktop.DBus.Error.Spawn."):
		return nil, fmt.Errorf("%w: its launcher does not start: %w; install the package at-spi2-core again", ErrUnavailable, err)
	}
	if err == nil {
		err = launcher.CallWithContext(ctx, "org.freedesktop.DBus.Properties.Set", 0, "org.a11y.Status", "IsEnabled", dbus.MakeVariant(true)).Err
	}
	if err != nil {
		return nil, err
	}
	b := &bus{uid: uid}
	if b.conn, b.transport, err = dial(ctx, address, uid, &b.queued, b.listeners.notify); err != nil {
		return nil, err
	}
	return b, nil
}
