package computer

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.opentelemetry.io/otel/trace"

	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/desktop/activity"
	"github.com/deskhand/deskhand/desktop/batch"
	"github.com/deskhand/deskhand/internal/cuttext"
	"github.com/deskhand/deskhand/internal/panics"
)

// Desktop is the desktop of a [Server]: a *desktop.Desktop or a wrapper of one.
type Desktop interface {
	Screen
	Mouse
	Keyboard
	Clipboards
	WindowManager
	Launcher
}

// Screen is the part of a [Desktop] that shows it.
type Screen interface {
	Status() desktop.Status
	Screenshot(context.Context, desktop.ScreenshotOptions) (*desktop.Screenshot, error)
}

// Mouse is the part of a [Desktop] for the pointer.
type Mouse interface {
	Pointer(context.Context) (desktop.Pointer, error)
	batch.Mouse
}

// Keyboard is the part of a [Desktop] for the keyboard.
type Keyboard interface{ batch.Keyboard }

// Clipboards is the part of a [Desktop] for its selections.
type Clipboards interface {
	Clipboard(ctx context.Context, sel desktop.Selection, contentType string) (desktop.Content, error)
	SetClipboard(context.Context, desktop.Content, ...desktop.Selection) error
}

// WindowManager is the part of a [Desktop] for windows.
type WindowManager interface {
	Windows(context.Context, desktop.WindowFilter) ([]desktop.Window, error)
	FocusWindow(context.Context, desktop.WindowID) (desktop.Window, error)
	MoveWindow(context.Context, desktop.WindowID, desktop.Point) (desktop.Window, error)
	ResizeWindow(context.Context, desktop.WindowID, desktop.Size) (desktop.Window, error)
	CloseWindow(context.Context, desktop.WindowID) error
	MinimiseWindow(context.Context, desktop.WindowID) (desktop.Window, error)
	MaximiseWindow(ctx context.Context, id desktop.WindowID, on bool) (desktop.Window, error)
}

// Launcher is the part of a [Desktop] that starts programs.
type Launcher interface {
	Launch(context.Context, desktop.Launch) (desktop.App, error)
	Open(ctx context.Context, target string) (desktop.App, error)
}

var _ Desktop = (*desktop.Desktop)(nil)

// Config configures a [Server]. The zero value suits common models.
type Config struct {
	// MaxEdge bounds the longest edge of a picture: 64 to desktop.MaxWidth. Zero: 1568,
	// since common models shrink larger pictures. Pictures are not shrunk to less than a
	// tenth of the screen's edges.
	MaxEdge int

	// MaxPixels bounds the area of a picture: 4096 or more. Zero: 1 150 000, for the same
	// reason.
	MaxPixels int

	// MaxBytes bounds the size of a PNG. A larger picture is sent as JPEG. Zero: 256 KiB.
	// Negative: all pictures are JPEG.
	MaxBytes int

	// Actor is the actor of all actions. Zero: an agent with the name of the MCP client.
	Actor desktop.Actor

	// Activity finds what others did while an actor did not have control, which the next result
	// for the actor says. Nil: a Tracker of the server's own.
	Activity *activity.Tracker

	// Elements reads and uses the elements of the programs on the desktop. Nil: the tools for
	// elements are missing.
	Elements Elements

	// Browser executes an action of the tool browser, with a JSON object of its arguments, and
	// returns the result as JSON, or nil. Nil: the tool is missing.
	Browser func(ctx context.Context, action string, args json.RawMessage) (json.RawMessage, error)

	// Version is the server's version in the answer to initialize. Empty: "1".
	Version string

	// Tracer makes a span of each call of a tool. Nil: there are no spans.
	Tracer trace.Tracer

	// Logger receives panics and debug messages. Nil: none.
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
	} {
		if *f.value == 0 {
			*f.value = f.zero
		}
		if *f.value < f.least || *f.value > f.most {
			return c, fmt.Errorf("computer: %s is %d; it must be between %d and %d, or 0 for %d", f.name, *f.value, f.least, f.most, f.zero)
		}
	}
	c.MaxBytes = cmp.Or(c.MaxBytes, 256<<10)
	c.Version = cmp.Or(c.Version, "1")
	c.Activity = cmp.Or(c.Activity, &activity.Tracker{})
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	return c, nil
}

// Server is an MCP server of one desktop, and an http.Handler.
type Server struct {
	seat
	mcp *mcp.Server
	web http.Handler
}

// seat performs the actions of models on a desktop, and keeps the observations in which their
// coordinates are.
type seat struct {
	cfg  Config
	desk Desktop

	mu   sync.Mutex // guards the field below
	seen []sight    // of each actor, the latest last; at most maxSights
}

// sight is the last picture that an actor got.
type sight struct {
	by          desktop.Actor
	observation desktop.Observation
}

const maxSights = 64

const instructions = "These tools see and use a graphical desktop. Take a screenshot first. " +
	"Coordinates are [x, y] in pixels of the latest screenshot, from its top left corner; every picture is given with its size. " +
	"Tools that act answer with a new screenshot; pass screenshot: false to go on without looking, or give several actions to the tool computer in one call. " +
	"Zoom in before you read or hit something small."

// NewServer returns an MCP server of a desktop. It does not call the desktop. It returns an
// error if MaxEdge or MaxPixels of cfg is out of its range.
func NewServer(d Desktop, cfg Config) (*Server, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	s := &Server{seat: seat{cfg: cfg, desk: d}}
	s.mcp = mcp.NewServer(&mcp.Implementation{Name: "deskhand", Title: "Desktop", Version: cfg.Version}, &mcp.ServerOptions{
		Instructions: instructions,
		Logger:       cfg.Logger,
		// The list never changes.
		Capabilities: &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{}},
	})
	for _, t := range tools {
		s.mcp.AddTool(t.describe(), s.called(t.name))
	}
	if cfg.Elements != nil {
		for _, t := range elementTools {
			s.mcp.AddTool(t.describe(), s.called(t.name))
		}
	}
	if cfg.Browser != nil {
		s.mcp.AddTool(browserTool.describe(), s.browse)
	}
	s.mcp.AddReceivingMiddleware(s.receive)
	s.web = mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s.mcp }, &mcp.StreamableHTTPOptions{
		Stateless:                    true,
		JSONResponse:                 true,
		Logger:                       cfg.Logger,
		MaxRequestBodyBytes:          maxRequest,
		PropagateRequestCancellation: true,
		// The protection would refuse proxies on this machine. The program that uses this
		// handler checks tokens, Host and Origin.
		DisableLocalhostProtection: true,
	})
	return s, nil
}

// ServeHTTP serves the streamable HTTP transport without sessions: it answers a POST with
// one JSON document, and other methods with 405. A request has one message, of at most 8 MiB,
// or 256 KiB without the arguments of a tool. ServeHTTP answers a larger request with 413, and a
// larger message and a batch with 400: MCP has no batches since 2025-06-18. It checks neither tokens
// nor origins. A call ends with the context of its request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodPost {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRequest))
		if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
			http.Error(w, fmt.Sprintf("the body must have at most %d bytes", maxRequest), http.StatusRequestEntityTooLarge)
			return
		}
		if err == nil {
			err = checkMessage(body)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		r = r.WithContext(context.WithValue(r.Context(), requestKey{}, r.Context()))
		r.Body = io.NopCloser(bytes.NewReader(body))
	}
	s.web.ServeHTTP(w, r)
}

// requestKey is the key for the context of a call's HTTP request. The SDK forwards the values
// of that context, but its cancellation only with versions of the protocol from 2026-07-28.
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

// Run serves one client that sends one JSON object per line, until the end of in or ctx. At
// the end of in it waits up to four seconds for the answers to earlier requests, and
// returns nil. At the end of ctx it returns the error of ctx. It closes in and out. It
// answers a line that is not a message with an error.
func (s *Server) Run(ctx context.Context, in io.ReadCloser, out io.WriteCloser) error {
	return ignoreEOF(s.mcp.Run(ctx, stdio{in, out}))
}

// ignoreEOF returns nil for the end of the input.
func ignoreEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// receive is middleware that puts the current size into the list of tools, and accepts the
// names of all actions as tools.
func (s *Server) receive(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		switch method {
		case "subscriptions/listen":
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "nothing here changes, so there is nothing to listen to"}
		case "tools/list":
			result, err := next(ctx, method, req)
			if list, ok := result.(*mcp.ListToolsResult); ok && err == nil {
				s.fillSize(list)
			}
			return result, err
		case "tools/call":
			if call, ok := req.(*mcp.CallToolRequest); ok {
				return s.call(ctx, call, next)
			}
		}
		// The SDK would answer these methods.
		switch family, _, _ := strings.Cut(method, "/"); family {
		case "prompts", "resources", "completion", "logging":
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "this server has tools only, so not " + method}
		}
		return next(ctx, method, req)
	}
}

// call calls a tool, and answers a panic with an error: the SDK calls it in a goroutine of its own.
func (s *Server) call(ctx context.Context, req *mcp.CallToolRequest, next mcp.MethodHandler) (result mcp.Result, err error) {
	ctx, end := s.beginSpan(ctx, req)
	defer func() { end(result, err) }()
	err = panics.Catch(s.cfg.Logger, "call a tool", func() (err error) {
		result, err = s.callNamed(ctx, req, next)
		return err
	})
	if errors.Is(err, panics.Err) {
		return failed(err), nil
	}
	return result, err
}

// callNamed calls a tool, which can have the name of any action.
func (s *Server) callNamed(ctx context.Context, req *mcp.CallToolRequest, next mcp.MethodHandler) (mcp.Result, error) {
	if !slices.ContainsFunc(tools, func(t tool) bool { return t.name == req.Params.Name }) {
		if _, known := actions[req.Params.Name]; known {
			return s.called(req.Params.Name)(ctx, req)
		}
	}
	return next(ctx, "tools/call", req)
}

// sizeMark stands for the size of screenshots in descriptions.
const sizeMark = "{size}"

func (s *Server) fillSize(list *mcp.ListToolsResult) {
	size := s.pictureSize()
	text := fmt.Sprintf("%dx%d", size.Width, size.Height)
	list.Tools = slices.Clone(list.Tools)
	for i, t := range list.Tools {
		changed := *t // the server keeps the original
		changed.Description = strings.ReplaceAll(t.Description, sizeMark, text)
		list.Tools[i] = &changed
	}
}

func (s *Server) called(name string) mcp.ToolHandler {
	return func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		ctx, stop := withRequest(desktop.WithActor(ctx, s.actor(ctx, req)))
		defer stop()
		in, err := decode(req.Params.Arguments)
		if err == nil && in.WaitControl > 0 {
			wait := min(in.WaitControl, maxControlWait)
			ctx = desktop.WithControlWait(ctx, time.Duration(wait)*time.Millisecond)
		}
		if err == nil {
			var done outcome
			if done, err = s.do(ctx, name, in); err == nil {
				r, err := s.result(ctx, done, in)
				return s.withMeanwhile(ctx, r), err
			}
		}
		s.logFailure(ctx, name, err)
		return s.withMeanwhile(ctx, failed(err)), nil
	}
}

// logFailure logs that a tool has failed. It leaves out the error if a person types, as the error
// may name a key.
func (s *Server) logFailure(ctx context.Context, tool string, err error) {
	if desktop.IsPerson(ctx) {
		s.cfg.Logger.DebugContext(ctx, "tool failed", "tool", tool)
		return
	}
	s.cfg.Logger.DebugContext(ctx, "tool failed", "tool", tool, "error", cuttext.Cut(err.Error(), maxError))
}

// failed returns the result of a call that failed.
func failed(err error) *mcp.CallToolResult {
	return &mcp.CallToolResult{IsError: true, Content: []mcp.Content{&mcp.TextContent{Text: explain(err)}}}
}

// actor returns the actor of a call: that of ctx, or else the Config's. One without a name gets the
// name of its client.
func (s *Server) actor(ctx context.Context, req *mcp.CallToolRequest) desktop.Actor {
	a := desktop.ActorFrom(ctx)
	if a == desktop.ActorFrom(context.Background()) {
		a = cmp.Or(s.cfg.Actor, desktop.Actor{Kind: desktop.ActorAgent})
	}
	a.Name = cmp.Or(a.Name, clientName(req), "agent")
	return a
}

// mostName is how many characters of a client's name count.
const mostName = 64

// clientName returns the name of a call's client, or "".
func clientName(req *mcp.CallToolRequest) string {
	if req.Session == nil {
		return ""
	}
	p := req.Session.InitializeParams()
	if p == nil || p.ClientInfo == nil {
		return ""
	}
	name := []rune(p.ClientInfo.Name[:min(len(p.ClientInfo.Name), utf8.UTFMax*mostName)])
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, string(name[:min(len(name), mostName)])))
}
