package supervise

import (
	"os"
	"slices"
	"strings"
)

// minimal lists the variables of a clean environment, together with LC_*.
var minimal = []string{"HOME", "LANG", "PATH", "TERM", "TZ", "USER"}

// Inherit returns this program's environment for children: without DESKHAND_* and
// SANDBOX_AGENT_TOKEN, which hold tokens, keys and the database's address, without the
// variables that secrets names, and without relative directories in PATH and LD_LIBRARY_PATH.
// With clean it keeps only HOME, LANG, LC_*, PATH, TERM, TZ and USER.
func Inherit(clean bool, secrets ...string) (env []string) {
	for _, kv := range os.Environ() {
		name, value, _ := strings.Cut(kv, "=")
		switch {
		case strings.HasPrefix(name, "DESKHAND_"), name == "SANDBOX_AGENT_TOKEN", slices.Contains(secrets, name):
			continue
		case clean && !slices.Contains(minimal, name) && !strings.HasPrefix(name, "LC_"):
			continue
		case name == "LD_LIBRARY_PATH":
			value = strings.ReplaceAll(value, ";", ":") // ld.so(8)
			fallthrough
		case name == "PATH":
			if value = absolute(value); value == "" {
				continue
			}
			kv = name + "=" + value
		}
		env = append(env, kv)
	}
	return env
}

// absolute returns a list of directories without those that are not absolute. They are in the working
// directory, where others may put files. An empty one is the working directory itself.
func absolute(list string) string {
	return strings.Join(slices.DeleteFunc(strings.Split(list, ":"), func(dir string) bool { return !strings.HasPrefix(dir, "/") }), ":")
}
