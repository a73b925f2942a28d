package httpapi

import (
	"context"

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
