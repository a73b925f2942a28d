package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/deskhand/deskhand/internal/supervise"
)

const aboutInstall = `Installs the programs that desktops need, with the system's package manager:
an X server, a window manager, D-Bus, video and sound tools, a terminal, fonts.`

// packageManager is a way to install packages.
type packageManager struct {
	name     string
	program  string
	refresh  []string // arguments that fetch the package lists; nil: not needed
	install  []string // arguments before the packages
	env      []string // for both
	query    []string // program and arguments before the packages; prints a line for each installed one
	packages []string
	fonts    []string
}

// managers are the supported package managers, in the order of the search.
var managers = []packageManager{
	{
		name: "apt", program: "apt-get", refresh: []string{"update"}, install: []string{"install", "-y", "--no-install-recommends", "-o", "Dpkg::Use-Pty=0"},
		env:   []string{"DEBIAN_FRONTEND=noninteractive"},
		query: []string{"dpkg-query", "-W", "-f", "${Package} ${db:Status-Status}\\n"},
		packages: []string{
			"xvfb", "openbox", "dbus", "ffmpeg", "pulseaudio", "xdg-utils", "xauth", "x11-xserver-utils", "xterm", "at-spi2-core", "ca-certificates",
		},
		fonts: []string{"fonts-dejavu-core", "fonts-noto-cjk", "fonts-noto-color-emoji"},
	},
	{
		name: "dnf", program: "dnf", install: []string{"install", "-y", "--setopt=install_weak_deps=False"},
		query: []string{"rpm", "-q", "--qf", "%{NAME}\\n"},
		packages: []string{
			"xorg-x11-server-Xvfb", "openbox", "dbus-daemon", "ffmpeg-free", "pulseaudio", "xdg-utils", "xorg-x11-xauth",
			"xsetroot", "xrdb", "xterm", "at-spi2-core", "ca-certificates",
		},
		fonts: []string{"dejavu-sans-fonts", "dejavu-sans-mono-fonts", "google-noto-sans-cjk-fonts", "google-noto-color-emoji-fonts"},
	},
	{
		name: "apk", program: "apk", install: []string{"add", "--no-cache"},
		query: []string{"apk", "info", "-e"},
		packages: []string{
			"xvfb", "openbox", "dbus", "ffmpeg", "pulseaudio", "xdg-utils", "xauth", "xsetroot", "xrdb", "xterm", "at-spi2-core", "ca-certificates",
		},
		fonts: []string{"font-dejavu", "font-noto-cjk", "font-noto-emoji"},
	},
}

func (p program) install(ctx context.Context, _ accessFlags, args []string) error {
	flags := p.flags("install desktop", aboutInstall)
	yes := flags.BoolP("yes", "y", false, "do not ask for confirmation")
	printOnly := flags.Bool("print-only", false, "print the commands instead of running them")
	name := flags.String("package-manager", "", "`apt|dnf|apk` (default: the installed one)")
	noFonts := flags.Bool("no-fonts", false, "do not install fonts")
	flags.Bool("no-telemetry", false, "accepted for compatibility; there is no telemetry")
	p.ignoreAccess(flags)
	if err := parse(flags, args); err != nil {
		return err
	}
	if flags.NArg() != 1 || flags.Arg(0) != "desktop" {
		return usagef("install what? There is: install desktop")
	}
	m, err := chooseManager(*name)
	if err != nil {
		return err
	}
	packages := m.packages
	if !*noFonts {
		packages = slices.Concat(packages, m.fonts)
	}
	if *printOnly {
		commands, _ := m.commands(packages, os.Geteuid() == 0)
		for _, c := range commands {
			fmt.Fprintln(p.stdout, strings.Join(c, " "))
		}
		return nil
	}
	if packages, err = m.missing(ctx, packages); err != nil {
		return err
	}
	if len(packages) == 0 {
		_, err = fmt.Fprintln(p.stdout, "Everything is already installed.")
		return err
	}
	commands, err := m.commands(packages, os.Geteuid() == 0)
	if err != nil {
		return err
	}
	for _, c := range commands {
		fmt.Fprintln(p.stdout, strings.Join(c, " "))
	}
	if !*yes {
		if err := p.confirm("Run this?", "nothing was installed"); err != nil {
			return err
		}
	}
	return p.execute(ctx, commands, m.env)
}

func chooseManager(name string) (packageManager, error) {
	for _, m := range managers {
		if name == m.name {
			return m, nil
		}
	}
	if name != "" {
		return packageManager{}, usagef("--package-manager must be apt, dnf or apk, not %q", name)
	}
	for _, m := range managers {
		if _, err := supervise.LookPath(m.program, os.Environ()); err == nil {
			return m, nil
		}
	}
	return packageManager{}, fmt.Errorf("none of apt-get, dnf and apk is installed; install your system's packages for: %s",
		strings.Join(managers[0].packages, ", "))
}

// commands returns the commands to run, and an error as well if the user needs sudo
// and it is not installed.
func (m packageManager) commands(packages []string, root bool) ([][]string, error) {
	var prefix []string
	var err error
	if !root {
		// Children are in process groups of their own, so the kernel would stop a
		// child that reads the terminal.
		prefix = []string{"sudo", "-n"}
		if m.env != nil {
			prefix = slices.Concat(prefix, []string{"env"}, m.env) // sudo clears the environment
		}
		if _, missing := supervise.LookPath("sudo", os.Environ()); missing != nil {
			prefix = nil
			err = fmt.Errorf("only root may install packages, and sudo is not installed; run this as root")
		}
	}
	command := func(args ...string) []string { return slices.Concat(prefix, []string{m.program}, args) }
	var list [][]string
	if m.refresh != nil {
		list = append(list, command(m.refresh...))
	}
	return append(list, command(slices.Concat(m.install, packages)...)), err
}

// execute runs commands one after the other.
func (p program) execute(ctx context.Context, commands [][]string, set []string) error {
	env := supervise.Environ(supervise.Inherit(false), set...)
	for _, c := range commands {
		child, err := supervise.Run(ctx, supervise.Spec{
			Path: c[0], Args: c[1:], Env: env, Stdout: p.stdout, Stderr: p.stderr,
		})
		if err != nil {
			return err
		}
		if exit := child.Exit(); exit.Code != 0 {
			if c[0] == "sudo" {
				return fmt.Errorf("%s: %v; if sudo wants a password, use: sudo %s install desktop --yes", strings.Join(c, " "), exit, p.name)
			}
			return fmt.Errorf("%s: %v", strings.Join(c, " "), exit)
		}
	}
	return nil
}

// missing returns the packages that are not installed, and all of them if the
// manager's query program is not there.
func (m packageManager) missing(ctx context.Context, packages []string) ([]string, error) {
	var out strings.Builder
	_, err := supervise.Run(ctx, supervise.Spec{
		Path: m.query[0], Args: slices.Concat(m.query[1:], packages), Stdout: &out, Stderr: io.Discard,
	})
	switch {
	case errors.Is(err, supervise.ErrNotFound):
		return packages, nil
	case err != nil:
		return nil, err
	}
	// The exit status only says whether all packages are installed. Lines about
	// others do not begin with their name, or show another state.
	installed := map[string]bool{}
	for line := range strings.Lines(out.String()) {
		f := strings.Fields(line)
		if len(f) == 1 || len(f) == 2 && f[1] == "installed" {
			installed[f[0]] = true
		}
	}
	return slices.DeleteFunc(slices.Clone(packages), func(name string) bool { return installed[name] }), nil
}
