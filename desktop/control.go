package desktop

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// DefaultControlIdle is the default of Config.ControlIdle.
const DefaultControlIdle = time.Minute

// freshGrant is how long a holder keeps control that was granted, counted from the grant
// or its last input, when another actor requests it.
const freshGrant = 10 * time.Second

// Control is the right to send input.
type Control struct {
	// Holder is the actor with control. Nil: no actor has it, and all may send input.
	Holder *Actor `json:"holder,omitempty"`

	// Taken means that all other actors' input is refused with a [ControlHeldError].
	// Without it, control was granted: only other viewers' input is refused.
	Taken bool `json:"taken"`

	// Since is when the holder got control.
	Since time.Time `json:"since,omitzero"`
}

// ErrControlHeld is wrapped by every *ControlHeldError.
var ErrControlHeld = errors.New("another actor has control")

// ControlHeldError is returned for an input, or a change of control, that another actor's
// control forbids. It wraps ErrControlHeld.
type ControlHeldError struct {
	Holder Actor
	Since  time.Time // when the holder got control
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

// Same reports whether two actors are the same, by ID or, without one, by Name.
func (a Actor) Same(b Actor) bool {
	if a.ID != "" || b.ID != "" {
		return a.Kind == b.Kind && a.ID == b.ID
	}
	return a.Kind == b.Kind && a.Name == b.Name
}

// control is the control of a desktop.
type control struct {
	idle    time.Duration
	changed func(Control) // called with mu held

	mu      sync.Mutex // guards the fields below
	now     Control
	used    time.Time  // the holder's latest input, or when it last took or was given control
	acted   bool       // the holder has sent input
	present []Presence // see Desktop.Actors
	timer   *time.Timer
	wake    chan struct{} // closed at the next change; nil: no input waits
	closed  bool          // stop was called
}

// set changes the holder. The caller has mu.
func (c *control) set(next Control) {
	c.used = time.Now()
	if next.Holder == nil || c.now.Holder == nil || !next.Holder.Same(*c.now.Holder) {
		next.Since, c.acted = c.used, false
	} else {
		next.Since = c.now.Since
	}
	if next.Holder == nil {
		next = Control{}
	}
	c.now = next
	c.changed(next)
	if c.wake != nil {
		close(c.wake)
		c.wake = nil
	}
}

// allows returns an error if an actor may not send input, and records the input.
func (c *control) allows(a Actor) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen(a)
	if err := c.now.refusal(a); err != nil {
		return err
	}
	if h := c.now.Holder; h != nil && h.Same(a) {
		c.used, c.acted = time.Now(), true
	}
	return nil
}

// refusal returns an error if an actor may not send input.
func (c Control) refusal(a Actor) error {
	if !c.refuses(a) {
		return nil
	}
	return &ControlHeldError{*c.Holder, c.Since}
}

// refuses reports whether an actor may not send input.
func (c Control) refuses(a Actor) bool {
	return c.Holder != nil && !c.Holder.Same(a) && (c.Taken || a.Kind == ActorViewer)
}

// arm sets the timer that ends control when the holder has been idle. The caller has mu.
func (c *control) arm(expire func()) {
	left := c.idle - time.Since(c.used)
	switch {
	case c.closed:
	case c.timer == nil:
		c.timer = time.AfterFunc(left, expire)
	default:
		c.timer.Reset(left)
	}
}

func (c *control) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	if c.timer != nil {
		c.timer.Stop()
	}
}

// Control returns the control of the desktop.
func (d *Desktop) Control() Control { return d.control.current() }

func (c *control) current() Control {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// RequestControl grants control to a if no actor has it, or if control was granted and
// its holder has not used it in the last ten seconds. Otherwise it returns a
// [ControlHeldError].
//
// Control that was granted keeps other viewers from sending input, but neither
// API callers nor agents.
func (d *Desktop) RequestControl(ctx context.Context, a Actor) error {
	return d.changeControl(ctx, func(now Control) (Control, error) {
		h := now.Holder
		if h != nil && h.Same(a) {
			return now, nil
		}
		if h != nil && (now.Taken || time.Since(d.control.used) < freshGrant) {
			return now, &ControlHeldError{*h, now.Since}
		}
		return Control{Holder: &a}, nil
	})
}

// TakeControl gives control to a alone: until it is released, given away or idle, all
// other input is refused, and other actors' typing ends. A holder that was granted
// control always loses it, and an agent loses it to a viewer. A viewer never loses it to an
// agent. Any other holder loses it only if force is set. Otherwise the error is a
// [ControlHeldError].
//
// If a former holder has sent input, TakeControl waits until the running input has ended, and
// releases the keys and buttons that are held. If the input runs for more than 10 s, or until ctx
// ends, control changes without the wait, the error is nil, and the next input releases them. If
// the X server hangs, control changes as well, and the error is that of ctx or a *DeadlineError.
// The other methods that change control do the same.
//
// In all other cases control changes immediately. An input that still waits for programs is refused
// then, and one that is being sent ends after that.
func (d *Desktop) TakeControl(ctx context.Context, a Actor, force bool) error {
	return d.takeControl(ctx, a, force, true)
}

// TakeSharedControl is like TakeControl, but leaves control as if it had been
// granted: input of other viewers is refused, input of API callers and agents is
// not. If a already has control alone, it shares control from then on.
func (d *Desktop) TakeSharedControl(ctx context.Context, a Actor, force bool) error {
	return d.takeControl(ctx, a, force, false)
}

func (in *inputs) takeControl(ctx context.Context, a Actor, force, alone bool) error {
	return in.changeControl(ctx, func(now Control) (Control, error) {
		h := now.Holder
		if h != nil && now.Taken && !h.Same(a) && !a.takesFrom(*h, force) {
			return now, &ControlHeldError{*h, now.Since}
		}
		return Control{Holder: &a, Taken: alone}, nil
	})
}

// takesFrom reports whether an actor may take control that another one has taken.
func (a Actor) takesFrom(h Actor, force bool) bool {
	switch {
	case h.Kind == ActorAgent && a.Kind == ActorViewer:
		return true
	case h.Kind == ActorViewer && a.Kind == ActorAgent:
		return false
	}
	return force
}

// GiveControl moves control from one actor to another. It stays granted or taken. If no actor
// has control, it is granted to the other one. If an actor other than from has control, the
// error is a [ControlHeldError].
func (d *Desktop) GiveControl(ctx context.Context, from, to Actor) error {
	return d.changeControl(ctx, func(now Control) (Control, error) {
		if h := now.Holder; h != nil && !h.Same(from) {
			return now, &ControlHeldError{*h, now.Since}
		}
		return Control{Holder: &to, Taken: now.Taken}, nil
	})
}

// ReleaseControl ends the control of a, and releases the keys and buttons that a holds. It
// returns nil if a does not have control.
func (d *Desktop) ReleaseControl(ctx context.Context, a Actor) error {
	return d.changeControl(ctx, func(now Control) (Control, error) {
		if h := now.Holder; h == nil || !h.Same(a) {
			return now, nil
		}
		return Control{}, nil
	})
}

// changeControl sets control to what decide returns. decide runs with mu held. Typing
// ends if its actor may no longer send input. Keys and buttons that the former
// holder holds are released before any other input.
func (in *inputs) changeControl(ctx context.Context, decide func(now Control) (Control, error)) error {
	if in.isClosing() {
		return fmt.Errorf("change control: %w", ErrClosed)
	}
	moves, err := in.tryControl(decide, false)
	if !moves {
		return err
	}
	var begun atomic.Bool // inside withInput or, if that fails, below
	decided := make(chan error, 1)
	err = in.withInput(ctx, func(s *session) error {
		if begun.Swap(true) {
			return nil
		}
		_, refused := in.tryControl(decide, true)
		decided <- refused
		if refused != nil {
			return nil //nolint:nilerr // it is returned below
		}
		return s.input.Release()
	})
	if !begun.Swap(true) {
		in.releaseDue.Store(true)
		_, err = in.tryControl(decide, true)
		return err
	}
	if refused := <-decided; refused != nil {
		return refused
	}
	return err
}

// tryControl changes control as decide says. If that takes control from an actor that
// may hold keys or buttons, and inTurn is false, it returns true and changes nothing:
// only the turn of an input can do that.
func (in *inputs) tryControl(decide func(now Control) (Control, error), inTurn bool) (moves bool, err error) {
	c := &in.control
	c.mu.Lock()
	defer c.mu.Unlock()
	next, err := decide(c.now)
	if err != nil {
		return false, err
	}
	before := c.now.Holder
	moves = before != nil && c.acted && (next.Holder == nil || !next.Holder.Same(*before))
	if next.Holder != nil {
		since := time.Now()
		if before != nil && next.Holder.Same(*before) {
			since = c.now.Since
		}
		in.pending.interrupt(&ControlHeldError{*next.Holder, since}, func(a Actor) bool {
			return next.refuses(a) || moves && before.Same(a)
		})
	}
	if moves && !inTurn {
		return true, nil
	}
	if next != c.now {
		c.set(next)
	}
	if next.Holder != nil {
		c.arm(in.expireControl)
	}
	return false, nil
}

// expireControl ends the control of an idle holder.
func (in *inputs) expireControl() {
	c := &in.control
	c.mu.Lock()
	if h := c.now.Holder; h != nil && in.pending.typing(*h) {
		c.used = time.Now()
	}
	left := c.idle - time.Since(c.used)
	idle := !c.closed && c.now.Holder != nil && left <= 0
	if !c.closed && c.now.Holder != nil && left > 0 {
		c.timer.Reset(left)
	}
	c.mu.Unlock()
	if !idle {
		return
	}
	err := in.changeControl(context.Background(), func(now Control) (Control, error) {
		if time.Since(c.used) < c.idle { // it sent input meanwhile
			return now, nil
		}
		return Control{}, nil
	})
	if err != nil {
		in.log.Debug("control of an idle holder", "error", err)
	}
}

// withInput runs f in the turn of an input. It does not check whether an actor has control.
func (in *inputs) withInput(ctx context.Context, f func(*session) error) error {
	_, err := call(ctx, &in.lifecycle, "change control", inputLimit, func(ctx context.Context, s *session) (struct{}, error) {
		if err := in.turns.acquire(ctx, true); err != nil {
			return struct{}{}, err
		}
		defer in.turns.release(nil)
		return struct{}{}, f(s)
	})
	return err
}

type controlWaitKey struct{}

// WithControlWait returns a context for inputs that wait for the end of another actor's control,
// each for at most d, before they fail with a [ControlHeldError]. [Desktop.Exclusive] waits
// before it has its turn, and inputs within that turn do not wait.
func WithControlWait(ctx context.Context, d time.Duration) context.Context {
	return context.WithValue(ctx, controlWaitKey{}, d)
}

// waitForControl calls f and, if another actor's control refuses it, again when that has
// ended, until the time of WithControlWait has passed.
func waitForControl[T any](ctx context.Context, in *inputs, f func() (T, error)) (T, error) {
	wait, _ := ctx.Value(controlWaitKey{}).(time.Duration)
	if wait <= 0 || in.turnFrom(ctx) != nil {
		return f()
	}
	waiting, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	for {
		in.awaitControl(waiting, ActorFrom(ctx))
		if ctx.Err() != nil {
			var zero T
			return zero, &InterruptedError{Op: "wait for control", Cause: context.Cause(ctx)}
		}
		v, err := f()
		if waiting.Err() != nil || !errors.Is(err, ErrControlHeld) || errors.Is(err, ErrInterrupted) {
			return v, err
		}
	}
}

// awaitControl waits until control allows the input of an actor, or until ctx ends or the
// desktop is closed.
func (in *inputs) awaitControl(ctx context.Context, a Actor) {
	c := &in.control
	for {
		c.mu.Lock()
		if !c.now.refuses(a) {
			c.mu.Unlock()
			return
		}
		if c.wake == nil {
			c.wake = make(chan struct{})
		}
		wake := c.wake
		c.mu.Unlock()
		select {
		case <-wake:
		case <-ctx.Done():
			return
		case <-in.closing:
			return
		}
	}
}
