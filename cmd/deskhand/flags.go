package main

import (
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/filesystem"
	"github.com/deskhand/deskhand/httpapi"
	"github.com/deskhand/deskhand/webrtc"
)

const defaultPort = 2468

// accessFlags name the token, for servers and clients. -t and -n may stand before the
// command.
type accessFlags struct {
	token     string
	noToken   bool
	tokenFile string
}

func (a *accessFlags) register(flags *pflag.FlagSet) {
	flags.StringVarP(&a.token, "token", "t", a.token, "`token` that clients must present; safer in a file or in DESKHAND_TOKEN")
	flags.BoolVarP(&a.noToken, "no-token", "n", a.noToken, "accept clients without a token")
}

// serverFlags are the flags of the server.
type serverFlags struct {
	accessFlags
	host      string
	port      uint16
	cfg       httpapi.Config // what flags set directly
	roots     []string
	secrets   []string
	envPolicy string
	desktop   bool
	demo      bool
	metrics   string

	otlpEndpoint string

	drainTimeout time.Duration

	logFile   string
	logLevel  string
	logFormat string
	media     mediaFlags
	agents    agentFlags
	sessions  sessionFlags
	onHost    hostFlags
	socket    net.Listener // passed by systemd; nil: there is none
}

func (f *serverFlags) register(flags *pflag.FlagSet) {
	flags.StringVarP(&f.host, "host", "H", "127.0.0.1", "`address` to listen on")
	flags.Uint16VarP(&f.port, "port", "p", defaultPort, "`port` to listen on; 0 for a free one")
	f.accessFlags.register(flags)
	flags.StringVar(&f.tokenFile, "token-file", "", "`file` that holds the token; - is standard input")
	flags.StringArrayVarP(&f.cfg.Origins, "cors-allow-origin", "O", nil, "`origin` whose pages may call the server, or *; may be repeated")
	flags.StringArrayVarP(&f.cfg.Methods, "cors-allow-method", "M", nil, "`method` that these pages may use; may be repeated (default: any)")
	flags.StringArrayVarP(&f.cfg.Headers, "cors-allow-header", "A", nil, "`header` that these pages may send; may be repeated (default: any)")
	flags.BoolVarP(&f.cfg.Credentials, "cors-allow-credentials", "C", false, "let these pages send credentials")
	flags.BoolVar(&f.cfg.TrustProxy, "trust-proxy", false, "trust the headers X-Forwarded-Host and X-Forwarded-For")
	flags.StringVar(&f.cfg.StateDir, "state-dir", "", "`directory` for sessions and desktops' files (default $XDG_STATE_HOME/deskhand)")
	flags.StringArrayVar(&f.roots, "fs-root", nil, "`[NAME=]DIR` below which clients may reach files; may be repeated (default: all files)")
	flags.Int64Var(&f.cfg.MaxUploadBytes, "max-upload-bytes", 0, "maximum `bytes` of one upload; 0 for no limit")
	flags.IntVar(&f.cfg.MaxDesktops, "max-desktops", httpapi.DefaultMaxDesktops, "maximum `number` of desktops, including main and stopped ones")
	flags.IntVar(&f.cfg.MaxViewers, "max-viewers", webrtc.DefaultMaxViewers, "maximum `number` of viewers of a desktop")
	flags.IntVar(&f.cfg.AgentHost.MaxAgents, "max-sessions", 0, "maximum `number` of sessions whose agents run; sessions of one agent server count once (default: no limit)")
	flags.Int64Var(&f.cfg.MinMemory, "min-memory", 0, "available `bytes` of memory below which no desktop and no agent starts (default: no minimum)")
	flags.IntVar(&f.cfg.MaxConnections, "max-connections", 0, "maximum `number` of open connections (default: half of the allowed open files, at most 4096)")
	flags.IntVar(&f.cfg.MaxConnectionsPerAddress, "max-connections-per-address", 0, "maximum `number` of open connections from one address (default: three quarters of --max-connections, or all with --trust-proxy)")
	flags.StringVar(&f.envPolicy, "env-policy", "inherit", "environment of desktops and processes: `inherit|clean`")
	f.media.register(flags)
	f.agents.registerServer(flags)
	f.sessions.register(flags, &f.cfg)
	registerRecordings(flags, &f.cfg)
	flags.StringArrayVar(&f.secrets, "secret", nil, "secret that clients use by its name: `NAME=env:VAR|file:PATH`; may be repeated")
	flags.BoolVar(&f.desktop, "desktop", false, "start the desktop with the server")
	flags.StringVar(&f.cfg.DesktopUser, "desktop-user", "", "`user` that desktops and their programs run as (default: this user)")
	flags.BoolVar(&f.cfg.DesktopMenu, "desktop-menu", false, "add Terminal and Browser to the menu of desktops, for the viewer in control")
	flags.BoolVar(&f.cfg.NoQuiesce, "no-quiesce", false, "send input without waiting for programs to handle earlier input, for clients that pace themselves")
	flags.DurationVar(&f.cfg.DesktopIdleStop, "desktop-idle-stop", 0, "stop desktops that no client, viewer, recording or agent uses for a `time` such as 30m; 0 is never")
	f.onHost.register(flags)
	flags.BoolVar(&f.demo, "demo", false, "start the desktop with a terminal and a browser")
	flags.DurationVar(&f.drainTimeout, "drain-timeout", 0, "after a signal, refuse new work and wait this `time` at most for turns of agents to end (default: no wait)")
	flags.StringVar(&f.logFile, "log-file", "", "append the log to a `file` instead of standard error")
	flags.StringVar(&f.logLevel, "log-level", "info", "`debug|info|warn|error`, also with levels of packages: info,webrtc=debug")
	flags.StringVar(&f.logFormat, "log-format", "text", "`text|json`")
	flags.StringVar(&f.metrics, "metrics-listen", "", "serve /metrics without a token on this `ADDRESS:PORT` too, for Prometheus")
	flags.StringVar(&f.otlpEndpoint, "otlp-endpoint", "", "send traces to the OpenTelemetry collector at this `URL`, such as http://127.0.0.1:4318 (default: what OTEL_ variables name)")
	flags.BoolVar(&f.cfg.AccessLog, "access-log", false, "log every request")
	flags.Bool("no-telemetry", false, "accepted for compatibility; there is no telemetry")
}

// prefixes begin the names of environment variables. The first has precedence.
var prefixes = []string{"DESKHAND_", "SANDBOX_AGENT_"}

// variable returns the environment's value of a setting, or "".
func variable(name string) string {
	for _, prefix := range prefixes {
		if v := os.Getenv(prefix + name); v != "" {
			return v
		}
	}
	return ""
}

// environment sets flags that were not given from the environment: DESKHAND_HOST,
// _PORT, _TOKEN and _TOKEN_FILE, the same of SANDBOX_AGENT_, DESKHAND_LOG_FORMAT and
// DESKHAND_LOG_LEVEL.
func (f *serverFlags) environment(flags *pflag.FlagSet) error {
	if v := variable("HOST"); v != "" && !flags.Changed("host") {
		f.host = v
	}
	// Kubernetes sets DESKHAND_PORT to such a URL if there is a Service named deskhand.
	if v := variable("PORT"); v != "" && !flags.Changed("port") && !strings.HasPrefix(v, "tcp://") {
		n, err := strconv.ParseUint(v, 10, 16)
		if err != nil {
			return usagef("the PORT of the environment must be a number from 0 to 65535, not %q", v)
		}
		f.port = uint16(n)
	}
	if v := os.Getenv("SANDBOX_AGENT_LOG_HTTP"); v != "" && !flags.Changed("access-log") {
		f.cfg.AccessLog = v != "0"
	}
	for name, value := range map[string]*string{"log-format": &f.logFormat, "log-level": &f.logLevel} {
		if v := os.Getenv("DESKHAND_" + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))); v != "" && !flags.Changed(name) {
			*value = v
		}
	}
	if flags.Changed("token") && f.token == "" {
		return usagef("--token is empty; leave it out to have a token made")
	}
	f.accessFlags.environment()
	return nil
}

// environment sets the token from DESKHAND_TOKEN, DESKHAND_TOKEN_FILE, or the same of
// SANDBOX_AGENT_, unless a flag about access was given.
func (a *accessFlags) environment() {
	for _, prefix := range prefixes {
		if a.token == "" && !a.noToken && a.tokenFile == "" {
			if a.token = os.Getenv(prefix + "TOKEN"); a.token == "" {
				a.tokenFile = os.Getenv(prefix + "TOKEN_FILE")
			}
		}
	}
}

// resolve returns the token, or "" for none.
func (a *accessFlags) resolve() (string, error) {
	switch {
	case a.noToken && (a.token != "" || a.tokenFile != ""):
		return "", usagef("--no-token excludes --token and --token-file")
	case a.tokenFile == "":
		return a.token, nil
	case a.token != "":
		return "", usagef("--token excludes --token-file")
	}
	return readToken(a.tokenFile)
}

// config returns the server's configuration.
func (f *serverFlags) config() (httpapi.Config, error) {
	if f.noToken && (f.cfg.AgentHost.RunAs != "" || f.cfg.DesktopUser != "") {
		return httpapi.Config{}, usagef("--no-token excludes --agent-user and --desktop-user: the programs of that user could do through the server what its own user can")
	}
	cfg := f.cfg
	cfg.NoToken = f.noToken
	if f.port != 0 {
		cfg.StateName = "port-" + strconv.Itoa(int(f.port))
	}
	var err error
	if cfg.Roots, err = fileRoots(f.roots); err != nil {
		return cfg, err
	}
	if cfg.MaxUploadBytes < 0 {
		return cfg, usagef("--max-upload-bytes must not be negative")
	}
	if cfg.MaxDesktops < 1 {
		return cfg, usagef("--max-desktops must be at least 1, not %d", cfg.MaxDesktops)
	}
	if cfg.MaxViewers < 1 {
		return cfg, usagef("--max-viewers must be at least 1, not %d", cfg.MaxViewers)
	}
	if cfg.DesktopIdleStop < 0 {
		return cfg, usagef("--desktop-idle-stop must not be negative")
	}
	if cfg.AgentHost.MaxAgents < 0 || cfg.MinMemory < 0 {
		return cfg, usagef("--max-sessions and --min-memory must not be negative")
	}
	if f.drainTimeout < 0 {
		return cfg, usagef("--drain-timeout must not be negative")
	}
	if err := choose("env-policy", f.envPolicy, "inherit", "clean"); err != nil {
		return cfg, err
	}
	if f.envPolicy == "clean" {
		cfg.EnvPolicy = desktop.EnvClean
	}
	if err := f.media.config(&cfg); err != nil {
		return cfg, err
	}
	if cfg.Agents, err = f.agents.settings(); err != nil {
		return cfg, err
	}
	if err := f.sessions.apply(&cfg); err != nil {
		return cfg, err
	}
	if r := cfg.Retention; r.MaxCount < 0 || r.MaxAge < 0 || r.MaxBytes < 0 {
		return cfg, usagef("--recordings-max-count, --recordings-max-age and --recordings-max-bytes must not be negative")
	}
	if err := loadSecrets(f.secrets, &cfg); err != nil {
		return cfg, err
	}
	if err := unsetSecrets(&cfg); err != nil {
		return cfg, err
	}
	cfg.Token, err = f.resolve()
	return cfg, err
}

// choose returns an error unless the value of a flag is one of the words.
func choose(flag, value string, words ...string) error {
	if slices.Contains(words, value) {
		return nil
	}
	last := len(words) - 1
	return usagef("--%s must be %s or %s, not %q", flag, strings.Join(words[:last], ", "), words[last], value)
}

// registerRecordings adds the flags of the recordings' directory and retention.
func registerRecordings(flags *pflag.FlagSet, cfg *httpapi.Config) {
	flags.StringVar(&cfg.RecordingsDir, "recordings-dir", "", "`directory` for recordings (default: beside the desktops' files)")
	flags.IntVar(&cfg.Retention.MaxCount, "recordings-max-count", 0, "maximum `number` of recordings of a desktop, of which the newest are kept; 0 keeps all")
	flags.DurationVar(&cfg.Retention.MaxAge, "recordings-max-age", 0, "delete recordings older than a `time` such as 720h; 0 keeps all")
	flags.Int64Var(&cfg.Retention.MaxBytes, "recordings-max-bytes", 0, "maximum `bytes` of the recordings of a desktop with their timelines and pictures, of which the newest are kept; 0 keeps all")
}

// fileRoots parses the values of --fs-root. A name has no slash, so a
// path with = that begins with ./ has no name.
func fileRoots(given []string) ([]filesystem.Root, error) {
	var roots []filesystem.Root
	for _, text := range given {
		root := filesystem.Root{Path: text}
		if name, path, found := strings.Cut(text, "="); found && !strings.Contains(name, "/") {
			root = filesystem.Root{Name: name, Path: path}
			if name == "" {
				return nil, usagef("--fs-root %q has no name before the =", text)
			}
		}
		if root.Path == "" {
			return nil, usagef("--fs-root %q names no directory", text)
		}
		roots = append(roots, root)
	}
	return roots, nil
}

// readToken reads the token from a file, or from standard input for "-".
func readToken(file string) (string, error) {
	var text []byte
	var err error
	if file == "-" {
		file = "standard input"
		text, err = io.ReadAll(io.LimitReader(os.Stdin, 4<<10))
	} else {
		text, err = os.ReadFile(file)
	}
	if err != nil {
		return "", fmt.Errorf("token file: %w", err)
	}
	token, ok := oneLine(text)
	if !ok {
		return "", fmt.Errorf("token file %s: must hold one line, the token", file)
	}
	return token, nil
}

// address returns the address to listen on.
func (f *serverFlags) address() string {
	return net.JoinHostPort(strings.Trim(f.host, "[]"), strconv.Itoa(int(f.port)))
}
