package processes

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/deskhand/deskhand/httpapi/internal/grants"
	"github.com/deskhand/deskhand/httpapi/internal/rest"
	"github.com/deskhand/deskhand/process"
)

// runBody says what to run to its end.
type runBody struct {
	Command        string            `json:"command" doc:"Name of a program on PATH, or a path" example:"ls"`
	Args           []string          `json:"args,omitempty" nullable:"false" example:"[\"-l\"]"`
	Cwd            string            `json:"cwd,omitempty" doc:"Working directory; defaults to the server's"`
	Env            map[string]string `json:"env,omitempty" nullable:"false" doc:"Variables to add to the environment"`
	SecretEnv      map[string]string `json:"secretEnv,omitempty" nullable:"false" doc:"Variables to add to the environment, with the names of the secrets whose values they get"`
	TimeoutMS      uint64            `json:"timeoutMs,omitempty" doc:"Time after which the program, and the processes that it started, are killed; at most maxRunTimeoutMs. 0 is defaultRunTimeoutMs"`
	MaxOutputBytes *uint64           `json:"maxOutputBytes,omitempty" doc:"Bytes of each stream to keep; at most the limit maxOutputBytes"`
	User           string            `json:"user,omitempty" doc:"Name or number of the user to run as; requires a server that runs as root"`
	Desktop        string            `json:"desktop,omitempty" doc:"Id of a running desktop to run the program on" example:"main"`
}

// runResult is the result of a run.
type runResult struct {
	ExitCode        *int   `json:"exitCode" nullable:"true" doc:"null if a signal or the timeout ended the program"`
	Signal          string `json:"signal,omitempty" doc:"Signal that ended the process" example:"SIGSEGV"`
	TimedOut        bool   `json:"timedOut"`
	Stdout          string `json:"stdout" doc:"Output as UTF-8; invalid bytes are replaced"`
	Stderr          string `json:"stderr"`
	StdoutTruncated bool   `json:"stdoutTruncated"`
	StderrTruncated bool   `json:"stderrTruncated"`
	DurationMS      int64  `json:"durationMs"`
}

func (a *Area) registerRun() {
	rest.Add(a.Group, rest.Route{
		ID: "runProcess", Method: http.MethodPost, Path: "/v1/processes/run", Tag: "Processes", Other: rest.StreamError, Scope: grants.ScopeSupervise, UntilGone: true,
		Summary: "Run a program and wait for it",
		About: "Responds when the program has exited, even if processes that it started still run. " +
			"If the client disconnects, the program and the processes that it started are killed. " +
			"At most maxConcurrentProcesses run concurrently; other calls wait, and their timeout includes the wait.",
		Errors: []int{http.StatusBadRequest, http.StatusConflict, http.StatusBadGateway},
	}, a.run)
}

func (a *Area) run(ctx context.Context, in *rest.Input[runBody]) (*rest.Output[runResult], error) {
	b := &in.Body
	start := &startBody{
		Command: b.Command, Args: b.Args, Cwd: b.Cwd, Env: b.Env, SecretEnv: b.SecretEnv, User: b.User, Desktop: b.Desktop,
	}
	if err := start.allowedFor(rest.GrantOf(ctx)); err != nil {
		return nil, err
	}
	spec, err := a.spec(start)
	if err != nil {
		return nil, err
	}
	m, err := a.managers()
	if err != nil {
		return nil, err
	}
	opts := process.RunOptions{Timeout: rest.Milliseconds(b.TimeoutMS)}
	if b.MaxOutputBytes != nil {
		most := int(min(*b.MaxOutputBytes, uint64(1<<62))) //nolint:gosec // it fits
		opts.MaxOutput = &most
	}
	r, err := m.of(rest.GrantOf(ctx)).Run(ctx, spec, opts)
	if err != nil {
		return nil, err
	}
	out := runResult{
		ExitCode: r.Exit.Code, TimedOut: r.TimedOut, Stdout: text(r.Stdout), Stderr: text(r.Stderr),
		StdoutTruncated: r.StdoutTruncated, StderrTruncated: r.StderrTruncated,
		DurationMS: r.Duration.Milliseconds(),
	}
	if !r.TimedOut {
		out.Signal = r.Exit.Signal
	}
	return rest.Reply(out, nil)
}

// text is output as a string that JSON can hold.
func text(b []byte) string { return strings.ToValidUTF8(string(b), "\uFFFD") }

// processConfig are the limits of processes.
type processConfig struct {
	MaxConcurrentProcesses uint64 `json:"maxConcurrentProcesses" doc:"Maximum number of running processes of clients; programs of desktops do not count" example:"64"`
	DefaultRunTimeoutMS    uint64 `json:"defaultRunTimeoutMs" example:"30000"`
	MaxRunTimeoutMS        uint64 `json:"maxRunTimeoutMs" example:"300000"`
	MaxOutputBytes         uint64 `json:"maxOutputBytes" doc:"Maximum bytes of each output stream of a run" example:"1048576"`
	MaxLogBytesPerProcess  uint64 `json:"maxLogBytesPerProcess" doc:"Maximum bytes of stored output of a process; the oldest is dropped" example:"10485760"`
	MaxInputBytes          uint64 `json:"maxInputBytesPerRequest" example:"65536"`
}

func configOf(l process.Limits) processConfig {
	//nolint:gosec // none of them is negative
	return processConfig{
		uint64(l.MaxProcesses), uint64(l.RunTimeout.Milliseconds()), uint64(l.MaxRunTimeout.Milliseconds()),
		uint64(l.MaxOutput), uint64(l.MaxLog), uint64(l.MaxInput),
	}
}

// limits checks what clients set. The texts are the reference's.
func (c processConfig) limits() (process.Limits, error) {
	var l process.Limits
	for _, f := range []struct {
		name, problem string
		value         uint64
		to            *int
	}{
		{"maxConcurrentProcesses", "maxConcurrentProcesses must be greater than 0", c.MaxConcurrentProcesses, &l.MaxProcesses},
		{"defaultRunTimeoutMs", "timeouts must be greater than 0", c.DefaultRunTimeoutMS, nil},
		{"maxRunTimeoutMs", "timeouts must be greater than 0", c.MaxRunTimeoutMS, nil},
		{"maxOutputBytes", "byte limits must be greater than 0", c.MaxOutputBytes, &l.MaxOutput},
		{"maxLogBytesPerProcess", "byte limits must be greater than 0", c.MaxLogBytesPerProcess, &l.MaxLog},
		{"maxInputBytesPerRequest", "byte limits must be greater than 0", c.MaxInputBytes, &l.MaxInput},
	} {
		if f.value == 0 {
			return l, rest.InvalidRequest.Problem("invalid request: "+f.problem).With("field", f.name)
		}
		if f.to != nil {
			*f.to = int(min(f.value, uint64(1<<62))) //nolint:gosec // it fits
		}
	}
	l.RunTimeout, l.MaxRunTimeout = rest.Milliseconds(c.DefaultRunTimeoutMS), rest.Milliseconds(c.MaxRunTimeoutMS)
	l.RunTimeout = min(l.RunTimeout, l.MaxRunTimeout)
	return l, nil
}

func (a *Area) registerProcessConfig() {
	const at = "/v1/processes/config"
	r := rest.Route{Tag: "Processes", Other: rest.StreamError}
	rest.Add(a.Group, r.Get("getProcessConfig", at, "Get the limits of processes"), func(context.Context, *struct{}) (*rest.Output[processConfig], error) {
		m, err := a.Manager()
		if err != nil {
			return nil, err
		}
		return rest.Reply(configOf(m.Limits()), nil)
	})
	set := r.Post("setProcessConfig", at, "Set the limits of processes").
		WithAbout("The limits take effect immediately, and last until the server ends.").WithErrors(http.StatusBadRequest)
	rest.Add(a.Group, set, func(_ context.Context, in *rest.Input[processConfig]) (*rest.Output[processConfig], error) {
		l, err := in.Body.limits()
		if err != nil {
			return nil, err
		}
		m, err := a.managers()
		if err != nil {
			return nil, err
		}
		if err := errors.Join(m.own.SetLimits(l), m.guests.SetLimits(l)); err != nil {
			return nil, err
		}
		return rest.Reply(configOf(m.own.Limits()), nil)
	})
}
