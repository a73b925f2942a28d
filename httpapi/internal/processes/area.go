package processes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"syscall"

	"github.com/deskhand/deskhand/desktop/secrets"
	"github.com/deskhand/deskhand/httpapi/internal/grants"
	"github.com/deskhand/deskhand/httpapi/internal/rest"
	"github.com/deskhand/deskhand/process"
)

// Config configures the routes of processes.
type Config struct {
	// Dir returns the folder in which it is recorded what to end should the server be
	// killed.
	Dir func() (string, error)

	// Environ is the environment of processes, and DesktopEnviron returns the environment of programs
	// on a desktop, which run as DesktopUser.
	Environ        []string
	DesktopEnviron func(desktop string) ([]string, error)
	DesktopUser    string

	// Secrets holds the secrets that processes can get in their environment.
	Secrets *secrets.Store

	// Publish is called for each change of a process: created, exited or deleted.
	Publish func(kind string, fields map[string]any)

	Logger *slog.Logger
}

// Area is the area of processes: those that clients started, and those that desktops
// run. The managers are made when one is first needed, since they keep records in the state
// directory.
type Area struct {
	rest.Group
	cfg Config

	mu     sync.Mutex // guards the fields below
	made   *managers
	closed bool
}

// managers are the managers of the processes that clients started. Their limits and records
// are separate, so that guests leave the processes of others alone.
type managers struct {
	own    *process.Manager
	guests *process.Manager // of tokens of the scope supervise
}

// of returns the manager for a token.
func (m *managers) of(g *grants.Grant) *process.Manager {
	if limited(g) {
		return m.guests
	}
	return m.own
}

// with returns the process of that id, and its manager.
func (m *managers) with(id string) (*process.Process, *process.Manager, error) {
	p, err := m.own.Find(id)
	if err == nil {
		return p, m.own, nil
	}
	p, err = m.guests.Find(id)
	if errors.Is(err, process.ErrNotFound) {
		return nil, nil, rest.Missing("process", id)
	}
	return p, m.guests, err
}

// list is Area.List.
func (m *managers) list(owner process.Owner) []process.Info {
	infos := m.own.List(owner)
	if owner == "" || owner == process.OwnerUser {
		infos = append(infos, m.guests.List(process.OwnerUser)...)
		slices.SortFunc(infos, process.Info.Compare)
	}
	return infos
}

// managers returns the managers, and makes them if need be.
func (a *Area) managers() (*managers, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.closed:
		return nil, rest.Closing()
	case a.made != nil:
		return a.made, nil
	}
	dir, err := a.cfg.Dir()
	if err != nil {
		return nil, err
	}
	cfg := process.Config{Dir: dir, Environ: a.cfg.Environ, Logger: a.cfg.Logger, OnChange: func(c process.Change, i process.Info) {
		a.cfg.Publish(string(c), map[string]any{"process": processOf(i)})
	}}
	own, err := process.New(cfg)
	if err != nil {
		return nil, err
	}
	guests, err := process.New(cfg)
	if err != nil {
		return nil, errors.Join(err, own.Close())
	}
	a.made = &managers{own, guests}
	return a.made, nil
}

// Manager returns the manager of the processes that tokens of the scope admin start.
func (a *Area) Manager() (*process.Manager, error) {
	m, err := a.managers()
	if err != nil {
		return nil, err
	}
	return m.own, nil
}

// List describes all processes of an owner, in the order of their starts. The owner "" selects
// processes of all owners. List returns nil if no process was started.
func (a *Area) List(owner process.Owner) []process.Info {
	a.mu.Lock()
	m := a.made
	a.mu.Unlock()
	if m == nil {
		return nil
	}
	return m.list(owner)
}

// find returns the process of that id.
func (a *Area) find(id string) (*process.Process, error) {
	m, err := a.managers()
	if err != nil {
		return nil, err
	}
	p, _, err := m.with(id)
	return p, err
}

// Close ends all processes.
func (a *Area) Close() error {
	a.mu.Lock()
	a.closed = true
	m := a.made
	a.mu.Unlock()
	if m == nil {
		return nil
	}
	ended := make(chan error, 1)
	go func() { ended <- m.guests.Close() }()
	return errors.Join(m.own.Close(), <-ended)
}

// processFields maps the fields of process.InvalidError to the fields of requests.
var processFields = map[string]string{
	"Command": "command", "Env": "env", "Owner": "owner", "User": "user", "MaxOutput": "maxOutputBytes", "Terminal": "terminal",
}

// Problem returns the problem for an error of package process, or nil if err is another error.
func Problem(err error) *rest.Problem {
	var bad *process.InvalidError
	var limit *process.LimitError
	var large *process.InputTooLargeError
	var start *process.StartError
	var input *process.InputError
	switch {
	case rest.NoSpaceLeft(err):
		return nil // rest has the answer to a full disk
	case errors.As(err, &bad):
		field := cmp.Or(processFields[bad.Field], bad.Field)
		return rest.InvalidRequest.Problem("invalid request: "+field+" "+bad.Reason).With("field", field)
	case errors.As(err, &limit):
		return rest.ConflictOf(fmt.Sprintf("max concurrent process limit reached (%d)", limit.Limit))
	case errors.As(err, &large):
		return rest.PayloadTooLarge.Problem(fmt.Sprintf("invalid request: input payload exceeds maxInputBytesPerRequest (%d)", large.Limit))
	case errors.Is(err, process.ErrNoRoom):
		return rest.Unavailable.Problem("the process was not started: "+process.ErrNoRoom.Error()).WithHeader("Retry-After", "5")
	case errors.As(err, &start):
		message := "failed to spawn process: " + start.Err.Error()
		return rest.StreamError.Problem("stream error: "+message).With("details", map[string]any{"message": message})
	case errors.As(err, &input) && errors.Is(err, context.DeadlineExceeded):
		message := fmt.Sprintf("the process took %d of %d bytes of input within %v; it may not be reading", input.Written, input.Size, inputPatience)
		return rest.TimedOut.Problem("timeout: "+message).
			With("details", map[string]any{"message": message, "bytesWritten": input.Written})
	case errors.Is(err, process.ErrInputClosed), errors.Is(err, syscall.EPIPE):
		return rest.ConflictOf("input of the process is closed")
	case errors.Is(err, process.ErrRunning):
		return rest.ConflictOf("process is still running; stop or kill it before delete")
	case errors.Is(err, process.ErrNotRunning):
		return rest.ConflictOf("process is not running")
	case errors.Is(err, process.ErrNotTerminal):
		return rest.ConflictOf("process is not running in tty mode")
	case errors.Is(err, process.ErrClosed):
		return rest.Closing()
	}
	return nil
}
