package quiesce

import (
	"context"
	"log/slog"
	"time"

	"github.com/jezek/xgb"
	"github.com/jezek/xgb/xproto"
	"golang.org/x/sys/unix"

	"github.com/deskhand/deskhand/internal/x11/request"
)

// Display is the X connection that a Tracker and a Manager use.
type Display struct {
	X          *xgb.Conn
	Root       xproto.Window
	Number     int             // of the display
	ClientPIDs bool            // the X server has X-Resource, which reports the processes of its clients
	Done       <-chan struct{} // closed when the connection has ended
	Log        *slog.Logger

	// Batch calls send and has all of its requests reach the X server in one write.
	// send must not wait for a reply.
	Batch func(send func())
}

// pointer returns the child of the root window that the pointer is in, or 0.
func (d *Display) pointer() (xproto.Window, error) {
	r, err := xproto.QueryPointer(d.X, d.Root).Reply()
	if err != nil {
		return 0, request.Wrap("query pointer", err)
	}
	return r.Child, nil
}

// Pauses between checks of an application. They get longer: most applications need a
// fraction of a millisecond, and checks would take processor time from a slow one.
const (
	firstPause = 100 * time.Microsecond
	lastPause  = 4 * time.Millisecond
)

// poll calls done until it reports true or returns an error.
func (d *Display) poll(ctx context.Context, done func() (bool, error)) error {
	for pause := firstPause; ; pause = min(pause*3/2, lastPause) {
		if ok, err := done(); ok || err != nil {
			return err
		}
		if err := d.pause(ctx, pause); err != nil {
			return err
		}
	}
}

// pause waits for t. It returns ErrNotDrained if ctx ends before that.
func (d *Display) pause(ctx context.Context, t time.Duration) error {
	if t < time.Millisecond { // for which Go's timers are too coarse
		span := unix.NsecToTimespec(t.Nanoseconds())
		_ = unix.Nanosleep(&span, nil)
	} else {
		select {
		case <-time.After(t):
		case <-d.Done:
		case <-ctx.Done():
		}
	}
	select {
	case <-d.Done:
		return request.ErrConnClosed
	case <-ctx.Done():
		return ErrNotDrained
	default:
		return nil
	}
}
