//go:build robotgo

package robot

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-vgo/robotgo"

	"github.com/deskhand/deskhand/desktop"
)

// The bounds of desktop.Desktop.
const (
	maxClicks = 100
	maxScroll = 1000
	maxPath   = 10000
)

// Pointer returns the position of the pointer.
func (d *Desktop) Pointer(ctx context.Context) (p desktop.Pointer, err error) {
	return p, d.runLocked(ctx, func() error {
		p = pointerPosition()
		return nil
	})
}

func pointerPosition() desktop.Pointer {
	x, y := robotgo.Location()
	return desktop.Pointer{Point: desktop.Point{X: x, Y: y}}
}

// Move moves the pointer.
func (d *Desktop) Move(ctx context.Context, m desktop.Move) (desktop.Pointer, error) {
	return d.point(ctx, desktop.Action{Name: desktop.ActionMove}, &m.At, m.Observation, m.Modifiers, nil)
}

// Click clicks, Count times.
func (d *Desktop) Click(ctx context.Context, c desktop.Click) (desktop.Pointer, error) {
	if c.Count = cmp.Or(c.Count, 1); c.Count < 0 || c.Count > maxClicks {
		return desktop.Pointer{}, &desktop.InvalidError{Field: "Count", Reason: fmt.Sprintf("must be between 1 and %d", maxClicks)}
	}
	name, button, err := buttonOf(c.Button)
	if err != nil {
		return desktop.Pointer{}, err
	}
	return d.point(ctx, desktop.Action{Name: desktop.ActionClick, Button: button, Count: c.Count}, c.At, c.Observation, c.Modifiers, func() error {
		for range c.Count {
			if err := errors.Join(robotgo.MouseDown(name), robotgo.MouseUp(name)); err != nil {
				return err
			}
		}
		return nil
	})
}

// ButtonDown presses a button until ButtonUp, ReleaseAll or Close.
func (d *Desktop) ButtonDown(ctx context.Context, b desktop.ButtonPress) (desktop.Pointer, error) {
	return d.button(ctx, desktop.ActionButtonDown, b, func(name string) error {
		d.held[buttonPrefix+name] = true
		return robotgo.MouseDown(name)
	})
}

// ButtonUp releases a button.
func (d *Desktop) ButtonUp(ctx context.Context, b desktop.ButtonPress) (desktop.Pointer, error) {
	return d.button(ctx, desktop.ActionButtonUp, b, func(name string) error {
		delete(d.held, buttonPrefix+name)
		return robotgo.MouseUp(name)
	})
}

func (d *Desktop) button(ctx context.Context, action desktop.ActionName, b desktop.ButtonPress, f func(name string) error) (desktop.Pointer, error) {
	name, button, err := buttonOf(b.Button)
	if err != nil {
		return desktop.Pointer{}, err
	}
	return d.point(ctx, desktop.Action{Name: action, Button: button}, b.At, b.Observation, b.Modifiers, func() error { return f(name) })
}

// dragPace is the time between the steps of a drag, for applications that poll the
// pointer.
const dragPace = 5 * time.Millisecond

// Drag presses a button at the first point of a path, moves along it, and
// releases the button at the last one.
func (d *Desktop) Drag(ctx context.Context, g desktop.Drag) (desktop.Pointer, error) {
	name, button, err := buttonOf(g.Button)
	switch {
	case err != nil:
		return desktop.Pointer{}, err
	case len(g.Path) < 2 || len(g.Path) > maxPath:
		return desktop.Pointer{}, &desktop.InvalidError{Field: "Path", Reason: fmt.Sprintf("must have 2 to %d points", maxPath)}
	}
	path := slices.Clone(g.Path)
	for i, p := range path {
		if path[i], err = d.pictures.OnScreen(p, g.Observation, d.Status().Size); err != nil {
			return desktop.Pointer{}, err
		}
	}
	a := desktop.Action{Name: desktop.ActionDrag, Button: button, To: &path[len(path)-1]}
	return d.point(ctx, a, &path[0], "", g.Modifiers, func() error {
		err := robotgo.MouseDown(name)
		for _, p := range path[1:] {
			robotgo.MilliSleep(int(dragPace.Milliseconds()))
			robotgo.Move(p.X, p.Y)
		}
		robotgo.MilliSleep(int(dragPace.Milliseconds()))
		return errors.Join(err, robotgo.MouseUp(name))
	})
}

// Scroll turns the wheel, over At if that is set.
func (d *Desktop) Scroll(ctx context.Context, w desktop.Scroll) (desktop.Pointer, error) {
	far := func(v int) bool { return v < -maxScroll || v > maxScroll }
	if far(w.DX) || far(w.DY) {
		return desktop.Pointer{}, &desktop.InvalidError{Field: "DY", Reason: fmt.Sprintf("deltaX and deltaY must be between -%d and %d", maxScroll, maxScroll)}
	}
	a := desktop.Action{Name: desktop.ActionScroll, Delta: &desktop.Point{X: w.DX, Y: w.DY}}
	return d.point(ctx, a, w.At, w.Observation, w.Modifiers, func() error {
		// For robotgo, up and left are positive.
		robotgo.Scroll(-w.DX, -w.DY, 0)
		return nil
	})
}

// point moves the pointer to at with modifiers held, and then calls f. at and f may be nil.
func (d *Desktop) point(ctx context.Context, a desktop.Action, at *desktop.Point, observation string, modifiers []string, f func() error) (p desktop.Pointer, err error) {
	mods, err := modifierNames(modifiers)
	if err != nil {
		return p, err
	}
	if at != nil {
		to, err := d.pictures.OnScreen(*at, observation, d.Status().Size)
		if err != nil {
			return p, err
		}
		a.At = &to
	}
	return p, d.act(ctx, a, func(a *desktop.Action) error {
		err := d.withHeld(mods, func() error {
			if a.At != nil {
				robotgo.Move(a.At.X, a.At.Y)
			}
			if f == nil {
				return nil
			}
			return f()
		})
		p = pointerPosition()
		if a.At == nil {
			a.At = &desktop.Point{X: p.X, Y: p.Y}
		}
		return err
	})
}

// buttonPrefix begins the names of buttons in held.
const buttonPrefix = "button:"

// buttonOf returns robotgo's name of a button.
func buttonOf(b desktop.Button) (string, desktop.Button, error) {
	switch b {
	case "", desktop.ButtonLeft:
		return "left", desktop.ButtonLeft, nil
	case desktop.ButtonMiddle:
		return "center", b, nil
	case desktop.ButtonRight:
		return "right", b, nil
	case desktop.ButtonBack, desktop.ButtonForward:
		return "", b, unsupported("button " + string(b))
	}
	return "", b, &desktop.InvalidError{Field: "Button", Reason: "must be left, middle or right"}
}

// releaseHeld releases all held keys and buttons. The caller has mu.
func (d *Desktop) releaseHeld() error {
	var errs []error
	for name := range d.held {
		if button, ok := strings.CutPrefix(name, buttonPrefix); ok {
			errs = append(errs, robotgo.MouseUp(button))
		} else {
			errs = append(errs, robotgo.KeyUp(name))
		}
	}
	clear(d.held)
	return errors.Join(errs...)
}

// ReleaseAll releases every key and button that this Desktop holds, and ends typing that
// runs or waits for its turn.
func (d *Desktop) ReleaseAll(ctx context.Context) error {
	d.interrupt()
	return d.act(ctx, desktop.Action{Name: desktop.ActionReleaseAll}, func(*desktop.Action) error { return d.releaseHeld() })
}
