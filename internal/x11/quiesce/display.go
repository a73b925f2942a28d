package quiesce

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/jezek/xgb"
	"github.com/jezek/xgb/xproto"
	"golang.org/x/sys/unix"
)

// ErrConnClosed is returned once the connection to the X server is gone.
var ErrConnClosed = errors.New("connection to the X server is closed")

// Display is the X connection that a Tracker and a Manager use.
type Display struct {
	X          *xgb.Conn
	Root       xproto.Window
	Number     int             // of the display
	ClientPIDs bool            // the X server has X-Resource, which tells the processes of its clients
	Done       <-chan struct{} // closed when the connection is gone
	Log        *slog.Logger

	// Atom interns a name.
	Atom func(name string) (xproto.Atom, error)

	// Batch calls send and has all of its requests reach the X server in one write.
	// send must not wait for a reply.
	Batch func(send func())
}

// atoms interns names.
func (d *Display) atoms(names map[string]*xproto.Atom) (err error) {
	for name, atom := range names {
		if *atom, err = d.Atom(name); err != nil {
			return err
		}
	}
	return nil
}

// sync waits until the server has handled every request sent before.
func (d *Display) sync() error {
	_, err := xproto.GetInputFocus(d.X).Reply()
	return failure("synchronise", err)
}

// pointer returns the child of the root window that the pointer is in, or 0.
func (d *Display) pointer() (xproto.Window, error) {
	r, err := xproto.QueryPointer(d.X, d.Root).Reply()
	if err != nil {
		return 0, failure("query pointer", err)
	}
	return r.Child, nil
}

// Pauses between looks at an application. Each pause is longer than the one before:
// most applications are done after a fraction of a millisecond, and a slow one needs
// the processor more than we do.
const (
	firstLook = 100 * time.Microsecond
	lastLook  = 4 * time.Millisecond
)

// pause waits before the next look at an application, and makes look longer.
func (d *Display) pause(ctx context.Context, look *time.Duration) error {
	select {
	case <-d.Done:
		return ErrConnClosed
	case <-ctx.Done():
		return ErrNotDrained
	default:
	}
	pause := *look
	*look = min(pause*3/2, lastLook)
	if pause < time.Millisecond { // which Go's timers would make a millisecond
		span := unix.NsecToTimespec(pause.Nanoseconds())
		_ = unix.Nanosleep(&span, nil) // a shorter one does no harm
		return nil
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-d.Done:
		return ErrConnClosed
	case <-ctx.Done():
		return ErrNotDrained
	}
}

// failure gives an error of xgb the operation's name. xgb reports a connection that
// is gone as io.EOF.
func failure(op string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, io.EOF):
		return fmt.Errorf("%s: %w", op, ErrConnClosed)
	}
	return fmt.Errorf("%s: %w", op, err)
}

// words returns the value of a property of 32-bit units. It returns none for other
// properties.
func words(r *xproto.GetPropertyReply) (list []uint32) {
	if r.Format != 32 {
		return nil
	}
	for b := r.Value; len(b) >= 4; b = b[4:] {
		list = append(list, binary.LittleEndian.Uint32(b))
	}
	return list
}

// word returns the first unit of such a property, or 0.
func word(r *xproto.GetPropertyReply) uint32 {
	if list := words(r); len(list) > 0 {
		return list[0]
	}
	return 0
}
