package desktop

import (
	"fmt"
	"slices"
	"strings"

	"github.com/deskhand/deskhand/internal/supervise"
)

// foreign lists the variables that describe this program's own session, display and user.
// The desktop's programs do not get them.
var foreign = []string{
	"DISPLAY", "XAUTHORITY", "WAYLAND_DISPLAY", "DBUS_SESSION_BUS_ADDRESS", "SESSION_MANAGER",
	"DESKTOP_STARTUP_ID", "XDG_RUNTIME_DIR", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME",
	"XDG_CACHE_HOME", "XDG_SESSION_ID", "XDG_SESSION_TYPE", "XDG_SEAT", "XDG_VTNR", "XDG_CURRENT_DESKTOP",
	"DESKTOP_SESSION", "WINDOWID", "GPG_AGENT_INFO", "SSH_AUTH_SOCK", "PWD", "OLDPWD",
	"PULSE_SERVER", "PULSE_SINK", "PULSE_SOURCE", "PULSE_COOKIE", "PULSE_CLIENTCONFIG", "PULSE_RUNTIME_PATH", "PULSE_STATE_PATH",
	"PIPEWIRE_REMOTE", "PIPEWIRE_RUNTIME_DIR",
}

// Environ returns the complete environment of the programs on this desktop: DISPLAY,
// XAUTHORITY, the D-Bus session, HOME, and the variables of this program that
// Config.EnvPolicy selects. It returns [ErrClosed], or [ErrRestarting] while there is no X
// server.
func (d *Desktop) Environ() ([]string, error) {
	s, err := d.enter()
	if err != nil {
		return nil, fmt.Errorf("environ: %w", err)
	}
	defer d.leave()
	return slices.Clone(s.env), nil
}

// environ is the environment of the desktop's programs.
func (p *programs) environ(display string) []string {
	env := p.plainEnviron("DISPLAY=" + display)
	shims := p.shimEnv(lookup(env, "PATH"), lookup(env, "XDG_DATA_DIRS"))
	return supervise.Environ(env, append(shims, p.cfg.Env...)...)
}

// serverEnviron is the environment of the X server. It makes the C library allocate the
// screen in huge pages, because page faults of small ones would take a quarter of the time of
// Start (glibc manual, "Memory Allocation Tunables").
func (p *programs) serverEnviron() []string {
	env := p.plainEnviron("DISPLAY")
	tunables := "glibc.malloc.hugetlb=1"
	if v := lookup(env, "GLIBC_TUNABLES"); v != "" {
		tunables = v + ":" + tunables
	}
	return supervise.Environ(env, "GLIBC_TUNABLES="+tunables)
}

// plainEnviron is the environment that all programs of the desktop share. display is an
// entry, or the name of a variable to leave out.
func (p *programs) plainEnviron(display string) []string {
	clean := p.cfg.EnvPolicy == EnvClean && p.attached == ""
	env := slices.DeleteFunc(supervise.Inherit(clean, p.cfg.Secrets...), func(kv string) bool {
		// An attached display is the user's own, and so is everything around it.
		name, _, _ := strings.Cut(kv, "=")
		return p.attached == "" && slices.Contains(foreign, name)
	})
	set := append([]string{display}, p.temp...)
	if p.attached == "" || p.cfg.Home != "" {
		set = append(set, "HOME="+p.dirs.home, "PWD="+p.dirs.home)
	}
	if p.attached == "" {
		set = append(set, "XAUTHORITY="+p.dirs.authority, "XDG_RUNTIME_DIR="+p.dirs.runtime,
			"DBUS_SESSION_BUS_ADDRESS="+p.busAddress(), "XDG_SESSION_TYPE=x11",
			// Also without PulseAudio, so that no program starts one.
			"PULSE_SERVER=unix:"+p.soundSocket())
	}
	if lookup(env, "PATH") == "" {
		set = append(set, "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
	}
	return p.user.Environ(env, append(set, locale(env)...)...)
}

// locale returns the variable that makes the encoding UTF-8 if it is not. In the C locale,
// xterm shows typed text as question marks.
func locale(env []string) []string {
	plain := func(v string) bool { return v == "" || v == "C" || v == "POSIX" }
	all, ctype, lang := lookup(env, "LC_ALL"), lookup(env, "LC_CTYPE"), lookup(env, "LANG")
	switch {
	case all != "" && plain(all):
		return []string{"LC_ALL=C.UTF-8"}
	case all != "":
		return nil
	case ctype != "" && plain(ctype):
		return []string{"LC_CTYPE=C.UTF-8"}
	case ctype == "" && plain(lang):
		return []string{"LANG=C.UTF-8"}
	}
	return nil
}

// lookup returns a variable's value in an environment. The last entry counts.
func lookup(env []string, name string) string {
	v := ""
	for _, kv := range env {
		if k, val, _ := strings.Cut(kv, "="); k == name {
			v = val
		}
	}
	return v
}

func (p *programs) busAddress() string { return "unix:path=" + p.dirs.runtime + "/bus" }
