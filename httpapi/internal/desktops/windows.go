package desktops

import (
	"context"
	"net/http"
	"strconv"

	"github.com/deskhand/deskhand/agents/computer"
	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/httpapi/internal/rest"
)

type windowInfo struct {
	ID          string `json:"id" doc:"X window id in decimal"`
	Title       string `json:"title"`
	X           int    `json:"x" doc:"x, y, width and height are of the content, without the frame"`
	Y           int    `json:"y"`
	Width       int    `json:"width"`
	Height      int    `json:"height"`
	IsActive    bool   `json:"isActive" doc:"Whether it has the focus"`
	Class       string `json:"class,omitempty" doc:"Class of the program's windows" example:"XTerm"`
	PID         int    `json:"pid,omitempty"`
	IsMinimised bool   `json:"isMinimised,omitempty"`
	IsMaximised bool   `json:"isMaximised,omitempty"`
	IsDialog    bool   `json:"isDialog,omitempty"`
}

type windowList struct {
	Windows []windowInfo `json:"windows" nullable:"false"`
}

func infoOf(w desktop.Window) windowInfo {
	return windowInfo{
		ID: windowID(w.ID), Title: w.Title, X: w.Bounds.X, Y: w.Bounds.Y, Width: w.Bounds.Width, Height: w.Bounds.Height,
		IsActive: w.Active, Class: w.Class, PID: w.PID, IsMinimised: w.Minimised, IsMaximised: w.Maximised, IsDialog: w.Dialog,
	}
}

func windowInfos(list []desktop.Window) []windowInfo {
	out := make([]windowInfo, 0, len(list))
	for _, w := range list {
		out = append(out, infoOf(w))
	}
	return out
}

// windowID is an id on the wire, and empty for no window.
func windowID(id desktop.WindowID) string {
	if id == 0 {
		return ""
	}
	return strconv.FormatUint(uint64(id), 10)
}

// windowNumber returns the X window id. Text that is not a number names no window.
func windowNumber(text string) (desktop.WindowID, error) {
	id, err := strconv.ParseUint(text, 10, 32)
	if err != nil || id == 0 {
		return 0, windowNotFound.WithCode("Window " + text + " not found; GET the windows for those that exist")
	}
	return desktop.WindowID(id), nil
}

type windowsInput struct {
	Desktop string `path:"desktop" default:"main"`
	All     bool   `query:"all" doc:"Include small windows and windows without a title"`
}

type windowInput struct {
	Desktop string `path:"desktop" default:"main"`
	ID      string `path:"id" doc:"Id of the window" example:"8388621"`
}

type moveWindow struct {
	X int32 `json:"x"`
	Y int32 `json:"y"`
}

type resizeWindow struct {
	Width  uint32 `json:"width"`
	Height uint32 `json:"height"`
}

func (a *Area) registerWindows() {
	r := rest.Route{Tag: "Windows", Other: runtimeFailed}
	act(a, r.Get("listWindows", "/windows", "List the windows"), func(ctx context.Context, in *windowsInput) (*rest.Output[windowList], error) {
		d, err := running[computer.WindowManager](a, in.Desktop)
		if err != nil {
			return nil, err
		}
		list, err := d.Windows(ctx, desktop.WindowFilter{All: in.All})
		return rest.Reply(windowList{windowInfos(list)}, err)
	})
	r.Errors = []int{http.StatusNotFound}
	act(a, r.Get("getFocusedWindow", "/windows/focused", "Get the focused window"),
		func(ctx context.Context, in *target) (*rest.Output[windowInfo], error) {
			d, err := running[interface {
				FocusedWindow(context.Context) (desktop.Window, error)
			}](a, in.Desktop)
			if err != nil {
				return nil, err
			}
			w, err := d.FocusedWindow(ctx)
			return rest.Reply(infoOf(w), err)
		})
	act(a, r.Post("moveWindow", "/windows/{id}/move", "Move a window").
		WithAbout("x and y are the position of the top left corner of the content. The window manager may choose another position."),
		func(ctx context.Context, in *itemInput[moveWindow]) (*rest.Output[windowInfo], error) {
			return a.manage(in.Desktop, in.ID, nil, func(d computer.WindowManager, id desktop.WindowID) (desktop.Window, error) {
				return d.MoveWindow(ctx, id, pointOf(pixel(in.Body.X), pixel(in.Body.Y)))
			})
		})
	act(a, r.Post("resizeWindow", "/windows/{id}/resize", "Resize a window").
		WithAbout("A terminal gets the nearest size that fits whole characters."),
		func(ctx context.Context, in *itemInput[resizeWindow]) (*rest.Output[windowInfo], error) {
			size, bad := sizeOf(in.Body.Width, in.Body.Height)
			return a.manage(in.Desktop, in.ID, bad, func(d computer.WindowManager, id desktop.WindowID) (desktop.Window, error) {
				return d.ResizeWindow(ctx, id, size)
			})
		})
	registerWindowActions(a, r)
}

// manage returns what do returns for a window of a running desktop. bad is what is wrong
// with other arguments.
func (a *Area) manage(desktopID, id string, bad error, do func(computer.WindowManager, desktop.WindowID) (desktop.Window, error)) (*rest.Output[windowInfo], error) {
	d, err := running[computer.WindowManager](a, desktopID, bad)
	if err != nil {
		return nil, err
	}
	number, err := windowNumber(id)
	if err != nil {
		return nil, err
	}
	w, err := do(d, number)
	return rest.Reply(infoOf(w), err)
}

// registerWindowActions adds the actions without a body.
func registerWindowActions(a *Area, r rest.Route) {
	action := func(r rest.Route, do func(computer.WindowManager, context.Context, desktop.WindowID) (desktop.Window, error)) {
		act(a, r, func(ctx context.Context, in *windowInput) (*rest.Output[windowInfo], error) {
			return a.manage(in.Desktop, in.ID, nil, func(d computer.WindowManager, id desktop.WindowID) (desktop.Window, error) {
				return do(d, ctx, id)
			})
		})
	}
	maximise := func(on bool) func(computer.WindowManager, context.Context, desktop.WindowID) (desktop.Window, error) {
		return func(d computer.WindowManager, ctx context.Context, id desktop.WindowID) (desktop.Window, error) {
			return d.MaximiseWindow(ctx, id, on)
		}
	}
	action(r.Post("focusWindow", "/windows/{id}/focus", "Raise and focus a window"), computer.WindowManager.FocusWindow)
	action(r.Post("minimiseWindow", "/windows/{id}/minimise", "Minimize a window").WithAbout("focus and restore show the window again."),
		computer.WindowManager.MinimiseWindow)
	action(r.Post("maximiseWindow", "/windows/{id}/maximise", "Maximize a window"), maximise(true))
	action(r.Post("restoreWindow", "/windows/{id}/restore", "Restore a window to its previous size"), maximise(false))
	act(a, r.Post("closeWindow", "/windows/{id}/close", "Ask a window to close").
		WithAbout("Like the window's close button: the program may ask for confirmation."),
		func(ctx context.Context, in *windowInput) (*rest.OKOutput, error) {
			_, err := a.manage(in.Desktop, in.ID, nil, func(d computer.WindowManager, id desktop.WindowID) (w desktop.Window, err error) {
				return w, d.CloseWindow(ctx, id)
			})
			return rest.OKOr(err)
		})
}
