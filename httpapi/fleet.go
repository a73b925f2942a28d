package httpapi

import (
	"context"
	"path/filepath"

	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/desktop/fleet"
	"github.com/deskhand/deskhand/httpapi/internal/rest"
	"github.com/deskhand/deskhand/internal/userhome"
)

// ErrInUse is returned if another server uses the state directory. The error names its
// process: end it, or choose another StateDir.
var ErrInUse = fleet.ErrInUse

// fleetConfig returns the configuration of the desktops.
func (c Config) fleetConfig(onDelete func(id string)) fleet.Config {
	return fleet.Config{
		StateDir: userhome.Expand(c.StateDir), StateName: c.StateName,
		RecordingsDir: userhome.Expand(c.RecordingsDir), Retention: c.Retention, MaxDesktops: c.MaxDesktops,
		RunAs: c.DesktopUser, Untrusted: []string{c.AgentHost.RunAs}, Media: c.Media, OnDelete: onDelete, Logger: c.Logger,
		Start: func(ctx context.Context, id string, cfg desktop.Config) (fleet.Desktop, error) {
			return c.Start(ctx, id, cfg)
		},
	}
}

// running returns a desktop while it runs.
func running(inst *fleet.Instance) (Desktop, error) {
	d, err := inst.Desktop()
	if err != nil {
		return nil, err
	}
	full, _ := d.(Desktop) // which Config.Start returned
	return full, nil
}

// startInstance starts a desktop with the default options, unless it runs. The error is
// a *Problem, or that of ctx.
func (s *Server) startInstance(ctx context.Context, id string) (Desktop, error) {
	inst, err := s.fleet.Find(id)
	if err == nil {
		err = inst.Start(ctx, (&startOptions{}).options(s.cfg))
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	var d Desktop
	if err == nil {
		d, err = running(inst)
	}
	if err != nil {
		return nil, problemOf(err, rest.RuntimeFailed)
	}
	return d, nil
}

// desktopEnviron is the environment of programs on a desktop.
func (s *Server) desktopEnviron(id string) ([]string, error) {
	var d fleet.Desktop
	inst, err := s.fleet.Find(id)
	if err == nil {
		d, err = inst.Desktop()
	}
	if err != nil {
		return nil, asProblem(err)
	}
	e, ok := d.(interface{ Environ() ([]string, error) })
	if !ok {
		return nil, rest.UnsupportedAction.WithCode("This kind of desktop has no environment that processes could be given; leave desktop out")
	}
	environ, err := e.Environ()
	return environ, asProblem(err)
}

// asProblem returns the problem for an error of the domain, or err if there is none.
func asProblem(err error) error {
	if p := problemTable(err); p != nil {
		return p
	}
	return err
}

// processDir is where, in a state directory, it is recorded what to end should
// the server be killed.
func processDir(state string) string { return filepath.Join(state, "processes") }

// processDir returns that folder in the state directory, which it claims.
func (s *Server) processDir() (string, error) {
	dir, err := s.fleet.StateDir().Claim()
	return processDir(dir), asProblem(err)
}
