package x11

import (
	"errors"
	"slices"

	"github.com/jezek/xgb"
	"github.com/jezek/xgb/xproto"

	"github.com/deskhand/deskhand/internal/x11/request"
)

// StackedWindow is a child of the root window that shows something: the frame of a window,
// or a menu.
type StackedWindow struct {
	ID                  Window
	X, Y, Width, Height int
}

// maxStacked bounds the windows that Stack considers. It considers the topmost.
const maxStacked = 512

// Stack returns the mapped children of the root window, the topmost last.
func (w *Windows) Stack() ([]StackedWindow, error) {
	tree, err := xproto.QueryTree(w.c.x, w.c.root).Reply()
	if err != nil {
		return nil, request.Wrap("query window tree", err)
	}
	// Those of this connection show nothing, and may be destroyed meanwhile.
	ids := slices.DeleteFunc(tree.Children, func(id xproto.Window) bool { return w.c.wire.owns(uint32(id)) })
	ids = ids[max(0, len(ids)-maxStacked):]
	attributes := make([]xproto.GetWindowAttributesCookie, len(ids))
	geometries := make([]xproto.GetGeometryCookie, len(ids))
	w.c.wire.cork()
	for i, id := range ids {
		attributes[i] = xproto.GetWindowAttributes(w.c.x, id)
		geometries[i] = xproto.GetGeometry(w.c.x, xproto.Drawable(id))
	}
	if w.c.wire.uncork() != nil {
		return nil, ErrConnClosed
	}
	var stack []StackedWindow
	for i, id := range ids {
		a, errA := attributes[i].Reply()
		g, errG := geometries[i].Reply()
		var gone xgb.Error
		switch err := errors.Join(errA, errG); {
		case errors.As(err, &gone): // the window was destroyed
		case err != nil:
			return nil, request.Wrap("query window tree", err)
		case a.MapState == xproto.MapStateViewable && a.Class == xproto.WindowClassInputOutput:
			border := 2 * int(g.BorderWidth)
			stack = append(stack, StackedWindow{id, int(g.X), int(g.Y), int(g.Width) + border, int(g.Height) + border})
		}
	}
	return stack, nil
}

// At returns the topmost window of a stack at a point, or 0 for the root window.
func At(stack []StackedWindow, p Point) Window {
	for i := len(stack) - 1; i >= 0; i-- {
		if w := stack[i]; p.X >= w.X && p.X < w.X+w.Width && p.Y >= w.Y && p.Y < w.Y+w.Height {
			return w.ID
		}
	}
	return 0
}
