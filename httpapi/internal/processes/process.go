package processes

import (
	"cmp"
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/deskhand/deskhand/httpapi/internal/rest"
	"github.com/deskhand/deskhand/internal/userhome"
	"github.com/deskhand/deskhand/process"
)

// startBody says what to start.
type startBody struct {
	Command     string            `json:"command" doc:"A name on PATH, or a path" example:"python3"`
	Args        []string          `json:"args,omitempty" nullable:"false"`
	Cwd         string            `json:"cwd,omitempty" doc:"Working directory; the server's when left out"`
	Env         map[string]string `json:"env,omitempty" nullable:"false" doc:"Added to the environment"`
	TTY         bool              `json:"tty,omitempty" doc:"Give it a terminal"`
	Interactive bool              `json:"interactive,omitempty" doc:"Repeated in answers; input is accepted either way"`
	Cols        *uint16           `json:"cols,omitempty" doc:"Width of the terminal in characters; 80 when left out"`
	Rows        *uint16           `json:"rows,omitempty" doc:"Height of the terminal in lines; 24 when left out"`
	User        string            `json:"user,omitempty" doc:"Name or number of the user to run as; the server must be root"`
	Desktop     string            `json:"desktop,omitempty" doc:"Id of a running desktop to put it on: sets DISPLAY, XAUTHORITY, D-Bus and HOME" example:"main"`
}

// processInfo describes a process.
type processInfo struct {
	ID          string        `json:"id" example:"proc_7"`
	Command     string        `json:"command"`
	Args        []string      `json:"args" nullable:"false"`
	Cwd         string        `json:"cwd,omitempty"`
	TTY         bool          `json:"tty"`
	Interactive bool          `json:"interactive"`
	Owner       process.Owner `json:"owner" enum:"user,desktop,system" doc:"desktop: it belongs to a desktop, which may start it again when it ends. system: this server started it"`
	Part        string        `json:"part,omitempty" doc:"Which part of the server started it, of owner system" example:"agent"`
	Status      string        `json:"status" enum:"running,exited"`
	PID         int           `json:"pid,omitempty" doc:"While it runs"`
	ExitCode    *int          `json:"exitCode,omitempty" doc:"When it exited; left out when a signal ended it"`
	Signal      string        `json:"signal,omitempty" doc:"The signal that ended it" example:"SIGKILL"`
	CreatedAtMS int64         `json:"createdAtMs"`
	ExitedAtMS  *int64        `json:"exitedAtMs,omitempty"`
	Usage       *usageInfo    `json:"usage,omitempty" doc:"With usage=true, while it runs"`
}

// usageInfo tells what a process and all that it started use.
type usageInfo struct {
	Processes int   `json:"processes"`
	CPUMS     int64 `json:"cpuMs" doc:"Processor time used, in milliseconds"`
	RSSBytes  int64 `json:"rssBytes" doc:"Resident memory"`
}

type (
	processesOutput struct {
		Body struct {
			Processes []processInfo `json:"processes" nullable:"false" doc:"In the order of their creation"`
		}
	}

	processID struct {
		ID string `path:"id"`
	}

	usageInput struct {
		ID    string `path:"id"`
		Usage bool   `query:"usage" doc:"Measure processor time and memory as well"`
	}

	listInput struct {
		Owner process.Owner `query:"owner" enum:"user,desktop,system" doc:"Only those"`
		Usage bool          `query:"usage" doc:"Measure processor time and memory as well"`
	}

	waitInput struct {
		ID     string              `path:"id"`
		WaitMS rest.Optional[uint] `query:"waitMs" minimum:"0" doc:"Wait until it has ended, but at most this time; do not wait when left out"`
	}
)

func processOf(i process.Info) processInfo {
	p := processInfo{
		ID: i.ID, Command: i.Command, Args: i.Args, Cwd: i.Dir, TTY: i.Terminal, Interactive: i.Interactive,
		Owner: i.Owner, Part: i.Part, Status: "running", PID: i.PID, CreatedAtMS: i.Started.UnixMilli(),
	}
	if p.Args == nil {
		p.Args = []string{}
	}
	if !i.Running {
		at := i.Ended.UnixMilli()
		p.Status, p.PID, p.ExitedAtMS = "exited", 0, &at
		p.ExitCode, p.Signal = i.Exit.Code, i.Exit.Signal
	}
	return p
}

// Register adds the routes of processes.
func Register(api *rest.API, cfg Config) *Area {
	a := &Area{Group: rest.Group{API: api, Problem: problem}, cfg: cfg}

	r := rest.Route{Tag: "Processes", Other: rest.StreamError}
	rest.Add(a.Group, r.Post("createProcess", "/v1/processes", "Start a process").
		WithAbout("It runs until it ends, is stopped, or the server ends. What it prints is kept, up to a limit.").
		WithErrors(http.StatusBadRequest, http.StatusConflict, http.StatusBadGateway), a.createProcess)
	rest.Add(a.Group, r.Get("listProcesses", "/v1/processes", "List processes").
		WithAbout("Programs of desktops are listed too. Of the processes that have ended, the latest are listed."), a.listProcesses)
	// Before what has an id in their place.
	a.registerRun()
	a.registerProcessConfig()
	r.Errors = []int{http.StatusNotFound}
	get := r.Get("getProcess", "/v1/processes/{id}", "Tell about a process")
	rest.Add(a.Group, get, func(_ context.Context, in *usageInput) (*rest.Output[processInfo], error) {
		p, err := a.find(in.ID)
		if err != nil {
			return nil, err
		}
		info, err := describeProcess(p, in.Usage)
		return rest.Reply(info, err)
	})
	a.registerEnding(r)
	a.registerProcessLogs()
	a.registerProcessInput()
	a.registerTerminal()
	return a
}

func describeProcess(p *process.Process, usage bool) (processInfo, error) {
	info := processOf(p.Info())
	if usage && info.PID != 0 {
		u, err := p.Usage()
		if err != nil {
			return info, err
		}
		info.Usage = &usageInfo{Processes: u.Processes, CPUMS: u.CPU.Milliseconds(), RSSBytes: u.Memory}
	}
	return info, nil
}

// spec is what a body asks to start.
func (a *Area) spec(b *startBody) (process.Spec, error) {
	if strings.TrimSpace(b.Command) == "" {
		return process.Spec{}, rest.InvalidRequest.Problem("invalid request: command must not be empty").With("field", "command")
	}
	spec := process.Spec{
		Command: b.Command, Args: b.Args, Dir: userhome.Expand(b.Cwd), Env: b.Env, Terminal: b.TTY, Interactive: b.Interactive,
		User: b.User, Cols: rest.Value(b.Cols), Rows: rest.Value(b.Rows),
	}
	if b.Desktop != "" {
		var err error
		if spec.Environ, err = a.cfg.DesktopEnviron(b.Desktop); err != nil {
			return spec, err
		}
		spec.User = cmp.Or(spec.User, a.cfg.DesktopUser) // whose home it has
	}
	return spec, nil
}

func (a *Area) createProcess(_ context.Context, in *rest.Input[startBody]) (*rest.Output[processInfo], error) {
	spec, err := a.spec(&in.Body)
	if err != nil {
		return nil, err
	}
	m, err := a.manager()
	if err != nil {
		return nil, err
	}
	p, err := m.Start(spec)
	if err != nil {
		return nil, err
	}
	return rest.Reply(processOf(p.Info()), nil)
}

func (a *Area) listProcesses(_ context.Context, in *listInput) (*processesOutput, error) {
	m, err := a.manager()
	if err != nil {
		return nil, err
	}
	infos := m.List(in.Owner)
	out := &processesOutput{}
	out.Body.Processes = make([]processInfo, len(infos))
	for i, info := range infos {
		out.Body.Processes[i] = processOf(info)
		if !in.Usage || !info.Running {
			continue
		}
		// One that is forgotten meanwhile has nothing to measure any more.
		if p, err := m.Find(info.ID); err == nil {
			if out.Body.Processes[i], err = describeProcess(p, true); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

// registerEnding adds what ends processes and forgets them.
func (a *Area) registerEnding(r rest.Route) {
	type ending = func(*process.Process, context.Context, time.Duration) process.Info
	for _, end := range []struct {
		name, summary, about string
		do                   ending
	}{
		{
			"stop", "Ask a process, and all that it started, to end",
			"Sends SIGTERM to its group. What has not ended ten seconds later, or after waitMs if that is longer, is killed.",
			(*process.Process).Stop,
		},
		{"kill", "Kill a process and all that it started", "Sends SIGKILL.", (*process.Process).Kill},
	} {
		e := r.Post(end.name+"Process", "/v1/processes/{id}/"+end.name, end.summary).WithAbout(end.about)
		rest.Add(a.Group, e, func(ctx context.Context, in *waitInput) (*rest.Output[processInfo], error) {
			p, err := a.find(in.ID)
			if err != nil {
				return nil, err
			}
			return rest.Reply(processOf(end.do(p, ctx, rest.Milliseconds(uint64(in.WaitMS.Value)))), nil)
		})
	}
	remove := r.Delete("deleteProcess", "/v1/processes/{id}", "Forget a process that has ended, and what it printed").
		WithErrors(http.StatusConflict)
	rest.Add(a.Group, remove, func(_ context.Context, in *processID) (*struct{}, error) {
		p, err := a.find(in.ID)
		if err != nil {
			return nil, err
		}
		m, err := a.manager()
		if err != nil {
			return nil, err
		}
		return nil, m.Remove(p.Info().ID)
	})
}
