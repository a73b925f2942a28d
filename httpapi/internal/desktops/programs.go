package desktops

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"

	"github.com/deskhand/deskhand/agents/computer"
	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/httpapi/internal/grants"
	"github.com/deskhand/deskhand/httpapi/internal/rest"
)

type launchBody struct {
	App   string            `json:"app" doc:"Name of a program on PATH, or an absolute path" example:"xterm"`
	Args  []string          `json:"args,omitempty" nullable:"false"`
	Env   map[string]string `json:"env,omitempty" nullable:"false" doc:"Variables to add to the environment"`
	Cwd   *string           `json:"cwd,omitempty" doc:"Working directory; defaults to the home of the desktop"`
	Wait  *bool             `json:"wait,omitempty" doc:"Wait up to 15 seconds until the program shows its first window or exits"`
	Ready *bool             `json:"ready,omitempty" doc:"Wait up to 60 seconds until the program can be used: its splash screen is gone, and its window has been drawn and does not change"`
}

func (b *launchBody) launch() desktop.Launch {
	l := desktop.Launch{App: b.App, Args: b.Args, Dir: rest.Value(b.Cwd), Wait: rest.Value(b.Wait), Ready: rest.Value(b.Ready)}
	for _, name := range slices.Sorted(maps.Keys(b.Env)) {
		l.Env = append(l.Env, name+"="+b.Env[name])
	}
	return l
}

type launched struct {
	ProcessID string `json:"processId" example:"proc_7"`
	PID       int    `json:"pid,omitempty"`
	WindowID  string `json:"windowId,omitempty" doc:"First window of the program; requires wait"`
	Exited    bool   `json:"exited,omitempty" doc:"Whether the program ended before it showed a window"`
	ExitCode  *int   `json:"exitCode,omitempty" doc:"Exit status of a program that exited; -1 if a signal ended it"`
}

func launchedOf(app desktop.App, err error) (*rest.Output[launched], error) {
	out := launched{ProcessID: app.ProcessID, PID: app.PID, WindowID: windowID(app.Window), Exited: app.Exited}
	if app.Exited {
		out.ExitCode = &app.ExitCode
	}
	return rest.Reply(out, err)
}

type openBody struct {
	Target string `json:"target" doc:"URL or path of a file" example:"https://example.com"`
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
			app, err := d.Launch(ctx, b.launch())
			if errors.Is(err, desktop.ErrAppNotFound) {
				err = appNotFound.WithCode("Application '"+b.App+"' not found in PATH").With("field", "app")
			}
			return launchedOf(app, err)
		})
	act(a, r.Post("openTarget", "/open", "Open a URL or a file with its default program"),
		func(ctx context.Context, in *input[openBody]) (*rest.Output[launched], error) {
			d, err := running[computer.Launcher](a, in.Desktop)
			if err != nil {
				return nil, err
			}
			return launchedOf(d.Open(ctx, in.Body.Target))
		})
}
