package supervise

import (
	"os"
	"slices"
	"strings"
)

// NoCompileCache is a variable for programs that may be npm, npx or others of node: they would
// execute compiled code that another user has put into node-compile-cache in the directory for
// temporary files.
const NoCompileCache = "NODE_DISABLE_COMPILE_CACHE=1"

// minimal lists the variables of a clean environment, together with LC_*.
var minimal = []string{"HOME", "LANG", "PATH", "TERM", "TZ", "USER"}

// Inherit returns this program's environment for children: without DESKHAND_* and
// SANDBOX_AGENT_TOKEN, which hold tokens, keys and the database's address, without the
// variables that secrets names, and without LD_LIBRARY_PATH if that has a relative path. With
// clean it keeps only HOME, LANG, LC_*, PATH, TERM, TZ and USER.
func Inherit(clean bool, secrets ...string) []string {
	return slices.DeleteFunc(os.Environ(), func(kv string) bool {
		name, value, _ := strings.Cut(kv, "=")
		switch {
		case name == "LD_LIBRARY_PATH" && hasRelative(value):
			return true
		case strings.HasPrefix(name, "DESKHAND_"), name == "SANDBOX_AGENT_TOKEN", slices.Contains(secrets, name):
			return true
		case clean:
			return !slices.Contains(minimal, name) && !strings.HasPrefix(name, "LC_")
		}
		return false
	})
}

// hasRelative reports whether a list of directories of libraries (ld.so(8)) has one that is not
// absolute. An empty one is the working directory, where others may put libraries.
func hasRelative(list string) bool {
	dirs := strings.Split(strings.ReplaceAll(list, ";", ":"), ":")
	return slices.ContainsFunc(dirs, func(dir string) bool { return !strings.HasPrefix(dir, "/") })
}
