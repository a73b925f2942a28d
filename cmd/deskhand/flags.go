package main

import (
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/filesystem"
	"github.com/deskhand/deskhand/httpapi"
)

const defaultPort = 2468

// accessFlags say who may use the server; to clients, how they show that they
// may. Two of them may stand before the command.
type accessFlags struct {
	token     string
	noToken   bool
	tokenFile string
}

func (a *accessFlags) register(flags *pflag.FlagSet) {
	flags.StringVarP(&a.token, "token", "t", a.token, "`token` that clients must present; better from a file or the environment")
	flags.BoolVarP(&a.noToken, "no-token", "n", a.noToken, "let everybody in")
}

// serverFlags are the flags of the server.
type serverFlags struct {
	accessFlags
	host        string
	port        uint16
	origins     []string
	methods     []string
	headers     []string
	credentials bool
	trustProxy  bool
	stateDir    string
	roots       []string
	maxUpload   int64
	maxDesktops int
	maxConns    int
	maxPerAddr  int
	envPolicy   string
	desktop     bool
	desktopMenu bool
	noQuiesce   bool
	desktopUser string
	demo        bool
	logFile     string
	logLevel    string
	logFormat   string
	accessLog   bool
	media       mediaFlags
	agents      agentFlags
	sessions    sessionFlags
	onHost      hostFlags
	recordings  recordingFlags
	socket      net.Listener // passed by systemd; nil: there is none
}

func (f *serverFlags) register(flags *pflag.FlagSet) {
	flags.StringVarP(&f.host, "host", "H", "127.0.0.1", "`address` to listen on")
	flags.Uint16VarP(&f.port, "port", "p", defaultPort, "`port` to listen on; 0 takes a free one")
	f.accessFlags.register(flags)
	flags.StringVar(&f.tokenFile, "token-file", "", "`file` that holds the token; - is standard input")
	flags.StringArrayVarP(&f.origins, "cors-allow-origin", "O", nil, "`origin` whose pages may call, or *; may be repeated")
	flags.StringArrayVarP(&f.methods, "cors-allow-method", "M", nil, "`method` that they may use; any, unless given")
	flags.StringArrayVarP(&f.headers, "cors-allow-header", "A", nil, "`header` that they may send; any, unless given")
	flags.BoolVarP(&f.credentials, "cors-allow-credentials", "C", false, "let them send credentials")
	flags.BoolVar(&f.trustProxy, "trust-proxy", false, "believe X-Forwarded-Host and X-Forwarded-For")
	flags.StringVar(&f.stateDir, "state-dir", "", "`directory` for sessions and desktops' files; $XDG_STATE_HOME/deskhand, unless given")
	flags.StringArrayVar(&f.roots, "fs-root", nil, "`[NAME=]DIR` that clients may reach files below; may be repeated; everything, unless given")
	flags.Int64Var(&f.maxUpload, "max-upload-bytes", 0, "how many `bytes` may be uploaded at once; 0 is without a bound")
	flags.IntVar(&f.maxDesktops, "max-desktops", httpapi.DefaultMaxDesktops, "how many desktops may exist, main and those that are stopped included")
	flags.IntVar(&f.maxConns, "max-connections", 0, "how many connections may be open; half of the open files that the system allows, at most 4096, unless given")
	flags.IntVar(&f.maxPerAddr, "max-connections-per-address", 0, "how many of them may come from one address; three quarters of them, or all with --trust-proxy, unless given")
	flags.StringVar(&f.envPolicy, "env-policy", "inherit", "what desktops and processes see of this environment: `inherit|clean`")
	f.media.register(flags)
	f.agents.registerServer(flags)
	f.sessions.register(flags)
	f.recordings.register(flags)
	flags.BoolVar(&f.desktop, "desktop", false, "start the desktop at once")
	flags.StringVar(&f.desktopUser, "desktop-user", "", "`user` that desktops and their programs run as; this one, unless given")
	flags.BoolVar(&f.desktopMenu, "desktop-menu", false, "put Terminal and Browser into the menu of desktops, for the holder of control")
	flags.BoolVar(&f.noQuiesce, "no-quiesce", false, "send input before programs have dealt with the input before it, for clients that pace themselves")
	f.onHost.register(flags)
	flags.BoolVar(&f.demo, "demo", false, "start the desktop with a terminal and a browser on it")
	flags.StringVar(&f.logFile, "log-file", "", "append the log to a `file` instead of standard error")
	flags.StringVar(&f.logLevel, "log-level", "info", "`debug|info|warn|error`")
	flags.StringVar(&f.logFormat, "log-format", "text", "`text|json`")
	flags.BoolVar(&f.accessLog, "access-log", false, "log every request")
	flags.Bool("no-telemetry", false, "accepted for compatibility; there is no telemetry")
}

// prefixes begin the names of the environment's variables, the nearer first.
var prefixes = []string{"DESKHAND_", "SANDBOX_AGENT_"}

// variable is the environment's value of a setting; empty: it has none.
func variable(name string) string {
	for _, prefix := range prefixes {
		if v := os.Getenv(prefix + name); v != "" {
			return v
		}
	}
	return ""
}

// environment fills in what the command line left open from the environment:
// DESKHAND_HOST, _PORT, _TOKEN, _TOKEN_FILE, and the same of SANDBOX_AGENT_;
// DESKHAND_LOG_FORMAT and _LOG_LEVEL.
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
		f.accessLog = v != "0"
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

// environment fills in DESKHAND_TOKEN, _TOKEN_FILE, or the same of
// SANDBOX_AGENT_, unless the command line says anything about access.
func (a *accessFlags) environment() {
	for _, prefix := range prefixes {
		if a.token == "" && !a.noToken && a.tokenFile == "" {
			if a.token = os.Getenv(prefix + "TOKEN"); a.token == "" {
				a.tokenFile = os.Getenv(prefix + "TOKEN_FILE")
			}
		}
	}
}

// resolve is the token; empty: there is none.
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

// config is the server's configuration.
func (f *serverFlags) config() (httpapi.Config, error) {
	cfg := httpapi.Config{
		NoToken: f.noToken, Origins: f.origins, Methods: f.methods, Headers: f.headers,
		Credentials: f.credentials, TrustProxy: f.trustProxy, StateDir: f.stateDir, AccessLog: f.accessLog,
		MaxConnections: f.maxConns, MaxConnectionsPerAddress: f.maxPerAddr,
		MaxDesktops: f.maxDesktops, DesktopMenu: f.desktopMenu, DesktopUser: f.desktopUser, NoQuiesce: f.noQuiesce,
	}
	if f.port != 0 {
		cfg.StateName = "port-" + strconv.Itoa(int(f.port))
	}
	var err error
	if cfg.Roots, err = fileRoots(f.roots); err != nil {
		return cfg, err
	}
	if cfg.MaxUploadBytes = f.maxUpload; f.maxUpload < 0 {
		return cfg, usagef("--max-upload-bytes must not be negative")
	}
	if f.maxDesktops < 1 {
		return cfg, usagef("--max-desktops must be at least 1, not %d", f.maxDesktops)
	}
	switch f.envPolicy {
	case "inherit":
	case "clean":
		cfg.EnvPolicy = desktop.EnvClean
	default:
		return cfg, usagef("--env-policy must be inherit or clean, not %q", f.envPolicy)
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
	if err := f.recordings.config(&cfg); err != nil {
		return cfg, err
	}
	cfg.Token, err = f.resolve()
	return cfg, err
}

// fileRoots are those that --fs-root names, by a name of their own or that of
// the directory. A name has no slash, so that a path with a = needs only ./
// before it.
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

func readToken(file string) (string, error) {
	read := func() ([]byte, error) { return os.ReadFile(file) }
	if file == "-" {
		file, read = "standard input", func() ([]byte, error) { return io.ReadAll(io.LimitReader(os.Stdin, 4<<10)) }
	}
	text, err := read()
	if err != nil {
		return "", fmt.Errorf("token file: %w", err)
	}
	token := strings.TrimSpace(string(text))
	if token == "" || strings.ContainsAny(token, "\r\n") {
		return "", fmt.Errorf("token file %s: must hold one line, the token", file)
	}
	return token, nil
}

// address is where to listen.
func (f *serverFlags) address() string {
	return net.JoinHostPort(strings.Trim(f.host, "[]"), strconv.Itoa(int(f.port)))
}
