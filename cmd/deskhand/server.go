package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/url"
	"os"
	"strconv"

	"github.com/deskhand/deskhand/httpapi"
	"github.com/deskhand/deskhand/internal/supervise"
)

const aboutServer = `Serves desktops over HTTP until it gets SIGINT or SIGTERM, then ends all that it
started. Prints one line with its URL when it is ready.

Without --token, --token-file or --no-token it makes a token and prints it.
DESKHAND_HOST, _PORT, _TOKEN and _TOKEN_FILE stand in for the flags, and so do
those variables of sandbox-agent (SANDBOX_AGENT_...).`

func (p program) server(ctx context.Context, access accessFlags, args []string) (err error) {
	f := serverFlags{accessFlags: access}
	flags := p.flags("server", aboutServer)
	f.register(flags)
	if err := parse(flags, args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return usagef("server takes no argument, so not %q", flags.Arg(0))
	}
	if err := f.environment(flags); err != nil {
		return err
	}
	cfg, err := f.config()
	if err != nil {
		return err
	}
	log, closeLog, err := f.logger(p.stderr)
	if err != nil {
		return err
	}
	defer closeLog()
	cfg.Logger = log
	s, err := httpapi.New(cfg)
	if err != nil {
		return &usageError{err.Error()}
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	return p.serve(ctx, s, f, cfg.Token != "", log)
}

// serve runs the server until ctx ends. tokenKnown says that the user chose the
// token, which then need not be shown.
func (p program) serve(ctx context.Context, s *httpapi.Server, f serverFlags, tokenKnown bool, log *slog.Logger) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
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
	if n, err := s.Sweep(); err != nil {
		log.Warn("what an earlier server left running could not be ended", "error", err)
	} else if n > 0 {
		log.Info("ended what an earlier server left running", "processes", n)
	}
	ln, err := (&net.ListenConfig{}).Listen(ctx, "tcp", f.address())
	if err != nil {
		return err
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx, ln) }()
	at := baseURL(ln.Addr())
	if err := p.startDesktop(ctx, s, f, log); err != nil {
		cancel(err)
		return errors.Join(err, <-served)
	}
	p.announce(at, s, tokenKnown, f, log)
	return <-served
}

// announce tells where the server is.
func (p program) announce(at url.URL, s *httpapi.Server, tokenKnown bool, f serverFlags, log *slog.Logger) {
	if f.noToken && !isLoopback(f.host) {
		log.Warn("--no-token on an address that other machines may reach: whoever reaches it owns the desktops and this user's account", "host", f.host)
	}
	if s.Token() != "" && !tokenKnown {
		at.RawQuery = url.Values{"token": {s.Token()}}.Encode()
	}
	fmt.Fprintf(p.stdout, "deskhand is ready at %s\n", at.String())
}

// baseURL is a URL by which a program on this machine reaches a listener.
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

// logger writes where the flags say.
func (f *serverFlags) logger(stderr io.Writer) (*slog.Logger, func(), error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(f.logLevel)); err != nil {
		return nil, nil, usagef("--log-level must be debug, info, warn or error, not %q", f.logLevel)
	}
	if f.logFormat != "text" && f.logFormat != "json" {
		return nil, nil, usagef("--log-format must be text or json, not %q", f.logFormat)
	}
	out, done := stderr, func() {}
	if f.logFile != "" {
		file, err := os.OpenFile(f.logFile, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
		if err != nil {
			return nil, nil, fmt.Errorf("log file: %w", err)
		}
		out, done = file, func() { _ = file.Close() }
	}
	opts := &slog.HandlerOptions{Level: level}
	var handler slog.Handler = slog.NewTextHandler(out, opts)
	if f.logFormat == "json" {
		handler = slog.NewJSONHandler(out, opts)
	}
	return slog.New(handler), done, nil
}
