package desktop

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"sync"

	"github.com/deskhand/deskhand/internal/x11"
)

// WindowID is an X window's number.
type WindowID uint32

// Window is a top-level window. Its texts have at most 256 characters and no control
// characters.
type Window struct {
	ID        WindowID `json:"id"`
	Title     string   `json:"title"`              // a URL at its beginning has no query and no fragment
	Class     string   `json:"class,omitempty"`    // second part of WM_CLASS: "XTerm"
	Instance  string   `json:"instance,omitempty"` // first part of WM_CLASS: "xterm"
	PID       int      `json:"pid,omitempty"`      // zero: unknown
	Bounds    Rect     `json:"bounds"`             // the content, without decoration
	Frame     Rect     `json:"frame"`              // with decoration
	Active    bool     `json:"active"`
	Minimised bool     `json:"minimised"`
	Maximised bool     `json:"maximised"`
	Dialog    bool     `json:"dialog,omitempty"` // says that it is one (EWMH)
}

// WindowFilter selects windows. The zero value leaves out windows without a title and
// windows smaller than 120x80, unless they have the focus.
type WindowFilter struct {
	All bool // select every managed window
}

// The smallest window that the default filter lists, as in sandbox-agent.
const (
	leastWidth  = 120
	leastHeight = 80
)

// Windows lists the top-level windows that pass the filter, in the order in which they were
// opened. It considers the first 512.
func (d *Desktop) Windows(ctx context.Context, filter WindowFilter) ([]Window, error) {
	return call(ctx, &d.lifecycle, "list windows", queryLimit, func(ctx context.Context, s *session) ([]Window, error) {
		if err := s.managed(); err != nil {
			return nil, err
		}
		infos, err := s.windows.List(ctx)
		if err != nil {
			return nil, err
		}
		windows := make([]Window, 0, len(infos))
		for _, info := range infos {
			small := info.Width < leastWidth || info.Height < leastHeight
			if filter.All || info.Active || (info.Title != "" && !small) {
				windows = append(windows, windowOf(info))
			}
		}
		return windows, nil
	})
}

// FocusedWindow returns the window that has the focus, or ErrNoFocusedWindow.
func (d *Desktop) FocusedWindow(ctx context.Context) (Window, error) {
	return call(ctx, &d.lifecycle, "focused window", queryLimit, func(_ context.Context, s *session) (Window, error) {
		if err := s.managed(); err != nil {
			return Window{}, err
		}
		info, err := s.windows.Active()
		if errors.Is(err, x11.ErrNoWindow) {
			return Window{}, ErrNoFocusedWindow
		}
		return windowOf(info), err
	})
}

// FocusWindow raises a window and gives it the focus.
//
// Like all actions on a window, it returns ErrWindowNotFound if there is no such window.
// It waits for the effect for about a second and returns the window as it is then. A
// program or window manager that does not comply is not an error.
func (d *Desktop) FocusWindow(ctx context.Context, id WindowID) (Window, error) {
	return d.window(ctx, ActionFocusWindow, id, &Action{}, func(ctx context.Context, w *x11.Windows) (x11.WindowInfo, error) {
		return w.Focus(ctx, x11.Window(id))
	})
}

// MoveWindow moves a window so that its content's top left corner is at p, unless the window
// manager moves it elsewhere, for example to keep it on the screen.
func (d *Desktop) MoveWindow(ctx context.Context, id WindowID, p Point) (Window, error) {
	if p.X < -1<<15 || p.X >= 1<<15 || p.Y < -1<<15 || p.Y >= 1<<15 {
		return Window{}, &InvalidError{"X", "coordinates must be between -32768 and 32767"}
	}
	return d.window(ctx, ActionMoveWindow, id, &Action{To: &p}, func(ctx context.Context, w *x11.Windows) (x11.WindowInfo, error) {
		return w.Move(ctx, x11.Window(id), p.X, p.Y)
	})
}

// ResizeWindow sets the size of a window's content. The program may choose another size, as
// terminals do. The result has that size.
func (d *Desktop) ResizeWindow(ctx context.Context, id WindowID, size Size) (Window, error) {
	if err := checkSize("Width", size, Size{MaxWidth, MaxHeight}); err != nil {
		return Window{}, err
	}
	return d.window(ctx, ActionResizeWindow, id, &Action{Size: &size}, func(ctx context.Context, w *x11.Windows) (x11.WindowInfo, error) {
		return w.Resize(ctx, x11.Window(id), size.Width, size.Height)
	})
}

// CloseWindow asks a window to close, as its close button does. It returns nil if the
// window stays for two seconds, for example because the program asks its user first.
func (d *Desktop) CloseWindow(ctx context.Context, id WindowID) error {
	_, err := d.window(ctx, ActionCloseWindow, id, &Action{}, func(ctx context.Context, w *x11.Windows) (x11.WindowInfo, error) {
		return x11.WindowInfo{}, w.Close(ctx, x11.Window(id))
	})
	return err
}

// MinimiseWindow takes a window off the screen. FocusWindow shows it again.
func (d *Desktop) MinimiseWindow(ctx context.Context, id WindowID) (Window, error) {
	return d.window(ctx, ActionMinimiseWindow, id, &Action{}, func(ctx context.Context, w *x11.Windows) (x11.WindowInfo, error) {
		return w.Minimise(ctx, x11.Window(id))
	})
}

// MaximiseWindow gives a window the whole screen if on is true, or its former size.
func (d *Desktop) MaximiseWindow(ctx context.Context, id WindowID, on bool) (Window, error) {
	name := ActionMaximiseWindow
	if !on {
		name = ActionRestoreWindow
	}
	return d.window(ctx, name, id, &Action{}, func(ctx context.Context, w *x11.Windows) (x11.WindowInfo, error) {
		return w.Maximise(ctx, x11.Window(id), on)
	})
}

// window runs one action on a window and describes the window after that.
func (in *inputs) window(ctx context.Context, name ActionName, id WindowID, a *Action,
	f func(context.Context, *x11.Windows) (x11.WindowInfo, error),
) (Window, error) {
	a.Name, a.Window = name, id
	op := fmt.Sprintf("%s %d", name.words(), id)
	return act(ctx, in, op, windowLimit, a, (*session).managed, func(ctx context.Context, s *session) (Window, error) {
		info, err := f(ctx, s.windows)
		return windowOf(info), err
	})
}

// managed returns an error while there is no window manager.
func (s *session) managed() error {
	if !s.wmReady.Load() {
		return fmt.Errorf("the window manager is being restarted: %w", ErrRestarting)
	}
	return nil
}

// setManaged records whether there is a window manager. A window manager that the desktop has
// started must answer.
func (s *session) setManaged(on bool) {
	s.windows.Require(on && s.wm != nil)
	s.wmReady.Store(on)
}

func (l *lifecycle) windowEvent(e x11.WindowEvent) {
	types := map[x11.WindowEventKind]EventType{
		x11.WindowOpened: EventWindowOpened, x11.WindowClosed: EventWindowClosed,
		x11.WindowFocused: EventWindowFocused, x11.WindowRenamed: EventWindowRenamed,
	}
	event := Event{Type: types[e.Kind]}
	if e.Window.ID != 0 {
		w := windowOf(e.Window)
		event.Window = &w
	}
	l.events.Emit(event)
}

// urlTitle matches a title that begins with a URL, as of a page that has no title yet: what comes
// before the URL's query or fragment, that, and the name of the program. Browsers show spaces in
// URLs, so the name is what follows the last dash.
var urlTitle = sync.OnceValue(func() *regexp.Regexp {
	const (
		scheme = `(?:[a-z][a-z0-9+.-]*:)`
		label  = `[\pL\pN_-]+`
		host   = `(?:\[[0-9a-f:.]+\]|` + label + `(?:\.` + label + `)+\.?|localhost|` + label + `:\d+)(?::\d+)?`
	)
	return regexp.MustCompile(`(?s)^(?:` +
		`(` + scheme + `+//[^\s/?#]*(?:/[^?#]*)?)[?#]` +
		`|(` + scheme + `*` + host + `(?:/[^?#]*)?)[?#]\S` +
		// These may also be words: "and/or?", "AC/DC's #1".
		`|(` + scheme + `*` + label + `/[^\s?#]*)[?#]\S` +
		`|(` + scheme + `*` + label + `/[^?#]*)\?[^\s=]+=` +
		`)(?:.*( [-—] .*)|.*)$`)
})

func windowOf(i x11.WindowInfo) Window {
	return Window{
		ID: WindowID(i.ID), Title: urlTitle().ReplaceAllString(i.Title, "$1$2$3$4$5"), Class: i.Class, Instance: i.Instance, PID: i.PID,
		Bounds: Rect{i.X, i.Y, i.Width, i.Height},
		Frame:  Rect{i.FrameX, i.FrameY, i.FrameWidth, i.FrameHeight},
		Active: i.Active, Minimised: i.Minimised, Maximised: i.Maximised, Dialog: i.Dialog,
	}
}
