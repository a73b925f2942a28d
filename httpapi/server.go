package httpapi

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"

	"go.opentelemetry.io/otel/trace"

	"github.com/deskhand/deskhand/agents/folders"
	"github.com/deskhand/deskhand/agents/registry"
	"github.com/deskhand/deskhand/desktop/fleet"
	"github.com/deskhand/deskhand/filesystem"
	"github.com/deskhand/deskhand/httpapi/internal/acp"
	"github.com/deskhand/deskhand/httpapi/internal/agenthost"
	"github.com/deskhand/deskhand/httpapi/internal/desktops"
	"github.com/deskhand/deskhand/httpapi/internal/files"
	"github.com/deskhand/deskhand/httpapi/internal/grants"
	"github.com/deskhand/deskhand/httpapi/internal/metrics"
	"github.com/deskhand/deskhand/httpapi/internal/processes"
	"github.com/deskhand/deskhand/httpapi/internal/rest"
	"github.com/deskhand/deskhand/internal/supervise"
)

// Server serves the HTTP API. Make one with New.
type Server struct {
	cfg    Config // with defaults
	log    *slog.Logger
	rest   *rest.API
	routes rest.Group
	fleet  *fleet.Fleet
	tokens *grants.Store

	desktops  *desktops.Area
	processes *processes.Area
	files     *filesystem.FS
	reach     *files.Reach
	registry  *registry.Registry
	folders   *folders.Store
	agents    *agenthost.Host
	metrics   *metrics.Metrics
	tracer    trace.Tracer // nil: there are no spans
	acp       *acp.Area

	draining  atomic.Bool
	closeOnce sync.Once
	closeErr  error
}

// ErrClosed is returned by Serve, Mount and Sweep after Close.
var ErrClosed = rest.ErrClosed

// New returns a server, which must be closed. It starts no desktop, process or agent:
// requests and the other methods do. It fails if cfg is not valid, or names a user or a
// root that does not exist.
func New(cfg Config) (_ *Server, err error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	if cfg.users, err = cfg.lookUpUsers(); err != nil {
		return nil, err
	}
	if err := errors.Join(cfg.checkDatabase(), cfg.checkHome(), cfg.checkPrograms()); err != nil {
		return nil, err
	}
	var s *Server
	all, err := fleet.Open(context.Background(), cfg.fleetConfig(func(id string) {
		s.tokens.Forget(id)
	}, func(id string) bool {
		return len(s.agents.Using(context.Background(), id)) > 0
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
	s = &Server{fleet: all, registry: known, folders: trusted, cfg: cfg, log: cfg.Logger, files: files}
	s.metrics, s.tracer = metrics.New(cfg.Version), cfg.tracer()
	s.agents = s.newAgentHost()
	s.tokens = grants.New(grants.Config{StateDir: state, NewestRecording: all.NewestRecording, Log: s.sharedLog(), Logger: cfg.Logger})
	api := cfg.restConfig(s.tokens.Find, s.metrics.Request)
	api.Leaving = s.draining.Load
	if s.rest, err = rest.New(api); err != nil {
		return nil, errors.Join(err, files.Close(), known.Close())
	}
	s.routes = rest.Group{API: s.rest}
	s.register()
	if cfg.also != nil {
		cfg.also(s)
	}
	s.rest.Finish()
	return s, nil
}

// Token returns the bearer token that clients present. It is empty with Config.NoToken.
func (s *Server) Token() string { return s.cfg.Token }

// Metrics returns a handler with the metrics of the server in the format of Prometheus. It
// asks for no token: GET /metrics of the API does.
func (s *Server) Metrics() http.Handler { return s.metrics.Handler() }

// StartDesktop starts main with the default options, unless it runs, and returns what
// Config.Start returned. It blocks until the desktop runs, for at most 45 s, and for up to 60 s
// more while the desktop stops, or until ctx ends; the start then continues. The desktop belongs
// to the server: Close ends it. The error is a *Problem or the error of ctx.
func (s *Server) StartDesktop(ctx context.Context) (fleet.Desktop, error) {
	return s.desktops.Start(ctx, fleet.Main)
}

// Sweep ends the processes that killed servers with the same StateDir left running, waits
// for them, and returns their number. The start of a desktop does that for the desktop
// alone. Sweep also removes the files of desktops whose ids those servers chose, and
// keeps their recordings. It logs files that cannot be removed.
//
// It uses the state directory and returns ErrInUse if another server does, or ErrClosed
// after Close.
func (s *Server) Sweep() (int, error) {
	if err := s.rest.Begin(); err != nil {
		return 0, err
	}
	defer s.rest.Serving.Done()
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
// repair unfinished ones in the background. Without this call, the first request about
// recordings opens them. OpenRecordings returns ErrInUse if it needs the state directory
// and another server uses it.
func (s *Server) OpenRecordings(ctx context.Context) error {
	inst, err := s.fleet.Find(fleet.Main)
	if err == nil {
		_, err = inst.Recordings(ctx)
	}
	return err
}

// OpenMedia opens the port for the live view. Without this call, the first viewer opens
// it.
func (s *Server) OpenMedia() error { return s.fleet.OpenNetwork() }

// Drain prepares the end of the server. GET /readyz answers 503. New sessions, prompts and
// desktops are refused with 503, and other requests are answered; each answer closes its
// connection. Drain waits until agents have ended their turns. It returns the error of ctx if
// that ends first, and agents.ErrClosed if the server is closed meanwhile. Close ends recordings.
func (s *Server) Drain(ctx context.Context) error {
	s.draining.Store(true)
	host := s.agents.Started()
	if host == nil {
		return nil
	}
	return host.Drain(ctx)
}

// Close ends the calls of Serve, every desktop, and every agent and process that was
// started through this server, and waits for them. Further calls wait for the first one
// and return its error.
func (s *Server) Close() error {
	s.closeOnce.Do(func() {
		s.rest.BeginClose()
		s.fleet.StateDir().BeginClose()
		s.rest.AwaitServing()
		s.tokens.Close()
		// Processes that have to be killed take a while, so all end concurrently.
		processes, desktops := make(chan error, 1), make(chan struct{})
		go func() { processes <- s.processes.Close() }()
		go func() {
			defer close(desktops)
			_ = s.fleet.CloseDesktops() // Close returns the error
		}()
		s.closeErr = errors.Join(s.reach.Close(), s.files.Close(), s.agents.Close(), s.registry.Close(), <-processes)
		<-desktops
		s.rest.AwaitParting()
		// The next server may have it now that nothing is written any more.
		s.closeErr = errors.Join(s.closeErr, s.fleet.Close())
	})
	return s.closeErr
}

// Serve answers requests on ln until ctx ends or the server is closed. Then it closes ln,
// ends the event streams, gives other calls two seconds to finish, and returns nil. It
// returns ErrClosed if the server was closed before, or the error with which ln failed.
// It may be called for several listeners.
func (s *Server) Serve(ctx context.Context, ln net.Listener) error {
	return s.rest.Serve(ctx, s.fleet.TCP().Share(ln))
}
