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
// SANDBOX_AGENT_TOKEN, which hold tokens, keys and the database's address, and without
// the variables that secrets names. With clean it keeps only HOME, LANG, LC_*, PATH,
// TERM, TZ and USER.
func Inherit(clean bool, secrets ...string) []string {
	return slices.DeleteFunc(os.Environ(), func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		switch {
		case strings.HasPrefix(name, "DESKHAND_"), name == "SANDBOX_AGENT_TOKEN", slices.Contains(secrets, name):
			return true
		case clean:
			return !slices.Contains(minimal, name) && !strings.HasPrefix(name, "LC_")
		}
		return false
	})
}
