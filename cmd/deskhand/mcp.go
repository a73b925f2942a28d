package main

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/deskhand/deskhand/agents/computer"
	"github.com/deskhand/deskhand/desktop"
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
	flags := p.flags("mcp", mcpAbout)
	f.register(flags)
	flags.StringVar(&id, "desktop", "", "`id` of the server's desktop (default main)")
	flags.StringVar(&actor, "name", "", "actor `name` in events and recordings (default: the MCP client's name)")
	flags.IntVar(&size.Width, "width", 0, "width of the started desktop in `pixels` (default 1280)")
	flags.IntVar(&size.Height, "height", 0, "height of the started desktop in `pixels` (default 800)")
	if err := parseNone(flags, args); err != nil {
		return err
	}
	remote := f.endpoint != "" || id != "" || variable("ENDPOINT") != ""
	if remote && (flags.Changed("width") || flags.Changed("height")) {
		return usagef("--width and --height are for a desktop that this command starts, and the server's desktop is running")
	}
	in, out := p.lines()
	var err error
	if remote {
		err = p.relayMCP(ctx, f, id, actor, in, out)
	} else {
		err = p.ownMCP(ctx, size, actor, in, out)
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
	at := server.URL.JoinPath("/v1/mcp")
	at.RawQuery, at.Fragment = "", ""
	if id != "" {
		at.RawQuery = url.Values{"desktop": {id}}.Encode()
	}
	header := http.Header{}
	if server.Token != "" {
		header.Set("Authorization", "Bearer "+server.Token)
	}
	const actorHeader = "Deskhand-Actor"
	if actor != "" {
		header.Set(actorHeader, actor)
	}
	return computer.Relay{Endpoint: at.String(), Header: header, Version: mcpVersion()}.Run(ctx, in, out)
}

// mcpVersion returns the version in the serverInfo of MCP.
func mcpVersion() string { return strings.TrimPrefix(versionText(), "v") }

// ownMCP starts a desktop and serves it.
func (p program) ownMCP(ctx context.Context, size desktop.Size, actor string, in io.ReadCloser, out io.WriteCloser) (err error) {
	// The size at which models need no scaled pictures.
	if size.Width == 0 {
		size.Width = 1280
	}
	if size.Height == 0 {
		size.Height = 800
	}
	unguard, err := guard(nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unguard()) }()
	d, err := desktop.Start(ctx, desktop.Config{Size: size})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	cfg := computer.Config{Version: mcpVersion()}
	if actor != "" {
		cfg.Actor = desktop.Actor{Kind: desktop.ActorAgent, Name: actor}
	}
	s, err := computer.NewServer(d, cfg)
	if err != nil {
		return err
	}
	return s.Run(ctx, in, out)
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
