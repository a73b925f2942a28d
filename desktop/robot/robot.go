//go:build robotgo

package robot

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"image"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-vgo/robotgo"

	"github.com/deskhand/deskhand/desktop"
)

// ErrNoDisplay is returned if there is no desktop to drive.
var ErrNoDisplay = errors.New("no display can be reached")

// ErrInUse is returned if another Desktop of this program is open.
var ErrInUse = errors.New("this program drives the desktop already")

// Config configures a Desktop.
type Config struct {
	// ID is its name in events. Empty: "main".
	ID string

	// Policy is like desktop.Config.Policy. Nil: everything is allowed.
	Policy func(context.Context, desktop.Action) error

	// SecretValue is like desktop.Config.SecretValue. Nil: there are no secrets.
	SecretValue func(name string) (value string, ok bool)
}

// Desktop is the desktop of a person's session.
type Desktop struct {
	cfg      Config
	events   *desktop.EventLog
	pictures *desktop.Pictures
	started  time.Time

	mu     sync.Mutex      // guards the fields below, and robotgo
	held   map[string]bool // keys and buttons
	closed bool

	typing        sync.Mutex      // guards the fields below; never held while mu is waited for
	uninterrupted context.Context //nolint:containedctx // ends with the next interrupt
	endTyping     context.CancelFunc
}

var open atomic.Bool // a Desktop is open; robotgo has one state for the whole program

// Start opens the desktop of this program's session.
func Start(ctx context.Context, cfg Config) (*Desktop, error) {
	cfg.ID = cmp.Or(cfg.ID, "main")
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if !open.CompareAndSwap(false, true) {
		return nil, ErrInUse
	}
	if !reachable() {
		open.Store(false)
		return nil, fmt.Errorf("%w: DISPLAY is %q; start this from a terminal of that desktop", ErrNoDisplay, os.Getenv("DISPLAY"))
	}
	ignoreErrors()
	robotgo.MouseSleep, robotgo.KeySleep = 0, 0
	d := &Desktop{
		cfg: cfg, events: desktop.NewEventLog(cfg.ID), pictures: desktop.NewPictures(), started: time.Now(), held: map[string]bool{},
	}
	d.uninterrupted, d.endTyping = context.WithCancel(context.Background())
	return d, nil
}

// Close ends typing and releases the keys and buttons that are held. Later calls return
// desktop.ErrClosed.
func (d *Desktop) Close() error {
	d.interrupt()
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil
	}
	err := d.releaseHeld()
	d.closed = true
	robotgo.CloseMainDisplay()
	d.events.Close()
	open.Store(false)
	return err
}

// runLocked calls f with mu held. It returns the error of ctx, or desktop.ErrClosed, instead
// if the context or the desktop has ended.
func (d *Desktop) runLocked(ctx context.Context, f func() error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	if d.closed {
		return desktop.ErrClosed
	}
	return f()
}

// act runs an input if the policy allows it, and emits it.
func (d *Desktop) act(ctx context.Context, a desktop.Action, f func(*desktop.Action) error) error {
	return d.runLocked(ctx, func() error {
		a = desktop.ActionFrom(ctx, a)
		a.Time = time.Now()
		if d.cfg.Policy != nil {
			if err := d.cfg.Policy(ctx, a); err != nil {
				return err
			}
		}
		err := f(&a)
		if invalid := (*desktop.InvalidError)(nil); errors.As(err, &invalid) {
			return err // it had no effect
		}
		if err != nil {
			a.Error = err.Error()
		}
		d.events.Emit(desktop.Event{Type: desktop.EventAction, Action: &a})
		return err
	})
}

// Status describes the desktop.
func (d *Desktop) Status() desktop.Status {
	s := desktop.Status{ID: d.cfg.ID, State: desktop.StateActive, Display: os.Getenv("DISPLAY"), StartedAt: d.started, Host: true}
	err := d.runLocked(context.Background(), func() error {
		s.Size = screenSize()
		return nil
	})
	if err != nil {
		s.State = desktop.StateInactive
	}
	return s
}

// Subscribe is like desktop.Desktop.Subscribe.
func (d *Desktop) Subscribe(after uint64) *desktop.Subscription { return d.events.Subscribe(after) }

// screenSize returns the size of all displays, which are one screen on X11.
func screenSize() desktop.Size {
	w, h := robotgo.GetScreenSize()
	return desktop.Size{Width: w, Height: h}
}

// settlePace is the time between two pictures that settle compares.
const settlePace = 50 * time.Millisecond

// Screenshot takes a picture of all displays.
func (d *Desktop) Screenshot(ctx context.Context, o desktop.ScreenshotOptions) (*desktop.Screenshot, error) {
	if _, err := d.capture(ctx); err != nil {
		return nil, err
	}
	settled, err := d.settle(ctx, o)
	if err != nil {
		return nil, err
	}
	at, err := d.Pointer(ctx)
	if err != nil {
		return nil, err
	}
	pic, err := d.pictures.Take(ctx, o, at.Point)
	if pic != nil {
		pic.Settled = settled
	}
	return pic, err
}

// settle takes pictures until the screen has not changed for o.Settle.
func (d *Desktop) settle(ctx context.Context, o desktop.ScreenshotOptions) (desktop.Settled, error) {
	if o.Settle <= 0 {
		return desktop.Settled{Quiet: true}, nil
	}
	if o.SettleTimeout <= 0 {
		o.SettleTimeout = 5 * time.Second
	}
	start := time.Now()
	deadline, quiet := start.Add(o.SettleTimeout), start
	pace := time.NewTicker(settlePace)
	defer pace.Stop()
	for seen := uint64(0); ; {
		seq, err := d.capture(ctx)
		if err != nil {
			return desktop.Settled{}, err
		}
		if seq != seen {
			seen, quiet = seq, time.Now()
		}
		if time.Since(quiet) >= o.Settle {
			return desktop.Settled{Quiet: true, Elapsed: time.Since(start)}, nil
		}
		if time.Now().After(deadline) {
			return desktop.Settled{Elapsed: time.Since(start)}, nil
		}
		select {
		case <-pace.C:
		case <-ctx.Done():
			return desktop.Settled{}, ctx.Err()
		}
	}
}

// capture takes a picture and returns the number of the last change.
func (d *Desktop) capture(ctx context.Context) (seq uint64, err error) {
	err = d.runLocked(ctx, func() error {
		size := screenSize()
		img, err := robotgo.CaptureImg(0, 0, size.Width, size.Height)
		if err != nil {
			return fmt.Errorf("screenshot: %w", err)
		}
		rgba, ok := img.(*image.RGBA)
		if !ok {
			return fmt.Errorf("screenshot: an image of type %T", img)
		}
		seq = d.pictures.Show(rgba)
		return nil
	})
	return seq, err
}

// unsupported returns the error of a call that robotgo does not support.
func unsupported(call string) error {
	return fmt.Errorf("%s: %w, which is driven through robotgo", call, desktop.ErrUnsupported)
}
