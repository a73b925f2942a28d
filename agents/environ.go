package agents

import (
	"fmt"
	"os"
	"os/user"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/deskhand/deskhand/internal/supervise"
)

// provided is what agents see of this program's environment even with a minimal
// one, beside names that begin or end as below: without it they reach no model.
var provided = []string{
	"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "no_proxy", "all_proxy",
	"SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "GIT_SSL_CAINFO",
	"XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME", "TMPDIR", "LOGNAME", "SHELL",
}

var (
	providedPrefixes = []string{
		"ANTHROPIC_", "CLAUDE_", "OPENAI_", "CODEX_", "GEMINI_", "GOOGLE_", "OPENCODE_", "CURSOR_", "AMP_", "PI_", "AWS_", "AZURE_",
	}
	providedSuffixes = []string{"_API_KEY", "_BASE_URL", "_AUTH_TOKEN"}
)

// inherited is this program's environment as agents see it.
func inherited(clean bool, secrets []string) []string {
	env := supervise.Inherit(clean, secrets...)
	if !clean {
		return env
	}
	return append(env, slices.DeleteFunc(supervise.Inherit(false, secrets...), func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		begins := func(p string) bool { return strings.HasPrefix(name, p) }
		ends := func(s string) bool { return strings.HasSuffix(name, s) }
		return !slices.Contains(provided, name) && !slices.ContainsFunc(providedPrefixes, begins) && !slices.ContainsFunc(providedSuffixes, ends)
	})...)
}

// runAs is the user that agents run as; the zero value: the one that we are.
type runAs struct {
	credential *syscall.Credential
	name, home string
}

// lookupUser finds a user by name or number.
func lookupUser(name string) (runAs, error) {
	if name == "" {
		return runAs{}, nil
	}
	u, err := user.Lookup(name)
	if err != nil {
		if u, err = user.LookupId(name); err != nil {
			return runAs{}, fmt.Errorf("user %.40q does not exist here", name)
		}
	}
	if u.Uid == strconv.Itoa(os.Geteuid()) {
		return runAs{}, nil
	}
	if os.Geteuid() != 0 {
		return runAs{}, fmt.Errorf("only root may run agents as another user, here %.40q", name)
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return runAs{}, fmt.Errorf("user %.40q: %w", name, err)
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	if err != nil {
		return runAs{}, fmt.Errorf("user %.40q: %w", name, err)
	}
	c := &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	ids, err := u.GroupIds()
	if err != nil {
		return runAs{}, fmt.Errorf("groups of user %.40q: %w", name, err)
	}
	for _, id := range ids {
		if n, err := strconv.ParseUint(id, 10, 32); err == nil {
			c.Groups = append(c.Groups, uint32(n))
		}
	}
	return runAs{c, u.Username, u.HomeDir}, nil
}

// homes name folders below a user's home.
var homes = []string{"XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR"}

// environ is what an agent gets: base, what its launch adds, and what has to be.
func (r runAs) environ(base []string, sets ...[]string) []string {
	var set []string
	root := os.Geteuid() == 0 && r.credential == nil
	if r.credential != nil {
		set = append(set, "HOME="+r.home, "USER="+r.name, "LOGNAME="+r.name)
		set = append(set, homes...) // ours, which that user may not read
		root = r.credential.Uid == 0
	}
	for _, s := range sets {
		set = append(set, s...)
	}
	// Claude Code asks for permissions as root unless this is exactly "1"; its
	// adapter takes other values for true as well, and then the two disagree.
	if root {
		set = append(set, "IS_SANDBOX=1")
	} else if !slices.Contains(base, "IS_SANDBOX=1") {
		set = append(set, "IS_SANDBOX")
	}
	return supervise.Environ(base, set...)
}
