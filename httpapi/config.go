package httpapi

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"strings"

	"github.com/deskhand/deskhand/agents"
	"github.com/deskhand/deskhand/agents/eventlog"
	"github.com/deskhand/deskhand/agents/registry"
	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/desktop/fleet"
	"github.com/deskhand/deskhand/filesystem"
	"github.com/deskhand/deskhand/internal/userhome"
	"github.com/deskhand/deskhand/recording"
	"github.com/deskhand/deskhand/webrtc"
)

// Defaults that a zero Config stands for.
const (
	DefaultMaxBodyBytes = 2 << 20
	DefaultMaxDesktops  = fleet.DefaultMaxDesktops
)

// Config describes a server. The zero value asks for a token that New
// generates, accepts no other site's requests, and keeps its files where
// sandbox-agent and the XDG directories have them.
type Config struct {
	// Token is what clients present as a bearer token. Empty: a random one,
	// which Server.Token tells, unless NoToken is set.
	Token string

	// NoToken lets everybody in. Requests to a loopback address must then come
	// under the name localhost, as an IP address, or as one of Origins: pages
	// can have their own names point there.
	NoToken bool

	// Origins lists the sites that browsers may call from, as
	// "https://example.com"; "*" stands for all. Empty: only pages that this
	// server serves itself.
	Origins []string

	// Methods and Headers list what pages of Origins may use. Empty: what
	// they ask for.
	Methods []string
	Headers []string

	// Credentials lets pages of Origins send cookies and HTTP authentication.
	Credentials bool

	// TrustProxy takes the server's own name from X-Forwarded-Host and the
	// client's address from X-Forwarded-For. Set it only behind a proxy that
	// sets both.
	TrustProxy bool

	// StateDir is where desktops keep their files: those of main directly,
	// those of others in desktops/ID. Empty: $XDG_STATE_HOME/deskhand, with
	// main's home in $XDG_STATE_HOME/sandbox-agent/desktop/home, which is in a
	// temporary directory for a user who has no home. Only one server can use
	// it at a time; see ErrInUse. One that is about to end is waited for.
	StateDir string

	// StateName is what tells this server from others of the same user, such as
	// its port. When StateDir is empty and another server uses the usual
	// directory, which this one never did, it gets the folder of that name in
	// there, and has it from then on; the log says so. Empty: there is none.
	StateName string

	// RecordingsDir is where recordings are kept: those of main directly, those
	// of others in desktops/ID. Empty: in the folder recordings beside each
	// desktop's files.
	RecordingsDir string

	// Retention says which recordings of a desktop are removed by themselves.
	// The zero value keeps them all.
	Retention recording.Retention

	// MaxBodyBytes bounds request bodies. Zero: 2 MiB. What is put on the
	// clipboard, text or image, may have 16 times as much.
	MaxBodyBytes int

	// Roots are the directories that clients may reach files below. Empty: the
	// whole file system. Processes of clients are not kept in them.
	Roots []filesystem.Root

	// MaxUploadBytes bounds what is written to one file, or uploaded as one
	// archive. Zero: no bound but the disk.
	MaxUploadBytes int64

	// MaxDesktops is the largest number of desktops, including main and desktops
	// that are stopped. Zero: 32.
	MaxDesktops int

	// MaxConnections is the largest number of open connections to all listeners of
	// Serve, including idle ones and WebSockets. Further connections are answered
	// 503. Zero: half of the descriptors that this process may have, at most 4096.
	// It does not apply to Handler and Mount.
	MaxConnections int

	// MaxConnectionsPerAddress is the largest number of open connections from one
	// IPv4 address or one IPv6 network of 64 bits. The clients of a proxy share its
	// address, and so do all programs on this machine. Zero: three quarters of
	// MaxConnections, so that one address cannot use all of them, or with
	// TrustProxy all of MaxConnections.
	MaxConnectionsPerAddress int

	// Version is the serverInfo.version that MCP clients get. Empty: the version of
	// the OpenAPI document.
	Version string

	// EnvPolicy chooses what desktops' programs and clients' processes see of
	// this program's environment.
	EnvPolicy desktop.EnvPolicy

	// DesktopMenu gives desktops a menu with Terminal and Browser, for the viewer,
	// API caller or agent that has control. Without it no program can be started
	// from an empty desktop.
	DesktopMenu bool

	// NoQuiesce has input of API callers and agents not wait until programs have dealt
	// with the input before it; see desktop.Config.NoQuiesce.
	NoQuiesce bool

	// DesktopUser is the user, by name or number, that the programs of desktops run
	// as. Start finds it in desktop.Config.RunAs and must use it. Empty: this
	// program's user. Another user needs root. When AgentHost.RunAs names a user
	// and DesktopUser is root, agents get no desktop.
	DesktopUser string

	// Secrets names environment variables that neither ever sees, beside
	// deskhand's own and, where EventLog is a Postgres, those that have its
	// password ([eventlog.Secrets]).
	Secrets []string

	// Media says how viewers of the live view reach this program. The zero
	// value: by UDP port 59050, or a free one if that is taken.
	Media webrtc.NetworkConfig

	// Agents says which agents there are, and where they are installed. Its
	// Records and Logger are the server's own unless they are set, its RunAs is
	// that of AgentHost, and its Secrets are beside those of the server.
	Agents registry.Config

	// TrustFolders lists folders. MCP servers and skills that are configured in
	// them and in the folders below them count without approval. "/" trusts every
	// folder, as sandbox-agent does. Empty: configuration that is found in a
	// folder counts after its approval; see package agents/folders.
	TrustFolders []string

	// AgentHost says how agents are run. The server replaces its Log, StateDir and
	// Folders, sets other fields that are zero, and adds the server's Secrets and
	// TrustFolders to the ones given here.
	AgentHost agents.Config

	// AgentURL is where agents that run on this machine reach this server, for
	// the tools of a desktop. Empty: where Serve listens first.
	AgentURL string

	// AgentRelay is the command line that agents start who cannot reach MCP
	// servers by HTTP; --endpoint URL --desktop ID are added. See deskhand mcp.
	// Empty: those have no tools.
	AgentRelay []string

	// EventLog is where agents' sessions are kept. An empty DSN: in the state
	// directory.
	EventLog eventlog.Config

	// Start makes a desktop; its Config is complete and may be altered. Nil:
	// desktop.Start.
	Start func(ctx context.Context, id string, cfg desktop.Config) (Desktop, error)

	// Quiet, if set, is called once no request has come for 35 seconds, and
	// again after the next ones: a time to give memory back. Health checks do not
	// count.
	Quiet func()

	// Logger receives errors that clients are not shown and, with AccessLog,
	// one line per request. Nil: none.
	Logger *slog.Logger

	// AccessLog logs every request, without the tokens in its URL.
	AccessLog bool

	users users // set by New

	// also adds routes, for tests.
	also func(*Server)
}

func (c Config) withDefaults() Config {
	c.Origins, c.Methods, c.Headers = slices.Clone(c.Origins), slices.Clone(c.Methods), slices.Clone(c.Headers)
	c.Secrets, c.Roots = slices.Concat(c.Secrets, eventlog.Secrets(c.EventLog.DSN)), slices.Clone(c.Roots)
	if c.MaxBodyBytes == 0 {
		c.MaxBodyBytes = DefaultMaxBodyBytes
	}
	if c.Version == "" {
		c.Version = apiVersion
	}
	if c.Start == nil {
		c.Start = startDesktop
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

// openFiles opens what clients may reach.
func openFiles(cfg Config) (*filesystem.FS, error) {
	for i, r := range cfg.Roots {
		cfg.Roots[i].Path = userhome.Expand(r.Path)
	}
	files, err := filesystem.Open(filesystem.Config{Roots: cfg.Roots, Home: userhome.Dir(), Logger: cfg.Logger})
	if err != nil {
		return nil, fmt.Errorf("config: root: %w", err)
	}
	return files, nil
}

func startDesktop(ctx context.Context, _ string, cfg desktop.Config) (Desktop, error) {
	d, err := desktop.Start(ctx, cfg)
	if err != nil {
		return nil, err // not d: a nil *desktop.Desktop is no nil Desktop
	}
	return d, nil
}

func (c Config) validate() error {
	switch {
	case c.NoToken && c.Token != "":
		return errors.New("config: Token and NoToken exclude each other")
	case strings.TrimSpace(c.Token) != c.Token:
		return errors.New("config: Token must not begin or end with white space")
	case c.MaxBodyBytes < 0 || c.MaxUploadBytes < 0:
		return errors.New("config: MaxBodyBytes and MaxUploadBytes must not be negative")
	}
	for _, o := range c.Origins {
		if o == "*" || o == "null" {
			continue
		}
		u, err := url.Parse(o)
		if err != nil || u.Scheme == "" || u.Host == "" || u.Path != "" || u.RawQuery != "" || u.Fragment != "" {
			return fmt.Errorf("config: origin %q must be * or a scheme and host, as in https://example.com", o)
		}
	}
	return nil
}
