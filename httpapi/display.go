package httpapi

import (
	"context"
	"net/http"

	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/httpapi/internal/rest"
)

type displayInfo struct {
	Display    string     `json:"display" doc:"As in the DISPLAY variable" example:":99"`
	Resolution resolution `json:"resolution"`
	XAuthority string     `json:"xauthority,omitempty" doc:"The X authority file, as in the XAUTHORITY variable"`
	Home       string     `json:"home,omitempty" doc:"HOME of the desktop's programs"`
}

type displayOutput struct{ Body displayInfo }

func displayOf(d Desktop) *displayOutput {
	st := d.Status()
	return &displayOutput{displayInfo{
		Display: st.Display, Resolution: resolution{st.Size.Width, st.Size.Height, st.DPI},
		XAuthority: st.Authority, Home: st.Home,
	}}
}

type resizeBody struct {
	Width  uint32 `json:"width"`
	Height uint32 `json:"height"`
}

func (s *Server) registerDisplay() {
	r := rest.Route{Tag: "Display", Other: rest.RuntimeFailed}
	r.ID, r.Method, r.Path, r.Summary = "getDisplayInfo", http.MethodGet, "/display/info", "Tell what programs outside need to reach the display"
	on(s, r, nil, func(_ context.Context, d Desktop, _ *struct{}) (*displayOutput, error) {
		if st := d.Status(); st.State != desktop.StateActive {
			return nil, desktop.ErrRestarting
		}
		return displayOf(d), nil
	})
	r.ID, r.Method, r.Path, r.Summary = "resizeDesktop", http.MethodPost, "/resize", "Give the screen another size"
	on(s, r, func(in *rest.Input[resizeBody]) error { return checkExtent(in.Body.Width, in.Body.Height) },
		func(ctx context.Context, d Desktop, in *rest.Input[resizeBody]) (*displayOutput, error) {
			if err := d.Resize(ctx, desktop.Size{Width: int(in.Body.Width), Height: int(in.Body.Height)}); err != nil {
				return nil, err
			}
			return displayOf(d), nil
		})
}
