package desktops

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/deskhand/deskhand/agents/computer"
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
	oneOf := func(p *string, values ...string) bool { return p == nil || slices.Contains(values, *p) }
	ports := true
	if o.WebRTCPortRange != nil {
		_, _, ports = portRange(*o.WebRTCPortRange)
	}
	return check([]argument{
		{zero(o.Width), "width", "Desktop width and height must be greater than 0"},
		{zero(o.Height), "height", "Desktop width and height must be greater than 0"},
		{zero(o.MaxWidth), "maxWidth", "maxWidth must be greater than 0"},
		{zero(o.MaxHeight), "maxHeight", "maxHeight must be greater than 0"},
		{zero(o.DPI), "dpi", "Desktop dpi must be greater than 0"},
		{o.DisplayNum != nil && *o.DisplayNum <= 0, "displayNum", "displayNum must be > 0"},
		{!rate(o.RecordingFPS), "recordingFps", "recordingFps must be between 1 and 60"},
		{!rate(o.StreamFrameRate), "streamFrameRate", "streamFrameRate must be between 1 and 60"},
		{!oneOf(o.StreamVideoCodec, "vp8", "vp9", "h264"), "streamVideoCodec", "streamVideoCodec must be vp8, vp9 or h264"},
		{!oneOf(o.StreamAudioCodec, "opus", "g722"), "streamAudioCodec", "streamAudioCodec must be opus or g722"},
		{!ports, "webrtcPortRange", "webrtcPortRange must be LOW-HIGH with 1 <= LOW <= HIGH <= 65535, as in 59050-59070"},
		{strings.ContainsRune(rest.Value(o.StateDir), 0), "stateDir", "stateDir must not contain a NUL character"},
	})
}

// portRange parses LOW-HIGH.
func portRange(text string) (low, high uint16, ok bool) {
	first, last, ok := strings.Cut(text, "-")
	from, err1 := strconv.ParseUint(first, 10, 16)
	to, err2 := strconv.ParseUint(last, 10, 16)
	return uint16(from), uint16(to), ok && err1 == nil && err2 == nil && from >= 1 && from <= to
}

// options returns the start that a request asks for. base is what all desktops have in
// common.
func (o *startOptions) options(base desktop.Config) fleet.StartOptions {
	number := func(p *uint32) int { return int(rest.Value(p)) }
	out := fleet.StartOptions{
		Desktop: base,
		Stream: webrtc.Config{
			FrameRate: number(o.StreamFrameRate), Codec: webrtc.Codec(rest.Value(o.StreamVideoCodec)),
			AudioCodec: webrtc.AudioCodec(rest.Value(o.StreamAudioCodec)),
		},
		RecordingFrameRate: number(o.RecordingFPS),
	}
	d := &out.Desktop
	d.Size = desktop.Size{Width: number(o.Width), Height: number(o.Height)}
	d.MaxSize = desktop.Size{Width: number(o.MaxWidth), Height: number(o.MaxHeight)}
	d.DPI, d.Display = number(o.DPI), cmp.Or(int(rest.Value(o.DisplayNum)), firstDisplay)
	if o.StateDir != nil {
		d.StateDir = userhome.Expand(*o.StateDir)
	}
	if o.WebRTCPortRange != nil {
		out.PortMin, out.PortMax, _ = portRange(*o.WebRTCPortRange)
	}
	return out
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
	Host                bool             `json:"host,omitempty" doc:"It is the host's own desktop, in front of which a user may sit"`
	Windows             []windowInfo     `json:"windows,omitempty" nullable:"false" doc:"While it is active and has any"`
	Programs            int              `json:"programs,omitempty" doc:"How many programs are open, as far as they were launched here or have a window"`
}

type desktopList struct {
	Desktops []desktopStatus `json:"desktops" nullable:"false"`
	Recorded []string        `json:"recorded,omitempty" nullable:"false" doc:"Ids of desktops that there are no more, as after a restart, whose recordings are there still"`
}

type createOutput struct {
	Location string `header:"Location"`
	Body     desktopStatus
}

func (a *Area) registerLifecycle() {
	r := rest.Route{Tag: "Desktop lifecycle"}
	nothing := func(*fleet.Instance) error { return nil }
	status := func(ctx context.Context, in *target) (*rest.Output[desktopStatus], error) {
		return a.status(ctx, in.Desktop, nothing)
	}
	add(a, r.Get("getDesktopStatus", "/status", "Tell how the desktop is").WithAbout("Never waits for the desktop."), status)
	list := r.Get("listDesktops", "/v1/desktops", "List the desktops")
	rest.Add(a.Group, list, func(ctx context.Context, _ *struct{}) (*rest.Output[desktopList], error) {
		out := desktopList{Desktops: []desktopStatus{}, Recorded: a.fleet.Recorded()}
		for _, inst := range a.fleet.List() {
			out.Desktops = append(out.Desktops, describe(ctx, inst))
		}
		return rest.Reply(out, nil)
	})
	a.registerStarts(r)
	r.Enter, r.Errors = a.enter(a.fleet.Find), []int{http.StatusNotFound}
	rest.Add(a.Group, r.Get("getDesktop", anyPath, "Tell how a desktop is"), status)
	remove := r.Delete("deleteDesktop", anyPath, "End a desktop and forget it").WithErrors(http.StatusGatewayTimeout).
		WithAbout("main is only stopped. The files of a desktop stay, unless the server chose its id.")
	rest.Add(a.Group, remove, func(ctx context.Context, in *target) (*struct{}, error) {
		inst, err := a.fleet.Find(in.Desktop)
		if err != nil {
			return nil, err
		}
		return nil, inst.Delete(ctx)
	})
}

// registerStarts adds the routes that start and stop desktops.
func (a *Area) registerStarts(r rest.Route) {
	r.Admin, r.Other = true, runtimeFailed
	r.Errors = []int{http.StatusBadRequest, http.StatusConflict, http.StatusServiceUnavailable, http.StatusGatewayTimeout}
	start := r.Post("startDesktop", "/start", "Start the desktop").WithAbout("Does nothing when it runs already.").WithErrors(http.StatusNotImplemented)
	add(a, start, func(ctx context.Context, in *input[startOptions]) (*rest.Output[desktopStatus], error) {
		return a.status(ctx, in.Desktop, func(inst *fleet.Instance) error {
			if err := in.Body.check(); err != nil {
				return err
			}
			return inst.Start(ctx, in.Body.options(a.cfg.Desktop))
		})
	})
	type Options startOptions // huma sees embedded fields only under an exported name
	type DesktopCreate struct {
		ID *string `json:"id,omitempty" doc:"Chosen by the server when left out; then its files, with its recordings, go when it is deleted or the server ends. Should the server be killed, the next one on its state directory keeps the recordings alone"`
		Options
	}
	create := r.Post("createDesktop", "/v1/desktops", "Create and start a further desktop")
	create.Status = http.StatusCreated
	rest.Add(a.Group, create, func(ctx context.Context, in *rest.Input[DesktopCreate]) (*createOutput, error) {
		id, options := rest.Value(in.Body.ID), (*startOptions)(&in.Body.Options)
		err := options.check()
		if err == nil && in.Body.ID != nil {
			err = fleet.CheckID(id) // an empty one would be chosen
		}
		if err != nil {
			return nil, err
		}
		inst, err := a.fleet.Create(ctx, id, options.options(a.cfg.Desktop))
		if err != nil {
			return nil, err
		}
		return &createOutput{Location: pathOf(inst.ID()), Body: describe(ctx, inst)}, nil
	})
	r.Errors = []int{http.StatusGatewayTimeout}
	stop := r.Post("stopDesktop", "/stop", "Stop the desktop and all that runs on it").WithAbout("Does nothing when it does not run.")
	add(a, stop, func(ctx context.Context, in *target) (*rest.Output[desktopStatus], error) {
		return a.status(ctx, in.Desktop, func(inst *fleet.Instance) error { return inst.Stop(ctx) })
	})
}

// status calls change and returns the status of a desktop.
func (a *Area) status(ctx context.Context, id string, change func(*fleet.Instance) error) (*rest.Output[desktopStatus], error) {
	inst, err := a.fleet.Find(id)
	if err == nil {
		err = change(inst)
	}
	if err != nil {
		return nil, err
	}
	return rest.Reply(describe(ctx, inst), nil)
}

// windowsPatience is how long a status waits for the windows.
const windowsPatience = 500 * time.Millisecond

// timeFormat is RFC 3339 with nanoseconds and the zone in digits.
const timeFormat = "2006-01-02T15:04:05.000000000-07:00"

// describe returns the status of a desktop.
func describe(ctx context.Context, inst *fleet.Instance) desktopStatus {
	st := inst.Status()
	d := st.Desktop
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
		out.LastError = &desktopError{rest.Group{Problem: Problem}.ProblemOf(st.Err, runtimeFailed).Code, st.Err.Error()}
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
	if d, ok := d.(computer.WindowManager); ok && st.State == desktop.StateActive {
		ctx, cancel := context.WithTimeout(ctx, windowsPatience)
		defer cancel()
		if list, err := d.Windows(ctx, desktop.WindowFilter{}); err == nil {
			out.Windows = windowInfos(list)
			out.Programs = st.Programs(list)
		}
	}
	return out
}

// runtimeProcesses returns the processes that make up the desktop, the latest one of each
// name. Programs that were launched on it are not among them.
func runtimeProcesses(all []desktop.Process) []desktopProcess {
	out := []desktopProcess{}
	for _, name := range []string{"Xvfb", "openbox", "dbus", "pulseaudio"} {
		for _, p := range slices.Backward(all) {
			if p.Name == name {
				out = append(out, desktopProcess{p.Name, p.PID, p.Running, p.LogPath})
				break
			}
		}
	}
	return out
}
