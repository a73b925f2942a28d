package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// TestPrintInstall compares the commands with what each distribution calls the
// programs that desktops need.
func TestPrintInstall(t *testing.T) {
	t.Parallel()
	const apt = "xvfb openbox dbus ffmpeg pulseaudio xdg-utils xauth x11-xserver-utils xterm at-spi2-core ca-certificates"
	const dnf = "xorg-x11-server-Xvfb openbox dbus-daemon ffmpeg-free pulseaudio xdg-utils xorg-x11-xauth xsetroot xrdb xterm at-spi2-core ca-certificates"
	const apk = "xvfb openbox dbus ffmpeg pulseaudio xdg-utils xauth xsetroot xrdb xterm at-spi2-core ca-certificates"
	prefix := ""
	if os.Geteuid() != 0 {
		if _, err := exec.LookPath("sudo"); err == nil {
			prefix = "sudo -n "
		}
	}
	for manager, c := range map[string]struct{ begin, packages, fonts string }{
		"apt": {"apt-get install -y ", apt, "fonts-dejavu-core fonts-noto-cjk fonts-noto-color-emoji"},
		"dnf": {"dnf install -y ", dnf, "dejavu-sans-fonts dejavu-sans-mono-fonts google-noto-sans-cjk-fonts google-noto-color-emoji-fonts"},
		"apk": {"apk add ", apk, "font-dejavu font-noto-cjk font-noto-emoji"},
	} {
		for _, fonts := range []bool{true, false} {
			args, want := []string{"install", "desktop", "--print-only", "--package-manager", manager}, c.packages
			if fonts {
				want += " " + c.fonts
			} else {
				args = append(args, "--no-fonts")
			}
			got := runCommandLine(t, environ(t), args...)
			lines := strings.Split(strings.TrimSuffix(got.stdout, "\n"), "\n")
			if manager == "apt" {
				if i := strings.Index(lines[0], "apt-get update"); i < 0 {
					t.Errorf("%q: the first command is %q, want apt-get update", args, lines[0])
				}
				lines = lines[1:]
			}
			if got.status != exitOK || len(lines) != 1 || !strings.HasPrefix(lines[0], prefix) ||
				!strings.Contains(lines[0], c.begin) || !strings.HasSuffix(lines[0], " "+want) {
				t.Errorf("%q: %+v; want %s%s... %s", args, got, prefix, c.begin, want)
			}
		}
	}
}

// TestChooseManager wants the installed package manager.
func TestChooseManager(t *testing.T) {
	t.Parallel()
	for _, program := range []string{"apt-get", "dnf", "apk"} {
		dir := t.TempDir()
		recorder(t, dir, program)
		got := runCommandLine(t, append(environ(t), "PATH="+dir), "install", "desktop", "--print-only")
		if got.status != exitOK || !strings.Contains(got.stdout, program+" ") {
			t.Errorf("%s: %+v", program, got)
		}
	}
	got := runCommandLine(t, append(environ(t), "PATH="+t.TempDir()), "install", "desktop", "--yes")
	if got.status != exitFailure || !strings.Contains(got.stderr, "none of apt-get, dnf and apk") || !strings.Contains(got.stderr, "openbox") {
		t.Errorf("without any: %+v", got)
	}
}

// recorder puts a program into a directory that writes down how it was called.
// What is to be tested ends there: which packages there are is the network's
// affair.
func recorder(t *testing.T, dir, program string) (record string) {
	t.Helper()
	record = filepath.Join(dir, program+".calls")
	script := "#!/bin/sh\necho \"$DEBIAN_FRONTEND:$DESKHAND_TOKEN$SANDBOX_AGENT_TOKEN$DESKHAND_DATABASE:$*\" >>'" + record + "'\necho fetched\n"
	if err := os.WriteFile(filepath.Join(dir, program), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	return record
}

// TestInstallMissing wants exactly the packages to be installed that the system's
// query does not list.
func TestInstallMissing(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("dpkg-query"); err != nil || os.Geteuid() != 0 {
		t.Skip("needs root on a Debian system")
	}
	missing := []string{}
	for _, name := range slices.Concat(managers[0].packages, managers[0].fonts) {
		out, _ := exec.Command("dpkg-query", "-W", "-f", "${db:Status-Abbrev}", name).Output()
		if string(out) != "ii " {
			missing = append(missing, name)
		}
	}
	dir := t.TempDir()
	record := recorder(t, dir, "apt-get")
	env := append(environ(t), "PATH="+dir+":"+os.Getenv("PATH"), "DESKHAND_TOKEN="+secret, "SANDBOX_AGENT_TOKEN="+secret, "DESKHAND_DATABASE="+secret)
	got := runCommandLine(t, env, "install", "desktop", "--yes", "--package-manager", "apt")
	calls, _ := os.ReadFile(record)
	if got.status != exitOK {
		t.Errorf("%+v", got)
	}
	if len(missing) == 0 {
		if len(calls) > 0 || !strings.Contains(got.stdout, "already installed") {
			t.Errorf("nothing is missing, called was apt-get %s, and said %q", calls, got.stdout)
		}
		return
	}
	lines := strings.Split(strings.TrimSpace(string(calls)), "\n")
	if len(lines) != 2 || lines[0] != "noninteractive::update" || !strings.HasPrefix(lines[1], "noninteractive::install -y ") ||
		!strings.HasSuffix(lines[1], "=0 "+strings.Join(missing, " ")) || !strings.Contains(got.stdout, "fetched") {
		t.Errorf("missing is %q, apt-get was called with %q, and said was %q", missing, lines, got.stdout)
	}

	unasked := runCommandLine(t, env, "install", "desktop", "--package-manager", "apt")
	if unasked.status != exitUsage || !strings.Contains(unasked.stderr, "--yes") {
		t.Errorf("without a terminal to ask on: %+v", unasked)
	}
	if again, _ := os.ReadFile(record); string(again) != string(calls) {
		t.Errorf("without leave it called %s", again)
	}
}

// TestInstallNothing gives the query's answer for a system with all packages.
func TestInstallNothing(t *testing.T) {
	t.Parallel()
	for manager, query := range map[string]string{"apt": "dpkg-query", "dnf": "rpm", "apk": "apk"} {
		dir := t.TempDir()
		state := ""
		if manager == "apt" {
			state = " installed"
		}
		record := recorder(t, dir, map[string]string{"apt": "apt-get", "dnf": "dnf", "apk": "apk"}[manager])
		script := "#!/bin/sh\n[ \"$1\" != add ] || echo $* >>'" + record + "'\nfor p in \"$@\"; do case $p in -*|info) ;; *) echo \"$p" + state + "\";; esac; done\n"
		if err := os.WriteFile(filepath.Join(dir, query), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
		got := runCommandLine(t, append(environ(t), "PATH="+dir), "install", "desktop", "--package-manager", manager)
		if want := (result{exitOK, "Everything is already installed.\n", ""}); got != want {
			t.Errorf("%s: %+v, want %+v", manager, got, want)
		}
		if calls, err := os.ReadFile(record); err == nil {
			t.Errorf("%s was called: %s", manager, calls)
		}
	}
}

// TestInstallFails wants what the package manager ended with to be passed on,
// and nothing more to be run.
func TestInstallFails(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	dir := t.TempDir()
	script := "#!/bin/sh\necho no network >&2\nexit 100\n"
	if err := os.WriteFile(filepath.Join(dir, "apt-get"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	got := runCommandLine(t, append(environ(t), "PATH="+dir), "install", "desktop", "-y")
	if got.status != exitFailure || !strings.Contains(got.stderr, "no network") || !strings.Contains(got.stderr, "apt-get update: exit status 100") {
		t.Errorf("%+v", got)
	}
	if n := strings.Count(got.stderr, "no network"); n != 1 {
		t.Errorf("it went on after a failure: %+v", got)
	}
}

// TestInstallNotRoot runs it as a user who may not install.
func TestInstallNotRoot(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "deskhand-cmd-") //nolint:usetesting // t.TempDir is closed to others
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	recorder(t, dir, "apt-get")
	run := func(args ...string) result {
		cmd := exec.Command(binary, append([]string{"install", "desktop"}, args...)...)
		cmd.Env = []string{"PATH=" + dir, "HOME=/"}
		if os.Geteuid() == 0 {
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		}
		return finish(t, cmd)
	}
	if got := run("--yes"); got.status != exitFailure || !strings.Contains(got.stderr, "only root may install packages, and sudo is not installed") {
		t.Errorf("without sudo: %+v", got)
	}
	if got := run("--print-only"); got.status != exitOK || !strings.HasPrefix(got.stdout, "apt-get update\n") {
		t.Errorf("without sudo, printed: %+v", got)
	}

	sudo := "#!/bin/sh\necho \"sudo: a password is required\" >&2\nexit 1\n"
	if err := os.WriteFile(filepath.Join(dir, "sudo"), []byte(sudo), 0o755); err != nil {
		t.Fatal(err)
	}
	got := run("--yes")
	if got.status != exitFailure || !strings.HasPrefix(got.stdout, "sudo -n env DEBIAN_FRONTEND=noninteractive apt-get update\n") ||
		!strings.Contains(got.stderr, "sudo deskhand install desktop --yes") {
		t.Errorf("with a sudo that wants a password: %+v", got)
	}
}

// TestPackageRecommends wants the .deb and the .rpm to recommend what install
// desktop installs.
func TestPackageRecommends(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../deploy/package/nfpm.yaml")
	if err != nil {
		t.Fatal(err)
	}
	lists := regexp.MustCompile(`(?m)^  (deb|rpm):\n    depends: .*\n    recommends: \[(.*)\]$`).FindAllStringSubmatch(string(text), -1)
	if len(lists) != 2 {
		t.Fatalf("it has the lists %q", lists)
	}
	for i, list := range lists {
		want := slices.Concat(managers[i].packages, managers[i].fonts)
		if got := strings.Split(list[2], ", "); !slices.Equal(got, want) {
			t.Errorf("%s: recommended are %q, and installed are %q", list[1], got, want)
		}
	}
}
