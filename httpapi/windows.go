package httpapi

import (
	"context"
	"net/http"
	"strconv"

	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/httpapi/internal/rest"
)

type windowInfo struct {
	ID          string `json:"id" doc:"X window id, in decimal"`
	Title       string `json:"title"`
	X           int    `json:"x" doc:"Of the content, as width and height: without the frame"`
	Y           int    `json:"y"`
	Width       int    `json:"width"`
	Height      int    `json:"height"`
	IsActive    bool   `json:"isActive" doc:"It has the focus"`
	Class       string `json:"class,omitempty" doc:"The program's class" example:"XTerm"`
	PID         int    `json:"pid,omitempty"`
	IsMinimised bool   `json:"isMinimised,omitempty"`
	IsMaximised bool   `json:"isMaximised,omitempty"`
}

type windowOutput struct{ Body windowInfo }

type windowList struct {
	Windows []windowInfo `json:"windows" nullable:"false"`
}

func infoOf(w desktop.Window) windowInfo {
	return windowInfo{
		ID: windowID(w.ID), Title: w.Title, X: w.Bounds.X, Y: w.Bounds.Y, Width: w.Bounds.Width, Height: w.Bounds.Height,
		IsActive: w.Active, Class: w.Class, PID: w.PID, IsMinimised: w.Minimised, IsMaximised: w.Maximised,
	}
}

func windowInfos(list []desktop.Window) []windowInfo {
	out := make([]windowInfo, 0, len(list))
	for _, w := range list {
		out = append(out, infoOf(w))
	}
	return out
}

func infoOr(w desktop.Window, err error) (*windowOutput, error) {
	if err != nil {
		return nil, err
	}
	return &windowOutput{infoOf(w)}, nil
}

// windowPath is the window that a path names.
type windowPath struct {
	ID string `path:"id" doc:"The window's id" example:"8388621"`
}

// windowNumber is the X window id. What is no number names no window.
func windowNumber(text string) (desktop.WindowID, error) {
	id, err := strconv.ParseUint(text, 10, 32)
	if err != nil || id == 0 {
		return 0, rest.WindowNotFound.WithCode("Window " + text + " not found; GET the windows for those that exist")
	}
	return desktop.WindowID(id), nil
}

type windowsInput struct {
	All bool `query:"all" doc:"Also those without a title and the small ones"`
}

type moveWindowInput struct {
	ID   string `path:"id"`
	Body struct {
		X int32 `json:"x"`
		Y int32 `json:"y"`
	} `nameHint:"MoveWindow"`
}

type resizeWindowInput struct {
	ID   string `path:"id"`
	Body struct {
		Width  uint32 `json:"width"`
		Height uint32 `json:"height"`
	} `nameHint:"ResizeWindow"`
}

func (s *Server) registerWindows() {
	r := rest.Route{Method: http.MethodGet, Tag: "Windows", Other: rest.RuntimeFailed}
	r.ID, r.Path, r.Summary = "listWindows", "/windows", "List the windows"
	on(s, r, nil, func(ctx context.Context, d Desktop, in *windowsInput) (*struct{ Body windowList }, error) {
		list, err := d.Windows(ctx, desktop.WindowFilter{All: in.All})
		if err != nil {
			return nil, err
		}
		return &struct{ Body windowList }{windowList{windowInfos(list)}}, nil
	})
	r.Errors = []int{http.StatusNotFound}
	r.ID, r.Path, r.Summary = "getFocusedWindow", "/windows/focused", "Tell which window has the focus"
	on(s, r, nil, func(ctx context.Context, d Desktop, _ *struct{}) (*windowOutput, error) {
		return infoOr(d.FocusedWindow(ctx))
	})
	r.Method = http.MethodPost
	r.ID, r.Path, r.Summary = "moveWindow", "/windows/{id}/move", "Move a window"
	r.About = "Its content's top left corner goes there, as far as the window manager allows."
	on(s, r, nil, func(ctx context.Context, d Desktop, in *moveWindowInput) (*windowOutput, error) {
		id, err := windowNumber(in.ID)
		if err != nil {
			return nil, err
		}
		return infoOr(d.MoveWindow(ctx, id, at(in.Body.X, in.Body.Y)))
	})
	r.ID, r.Path, r.Summary = "resizeWindow", "/windows/{id}/resize", "Resize a window"
	r.About = "A terminal takes the nearest size that shows whole characters."
	on(s, r, func(in *resizeWindowInput) error { return checkExtent(in.Body.Width, in.Body.Height) },
		func(ctx context.Context, d Desktop, in *resizeWindowInput) (*windowOutput, error) {
			id, err := windowNumber(in.ID)
			if err != nil {
				return nil, err
			}
			return infoOr(d.ResizeWindow(ctx, id, desktop.Size{Width: int(in.Body.Width), Height: int(in.Body.Height)}))
		})
	s.registerWindowActions(r)
}

// registerWindowActions are those without a body.
func (s *Server) registerWindowActions(r rest.Route) {
	action := func(id, path, summary, about string, f func(context.Context, Desktop, desktop.WindowID) (*windowOutput, error)) {
		r.ID, r.Path, r.Summary, r.About = id, "/windows/{id}/"+path, summary, about
		on(s, r, nil, func(ctx context.Context, d Desktop, in *windowPath) (*windowOutput, error) {
			number, err := windowNumber(in.ID)
			if err != nil {
				return nil, err
			}
			return f(ctx, d, number)
		})
	}
	action("focusWindow", "focus", "Raise a window and give it the focus", "",
		func(ctx context.Context, d Desktop, id desktop.WindowID) (*windowOutput, error) {
			return infoOr(d.FocusWindow(ctx, id))
		})
	action("minimiseWindow", "minimise", "Take a window off the screen", "focus and restore bring it back.",
		func(ctx context.Context, d Desktop, id desktop.WindowID) (*windowOutput, error) {
			return infoOr(d.MinimiseWindow(ctx, id))
		})
	action("maximiseWindow", "maximise", "Give a window the whole screen", "",
		func(ctx context.Context, d Desktop, id desktop.WindowID) (*windowOutput, error) {
			return infoOr(d.MaximiseWindow(ctx, id, true))
		})
	action("restoreWindow", "restore", "Give a window its former size", "",
		func(ctx context.Context, d Desktop, id desktop.WindowID) (*windowOutput, error) {
			return infoOr(d.MaximiseWindow(ctx, id, false))
		})
	r.ID, r.Path, r.Summary = "closeWindow", "/windows/{id}/close", "Ask a window to close"
	r.About = "As its close button does: the program may ask its user first."
	on(s, r, nil, func(ctx context.Context, d Desktop, in *windowPath) (*rest.OKOutput, error) {
		number, err := windowNumber(in.ID)
		if err != nil {
			return nil, err
		}
		return rest.OKOr(d.CloseWindow(ctx, number))
	})
}

func checkExtent(width, height uint32) error {
	switch {
	case width == 0:
		return rest.InvalidArgument("width", "width must be greater than 0")
	case height == 0:
		return rest.InvalidArgument("height", "height must be greater than 0")
	case width > desktop.MaxWidth:
		return rest.InvalidArgument("width", "width must be at most "+strconv.Itoa(desktop.MaxWidth))
	case height > desktop.MaxHeight:
		return rest.InvalidArgument("height", "height must be at most "+strconv.Itoa(desktop.MaxHeight))
	}
	return nil
}
