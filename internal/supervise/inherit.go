package supervise

import (
	"os"
	"slices"
	"strings"
)

// minimal is what a minimal environment keeps of this program's, beside LC_*.
var minimal = []string{"HOME", "LANG", "PATH", "TERM", "TZ", "USER"}

// Inherit returns this program's environment as children may see it: without
// the variables that are its own affair (DESKHAND_*, SANDBOX_AGENT_TOKEN, which
// hold its token, its database's address and its keys) and those that secrets
// names. With clean, only HOME, LANG, LC_*, PATH, TERM, TZ and USER are kept.
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
