package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/deskhand/deskhand/agents/registry"
	"github.com/deskhand/deskhand/internal/supervise"
)

const aboutOpenCode = `Opens the terminal UI of OpenCode on sessions of a server in the background, with
any agent: Claude Code, Codex, OpenCode, Pi, mock and others. Starts the server unless
it runs. Installs OpenCode unless it is installed, or on PATH.

The agent, its model and its mode can be changed in the UI (/models, Tab). Arguments
after -- are passed to 'opencode attach', such as --continue.`

// openCodeFlags are the flags of the commands opencode and gigacode.
type openCodeFlags struct {
	daemonFlags
	title string
	bin   string
	dir   string
	agent string
	yolo  bool
}

func (p program) openCode(ctx context.Context, access accessFlags, args []string) error {
	return p.runOpenCode(ctx, "opencode", access, args)
}

func (p program) gigacode(ctx context.Context, access accessFlags, args []string) error {
	return p.runOpenCode(ctx, "gigacode", access, args)
}

func (p program) runOpenCode(ctx context.Context, name string, access accessFlags, args []string) error {
	f := openCodeFlags{daemonFlags: daemonFlags{serverFlags: serverFlags{accessFlags: access}}}
	flags := p.flags(name+" [FLAGS] [-- ATTACH-FLAGS]", aboutOpenCode)
	flags.StringVarP(&f.agent, "agent", "a", "", "`name` of the agent of new sessions in this project, such as claude; installed if it is not")
	flags.BoolVar(&f.yolo, "yolo", false, "answer every permission request of new prompts in this project with yes, until the command is run without --yolo")
	flags.StringVar(&f.dir, "dir", "", "`directory` of the project (default: this one)")
	flags.StringVar(&f.title, "session-title", "", "begin with a new session that has this `title`")
	flags.StringVar(&f.bin, "opencode-bin", "", "`program` to run instead of the opencode that is found or installed")
	flags.StringVarP(&f.host, "host", "H", "127.0.0.1", "`address` of the server")
	flags.Uint16VarP(&f.port, "port", "p", defaultPort, "`port` of the server")
	f.accessFlags.register(flags)
	flags.StringVar(&f.tokenFile, "token-file", "", "`file` that holds the token")
	flags.Bool("no-telemetry", false, "accepted for compatibility; there is no telemetry")
	if err := parse(flags, args); err != nil {
		return err
	}
	if at := flags.ArgsLenAtDash(); flags.NArg() > 0 && at != 0 {
		return usagef("%s takes no argument, so not %q; arguments of 'opencode attach' come after --", name, flags.Arg(0))
	}
	if _, err := useHome(); err != nil {
		return err
	}
	dir, err := filepath.Abs(f.dir)
	if err != nil {
		return fmt.Errorf("--dir: %w", err)
	}
	d, err := f.daemon(flags)
	if err != nil {
		return err
	}
	bin, env, err := p.openCodeProgram(ctx, f.bin, f.agent)
	if err != nil {
		return err
	}
	server, err := p.openCodeServer(ctx, d, f.daemonFlags)
	if err != nil {
		return err
	}
	server.dir = dir
	attach, err := server.prepare(ctx, f)
	if err != nil {
		return err
	}
	// The UI has the terminal to itself, as if the user had started it. It stays in its group of processes.
	argv := slices.Concat([]string{bin, "attach", server.base + "opencode", "--dir", dir}, attach, flags.Args())
	env = append(env, supervise.GroupVariable+"="+os.Getenv(supervise.GroupVariable),
		"OPENCODE_SERVER_PASSWORD="+server.token, "OPENCODE_SERVER_USERNAME=opencode")
	if err := syscall.Exec(bin, argv, supervise.Environ(supervise.Inherit(false), env...)); err != nil {
		return fmt.Errorf("run %s: %w", bin, err)
	}
	return nil
}

// openCodeProgram returns the program opencode and additions to its environment. It installs
// opencode and the agent if they are not installed.
func (p program) openCodeProgram(ctx context.Context, bin, agent string) (path string, env []string, err error) {
	cfg, err := new(agentFlags).settings()
	if err != nil {
		return "", nil, err
	}
	r, err := registry.New(cfg)
	if err != nil {
		return "", nil, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	if agent != "" {
		if _, err := p.prepareAgent(ctx, r, agent); err != nil {
			return "", nil, err
		}
	}
	if bin != "" {
		path, err := supervise.LookPath(bin, os.Environ())
		if err == nil {
			path, err = filepath.Abs(path)
		}
		if err != nil {
			return "", nil, fmt.Errorf("--opencode-bin: %w", err)
		}
		return path, nil, nil
	}
	c, err := p.prepareAgent(ctx, r, "opencode")
	return c.Program, c.Env, err
}

// prepareAgent returns the command line of an agent, and installs the agent if it is not
// installed.
func (p program) prepareAgent(ctx context.Context, r *registry.Registry, id string) (registry.Command, error) {
	var stage registry.Stage
	c, err := r.Prepare(ctx, id, func(now registry.Progress) {
		if now.Stage != stage {
			fmt.Fprintf(p.stderr, "%s: %s\n", now.Agent, now.Message)
		}
		stage = now.Stage
	})
	if errors.Is(err, registry.ErrUnknownAgent) {
		return c, usagef("there is no agent %q; there are: %s", id, strings.Join(r.IDs(), ", "))
	}
	return c, err
}

// openCodeServer is a server and a project on it.
type openCodeServer struct {
	base  string // URL with a slash at its end
	token string
	dir   string
}

// openCodeServer returns the server at the address of the flags, and starts it in the background
// unless it runs.
func (p program) openCodeServer(ctx context.Context, d *daemon, f daemonFlags) (*openCodeServer, error) {
	token, err := f.resolve()
	if err != nil {
		return nil, err
	}
	hide(token, p.argv)
	base := "http://" + d.address + "/"
	if !d.running() && checkAlive(ctx, base) == nil {
		return &openCodeServer{base: base, token: token}, nil // it runs in the foreground
	}
	lock, err := d.claim()
	switch {
	case errors.Is(err, errRunning):
	case err != nil:
		return nil, err
	default:
		_, err := (daemonCommand{program: p, daemon: d, flags: f}).launch(ctx, lock, nil)
		if err := errors.Join(err, lock.Close()); err != nil {
			return nil, err
		}
		fmt.Fprintf(p.stderr, "deskhand runs in the background at %s; '%s daemon stop' ends it\n", base, p.name)
	}
	ready, err := d.awaitReady(ctx)
	if err != nil {
		return nil, err
	}
	if u, err := url.Parse(ready); err == nil && token == "" && !f.noToken {
		token = u.Query().Get("token")
	}
	return &openCodeServer{base: base, token: token}, nil
}

// awaitReady waits until the server has printed its URL, and returns the URL.
func (d *daemon) awaitReady(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, daemonStart, fmt.Errorf("the server at %s was not ready within %v; its log is %s", d.address, daemonStart, d.log))
	defer cancel()
	tick := time.NewTicker(daemonPoll)
	defer tick.Stop()
	for {
		if ready := d.readyAt(); ready != "" {
			return ready, nil
		}
		select {
		case <-ctx.Done():
			return "", context.Cause(ctx)
		case <-tick.C:
		}
	}
}

// prepare applies the flags to the project, and returns flags of opencode attach.
func (s *openCodeServer) prepare(ctx context.Context, f openCodeFlags) (attach []string, err error) {
	var settings struct{ Permission any }
	if err := s.call(ctx, http.MethodGet, "config", nil, &settings); err != nil {
		return nil, err
	}
	change := map[string]any{}
	switch yolo := settings.Permission == "allow"; {
	case f.yolo && !yolo:
		change["permission"] = "allow"
	case !f.yolo && yolo:
		change["permission"] = nil
	}
	if f.agent != "" {
		var known struct{ Default map[string]string }
		if err := s.call(ctx, http.MethodGet, "config/providers", nil, &known); err != nil {
			return nil, err
		}
		model, ok := known.Default[f.agent]
		if !ok {
			return nil, fmt.Errorf("the server at %s does not find the agent %s; 'deskhand install-agent %s' as the server's user installs it", s.base, f.agent, f.agent)
		}
		change["model"] = f.agent + "/" + model
	}
	if len(change) > 0 {
		if err := s.call(ctx, http.MethodPatch, "config", change, nil); err != nil {
			return nil, err
		}
	}
	if f.title == "" {
		return nil, nil
	}
	var made struct{ ID string }
	err = s.call(ctx, http.MethodPost, "session", map[string]string{"title": f.title}, &made)
	return []string{"--session", made.ID}, err
}

// call calls a route of OpenCode's API.
func (s *openCodeServer) call(ctx context.Context, method, route string, body, answer any) error {
	var text io.Reader
	if body != nil {
		data, err := json.Marshal(body)
		if err != nil {
			return err
		}
		text = bytes.NewReader(data)
	}
	req, err := http.NewRequestWithContext(ctx, method, s.base+"opencode/"+route+"?"+url.Values{"directory": {s.dir}}.Encode(), text)
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	if s.token != "" {
		req.SetBasicAuth("opencode", s.token)
	}
	res, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req) // without a proxy
	if err != nil {
		return err
	}
	defer res.Body.Close()
	const most = 16 << 20
	data, err := io.ReadAll(io.LimitReader(res.Body, most))
	switch {
	case err != nil:
		return err
	case res.StatusCode == http.StatusUnauthorized:
		return fmt.Errorf("the server at %s does not accept the token; give its token with --token-file or in DESKHAND_TOKEN", s.base)
	case res.StatusCode != http.StatusOK:
		var refused struct{ Data struct{ Message string } }
		_ = json.Unmarshal(data, &refused)
		return fmt.Errorf("%s %s: %s", method, req.URL.Path, cmp.Or(refused.Data.Message, res.Status))
	case answer == nil:
		return nil
	}
	return json.Unmarshal(data, answer)
}
