package registry

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/deskhand/deskhand/internal/supervise"
)

// provider is a model vendor.
type provider string

const (
	anthropic provider = "anthropic"
	openai    provider = "openai"
	google    provider = "google"
)

// Secret is a text that is masked in formatted text, logs and JSON. [Secret.Reveal] returns
// it.
type Secret struct{ text string }

// Reveal returns the secret.
func (s Secret) Reveal() string { return s.text }

// String returns the ends of the secret, or only asterisks for a short one.
func (s Secret) String() string {
	const ends, least = 4, 16
	if len(s.text) < least {
		return strings.Repeat("*", min(len(s.text), least))
	}
	return s.text[:ends] + "..." + s.text[len(s.text)-ends:]
}

// GoString implements fmt.GoStringer, for %#v.
func (s Secret) GoString() string { return s.String() }

// LogValue implements slog.LogValuer.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// MarshalText implements encoding.TextMarshaler.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// CredentialType is the type of a credential.
type CredentialType string

// The types of credentials.
const (
	APIKey CredentialType = "api_key"
	OAuth  CredentialType = "oauth"
)

// Credential is a key or token on this machine.
type Credential struct {
	Provider string // "anthropic", "openai", "google", or another provider of opencode
	Type     CredentialType

	// Source is "environment" or the agent that the file belongs to. Where is the variable
	// or the file.
	Source, Where string

	Secret Secret
}

// CredentialOptions selects credentials.
type CredentialOptions struct {
	// Agent selects the credentials of claude, codex, opencode, amp or gemini. Empty: all.
	Agent string

	// NoOAuth excludes tokens of logged-in users.
	NoOAuth bool
}

// Credentials finds the credentials that agents would use, at most one of each provider. The
// environment precedes files. Files that are missing or cannot be decoded have none. The
// error is [ErrUnknownAgent].
func (r *Registry) Credentials(o CredentialOptions) ([]Credential, error) {
	wanted := []string{"amp", "claude", "codex", "opencode", "gemini"}
	if o.Agent != "" {
		if _, err := r.find(o.Agent); err != nil {
			return nil, err
		}
		wanted = []string{o.Agent}
	}
	f := finder{user: r.user, home: r.home(), env: r.environment(), oauth: !o.NoOAuth, now: time.Now()}
	found := map[string]Credential{}
	add := func(c Credential) {
		if _, known := found[c.Provider]; !known && c.Secret.text != "" {
			found[c.Provider] = c
		}
	}
	for _, agent := range wanted {
		f.environment(agent, add)
	}
	for _, agent := range wanted {
		f.files(agent, add)
	}
	list := slices.Collect(maps.Values(found))
	slices.SortFunc(list, func(a, b Credential) int { return cmp.Compare(a.Provider, b.Provider) })
	return list, nil
}

// HasCredentials reports whether an agent would find a credential, or needs none.
func (r *Registry) HasCredentials(id string) bool {
	a, err := r.find(id)
	if err != nil {
		return false
	}
	if a.provider == nil {
		return true
	}
	all, err := r.Credentials(CredentialOptions{})
	if err != nil {
		return false
	}
	return slices.ContainsFunc(all, func(c Credential) bool { return slices.Contains(a.provider, provider(c.Provider)) })
}

func (r *Registry) home() string { return cmp.Or(r.cfg.Home, r.user.Home, r.variable("HOME")) }

// finder finds credentials.
type finder struct {
	user  supervise.User // the owner of the files
	home  string
	env   []string
	oauth bool
	now   time.Time
}

// keyVariables names the variables of keys. The first one that is set counts.
var keyVariables = map[provider][]string{
	anthropic: {"ANTHROPIC_API_KEY", "CLAUDE_API_KEY"},
	openai:    {"OPENAI_API_KEY", "CODEX_API_KEY"},
	google:    {"GEMINI_API_KEY", "GOOGLE_API_KEY"},
}

// tokenVariables names the variables of tokens.
var tokenVariables = map[provider][]string{anthropic: {"CLAUDE_CODE_OAUTH_TOKEN", "ANTHROPIC_AUTH_TOKEN"}}

func (f finder) environment(agent string, add func(Credential)) {
	i := slices.IndexFunc(agents, func(a Agent) bool { return a.ID == agent })
	if i < 0 {
		return
	}
	for _, p := range agents[i].provider {
		try := func(names []string, kind CredentialType) {
			for _, name := range names {
				if v := strings.TrimSpace(valueOf(f.env, name)); v != "" {
					add(Credential{string(p), kind, "environment", name, Secret{v}})
				}
			}
		}
		try(keyVariables[p], APIKey)
		if f.oauth {
			try(tokenVariables[p], OAuth)
		}
	}
}

// files finds credentials in an agent's files.
func (f finder) files(agent string, add func(Credential)) {
	if f.home == "" {
		return
	}
	switch agent {
	case "claude":
		f.claude(add)
	case "amp":
		f.keys(agent, anthropic, ".amp/config.json", add,
			"anthropicApiKey", "anthropic_api_key", "apiKey", "api_key", "accessToken", "access_token", "token",
			"auth.anthropicApiKey", "auth.apiKey", "auth.token", "anthropic.apiKey", "anthropic.token")
	case "codex":
		f.keys(agent, openai, ".codex/auth.json", add, "OPENAI_API_KEY")
		if file, tokens := f.read(".codex/auth.json"); f.oauth {
			add(Credential{string(openai), OAuth, agent, file, Secret{text(tokens, "tokens.access_token")}})
		}
	case "opencode":
		f.opencode(add)
	case "gemini":
		if file, tokens := f.read(".gemini/oauth_creds.json"); f.oauth {
			add(Credential{string(google), OAuth, agent, file, Secret{text(tokens, "access_token")}})
		}
	}
}

func (f finder) claude(add func(Credential)) {
	f.keys("claude", anthropic, ".claude.json", add, "primaryApiKey", "apiKey", "anthropicApiKey", "customApiKey")
	if !f.oauth {
		return
	}
	file, content := f.read(".claude/.credentials.json")
	if f.valid(member(content, "claudeAiOauth.expiresAt")) {
		add(Credential{string(anthropic), OAuth, "claude", file, Secret{text(content, "claudeAiOauth.accessToken")}})
	}
}

func (f finder) opencode(add func(Credential)) {
	file, content := f.read(".local/share/opencode/auth.json")
	for _, name := range slices.Sorted(maps.Keys(content)) {
		entry, ok := content[name].(map[string]any)
		switch {
		case !ok:
		case entry["type"] == "api":
			add(Credential{name, APIKey, "opencode", file, Secret{text(entry, "key")}})
		case entry["type"] == "oauth" && f.oauth && f.valid(entry["expires"]):
			add(Credential{name, OAuth, "opencode", file, Secret{text(entry, "access")}})
		}
	}
}

// keys adds the first of some members of a file that is text.
func (f finder) keys(agent string, p provider, path string, add func(Credential), members ...string) {
	file, content := f.read(path)
	for _, name := range members {
		if key := text(content, name); key != "" {
			add(Credential{string(p), APIKey, agent, file, Secret{key}})
			return
		}
	}
}

// valid reports whether a time, in milliseconds or RFC 3339, is in the future. It is true for
// other values.
func (f finder) valid(expires any) bool {
	switch t := expires.(type) {
	case float64:
		return t == 0 || time.UnixMilli(int64(t)).After(f.now)
	case string:
		at, err := time.Parse(time.RFC3339, t)
		return err != nil || at.After(f.now)
	}
	return true
}

// credentialFileMost bounds a file. .claude.json also has a history.
const credentialFileMost = 64 << 20

// read returns a file's JSON object, or nil. It reads with the rights of the file's user, since
// that user may replace the file by a device or a link.
func (f finder) read(path string) (file string, content map[string]any) {
	file = filepath.Join(f.home, filepath.FromSlash(path))
	var text []byte
	err := f.user.Do(func() (err error) {
		text, err = readCredentialFile(file)
		return err
	})
	if err != nil || json.Unmarshal(text, &content) != nil {
		return file, nil
	}
	return file, content
}

// readCredentialFile returns the content of a regular file. It does not block on a
// FIFO.
func readCredentialFile(file string) ([]byte, error) {
	in, err := os.OpenFile(file, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	info, err := in.Stat()
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("read %s: is not a regular file", file)
	}
	text, err := io.ReadAll(io.LimitReader(in, credentialFileMost+1))
	if err == nil && len(text) > credentialFileMost {
		err = fmt.Errorf("read %s: has more than %d bytes", file, credentialFileMost)
	}
	return text, err
}

// member returns the member at a path of names, or nil.
func member(content map[string]any, path string) any {
	var at any = content
	for name := range strings.SplitSeq(path, ".") {
		object, ok := at.(map[string]any)
		if !ok {
			return nil
		}
		at = object[name]
	}
	return at
}

func text(content map[string]any, path string) string {
	s, _ := member(content, path).(string)
	return strings.TrimSpace(s)
}
