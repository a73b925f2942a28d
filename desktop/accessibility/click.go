package accessibility

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/deskhand/deskhand/desktop"
)

// inSight returns the middle of what shows of the element.
func (u *use) inSight() (desktop.Point, bool) {
	size := u.tree.cfg.Desktop.Status().Size
	shown := intersect(u.node.box, desktop.Rect{Width: size.Width, Height: size.Height})
	if shown.Empty() || !u.node.states.has(stateShowing) {
		return desktop.Point{}, false
	}
	return desktop.Point{X: (shown.Min.X + shown.Max.X) / 2, Y: (shown.Min.Y + shown.Max.Y) / 2}, true
}

// click clicks at the middle of the element, or else lets the program do what a click does.
func (u *use) click(ctx context.Context, button desktop.Button) error {
	under, err := u.point(ctx)
	if err == nil {
		u.done.Via = ViaPointer
		p, err := u.tree.cfg.Desktop.Click(ctx, desktop.Click{Button: button})
		if err != nil || p.Window == under {
			return err
		}
		return u.checkTaker(ctx, p.Window)
	}
	if !errors.Is(err, ErrRefused) {
		return err
	}
	names := clickNames
	if button == desktop.ButtonRight {
		names = []string{"showmenu", "show menu", "popup menu", "menu"}
	}
	i, ok := u.action(ctx, names, button == desktop.ButtonLeft)
	if !ok {
		return err
	}
	u.done = Done{Via: ViaAction}
	return u.call(ctx, ifaceAction+".DoAction", nil, int32(i))
}

// clickNames are the names that toolkits give to what a click does.
var clickNames = []string{"click", "press", "activate", "toggle", "jump", "open", "check", "uncheck", "select", "switch", "dodefault"}

// action returns the index of the first action with one of the names. Without one, it is the
// first action if that is enough.
func (u *use) action(ctx context.Context, names []string, first bool) (int, bool) {
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	var list []action
	if u.bus.do(ctx, u.ref.at, ifaceAction+".GetActions", &list) != nil {
		return 0, false
	}
	list = list[:min(len(list), mostActions)]
	for i, a := range list {
		for _, name := range names {
			if strings.EqualFold(a.Name, name) {
				return i, true
			}
		}
	}
	return 0, first && len(list) > 0
}

// point moves the pointer to the middle of the element, and returns the window there. It returns
// a *RefusedError if the pointer cannot reach the element.
func (u *use) point(ctx context.Context) (desktop.WindowID, error) {
	d := u.tree.cfg.Desktop
	at, ok := u.inSight()
	if !ok {
		if err := u.reveal(ctx); err != nil {
			return 0, err
		}
		if at, ok = u.inSight(); !ok {
			return 0, u.refused("it is not on the screen")
		}
	}
	p, err := d.Move(ctx, desktop.Move{At: at})
	if err == nil && u.ref.window != 0 && p.Window != u.ref.window {
		if _, err = d.FocusWindow(ctx, u.ref.window); err == nil {
			p, err = d.Move(ctx, desktop.Move{At: at})
		}
		if err == nil && p.Window != u.ref.window || errors.Is(err, desktop.ErrWindowNotFound) {
			return 0, u.refused(fmt.Sprintf("window %d covers it", p.Window))
		}
	}
	if err == nil && u.ref.window == 0 {
		err = u.checkProgram(ctx, p.Window)
	}
	u.done.At = &at
	return p.Window, err
}

// checkProgram returns a *RefusedError if a window belongs to another program than the element,
// whose window is unknown: a program must not make its caller click on another one.
func (u *use) checkProgram(ctx context.Context, id desktop.WindowID) error {
	own, known, err := u.owns(ctx, id)
	if err == nil && known && !own {
		err = u.refused(fmt.Sprintf("window %d, which covers it, belongs to another program", id))
	}
	return err
}

// checkTaker returns a *RefusedError unless a window that came under the pointer with the click
// belongs to the program of the element, as a dialog does that the click opens.
func (u *use) checkTaker(ctx context.Context, id desktop.WindowID) error {
	own, _, err := u.owns(ctx, id)
	if err == nil && !own {
		err = u.refused(fmt.Sprintf("the windows changed before the click, and window %d got it", id))
	}
	return err
}

// owns reports whether a window belongs to the program of the element, if the window manager
// knows the window. It does not know menus.
func (u *use) owns(ctx context.Context, id desktop.WindowID) (own, known bool, err error) {
	windows, err := u.tree.cfg.Desktop.Windows(ctx, desktop.WindowFilter{All: true})
	if err != nil {
		return false, false, err
	}
	i := slices.IndexFunc(windows, func(w desktop.Window) bool { return w.ID == id && w.PID != 0 })
	if i < 0 {
		return false, false, nil
	}
	asked, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	p := &program{at: u.ref.at}
	u.bus.identify(asked, []*program{p})
	return p.pid == windows[i].PID, true, nil
}
