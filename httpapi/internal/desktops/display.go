package desktops

import (
	"context"
	"strconv"

	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/desktop/fleet"
	"github.com/deskhand/deskhand/httpapi/internal/rest"
)

type resolution struct {
	Width  int `json:"width"`
	Height int `json:"height"`
	DPI    int `json:"dpi,omitempty"`
}

type displayInfo struct {
	Display    string     `json:"display" doc:"Value for the DISPLAY variable" example:":99"`
	Resolution resolution `json:"resolution"`
	XAuthority string     `json:"xauthority,omitempty" doc:"Value for the XAUTHORITY variable"`
	Home       string     `json:"home,omitempty" doc:"Value for the HOME variable"`
}

type resizeBody struct {
	Width  uint32 `json:"width"`
	Height uint32 `json:"height"`
}

func displayOf(st desktop.Status) displayInfo {
	return displayInfo{
		Display: st.Display, Resolution: resolution{st.Size.Width, st.Size.Height, st.DPI}, XAuthority: st.Authority, Home: st.Home,
	}
}

func (a *Area) registerDisplay() {
	r := rest.Route{Tag: "Display", Other: runtimeFailed}
	act(a, r.Get("getDisplayInfo", "/display/info", "Get the environment variables for X clients"),
		func(_ context.Context, in *target) (*rest.Output[displayInfo], error) {
			d, err := running[fleet.Desktop](a, in.Desktop)
			if err != nil {
				return nil, err
			}
			st := d.Status()
			if st.State != desktop.StateActive {
				return nil, desktop.ErrRestarting
			}
			return rest.Reply(displayOf(st), nil)
		})
	act(a, r.Post("resizeDesktop", "/resize", "Resize the screen"),
		func(ctx context.Context, in *input[resizeBody]) (*rest.Output[displayInfo], error) {
			size, bad := sizeOf(in.Body.Width, in.Body.Height)
			d, err := running[interface {
				fleet.Desktop
				Resize(context.Context, desktop.Size) error
			}](a, in.Desktop, bad)
			if err == nil {
				err = d.Resize(ctx, size)
			}
			if err != nil {
				return nil, err
			}
			return rest.Reply(displayOf(d.Status()), nil)
		})
}

// sizeOf returns the size of a screen or window.
func sizeOf(width, height uint32) (desktop.Size, error) {
	return desktop.Size{Width: int(width), Height: int(height)}, check([]argument{
		{width == 0, "width", "width must be greater than 0"},
		{height == 0, "height", "height must be greater than 0"},
		{width > desktop.MaxWidth, "width", "width must be at most " + strconv.Itoa(desktop.MaxWidth)},
		{height > desktop.MaxHeight, "height", "height must be at most " + strconv.Itoa(desktop.MaxHeight)},
	})
}
