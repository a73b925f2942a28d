package desktops

import (
	"context"
	"errors"
	"net/http"

	"github.com/deskhand/deskhand/agents/computer"
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

func launchedOf(app desktop.App, err error) (*rest.Output[launched], error) {
	out := launched{ProcessID: app.ProcessID, PID: app.PID, WindowID: windowID(app.Window), Exited: app.Exited}
	if app.Exited {
		out.ExitCode = &app.ExitCode
	}
	return rest.Reply(out, err)
}

type openBody struct {
	Target string `json:"target" doc:"A URL or a file" example:"https://example.com"`
}

func (a *Area) registerPrograms() {
	r := rest.Route{Tag: "Programs", Other: runtimeFailed, Scope: grants.ScopeAgent}
	act(a, r.Post("launchApp", "/launch", "Start a program on the desktop").WithErrors(http.StatusNotFound),
		func(ctx context.Context, in *input[launchBody]) (*rest.Output[launched], error) {
			b := &in.Body
			d, err := running[computer.Launcher](a, in.Desktop)
			if err != nil {
				return nil, err
			}
			app, err := d.Launch(ctx, desktop.Launch{App: b.App, Args: b.Args, Wait: rest.Value(b.Wait)})
			if errors.Is(err, desktop.ErrAppNotFound) {
				err = appNotFound.WithCode("Application '"+b.App+"' not found in PATH").With("field", "app")
			}
			return launchedOf(app, err)
		})
	act(a, r.Post("openTarget", "/open", "Open a URL or a file with the program that is set for it"),
		func(ctx context.Context, in *input[openBody]) (*rest.Output[launched], error) {
			d, err := running[computer.Launcher](a, in.Desktop)
			if err != nil {
				return nil, err
			}
			return launchedOf(d.Open(ctx, in.Body.Target))
		})
}
