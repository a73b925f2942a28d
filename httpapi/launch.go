package httpapi

import (
	"context"
	"errors"
	"net/http"

	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/httpapi/internal/grants"
	"github.com/deskhand/deskhand/httpapi/internal/rest"
)

type launchBody struct {
	App  string   `json:"app" doc:"A name on PATH, or an absolute path" example:"xterm"`
	Args []string `json:"args,omitempty" nullable:"false"`
	Wait *bool    `json:"wait,omitempty" doc:"Until its first window is there, it exits, or 15 seconds are over"`
}

type launched struct {
	ProcessID string `json:"processId" example:"proc_7"`
	PID       int    `json:"pid,omitempty"`
	WindowID  string `json:"windowId,omitempty" doc:"Its first window, after wait"`
	Exited    bool   `json:"exited,omitempty" doc:"It ended before it showed a window"`
	ExitCode  *int   `json:"exitCode,omitempty" doc:"When it exited; -1 when a signal ended it"`
}

type launchOutput struct{ Body launched }

func launchedOf(app desktop.App) *launchOutput {
	out := &launchOutput{launched{ProcessID: app.ProcessID, PID: app.PID, Exited: app.Exited}}
	if app.Window != 0 {
		out.Body.WindowID = windowID(app.Window)
	}
	if app.Exited {
		out.Body.ExitCode = &app.ExitCode
	}
	return out
}

type openBody struct {
	Target string `json:"target" doc:"A URL or a file" example:"https://example.com"`
}

func (s *Server) registerLaunch() {
	r := rest.Route{Method: http.MethodPost, Tag: "Programs", Other: rest.RuntimeFailed, Scope: grants.ScopeAgent}
	launch := r
	launch.ID, launch.Path, launch.Summary = "launchApp", "/launch", "Start a program on the desktop"
	launch.Errors = []int{http.StatusNotFound}
	on(s, launch, nil, func(ctx context.Context, d Desktop, in *rest.Input[launchBody]) (*launchOutput, error) {
		b := &in.Body
		app, err := d.Launch(ctx, desktop.Launch{App: b.App, Args: b.Args, Wait: b.Wait != nil && *b.Wait})
		if errors.Is(err, desktop.ErrAppNotFound) {
			return nil, rest.AppNotFound.WithCode("Application '"+b.App+"' not found in PATH").With("field", "app")
		}
		if err != nil {
			return nil, err
		}
		return launchedOf(app), nil
	})
	r.ID, r.Path, r.Summary = "openTarget", "/open", "Open a URL or a file with the program that is set for it"
	on(s, r, nil, func(ctx context.Context, d Desktop, in *rest.Input[openBody]) (*launchOutput, error) {
		app, err := d.Open(ctx, in.Body.Target)
		if err != nil {
			return nil, err
		}
		return launchedOf(app), nil
	})
}
