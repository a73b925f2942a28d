package httpapi

import (
	"path/filepath"

	"github.com/deskhand/deskhand/desktop/fleet"
	"github.com/deskhand/deskhand/internal/userhome"
)

// ErrInUse is returned if another server uses the state directory. The error names its
// process: end it, or choose another StateDir.
var ErrInUse = fleet.ErrInUse

// fleetConfig returns the configuration of the desktops.
func (c Config) fleetConfig(onDelete func(id string), inUse func(id string) bool) fleet.Config {
	return fleet.Config{
		StateDir: userhome.Expand(c.StateDir), StateName: c.StateName,
		RecordingsDir: userhome.Expand(c.RecordingsDir), Retention: c.Retention, MaxDesktops: c.MaxDesktops, MinMemory: c.MinMemory, IdleStop: c.DesktopIdleStop, InUse: inUse,
		RunAs: c.DesktopUser, Untrusted: []string{c.AgentHost.RunAs}, Media: c.Media, Start: c.Start, OnDelete: onDelete, Logger: c.Logger,
	}
}

// ownDirs returns the directories of the server's own files.
func (s *Server) ownDirs() []string {
	dirs := []string{s.fleet.StateDir().Path()}
	if s.cfg.RecordingsDir != "" {
		dirs = append(dirs, userhome.Expand(s.cfg.RecordingsDir))
	}
	return dirs
}

// processDir is where, in a state directory, it is recorded what to end should
// the server be killed.
func processDir(state string) string { return filepath.Join(state, "processes") }

// processDir returns that folder in the state directory, which it claims.
func (s *Server) processDir() (string, error) {
	dir, err := s.fleet.StateDir().Claim()
	return processDir(dir), asProblem(err)
}
