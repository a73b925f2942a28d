package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/pflag"
	"golang.org/x/term"

	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/httpapi"
)

// hostFlags are about the desktop that somebody sits at.
type hostFlags struct {
	on  bool
	yes bool
}

func (f *hostFlags) register(flags *pflag.FlagSet) {
	flags.BoolVar(&f.on, "host-desktop", false, "drive the desktop that you sit at, as main; "+panicKeys+" stops the server")
	flags.BoolVarP(&f.yes, "yes", "y", false, "do not ask before --host-desktop")
}

const (
	panicChord = "ctrl+alt+shift+Escape"
	panicKeys  = "Ctrl+Alt+Shift+Esc" // for people
	hostID     = "main"
)

// errPanic is why the server ends when the chord is pressed.
var errPanic = errors.New(panicKeys + " was pressed: the server has ended")

// prepare has the server drive the desktop of this session, if its user agrees.
func (f *hostFlags) prepare(p program, noToken bool, cfg *httpapi.Config) error {
	switch {
	case !f.on:
		return nil
	case noToken:
		return usagef("--host-desktop excludes --no-token: everybody who reaches the server would have your desktop")
	case cfg.DesktopUser != "":
		return usagef("--host-desktop excludes --desktop-user: its programs are those of the user who sits at it")
	case os.Getenv("DISPLAY") == "":
		return errors.New("--host-desktop: DISPLAY is not set; start this from a terminal of that desktop")
	}
	if err := f.ask(p); err != nil {
		return err
	}
	cfg.Start = func(ctx context.Context, id string, cfg desktop.Config) (httpapi.Desktop, error) {
		if id == hostID {
			return startHost(ctx, cfg)
		}
		d, err := desktop.Start(ctx, cfg)
		if err != nil {
			return nil, err // not d: a nil *desktop.Desktop is no nil Desktop
		}
		return d, nil
	}
	return nil
}

// ask asks the user.
func (f *hostFlags) ask(p program) error {
	if f.yes {
		return nil
	}
	if !term.IsTerminal(int(p.stdin.Fd())) {
		return usagef("standard input is no terminal to ask on; give --yes")
	}
	fmt.Fprintf(p.stdout, "Whoever has the token will see the desktop that you sit at, and type and click on it.\n%s stops it. Go on? [y/N] ", panicKeys)
	answer, err := bufio.NewReader(p.stdin).ReadString('\n')
	if err != nil {
		return fmt.Errorf("read the answer: %w", err)
	}
	if a := strings.ToLower(strings.TrimSpace(answer)); a != "y" && a != "yes" {
		return errors.New("nothing was started")
	}
	return nil
}

// run runs the server until the chord is pressed, if it drives the desktop that
// somebody sits at. Without the chord it does not begin.
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
