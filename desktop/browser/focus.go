package browser

import (
	"context"
	"slices"
	"time"

	"github.com/deskhand/deskhand/desktop"
)

// focusLimit is how long a page may take to get the keyboard.
const focusLimit = 2 * time.Second

// awaitFocus waits until a page and the browser's window have the keyboard, for which it focuses the
// window if the browser has only one. It returns a *NotReadyError if they do not get it.
func (b *elements) awaitFocus(ctx context.Context, t *tab, session string) error {
	asked, cancel := context.WithTimeout(ctx, focusLimit)
	defer cancel()
	pid, err := b.pid(asked)
	if err != nil {
		return err
	}
	for begun := true; ; begun = false {
		w, err := b.cfg.Desktop.FocusedWindow(asked)
		var focused bool
		switch {
		case err == nil && w.PID == pid:
			if err := b.runScript(asked, frame{id: t.id, session: session}, "hasFocus", &focused); err != nil && asked.Err() == nil {
				return err
			}
		case begun:
			if err := b.focusWindow(asked, pid); err != nil {
				return err
			}
		}
		if focused {
			return nil
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

// focusWindow focuses the browser's window, if it has only one.
func (b *process) focusWindow(ctx context.Context, pid int) error {
	windows, err := b.cfg.Desktop.Windows(ctx, desktop.WindowFilter{All: true})
	if err != nil {
		return err
	}
	windows = slices.DeleteFunc(windows, func(w desktop.Window) bool { return w.PID != pid })
	if len(windows) == 1 {
		_, err = b.cfg.Desktop.FocusWindow(ctx, windows[0].ID)
	}
	return err
}
