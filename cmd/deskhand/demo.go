package main

import (
	"context"
	"errors"
	"log/slog"

	"github.com/deskhand/deskhand/agents/computer"
	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/httpapi"
)

// startDesktop starts the desktop for --desktop, --demo and --host-desktop.
func (p program) startDesktop(ctx context.Context, s *httpapi.Server, f serverFlags, log *slog.Logger) error {
	if !f.desktop && !f.demo && !f.onHost.on {
		return nil
	}
	d, err := s.StartDesktop(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return nil //nolint:nilerr // a signal came before the desktop was up
		}
		return err // it names the command that installs missing programs
	}
	if l, ok := d.(computer.Launcher); ok && f.demo {
		furnish(ctx, l, log)
	}
	return nil
}

// greeting is the page of the demo's browser. It needs no network.
const greeting = `data:text/html,<title>deskhand</title><style>body{font:20px/1.5 sans-serif;max-width:28em;margin:12vh auto;` +
	`padding:0 1em;color:%232e3440}h1{font-weight:600}</style><h1>A desktop of your own</h1>` +
	`<p>This browser runs on a virtual display. Click and type into the picture, or let a program do it over HTTP.</p>` +
	`<input autofocus size=30 placeholder="Type here">`

// furnish launches a terminal and a browser on the demo's desktop, the first
// installed one of each kind.
func furnish(ctx context.Context, d computer.Launcher, log *slog.Logger) {
	browserFlags := []string{"--no-first-run", "--no-default-browser-check", "--window-position=690,40", "--window-size=720,820", greeting}
	choices := []struct {
		what string
		apps []desktop.Launch
	}{
		{"terminal", []desktop.Launch{
			{App: "xterm", Args: []string{"-geometry", "80x30+20+40", "-fa", "Monospace", "-fs", "10"}},
			{App: "x-terminal-emulator"},
		}},
		{"browser", []desktop.Launch{
			{App: "chromium", Args: browserFlags},
			{App: "chromium-browser", Args: browserFlags},
			{App: "google-chrome", Args: browserFlags},
			{App: "firefox", Args: []string{greeting}},
			{App: "firefox-esr", Args: []string{greeting}},
		}},
	}
	for _, choice := range choices {
		if err := launchFirst(ctx, d, choice.apps); err != nil {
			log.Warn("the demo goes without a "+choice.what, "error", err)
		}
	}
}

// launchFirst launches the first of these programs that is installed, and waits
// for its window.
func launchFirst(ctx context.Context, d computer.Launcher, apps []desktop.Launch) error {
	err := errors.New("nothing to launch")
	for _, app := range apps {
		app.Wait = true
		_, err = d.Launch(ctx, app)
		if !errors.Is(err, desktop.ErrAppNotFound) {
			return err
		}
	}
	return err
}
