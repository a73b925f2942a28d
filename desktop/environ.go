package desktop

import (
	"os"
	"slices"
	"strings"

	"github.com/deskhand/deskhand/internal/supervise"
)

// foreign are variables that tie a program to another session or display, or
// to another user's files; a desktop's programs must not see this program's.
var foreign = []string{
	"DISPLAY", "XAUTHORITY", "WAYLAND_DISPLAY", "DBUS_SESSION_BUS_ADDRESS", "SESSION_MANAGER",
	"DESKTOP_STARTUP_ID", "XDG_RUNTIME_DIR", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME",
	"XDG_CACHE_HOME", "XDG_SESSION_ID", "XDG_SESSION_TYPE", "XDG_SEAT", "XDG_VTNR", "XDG_CURRENT_DESKTOP",
	"DESKTOP_SESSION", "WINDOWID", "GPG_AGENT_INFO", "SSH_AUTH_SOCK", "PWD", "OLDPWD",
}

// clean is what EnvClean lets through, beside LC_*.
var clean = []string{"PATH", "LANG", "TZ", "TERM", "USER"}

// environ is the environment of the desktop's programs.
func (d *Desktop) environ(display string) []string {
	var env []string
	for _, kv := range os.Environ() {
		name, _, _ := strings.Cut(kv, "=")
		if d.passesOn(name) {
			env = append(env, kv)
		}
	}
	set := []string{"DISPLAY=" + display, "HOME=" + d.dirs.home, "PWD=" + d.dirs.home}
	if d.attached != "" {
		// The display is the user's own, and so is everything around it.
		env, set = os.Environ(), []string{"DISPLAY=" + display}
		env = slices.DeleteFunc(env, func(kv string) bool { return d.secret(strings.SplitN(kv, "=", 2)[0]) })
	} else {
		set = append(set, "XAUTHORITY="+d.dirs.authority, "XDG_RUNTIME_DIR="+d.dirs.runtime,
			"DBUS_SESSION_BUS_ADDRESS="+d.busAddress(), "XDG_SESSION_TYPE=x11")
	}
	path := lookup(env, "PATH")
	if path == "" {
		path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
		set = append(set, "PATH="+path)
	}
	set = append(set, d.shimEnv(path, lookup(env, "XDG_DATA_DIRS"))...)
	set = append(set, locale(env)...)
	return supervise.Environ(env, append(set, d.cfg.Env...)...)
}

func (d *Desktop) passesOn(name string) bool {
	if d.secret(name) || slices.Contains(foreign, name) {
		return false
	}
	if d.cfg.EnvPolicy == EnvClean {
		return slices.Contains(clean, name) || strings.HasPrefix(name, "LC_")
	}
	return true
}

// secret says whether a variable is this program's own affair.
func (d *Desktop) secret(name string) bool {
	return slices.Contains(d.cfg.Secrets, name) || strings.HasPrefix(name, "DESKHAND_") || name == "SANDBOX_AGENT_TOKEN"
}

// locale makes sure that programs read their input as UTF-8: in the C locale
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

// lookup is a variable's value in an environment; the last one counts.
func lookup(env []string, name string) string {
	v := ""
	for _, kv := range env {
		if k, val, _ := strings.Cut(kv, "="); k == name {
			v = val
		}
	}
	return v
}

func (d *Desktop) busAddress() string { return "unix:path=" + d.dirs.runtime + "/bus" }
