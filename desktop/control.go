package desktop

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// DefaultControlIdle is how long control is kept by one who sends no input.
const DefaultControlIdle = time.Minute

// freshGrant is for how long a grant is left alone that its holder has not used
// yet, or not any more.
const freshGrant = 10 * time.Second

// Control says who holds the right to send input. Nobody has to hold it: then
// every API caller and agent may act.
type Control struct {
	// Holder has control; nil: nobody has.
	Holder *Actor `json:"holder,omitempty"`

	// Taken says that the holder asked for it alone: the input of everybody
	// else is refused with a [ControlHeldError]. Control that was only granted
	// keeps other viewers out, not API callers and agents.
	Taken bool `json:"taken"`

	// Since is when the holder got it.
	Since time.Time `json:"since,omitzero"`
}

// ErrControlHeld is wrapped by every *ControlHeldError.
var ErrControlHeld = errors.New("somebody else has control")

// ControlHeldError names who has the control that an input, or a change of
// control, would need. It wraps ErrControlHeld.
type ControlHeldError struct {
	Holder Actor
}

func (e *ControlHeldError) Error() string {
	return fmt.Sprintf("%s has control of the desktop", e.Holder)
}

// Unwrap makes errors.Is(err, ErrControlHeld) true.
func (e *ControlHeldError) Unwrap() error { return ErrControlHeld }

// String names an actor for people.
func (a Actor) String() string {
	switch {
	case a.Name != "":
		return string(a.Kind) + " " + a.Name
	case a.ID != "":
		return string(a.Kind) + " " + a.ID
	}
	return "the " + string(a.Kind)
}

// same says whether two actors are one: by their ids, or by their names when
// they have none.
func (a Actor) same(b Actor) bool {
	if a.ID != "" || b.ID != "" {
		return a.Kind == b.Kind && a.ID == b.ID
	}
	return a.Kind == b.Kind && a.Name == b.Name
}

// control is who holds control of a desktop.
type control struct {
	idle time.Duration
	told func(Control) // called with mu held

	mu    sync.Mutex // guards what follows
	now   Control
	used  time.Time // the holder's latest input, or Since
	acted bool      // the holder has sent input
	timer *time.Timer
	over  bool
}

// set changes the holder and reports whether what the one before holds down has
// to be let go of. The caller has mu.
func (c *control) set(next Control) (release bool) {
	release = c.now.Holder != nil && c.acted && (next.Holder == nil || !next.Holder.same(*c.now.Holder))
	if next.Holder == nil || c.now.Holder == nil || !next.Holder.same(*c.now.Holder) {
		next.Since, c.used, c.acted = time.Now(), time.Now(), false
	} else {
		next.Since = c.now.Since
	}
	if next.Holder == nil {
		next = Control{}
	}
	c.now = next
	c.told(next)
	return release
}

// allows returns why an actor may not send input, and notes that it does.
func (c *control) allows(a Actor) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	h := c.now.Holder
	switch {
	case h == nil:
	case h.same(a):
		c.used, c.acted = time.Now(), true
	case c.now.Taken, a.Kind == ActorViewer:
		return &ControlHeldError{*h}
	}
	return nil
}

// arm has the control given back when its holder is idle for too long. The
// caller has mu.
func (c *control) arm(expire func()) {
	switch {
	case c.over:
	case c.timer == nil:
		c.timer = time.AfterFunc(c.idle, expire)
	default:
		c.timer.Reset(c.idle)
	}
}

// stop ends the timer for good.
func (c *control) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over = true
	if c.timer != nil {
		c.timer.Stop()
	}
}

// Control tells who has control.
func (d *Desktop) Control() Control {
	d.control.mu.Lock()
	defer d.control.mu.Unlock()
	return d.control.now
}

// RequestControl grants control to a if nobody has it, or nobody who has used it
// in the last ten seconds. Control that somebody has taken stays there. It
// reports whether a has control now; a [ControlHeldError] says who else does.
//
// Control that was granted keeps other viewers from sending input, but neither
// API callers nor agents.
func (d *Desktop) RequestControl(ctx context.Context, a Actor) error {
	c := &d.control
	return d.changeControl(ctx, func() (Control, error) {
		h := c.now.Holder
		if h != nil && h.same(a) {
			return c.now, nil
		}
		if h != nil && (c.now.Taken || time.Since(c.used) < freshGrant) {
			return c.now, &ControlHeldError{*h}
		}
		return Control{Holder: &a}, nil
	})
}

// TakeControl gives control to a alone: until it is released, given away or idle,
// everybody else's input is refused. It is taken from who was only granted it
// and, by a viewer, from an agent. From others only force takes it.
func (d *Desktop) TakeControl(ctx context.Context, a Actor, force bool) error {
	c := &d.control
	return d.changeControl(ctx, func() (Control, error) {
		h := c.now.Holder
		agent := h != nil && h.Kind == ActorAgent && a.Kind == ActorViewer
		if h != nil && c.now.Taken && !h.same(a) && !force && !agent {
			return c.now, &ControlHeldError{*h}
		}
		return Control{Holder: &a, Taken: true}, nil
	})
}

// GiveControl hands control from its holder to another, as it is: granted or
// taken.
func (d *Desktop) GiveControl(ctx context.Context, from, to Actor) error {
	c := &d.control
	return d.changeControl(ctx, func() (Control, error) {
		h := c.now.Holder
		if h != nil && !h.same(from) {
			return c.now, &ControlHeldError{*h}
		}
		return Control{Holder: &to, Taken: c.now.Taken}, nil
	})
}

// ReleaseControl gives control back if a has it.
func (d *Desktop) ReleaseControl(ctx context.Context, a Actor) error {
	c := &d.control
	return d.changeControl(ctx, func() (Control, error) {
		if h := c.now.Holder; h == nil || !h.same(a) {
			return c.now, nil
		}
		return Control{}, nil
	})
}

// changeControl makes what decide returns the state of control. Whatever the
// holder before holds down is let go of.
func (d *Desktop) changeControl(ctx context.Context, decide func() (Control, error)) error {
	if d.isClosing() {
		return fmt.Errorf("change control: %w", ErrClosed)
	}
	c := &d.control
	c.mu.Lock()
	next, err := decide()
	release := false
	if err == nil && next != c.now {
		release = c.set(next)
	}
	if err == nil && next.Holder != nil {
		c.arm(d.expireControl)
	}
	c.mu.Unlock()
	if release {
		err = errors.Join(err, d.letGo(ctx))
	}
	return err
}

// expireControl takes control back from who is idle.
func (d *Desktop) expireControl() {
	c := &d.control
	c.mu.Lock()
	left := c.idle - time.Since(c.used)
	if c.over || c.now.Holder == nil || left > 0 {
		if !c.over && c.now.Holder != nil {
			c.timer.Reset(left)
		}
		c.mu.Unlock()
		return
	}
	release := c.set(Control{})
	c.mu.Unlock()
	if release {
		if err := d.letGo(context.Background()); err != nil {
			d.log.Debug("keys of an idle holder of control not released", "error", err)
		}
	}
}

// letGo releases all that is held down, whoever has control.
func (d *Desktop) letGo(ctx context.Context) error {
	_, err := call(ctx, d, "release all", inputLimit, func(ctx context.Context, s *session) (struct{}, error) {
		select {
		case <-d.input:
		case <-ctx.Done():
			return struct{}{}, ctx.Err()
		}
		defer func() { d.input <- struct{}{} }()
		return struct{}{}, s.input.ReleaseAll()
	})
	if errors.Is(err, ErrRestarting) || errors.Is(err, ErrClosed) {
		return nil // the keys went with the X server
	}
	return err
}
