package desktop

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/deskhand/deskhand/internal/x11"
)

// Pointer returns the position of the pointer.
func (d *Desktop) Pointer(ctx context.Context) (Pointer, error) {
	return call(ctx, &d.lifecycle, "pointer position", queryLimit, func(_ context.Context, s *session) (Pointer, error) {
		return s.pointer()
	})
}

// Move moves the pointer, to the edge if At is beyond the right or bottom edge.
func (d *Desktop) Move(ctx context.Context, m Move) (Pointer, error) {
	return d.point(ctx, "move", &m.At, m.Observation, m.Modifiers, &Action{Name: ActionMove}, nil)
}

// Click moves to At, if that is set, and presses and releases a button Count times.
func (d *Desktop) Click(ctx context.Context, c Click) (Pointer, error) {
	if err := c.Validate(); err != nil {
		return Pointer{}, err
	}
	c.Count = cmp.Or(c.Count, 1)
	return d.button(ctx, ActionClick, ButtonPress{c.At, c.Button, c.Modifiers, c.Observation}, c.Count, func(p *x11.Pointer, b int) error {
		return p.Click(b, c.Count)
	})
}

// ButtonDown presses a button until ButtonUp, ReleaseAll or Close.
func (d *Desktop) ButtonDown(ctx context.Context, b ButtonPress) (Pointer, error) {
	return d.button(ctx, ActionButtonDown, b, 0, func(p *x11.Pointer, n int) error { return p.Button(n, true) })
}

// ButtonUp releases a button.
func (d *Desktop) ButtonUp(ctx context.Context, b ButtonPress) (Pointer, error) {
	return d.button(ctx, ActionButtonUp, b, 0, func(p *x11.Pointer, n int) error { return p.Button(n, false) })
}

func (in *inputs) button(ctx context.Context, name ActionName, b ButtonPress, count int, f func(*x11.Pointer, int) error) (Pointer, error) {
	n, b2, err := buttonNumber(b.Button)
	if err != nil {
		return Pointer{}, err
	}
	a := &Action{Name: name, Button: b2, Count: count}
	return in.point(ctx, name.words(), b.At, b.Observation, b.Modifiers, a, func(s *session) error { return f(s.input.Pointer, n) })
}

// Drag presses a button at the first point of a path, moves along it, and
// releases the button at the last one.
func (d *Desktop) Drag(ctx context.Context, g Drag) (Pointer, error) {
	if err := g.Validate(); err != nil {
		return Pointer{}, err
	}
	n, button, err := buttonNumber(g.Button)
	if err != nil {
		return Pointer{}, err
	}
	a := &Action{Name: ActionDrag, Button: button}
	path := make([]x11.Point, len(g.Path))
	prepare := func(s *session) error {
		for i, p := range g.Path {
			at, err := s.onScreen(p, g.Observation)
			if err != nil {
				return err
			}
			path[i] = x11.Point{X: at.X, Y: at.Y}
		}
		first, last := path[0], path[len(path)-1]
		a.At, a.To = &Point{first.X, first.Y}, &Point{last.X, last.Y}
		return nil
	}
	return act(ctx, &d.inputs, "drag", inputLimit, a, prepare, func(ctx context.Context, s *session) (Pointer, error) {
		return s.withModifiers(ctx, g.Modifiers, func() error { return s.input.Pointer.Drag(ctx, path, n) })
	})
}

// Scroll turns the wheel, over At if that is set.
func (d *Desktop) Scroll(ctx context.Context, w Scroll) (Pointer, error) {
	if err := w.Validate(); err != nil {
		return Pointer{}, err
	}
	a := &Action{Name: ActionScroll, Delta: &Point{w.DX, w.DY}}
	return d.point(ctx, "scroll", w.At, w.Observation, w.Modifiers, a, func(s *session) error {
		if d.cfg.paced(a.Actor) {
			return s.input.Pointer.Scroll(w.DX, w.DY)
		}
		return s.input.Pointer.ScrollPaced(ctx, w.DX, w.DY)
	})
}

// point runs a pointer action with the modifiers held: it moves to at, unless that is
// nil, and calls f, unless that is nil. It sets a.At.
func (in *inputs) point(ctx context.Context, op string, at *Point, observation string, modifiers []string, a *Action,
	f func(*session) error,
) (Pointer, error) {
	if at != nil {
		if err := checkPoint(*at); err != nil {
			return Pointer{}, err
		}
	}
	prepare := func(s *session) error {
		if at == nil {
			p, err := s.pointer()
			a.At = &p.Point
			return err
		}
		p, err := s.onScreen(*at, observation)
		a.At = &p
		return err
	}
	return act(ctx, in, op, inputLimit, a, prepare, func(ctx context.Context, s *session) (Pointer, error) {
		return s.withModifiers(ctx, modifiers, func() error {
			if at != nil {
				if err := s.input.Pointer.Move(a.At.X, a.At.Y); err != nil {
					return err
				}
			}
			if f == nil {
				return nil
			}
			return f(s)
		})
	})
}

// withModifiers calls f while modifiers are held, and returns the position of the pointer
// after that.
func (s *session) withModifiers(ctx context.Context, modifiers []string, f func() error) (Pointer, error) {
	release, err := s.hold(ctx, modifiers)
	if err != nil {
		return Pointer{}, err
	}
	if err := errors.Join(f(), release()); err != nil {
		return Pointer{}, err
	}
	return s.pointer()
}

func (s *session) pointer() (Pointer, error) {
	x, y, screen, top, err := s.input.Pointer.Position()
	return Pointer{Point: Point{x, y}, Screen: screen, Window: WindowID(top)}, err
}

// hold presses modifiers and returns a function that releases them.
func (s *session) hold(ctx context.Context, modifiers []string) (func() error, error) {
	if len(modifiers) == 0 {
		return func() error { return nil }, nil
	}
	release, err := s.input.Keyboard.HoldModifiers(ctx, modifiers)
	return release, keyError("Modifiers", err)
}

// buttonNumber returns the number of a button in X. Toolkits use 8 and 9 for back and
// forward.
func buttonNumber(b Button) (int, Button, error) {
	b = cmp.Or(b, ButtonLeft)
	all := []Button{ButtonLeft, ButtonMiddle, ButtonRight, ButtonBack, ButtonForward}
	if i := slices.Index(all, b); i >= 0 {
		return []int{1, 2, 3, 8, 9}[i], b, nil
	}
	return 0, b, &InvalidError{"Button", "must be left, middle, right, back or forward"}
}

// keyError turns an *x11.KeyError into an *InvalidError.
func keyError(field string, err error) error {
	if unknown, ok := errors.AsType[*x11.KeyError](err); ok {
		return &InvalidError{field, "must name keys: " + unknown.Error()}
	}
	return err
}

// ReleaseAll releases every key and button that is held down, also those that another X client or
// another device holds. It returns an error if a button of another device stays down.
// It ends typing that runs or waits for its turn with an [InterruptedError].
// A viewer's call ends only the typing of that viewer.
func (d *Desktop) ReleaseAll(ctx context.Context) error {
	return d.act(ctx, "release all", inputLimit, &Action{Name: ActionReleaseAll}, func(_ context.Context, s *session) error {
		return s.input.ReleaseAll()
	})
}
