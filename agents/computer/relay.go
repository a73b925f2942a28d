package computer

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Relay serves one client on stdio with the tools of a [Server] at an HTTP endpoint, under the
// client's name. It is for agents that start MCP servers but do not connect to them.
type Relay struct {
	// Endpoint is the URL of the other server.
	Endpoint string

	// Header is sent with every request. It has the token.
	Header http.Header

	// Version is the version in serverInfo. Empty: "1".
	Version string
}

// Run is like [Server.Run]. It connects to the other server at the first request about
// tools. If that server cannot be reached, the result of a call is an error, and the next
// request tries again. Run does not return that error.
func (r Relay) Run(ctx context.Context, in io.ReadCloser, out io.WriteCloser) error {
	base := &http.Transport{Proxy: http.ProxyFromEnvironment}
	defer base.CloseIdleConnections()
	p := &peer{relay: r, base: base}
	defer p.close()
	s := mcp.NewServer(&mcp.Implementation{Name: "deskhand", Title: "Desktop", Version: cmp.Or(r.Version, "1")}, &mcp.ServerOptions{
		Instructions: instructions,
		Capabilities: &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{}},
	})
	s.AddReceivingMiddleware(p.receive)
	return ignoreEOF(s.Run(ctx, stdio{in, out}))
}

// Codes of the SDK's errors about the connection (its internal/jsonrpc2, wire.go). All
// other codes are from the other server.
const (
	firstOwnCode = -32003 // "client is closing"
	lastOwnCode  = -32005 // "rejected by transport"
)

type peer struct {
	relay Relay
	base  *http.Transport

	mu      sync.Mutex // guards the fields below
	session *mcp.ClientSession
}

// receive is middleware that forwards requests about tools.
func (p *peer) receive(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		switch method {
		case "tools/list", "tools/call":
		default:
			return next(ctx, method, req)
		}
		session, err := p.connect(ctx, req)
		if err == nil {
			var result mcp.Result
			if result, err = forward(ctx, session, req); err == nil {
				return result, nil
			}
			if failure, ok := errors.AsType[*jsonrpc.Error](err); ok && (failure.Code < lastOwnCode || failure.Code > firstOwnCode) {
				return nil, failure
			}
			p.drop(session) // the next call connects again
		}
		if method == "tools/call" {
			text := fmt.Sprintf("The desktop's server did not answer: %v. It is unknown whether the action took place. Wait and take a screenshot, or tell the user.", err)
			return &mcp.CallToolResult{IsError: true, Content: []mcp.Content{&mcp.TextContent{Text: text}}}, nil
		}
		return nil, fmt.Errorf("the desktop's server at %s did not answer: %w", p.relay.Endpoint, err)
	}
}

func forward(ctx context.Context, to *mcp.ClientSession, req mcp.Request) (mcp.Result, error) {
	switch req := req.(type) {
	case *mcp.ListToolsRequest:
		p := &mcp.ListToolsParams{}
		if req.Params != nil { // they are optional
			p.Cursor = req.Params.Cursor
		}
		return to.ListTools(ctx, p)
	case *mcp.CallToolRequest:
		arguments := req.Params.Arguments
		if len(arguments) == 0 {
			arguments = json.RawMessage("{}")
		}
		return to.CallTool(ctx, &mcp.CallToolParams{Meta: traceContext(req.Params.Meta), Name: req.Params.Name, Arguments: arguments})
	}
	return nil, fmt.Errorf("a request of type %T", req)
}

// connect returns the connection to the other server.
func (p *peer) connect(ctx context.Context, req mcp.Request) (*mcp.ClientSession, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.session != nil {
		return p.session, nil
	}
	name := "agent"
	if s, ok := req.GetSession().(*mcp.ServerSession); ok {
		if i := s.InitializeParams(); i != nil && i.ClientInfo != nil && i.ClientInfo.Name != "" {
			name = i.ClientInfo.Name
		}
	}
	c := mcp.NewClient(&mcp.Implementation{Name: name, Version: "1"}, &mcp.ClientOptions{Capabilities: &mcp.ClientCapabilities{}})
	session, err := c.Connect(ctx, &mcp.StreamableClientTransport{
		Endpoint: p.relay.Endpoint, MaxRetries: -1, DisableStandaloneSSE: true,
		HTTPClient: &http.Client{Transport: sending{p.base, p.relay.Header}, CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse // only that server may get the token
		}},
	}, nil)
	if err != nil {
		return nil, err
	}
	p.session = session
	return session, nil
}

func (p *peer) drop(session *mcp.ClientSession) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.session == session {
		p.session = nil
	}
	_ = session.Close()
}

func (p *peer) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.session != nil {
		_ = p.session.Close()
	}
}

// sending adds headers to every request.
type sending struct {
	base   http.RoundTripper
	header http.Header
}

func (t sending) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	for name, values := range t.header {
		r.Header[http.CanonicalHeaderKey(name)] = values
	}
	resp, err := t.base.RoundTrip(r)
	if err != nil || r.Method != http.MethodPost || resp.StatusCode < http.StatusBadRequest {
		return resp, err
	}
	// The SDK's error would have the status only.
	var problem struct {
		Detail string `json:"detail"`
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxProblem))
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		return nil, err
	}
	if json.Unmarshal(text, &problem) == nil && problem.Detail != "" {
		return nil, errors.New(problem.Detail)
	}
	resp.Body = io.NopCloser(bytes.NewReader(text))
	return resp, nil
}

// maxProblem bounds an error's body.
const maxProblem = 64 << 10
