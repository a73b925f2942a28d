package registry

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/deskhand/deskhand/internal/supervise"
)

// DefaultAskTimeout is the default of Config.AskTimeout.
const DefaultAskTimeout = time.Minute

// Config configures a [Registry]. The zero value has the agents of the table and the XDG
// directories.
type Config struct {
	// Dir is the directory of installed agents. Empty: $XDG_DATA_HOME/deskhand/agents.
	// Then agents are also searched in deskhand/agents of each directory of $XDG_DATA_DIRS.
	Dir string

	// Records returns the directory for records of npm's and agents' processes, so that
	// they can be ended after this program was killed. It is called once, before the first
	// process. Nil: no records.
	Records func() (string, error)

	// RunAs is the user, by name or number, of agents that Ask or Install run. Credentials
	// are searched in that user's home. Empty: this program's user. Another user needs
	// root.
	RunAs string

	// Untrusted names further users, by name or number, whose programs this program runs.
	// Agents that one of them could replace are not started.
	Untrusted []string

	// Home is the directory in which credentials are searched. Empty: the home of RunAs, or
	// $HOME.
	Home string

	// Env is the environment in which programs and credentials are searched. Nil: this
	// program's.
	Env []string

	// Custom lists agents in addition to the table. An agent with the name of one in the
	// table replaces it.
	Custom []Custom

	// Mock is the command line of the mock agent. Nil: deskhand mock-agent-process, with
	// deskhand from PATH.
	Mock []string

	// RequirePreinstall keeps [Registry.Prepare] from installing agents.
	RequirePreinstall bool

	// Secrets names environment variables that npm and agents never get, in addition to
	// deskhand's own.
	Secrets []string

	// AskTimeout bounds [Registry.Ask]. Zero: a minute.
	AskTimeout time.Duration

	// Logger gets debug messages about installs. Nil: none.
	Logger *slog.Logger
}

// Registry is the list of known agents and the state of their installs. Make one with [New].
type Registry struct {
	cfg    Config
	shared []string // directories of agents that are installed for all users
	user   supervise.User
	others []supervise.User // the users of Config.Untrusted, except user
	agents []Agent          // in the order of lists
	locks  fs.FS            // embeddedLocks, except in tests

	maxTime  time.Duration // installTime, except in tests
	maxBytes int64         // installBytes, except in tests

	log *slog.Logger

	group   func() (*supervise.Group, error) // of npm, and of agents that are asked
	started bool                             // group was called, by one of busy
	ctx     context.Context                  //nolint:containedctx // of no call: until Close
	cancel  context.CancelFunc
	close   func() error
	busy    sync.WaitGroup // installs and Asks
	asking  chan struct{}  // has an element for each agent that is being asked

	reading sync.Mutex // held while files with credentials are in memory

	mu       sync.Mutex          // guards the fields below, and busy's Add against Close's Wait
	observed map[string]observed // by agent
	installs map[string]progress // by agent
}

// New makes a registry. It starts nothing. It returns an [InvalidError] for an invalid
// Config, or an error if a user of Config cannot be found.
func New(cfg Config) (*Registry, error) {
	cfg.Custom, cfg.Mock, cfg.Env = slices.Clone(cfg.Custom), slices.Clone(cfg.Mock), slices.Clone(cfg.Env)
	cfg.AskTimeout = cmp.Or(cfg.AskTimeout, DefaultAskTimeout)
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	if cfg.AskTimeout < 0 {
		return nil, &InvalidError{"AskTimeout", "must not be negative"}
	}
	r := &Registry{
		cfg: cfg, log: cfg.Logger, locks: embeddedLocks, maxTime: installTime, maxBytes: installBytes,
		observed: map[string]observed{}, installs: map[string]progress{}, asking: make(chan struct{}, 2),
	}
	r.ctx, r.cancel = context.WithCancel(context.Background())
	var err error
	if r.user, err = supervise.LookupUser(cfg.RunAs); err != nil {
		return nil, err
	}
	for _, name := range cfg.Untrusted {
		other, err := supervise.LookupUser(name)
		if err != nil {
			return nil, err
		}
		if other.Name != r.user.Name {
			r.others = append(r.others, other)
		}
	}
	if r.agents, err = withCustom(agents, cfg.Custom); err != nil {
		return nil, err
	}
	if r.cfg.Dir == "" {
		if home := dataHome(r.variable); home != "" {
			r.cfg.Dir = filepath.Join(home, "deskhand", "agents")
		}
		r.shared = SharedDirs(r.variable("XDG_DATA_DIRS"))
	}
	r.group = sync.OnceValues(r.newGroup)
	r.close = sync.OnceValue(r.end)
	return r, nil
}

// Close ends installs and calls of Ask, and waits for their end. They return an error that
// wraps [ErrClosed]. The error of Close reports processes or records that could not be
// cleaned up. Close may be called more than once.
func (r *Registry) Close() error { return r.close() }

func (r *Registry) end() error {
	r.mu.Lock()
	r.cancel()
	r.mu.Unlock()
	r.busy.Wait() // they end their processes
	if !r.started {
		return nil
	}
	if g, err := r.group(); err == nil {
		return g.Close()
	}
	return nil // the install or Ask has returned the error
}

func (r *Registry) newGroup() (*supervise.Group, error) {
	r.started = true
	cfg := supervise.GroupConfig{Owner: "system", Logger: r.cfg.Logger}
	if r.cfg.Records != nil {
		var err error
		if cfg.Dir, err = r.cfg.Records(); err != nil {
			return nil, err
		}
	}
	return supervise.NewGroup(cfg)
}

// begin begins an operation that Close ends and waits for.
func (r *Registry) begin(ctx context.Context) (context.Context, func(), error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ctx.Err() != nil {
		return nil, nil, ErrClosed
	}
	r.busy.Add(1)
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(r.ctx, func() { cancel(ErrClosed) })
	return ctx, func() {
		stop()
		cancel(nil)
		r.busy.Done()
	}, nil
}

// Agents lists all agents: the table in its order, then custom agents by name.
func (r *Registry) Agents() []Agent {
	list := make([]Agent, len(r.agents))
	for i := range r.agents {
		list[i] = r.withObserved(r.agents[i])
	}
	return list
}

// Agent returns an agent, or [ErrUnknownAgent].
func (r *Registry) Agent(id string) (Agent, error) {
	a, err := r.find(id)
	if err != nil {
		return Agent{}, err
	}
	return r.withObserved(*a), nil
}

func (r *Registry) find(id string) (*Agent, error) {
	for i := range r.agents {
		if r.agents[i].ID == id {
			return &r.agents[i], nil
		}
	}
	return nil, fmt.Errorf("%w: %s", ErrUnknownAgent, id)
}

// IDs lists the ids of all agents.
func (r *Registry) IDs() []string {
	ids := make([]string, len(r.agents))
	for i, a := range r.agents {
		ids[i] = a.ID
	}
	return ids
}

// environment returns the environment in which programs and credentials are searched.
func (r *Registry) environment() []string {
	if r.cfg.Env != nil {
		return r.cfg.Env
	}
	return os.Environ()
}

func (r *Registry) variable(name string) string { return valueOf(r.environment(), name) }

func valueOf(env []string, name string) string {
	for _, kv := range slices.Backward(env) {
		if v, ok := strings.CutPrefix(kv, name+"="); ok {
			return v
		}
	}
	return ""
}

// environ returns the environment of a user's programs, with more variables.
func (r *Registry) environ(user supervise.User, set ...string) ([]string, error) {
	env := r.cfg.Env
	if env == nil {
		env = supervise.Inherit(false, r.cfg.Secrets...)
	}
	temp, err := user.TempVariable()
	return user.Environ(env, slices.Concat(temp, set)...), err
}

// Custom is an agent that is configured by its command line.
type Custom struct {
	// ID is its name: small letters, digits, - and _.
	ID string `json:"-"`

	// Command is the program and its arguments. It speaks ACP on its standard
	// input and output.
	Command []string `json:"command"`

	// Env is added to its environment.
	Env map[string]string `json:"env,omitempty"`

	// Name is the name for users. Empty: its ID.
	Name string `json:"name,omitempty"`

	// Note is a remark for users who choose an agent. Empty: none.
	Note string `json:"note,omitempty"`

	// Capabilities describes the agent. Nil: a default.
	Capabilities *Capabilities `json:"capabilities,omitempty"`
}

// withCustom returns the table with custom agents.
func withCustom(table []Agent, custom []Custom) ([]Agent, error) {
	list := slices.Clone(table)
	added := map[string]bool{}
	slices.SortFunc(custom, func(a, b Custom) int { return strings.Compare(a.ID, b.ID) })
	for _, c := range custom {
		if err := c.check(); err != nil {
			return nil, err
		}
		if added[c.ID] {
			return nil, &InvalidError{"agent " + c.ID, "is configured twice"}
		}
		added[c.ID] = true
		a := Agent{ID: c.ID, Name: cmp.Or(c.Name, c.ID), Note: c.Note, Custom: true, Capabilities: usual, command: slices.Clone(c.Command)}
		if c.Capabilities != nil {
			a.Capabilities = *c.Capabilities
		}
		for _, name := range slices.Sorted(maps.Keys(c.Env)) {
			a.setting = append(a.setting, name+"="+c.Env[name])
		}
		if i := slices.IndexFunc(list, func(a Agent) bool { return a.ID == c.ID }); i >= 0 {
			a.provider = list[i].provider
			list[i] = a
			continue
		}
		list = append(list, a)
	}
	return list, nil
}

var agentID = regexp.MustCompile(`^[0-9a-z_-]{1,64}$`)

func (c Custom) check() error {
	field := fmt.Sprintf("agent %q", c.ID)
	switch {
	case !agentID.MatchString(c.ID):
		return &InvalidError{field, "must have a name of 1 to 64 small letters, digits, - and _"}
	case len(c.Command) == 0 || c.Command[0] == "":
		return &InvalidError{field + ": command", `must name a program, as in ["my-agent", "--acp"]`}
	case slices.ContainsFunc(c.Command, hasNUL):
		return &InvalidError{field + ": command", "must not have a NUL character"}
	}
	for name, value := range c.Env {
		if name == "" || strings.Contains(name, "=") || hasNUL(name) || hasNUL(value) {
			return &InvalidError{field + ": env", fmt.Sprintf("has a name that no variable can have, or a NUL character: %q", name)}
		}
	}
	return nil
}

func hasNUL(s string) bool { return strings.ContainsRune(s, 0) }
