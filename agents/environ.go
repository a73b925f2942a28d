package agents

import (
	"slices"
	"strings"

	"github.com/deskhand/deskhand/internal/supervise"
)

// providedNames lists the variables of this program that agents get with Config.CleanEnv, in
// addition to names with the prefixes and suffixes below. Without them they reach no model.
var providedNames = []string{
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

// inherited returns the part of this program's environment that agents get.
func inherited(clean bool, secrets []string) []string {
	env := supervise.Inherit(clean, secrets...)
	if !clean {
		return env
	}
	return append(env, slices.DeleteFunc(supervise.Inherit(false, secrets...), func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		begins := func(p string) bool { return strings.HasPrefix(name, p) }
		ends := func(s string) bool { return strings.HasSuffix(name, s) }
		return !slices.Contains(providedNames, name) && !slices.ContainsFunc(providedPrefixes, begins) && !slices.ContainsFunc(providedSuffixes, ends)
	})...)
}

// environ returns an agent's environment: base, set and IS_SANDBOX.
func environ(user supervise.User, base, set []string) []string {
	// As root, Claude Code asks for permissions unless this is exactly "1". Its adapter
	// accepts other values as well, and then they disagree.
	if user.Root() {
		set = append(set, "IS_SANDBOX=1")
	} else if !slices.Contains(base, "IS_SANDBOX=1") {
		set = append(set, "IS_SANDBOX")
	}
	return user.Environ(base, set...)
}
