package httpapi

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"

	"github.com/deskhand/deskhand/agents"
	"github.com/deskhand/deskhand/agents/folders"
	"github.com/deskhand/deskhand/agents/registry"
	"github.com/deskhand/deskhand/desktop/fleet"
	"github.com/deskhand/deskhand/filesystem"
	"github.com/deskhand/deskhand/httpapi/internal/grants"
	"github.com/deskhand/deskhand/internal/supervise"
)

// Server is the HTTP API. Its methods may be called from any goroutine.
type Server struct {
	cfg       Config // with defaults
	log       *slog.Logger
	gate      gate
	app       *fiber.App
	api       huma.API
	answer    fasthttp.RequestHandler
	fleet     *fleet.Fleet
	processes *processes
	tokens    *grants.Store
	mcp       mcpServers

	files       *filesystem.FS
	registry    *registry.Registry
	folders     *folders.Store
	agents      *agentHost
	connections connections
	limits      *connLimits
	refusals    refusals
	patience    time.Duration // how long a client may neither send nor accept anything
	handler     func() http.Handler

	// agentServers tells of each agent that has servers whether one runs, and
	// since when the oldest does. Nil: none ever has.
	agentServers func(context.Context) map[string]agents.AgentStatus

	quiet     *time.Timer  // nil: nobody wants to know
	streams   atomic.Int32 // event streams that are open
	mounted   sockets      // WebSockets that came through Mount
	bodies    *bodyMemory  // of requests
	answers   *bodyMemory
	closeOnce sync.Once
	closeErr  error
	guests    chan struct{}  // has an element for each request in guestPlaces
	closing   chan struct{}  // closed when Close begins
	serving   sync.WaitGroup // calls of Serve, and what Handler started

	mu       sync.Mutex // guards what follows, and serving's Add against Close's Wait
	closed   bool
	localURL string            // at which programs on this machine reach the server; empty: none
	parting  []<-chan struct{} // each closed when the handlers of a Serve have ended
}

// ErrClosed is returned by Serve and Mount after Close.
var ErrClosed = errors.New("server is closed")

// New makes a server. It starts nothing; that is left to clients.
func New(cfg Config) (_ *Server, err error) {
	cfg = cfg.withDefaults()
	if err := cmp.Or(cfg.validate(), cfg.limitConnections()); err != nil {
		return nil, err
	}
	if cfg.users, err = cfg.lookUpUsers(); err != nil {
		return nil, err
	}
	if err := cfg.checkDatabase(); err != nil {
		return nil, err
	}
	var s *Server
	all, err := fleet.Open(context.Background(), cfg.fleetConfig(func(id string) {
		s.tokens.Forget(id)
	}))
	if err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, all.Close())
		}
	}()
	state := all.StateDir()
	if cfg.Token == "" && !cfg.NoToken {
		cfg.Token = rand.Text()
	}
	files, err := openFiles(cfg)
	if err != nil {
		return nil, err
	}
	trusted, err := openFolders(cfg, state)
	if err != nil {
		return nil, errors.Join(err, files.Close())
	}
	known, err := newRegistry(cfg, state)
	if err != nil {
		return nil, errors.Join(err, files.Close())
	}
	s = &Server{
		fleet: all, registry: known, folders: trusted, cfg: cfg, log: cfg.Logger, limits: newConnLimits(cfg), gate: newGate(cfg), files: files,
		patience: slowClient, closing: make(chan struct{}), guests: make(chan struct{}, guestPlaces),
	}
	s.handler = sync.OnceValue(s.newHandler)
	s.processes = &processes{cfg: cfg, stateDir: state}
	s.agents = &agentHost{cfg: cfg, stateDir: state, folders: trusted, registry: s.registry, early: earlyHeaders, beat: whiteSpace}
	s.agentServers = s.agents.serversOf
	s.agents.mount, s.agents.find = s.mount, s.findDesktop
	s.tokens = grants.New(grants.Config{StateDir: state, NewestRecording: all.NewestRecording, Logger: cfg.Logger})
	if cfg.Quiet != nil {
		s.quiet = time.AfterFunc(quietTime, cfg.Quiet)
	}
	s.app = fiber.New(fiber.Config{
		Immutable:     true, // huma keeps strings beyond the request
		StrictRouting: true,
		CaseSensitive: true,
		ErrorHandler:  s.answerError,
	})
	s.app.Use(s.enter, s.guard)
	s.bodies, s.answers = newBodyMemory(cfg), newBodyMemory(cfg)
	s.api = huma.NewAPI(apiConfig(), &adapter{app: s.app, bodies: s.bodies, answers: s.answers, http: s.Handler})
	s.api.UseMiddleware(s.authenticate, s.awaitPlace, s.checkQuery)
	s.register()
	if cfg.also != nil {
		cfg.also(s)
	}
	s.finishDocument()
	s.dropAnswers()
	s.answer = s.known(s.app.Handler())
	return s, nil
}

// Token is what clients present as a bearer token; empty when everybody is let
// in.
func (s *Server) Token() string { return s.cfg.Token }

// StartDesktop starts main with the default options, as a client's request
// would, unless it runs. It belongs to the server: Close ends it.
func (s *Server) StartDesktop(ctx context.Context) (Desktop, error) {
	return s.startInstance(ctx, mainDesktop)
}

// Sweep ends what killed servers with the same StateDir left running, and
// returns how many processes that were. A desktop's start does that for the
// desktop alone. It also removes the files of desktops whose ids those servers
// chose, as they would have been removed at the servers' end, but keeps their
// recordings; what cannot be removed is logged.
func (s *Server) Sweep() (int, error) {
	if err := s.begin(); err != nil {
		return 0, err
	}
	defer s.serving.Done()
	dir, err := s.fleet.StateDir().Claim()
	switch {
	case errors.Is(err, fleet.ErrClosed):
		return 0, ErrClosed
	case err != nil:
		return 0, err
	}
	total, errs := 0, []error(nil)
	for _, sweep := range []func() (int, error){
		func() (int, error) { return supervise.Sweep(processDir(dir), s.log) },
		func() (int, error) { return supervise.Sweep(agentProcesses(dir), s.log) },
		s.fleet.Sweep,
	} {
		n, err := sweep()
		total += n
		errs = append(errs, err)
	}
	return total, errors.Join(errs...)
}

// OpenRecordings opens the recordings of main that earlier servers made, and begins to
// repair unfinished ones. The first request about recordings does so otherwise.
func (s *Server) OpenRecordings(ctx context.Context) error {
	inst, err := s.fleet.Find(mainDesktop)
	if err == nil {
		_, err = inst.Recordings(ctx)
	}
	return err
}

// OpenMedia opens the port for the live view. The first viewer does so otherwise.
func (s *Server) OpenMedia() error { return s.fleet.OpenNetwork() }

// Close ends the calls of Serve, every desktop and every process that was
// started through this server, and waits for that. It may be called more than once.
func (s *Server) Close() error {
	s.closeOnce.Do(func() {
		s.mu.Lock()
		s.closed = true
		s.mu.Unlock()
		close(s.closing)
		s.fleet.StateDir().BeginClose()
		s.serving.Wait()
		s.mounted.wait()
		s.tokens.Close()
		if s.quiet != nil {
			s.quiet.Stop()
		}
		// What has to be killed takes a while, so all end at once.
		processes, desktops := make(chan error, 1), make(chan error, 1)
		go func() { processes <- s.processes.close() }()
		go func() { desktops <- s.fleet.CloseDesktops() }()
		s.closeErr = errors.Join(s.files.Close(), s.agents.close(), s.registry.Close(), <-processes)
		<-desktops // Close returns the error
		s.awaitParting()
		// The next server may have it now that nothing is written any more.
		s.closeErr = errors.Join(s.closeErr, s.fleet.Close())
	})
	return s.closeErr
}

// part has Close wait a moment until none is closed.
func (s *Server) part(none <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.parting = append(slices.DeleteFunc(s.parting, isOver), none)
}

func isOver(none <-chan struct{}) bool {
	select {
	case <-none:
		return true
	default:
		return false
	}
}

// awaitParting waits for handlers whose connections were closed.
func (s *Server) awaitParting() {
	s.mu.Lock()
	parting := s.parting
	s.mu.Unlock()
	limit := time.NewTimer(partTime)
	defer limit.Stop()
	for _, none := range parting {
		select {
		case <-none:
		case <-limit.C:
			return
		}
	}
}

// begin counts one more use of the server that Close waits for.
func (s *Server) begin() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return ErrClosed
	}
	s.serving.Add(1)
	return nil
}

const (
	// graceTime is what calls under way get to finish when Serve ends.
	graceTime = 2 * time.Second
	// partTime is what they get to notice that their connections are closed, and
	// that what they waited for has ended.
	partTime = time.Second
	// readTime is what a client may take to send a request.
	readTime = time.Minute
	idleTime = 2 * time.Minute
	// prefetch is how much of a body is read before a handler runs.
	prefetch   = 64 << 10
	headerSize = 16 << 10
)

// Serve answers requests on ln until ctx ends or the server is closed, then
// closes ln, ends the event streams, gives other calls two seconds to finish and
// returns nil. Its error says why ln could not be served.
func (s *Server) Serve(ctx context.Context, ln net.Listener) error {
	if err := s.begin(); err != nil {
		return err
	}
	defer s.serving.Done()
	s.reachable(ln.Addr())
	e := &entry{loopback: loopback(ln.Addr()), ending: make(chan struct{}), sockets: &sockets{limits: s.limits}}
	defer e.sockets.wait()
	srv := s.newFastHTTP(e)
	open := conns{limits: s.limits}
	srv.ConnState = open.track
	var refusals sync.WaitGroup
	defer func() { s.limits.closeRefused(); refusals.Wait() }()
	limited := &limitedListener{s.fleet.TCP().Share(ln), s.limits, e.ending, &refusals}
	failed := make(chan error, 1)
	go func() { failed <- srv.Serve(limited) }()
	select {
	case err := <-failed:
		close(e.ending)
		s.part(open.closeAll())
		return fmt.Errorf("serve %s: %w", ln.Addr(), err)
	case <-ctx.Done():
	case <-s.closing:
	}
	close(e.ending)
	grace, cancel := context.WithTimeout(context.Background(), graceTime)
	defer cancel()
	_ = srv.ShutdownWithContext(grace) // its error is that the time was over
	s.part(open.closeAll())
	// When the end came before fasthttp had the listener, nobody has closed it.
	_ = ln.Close()
	if err := <-failed; err != nil && !errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("serve %s: %w", ln.Addr(), err)
	}
	return nil
}

func (s *Server) newFastHTTP(e *entry) *fasthttp.Server {
	return &fasthttp.Server{
		Handler: func(rc *fasthttp.RequestCtx) {
			rc.SetUserValue(entryKey{}, e)
			s.answer(rc)
		},
		ErrorHandler:                 s.answerMalformed,
		StreamRequestBody:            true,
		DisablePreParseMultipartForm: true,
		MaxRequestBodySize:           prefetch,
		ReadBufferSize:               headerSize,
		ReadTimeout:                  readTime,
		IdleTimeout:                  idleTime,
		NoDefaultServerHeader:        true,
		NoDefaultContentType:         true,
		CloseOnShutdown:              true,
		Logger:                       discard{},
	}
}

// known answers requests whose method fiber does not know itself.
func (s *Server) known(next fasthttp.RequestHandler) fasthttp.RequestHandler {
	return func(rc *fasthttp.RequestCtx) {
		if slices.Contains(fiber.DefaultMethods, string(rc.Method())) {
			next(rc)
			return
		}
		answerRaw(rc, methodUnknown.problem("invalid request: no route has a method of that name"))
	}
}

// discard is for fasthttp's own messages: all that it says is also in answers
// or on the connection.
type discard struct{}

func (discard) Printf(string, ...any) {}

// entry is the way by which requests come in.
type entry struct {
	loopback bool          // only programs on this machine come this way
	proxied  bool          // it is the inside of Handler
	ending   chan struct{} // closed when streams have to end
	sockets  *sockets      // those that came this way
}

type entryKey struct{}

// entryOf is the way by which a request came.
func (s *Server) entryOf(rc *fasthttp.RequestCtx) *entry {
	if e, ok := rc.UserValue(entryKey{}).(*entry); ok {
		return e
	}
	return &entry{loopback: loopback(rc.LocalAddr()), ending: s.closing, sockets: &s.mounted}
}

func loopback(a net.Addr) bool {
	switch a := a.(type) {
	case *net.TCPAddr:
		return a.IP.IsLoopback()
	case *net.UnixAddr:
		return false // browsers cannot reach it
	default:
		return false
	}
}

// conns are a server's open connections.
type conns struct {
	limits *connLimits // nil: none

	mu   sync.Mutex
	open map[net.Conn]struct{}
	none chan struct{} // closed when open gets empty; nil: nobody waits
}

func (c *conns) track(conn net.Conn, state fasthttp.ConnState) {
	if state == fasthttp.StateClosed {
		c.limits.release(conn)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch state {
	case fasthttp.StateNew:
		if c.open == nil {
			c.open = map[net.Conn]struct{}{}
		}
		c.open[conn] = struct{}{}
	case fasthttp.StateClosed, fasthttp.StateHijacked:
		delete(c.open, conn)
		if len(c.open) == 0 && c.none != nil {
			close(c.none)
			c.none = nil
		}
	case fasthttp.StateActive, fasthttp.StateIdle:
	}
}

// closeAll ends every connection. Handlers that still run find theirs closed;
// none is closed when there is no such handler any more.
func (c *conns) closeAll() (none <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	over := make(chan struct{})
	if len(c.open) == 0 {
		close(over)
		return over
	}
	for conn := range c.open {
		_ = conn.Close()
	}
	c.none = over
	return over
}
