package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/url"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/deskhand/deskhand/httpapi"
	"github.com/deskhand/deskhand/internal/supervise"
)

const aboutServer = `Serves desktops over HTTP until SIGINT, SIGTERM or SIGHUP, then ends everything
that it started. Prints one line with its URL when it is ready, as JSON with
--log-format json.

Without --token, --token-file or --no-token it makes a token and prints it. The
variables DESKHAND_HOST, _PORT, _TOKEN, _TOKEN_FILE, _LOG_FORMAT and _LOG_LEVEL
replace flags that are not given. SANDBOX_AGENT_HOST, _PORT, _TOKEN and
_TOKEN_FILE work too. A socket that systemd passes replaces --host and --port.`

func (p program) server(ctx context.Context, access accessFlags, args []string) (err error) {
	f := serverFlags{accessFlags: access}
	flags := p.flags("server", aboutServer)
	f.register(flags)
	if err := parse(flags, args); err != nil {
		return err
	}
	defer func() { err = p.logEnd(&f, err) }()
	if flags.NArg() > 0 {
		return usagef("server takes no argument, so not %q", flags.Arg(0))
	}
	if err := f.environment(flags); err != nil {
		return err
	}
	if err := keepLock(); err != nil {
		return err
	}
	if f.socket, err = passedSocket(f.address()); err != nil {
		return err
	}
	if f.socket != nil {
		defer f.socket.Close()
	}
	home, err := useHome()
	if err != nil {
		return err
	}
	cfg, err := f.config()
	if err != nil {
		return err
	}
	if self, err := os.Executable(); err == nil {
		cfg.AgentRelay = []string{self, "mcp"}
	}
	if err := f.onHost.prepare(p, f.noToken, &cfg); err != nil {
		return err
	}
	// The server listens before anything that takes time, so that early clients wait
	// in the listener's queue. A server that gets no port leaves no trace.
	ln, err := f.listen(ctx)
	if err != nil {
		return err
	}
	defer ln.Close()
	metrics, err := f.listenMetrics(ctx)
	if err != nil {
		return err
	}
	hide(cfg.Token, p.argv)
	if strings.Contains(cfg.EventLog.DSN, "://") { // it may hold a password
		hide(cfg.EventLog.DSN, p.argv)
	}
	for _, server := range cfg.Media.ICEServers {
		hide(server.Credential, p.argv)
	}
	log, closeLog, err := f.logger(p.stderr)
	if err != nil {
		return err
	}
	defer closeLog()
	cfg.Logger, cfg.Version = log, mcpVersion()
	endTraces, err := f.startTraces(ctx, &cfg, log)
	if err != nil {
		return err
	}
	defer endTraces()
	if home != "" {
		log.Warn("HOME cannot be written to; a temporary home is used, and its files are lost with it", "home", home)
	}
	if err := reserveNames(); err != nil {
		return err
	}
	if err := nameUser(); err != nil {
		log.Warn("some programs need a user with a name", "error", err)
	}
	at := baseURL(ln.Addr())
	defer publishAddress(at.String(), log)()
	supervise.ReserveThreads()
	limitMemory()
	unguard, err := guard(log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unguard()) }()
	cfg.Quiet = giveMemoryBack
	s, err := httpapi.New(cfg)
	if err != nil {
		return usagef("%s", err)
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	defer serveMetrics(metrics, s.Metrics(), log)()
	return f.onHost.run(ctx, func(ctx context.Context) error { return p.serve(ctx, s, ln, f, cfg.Token != "", log) })
}

// limitMemory makes the garbage collector work harder before this program uses half of the
// memory that it shares with its children. The variable GOMEMLIMIT replaces the limit.
func limitMemory() {
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(supervise.MemoryLimit() / 2)
	}
}

// giveMemoryBack returns unused memory to the system, which Go would keep for
// minutes. The contents of a sync.Pool survive the first collection.
func giveMemoryBack() {
	runtime.GC()
	debug.FreeOSMemory()
}

// guard starts a guardian, which ends the children when this program ends. unguard
// ends the guardian. Process 1 needs none: at its end the kernel ends all others.
func guard(log *slog.Logger) (unguard func() error, err error) {
	if os.Getpid() == 1 {
		return func() error { return nil }, nil
	}
	g, err := supervise.StartGuardian(log)
	if err != nil {
		return nil, err
	}
	return g.Close, nil
}

// serve runs the server on ln until ctx ends. It prints the token unless tokenKnown.
func (p program) serve(ctx context.Context, s *httpapi.Server, ln net.Listener, f serverFlags, tokenKnown bool, log *slog.Logger) error {
	signaled := ctx
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	defer context.AfterFunc(signaled, func() {
		drain(s, f.drainTimeout, log)
		cancel(context.Cause(signaled))
	})()
	if os.Getpid() == 1 {
		reaped := make(chan struct{})
		go func() {
			defer close(reaped)
			if err := supervise.Reap(ctx); err != nil {
				log.Error("reap", "error", err)
			}
		}()
		defer func() { cancel(nil); <-reaped }()
	}
	if err := openMedia(s, f); err != nil {
		return err
	}
	// Close begins immediately, so that the next server knows that this server is closing. The
	// caller's Close returns the error.
	defer context.AfterFunc(ctx, func() { _ = s.Close() })()
	if err := openState(ctx, s, log); err != nil {
		return err
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx, ln) }()
	at := baseURL(ln.Addr())
	if err := p.startDesktop(ctx, s, f, log); err != nil {
		cancel(err)
		return errors.Join(err, <-served)
	}
	if ctx.Err() == nil {
		p.announce(at, s, tokenKnown, f, log)
	}
	if err := <-served; !errors.Is(err, httpapi.ErrClosed) {
		return err
	}
	return nil // ctx ended before Serve
}

// drain lets agents end their turns. A second signal ends the program meanwhile.
func drain(s *httpapi.Server, most time.Duration, log *slog.Logger) {
	if most == 0 {
		return
	}
	log.Info("the server takes no new work and waits for turns of agents", "at most", most)
	ctx, cancel := context.WithTimeout(context.Background(), most)
	defer cancel()
	if err := s.Drain(ctx); errors.Is(err, context.DeadlineExceeded) {
		log.Warn("turns of agents that did not end in time are interrupted")
	}
}

// openState opens the state that an earlier server left. The server also starts on
// a full disk, so that clients can delete files through it: the first request that
// needs the state opens it then.
func openState(ctx context.Context, s *httpapi.Server, log *slog.Logger) error {
	for _, open := range []func() error{
		func() error { return sweep(s, log) },
		func() error {
			if err := s.OpenRecordings(ctx); err != nil && ctx.Err() == nil {
				return fmt.Errorf("%w; choose another directory with --recordings-dir", err)
			}
			return nil
		},
		func() error {
			if err := s.OpenAgents(ctx); err != nil && ctx.Err() == nil {
				return fmt.Errorf("agents' sessions: %w", err)
			}
			return nil
		},
	} {
		err := open()
		if err != nil && !httpapi.NoSpace(err) {
			return err
		}
		if err != nil {
			log.Error("the disk is full; delete files, also through this server", "error", err)
		}
	}
	return nil
}

func (f *serverFlags) listen(ctx context.Context) (net.Listener, error) {
	if f.socket != nil {
		return f.socket, nil
	}
	ln, err := (&net.ListenConfig{}).Listen(ctx, "tcp", f.address())
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("%w; another server may be running: end it, or choose another --port (0 for a free one)", err)
	case errors.Is(err, syscall.EACCES):
		return nil, fmt.Errorf("%w; choose a --port from 1024 up", err)
	}
	return ln, err
}

// openMedia opens the port of --media-udp-port. Without the flag, the first viewer
// opens a port.
func openMedia(s *httpapi.Server, f serverFlags) error {
	if f.media.udpPort == "" || f.media.udpPort == "off" {
		return nil
	}
	err := s.OpenMedia()
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("%w; choose another --media-udp-port", err)
	}
	return err
}

// sweep ends the processes that an earlier server left running. It logs a failure to do
// so, and returns an error if the state directory cannot be used.
func sweep(s *httpapi.Server, log *slog.Logger) error {
	n, err := s.Sweep()
	var files *fs.PathError
	switch {
	case errors.Is(err, httpapi.ErrClosed): // a signal came while it waited for another server
		return nil
	case errors.Is(err, httpapi.ErrInUse):
		return fmt.Errorf("%w with --state-dir", err)
	case errors.As(err, &files):
		return fmt.Errorf("%w; choose another directory with --state-dir", err)
	case err != nil:
		log.Warn("processes of an earlier server could not be ended", "error", err)
	case n > 0:
		log.Info("ended processes of an earlier server", "processes", n)
	}
	return nil
}

// announce prints the server's URL.
func (p program) announce(at url.URL, s *httpapi.Server, tokenKnown bool, f serverFlags, log *slog.Logger) {
	if f.noToken && !isLoopback(f.host) {
		log.Warn("--no-token on an address that other machines may reach: every client that reaches it controls the desktops and this user's account", "host", f.host)
	}
	if f.noToken && f.cfg.Credentials && slices.Contains(f.cfg.Origins, "*") {
		log.Warn("--no-token with --cors-allow-origin '*' and --cors-allow-credentials: every web page that is open in a browser here can use the desktops")
	}
	base := at.String()
	if s.Token() != "" && !tokenKnown {
		at.RawQuery = url.Values{"token": {s.Token()}}.Encode()
	}
	if f.logFormat == formatJSON {
		jsonLogger(p.stdout, slog.LevelInfo).Info(readyMessage, "url", at.String())
		return
	}
	fmt.Fprintf(p.stdout, "%s%s\n", readyPrefix, at.String())
	if f.demo {
		p.suggest(base, s.Token(), tokenKnown)
	}
}

// suggest prints first steps for a new user.
func (p program) suggest(base, token string, tokenKnown bool) {
	if tokenKnown {
		token = "YOUR-TOKEN" // the user's token is not printed
	}
	curl := "curl"
	if token != "" {
		curl += " -H 'Authorization: Bearer " + token + "'"
	}
	fmt.Fprintf(p.stdout, "Open this URL in a browser, or try:\n"+
		"  %[1]s -o desk.png %[2]sv1/desktop/screenshot\n"+
		"  %[1]s --json '{\"text\":\"hello\\n\"}' %[2]sv1/desktop/keyboard/type\n"+
		"Ctrl-C ends the server.\n", curl, base)
}

// baseURL returns the URL by which a program on this machine reaches a listener.
func baseURL(a net.Addr) url.URL {
	u := url.URL{Scheme: "http", Host: a.String(), Path: "/"}
	if tcp, ok := a.(*net.TCPAddr); ok && tcp.IP.IsUnspecified() {
		u.Host = net.JoinHostPort("127.0.0.1", strconv.Itoa(tcp.Port))
	}
	return u
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// logger returns the logger that the flags describe.
func (f *serverFlags) logger(stderr io.Writer) (*slog.Logger, func(), error) {
	levels, err := parseLevels(f.logLevel)
	if err != nil {
		return nil, nil, err
	}
	if err := choose("log-format", f.logFormat, formatText, formatJSON); err != nil {
		return nil, nil, err
	}
	out, done := stderr, func() {}
	if f.logFile != "" {
		if err := f.mayLogTo(f.logFile); err != nil {
			return nil, nil, err
		}
		file, err := os.OpenFile(f.logFile, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
		if err != nil {
			return nil, nil, fmt.Errorf("log file: %w", err)
		}
		out, done = file, func() { _ = file.Close() }
	}
	var handler slog.Handler = slog.NewTextHandler(out, &slog.HandlerOptions{Level: levels.least()})
	if f.logFormat == formatJSON {
		handler = jsonLogger(out, levels.least()).Handler()
	}
	return slog.New(levels.handler(handler)), done, nil
}

// mayLogTo returns an error if the user of agents or desktops can replace the log file,
// for example with a link to another file.
func (f *serverFlags) mayLogTo(file string) error {
	for _, name := range []string{f.cfg.AgentHost.RunAs, f.cfg.DesktopUser} {
		user, err := supervise.LookupUser(name)
		if err != nil {
			continue // httpapi.New reports it
		}
		if err := supervise.CheckNotReplaceable(file, user); err != nil {
			return usagef("--log-file: %s", err)
		}
	}
	return nil
}

// The values of --log-format.
const (
	formatText = "text"
	formatJSON = "json"
)

// jsonLogger returns a logger that writes durations with their units, such as
// "1.5s", where slog would write nanoseconds.
func jsonLogger(out io.Writer, level slog.Level) *slog.Logger {
	return slog.New(slog.NewJSONHandler(out, &slog.HandlerOptions{Level: level, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Value.Kind() == slog.KindDuration {
			a.Value = slog.StringValue(a.Value.Duration().String())
		}
		return a
	}}))
}

// loggedError is an error that was written to the log and is not printed.
type loggedError struct{ error }

func (e loggedError) Unwrap() error { return e.error }

// logEnd writes the error that ends the server to a JSON log.
func (p program) logEnd(f *serverFlags, err error) error {
	if err == nil || f.logFormat != formatJSON {
		return err
	}
	jsonLogger(p.stderr, slog.LevelInfo).Error("the server cannot run", "error", err)
	return loggedError{err}
}
