package httpapi

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/deskhand/deskhand/agents"
	"github.com/deskhand/deskhand/agents/eventlog"
	"github.com/deskhand/deskhand/agents/registry"
	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/desktop/fleet"
	"github.com/deskhand/deskhand/desktop/secrets"
	"github.com/deskhand/deskhand/filesystem"
	"github.com/deskhand/deskhand/httpapi/internal/rest"
	"github.com/deskhand/deskhand/internal/userhome"
	"github.com/deskhand/deskhand/recording"
	"github.com/deskhand/deskhand/webrtc"
)

// Defaults that a zero Config stands for.
const (
	DefaultMaxBodyBytes = 2 << 20
	DefaultMaxDesktops  = fleet.DefaultMaxDesktops
)

// Config configures a Server. With the zero value, New generates a token, the server
// refuses requests of other sites, and files are where sandbox-agent and the XDG
// directories have them.
type Config struct {
	// Token is the bearer token that clients present. Empty: New generates one, which
	// Server.Token returns, unless NoToken is set.
	Token string

	// NoToken accepts requests without a token. If Serve listens on a loopback address, or a
	// request to Handler came to one, the host must then be localhost, an IP address, or the host
	// of one of Origins: a web page can have its own host name resolve to a loopback address.
	NoToken bool

	// Origins lists the sites that browsers may call from, as
	// "https://example.com"; "*" stands for all. Empty: only pages that this
	// server serves itself.
	Origins []string

	// Methods and Headers are the methods and headers that pages of Origins may use.
	// Empty: all that they ask for.
	Methods []string
	Headers []string

	// Credentials lets pages of Origins send cookies and HTTP authentication.
	Credentials bool

	// TrustProxy makes the server take its own name from X-Forwarded-Host and the
	// client's address from X-Forwarded-For. Set it only behind a proxy that sets
	// both.
	TrustProxy bool

	// StateDir is the directory of the desktops' files: the directory itself for
	// main, desktops/ID in it for the others. Empty: $XDG_STATE_HOME/deskhand, with
	// the home of main in $XDG_STATE_HOME/sandbox-agent/desktop/home. For a user
	// without a home, $XDG_STATE_HOME is a temporary directory. One server at a time
	// can use StateDir; see ErrInUse. A server waits for another server that is
	// closing.
	StateDir string

	// StateName distinguishes this server from others of the same user, for example
	// by its port. If StateDir is empty and another server uses the usual directory,
	// which this one never used, this one uses the folder StateName in it, then and
	// later, and logs that. Empty: it does not.
	StateName string

	// RecordingsDir is the directory of recordings: the directory itself for main,
	// desktops/ID in it for the others. Empty: the folder recordings beside each
	// desktop's files.
	RecordingsDir string

	// Retention selects the recordings of a desktop that the server removes. The zero
	// value keeps all.
	Retention recording.Retention

	// MaxBodyBytes is the maximum size of a request's body. Zero: 2 MiB. Text and
	// images for the clipboard may have 16 times as many bytes.
	MaxBodyBytes int

	// Roots are the directories whose files clients can reach. Empty: the whole file
	// system. Roots do not restrict the processes of clients.
	Roots []filesystem.Root

	// MaxUploadBytes is the maximum size of a file that a client writes, and of an
	// archive that it uploads. Zero: no limit.
	MaxUploadBytes int64

	// MaxDesktops is the largest number of desktops, including main and desktops
	// that are stopped. Zero: 32.
	MaxDesktops int

	// DesktopIdleStop is the time after which a desktop that no client, viewer, recording or
	// agent uses is stopped. Zero: it is not.
	DesktopIdleStop time.Duration

	// MaxViewers is the largest number of viewers of a desktop's live view. Zero: 64.
	MaxViewers int

	// MinMemory is the number of bytes of memory that must be available for a desktop or
	// an agent to start. Otherwise the request is answered 503. Zero: no minimum.
	MinMemory int64

	// MaxConnections is the largest number of open connections to all listeners of
	// Serve, including idle ones and WebSockets. Further connections are answered
	// 503. Zero: half of the descriptors that this process may have, at most 4096.
	// It does not apply to Handler and Mount.
	MaxConnections int

	// MaxConnectionsPerAddress is the largest number of open connections from one
	// IPv4 address or one IPv6 network of 64 bits. The clients of a proxy share its
	// address. Connections from a loopback address, to one, or from the address that
	// they go to count as one address, that of this machine. Zero: three quarters of
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

	// NoQuiesce makes input of API callers and agents not wait until programs have
	// handled the input before it; see desktop.Config.NoQuiesce.
	NoQuiesce bool

	// DesktopUser is the user, by name or number, that the programs of desktops run
	// as. Start finds it in desktop.Config.RunAs and must use it. Empty: this
	// program's user. Another user needs root. When AgentHost.RunAs names a user
	// and DesktopUser is root, agents get no desktop.
	DesktopUser string

	// Secrets names environment variables that neither the programs of desktops nor
	// agents nor the processes of clients get. Deskhand's own variables, and those
	// with the password of a Postgres in EventLog ([eventlog.Secrets]), are always
	// among them.
	Secrets []string

	// NamedSecrets holds values that clients set and use by name, and never read. Nil: New
	// makes an empty store.
	NamedSecrets *secrets.Store

	// Media configures how viewers of the live view reach this program. The zero
	// value: by UDP port 59050, or by a free one if that is taken.
	Media webrtc.NetworkConfig

	// Agents configures which agents there are, and where they are installed. If its
	// Records, Logger or RunAs is zero, the server's, or AgentHost.RunAs, takes its
	// place. The server adds Secrets to its Secrets, and DesktopUser to its Untrusted.
	Agents registry.Config

	// TrustFolders lists folders. MCP servers and skills that are configured in them
	// and in the folders below them are used without approval. "/" trusts every
	// folder, as sandbox-agent does. Empty: configuration in a folder is used after
	// its approval; see package agents/folders.
	TrustFolders []string

	// AgentHost configures how agents run. The server replaces its Log, StateDir and
	// Folders, sets other fields that are zero, and adds Secrets and TrustFolders to
	// its own.
	AgentHost agents.Config

	// AgentURL is the URL of this server for agents on this machine, which get the
	// tools of a desktop from it. Empty: the first address of Serve.
	AgentURL string

	// AgentRelay is the command line that an agent without MCP over HTTP starts to
	// reach the tools of a desktop. The server adds --endpoint URL --desktop ID. See
	// deskhand mcp. Empty: such agents have no tools.
	AgentRelay []string

	// ProxySessions passes requests about an agent that runs in another server with the same
	// log on to that server, if its AgentHost.Address is set. Otherwise such requests are
	// answered 409, and the problem's server is that address.
	ProxySessions bool

	// EventLog configures the log of agents' sessions. With an empty DSN it is in the
	// state directory.
	EventLog eventlog.Config

	// Start starts a desktop. Its Config is complete, and Start may change it. The server
	// refuses a call for which the desktop lacks a method of *desktop.Desktop. Agents need
	// the methods of computer.Desktop. Nil: desktop.Start.
	Start func(ctx context.Context, id string, cfg desktop.Config) (fleet.Desktop, error)

	// Quiet, if not nil, is called when no request has come for 35 seconds. After
	// later requests it is called again in the same way. It can give memory back.
	// Health checks do not count as requests.
	Quiet func()

	// TracerProvider makes the spans of requests, of operations of desktops and of turns of
	// agents. They have no text that people, programs or agents write. Nil: there are none.
	TracerProvider trace.TracerProvider

	// Logger receives errors that clients are not shown and, with AccessLog,
	// one line per request. Nil: none.
	Logger *slog.Logger

	// AccessLog logs every request, without tokens in the URL.
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
	if c.NamedSecrets == nil {
		c.NamedSecrets = secrets.New()
	}
	if c.Version == "" {
		c.Version = apiVersion
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	c.Logger = slog.New(rest.LogHandler(c.Logger.Handler()))
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

// uploadDirs returns the directories from which browsers may upload, in addition to the homes of
// desktops.
func (c Config) uploadDirs() (dirs []string) {
	for _, r := range c.Roots {
		dirs = append(dirs, r.Path)
	}
	return dirs
}

func (c Config) validate() error {
	switch {
	case c.NoToken && c.Token != "":
		return errors.New("config: Token and NoToken exclude each other")
	case strings.TrimSpace(c.Token) != c.Token:
		return errors.New("config: Token must not begin or end with white space")
	case c.MaxBodyBytes < 0 || c.MaxUploadBytes < 0 || c.MaxViewers < 0:
		return errors.New("config: MaxBodyBytes, MaxUploadBytes and MaxViewers must not be negative")
	}
	if at := c.AgentHost.Address; at != "" && !isBaseURL(at) {
		return fmt.Errorf("config: AgentHost.Address %q must be a scheme and host, as in http://deskhand-0.deskhand:2468", at)
	}
	for _, o := range c.Origins {
		if o == "*" || o == "null" {
			continue
		}
		if !isBaseURL(o) {
			return fmt.Errorf("config: origin %q must be * or a scheme and host, as in https://example.com", o)
		}
	}
	return nil
}

// isBaseURL reports whether a text is a scheme and a host, without a path.
func isBaseURL(text string) bool {
	u, err := url.Parse(text)
	return err == nil && u.Scheme != "" && u.Host != "" && u.Path == "" && u.RawQuery == "" && u.Fragment == "" && u.User == nil
}
