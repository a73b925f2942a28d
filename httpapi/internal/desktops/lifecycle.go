package desktops

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gofiber/fiber/v2"

	"github.com/deskhand/deskhand/agents/computer"
	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/desktop/fleet"
	"github.com/deskhand/deskhand/httpapi/internal/grants"
	"github.com/deskhand/deskhand/httpapi/internal/rest"
	"github.com/deskhand/deskhand/internal/userhome"
	"github.com/deskhand/deskhand/webrtc"
)

// startOptions are the members of a start request. All are optional.
type startOptions struct {
	Width      *uint32 `json:"width,omitempty" doc:"Width in pixels; defaults to 1440"`
	Height     *uint32 `json:"height,omitempty" doc:"Height in pixels; defaults to 900"`
	MaxWidth   *uint32 `json:"maxWidth,omitempty" doc:"Maximum width for resize; defaults to 3840"`
	MaxHeight  *uint32 `json:"maxHeight,omitempty" doc:"Maximum height for resize; defaults to 2160"`
	DPI        *uint32 `json:"dpi,omitempty" doc:"Dots per inch; defaults to 96"`
	DisplayNum *int32  `json:"displayNum,omitempty" doc:"First X display number to try; the first free one from there is used. Defaults to 99"`
	StateDir   *string `json:"stateDir,omitempty" doc:"Directory for the desktop's files, including its home directory"`

	Elements *bool `json:"elements,omitempty" doc:"Start the accessibility bus, and have programs offer their elements (/elements) from their start; needs at-spi2-core"`

	RestartAfterIdle *bool `json:"restartAfterIdle,omitempty" doc:"After the server has stopped the desktop because it was idle, the next request that uses it starts it again with these options"`

	RecordingFPS     *uint32 `json:"recordingFps,omitempty" doc:"Frames per second of recordings, 1 to 60; defaults to 30"`
	StreamVideoCodec *string `json:"streamVideoCodec,omitempty" doc:"vp8, vp9 or h264; defaults to vp8"`
	StreamAudioCodec *string `json:"streamAudioCodec,omitempty" doc:"opus or g722; defaults to opus"`
	StreamFrameRate  *uint32 `json:"streamFrameRate,omitempty" doc:"Frames per second of the live view, 1 to 60; defaults to 30"`
	WebRTCPortRange  *string `json:"webrtcPortRange,omitempty" doc:"UDP ports for the live view, as LOW-HIGH; defaults to 59050-59070"`
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

// allowedFor refuses options that a token does not allow: with the directory of the state, the
// holder would choose where the server writes.
func (o *startOptions) allowedFor(g *grants.Grant) error {
	if o.StateDir == nil || g == nil || g.Scope == grants.ScopeAdmin {
		return nil
	}
	return rest.PermissionDenied.Problem(fmt.Sprintf("permission denied: this token has the scope %s, and stateDir needs admin", g.Scope)).With("field", "stateDir")
}

// portRange parses LOW-HIGH.
func portRange(text string) (low, high uint16, ok bool) {
	first, last, ok := strings.Cut(text, "-")
	from, err1 := strconv.ParseUint(first, 10, 16)
	to, err2 := strconv.ParseUint(last, 10, 16)
	return uint16(from), uint16(to), ok && err1 == nil && err2 == nil && from >= 1 && from <= to
}

// options returns the start that a request asks for.
func (o *startOptions) options(cfg Config) fleet.StartOptions {
	number := func(p *uint32) int { return int(rest.Value(p)) }
	out := fleet.StartOptions{
		Desktop: cfg.Desktop,
		Stream: webrtc.Config{
			FrameRate: number(o.StreamFrameRate), Codec: webrtc.Codec(rest.Value(o.StreamVideoCodec)),
			AudioCodec: webrtc.AudioCodec(rest.Value(o.StreamAudioCodec)), MaxViewers: cfg.MaxViewers, OnFrame: cfg.OnFrame,
		},
		RecordingFrameRate: number(o.RecordingFPS), Elements: rest.Value(o.Elements), RestartAfterIdle: rest.Value(o.RestartAfterIdle),
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
	Available bool   `json:"available" doc:"Whether viewers and recordings get the sound of programs"`
	Running   bool   `json:"running" doc:"Whether a program has played sound"`
	Problem   string `json:"problem,omitempty" doc:"Why sound is unavailable, or the last failure"`
}

type desktopStatus struct {
	ID                  string           `json:"id" doc:"The desktop's id"`
	State               string           `json:"state" enum:"inactive,install_required,starting,active,stopping,failed"`
	Display             string           `json:"display,omitempty" doc:"Value for the DISPLAY variable" example:":99"`
	Resolution          *resolution      `json:"resolution,omitempty"`
	Idle                bool             `json:"idle,omitempty" doc:"Whether the server has stopped it because it was idle"`
	StartedAt           string           `json:"startedAt,omitempty" format:"date-time"`
	LastError           *desktopError    `json:"lastError,omitempty"`
	MissingDependencies []string         `json:"missingDependencies" nullable:"false" doc:"Required programs that are not installed"`
	InstallCommand      string           `json:"installCommand,omitempty" doc:"Command that installs the missing programs"`
	Processes           []desktopProcess `json:"processes" nullable:"false" doc:"The programs that make up the desktop"`
	RuntimeLogPath      string           `json:"runtimeLogPath,omitempty"`
	Sound               *desktopSound    `json:"sound,omitempty" doc:"Only while it runs"`
	Host                bool             `json:"host,omitempty" doc:"Whether this is the desktop of the host, at which a user may sit"`
	Windows             []windowInfo     `json:"windows,omitempty" nullable:"false" doc:"Open windows; only while the desktop is active"`
	Programs            int              `json:"programs,omitempty" doc:"Number of open programs that were launched through this server or have a window"`
}

type desktopList struct {
	Desktops []desktopStatus `json:"desktops" nullable:"false"`
	Limit    int             `json:"limit" doc:"Largest number of desktops, including main and stopped ones"`
	Recorded []string        `json:"recorded,omitempty" nullable:"false" doc:"Ids of desktops that no longer exist but have recordings"`
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
	add(a, r.Get("getDesktopStatus", "/status", "Get the status of the desktop").WithAbout("The response does not wait for the desktop."), status)
	r.Scope = grants.ScopeSupervise
	list := r.Get("listDesktops", "/v1/desktops", "List the desktops")
	rest.Add(a.Group, list, func(ctx context.Context, _ *struct{}) (*rest.Output[desktopList], error) {
		out := desktopList{Desktops: []desktopStatus{}, Limit: a.cfg.MaxDesktops, Recorded: a.fleet.Recorded()}
		for _, inst := range a.fleet.List() {
			out.Desktops = append(out.Desktops, describe(ctx, inst))
		}
		return rest.Reply(out, nil)
	})
	registerStarts(a, r)
	r.Enter, r.Errors = a.enter(a.fleet.Find), []int{http.StatusNotFound}
	rest.Add(a.Group, r.Get("getDesktop", anyPath, "Get a desktop"), status)
	remove := r.Delete("deleteDesktop", anyPath, "Delete a desktop").WithErrors(http.StatusGatewayTimeout).
		WithAbout("The desktop main is only stopped. The files of a desktop are kept, unless the server generated its id. " +
			"Tokens for the desktop end. If only an earlier server had the desktop, they end too, and the answer is 404.")
	remove.Enter = a.enter(func(id string) (*fleet.Instance, error) {
		inst, err := a.fleet.Find(id)
		if err != nil && fleet.CheckID(id) == nil { // not the id of a token
			a.cfg.Tokens.Forget(id)
		}
		return inst, err
	})
	rest.Add(a.Group, remove, func(ctx context.Context, in *target) (*struct{}, error) {
		inst, err := a.fleet.Find(in.Desktop)
		if err != nil {
			return nil, err
		}
		return nil, inst.Delete(ctx)
	})
}

// registerStarts adds the routes that start and stop desktops.
func registerStarts(a *Area, r rest.Route) {
	r.Admin, r.Other = true, runtimeFailed
	r.Errors = []int{http.StatusBadRequest, http.StatusConflict, http.StatusServiceUnavailable, http.StatusGatewayTimeout}
	start := r.Post("startDesktop", "/start", "Start the desktop").WithAbout("Does nothing if the desktop is running.").WithErrors(http.StatusNotImplemented)
	add(a, start, func(ctx context.Context, in *input[startOptions]) (*rest.Output[desktopStatus], error) {
		return a.status(ctx, in.Desktop, func(inst *fleet.Instance) error {
			if err := cmp.Or(in.Body.check(), in.Body.allowedFor(rest.GrantOf(ctx)), a.mayStart()); err != nil {
				return err
			}
			return inst.Start(ctx, in.Body.options(a.cfg))
		})
	})
	type Options startOptions // huma sees embedded fields only under an exported name
	type DesktopCreate struct {
		ID *string `json:"id,omitempty" doc:"Generated if omitted. The files and recordings of a desktop with a generated id are removed when it is deleted or the server ends. If the server was killed, the next server with its state directory keeps only the recordings"`
		Options
	}
	create := r.Post("createDesktop", "/v1/desktops", "Create and start a desktop")
	create.Status = http.StatusCreated
	rest.Add(a.Group, create, func(ctx context.Context, in *rest.Input[DesktopCreate]) (*createOutput, error) {
		id, options := rest.Value(in.Body.ID), (*startOptions)(&in.Body.Options)
		err := cmp.Or(options.check(), options.allowedFor(rest.GrantOf(ctx)), a.mayStart())
		if err == nil && in.Body.ID != nil {
			err = fleet.CheckID(id) // an empty one would be chosen
		}
		if err != nil {
			return nil, err
		}
		inst, err := a.fleet.Create(ctx, id, options.options(a.cfg))
		if err != nil {
			return nil, err
		}
		return &createOutput{Location: pathOf(inst.ID()), Body: describe(ctx, inst)}, nil
	})
	r.Errors = []int{http.StatusGatewayTimeout}
	stop := r.Post("stopDesktop", "/stop", "Stop the desktop and its programs").WithAbout("Does nothing if the desktop is not running.")
	add(a, stop, func(ctx context.Context, in *target) (*rest.Output[desktopStatus], error) {
		return a.status(ctx, in.Desktop, func(inst *fleet.Instance) error { return inst.Stop(ctx) })
	})
}

// mayStart returns an error if the server starts no desktops because it is about to close.
func (a *Area) mayStart() error {
	if a.cfg.Draining() {
		return rest.Closing().WithHeader(fiber.HeaderRetryAfter, "1")
	}
	return nil
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
		ID: st.ID, State: string(st.State), Idle: st.Idle, Display: st.Display, RuntimeLogPath: st.LogPath, Host: st.Host,
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
