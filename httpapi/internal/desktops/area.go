package desktops

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/desktop/fleet"
	"github.com/deskhand/deskhand/desktop/secrets"
	"github.com/deskhand/deskhand/httpapi/internal/grants"
	"github.com/deskhand/deskhand/httpapi/internal/rest"
)

// ClipboardFactor is how much larger than other bodies those for the clipboard may be.
const ClipboardFactor = 16

// Config configures the routes of desktops.
type Config struct {
	Fleet *fleet.Fleet

	// MaxDesktops is the largest number of desktops, and MaxViewers the largest number of
	// viewers of each. Zero: the default of package webrtc.
	MaxDesktops, MaxViewers int

	Tokens *grants.Store

	// Desktop is what all desktops have in common.
	Desktop desktop.Config

	// OnFrame is called for each frame of a live view; see webrtc.Config.
	OnFrame func(age time.Duration)

	// Draining reports whether the server is about to close and starts no desktop.
	Draining func() bool

	// Secrets holds the secrets that clients use by name.
	Secrets *secrets.Store

	// UploadDirs are the directories from which the browsers of agents may upload, in addition to the
	// desktop's home.
	UploadDirs []string

	// MaxBodyBytes bounds bodies, except bodies for the clipboard.
	MaxBodyBytes int64

	// Version is the version that MCP clients get.
	Version string

	// Tracer makes the spans of calls of tools. Nil: there are none.
	Tracer trace.Tracer

	// AgentURL is where agents reach the server, and AgentRelay the command line that
	// relays for agents without HTTP.
	AgentURL   string
	AgentRelay []string

	// MayMount returns an error if agents must not have a desktop.
	MayMount func() error

	// AgentsUsing returns the names of the agents whose process has a desktop's tools.
	AgentsUsing func(ctx context.Context, desktopID string) []string

	Logger *slog.Logger
}

// Area is the area of desktops.
type Area struct {
	rest.Group
	cfg      Config
	fleet    *fleet.Fleet
	mcp      mcpServers
	activity trackers

	eventStreams *rest.SharedPlaces
}

// Register adds the routes of desktops.
func Register(api *rest.API, cfg Config) *Area {
	a := &Area{
		Group: rest.Group{API: api, Problem: Problem}, cfg: cfg, fleet: cfg.Fleet,
		mcp: mcpServers{all: map[string]mcpServer{}}, eventStreams: rest.NewSharedPlaces(maxEventStreams),
	}
	for _, register := range []func(){
		a.registerLifecycle, a.registerScreenshots, a.registerMouse, a.registerKeyboard, a.registerClipboard, a.registerWindows,
		a.registerPrograms, a.registerDisplay, a.registerEvents, a.registerStream, a.registerControl,
		recordings{a, rest.NewSharedPlaces(maxLiveDownloads), rest.NewSharedPlaces(maxGuestClips)}.register, a.registerMCP,
	} {
		register()
	}
	registerAdapters(a)
	registerActions(a)
	registerElements(a)
	return a
}

// Start starts a desktop with the default options, unless it runs, and returns it. After it was
// stopped because it was idle, the next request that uses it starts it again. The
// error is a *rest.Problem, or the error of ctx.
func (a *Area) Start(ctx context.Context, id string) (fleet.Desktop, error) {
	inst, err := a.fleet.Find(id)
	if err == nil {
		err = inst.Start(ctx, (&startOptions{RestartAfterIdle: new(true)}).options(a.cfg))
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	var d fleet.Desktop
	if err == nil {
		d, err = inst.Desktop()
	}
	if err != nil {
		return nil, a.ProblemOf(err, runtimeFailed)
	}
	return d, nil
}

// Environ returns the environment of programs on a desktop. The error is a *rest.Problem
// or one without a problem.
func (a *Area) Environ(id string) ([]string, error) {
	d, err := running[fleet.Desktop](a, id)
	var environ []string
	if err == nil {
		e, ok := d.(interface{ Environ() ([]string, error) })
		if !ok {
			return nil, unsupportedAction.WithCode("This kind of desktop has no environment that processes could be given; leave desktop out")
		}
		environ, err = e.Environ()
	}
	if p := Problem(err); p != nil {
		return nil, p
	}
	return environ, err
}

const (
	mainPath = "/v1/desktop"
	anyPath  = "/v1/desktops/{desktop}"
)

// pathOf returns the path of a desktop.
func pathOf(id string) string {
	if id == fleet.Main {
		return mainPath
	}
	return "/v1/desktops/" + id
}

type (
	// target is a request on a desktop.
	target struct {
		Desktop string `path:"desktop" default:"main"`
	}

	// input is a request on a desktop with a JSON body.
	input[B any] struct {
		Desktop string `path:"desktop" default:"main"`
		Body    B
	}

	// itemInput is a request on a part of a desktop with a JSON body.
	itemInput[B any] struct {
		Desktop string `path:"desktop" default:"main"`
		ID      string `path:"id"`
		Body    B
	}
)

// add adds a route of a desktop twice: for main, and for any desktop by its id.
func add[I, O any](a *Area, r rest.Route, handle func(context.Context, *I) (*O, error)) {
	if r.Scope == grants.ScopeAdmin && !r.Admin {
		if r.Scope = grants.ScopeControl; r.Method == http.MethodGet {
			r.Scope = grants.ScopeView
		}
	}
	if r.Enter == nil {
		r.Enter = a.enter(a.fleet.Find)
	}
	path := r.Path
	r.Path = mainPath + path
	rest.Add(a.Group, r, handle)
	r.Path, r.ID = anyPath+path, r.ID+"Of"
	rest.Add(a.Group, r.WithErrors(http.StatusNotFound), handle)
}

// act adds a route of a running desktop.
func act[I, O any](a *Area, r rest.Route, handle func(context.Context, *I) (*O, error)) {
	r.UntilGone = true
	if r.Enter == nil {
		r.Enter = a.enterUse()
	}
	if r.Method == http.MethodPost && r.Tag != controlTag {
		r.Parameters = []*huma.Param{controlWait()}
	}
	add(a, r.WithErrors(http.StatusBadRequest, http.StatusConflict, http.StatusServiceUnavailable, http.StatusGatewayTimeout), handle)
}

// running returns the running desktop with an id as D, the methods that a route needs. It
// returns bad, what is wrong with the arguments, before what is wrong with the desktop.
func running[D any](a *Area, id string, bad ...error) (d D, err error) {
	inst, err := a.fleet.Find(id)
	if err = cmp.Or(err, cmp.Or(bad...)); err != nil {
		return d, err
	}
	desk, err := inst.Desktop()
	if err != nil {
		return d, err
	}
	d, ok := desk.(D)
	if !ok {
		return d, unsupportedAction.WithCode("This kind of desktop does not have this action")
	}
	return d, nil
}

// Headers in which a caller gives its name, or the key of a viewer that acts by requests
// and not by its connection. The control of the viewer is then the caller's.
const (
	actorHeader  = "Deskhand-Actor"
	viewerHeader = "Deskhand-Viewer"
)

// typingHeader says that a person types through the request: events and recordings get
// only the number of its keys or characters.
const typingHeader = "Deskhand-Typing"

// Enter returns the Enter of the routes of desktops in other areas.
func Enter(a *Area) func(huma.Context, func(huma.Context)) { return a.enterUse() }

// enterUse is like enter for requests that use the desktop: it is not idle, and starts again if
// its start asked for that.
func (a *Area) enterUse() func(huma.Context, func(huma.Context)) {
	enter := a.enter(a.fleet.Find)
	return func(ctx huma.Context, next func(huma.Context)) {
		enter(ctx, func(ctx huma.Context) {
			inst, err := use(ctx.Context(), a, cmp.Or(ctx.Param("desktop"), fleet.Main))
			if err != nil {
				a.Write(rest.RequestOf(ctx).Fiber, a.ProblemOf(err, runtimeFailed))
				return
			}
			next(ctx)
			inst.Use()
		})
	}
}

// use finds a desktop for a request that uses it.
func use(ctx context.Context, a *Area, id string) (*fleet.Instance, error) {
	inst, err := a.fleet.Find(id)
	if err != nil {
		return nil, err
	}
	inst.Use()
	if a.cfg.Draining() {
		return inst, nil
	}
	return inst, inst.Resume(ctx)
}

// enter returns the Enter of a desktop's routes. find finds the desktop. The context
// gets the actor.
func (a *Area) enter(find func(string) (*fleet.Instance, error)) func(huma.Context, func(huma.Context)) {
	return func(ctx huma.Context, next func(huma.Context)) {
		r := rest.RequestOf(ctx)
		actor, err := a.actor(r, cmp.Or(ctx.Param("desktop"), fleet.Main), find)
		if err != nil {
			a.Write(r.Fiber, a.ProblemOf(err, rest.Internal))
			return
		}
		acting := desktop.WithActor(ctx.Context(), actor)
		if ctx.Header(typingHeader) != "" {
			acting = desktop.WithPerson(acting)
		}
		if acting, err = withControlWait(acting, r); err != nil {
			a.Write(r.Fiber, a.ProblemOf(err, rest.Internal))
			return
		}
		next(huma.WithContext(ctx, acting))
	}
}

// actor returns the actor of a request on a desktop. A token that is for another desktop
// gets the same problem whether the desktop exists or not.
func (a *Area) actor(r *rest.Request, id string, find func(string) (*fleet.Instance, error)) (desktop.Actor, error) {
	var actor desktop.Actor
	if g := r.Grant; g != nil && g.Desktop != "" && g.Desktop != id {
		return actor, rest.PermissionDenied.Problem(fmt.Sprintf("permission denied: this token is good for the desktop %s only", g.Desktop))
	}
	inst, err := find(id)
	if err != nil {
		return actor, err
	}
	if a.cfg.Tracer != nil {
		trace.SpanFromContext(r.Context()).SetAttributes(attribute.String("deskhand.desktop", id))
	}
	name := r.Fiber.Get(actorHeader)
	if name != "" && !grants.ActorName().MatchString(name) {
		return actor, rest.InvalidRequest.Problem("invalid request: " + actorHeader +
			" must have 1 to 64 letters, digits, spaces or any of . _ @ -, and begin with a letter or a digit")
	}
	if key := r.Fiber.Get(viewerHeader); key != "" {
		if stream := inst.RunningStream(); stream != nil {
			if viewer, ok := stream.ViewerActor(key); ok {
				return viewer, nil
			}
		}
	}
	return r.Grant.Actor(name), nil
}

// controlWaitName is the query parameter with the time for which an action waits for the end
// of another actor's control, and mostControlWait its bound in milliseconds.
const (
	controlWaitName = "waitControlMs"
	mostControlWait = 600_000
)

// controlWait describes the parameter.
func controlWait() *huma.Param {
	least, most := 0.0, float64(mostControlWait)
	return &huma.Param{
		Name: controlWaitName, In: "query",
		Description: "Milliseconds to wait for the end of another actor's control before the action is refused with control_held",
		Schema:      &huma.Schema{Type: huma.TypeInteger, Minimum: &least, Maximum: &most},
	}
}

// withControlWait returns a context whose inputs wait for control as a request says.
func withControlWait(ctx context.Context, r *rest.Request) (context.Context, error) {
	text := r.Fiber.Query(controlWaitName)
	if text == "" {
		return ctx, nil
	}
	n, err := strconv.ParseUint(text, 10, 32)
	if err != nil || n > mostControlWait {
		return ctx, invalidArgument(controlWaitName, fmt.Sprintf("%s must be between 0 and %d", controlWaitName, mostControlWait))
	}
	return desktop.WithControlWait(ctx, rest.Milliseconds(n)), nil
}

// argument is a check of an argument.
type argument struct {
	bad      bool
	field    string // the JSON or query name
	sentence string // says what is accepted
}

// check returns the problem of the first argument that is bad, or nil.
func check(arguments []argument) error {
	for _, arg := range arguments {
		if arg.bad {
			return invalidArgument(arg.field, arg.sentence)
		}
	}
	return nil
}
