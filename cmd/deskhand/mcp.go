package main

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/deskhand/deskhand/agents/computer"
	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/httpapi"
	"github.com/deskhand/deskhand/internal/apiclient"
	"github.com/deskhand/deskhand/internal/removetree"
	"github.com/deskhand/deskhand/internal/userhome"
)

const mcpAbout = `Serves a desktop as tools of the Model Context Protocol, on standard input and
output, for agents that start their MCP servers.

With --endpoint, DESKHAND_ENDPOINT or --desktop, the tools use a desktop of a
running server. Otherwise deskhand starts a desktop, which ends with standard
input.`

// mcp serves a desktop on standard input and output.
func (p program) mcp(ctx context.Context, access accessFlags, args []string) error {
	f := clientFlags{accessFlags: access}
	var id, actor string
	var size desktop.Size
	var secrets []string
	flags := p.flags("mcp", mcpAbout)
	f.register(flags)
	flags.StringVar(&id, "desktop", "", "`id` of the server's desktop (default main)")
	flags.StringVar(&actor, "name", "", "actor `name` in events and recordings (default: the MCP client's name)")
	flags.IntVar(&size.Width, "width", 0, "width of the started desktop in `pixels` (default 1280)")
	flags.IntVar(&size.Height, "height", 0, "height of the started desktop in `pixels` (default 800)")
	flags.StringArrayVar(&secrets, "secret", nil, "secret that the tools of the started desktop use by its name: `NAME=env:VAR|file:PATH`; may be repeated")
	if err := parseNone(flags, args); err != nil {
		return err
	}
	remote := f.endpoint != "" || id != "" || variable("ENDPOINT") != ""
	if remote && (flags.Changed("width") || flags.Changed("height") || secrets != nil) {
		return usagef("--width, --height and --secret are for a desktop that this command starts, and the server's desktop is running")
	}
	in, out := p.lines()
	var err error
	if remote {
		err = p.relayMCP(ctx, f, id, actor, in, out)
	} else {
		err = p.ownMCP(ctx, size, secrets, actor, in, out)
	}
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return nil // a signal ended it
	}
	return err
}

// relayMCP serves a desktop of a running server.
func (p program) relayMCP(ctx context.Context, f clientFlags, id, actor string, in io.ReadCloser, out io.WriteCloser) error {
	server, err := f.server()
	hide(server.Token, p.argv)
	if err != nil {
		return err
	}
	return relay(server, id, actor).Run(ctx, in, out)
}

// relay returns the relay to a desktop of a server.
func relay(server apiclient.Server, id, actor string) computer.Relay {
	at := server.URL.JoinPath("/v1/mcp")
	at.RawQuery, at.Fragment = "", ""
	if id != "" {
		at.RawQuery = url.Values{"desktop": {id}}.Encode()
	}
	header := http.Header{}
	if server.Token != "" {
		header.Set("Authorization", "Bearer "+server.Token)
	}
	if actor != "" {
		header.Set("Deskhand-Actor", actor)
	}
	return computer.Relay{Endpoint: at.String(), Header: header, Version: mcpVersion()}
}

// mcpVersion returns the version in the serverInfo of MCP.
func mcpVersion() string { return strings.TrimPrefix(versionText(), "v") }

// ownMCP starts a server with a desktop and serves that desktop. The server listens on a
// loopback address with a token of its own, and its state is temporary.
func (p program) ownMCP(ctx context.Context, size desktop.Size, given []string, actor string, in io.ReadCloser, out io.WriteCloser) (err error) {
	cfg := httpapi.Config{MaxDesktops: 1, Version: mcpVersion()}
	if err := loadSecrets(given, &cfg); err != nil {
		return err
	}
	if err := unsetSecrets(&cfg); err != nil {
		return err
	}
	// The size at which models need no scaled pictures.
	size = desktop.Size{Width: cmp.Or(size.Width, 1280), Height: cmp.Or(size.Height, 800)}
	unguard, err := guard(nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unguard()) }()
	if cfg.StateDir, err = temporaryState(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, removetree.Remove(cfg.StateDir, time.Now().Add(time.Minute))) }()
	s, err := httpapi.New(cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	ln, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx, ln) }()
	defer func() { cancel(); err = errors.Join(err, <-served) }()
	at := baseURL(ln.Addr())
	server := apiclient.Server{URL: &at, Token: s.Token()}
	if err := p.startSized(ctx, server, size); err != nil {
		return err
	}
	return relay(server, "", actor).Run(ctx, in, out)
}

// temporaryState makes a directory for the state of a server.
func temporaryState() (string, error) {
	base, err := userhome.Temporary()
	if err != nil {
		return "", err
	}
	return os.MkdirTemp(base, "mcp-")
}

// startSized starts the desktop of a server, with the elements of its programs if this machine
// has an accessibility bus.
func (p program) startSized(ctx context.Context, server apiclient.Server, size desktop.Size) error {
	c := apiclient.Command{
		Name: p.name, Document: httpapi.OpenAPI(), Stdout: io.Discard, Stderr: io.Discard,
		Connect: func() (apiclient.Server, error) { return server, nil },
	}
	args := []string{"desktop", "start", "--width", strconv.Itoa(size.Width), "--height", strconv.Itoa(size.Height)}
	if c.Run(ctx, append(args, "--elements")) == nil {
		return nil
	}
	return c.Run(ctx, args)
}

// lines returns standard input and output for a caller that closes both. A read of
// standard input cannot be interrupted, so its goroutine may run until the program
// ends.
func (p program) lines() (io.ReadCloser, io.WriteCloser) {
	r, w := io.Pipe()
	go func() {
		_, err := io.Copy(w, p.stdin)
		_ = w.CloseWithError(err)
	}()
	return r, p.stdout
}
