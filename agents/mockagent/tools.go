package mockagent

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/deskhand/deskhand/internal/supervise"
)

// connectTime bounds the start of an MCP server, or the first contact to it.
const connectTime = 30 * time.Second

// mcpServer is one entry of a session's mcpServers.
type mcpServer struct {
	Type    string   `json:"type"` // empty: stdio
	Name    string   `json:"name"`
	URL     string   `json:"url"`
	Headers []pair   `json:"headers"`
	Command string   `json:"command"`
	Args    []string `json:"args"`
	Env     []pair   `json:"env"`
}

type pair struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

func (s mcpServer) check() error {
	switch {
	case s.Name == "":
		return rpcErrorf(codeInvalidParams, "an entry of mcpServers has no name")
	case s.Type == "http" && s.URL == "":
		return rpcErrorf(codeInvalidParams, "mcpServers entry %q has no url", s.Name)
	case s.Type == "" && s.Command == "":
		return rpcErrorf(codeInvalidParams, "mcpServers entry %q has no command", s.Name)
	case s.Type != "http" && s.Type != "" && s.Type != "stdio":
		return rpcErrorf(codeInvalidParams, `mcpServers entry %q has type %q; this agent can use "http" and stdio, as initialize says`, s.Name, s.Type)
	}
	return nil
}

// toolbox holds a session's MCP servers. It connects to them when a prompt first calls a
// tool, and stays connected.
type toolbox struct {
	env []string // of servers that it starts

	mu      sync.Mutex
	servers []mcpServer
	open    map[string]*connection // by name
}

// set replaces the servers.
func (b *toolbox) set(servers []mcpServer) {
	b.close()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.servers = servers
}

func (b *toolbox) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range b.open {
		c.close()
	}
	b.open = nil
}

// call calls a tool of the first server that has it. There is at least one server.
func (b *toolbox) call(ctx context.Context, name string, args json.RawMessage, meta mcp.Meta) (*mcp.CallToolResult, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var names []string
	var failed error
	for _, s := range b.servers {
		c, err := b.connect(ctx, s)
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("MCP server %q: %w", s.Name, err))
			continue
		}
		for tool, err := range c.session.Tools(ctx, nil) {
			if err != nil {
				failed = errors.Join(failed, fmt.Errorf("MCP server %q: list its tools: %w", s.Name, err))
				b.drop(s.Name)
				break
			}
			names = append(names, tool.Name)
			if tool.Name != name {
				continue
			}
			result, err := c.session.CallTool(ctx, &mcp.CallToolParams{Meta: meta, Name: name, Arguments: args})
			if err != nil {
				b.drop(s.Name) // the next call begins anew
				return nil, fmt.Errorf("MCP server %q: %w", s.Name, err)
			}
			return result, nil
		}
	}
	if failed != nil {
		return nil, failed
	}
	return nil, fmt.Errorf("no mounted MCP server has a tool %q; there are %s", name, strings.Join(names, ", "))
}

// connect returns the connection to a server. The caller holds b.mu.
func (b *toolbox) connect(ctx context.Context, s mcpServer) (*connection, error) {
	if c, ok := b.open[s.Name]; ok {
		return c, nil
	}
	ctx, cancel := context.WithTimeout(ctx, connectTime)
	defer cancel()
	c := new(connection)
	transport, err := c.transport(s, b.env)
	if err == nil {
		client := mcp.NewClient(&mcp.Implementation{Name: "mock-agent", Version: "1"}, &mcp.ClientOptions{Capabilities: &mcp.ClientCapabilities{}})
		c.session, err = client.Connect(ctx, transport, nil)
	}
	if err != nil {
		c.close()
		if c.child != nil {
			err = fmt.Errorf("%w; it wrote %q", err, c.child.Tail())
		}
		return nil, err
	}
	if b.open == nil {
		b.open = make(map[string]*connection)
	}
	b.open[s.Name] = c
	return c, nil
}

func (b *toolbox) drop(name string) {
	b.open[name].close()
	delete(b.open, name)
}

// connection is a connection to an MCP server and, for stdio, the server's process.
type connection struct {
	session *mcp.ClientSession
	group   *supervise.Group
	child   *supervise.Child
	pipes   []*os.File
}

func (c *connection) transport(s mcpServer, base []string) (mcp.Transport, error) {
	if s.Type == "http" {
		web := &http.Transport{Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true} // so that none stay open
		return &mcp.StreamableClientTransport{
			Endpoint: s.URL, MaxRetries: -1, DisableStandaloneSSE: true,
			HTTPClient: &http.Client{Transport: withHeaders{web, s.Headers}, CheckRedirect: func(*http.Request, []*http.Request) error {
				return http.ErrUseLastResponse // the headers may be secret
			}},
		}, nil
	}
	var err error
	if c.group, err = supervise.NewGroup(supervise.GroupConfig{Owner: "system"}); err != nil {
		return nil, err
	}
	env := make([]string, 0, len(s.Env))
	for _, p := range s.Env {
		env = append(env, p.Name+"="+p.Value)
	}
	child, in, out, err := c.group.StartPiped(supervise.Spec{
		Name: filepath.Base(s.Command), Path: s.Command, Args: s.Args, Env: supervise.Environ(base, env...),
	})
	if err != nil {
		return nil, err
	}
	c.child, c.pipes = child, []*os.File{in, out}
	return &mcp.IOTransport{Reader: out, Writer: in}, nil
}

// close ends the connection.
func (c *connection) close() {
	if c.session != nil {
		_ = c.session.Close()
	}
	for _, p := range c.pipes {
		_ = p.Close()
	}
	if c.group != nil {
		_ = c.group.Close()
	}
}

// withHeaders adds an entry's headers to every request.
type withHeaders struct {
	base    http.RoundTripper
	headers []pair
}

func (t withHeaders) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	for _, h := range t.headers {
		r.Header.Set(h.Name, h.Value)
	}
	return t.base.RoundTrip(r)
}

// tool calls a tool and sends updates about the call.
func (t *turn) tool(ctx context.Context, rest string) (string, error) {
	name, args, _ := strings.Cut(rest, " ")
	if args = strings.TrimSpace(args); args == "" {
		args = "{}"
	}
	if name == "" || !json.Valid([]byte(args)) {
		return "", rpcErrorf(codeInvalidParams, "tool %s: say the tool's name and then its arguments as a JSON object", rest)
	}
	if t.s.tools.none() {
		return t.echo(ctx, rest)
	}
	id := t.call(update{Title: name, ToolKind: "other", Status: "in_progress", RawInput: json.RawMessage(args)})
	answer, err := t.callTool(ctx, id, name, args)
	if err != nil {
		t.say("The tool could not be called: " + err.Error())
		return stopEnd, nil //nolint:nilerr // the agent told it
	}
	t.say(answer)
	return stopEnd, nil
}

// callTool calls a tool for an announced tool call, and sends its end. It describes the
// result.
func (t *turn) callTool(ctx context.Context, id, name, args string) (answer string, err error) {
	t.a.out.flush()
	result, err := t.s.tools.call(ctx, name, json.RawMessage(args), t.trace.meta())
	if err != nil {
		t.endCall(id, "failed", content(textBlock(err.Error())))
		return "", err
	}
	var shown []any
	texts, images := []string{}, 0
	for _, c := range result.Content {
		switch c := c.(type) {
		case *mcp.TextContent:
			shown = append(shown, content(textBlock(c.Text)))
			texts = append(texts, c.Text)
		case *mcp.ImageContent:
			shown = append(shown, content(block{Type: "image", Data: base64.StdEncoding.EncodeToString(c.Data), MimeType: c.MIMEType}))
			images++
		}
	}
	status := "completed"
	if result.IsError {
		status = "failed"
	}
	t.endCall(id, status, shown...)
	return fmt.Sprintf("%s %s with %d image(s): %s", name, status, images, strings.Join(texts, "\n")), nil
}

// desktop looks at the desktop, asks, and clicks.
func (t *turn) desktop(ctx context.Context, rest string) (string, error) {
	x, y := 200, 150
	if _, err := fmt.Sscan(rest, &x, &y); rest != "" && err != nil {
		return "", rpcErrorf(codeInvalidParams, "desktop %s: say the coordinates of the click, such as desktop 200 150", rest)
	}
	if t.s.tools.none() {
		t.say("This session has no desktop.")
		return stopEnd, nil
	}
	t.say("I will look at the desktop, and then click.")
	id := t.call(update{Title: "screenshot", ToolKind: "read", Status: "in_progress", RawInput: json.RawMessage("{}")})
	if _, err := t.callTool(ctx, id, "screenshot", "{}"); err != nil {
		t.say("I have no desktop: " + err.Error())
		return stopEnd, nil //nolint:nilerr // the agent told it
	}
	args := fmt.Sprintf(`{"coordinate":[%d,%d]}`, x, y)
	id = t.call(update{Title: "click", ToolKind: "other", Status: "pending", RawInput: json.RawMessage(args)})
	kind, err := t.askPermission(ctx,
		map[string]any{"toolCallId": id, "title": fmt.Sprintf("Click at %d, %d", x, y), "kind": "other", "status": "pending", "rawInput": json.RawMessage(args)},
		option{"once", "Allow", "allow_once"}, option{"no", "Reject", "reject_once"})
	switch {
	case err != nil:
		t.endCall(id, "failed")
		return "", err
	case kind == "":
		t.endCall(id, "failed")
		return stopCancelled, nil
	case kind != "allow_once":
		t.endCall(id, "failed", content(textBlock("The user refused.")))
		t.say("I was not allowed to click.")
		return stopEnd, nil
	}
	answer, err := t.callTool(ctx, id, "click", args)
	if err != nil {
		answer = "The tool could not be called: " + err.Error()
	}
	t.say(answer)
	return stopEnd, nil
}

func (b *toolbox) none() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.servers) == 0
}
