//go:build robotgo

package main

import (
	"context"

	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/desktop/robot"
	"github.com/deskhand/deskhand/httpapi"
)

// startHost controls the desktop of this session through robotgo.
func startHost(ctx context.Context, cfg desktop.Config) (httpapi.Desktop, error) {
	d, err := robot.Start(ctx, robot.Config{ID: cfg.ID, Policy: cfg.Policy})
	if err != nil {
		return nil, err
	}
	return d, nil
}
