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
	flags.Uint16VarP(&f.port, "port", "p", defaultPort, "`port` to listen on; 0 for a free one")
	f.accessFlags.register(flags)
	flags.StringVar(&f.tokenFile, "token-file", "", "`file` that holds the token; - is standard input")
	flags.StringArrayVarP(&f.origins, "cors-allow-origin", "O", nil, "`origin` whose pages may call the server, or *; may be repeated")
	flags.StringArrayVarP(&f.methods, "cors-allow-method", "M", nil, "`method` that these pages may use; may be repeated (default: any)")
	flags.StringArrayVarP(&f.headers, "cors-allow-header", "A", nil, "`header` that these pages may send; may be repeated (default: any)")
	flags.BoolVarP(&f.credentials, "cors-allow-credentials", "C", false, "let these pages send credentials")
	flags.BoolVar(&f.trustProxy, "trust-proxy", false, "trust the headers X-Forwarded-Host and X-Forwarded-For")
	flags.StringVar(&f.stateDir, "state-dir", "", "`directory` for sessions and desktops' files (default $XDG_STATE_HOME/deskhand)")
	flags.StringArrayVar(&f.roots, "fs-root", nil, "`[NAME=]DIR` below which clients may reach files; may be repeated (default: all files)")
	flags.Int64Var(&f.maxUpload, "max-upload-bytes", 0, "maximum `bytes` of one upload; 0 for no limit")
	flags.IntVar(&f.maxDesktops, "max-desktops", httpapi.DefaultMaxDesktops, "maximum `number` of desktops, including main and stopped ones")
	flags.IntVar(&f.maxConns, "max-connections", 0, "maximum `number` of open connections (default: half of the allowed open files, at most 4096)")
	flags.IntVar(&f.maxPerAddr, "max-connections-per-address", 0, "maximum `number` of open connections from one address (default: three quarters of --max-connections, or all with --trust-proxy)")
	flags.StringVar(&f.envPolicy, "env-policy", "inherit", "environment of desktops and processes: `inherit|clean`")
	f.media.register(flags)
	f.agents.registerServer(flags)
	f.sessions.register(flags)
	f.recordings.register(flags)
	flags.BoolVar(&f.desktop, "desktop", false, "start the desktop with the server")
	flags.StringVar(&f.desktopUser, "desktop-user", "", "`user` that desktops and their programs run as (default: this user)")
	flags.BoolVar(&f.desktopMenu, "desktop-menu", false, "add Terminal and Browser to the menu of desktops, for the viewer who has control")
	flags.BoolVar(&f.noQuiesce, "no-quiesce", false, "send input without waiting for programs to handle earlier input, for clients that pace themselves")
	f.onHost.register(flags)
	flags.BoolVar(&f.demo, "demo", false, "start the desktop with a terminal and a browser")
	flags.StringVar(&f.logFile, "log-file", "", "append the log to a `file` instead of standard error")
	flags.StringVar(&f.logLevel, "log-level", "info", "`debug|info|warn|error`")
	flags.StringVar(&f.logFormat, "log-format", "text", "`text|json`")
	flags.BoolVar(&f.accessLog, "access-log", false, "log every request")
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
	if f.noToken && (f.sessions.user != "" || f.desktopUser != "") {
		return httpapi.Config{}, usagef("--no-token excludes --agent-user and --desktop-user: the programs of that user could do through the server what its own user can")
	}
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
