package agents

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"path/filepath"
	"slices"
	"time"

	"github.com/deskhand/deskhand/agents/eventlog"
	"github.com/deskhand/deskhand/agents/folders"
	"github.com/deskhand/deskhand/agents/mockagent"
	"github.com/deskhand/deskhand/agents/registry"
)

// Defaults that a zero Config stands for.
const (
	DefaultRequestTimeout  = 2 * time.Minute
	DefaultStartTimeout    = time.Minute
	DefaultRestoreTimeout  = 90 * time.Second
	DefaultGoneAfter       = 30 * time.Second
	DefaultIdleTimeout     = 30 * time.Minute
	DefaultMaxMessageBytes = 64 << 20
	DefaultSkillsAge       = 10 * time.Minute
)

// Config configures a [Host]. Log and one of Registry and Launch have to be
// set.
type Config struct {
	// Log is where everything is written down before it is passed on. It has one
	// host at a time, and is closed after it by who opened it.
	Log *eventlog.Log

	// Registry knows how agents are started, and installs them. The agent mock
	// runs inside of this program where the registry has no command for it.
	Registry *registry.Registry

	// Launch replaces Registry.
	Launch func(ctx context.Context, agent string) (Launch, error)

	// StateDir is where the host keeps the record of what runs, skills that were
	// fetched and what built-in agents keep. Empty: nowhere, so that nothing
	// ends what agents left running when this program was killed, and skills are
	// fetched into a temporary directory that Close removes.
	StateDir string

	// CleanEnv gives agents little of this program's environment: as package
	// supervise has it, and beside that what agents need to reach their models
	// (keys, base URLs, proxies, certificates).
	CleanEnv bool

	// Secrets names environment variables that agents never see, beside
	// deskhand's own and those of Log ([eventlog.Secrets]).
	Secrets []string

	// RunAs is the user, by name or number, that agents run as. Empty: the one
	// of this program. Another one needs root.
	RunAs string

	// RequestTimeout bounds requests of clients, all but session/prompt. Zero:
	// two minutes.
	RequestTimeout time.Duration

	// StartTimeout bounds what the host does by itself after it has started an
	// agent again. Zero: a minute.
	StartTimeout time.Duration

	// RestoreTimeout bounds how long a session takes to be opened in a new
	// process. Zero: 90 s.
	RestoreTimeout time.Duration

	// IdleTimeout is how long an agent keeps running without a request, an open
	// question or a follower, such as after its client has disconnected. The next
	// request starts it again. Zero: DefaultIdleTimeout. Negative: no limit.
	IdleTimeout time.Duration

	// GoneAfter is how long another host with the same log must be gone until this
	// one completes the record of what ended with it. Whoever wants to go on with
	// a session of it need not wait for that. Zero: half a minute.
	GoneAfter time.Duration

	// MaxMessageBytes bounds what an agent writes in one line; longer ones are
	// dropped and told of. Zero: 64 MiB.
	MaxMessageBytes int

	// SkillsAge is how old a copy of a repository with skills may be when a session
	// starts, or is opened again: older ones are fetched anew, unless they are of
	// a commit that was asked for by its full id. Zero: ten minutes. Negative: they
	// stay as they are.
	SkillsAge time.Duration

	// Folders stores the configuration of sessions' folders and decides which
	// entries count. Nil: a store in StateDir that trusts TrustFolders.
	// [Host.Folders] returns the store that is used.
	Folders *folders.Store

	// TrustFolders lists absolute paths of folders. Entries of these folders, and
	// of all folders below them, count without approval. It must be empty when
	// Folders is set.
	TrustFolders []string

	// Permissions is the policy of sessions that have none of their own. Zero:
	// somebody is asked, for as long as it takes.
	Permissions Policy

	// Desktop is the id of the desktop that agents get which ask for none.
	// Empty: none.
	Desktop string

	// Mount says how an agent reaches a desktop. process is the same in all calls
	// for one process of the agent, and is done when that has ended. Nil: not at all.
	Mount func(ctx, process context.Context, desktop, agent string) (Mount, error)

	// FindDesktop says at once whether there is a desktop, before an agent is
	// installed for it. Nil: that is left to Mount.
	FindDesktop func(desktop string) error

	// Observe hears the results of initialize and session/new, in which agents
	// tell what they can do. Nil: Registry.Observe, if there is one.
	Observe func(agent, method string, result json.RawMessage)

	// Logger hears what goes wrong behind the callers' backs. Nil: nobody does.
	Logger *slog.Logger

	knows bool // Registry says which agents there are
}

// Mount is how an agent reaches a desktop.
type Mount struct {
	Servers []MCPServer // the desktop as tools: of those with one name, the first that the agent can use
	Env     []string    // for its environment: DISPLAY and what belongs to it
}

func (c Config) withDefaults() (Config, error) {
	switch {
	case c.Log == nil:
		return c, errors.New("config: Log is missing")
	case c.Registry == nil && c.Launch == nil:
		return c, errors.New("config: Registry is missing")
	case c.RequestTimeout < 0 || c.StartTimeout < 0 || c.RestoreTimeout < 0 || c.GoneAfter < 0 || c.MaxMessageBytes < 0:
		return c, errors.New("config: RequestTimeout, StartTimeout, RestoreTimeout, GoneAfter and MaxMessageBytes must not be negative")
	}
	if c.Folders != nil && len(c.TrustFolders) > 0 {
		return c, errors.New("config: Folders and TrustFolders exclude each other; give the folders to folders.Open")
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
	setDefault(&c.RequestTimeout, DefaultRequestTimeout)
	setDefault(&c.StartTimeout, DefaultStartTimeout)
	setDefault(&c.RestoreTimeout, DefaultRestoreTimeout)
	setDefault(&c.GoneAfter, DefaultGoneAfter)
	setDefault(&c.IdleTimeout, DefaultIdleTimeout)
	setDefault(&c.MaxMessageBytes, DefaultMaxMessageBytes)
	setDefault(&c.SkillsAge, DefaultSkillsAge)
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
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c, nil
}

func setDefault[T comparable](v *T, d T) {
	var zero T
	if *v == zero {
		*v = d
	}
}

// folders is what keeps the configuration of folders.
func (c Config) folders() (*folders.Store, error) {
	if c.Folders != nil {
		return c.Folders, nil
	}
	return folders.Open(folders.Config{StateDir: c.StateDir, Trust: c.TrustFolders, RunAs: c.RunAs})
}

func (c Config) environ() []string { return inherited(c.CleanEnv, c.Secrets) }

// mock is the name of the agent that is a part of this program.
const mock = "mock"

// launch asks the registry.
func (c Config) launch(ctx context.Context, agent string) (Launch, error) {
	cmd, err := c.Registry.Prepare(ctx, agent, nil)
	if agent == mock && errors.Is(err, registry.ErrNotInstalled) {
		return Launch{Run: c.runMock}, nil
	}
	if err != nil {
		return Launch{}, err
	}
	return Launch{Version: cmd.Version, Path: cmd.Path, Args: cmd.Args, Env: cmd.Env}, nil
}

// runMock is the mock agent for programs that are not deskhand, which have no
// command to start it as a child.
func (c Config) runMock(ctx context.Context, in io.Reader, out io.Writer) error {
	cfg := mockagent.Config{Logger: c.Logger}
	if c.StateDir != "" {
		cfg.Dir = filepath.Join(c.StateDir, "mock")
	}
	return mockagent.Run(ctx, in, out, cfg)
}
