package batch

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/deskhand/deskhand/desktop"
)

func (a Move) do(ctx context.Context, r *run, done *Done) error {
	a.Observation = cmp.Or(a.Observation, r.batch.Observation)
	return done.pointer(r.Desktop.Move(ctx, desktop.Move(a)))
}

func (a Click) do(ctx context.Context, r *run, done *Done) error {
	a.Observation = cmp.Or(a.Observation, r.batch.Observation)
	return done.pointer(r.Desktop.Click(ctx, desktop.Click(a)))
}

func (a ButtonDown) do(ctx context.Context, r *run, done *Done) error {
	a.Observation = cmp.Or(a.Observation, r.batch.Observation)
	return done.pointer(r.Desktop.ButtonDown(ctx, desktop.ButtonPress(a)))
}

func (a ButtonUp) do(ctx context.Context, r *run, done *Done) error {
	a.Observation = cmp.Or(a.Observation, r.batch.Observation)
	return done.pointer(r.Desktop.ButtonUp(ctx, desktop.ButtonPress(a)))
}

func (a Drag) do(ctx context.Context, r *run, done *Done) error {
	a.Observation = cmp.Or(a.Observation, r.batch.Observation)
	return done.pointer(r.Desktop.Drag(ctx, desktop.Drag(a)))
}

func (a Scroll) do(ctx context.Context, r *run, done *Done) error {
	a.Observation = cmp.Or(a.Observation, r.batch.Observation)
	return done.pointer(r.Desktop.Scroll(ctx, desktop.Scroll(a)))
}

func (a Type) do(ctx context.Context, r *run, _ *Done) error {
	return r.Desktop.Type(ctx, desktop.Type(a))
}

func (a Press) do(ctx context.Context, r *run, _ *Done) error {
	return r.Desktop.Press(ctx, desktop.Press(a))
}

func (a KeyDown) do(ctx context.Context, r *run, _ *Done) error { return r.Desktop.KeyDown(ctx, a.Key) }

func (a KeyUp) do(ctx context.Context, r *run, _ *Done) error { return r.Desktop.KeyUp(ctx, a.Key) }

func (a Launch) do(ctx context.Context, r *run, done *Done) error {
	r.opens = true
	return done.app(r.Desktop.Launch(ctx, desktop.Launch(a)))
}

func (a Open) do(ctx context.Context, r *run, done *Done) error {
	r.opens = true
	return done.app(r.Desktop.Open(ctx, a.Target))
}

func (a Focus) do(ctx context.Context, r *run, done *Done) error {
	r.opens = true
	w, err := r.Desktop.FocusWindow(ctx, a.Window)
	done.Window = w.ID
	return err
}

func (a SetClipboard) do(ctx context.Context, r *run, _ *Done) error {
	return r.Desktop.SetClipboard(ctx, a.Content, a.To...)
}

func (a Element) do(ctx context.Context, r *run, done *Done) (err error) {
	done.Via, err = r.Elements.Act(ctx, a)
	return err
}

// maxValues bounds the results of the browser's actions in a batch, in bytes.
const maxValues = 8 << 20

var errValues = errors.New("the results of the browser's actions have more than 8 MiB")

func (a Browse) do(ctx context.Context, r *run, done *Done) error {
	value, err := r.Browser.Do(ctx, a)
	if r.values+len(value) > maxValues {
		return errValues
	}
	r.values += len(value)
	done.Value = value
	return err
}

func (a Call) do(ctx context.Context, r *run, _ *Done) error {
	r.opens = a.Opens
	if a.Yields {
		return r.yield(ctx, a.Do)
	}
	return a.Do(ctx)
}

func noElements() error { return fmt.Errorf("elements: %w", desktop.ErrUnsupported) }

func noBrowser() error { return fmt.Errorf("browser: %w", desktop.ErrUnsupported) }

// pointer adds where an action has left the pointer, on the screen.
func (d *Done) pointer(p desktop.Pointer, err error) error {
	if err == nil {
		d.At, d.Window = &p.Point, p.Window
	}
	return err
}

func (d *Done) app(app desktop.App, err error) error {
	if app.PID != 0 {
		d.App, d.Window = &app, app.Window
	}
	return err
}
