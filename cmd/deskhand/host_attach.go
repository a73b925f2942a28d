//go:build !robotgo

package main

import (
	"context"
	"os"

	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/desktop/fleet"
)

// hostDesktop is a desktop whose status says that it is the host's.
type hostDesktop struct{ *desktop.Desktop }

func (d hostDesktop) Status() desktop.Status {
	s := d.Desktop.Status()
	s.Host = true
	return s
}

// startHost attaches to the desktop of this session, by X11.
func startHost(ctx context.Context, cfg desktop.Config) (fleet.Desktop, error) {
	d, err := desktop.Attach(ctx, os.Getenv("DISPLAY"), cfg)
	if err != nil {
		return nil, err
	}
	return hostDesktop{d}, nil
}
