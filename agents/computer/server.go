package computer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/deskhand/deskhand/desktop"
)

// Desktop is what the tools need of one: a *desktop.Desktop, or something around
// it.
type Desktop interface {
	Status() desktop.Status
	Screenshot(context.Context, desktop.Shot) (*desktop.Screenshot, error)

	Pointer(context.Context) (desktop.Pointer, error)
	Move(context.Context, desktop.Move) (desktop.Pointer, error)
	Click(context.Context, desktop.Click) (desktop.Pointer, error)
	ButtonDown(context.Context, desktop.ButtonPress) (desktop.Pointer, error)
	ButtonUp(context.Context, desktop.ButtonPress) (desktop.Pointer, error)
	Drag(context.Context, desktop.Drag) (desktop.Pointer, error)
	Scroll(context.Context, desktop.Scroll) (desktop.Pointer, error)

	Type(context.Context, desktop.Type) error
	Press(context.Context, desktop.Press) error
	KeyDown(ctx context.Context, key string) error
	KeyUp(ctx context.Context, key string) error

	Clipboard(ctx context.Context, sel desktop.Selection, contentType string) (desktop.Content, error)
	SetClipboard(context.Context, desktop.Content, ...desktop.Selection) error

	Windows(context.Context, desktop.WindowFilter) ([]desktop.Window, error)
	FocusWindow(context.Context, desktop.WindowID) (desktop.Window, error)
	MoveWindow(context.Context, desktop.WindowID, desktop.Point) (desktop.Window, error)
	ResizeWindow(context.Context, desktop.WindowID, desktop.Size) (desktop.Window, error)
	CloseWindow(context.Context, desktop.WindowID) error
	MinimiseWindow(context.Context, desktop.WindowID) (desktop.Window, error)
	MaximiseWindow(ctx context.Context, id desktop.WindowID, on bool) (desktop.Window, error)

	Launch(context.Context, desktop.Launch) (desktop.App, error)
	Open(ctx context.Context, target string) (desktop.App, error)
}

var _ Desktop = (*desktop.Desktop)(nil)

// Config configures the tools. The zero value suits all present models.
type Config struct {
	// MaxEdge is the longest edge of a picture. Zero: 1568, beyond which common
	// models shrink what they are given.
	MaxEdge int

	// MaxPixels is the largest area of a picture. Zero: 1 150 000, likewise.
	MaxPixels int

	// MaxBytes is how large a PNG may be; when it is larger, the picture is sent
	// as JPEG. Zero: 256 KiB. Negative: everything is JPEG.
	MaxBytes int

	// Quality is that of JPEG, 1 to 100. Zero: 80.
	Quality int

	// Settle is for how long the screen must be still before a picture after an
	// action is taken. Zero: 200 ms. Negative: no time.
	Settle time.Duration

	// SettleTimeout is how long that is waited for. Zero: 2 s.
	SettleTimeout time.Duration

	// Actor is in whose name is acted. Zero: an agent named as the MCP client
	// calls itself.
	Actor desktop.Actor

	// Version is what the server calls its version. Empty: "1".
	Version string

	// Logger receives debug messages. Nil: none.
	Logger *slog.Logger
}

func (c Config) withDefaults() (Config, error) {
	for _, f := range []struct {
		name  string
		value *int
		zero  int
		least int
		most  int
	}{
		{"MaxEdge", &c.MaxEdge, 1568, 64, desktop.MaxWidth},
		{"MaxPixels", &c.MaxPixels, 1_150_000, 64 * 64, desktop.MaxWidth * desktop.MaxHeight},
		{"Quality", &c.Quality, 80, 1, 100},
	} {
		if *f.value == 0 {
			*f.value = f.zero
		}
		if *f.value < f.least || *f.value > f.most {
			return c, fmt.Errorf("computer: %s is %d; it must be between %d and %d, or 0 for %d", f.name, *f.value, f.least, f.most, f.zero)
		}
	}
	if c.MaxBytes == 0 {
		c.MaxBytes = 256 << 10
	}
	if c.Settle == 0 {
		c.Settle = 200 * time.Millisecond
	}
	c.Settle = max(c.Settle, 0)
	if c.SettleTimeout == 0 {
		c.SettleTimeout = 2 * time.Second
	}
	if c.SettleTimeout < 0 || c.SettleTimeout > time.Minute {
		return c, fmt.Errorf("computer: SettleTimeout is %v; it must be between 0 and a minute", c.SettleTimeout)
	}
	if c.Version == "" {
		c.Version = "1"
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c, nil
}

// Server is a desktop as an MCP server. It is an http.Handler.
type Server struct {
	cfg  Config
	desk Desktop
	mcp  *mcp.Server
	web  http.Handler

	mu   sync.Mutex // guards what follows
	last desktop.Observation
}

// maxRequest is how large a request may be: a text for the clipboard is the
// largest thing that one has.
const maxRequest = 8 << 20

const instructions = "These tools see and use a graphical desktop. Take a screenshot first. " +
	"Coordinates are [x, y] in pixels of the latest screenshot, from its top left corner; every result tells its size. " +
	"Tools that act answer with a new screenshot; pass screenshot: false to go on without looking, or give several actions to the tool computer at once. " +
	"Zoom in before you read or hit something small."

// NewServer makes an MCP server of a desktop. The error is about the Config.
func NewServer(d Desktop, cfg Config) (*Server, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	s := &Server{cfg: cfg, desk: d}
	s.mcp = mcp.NewServer(&mcp.Implementation{Name: "deskhand", Title: "Desktop", Version: cfg.Version}, &mcp.ServerOptions{
		Instructions: instructions,
		Logger:       cfg.Logger,
		// The list never changes, so nobody needs to wait for it to.
		Capabilities: &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{}},
	})
	for _, t := range tools {
		s.mcp.AddTool(t.describe(), s.called(t.name))
	}
	s.mcp.AddReceivingMiddleware(s.receive)
	s.web = mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s.mcp }, &mcp.StreamableHTTPOptions{
		Stateless:                    true,
		JSONResponse:                 true,
		Logger:                       cfg.Logger,
		MaxRequestBodyBytes:          maxRequest,
		PropagateRequestCancellation: true,
		// It would refuse every proxy on this machine. Who serves this decides
		// who may call, by a token and by Host and Origin.
		DisableLocalhostProtection: true,
	})
	return s, nil
}

// ServeHTTP serves the streamable HTTP transport without sessions: a POST is
// answered with one JSON document, all else with 405. It checks neither tokens
// nor where a request comes from. A call ends with the context of its request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.web.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), requestKey{}, r.Context())))
}

// requestKey is where the context of a call has that of its HTTP request. The SDK
// passes values on, but cancellation only with versions of the protocol from 2026-07-28.
type requestKey struct{}

// withRequest returns a context that also ends with the HTTP request of the call.
func withRequest(ctx context.Context) (_ context.Context, stop func()) {
	r, ok := ctx.Value(requestKey{}).(context.Context)
	if !ok {
		return ctx, func() {}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	release := context.AfterFunc(r, func() { cancel(context.Cause(r)) })
	return ctx, func() { release(); cancel(nil) }
}

// Run serves one client that sends a JSON object per line, until in ends or ctx
// does. Then it closes both, and returns why: nil at the end of in, when what was
// asked is answered or some seconds are over. A line that is no message is
// answered with an error, and all goes on.
func (s *Server) Run(ctx context.Context, in io.ReadCloser, out io.WriteCloser) error {
	return ended(s.mcp.Run(ctx, stdio{in, out}))
}

// ended makes the end of the input none of the errors.
func ended(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// receive stands before the SDK's own handling of requests: it says the present
// size in the list of tools, and knows the names that are not listed.
func (s *Server) receive(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		switch method {
		case "subscriptions/listen":
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "nothing here changes, so there is nothing to listen to"}
		case "tools/list":
			result, err := next(ctx, method, req)
			if list, ok := result.(*mcp.ListToolsResult); ok && err == nil {
				s.tellSize(list)
			}
			return result, err
		case "tools/call":
			call, ok := req.(*mcp.CallToolRequest)
			if ok && !slices.ContainsFunc(tools, func(t tool) bool { return t.name == call.Params.Name }) {
				if _, known := actions[call.Params.Name]; known {
					return s.called(call.Params.Name)(ctx, call)
				}
			}
		}
		// The SDK would answer these methods, although this server has tools only.
		switch family, _, _ := strings.Cut(method, "/"); family {
		case "prompts", "resources", "completion", "logging":
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "this server has tools only, so not " + method}
		}
		return next(ctx, method, req)
	}
}

// sizeMark is replaced by the size of screenshots in descriptions.
const sizeMark = "{size}"

func (s *Server) tellSize(list *mcp.ListToolsResult) {
	size := s.pictureSize()
	told := fmt.Sprintf("%dx%d", size.Width, size.Height)
	list.Tools = slices.Clone(list.Tools)
	for i, t := range list.Tools {
		changed := *t // the server keeps the original
		changed.Description = strings.ReplaceAll(t.Description, sizeMark, told)
		list.Tools[i] = &changed
	}
}

// called is the handler of a tool.
func (s *Server) called(name string) mcp.ToolHandler {
	return func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		ctx, stop := withRequest(desktop.WithActor(ctx, s.actor(ctx, req)))
		defer stop()
		in, err := decode(req.Params.Arguments)
		if err == nil {
			var done outcome
			if done, err = s.do(ctx, name, in); err == nil {
				return s.result(ctx, done, in)
			}
		}
		s.cfg.Logger.Debug("tool failed", "tool", name, "error", err)
		return &mcp.CallToolResult{IsError: true, Content: []mcp.Content{&mcp.TextContent{Text: explain(err)}}}, nil
	}
}

// actor is in whose name a call acts.
func (s *Server) actor(ctx context.Context, req *mcp.CallToolRequest) desktop.Actor {
	if a := desktop.ActorFrom(ctx); a != desktop.ActorFrom(context.Background()) {
		return a
	}
	if s.cfg.Actor != (desktop.Actor{}) {
		return s.cfg.Actor
	}
	a := desktop.Actor{Kind: desktop.ActorAgent, Name: "agent"}
	if req.Session != nil {
		if p := req.Session.InitializeParams(); p != nil && p.ClientInfo != nil && p.ClientInfo.Name != "" {
			a.Name = p.ClientInfo.Name
		}
	}
	return a
}
