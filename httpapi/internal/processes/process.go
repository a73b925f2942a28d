package processes

import (
	"cmp"
	"context"
	"maps"
	"net/http"
	"strings"
	"time"

	"github.com/deskhand/deskhand/httpapi/internal/grants"
	"github.com/deskhand/deskhand/httpapi/internal/rest"
	"github.com/deskhand/deskhand/internal/userhome"
	"github.com/deskhand/deskhand/process"
)

// startBody says what to start.
type startBody struct {
	Command     string            `json:"command" doc:"Name of a program on PATH, or a path" example:"python3"`
	Args        []string          `json:"args,omitempty" nullable:"false"`
	Cwd         string            `json:"cwd,omitempty" doc:"Working directory; defaults to the server's"`
	Env         map[string]string `json:"env,omitempty" nullable:"false" doc:"Variables to add to the environment"`
	SecretEnv   map[string]string `json:"secretEnv,omitempty" nullable:"false" doc:"Variables to add to the environment, with the names of the secrets whose values they get"`
	TTY         bool              `json:"tty,omitempty" doc:"Run the program on a terminal"`
	Interactive bool              `json:"interactive,omitempty" doc:"Returned in responses; input is accepted in either case"`
	Cols        *uint16           `json:"cols,omitempty" doc:"Width of the terminal in characters; defaults to 80"`
	Rows        *uint16           `json:"rows,omitempty" doc:"Height of the terminal in lines; defaults to 24"`
	User        string            `json:"user,omitempty" doc:"Name or number of the user to run as; requires a server that runs as root"`
	Desktop     string            `json:"desktop,omitempty" doc:"Id of a running desktop to run the program on; sets DISPLAY, XAUTHORITY, the D-Bus address and HOME" example:"main"`
}

// processInfo describes a process.
type processInfo struct {
	ID          string        `json:"id" example:"proc_7"`
	Command     string        `json:"command"`
	Args        []string      `json:"args" nullable:"false" doc:"The first 4 KiB, with an ellipsis where they are cut. A list has at most 8 MiB of args and cwd; the rest is left out"`
	Cwd         string        `json:"cwd,omitempty"`
	TTY         bool          `json:"tty"`
	Interactive bool          `json:"interactive"`
	Owner       process.Owner `json:"owner" enum:"user,desktop,system" doc:"user: a client started it. desktop: it belongs to a desktop, which may restart it. system: the server started it"`
	Part        string        `json:"part,omitempty" doc:"Part of the server that started it; only for the owner system" example:"agent"`
	Status      string        `json:"status" enum:"running,exited"`
	PID         int           `json:"pid,omitempty" doc:"Only while it runs"`
	ExitCode    *int          `json:"exitCode,omitempty" doc:"Exit status; omitted if a signal ended the process"`
	Signal      string        `json:"signal,omitempty" doc:"Signal that ended the process" example:"SIGKILL"`
	CreatedAtMS int64         `json:"createdAtMs"`
	ExitedAtMS  *int64        `json:"exitedAtMs,omitempty"`
	Usage       *usageInfo    `json:"usage,omitempty" doc:"Resource usage of a running process; requires usage=true"`
}

// usageInfo is what a process and all that it started use.
type usageInfo struct {
	Processes int   `json:"processes"`
	CPUMS     int64 `json:"cpuMs" doc:"Processor time in milliseconds"`
	RSSBytes  int64 `json:"rssBytes" doc:"Resident memory"`
}

type (
	processesOutput struct {
		Body struct {
			Processes []processInfo `json:"processes" nullable:"false" doc:"Processes in the order of their creation"`
		}
	}

	processID struct {
		ID string `path:"id"`
	}

	usageInput struct {
		ID    string `path:"id"`
		Usage bool   `query:"usage" doc:"Include processor time and memory"`
	}

	listInput struct {
		Owner process.Owner `query:"owner" enum:"user,desktop,system" doc:"Owner of the processes"`
		Usage bool          `query:"usage" doc:"Include processor time and memory"`
	}

	waitInput struct {
		ID     string              `path:"id"`
		WaitMS rest.Optional[uint] `query:"waitMs" minimum:"0" doc:"Maximum time to wait until the process has ended; defaults to not waiting"`
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
	a := &Area{Group: rest.Group{API: api, Problem: Problem}, cfg: cfg}

	r := rest.Route{Tag: "Processes", Other: rest.StreamError, Scope: grants.ScopeSupervise}
	rest.Add(a.Group, r.Post("createProcess", "/v1/processes", "Start a process").
		WithAbout("The process runs until it exits, is stopped, or the server ends. Its output is kept up to a limit.").
		WithErrors(http.StatusBadRequest, http.StatusConflict, http.StatusBadGateway), a.createProcess)
	rest.Add(a.Group, r.Get("listProcesses", "/v1/processes", "List processes").
		WithAbout("Includes programs of desktops, and the latest ended processes."), a.listProcesses)
	// Before what has an id in their place.
	a.registerRun()
	a.registerProcessConfig()
	r.Errors, r.Enter = []int{http.StatusNotFound}, a.enter
	get := r.Get("getProcess", "/v1/processes/{id}", "Get a process")
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
		return info, info.measure(p)
	}
	return info, nil
}

// measure adds what a process uses.
func (i *processInfo) measure(p *process.Process) error {
	u, err := p.Usage()
	if err == nil {
		i.Usage = &usageInfo{Processes: u.Processes, CPUMS: u.CPU.Milliseconds(), RSSBytes: u.Memory}
	}
	return err
}

// spec is what a body asks to start.
func (a *Area) spec(b *startBody) (process.Spec, error) {
	if strings.TrimSpace(b.Command) == "" {
		return process.Spec{}, rest.InvalidRequest.Problem("invalid request: command must not be empty").With("field", "command")
	}
	env, err := a.variables(b)
	if err != nil {
		return process.Spec{}, err
	}
	spec := process.Spec{
		Command: b.Command, Args: b.Args, Dir: userhome.Expand(b.Cwd), Env: env, Terminal: b.TTY, Interactive: b.Interactive,
		User: b.User, Cols: rest.Value(b.Cols), Rows: rest.Value(b.Rows),
	}
	if b.Desktop != "" {
		if spec.Environ, err = a.cfg.DesktopEnviron(b.Desktop); err != nil {
			return spec, err
		}
		spec.User = cmp.Or(spec.User, a.cfg.DesktopUser) // whose home it has
	}
	return spec, nil
}

// variables returns what a body adds to the environment, with the values of secrets.
func (a *Area) variables(b *startBody) (map[string]string, error) {
	if len(b.SecretEnv) == 0 {
		return b.Env, nil
	}
	all := make(map[string]string, len(b.Env)+len(b.SecretEnv))
	maps.Copy(all, b.Env)
	for variable, name := range b.SecretEnv {
		if _, twice := all[variable]; twice {
			return nil, rest.InvalidField("secretEnv", "secretEnv must not have a variable that env has")
		}
		value, ok := a.cfg.Secrets.Value(name)
		if !ok {
			return nil, rest.InvalidField("secretEnv", "secretEnv must name secrets that exist; GET /v1/secrets lists them").
				With("known", a.cfg.Secrets.Names())
		}
		all[variable] = value
	}
	return all, nil
}

func (a *Area) createProcess(ctx context.Context, in *rest.Input[startBody]) (*rest.Output[processInfo], error) {
	if err := in.Body.allowedFor(rest.GrantOf(ctx)); err != nil {
		return nil, err
	}
	spec, err := a.spec(&in.Body)
	if err != nil {
		return nil, err
	}
	m, err := a.managers()
	if err != nil {
		return nil, err
	}
	p, err := m.of(rest.GrantOf(ctx)).Start(spec)
	if err != nil {
		return nil, err
	}
	return rest.Reply(processOf(p.Info()), nil)
}

func (a *Area) listProcesses(ctx context.Context, in *listInput) (*processesOutput, error) {
	m, err := a.managers()
	if err != nil {
		return nil, err
	}
	var infos []process.Info
	switch {
	case !limited(rest.GrantOf(ctx)):
		infos = m.list(in.Owner)
	case in.Owner == "" || in.Owner == process.OwnerUser:
		infos = m.guests.List(process.OwnerUser)
	}
	out := &processesOutput{}
	out.Body.Processes = describeAll(infos)
	for i, info := range infos {
		if !in.Usage || !info.Running {
			continue
		}
		// One that is forgotten meanwhile has nothing to measure any more.
		if p, _, err := m.with(info.ID); err == nil {
			if err := out.Body.Processes[i].measure(p); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

// listBytes bounds the arguments and directories in a list.
const listBytes = 8 << 20

// describeAll describes processes for a list. Those for whose arguments and directory there is no
// room have none.
func describeAll(infos []process.Info) []processInfo {
	list := make([]processInfo, len(infos))
	left := listBytes
	for i, info := range infos {
		left -= len(info.Dir)
		for _, arg := range info.Args {
			left -= len(arg)
		}
		if left < 0 {
			info.Dir, info.Args = "", nil
		}
		list[i] = processOf(info)
	}
	return list
}

// registerEnding adds what ends processes and forgets them.
func (a *Area) registerEnding(r rest.Route) {
	type ending = func(*process.Process, context.Context, time.Duration) process.Info
	for _, end := range []struct {
		name, summary, about string
		do                   ending
	}{
		{
			"stop", "Terminate a process and the processes that it started",
			"Sends SIGTERM to the process group. Processes that still run after ten seconds, or after waitMs if that is longer, are killed.",
			(*process.Process).Stop,
		},
		{"kill", "Kill a process and the processes that it started", "Sends SIGKILL.", (*process.Process).Kill},
	} {
		e := r.Post(end.name+"Process", "/v1/processes/{id}/"+end.name, end.summary).WithAbout(end.about)
		e.UntilGone = true // ends the wait, not the stop
		rest.Add(a.Group, e, func(ctx context.Context, in *waitInput) (*rest.Output[processInfo], error) {
			p, err := a.find(in.ID)
			if err != nil {
				return nil, err
			}
			return rest.Reply(processOf(end.do(p, ctx, rest.Milliseconds(uint64(in.WaitMS.Value)))), nil)
		})
	}
	remove := r.Delete("deleteProcess", "/v1/processes/{id}", "Delete an ended process and its output").
		WithErrors(http.StatusConflict)
	rest.Add(a.Group, remove, func(_ context.Context, in *processID) (*struct{}, error) {
		all, err := a.managers()
		if err != nil {
			return nil, err
		}
		_, m, err := all.with(in.ID)
		if err != nil {
			return nil, err
		}
		return nil, m.Remove(in.ID)
	})
}
