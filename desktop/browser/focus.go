package browser

import (
	"context"
	"slices"
	"time"

	"github.com/deskhand/deskhand/desktop"
)

// focusLimit is how long a page may take to get the keyboard.
const focusLimit = 2 * time.Second

// awaitFocus waits until a page and its window have the keyboard, for which it focuses the window. It
// returns a *NotReadyError if they do not get it.
func (b *elements) awaitFocus(ctx context.Context, t *tab, session string) error {
	asked, cancel := context.WithTimeout(ctx, focusLimit)
	defer cancel()
	pid, err := b.pid(asked)
	if err != nil {
		return err
	}
	for begun := true; ; begun = false {
		focused, own, err := b.hasKeyboard(asked, t, session, pid)
		if err == nil && !focused && begun && own.ID != 0 {
			_, err = b.cfg.Desktop.FocusWindow(asked, own.ID)
		}
		if focused || err != nil && asked.Err() == nil {
			return err
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-asked.Done():
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return &NotReadyError{"the page " + b.infoOf(t).Title, "not in the window that has the focus"}
		}
	}
}

// hasKeyboard reports whether a page and its window have the keyboard, and returns the window.
func (b *elements) hasKeyboard(ctx context.Context, t *tab, session string, pid int) (focused bool, own desktop.Window, err error) {
	if own, err = b.window(ctx, t.id, pid); err != nil {
		return false, own, err
	}
	w, err := b.cfg.Desktop.FocusedWindow(ctx)
	if err != nil || w.PID != pid || w.Bounds != own.Bounds { // windows in one place cannot be told apart
		return false, own, nil //nolint:nilerr // no window has the focus
	}
	err = b.runScript(ctx, frame{id: t.id, session: session}, "hasFocus", &focused)
	return focused, own, err
}

// window returns the window of a browser that is where the browser says that a tab is, or the zero
// Window if the browser has none.
func (b *process) window(ctx context.Context, target string, pid int) (desktop.Window, error) {
	windows, err := b.cfg.Desktop.Windows(ctx, desktop.WindowFilter{All: true})
	windows = slices.DeleteFunc(windows, func(w desktop.Window) bool { return w.PID != pid })
	switch {
	case err != nil || len(windows) == 0:
		return desktop.Window{}, err
	case len(windows) == 1:
		return windows[0], nil
	}
	var v struct {
		Bounds struct{ Left, Top, Width, Height int }
	}
	if err := b.call(ctx, "", "Browser.getWindowForTarget", map[string]any{"targetId": target}, &v); err != nil {
		return desktop.Window{}, err
	}
	distance := func(r desktop.Rect) int {
		abs := func(n int) int { return max(n, -n) }
		return abs(r.X-v.Bounds.Left) + abs(r.Y-v.Bounds.Top) + abs(r.Width-v.Bounds.Width) + abs(r.Height-v.Bounds.Height)
	}
	return slices.MinFunc(windows, func(x, y desktop.Window) int { return distance(x.Bounds) - distance(y.Bounds) }), nil
}

// pid returns the process of the browser.
func (b *process) pid(ctx context.Context) (int, error) {
	var v struct {
		ProcessInfo []struct {
			Type string
			ID   int
		}
	}
	err := b.call(ctx, "", "SystemInfo.getProcessInfo", nil, &v)
	for _, p := range v.ProcessInfo {
		if p.Type == "browser" {
			return p.ID, nil
		}
	}
	return b.app.PID, err
}
