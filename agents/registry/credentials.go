package registry

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
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
	r.reading.Lock()
	defer r.reading.Unlock()
	for _, agent := range wanted {
		f.files(agent, add)
	}
	list := slices.Collect(maps.Values(found))
	slices.SortFunc(list, func(a, b Credential) int { return cmp.Compare(a.Provider, b.Provider) })
	return list, nil
}

// AgentsWithCredentials returns the ids of the agents that would find a credential or need
// none. It reads files.
func (r *Registry) AgentsWithCredentials() map[string]bool {
	all, _ := r.Credentials(CredentialOptions{}) // no agent is named, so there is no error
	have := map[string]bool{}
	for _, a := range r.agents {
		have[a.ID] = a.provider == nil || slices.ContainsFunc(all, func(c Credential) bool {
			return slices.Contains(a.provider, provider(c.Provider))
		})
	}
	return have
}

func (r *Registry) home() string { return cmp.Or(r.cfg.Home, r.user.Home, r.variable("HOME")) }

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
				add(Credential{string(p), kind, "environment", name, secretOf(valueOf(f.env, name))})
			}
		}
		try(keyVariables[p], APIKey)
		if f.oauth {
			try(tokenVariables[p], OAuth)
		}
	}
}

// ampKeys are the members of a part of Amp's configuration.
type ampKeys struct {
	AnthropicAPIKey  string `json:"anthropicApiKey"`
	AnthropicAPIKey2 string `json:"anthropic_api_key"`
	APIKey           string `json:"apiKey"`
	APIKey2          string `json:"api_key"`
	AccessToken      string `json:"accessToken"`
	AccessToken2     string `json:"access_token"`
	Token            string `json:"token"`
}

// files finds credentials in an agent's files. It decodes only the members that it needs,
// because decoded JSON can take a hundred times the size of its text.
func (f finder) files(agent string, add func(Credential)) {
	if f.home == "" {
		return
	}
	switch agent {
	case "claude":
		f.claude(add)
	case "amp":
		var c struct {
			ampKeys
			Auth      ampKeys `json:"auth"`
			Anthropic ampKeys `json:"anthropic"`
		}
		file := f.read(".amp/config.json", maxCredentialFile, &c)
		key := secretOf(c.AnthropicAPIKey, c.AnthropicAPIKey2, c.APIKey, c.APIKey2, c.AccessToken, c.AccessToken2, c.Token,
			c.Auth.AnthropicAPIKey, c.Auth.APIKey, c.Auth.Token, c.Anthropic.APIKey, c.Anthropic.Token)
		add(Credential{string(anthropic), APIKey, agent, file, key})
	case "codex":
		var c struct {
			Key    string `json:"OPENAI_API_KEY"`
			Tokens struct {
				Access string `json:"access_token"`
			} `json:"tokens"`
		}
		file := f.read(".codex/auth.json", maxCredentialFile, &c)
		add(Credential{string(openai), APIKey, agent, file, secretOf(c.Key)})
		if f.oauth {
			add(Credential{string(openai), OAuth, agent, file, secretOf(c.Tokens.Access)})
		}
	case "opencode":
		f.opencode(add)
	case "gemini":
		var c struct {
			Access string `json:"access_token"`
		}
		if file := f.read(".gemini/oauth_creds.json", maxCredentialFile, &c); f.oauth {
			add(Credential{string(google), OAuth, agent, file, secretOf(c.Access)})
		}
	}
}

func (f finder) claude(add func(Credential)) {
	var c struct {
		Primary   string `json:"primaryApiKey"`
		Key       string `json:"apiKey"`
		Anthropic string `json:"anthropicApiKey"`
		Custom    string `json:"customApiKey"`
	}
	file := f.read(".claude.json", maxClaudeFile, &c)
	add(Credential{string(anthropic), APIKey, "claude", file, secretOf(c.Primary, c.Key, c.Anthropic, c.Custom)})
	if !f.oauth {
		return
	}
	var login struct {
		OAuth struct {
			Access  string          `json:"accessToken"`
			Expires json.RawMessage `json:"expiresAt"`
		} `json:"claudeAiOauth"`
	}
	file = f.read(".claude/.credentials.json", maxCredentialFile, &login)
	if f.valid(login.OAuth.Expires) {
		add(Credential{string(anthropic), OAuth, "claude", file, secretOf(login.OAuth.Access)})
	}
}

func (f finder) opencode(add func(Credential)) {
	var entries map[string]struct {
		Type, Key, Access string
		Expires           json.RawMessage
	}
	file := f.read(".local/share/opencode/auth.json", maxCredentialFile, &entries)
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		switch entry := entries[name]; {
		case entry.Type == "api":
			add(Credential{name, APIKey, "opencode", file, secretOf(entry.Key)})
		case entry.Type == "oauth" && f.oauth && f.valid(entry.Expires):
			add(Credential{name, OAuth, "opencode", file, secretOf(entry.Access)})
		}
	}
}

// secretOf returns the first of some texts that is not blank.
func secretOf(texts ...string) Secret {
	for _, text := range texts {
		if text = strings.TrimSpace(text); text != "" {
			return Secret{text}
		}
	}
	return Secret{}
}

// valid reports whether a time, in milliseconds or RFC 3339, is in the future. It is true for
// other values.
func (f finder) valid(expires json.RawMessage) bool {
	var milliseconds float64
	if json.Unmarshal(expires, &milliseconds) == nil {
		return milliseconds == 0 || time.UnixMilli(int64(milliseconds)).After(f.now)
	}
	var at time.Time
	return json.Unmarshal(expires, &at) != nil || at.After(f.now)
}

// Limits of the files. Claude Code's file also has a history.
const (
	maxCredentialFile = 1 << 20
	maxClaudeFile     = 16 << 20
)

// read decodes the JSON object in a file. Members that are missing, or of another type,
// do not change. The file is read with the rights of its user, who may replace it by a
// device or a link.
func (f finder) read(path string, limit int64, object any) (file string) {
	file = filepath.Join(f.home, filepath.FromSlash(path))
	var text []byte
	err := f.user.Do(func() (err error) {
		text, err = readCredentialFile(file, limit)
		return err
	})
	if err == nil {
		_ = json.Unmarshal(text, object)
	}
	return file
}

// readCredentialFile returns the content of a regular file. It does not block on a
// FIFO.
func readCredentialFile(file string, limit int64) ([]byte, error) {
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
	text, err := io.ReadAll(io.LimitReader(in, limit+1))
	if err == nil && int64(len(text)) > limit {
		err = fmt.Errorf("read %s: has more than %d bytes", file, limit)
	}
	return text, err
}
