package accessibility

import (
	"context"
	"errors"
	"image"

	"github.com/godbus/dbus/v5"

	"github.com/deskhand/deskhand/desktop"
)

// scrollIntoView scrolls until the element shows.
func (u *use) scrollIntoView(ctx context.Context) error {
	if _, ok := u.inSight(); ok {
		u.done.Via = ViaNothing
		return nil
	}
	return u.reveal(ctx)
}

// reveal scrolls until the element shows: by the program, or else by the wheel.
func (u *use) reveal(ctx context.Context) error {
	const anywhere = 6 // ATSPI_SCROLL_ANYWHERE
	shows := func() bool { _, ok := u.inSight(); return ok }
	var ok bool
	err := u.call(ctx, ifaceComponent+".ScrollTo", &ok, uint32(anywhere))
	if err == nil && ok && u.until(ctx, shows) {
		u.done.Via = ViaAction
		return nil
	}
	var refused dbus.Error
	if err != nil && !errors.As(err, &refused) {
		return err
	}
	return u.wheel(ctx, shows)
}

// mostTurns is how often wheel turns the wheel.
const mostTurns = 100

// wheel turns the wheel over what the element is in, until the element shows.
func (u *use) wheel(ctx context.Context, shows func() bool) error {
	area, ok := u.scrollArea(ctx)
	if !ok || u.node.box.Width == 0 {
		return u.refused("it is not visible, and nothing scrolls it into view")
	}
	at := desktop.Point{X: (area.Min.X + area.Max.X) / 2, Y: (area.Min.Y + area.Max.Y) / 2}
	for range mostTurns {
		before := u.node.box
		w := desktop.Scroll{At: &at}
		switch middle := image.Pt(before.X+before.Width/2, before.Y+before.Height/2); {
		case middle.Y >= area.Max.Y:
			w.DY = 1
		case middle.Y < area.Min.Y:
			w.DY = -1
		case middle.X >= area.Max.X:
			w.DX = 1
		case middle.X < area.Min.X:
			w.DX = -1
		default:
			if !shows() {
				return u.refused("it is not visible")
			}
			return nil
		}
		if _, err := u.tree.cfg.Desktop.Scroll(ctx, w); err != nil {
			return err
		}
		u.done.Via = ViaPointer
		if !u.until(ctx, func() bool { return u.node.box != before || shows() }) {
			return u.refused("it is not visible, and scrolling does not move it")
		}
	}
	return u.refused("it is too far away to be scrolled into view")
}

// scrollArea returns the part of the screen in which the element can scroll.
func (u *use) scrollArea(ctx context.Context) (image.Rectangle, bool) {
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	size := u.tree.cfg.Desktop.Status().Size
	at := u.ref.at
	for range mostDepth {
		if u.bus.do(ctx, at, ifaceProperties+".Get", &at, ifaceAccessible, "Parent") != nil || at.null() {
			break
		}
		n := &node{at: at}
		(&walker{bus: u.bus}).one(ctx, n)
		if n.role.in(roleScrollPane, roleViewport, roleDocumentWeb, roleList, roleListBox, roleTree, roleTreeTable, roleTable) && n.states.has(stateShowing) {
			r := intersect(moved(n.box, u.ref.shift), desktop.Rect{Width: size.Width, Height: size.Height})
			return r, !r.Empty()
		}
	}
	return image.Rectangle{}, false
}
