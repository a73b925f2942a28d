package httpapi

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/desktop/fleet"
	"github.com/deskhand/deskhand/httpapi/internal/rest"
	"github.com/deskhand/deskhand/internal/userhome"
	"github.com/deskhand/deskhand/webrtc"
)

// startOptions are the members of a start request. All may be left out.
type startOptions struct {
	Width      *uint32 `json:"width,omitempty" doc:"Pixels; 1440 when left out"`
	Height     *uint32 `json:"height,omitempty" doc:"Pixels; 900 when left out"`
	MaxWidth   *uint32 `json:"maxWidth,omitempty" doc:"The widest that resize may make it; 3840 when left out"`
	MaxHeight  *uint32 `json:"maxHeight,omitempty" doc:"The highest that resize may make it; 2160 when left out"`
	DPI        *uint32 `json:"dpi,omitempty" doc:"Dots per inch; 96 when left out"`
	DisplayNum *int32  `json:"displayNum,omitempty" doc:"X display number to try first; the first free one from there is taken. 99 when left out"`
	StateDir   *string `json:"stateDir,omitempty" doc:"Directory for the desktop's files, its home included"`

	RecordingFPS     *uint32 `json:"recordingFps,omitempty" doc:"Frames per second of recordings, 1 to 60; 30 when left out"`
	StreamVideoCodec *string `json:"streamVideoCodec,omitempty" doc:"vp8, vp9 or h264; vp8 when left out"`
	StreamAudioCodec *string `json:"streamAudioCodec,omitempty" doc:"opus or g722; opus when left out"`
	StreamFrameRate  *uint32 `json:"streamFrameRate,omitempty" doc:"Frames per second of the live view, 1 to 60; 30 when left out"`
	WebRTCPortRange  *string `json:"webrtcPortRange,omitempty" doc:"UDP ports for the live view, as LOW-HIGH; 59050-59070 when left out"`
}

// firstDisplay is where the search for a display number begins.
const firstDisplay = 99

// check refuses what no desktop can be.
func (o *startOptions) check() error {
	zero := func(p *uint32) bool { return p != nil && *p == 0 }
	rate := func(p *uint32) bool { return p == nil || *p >= 1 && *p <= 60 }
	oneOf := func(p *string, values ...string) bool {
		return p == nil || slices.Contains(values, *p)
	}
	switch {
	case zero(o.Width):
		return rest.InvalidArgument("width", "Desktop width and height must be greater than 0")
	case zero(o.Height):
		return rest.InvalidArgument("height", "Desktop width and height must be greater than 0")
	case zero(o.MaxWidth):
		return rest.InvalidArgument("maxWidth", "maxWidth must be greater than 0")
	case zero(o.MaxHeight):
		return rest.InvalidArgument("maxHeight", "maxHeight must be greater than 0")
	case zero(o.DPI):
		return rest.InvalidArgument("dpi", "Desktop dpi must be greater than 0")
	case o.DisplayNum != nil && *o.DisplayNum <= 0:
		return rest.InvalidArgument("displayNum", "displayNum must be > 0")
	case !rate(o.RecordingFPS):
		return rest.InvalidArgument("recordingFps", "recordingFps must be between 1 and 60")
	case !rate(o.StreamFrameRate):
		return rest.InvalidArgument("streamFrameRate", "streamFrameRate must be between 1 and 60")
	case !oneOf(o.StreamVideoCodec, "vp8", "vp9", "h264"):
		return rest.InvalidArgument("streamVideoCodec", "streamVideoCodec must be vp8, vp9 or h264")
	case !oneOf(o.StreamAudioCodec, "opus", "g722"):
		return rest.InvalidArgument("streamAudioCodec", "streamAudioCodec must be opus or g722")
	}
	if o.WebRTCPortRange != nil {
		if _, _, ok := portRange(*o.WebRTCPortRange); !ok {
			return rest.InvalidArgument("webrtcPortRange", "webrtcPortRange must be LOW-HIGH with 1 <= LOW <= HIGH <= 65535, as in 59050-59070")
		}
	}
	if o.StateDir != nil && strings.ContainsRune(*o.StateDir, 0) {
		return rest.InvalidArgument("stateDir", "stateDir must not contain a NUL character")
	}
	return nil
}

// portRange parses LOW-HIGH.
func portRange(text string) (low, high uint16, ok bool) {
	first, last, ok := strings.Cut(text, "-")
	from, err1 := strconv.ParseUint(first, 10, 16)
	to, err2 := strconv.ParseUint(last, 10, 16)
	return uint16(from), uint16(to), ok && err1 == nil && err2 == nil && from >= 1 && from <= to
}

// options returns the start that a request asks for on a server.
func (o *startOptions) options(c Config) fleet.StartOptions {
	number := func(p *uint32) int {
		if p == nil {
			return 0
		}
		return int(*p)
	}
	out := fleet.StartOptions{
		Desktop: desktop.Config{
			Size:    desktop.Size{Width: number(o.Width), Height: number(o.Height)},
			MaxSize: desktop.Size{Width: number(o.MaxWidth), Height: number(o.MaxHeight)},
			DPI:     number(o.DPI), Display: firstDisplay,
			EnvPolicy: c.EnvPolicy, Secrets: c.Secrets, ProgramMenu: c.DesktopMenu, ShareAuthority: true,
			NoQuiesce: c.NoQuiesce,
		},
		Stream:             webrtc.Config{FrameRate: number(o.StreamFrameRate)},
		RecordingFrameRate: number(o.RecordingFPS),
	}
	if o.DisplayNum != nil {
		out.Desktop.Display = int(*o.DisplayNum)
	}
	if o.StateDir != nil {
		out.Desktop.StateDir = userhome.Expand(*o.StateDir)
	}
	if o.StreamVideoCodec != nil {
		out.Stream.Codec = webrtc.Codec(*o.StreamVideoCodec)
	}
	if o.StreamAudioCodec != nil {
		out.Stream.AudioCodec = webrtc.AudioCodec(*o.StreamAudioCodec)
	}
	if o.WebRTCPortRange != nil {
		out.PortMin, out.PortMax, _ = portRange(*o.WebRTCPortRange)
	}
	return out
}

type resolution struct {
	Width  int `json:"width"`
	Height int `json:"height"`
	DPI    int `json:"dpi,omitempty"`
}

type desktopError struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

type desktopProcess struct {
	Name    string `json:"name"`
	PID     int    `json:"pid,omitempty"`
	Running bool   `json:"running"`
	LogPath string `json:"logPath,omitempty"`
}

type desktopSound struct {
	Available bool   `json:"available" doc:"Programs on it can play something, and viewers and recordings get it"`
	Running   bool   `json:"running" doc:"A program has played something"`
	Problem   string `json:"problem,omitempty" doc:"Why there is none, or what failed last"`
}

type desktopStatus struct {
	ID                  string           `json:"id" doc:"The desktop's id"`
	State               string           `json:"state" enum:"inactive,install_required,starting,active,stopping,failed"`
	Display             string           `json:"display,omitempty" doc:"As in the DISPLAY variable" example:":99"`
	Resolution          *resolution      `json:"resolution,omitempty"`
	StartedAt           string           `json:"startedAt,omitempty" format:"date-time"`
	LastError           *desktopError    `json:"lastError,omitempty"`
	MissingDependencies []string         `json:"missingDependencies" nullable:"false" doc:"Programs that have to be installed first"`
	InstallCommand      string           `json:"installCommand,omitempty" doc:"What installs them"`
	Processes           []desktopProcess `json:"processes" nullable:"false" doc:"The programs that make up the desktop"`
	RuntimeLogPath      string           `json:"runtimeLogPath,omitempty"`
	Sound               *desktopSound    `json:"sound,omitempty" doc:"While it runs"`
	Host                bool             `json:"host,omitempty" doc:"It is the desktop that somebody sits at"`
	Windows             []windowInfo     `json:"windows,omitempty" nullable:"false" doc:"While it is active and has any"`
	Programs            int              `json:"programs,omitempty" doc:"How many programs are open, as far as they were launched here or have a window"`
}

type statusOutput struct{ Body desktopStatus }

type createOutput struct {
	Location string `header:"Location"`
	Body     desktopStatus
}

type desktopList struct {
	Desktops []desktopStatus `json:"desktops" nullable:"false"`
	Recorded []string        `json:"recorded,omitempty" nullable:"false" doc:"Ids of desktops that there are no more, as after a restart, whose recordings are there still"`
}

func (s *Server) registerLifecycle() {
	const tag = "Desktop lifecycle"
	onInstance(s, rest.Route{
		ID: "getDesktopStatus", Method: http.MethodGet, Path: "/status", Tag: tag,
		Summary: "Tell how the desktop is", About: "Never waits for the desktop.",
	}, func(ctx context.Context, inst *fleet.Instance, _ *struct{}) (*statusOutput, error) {
		return &statusOutput{Body: describe(ctx, inst)}, nil
	})
	onInstance(s, rest.Route{
		ID: "startDesktop", Method: http.MethodPost, Path: "/start", Tag: tag, Admin: true,
		Summary: "Start the desktop", About: "Does nothing when it runs already.",
		Errors: []int{http.StatusBadRequest, http.StatusConflict, http.StatusNotImplemented, http.StatusServiceUnavailable, http.StatusGatewayTimeout},
		Other:  rest.RuntimeFailed,
	}, func(ctx context.Context, inst *fleet.Instance, in *rest.Input[startOptions]) (*statusOutput, error) {
		if err := in.Body.check(); err != nil {
			return nil, err
		}
		if err := inst.Start(ctx, in.Body.options(s.cfg)); err != nil {
			return nil, err
		}
		return &statusOutput{Body: describe(ctx, inst)}, nil
	})
	onInstance(s, rest.Route{
		ID: "stopDesktop", Method: http.MethodPost, Path: "/stop", Tag: tag, Admin: true,
		Summary: "Stop the desktop and all that runs on it", About: "Does nothing when it does not run.",
		Errors: []int{http.StatusGatewayTimeout}, Other: rest.RuntimeFailed,
	}, func(ctx context.Context, inst *fleet.Instance, _ *struct{}) (*statusOutput, error) {
		if err := inst.Stop(ctx); err != nil {
			return nil, err
		}
		return &statusOutput{Body: describe(ctx, inst)}, nil
	})
	s.registerDesktops(tag)
}

// registerDesktops is the API of more desktops than one.
func (s *Server) registerDesktops(tag string) {
	rest.Add(s.routes, rest.Route{ID: "listDesktops", Method: http.MethodGet, Path: "/v1/desktops", Tag: tag, Summary: "List the desktops"},
		func(ctx context.Context, _ *struct{}) (*struct{ Body desktopList }, error) {
			out := &struct{ Body desktopList }{Body: desktopList{Desktops: []desktopStatus{}, Recorded: s.fleet.Recorded()}}
			for _, inst := range s.fleet.List() {
				out.Body.Desktops = append(out.Body.Desktops, describe(ctx, inst))
			}
			return out, nil
		})
	s.registerCreate(tag)
	onAny := func(r rest.Route, f func(context.Context, *fleet.Instance) (*statusOutput, error)) {
		r.Path, r.Tag, r.Errors = anyPath, tag, append(r.Errors, http.StatusNotFound)
		rest.Add(s.routes, r, func(ctx context.Context, _ *struct{}) (*statusOutput, error) {
			inst, ok := ctx.Value(instanceKey{}).(*fleet.Instance)
			if !ok {
				return nil, unknownDesktop("")
			}
			return f(ctx, inst)
		})
	}
	onAny(rest.Route{ID: "getDesktop", Method: http.MethodGet, Summary: "Tell how a desktop is"},
		func(ctx context.Context, inst *fleet.Instance) (*statusOutput, error) {
			return &statusOutput{Body: describe(ctx, inst)}, nil
		})
	rest.Add(s.routes, rest.Route{
		ID: "deleteDesktop", Method: http.MethodDelete, Path: anyPath, Tag: tag, Status: http.StatusNoContent,
		Summary: "End a desktop and forget it",
		About:   "main is only stopped. The files of a desktop stay, unless the server chose its id.",
		Errors:  []int{http.StatusNotFound, http.StatusGatewayTimeout},
	}, func(ctx context.Context, _ *struct{}) (*struct{}, error) {
		inst, ok := ctx.Value(instanceKey{}).(*fleet.Instance)
		if !ok {
			return nil, unknownDesktop("")
		}
		return nil, inst.Delete(ctx)
	})
}

func (s *Server) registerCreate(tag string) {
	type Options = startOptions // huma sees embedded fields only under an exported name
	type DesktopCreate struct {
		ID *string `json:"id,omitempty" doc:"Chosen by the server when left out; then its files, with its recordings, go when it is deleted or the server ends. Should the server be killed, the next one on its state directory keeps the recordings alone"`
		Options
	}
	rest.Add(s.routes, rest.Route{
		ID: "createDesktop", Method: http.MethodPost, Path: "/v1/desktops", Tag: tag, Status: http.StatusCreated,
		Summary: "Create and start a further desktop",
		Errors:  []int{http.StatusBadRequest, http.StatusConflict, http.StatusServiceUnavailable, http.StatusGatewayTimeout},
		Other:   rest.RuntimeFailed,
	}, func(ctx context.Context, in *rest.Input[DesktopCreate]) (*createOutput, error) {
		inst, err := s.create(ctx, in.Body.ID, in.Body.Options)
		if err != nil {
			return nil, err
		}
		return &createOutput{Location: "/v1/desktops/" + inst.ID(), Body: describe(ctx, inst)}, nil
	})
}

// create creates a desktop. The fleet chooses the id if wanted is nil.
func (s *Server) create(ctx context.Context, wanted *string, opts startOptions) (*fleet.Instance, error) {
	if err := opts.check(); err != nil {
		return nil, err
	}
	id := ""
	if wanted != nil {
		if err := fleet.CheckID(*wanted); err != nil {
			return nil, err
		}
		id = *wanted
	}
	return s.fleet.Create(ctx, id, opts.options(s.cfg))
}

// windowsPatience is how long a status waits for the list of windows.
const windowsPatience = 500 * time.Millisecond

// timeFormat is RFC 3339 with nanoseconds and the zone in digits.
const timeFormat = "2006-01-02T15:04:05.000000000-07:00"

// describe is the status as clients see it.
func describe(ctx context.Context, inst *fleet.Instance) desktopStatus {
	st := inst.Status()
	d, _ := st.Desktop.(Desktop)
	out := desktopStatus{
		ID: st.ID, State: string(st.State), Display: st.Display, RuntimeLogPath: st.LogPath, Host: st.Host,
		MissingDependencies: []string{}, Processes: runtimeProcesses(st.Processes),
	}
	if st.Size.Width > 0 {
		out.Resolution = &resolution{st.Size.Width, st.Size.Height, st.DPI}
	}
	if !st.StartedAt.IsZero() {
		out.StartedAt = st.StartedAt.UTC().Format(timeFormat)
	}
	switch {
	case st.Err != nil:
		out.LastError = &desktopError{problemOf(st.Err, rest.RuntimeFailed).Code, st.Err.Error()}
	case d != nil && st.LastError != nil:
		out.LastError = &desktopError{st.LastError.Code, st.LastError.Message}
	}
	if d == nil && st.State != desktop.StateStarting && st.State != desktop.StateStopping {
		if missing := desktop.MissingPrograms(); len(missing) > 0 {
			out.State, out.MissingDependencies, out.InstallCommand = "install_required", missing, installCommand
		}
	}
	if d != nil {
		out.Sound = &desktopSound{st.Sound.Available, st.Sound.Running, st.Sound.Problem}
	}
	if st.State == desktop.StateActive && d != nil {
		ctx, cancel := context.WithTimeout(ctx, windowsPatience)
		defer cancel()
		if list, err := d.Windows(ctx, desktop.WindowFilter{}); err == nil {
			out.Windows = windowInfos(list)
			out.Programs = st.Programs(list)
		}
	}
	return out
}

// runtimeProcesses are those that make up the desktop, the latest of each name;
// what was launched on it is not among them.
func runtimeProcesses(all []desktop.Process) []desktopProcess {
	out := []desktopProcess{}
	for _, name := range []string{"Xvfb", "openbox", "dbus", "pulseaudio"} {
		for i := len(all) - 1; i >= 0; i-- {
			if p := all[i]; p.Name == name {
				out = append(out, desktopProcess{p.Name, p.PID, p.Running, p.LogPath})
				break
			}
		}
	}
	return out
}
