package agents

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"path/filepath"
	"slices"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/deskhand/deskhand/agents/eventlog"
	"github.com/deskhand/deskhand/agents/folders"
	"github.com/deskhand/deskhand/agents/mockagent"
	"github.com/deskhand/deskhand/agents/registry"
	"github.com/deskhand/deskhand/internal/supervise"
)

// Defaults of Config.
const (
	DefaultRequestTimeout  = 2 * time.Minute
	DefaultStartTimeout    = time.Minute
	DefaultRestoreTimeout  = 90 * time.Second
	DefaultGoneAfter       = 30 * time.Second
	DefaultIdleTimeout     = 30 * time.Minute
	DefaultMaxMessageBytes = 64 << 20
	DefaultSkillsAge       = 10 * time.Minute
)

// Config configures a [Host]. Log is required, and so is Registry or Launch.
type Config struct {
	// Log stores all messages before they are passed on. It must have only one host at a
	// time. The host does not close it.
	Log *eventlog.Log

	// Registry knows how agents are started, and installs them. If it has no command for
	// the agent mock, that agent runs inside this program, unless RunAs is another user.
	Registry *registry.Registry

	// Launch replaces Registry.
	Launch func(ctx context.Context, agent string) (Launch, error)

	// StateDir is the directory for records of processes, fetched skills and files of
	// built-in agents. Empty: none. Then a new host cannot end processes that a killed
	// program has left, and skills are fetched into a temporary directory that Close
	// removes.
	StateDir string

	// CleanEnv gives agents only a part of this program's environment: the variables that
	// package supervise has in a minimal one, and those that agents need to reach their
	// models (keys, base URLs, proxies, certificates).
	CleanEnv bool

	// Secrets names environment variables that agents never get, in addition to
	// deskhand's own and the secrets of Log ([eventlog.Secrets]).
	Secrets []string

	// RunAs is the user, by name or number, that agents run as. Empty: this program's
	// user. Another user needs root.
	RunAs string

	// RequestTimeout bounds requests of clients, except session/prompt. Zero: two minutes.
	RequestTimeout time.Duration

	// StartTimeout bounds the requests with which the host initializes a restarted agent.
	// Zero: a minute.
	StartTimeout time.Duration

	// RestoreTimeout bounds the opening of a session in a new process. Zero: 90 s.
	RestoreTimeout time.Duration

	// IdleTimeout is how long an agent keeps running without a request, an open question
	// or a follower. The next request starts it again. Zero: DefaultIdleTimeout. Negative:
	// no limit.
	IdleTimeout time.Duration

	// GoneAfter is how long another host with the same log must be gone until this one
	// completes that host's records. A request for one of its sessions completes them
	// immediately. Zero: half a minute.
	GoneAfter time.Duration

	// Address is where clients of other hosts with the same log reach this host, for example
	// http://deskhand-0.deskhand:2468. [ElsewhereError] has it. Empty: it is not known.
	Address string

	// MaxAgents bounds the number of agents that run. Zero: no limit.
	MaxAgents int

	// MinMemory is the number of bytes of memory that must be available for an agent to
	// start. Zero: it starts in any case.
	MinMemory int64

	// MaxMessageBytes bounds a line of an agent. A longer line is dropped, and followers
	// get a notification about it. Zero: 64 MiB.
	MaxMessageBytes int

	// SkillsAge is the age from which a copy of a repository with skills is fetched again
	// when a session starts or is opened. A copy of a commit that is named by its full id
	// is never fetched again. Zero: ten minutes. Negative: no copy is.
	SkillsAge time.Duration

	// Folders stores the configuration of sessions' folders and decides which entries
	// count. Nil: a store in StateDir that trusts TrustFolders. [Host.Folders] returns the
	// store that is used.
	Folders *folders.Store

	// TrustFolders lists absolute paths of folders. Entries of these folders, and of all
	// folders below them, count without approval. It must be empty when Folders is set.
	TrustFolders []string

	// Permissions is the policy of sessions without a policy. Zero: clients are asked,
	// without a time limit.
	Permissions Policy

	// Desktop is the id of the desktop of agents for which no desktop is chosen. Empty:
	// none.
	Desktop string

	// Mount returns an agent's access to a desktop. process is the same in all calls for
	// one process of the agent, and is done at the end of the process. Nil: agents get no
	// desktops.
	Mount func(ctx, process context.Context, desktop, agent string) (Mount, error)

	// FindDesktop returns an error if there is no such desktop. It must not block. It is
	// called before an agent is installed. Nil: only Mount is called.
	FindDesktop func(desktop string) error

	// Observe gets the results of initialize and session/new, which describe an agent. It
	// must not block. Nil: Registry.Observe, if Registry is set.
	Observe func(agent, method string, result json.RawMessage)

	// OnTurn is called at the end of each turn. It must not block. Nil: none.
	OnTurn func(EndedTurn)

	// Tracer makes the spans of turns, of their calls of tools and of their questions. The
	// agent gets the span of its turn in _meta of the prompt. Nil: there are no spans.
	Tracer trace.Tracer

	// Logger gets errors that no caller gets. Nil: none.
	Logger *slog.Logger

	knows bool // Registry decides which agents there are
}

// Mount is an agent's access to a desktop.
type Mount struct {
	Servers []MCPServer // tools; of several with one name, the agent gets the first that it can use
	Env     []string    // for the agent's environment: DISPLAY and related variables
}

func (c Config) withDefaults() (Config, error) {
	switch {
	case c.Log == nil:
		return c, errors.New("config: Log is missing")
	case c.Registry == nil && c.Launch == nil:
		return c, errors.New("config: Registry is missing")
	case c.Folders != nil && len(c.TrustFolders) > 0:
		return c, errors.New("config: Folders and TrustFolders exclude each other; give the folders to folders.Open")
	case c.MaxAgents < 0 || c.MinMemory < 0:
		return c, errors.New("config: MaxAgents and MinMemory must not be negative")
	case c.RequestTimeout < 0 || c.StartTimeout < 0 || c.RestoreTimeout < 0 || c.GoneAfter < 0 || c.MaxMessageBytes < 0:
		return c, errors.New("config: RequestTimeout, StartTimeout, RestoreTimeout, GoneAfter and MaxMessageBytes must not be negative")
	}
	if err := c.Permissions.check(); err != nil {
		return c, err
	}
	if c.StateDir != "" {
		var err error
		if c.StateDir, err = filepath.Abs(c.StateDir); err != nil {
			return c, err
		}
	}
	c.Secrets = slices.Concat(c.Secrets, c.Log.Secrets())
	c.RequestTimeout = cmp.Or(c.RequestTimeout, DefaultRequestTimeout)
	c.StartTimeout = cmp.Or(c.StartTimeout, DefaultStartTimeout)
	c.RestoreTimeout = cmp.Or(c.RestoreTimeout, DefaultRestoreTimeout)
	c.GoneAfter = cmp.Or(c.GoneAfter, DefaultGoneAfter)
	c.IdleTimeout = cmp.Or(c.IdleTimeout, DefaultIdleTimeout)
	c.MaxMessageBytes = cmp.Or(c.MaxMessageBytes, DefaultMaxMessageBytes)
	c.SkillsAge = cmp.Or(c.SkillsAge, DefaultSkillsAge)
	if c.Observe == nil {
		c.Observe = func(string, string, json.RawMessage) {}
		if c.Registry != nil {
			c.Observe = c.Registry.Observe
		}
	}
	if c.FindDesktop == nil {
		c.FindDesktop = func(string) error { return nil }
	}
	if c.Launch == nil {
		c.Launch, c.knows = c.launch, true
	}
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	return c, nil
}

func (c Config) environ() []string { return inherited(c.CleanEnv, c.Secrets) }

// mockName is the name of the built-in agent.
const mockName = "mock"

// launch is the Launch of Registry.
func (c Config) launch(ctx context.Context, agent string) (Launch, error) {
	cmd, err := c.Registry.Prepare(ctx, agent, nil)
	if agent == mockName && errors.Is(err, registry.ErrNotInstalled) && c.runsAsSelf() {
		return Launch{Run: c.runMock}, nil
	}
	if err != nil {
		return Launch{}, err
	}
	if err := c.Registry.CheckTrusted(cmd); err != nil {
		return Launch{}, &StartError{agent, err}
	}
	return Launch{Version: cmd.Version, Path: cmd.Path, Args: cmd.Args, Env: cmd.Env}, nil
}

// runsAsSelf reports whether agents run as this program's user.
func (c Config) runsAsSelf() bool {
	user, err := supervise.LookupUser(c.RunAs)
	return err == nil && user.Credential == nil
}

// runMock runs the mock agent in programs that have no command for it.
func (c Config) runMock(ctx context.Context, in io.Reader, out io.Writer) error {
	cfg := mockagent.Config{Env: c.environ(), Logger: c.Logger}
	if c.StateDir != "" {
		cfg.Dir = filepath.Join(c.StateDir, "mock")
	}
	return mockagent.Run(ctx, in, out, cfg)
}
