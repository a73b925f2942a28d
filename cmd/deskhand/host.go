package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/pflag"

	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/desktop/fleet"
	"github.com/deskhand/deskhand/httpapi"
)

// hostFlags configure the host desktop: the desktop of the user that starts the server.
type hostFlags struct {
	on  bool
	yes bool
}

func (f *hostFlags) register(flags *pflag.FlagSet) {
	flags.BoolVar(&f.on, "host-desktop", false, "control the desktop that you sit at, as main; "+panicKeys+" stops the server")
	flags.BoolVarP(&f.yes, "yes", "y", false, "do not ask for confirmation of --host-desktop")
}

const (
	panicChord = "ctrl+alt+shift+Escape"
	panicKeys  = "Ctrl+Alt+Shift+Esc" // for people
	hostID     = "main"
)

// errPanic ends the server when the chord is pressed.
var errPanic = errors.New(panicKeys + " was pressed: the server has ended")

// prepare configures the server for the host desktop, if its user agrees.
func (f *hostFlags) prepare(p program, noToken bool, cfg *httpapi.Config) error {
	switch {
	case !f.on:
		return nil
	case noToken:
		return usagef("--host-desktop excludes --no-token: every client that reaches the server would control your desktop")
	case cfg.DesktopUser != "":
		return usagef("--host-desktop excludes --desktop-user: the programs of your desktop run as you")
	case os.Getenv("DISPLAY") == "":
		return errors.New("--host-desktop: DISPLAY is not set; start this from a terminal of that desktop")
	}
	if !f.yes {
		question := "Every client with the token will see the desktop that you sit at, and type and click on it.\n" + panicKeys + " stops it. Go on?"
		if err := p.confirm(question, "nothing was started"); err != nil {
			return err
		}
	}
	cfg.Start = func(ctx context.Context, id string, cfg desktop.Config) (fleet.Desktop, error) {
		if id == hostID {
			return startHost(ctx, cfg)
		}
		d, err := desktop.Start(ctx, cfg)
		if err != nil {
			return nil, err // d would be a non-nil interface
		}
		return d, nil
	}
	return nil
}

// run runs the server. With the host desktop it ends when the chord is pressed, and
// does not begin if the chord cannot be watched.
func (f *hostFlags) run(ctx context.Context, serve func(context.Context) error) error {
	if !f.on {
		return serve(ctx)
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	watch, err := desktop.WatchChord(ctx, os.Getenv("DISPLAY"), "", panicChord, func() { stop(errPanic) })
	if err != nil {
		return fmt.Errorf("--host-desktop: %s would not stop the server: %w", panicKeys, err)
	}
	err = errors.Join(serve(ctx), watch.Close())
	if errors.Is(context.Cause(ctx), errPanic) {
		err = errors.Join(err, errPanic)
	}
	return err
}
