package main

import (
	"bufio"
	"context"
	"fmt"
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
	packages []string
	fonts    []string
}

// managers are those that this program knows, in the order in which they are
// looked for.
var managers = []packageManager{
	{
		name: "apt", program: "apt-get", refresh: []string{"update"}, install: []string{"install", "-y", "--no-install-recommends", "-o", "Dpkg::Use-Pty=0"},
		packages: []string{
			"xvfb", "openbox", "dbus", "ffmpeg", "pulseaudio", "xdg-utils", "xauth", "x11-xserver-utils", "xterm", "ca-certificates",
		},
		fonts: []string{"fonts-dejavu-core", "fonts-noto-cjk", "fonts-noto-color-emoji"},
	},
	{
		name: "dnf", program: "dnf", install: []string{"install", "-y", "--setopt=install_weak_deps=False"},
		packages: []string{
			"xorg-x11-server-Xvfb", "openbox", "dbus-daemon", "ffmpeg-free", "pulseaudio", "xdg-utils", "xorg-x11-xauth",
			"xsetroot", "xrdb", "xterm", "ca-certificates",
		},
		fonts: []string{"dejavu-sans-fonts", "dejavu-sans-mono-fonts", "google-noto-sans-cjk-fonts", "google-noto-color-emoji-fonts"},
	},
	{
		name: "apk", program: "apk", install: []string{"add", "--no-cache"},
		packages: []string{
			"xvfb", "openbox", "dbus", "ffmpeg", "pulseaudio", "xdg-utils", "xauth", "xsetroot", "xrdb", "xterm", "ca-certificates",
		},
		fonts: []string{"font-dejavu", "font-noto-cjk", "font-noto-emoji"},
	},
}

func (p program) install(ctx context.Context, args []string) error {
	flags := p.flags("install desktop", aboutInstall)
	yes := flags.BoolP("yes", "y", false, "do not ask")
	printOnly := flags.Bool("print-only", false, "print the commands instead of running them")
	name := flags.String("package-manager", "", "`apt|dnf|apk`; the one that is installed, unless given")
	noFonts := flags.Bool("no-fonts", false, "leave the fonts out")
	flags.Bool("no-telemetry", true, "accepted for compatibility")
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
	commands, err := m.commands(!*noFonts, os.Geteuid() == 0)
	if err != nil && !*printOnly {
		return err
	}
	for _, c := range commands {
		fmt.Fprintln(p.stdout, strings.Join(c, " "))
	}
	if *printOnly {
		return nil
	}
	if !*yes {
		if err := p.confirm(); err != nil {
			return err
		}
	}
	return p.execute(ctx, commands)
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
	return packageManager{}, fmt.Errorf("none of apt-get, dnf and apk is installed; install by hand what your system calls: %s",
		strings.Join(managers[0].packages, ", "))
}

// commands are what has to be run. Without sudo they are returned with an error
// when the user may not run them.
func (m packageManager) commands(fonts, root bool) ([][]string, error) {
	packages := slices.Clone(m.packages)
	if fonts {
		packages = append(packages, m.fonts...)
	}
	var prefix []string
	var err error
	if !root {
		// A child that asks on the terminal would be stopped: it is in a process
		// group of its own.
		prefix = []string{"sudo", "-n"}
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

// confirm asks the user.
func (p program) confirm() error {
	if info, err := p.stdin.Stat(); err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return usagef("standard input is no terminal to ask on; give --yes")
	}
	fmt.Fprint(p.stdout, "Run this? [y/N] ")
	answer, err := bufio.NewReader(p.stdin).ReadString('\n')
	if err != nil {
		return fmt.Errorf("read the answer: %w", err)
	}
	if a := strings.ToLower(strings.TrimSpace(answer)); a != "y" && a != "yes" {
		return fmt.Errorf("nothing was installed")
	}
	return nil
}

// execute runs commands one after the other, as if from a shell.
func (p program) execute(ctx context.Context, commands [][]string) (err error) {
	group, err := supervise.NewGroup(supervise.GroupConfig{Owner: "system"})
	if err != nil {
		return err
	}
	defer func() {
		if closeErr := group.Close(); err == nil {
			err = closeErr
		}
	}()
	env := supervise.Environ(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
	for _, c := range commands {
		child, err := group.Start(supervise.Spec{
			Path: c[0], Args: c[1:], Env: env, Stdout: p.stdout, Stderr: p.stderr,
		})
		if err != nil {
			return err
		}
		select {
		case <-child.Done():
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if exit := child.Exit(); exit.Code != 0 {
			if c[0] == "sudo" {
				return fmt.Errorf("%s: %v; where sudo asks for a password, use: sudo %s install desktop --yes", strings.Join(c, " "), exit, p.name)
			}
			return fmt.Errorf("%s: %v", strings.Join(c, " "), exit)
		}
	}
	return nil
}
