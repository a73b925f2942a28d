//go:build robotgo

package main

import (
	"context"

	"github.com/deskhand/deskhand/agents/computer"
	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/desktop/fleet"
	"github.com/deskhand/deskhand/desktop/robot"
)

// The HTTP API needs these methods of a desktop.
var _ computer.Desktop = (*robot.Desktop)(nil)

// startHost controls the desktop of this session through robotgo.
func startHost(ctx context.Context, cfg desktop.Config) (fleet.Desktop, error) {
	d, err := robot.Start(ctx, robot.Config{ID: cfg.ID, Policy: cfg.Policy, SecretValue: cfg.SecretValue})
	if err != nil {
		return nil, err
	}
	return d, nil
}
