package browser

import (
	"context"
	"log/slog"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/deskhand/deskhand/desktop"
	chrome "github.com/deskhand/deskhand/desktop/browser"
	"github.com/deskhand/deskhand/desktop/fleet"
	"github.com/deskhand/deskhand/httpapi/internal/grants"
	"github.com/deskhand/deskhand/httpapi/internal/rest"
)

// Config configures the routes of browsers.
type Config struct {
	Fleet *fleet.Fleet

	// Enter finds the desktop of a request, and puts the actor into its context.
	Enter func(huma.Context, func(huma.Context))

	// DesktopProblem returns the problem for an error of a desktop, or nil.
	DesktopProblem func(error) *rest.Problem

	// UploadDirs are the directories below which uploads take files, in addition to the desktop's
	// home.
	UploadDirs []string

	Logger *slog.Logger
}

type area struct {
	rest.Group
	Config
}

// Register adds the routes of browsers.
func Register(api *rest.API, cfg Config) {
	a := &area{Config: cfg}
	a.Group = rest.Group{API: api, Problem: a.problem}
	r := rest.Route{Tag: "Browser", Scope: grants.ScopeControl, Enter: cfg.Enter, UntilGone: true, Other: browserFailed}
	a.registerLifecycle(r)
	a.registerUse(r)
	a.registerEndpoint(r)
}

const (
	mainPath = "/v1/desktop/browser"
	anyPath  = "/v1/desktops/{desktop}/browser"
)

type (
	// target is a request on a browser.
	target struct {
		Desktop string `path:"desktop" default:"main"`
	}

	// input is a request on a browser with a JSON body.
	input[B any] struct {
		Desktop string `path:"desktop" default:"main"`
		Body    B
	}
)

// add adds a route of a browser twice: of main, and of any desktop.
func add[I, O any](a *area, r rest.Route, handle func(context.Context, *I) (*O, error)) {
	r = r.WithErrors(http.StatusBadRequest, http.StatusConflict, http.StatusServiceUnavailable, http.StatusGatewayTimeout)
	path := r.Path
	r.Path = mainPath + path
	rest.Add(a.Group, r, handle)
	r.Path, r.ID = anyPath+path, r.ID+"Of"
	rest.Add(a.Group, r.WithErrors(http.StatusNotFound), handle)
}

// running returns the browser of a desktop.
func (a *area) running(id string) (*chrome.Browser, error) {
	inst, err := a.Fleet.Find(id)
	if err != nil {
		return nil, err
	}
	if _, err := inst.Desktop(); err != nil {
		return nil, err
	}
	return inst.Browser()
}

type browserStart struct {
	URL       string        `json:"url,omitempty" doc:"The first page; a new tab if the browser runs" example:"https://example.com"`
	Profile   string        `json:"profile,omitempty" doc:"Name of the profile, which is kept in the desktop's home; default: default"`
	Program   string        `json:"program,omitempty" doc:"A name on PATH, or an absolute path; default: the first of chromium, chromium-browser, google-chrome and google-chrome-stable"`
	Args      []string      `json:"args,omitempty" nullable:"false" doc:"Further arguments of the browser"`
	Headless  bool          `json:"headless,omitempty" doc:"Show no window"`
	UserAgent string        `json:"userAgent,omitempty"`
	Proxy     string        `json:"proxy,omitempty" example:"http://proxy.example.com:3128"`
	Viewport  *desktop.Size `json:"viewport,omitempty" doc:"Size of pages"`
	Dialogs   string        `json:"dialogs,omitempty" enum:"dismiss,accept,leave" doc:"What happens to dialogs of pages; default: dismiss"`
}

type browserState struct {
	State   string       `json:"state" enum:"running,stopped"`
	Version string       `json:"version,omitempty" example:"Chrome/148.0.7778.167"`
	Profile string       `json:"profile,omitempty"`
	Clients int          `json:"clients" doc:"Clients of the DevTools protocol"`
	Tabs    []chrome.Tab `json:"tabs" nullable:"false"`
}

type browserDownloads struct {
	Downloads []chrome.Download `json:"downloads" nullable:"false"`
}

func (a *area) registerLifecycle(r rest.Route) {
	add(a, r.Get("getBrowser", "", "Get the browser's state and tabs"), func(ctx context.Context, in *target) (*rest.Output[browserState], error) {
		return rest.Reply(a.state(ctx, in.Desktop))
	})
	start := r.Post("startBrowser", "/start", "Start Chromium or Chrome on the desktop").
		WithAbout("The browser is visible, as any other program. It opens no port: Playwright and Puppeteer connect to this route's parent.")
	start.Scope = grants.ScopeAgent // as for launch
	add(a, start, a.start)
	add(a, r.Get("listBrowserDownloads", "/downloads", "List the latest downloads, at most 100").
		WithAbout("The browser saves downloads in the directory Downloads of the desktop's home."),
		func(_ context.Context, in *target) (*rest.Output[browserDownloads], error) {
			b, err := a.running(in.Desktop)
			if err != nil {
				return nil, err
			}
			return rest.Reply(browserDownloads{b.Downloads()}, nil)
		})
	add(a, r.Post("stopBrowser", "/stop", "End the browser"), func(ctx context.Context, in *target) (*rest.Output[browserState], error) {
		inst, err := a.Fleet.Find(in.Desktop)
		if err == nil {
			err = inst.StopBrowser(ctx)
		}
		return rest.Reply(browserState{State: "stopped", Tabs: []chrome.Tab{}}, err)
	})
}

func (a *area) start(ctx context.Context, in *input[browserStart]) (*rest.Output[browserState], error) {
	inst, err := a.Fleet.Find(in.Desktop)
	if err != nil {
		return nil, err
	}
	v := in.Body
	cfg := chrome.Config{
		Program: v.Program, Profile: v.Profile, URL: v.URL, Args: v.Args, Headless: v.Headless, UserAgent: v.UserAgent,
		Proxy: v.Proxy, Viewport: rest.Value(v.Viewport), Dialogs: chrome.DialogPolicy(v.Dialogs), UploadDirs: a.UploadDirs, Logger: a.Logger,
	}
	b, started, err := inst.StartBrowser(ctx, cfg)
	if err == nil && !started && v.URL != "" {
		_, err = b.NewTab(ctx, v.URL)
	}
	if err != nil {
		return nil, err
	}
	return rest.Reply(a.state(ctx, in.Desktop))
}

// state describes the browser of a desktop.
func (a *area) state(ctx context.Context, id string) (browserState, error) {
	stopped := browserState{State: "stopped", Tabs: []chrome.Tab{}}
	inst, err := a.Fleet.Find(id)
	if err != nil {
		return stopped, err
	}
	b, err := inst.Browser()
	if err != nil {
		return stopped, nil //nolint:nilerr // that it does not run is its state
	}
	tabs, err := b.Tabs(ctx)
	return browserState{State: "running", Version: b.Version().Product, Profile: b.Profile(), Clients: b.Clients(), Tabs: tabs}, err
}
